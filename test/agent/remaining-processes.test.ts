/** Daemons that leave their container's session and parents, where no control group holds them. */
import { spawn } from "node:child_process";
import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { isAlive, type ProcessIdentity, readStat } from "../../src/agent/process-table.ts";
import { eventually } from "../support/eventually.ts";
import { runs, TestNode } from "./test-node.ts";
import { launchContext } from "./test-tracker.ts";

/** Forks twice, with a session of its own in between: the daemon's parent is the machine's first process. */
const DAEMON = `(setsid sh -c 'sh -c "echo \\$\\$; exec sleep 300" & exit' &)`;
const WAIT = "while [ ! -e go ]; do sleep 0.02; done";

let node: TestNode;
/** What this file has started, with start times: on a busy machine a pid is soon another's. */
const started: ProcessIdentity[] = [];
const remember = (pid: number) =>
  started.push({ pid, startTicks: readStat(pid)?.startTicks ?? 0, bootId: "" });
beforeEach(async () => {
  node = await TestNode.create();
});
afterEach(async () => {
  await node.close();
  for (const each of started.splice(0)) if (isAlive(each)) process.kill(each.pid, "SIGKILL");
});

/** The daemon that the container has printed as its `number`th, once nothing leads to it. */
async function daemonOf(id: string, number = 1): Promise<number> {
  const pid = await eventually(() => {
    const printed = Number(node.stdout(id).split("\n")[number - 1]);
    expect(printed).toBeGreaterThan(1);
    return printed;
  });
  remember(pid);
  await eventually(() => {
    const parent = readStat(readStat(pid)?.parentPid ?? 0);
    expect(parent?.name).not.toBe("sh");
  });
  return pid;
}

const release = (id: string) => writeFileSync(join(node.workDirectory(id), "go"), "");

it("[NM130] a daemon that has left its container ends with it, before its end is told", async () => {
  await node.start();
  const id = await node.run(1, launchContext(`${DAEMON}; ${WAIT}; exit 3`));
  const other = await node.run(2, launchContext(`${DAEMON}; ${WAIT}`));
  const [daemon, others] = [await daemonOf(id), await daemonOf(other)];
  release(id);
  const { exitStatus } = await node.tracker.untilState(id, "COMPLETE");
  expect(exitStatus).toBe(3);
  expect(runs(daemon)).toBe(false);
  expect(runs(others)).toBe(true);
});

it("[NM130] it ends also when the container is stopped", async () => {
  await node.start();
  const id = await node.run(1, launchContext(`${DAEMON}; ${WAIT}`));
  const daemon = await daemonOf(id);
  node.tracker.stop(id);
  await node.tracker.untilState(id, "COMPLETE");
  expect(runs(daemon)).toBe(false);
});

it("[NM130] it is known also when it has wiped its environment after the monitor saw it", async () => {
  await node.start({ monitorIntervalMs: 20 });
  // The rounds go on for another container while this one is being stopped.
  await node.run(2, launchContext("exec sleep 300"));
  // It waits, where it still belongs to the session, until a round has seen it there.
  const wiped = `${WAIT}; exec env -i setsid sh -c "echo \\$\\$; exec sleep 300"`;
  const id = await node.run(1, launchContext(`sh -c '${wiped}' & while :; do sleep 0.02; done`));
  await eventually(async () => {
    const { body = "" } = await node.tracker.query({ type: "usage", containerId: id });
    expect(JSON.parse(body).containers[0]?.processes).toBeGreaterThan(2);
  });
  release(id);
  const daemon = await daemonOf(id);
  node.tracker.stop(id);
  await node.tracker.untilState(id, "COMPLETE");
  expect(runs(daemon)).toBe(false);
});

it("[NM130] a process before a relaunch leaves nothing to the one after it", async () => {
  await node.start();
  const retry = { policy: "RETRY_ON_ALL_ERRORS", maxRetries: 1, retryIntervalMs: 0 } as const;
  const id = await node.run(
    1,
    launchContext(`${DAEMON}; ${WAIT}; rm go; exit 3`, {
      retry: { ...retry, failuresValidityIntervalMs: -1 },
    }),
  );
  const first = await daemonOf(id);
  release(id);
  const second = await daemonOf(id, 2);
  expect(runs(first)).toBe(false);
  expect(runs(second)).toBe(true);
  release(id);
  await node.tracker.untilState(id, "COMPLETE");
  expect(runs(second)).toBe(false);
});

it("[NM131] what a container left that ended without an agent goes when there is one again", async () => {
  const first = await node.start();
  const id = await node.run(1, launchContext(`${DAEMON}; ${WAIT}; exit 4`));
  const daemon = await daemonOf(id);
  await first.close();
  release(id);
  await eventually(() => expect(node.hasExitCode(id)).toBe(true));
  expect(runs(daemon)).toBe(true);
  await node.start();
  expect(node.tracker.statuses.get(id)).toMatchObject({ state: "COMPLETE", exitStatus: 4 });
  expect(runs(daemon)).toBe(false);
});

it("[NM131] containers whose records are gone are ended at the start, and nobody else's", async () => {
  const first = await node.start();
  const id = await node.run(1, launchContext(`${DAEMON}; ${WAIT}`));
  const daemon = await daemonOf(id);
  await first.close();
  const state = join(node.home, "nm-state");
  for (const name of readdirSync(state)) rmSync(join(state, name), { recursive: true });
  const LOCAL_DIRS = `/elsewhere/usercache/alice/appcache/${id}`;
  const stranger = spawn("sleep", ["300"], { env: { CONTAINER_ID: id, LOCAL_DIRS } });
  remember(stranger.pid ?? 0);
  node.tracker.desired.clear();
  await node.start();
  await eventually(() => expect(runs(daemon)).toBe(false));
  expect(runs(stranger.pid ?? 0)).toBe(true);
});
