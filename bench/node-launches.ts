/** How fast one node starts short containers, and ends them, whatever runs them. */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import type { ContainerLaunchContext } from "../src/shared/container.ts";
import type { DesiredContainer } from "../src/shared/protocol/resource-tracker.ts";
import { percentile } from "./measurement.ts";
import type { BenchNode } from "./node-agent.ts";
import { type Result, round } from "./node-report.ts";
import { childrenCpuSecondsOf, cpuSecondsOf } from "./process-usage.ts";

/** Nothing is heard for so long: something is broken. */
const SILENCE_MS = 60_000;

export type LaunchLoad = { readonly launches: number; readonly concurrency: number };

type Measured = LaunchLoad & {
  readonly wallMs: number;
  readonly latenciesMs: readonly number[];
  readonly ownSeconds: number;
  readonly childrenSeconds: number;
};

/**
 * Keeps `concurrency` containers ordered until all `launches` have ended and were reported; each end
 * is acknowledged, as a tracker does. Rejects when one ends with another code than 0.
 */
export async function launchesByAgent(
  name: string,
  node: BenchNode,
  launch: ContainerLaunchContext,
  load: LaunchLoad,
): Promise<Result> {
  const orders = await node.orders(load.launches, launch);
  const before = node.cpu();
  const startedMs = performance.now();
  const latenciesMs = await runOrders(node, orders, load.concurrency);
  const wallMs = performance.now() - startedMs;
  const after = node.cpu();
  return resultOf(name, {
    ...{ ...load, wallMs, latenciesMs },
    ownSeconds: after.agentSeconds - before.agentSeconds,
    childrenSeconds: after.childrenSeconds - before.childrenSeconds,
  });
}

/** From the order to the reported end, in ms, of each container. */
export function runOrders(
  { tracker }: BenchNode,
  orders: readonly DesiredContainer[],
  concurrency: number,
): Promise<number[]> {
  const { promise, resolve, reject } = Promise.withResolvers<number[]>();
  const orderedAtMs = new Map<string, number>();
  const latenciesMs: number[] = [];
  const ended: string[] = [];
  let next = 0;
  const order = (count: number) => {
    const batch = orders.slice(next, next + count);
    next += batch.length;
    for (const { containerId } of batch) orderedAtMs.set(containerId, performance.now());
    if (batch.length > 0) tracker.put(...batch);
  };
  const silence = setTimeout(() => reject(new Error("the agent is silent")), SILENCE_MS);
  const answer = () => {
    silence.refresh();
    tracker.acknowledge(...ended);
    order(ended.splice(0).length);
    if (latenciesMs.length === orders.length) resolve(latenciesMs);
  };
  tracker.onStatus = ({ containerId, state, exitStatus, diagnostics }) => {
    const sinceMs = orderedAtMs.get(containerId);
    if (state !== "COMPLETE" || sinceMs === undefined) return;
    if (exitStatus !== 0) reject(new Error(`${containerId}: ${exitStatus} ${diagnostics}`));
    orderedAtMs.delete(containerId);
    latenciesMs.push(performance.now() - sinceMs);
    // All that one message says is answered by one.
    if (ended.length === 0) setImmediate(answer);
    ended.push(containerId);
  };
  order(concurrency);
  return promise.finally(() => {
    clearTimeout(silence);
    tracker.onStatus = () => undefined;
  });
}

/** The floor: the same number of processes, spawned by Node with nothing around them. */
export async function launchesByNode(
  name: string,
  [command = "", ...words]: readonly string[],
  load: LaunchLoad,
): Promise<Result> {
  const latenciesMs: number[] = [];
  let left = load.launches;
  const work = async () => {
    while (left-- > 0) {
      const startedMs = performance.now();
      const child = spawn(command, words, { stdio: "ignore", detached: true });
      const [code] = await once(child, "exit");
      if (code !== 0) throw new Error(`${command} ended with ${code}`);
      latenciesMs.push(performance.now() - startedMs);
    }
  };
  const { own, children } = ownCpu();
  const startedMs = performance.now();
  await Promise.all(Array.from({ length: load.concurrency }, work));
  const wallMs = performance.now() - startedMs;
  const after = ownCpu();
  return resultOf(name, {
    ...{ ...load, wallMs, latenciesMs },
    ownSeconds: after.own - own,
    childrenSeconds: after.children - children,
  });
}

/** Below the floor: a shell that starts one shell after the other. */
export function launchesByShell(name: string, launches: number): Result {
  const loop = `i=0; while [ $i -lt ${launches} ]; do /bin/sh -c :; i=$((i+1)); done`;
  const { children } = ownCpu();
  const startedMs = performance.now();
  execFileSync("/bin/sh", ["-c", loop]);
  const wallMs = performance.now() - startedMs;
  const childrenSeconds = ownCpu().children - children;
  const each = { launches, concurrency: 1, latenciesMs: [wallMs / launches] };
  return resultOf(name, { ...each, wallMs, ownSeconds: 0, childrenSeconds });
}

function ownCpu() {
  return { own: cpuSecondsOf(process.pid), children: childrenCpuSecondsOf(process.pid) };
}

function resultOf(name: string, measured: Measured): Result {
  const { launches, concurrency, wallMs, latenciesMs, ownSeconds, childrenSeconds } = measured;
  return {
    name,
    value: round((launches / wallMs) * 1_000),
    unit: "1/s",
    p50Ms: round(percentile(latenciesMs, 0.5)),
    p99Ms: round(percentile(latenciesMs, 0.99)),
    cpuMsEach: round((ownSeconds * 1_000) / launches),
    childrenCpuMsEach: round((childrenSeconds * 1_000) / launches),
    wallSeconds: round(wallMs / 1_000),
    ...{ launches, concurrency },
  };
}
