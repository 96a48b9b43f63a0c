import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { startNodeManager } from "../../src/agent/main.ts";
import { eventually } from "../support/eventually.ts";
import { storedRecord, storeRecord } from "../support/journal.ts";
import { NodeAudit } from "../support/node-audit.ts";
import { runs, TestNode } from "./test-node.ts";
import { launchContext } from "./test-tracker.ts";

let node: TestNode;
let audit: NodeAudit;
let agent: ChildProcess | undefined;
beforeEach(async () => {
  // Control groups are the machine's: no other test or agent may share this name.
  node = await TestNode.create("127.0.0.1:18043");
  audit = NodeAudit.begin(node);
});
afterEach(async () => {
  agent?.kill("SIGKILL");
  await node.close();
  await eventually(() => expect(audit.machineFindings()).toEqual([]));
});

/** Starts an agent in a process of its own and waits until it has registered. */
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

async function kill(victim: ChildProcess, signal: "SIGKILL" | "SIGTERM"): Promise<void> {
  const exit = once(victim, "exit");
  victim.kill(signal);
  await exit;
}

/** The pid of the supervising shell, as soon as it has claimed its file. */
async function leaderOf(id: string): Promise<number> {
  const path = node.state(`${id}.pid`);
  return eventually(() => {
    const pid = Number.parseInt(readFileSync(path, "utf8"), 10);
    expect(pid).toBeGreaterThan(1);
    return pid;
  });
}

it("finds its containers after kill -9: the running one goes on, the ended ones' codes are there", async () => {
  const first = await startAgentProcess();
  const going = await node.run(
    1,
    launchContext("echo $$; while [ ! -e go ]; do sleep 0.05; done; exit 5", { ports: ["http"] }),
  );
  const ending = await node.run(2, launchContext("while [ ! -e go ]; do sleep 0.05; done; exit 3"));
  const { ports, startedMs } = await node.tracker.untilState(going, "RUNNING");
  await node.tracker.untilState(ending, "RUNNING");
  await kill(first, "SIGKILL");

  writeFileSync(join(node.workDirectory(ending), "go"), "");
  await eventually(() => expect(node.hasExitCode(ending)).toBe(true));
  const pid = Number(node.stdout(going));
  expect(runs(pid)).toBe(true);

  await startAgentProcess();
  expect(node.tracker.statuses.get(going)).toMatchObject({
    state: "RUNNING",
    ready: true,
    ports,
    startedMs,
  });
  expect(startedMs).toBeGreaterThan(0);
  expect(node.tracker.statuses.get(ending)).toMatchObject({ state: "COMPLETE", exitStatus: 3 });
  expect(Number(node.stdout(going))).toBe(pid);

  writeFileSync(join(node.workDirectory(going), "go"), "");
  const status = await node.tracker.untilState(going, "COMPLETE");
  expect(status.exitStatus).toBe(5);
});

it("stops a container that another life of the agent has started", async () => {
  const first = await startAgentProcess();
  const command = "trap '' TERM; echo $$; while :; do sleep 0.05; done";
  const id = await node.run(1, launchContext(command, { sigkillDelayMs: 50 }));
  const pid = await eventually(() => {
    const printed = Number(node.stdout(id));
    expect(printed).toBeGreaterThan(1);
    return printed;
  });
  await kill(first, "SIGKILL");
  await node.start();
  node.tracker.stop(id);
  const status = await node.tracker.untilState(id, "COMPLETE");
  expect(status.exitStatus).toBe(-105);
  expect(runs(pid)).toBe(false);
});

it("leaves containers running when it is asked to stop (SIGTERM)", async () => {
  const first = await startAgentProcess();
  const id = await node.run(1, launchContext("echo $$; sleep 60"));
  await eventually(() => expect(node.stdout(id)).not.toBe(""));
  await kill(first, "SIGTERM");
  expect(first.exitCode).toBe(0);
  expect(runs(Number(node.stdout(id)))).toBe(true);
});

it("keeps an unacknowledged end over restarts, and forgets an acknowledged one", async () => {
  const first = await node.start();
  const kept = await node.run(1, launchContext("exit 4"));
  const acknowledged = await node.run(2, launchContext("exit 0"));
  await node.tracker.untilState(kept, "COMPLETE");
  await node.tracker.untilState(acknowledged, "COMPLETE");
  node.tracker.acknowledge(acknowledged);
  const gone = node.workDirectory(acknowledged);
  await eventually(() => expect(existsSync(gone)).toBe(false));
  await first.close();
  await node.start();
  expect(node.tracker.statuses.get(kept)).toMatchObject({ state: "COMPLETE", exitStatus: 4 });
  expect(node.tracker.statuses.has(acknowledged)).toBe(false);
});

it("reports 154 for a container of which neither process nor exit code is left", async () => {
  const first = await node.start();
  const id = await node.run(1, launchContext("sleep 60"));
  const leader = await leaderOf(id);
  await first.close();
  process.kill(-leader, "SIGKILL");
  await eventually(() => expect(runs(leader)).toBe(false));
  await node.start();
  expect(node.tracker.statuses.get(id)).toMatchObject({ state: "COMPLETE", exitStatus: 154 });
});

it("kills what a container left behind that ended while the agent was away", async () => {
  const first = await node.start();
  const id = await node.run(
    1,
    launchContext("sleep 300 & echo $!; while [ ! -e go ]; do sleep 0.05; done"),
  );
  const left = await eventually(() => {
    const printed = Number(node.stdout(id));
    expect(printed).toBeGreaterThan(1);
    return printed;
  });
  await first.close();
  writeFileSync(join(node.workDirectory(id), "go"), "");
  await eventually(() => expect(node.hasExitCode(id)).toBe(true));
  expect(runs(left)).toBe(true);
  await node.start();
  expect(node.tracker.statuses.get(id)).toMatchObject({ state: "COMPLETE", exitStatus: 0 });
  await eventually(() => expect(runs(left)).toBe(false));
});

it("never mistakes a recycled pid, or a pid from before a reboot, for its container", async () => {
  const first = await node.start();
  const ids = [
    await node.run(1, launchContext("sleep 60")),
    await node.run(2, launchContext("sleep 60")),
  ];
  const [recycled = "", rebooted = ""] = ids;
  for (const id of ids) await leaderOf(id);
  await first.close();
  const state = (name: string) => node.state(name);
  const stranger = spawn("sleep", ["60"]);
  const stat = readFileSync(`/proc/${stranger.pid}/stat`, "utf8");
  writeFileSync(state(`${rebooted}.pid`), stat);
  const later = stat.split(" ").with(21, "1").join(" ");
  writeFileSync(state(`${recycled}.pid`), later);
  const record = storedRecord(state(""), rebooted);
  storeRecord(state(""), rebooted, { ...record, bootId: "another" });
  await node.start();
  expect(node.tracker.statuses.get(recycled)?.exitStatus).toBe(154);
  expect(node.tracker.statuses.get(rebooted)?.exitStatus).toBe(-100);
  expect(runs(stranger.pid ?? 0)).toBe(true);
  stranger.kill();
});

it("refuses a second agent in the same home, and takes over the lock of a dead one", async () => {
  const first = await startAgentProcess();
  await expect(startNodeManager(node.options)).rejects.toThrow(
    `another agent (process ${first.pid}) is using ${node.home}`,
  );
  await kill(first, "SIGKILL");
  await node.start();
});
