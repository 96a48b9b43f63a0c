/** What containers that only run cost their agent, and how soon a restarted agent has them again. */
import { setTimeout as delay } from "node:timers/promises";
import { launchContext } from "../test/agent/test-tracker.ts";
import type { BenchNode } from "./node-agent.ts";
import { type Result, round } from "./node-report.ts";

export type RunningLoad = {
  /** Numbers of containers to measure at, growing. */
  readonly sizes: readonly number[];
  readonly idleSeconds: number;
  readonly concurrency: number;
};

/** A row for each size while nothing happens, and one for the agent's restart at the last size. */
export async function measureRunning(
  node: BenchNode,
  { sizes, idleSeconds, concurrency }: RunningLoad,
): Promise<Result[]> {
  const results = [await measureIdle(node, 0, idleSeconds)];
  let running = 0;
  for (const containers of sizes) {
    await startSleepers(node, containers - running, concurrency);
    running = containers;
    results.push(await measureIdle(node, containers, idleSeconds));
  }
  results.push(await measureRestart(node, running));
  return results;
}

async function startSleepers(node: BenchNode, count: number, concurrency: number): Promise<void> {
  const { tracker } = node;
  const orders = await node.orders(count, launchContext("exec sleep 100000"));
  for (let start = 0; start < count; start += concurrency) {
    const batch = orders.slice(start, start + concurrency);
    tracker.put(...batch);
    await tracker.until("all of them to run", () =>
      batch.every(({ containerId }) => tracker.statuses.get(containerId)?.state === "RUNNING"),
    );
  }
}

async function measureIdle(
  node: BenchNode,
  containers: number,
  idleSeconds: number,
): Promise<Result> {
  // What starting them has left to do, such as collecting garbage.
  await delay(2_000);
  const before = node.cpu().agentSeconds;
  const startedMs = performance.now();
  await delay(idleSeconds * 1_000);
  const cpuSeconds = node.cpu().agentSeconds - before;
  return {
    name: "running.cpu",
    value: round((100_000 * cpuSeconds) / (performance.now() - startedMs)),
    unit: "% of a core",
    ...{ rssMb: round(node.rssMb()), containers, idleSeconds },
  };
}

/** From the start of a new agent's process until it has told of all containers that they run. */
async function measureRestart(node: BenchNode, containers: number): Promise<Result> {
  const { tracker } = node;
  await node.endAgent("SIGKILL");
  const startedMs = performance.now();
  await node.startAgent();
  await tracker.until("all of them again", () => {
    const running = [...tracker.statuses.values()].filter(({ state }) => state === "RUNNING");
    return running.length === containers;
  });
  return {
    name: "running.restart",
    value: round(performance.now() - startedMs),
    unit: "ms",
    ...{ rssMb: round(node.rssMb()), containers, cpuSeconds: round(node.cpu().agentSeconds) },
  };
}
