import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { decideRetry } from "../../src/agent/container-retry.ts";
import type { ContainerRetry } from "../../src/shared/container.ts";
import { eventually } from "../support/eventually.ts";
import { TestNode } from "./test-node.ts";
import { launchContext } from "./test-tracker.ts";

const RETRY: ContainerRetry = {
  policy: "RETRY_ON_ALL_ERRORS",
  maxRetries: 3,
  retryIntervalMs: 1_000,
  failuresValidityIntervalMs: -1,
};

describe("whether a process that failed is started again", () => {
  it.each([0, 137, 143])("[NM6] not after exit code %i, whatever the policy", (exitCode) => {
    const retry = { ...RETRY, policy: "RETRY_ON_SPECIFIC_ERROR_CODES", errorCodes: [exitCode] };
    expect(decideRetry(RETRY, exitCode, [], 0)).toBeUndefined();
    expect(decideRetry(retry as ContainerRetry, exitCode, [], 0)).toBeUndefined();
  });

  it("[NM6] after the named exit codes only, where some are named", () => {
    const retry = { ...RETRY, policy: "RETRY_ON_SPECIFIC_ERROR_CODES", errorCodes: [3] } as const;
    expect(decideRetry(retry, 3, [], 0)).toBeDefined();
    expect(decideRetry(retry, 4, [], 0)).toBeUndefined();
    expect(decideRetry({ ...RETRY, policy: "NEVER_RETRY" }, 4, [], 0)).toBeUndefined();
    expect(decideRetry(undefined, 4, [], 0)).toBeUndefined();
  });

  it("[NM6] not sooner than after a second", () => {
    const decision = decideRetry({ ...RETRY, retryIntervalMs: 5 }, 1, [], 10_000);
    expect(decision?.relaunchAtMs).toBe(11_000);
  });

  it("[NM6] as often as allowed, counting the failures of the validity interval only", () => {
    const interval = fc.integer({ min: 1, max: 10_000 });
    const gaps = fc.array(fc.integer({ min: 0, max: 5_000 }), { maxLength: 40 });
    fc.assert(
      fc.property(interval, gaps, fc.integer({ min: 0, max: 5 }), (validMs, steps, maxRetries) => {
        const retry = { ...RETRY, maxRetries, failuresValidityIntervalMs: validMs };
        const failedAtMs: number[] = [];
        let failures: readonly number[] = [];
        let nowMs = 0;
        for (const step of steps) {
          nowMs += step;
          const counting = failedAtMs.filter((atMs) => atMs > nowMs - validMs).length;
          const decision = decideRetry(retry, 1, failures, nowMs);
          expect(decision !== undefined).toBe(counting < maxRetries);
          if (!decision) return;
          failedAtMs.push(nowMs);
          failures = decision.failures;
        }
      }),
    );
  });
});

let node: TestNode;
let agent: ChildProcess | undefined;
beforeEach(async () => {
  node = await TestNode.create();
});
afterEach(async () => {
  agent?.kill("SIGKILL");
  await node.close();
});

async function startAgentProcess(): Promise<ChildProcess> {
  const registrations = node.registrations;
  agent = spawn(process.execPath, [join(import.meta.dirname, "agent-process.ts")], {
    stdio: ["pipe", "ignore", "ignore"],
    env: { PATH: process.env["PATH"], NODE_NO_WARNINGS: "1" },
  });
  agent.stdin?.end(JSON.stringify(node.options));
  await node.tracker.until("the agent's registration", () => node.registrations > registrations);
  return agent;
}

it("[NM7] a crashed container is started again by its node, in its directory, and then reported", async () => {
  await node.start();
  const retry = { ...RETRY, maxRetries: 2 };
  const command = "echo run >> runs; wc -l < runs; exit 7";
  const id = await node.run(1, launchContext(command, { retry }));
  const status = await node.tracker.untilState(id, "COMPLETE");
  expect(status).toMatchObject({ exitStatus: 7, relaunches: 2 });
  expect(node.stdout(id).split("\n").map(Number)).toEqual([1, 2, 3, 0]);
  const seen = node.tracker.history.filter(({ subState }) => subState === "RELAUNCHING");
  expect(seen[0]).toMatchObject({ state: "RUNNING", ready: false });
  expect(seen[0]?.diagnostics).toContain("exit code 7");
});

it("[NM7] a container that waits to be started again can be stopped", async () => {
  await node.start();
  const retry = { ...RETRY, retryIntervalMs: 600_000 };
  const id = await node.run(1, launchContext("exit 1", { retry }));
  await node.tracker.until("it waits", () => {
    return node.tracker.statuses.get(id)?.subState === "RELAUNCHING";
  });
  node.tracker.stop(id);
  const status = await node.tracker.untilState(id, "COMPLETE");
  expect(status.exitStatus).toBe(-105);
});

it("[NM7] a restarted agent starts again what an earlier one would have", async () => {
  const first = await startAgentProcess();
  const command = "echo run >> runs; [ -e good ] && exec sleep 60; exit 1";
  const retry = { ...RETRY, retryIntervalMs: 1_500 };
  const id = await node.run(1, launchContext(command, { retry }));
  await node.tracker.until("it waits", () => {
    return node.tracker.statuses.get(id)?.subState === "RELAUNCHING";
  });
  const exit = once(first, "exit");
  first.kill("SIGKILL");
  await exit;
  writeFileSync(join(node.workDirectory(id), "good"), "");
  await node.start();
  const status = await node.tracker.until("it runs again", () => {
    const latest = node.tracker.statuses.get(id);
    return latest?.subState === "RUNNING" && latest;
  });
  expect(status.relaunches).toBe(1);
  await eventually(() => {
    expect(readFileSync(join(node.workDirectory(id), "runs"), "utf8")).toBe("run\nrun\n");
  });
});
