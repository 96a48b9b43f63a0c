/** What an agent finds when it starts: containers of another boot, of an older agent, of nobody. */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { startNodeManager } from "../../src/agent/main.ts";
import { eventually } from "../support/eventually.ts";
import { storedRecord } from "../support/journal.ts";
import { runs, TestNode } from "./test-node.ts";
import { launchContext } from "./test-tracker.ts";

let node: TestNode;
beforeEach(async () => {
  node = await TestNode.create();
});
afterEach(() => node.close());

const state = (name: string) => node.state(name);

/** The pid that a container has printed. */
async function printedPid(id: string): Promise<number> {
  return eventually(() => {
    const pid = Number(node.stdout(id));
    expect(pid).toBeGreaterThan(1);
    return pid;
  });
}

it("[NM13] after a reboot, what ran is reported as lost with it, and cleaned away", async () => {
  const first = await node.start({ bootId: "monday" });
  const id = await node.run(1, launchContext("exec sleep 60"));
  await node.tracker.untilState(id, "RUNNING");
  const retry = {
    policy: "RETRY_ON_ALL_ERRORS",
    maxRetries: -1,
    retryIntervalMs: 600_000,
    failuresValidityIntervalMs: -1,
  } as const;
  const waiting = await node.run(2, launchContext("exit 1", { retry }));
  await node.tracker.until("it waits", () => {
    return node.tracker.statuses.get(waiting)?.subState === "RELAUNCHING";
  });
  await first.close();
  // The pid is another process's by now.
  const stranger = spawn("sleep", ["60"]);
  writeFileSync(state(`${id}.pid`), readFileSync(`/proc/${stranger.pid}/stat`));
  await node.start({ bootId: "tuesday" });
  for (const each of [id, waiting]) {
    const status = node.tracker.statuses.get(each);
    expect(status).toMatchObject({ state: "COMPLETE", exitStatus: -100 });
    expect(status?.diagnostics).toContain("the machine was restarted (reboot)");
    node.tracker.acknowledge(each);
    await eventually(() => expect(existsSync(node.workDirectory(each))).toBe(false));
  }
  expect(runs(stranger.pid ?? 0)).toBe(true);
  stranger.kill();
});

it("[NM13] after a reboot, an exit that came before it keeps its exit code", async () => {
  const first = await node.start({ bootId: "monday" });
  const id = await node.run(1, launchContext("while [ ! -e go ]; do sleep 0.05; done; exit 3"));
  await node.tracker.untilState(id, "RUNNING");
  await first.close();
  writeFileSync(join(node.workDirectory(id), "go"), "");
  await eventually(() => expect(node.hasExitCode(id)).toBe(true));
  await node.start({ bootId: "tuesday" });
  expect(node.tracker.statuses.get(id)).toMatchObject({ state: "COMPLETE", exitStatus: 3 });
});

it("[NM14] an older agent's containers go on under a newer one", async () => {
  const first = await node.start();
  const id = await node.run(1, launchContext("exec sleep 60"));
  const status = await node.tracker.untilState(id, "RUNNING");
  await first.close();
  const { bootId, tokenExpiresMs } = storedRecord(state(""), id);
  const { subState: _, ...older } = status;
  const record = {
    ...{ phase: "RUNNING", status: older, user: "alice", memoryMb: 128, sigkillDelayMs: 50 },
    ...{ tokenExpiresMs, bootId },
  };
  writeFileSync(state(`${id}.json`), JSON.stringify(record));
  for (const name of ["journal", "format.json", `${id}.launch-1`]) rmSync(state(name));
  await node.start();
  expect(node.tracker.statuses.get(id)).toMatchObject({ state: "RUNNING", ready: true });
  node.tracker.stop(id);
  expect(await node.tracker.untilState(id, "COMPLETE")).toMatchObject({ exitStatus: -105 });
});

it("[NM224] what agents up to 0.1 kept in files is taken over, and they do not start on what is kept now", async () => {
  const first = await node.start();
  const going = await node.run(1, launchContext("while [ ! -e go ]; do sleep 0.05; done; exit 5"));
  const ended = await node.run(2, launchContext("exit 4"));
  await node.tracker.untilState(going, "RUNNING");
  await node.tracker.untilState(ended, "COMPLETE");
  await first.close();
  for (const id of [going, ended]) {
    writeFileSync(
      state(`${id}.json`),
      JSON.stringify({ ...storedRecord(state(""), id), format: 2 }),
    );
  }
  for (const name of ["journal", "format.json"]) rmSync(state(name));
  await node.start();
  expect(node.tracker.statuses.get(going)).toMatchObject({ state: "RUNNING", ready: true });
  expect(node.tracker.statuses.get(ended)).toMatchObject({ state: "COMPLETE", exitStatus: 4 });
  writeFileSync(join(node.workDirectory(going), "go"), "");
  expect(await node.tracker.untilState(going, "COMPLETE")).toMatchObject({ exitStatus: 5 });
  // They refuse every .json file whose format is above theirs, which was 2.
  const left = readdirSync(state("")).filter((name) => name.endsWith(".json"));
  expect(left).toEqual(["format.json"]);
  expect(JSON.parse(readFileSync(state("format.json"), "utf8"))).toEqual({ format: 3 });
});

it("[NM14] a newer agent's state is left alone, and the agent does not start", async () => {
  const first = await node.start();
  const id = await node.run(1, launchContext("exec sleep 60"));
  await node.tracker.untilState(id, "RUNNING");
  await first.close();
  const before = readFileSync(state("journal"), "utf8");
  writeFileSync(state("format.json"), JSON.stringify({ format: 99 }));
  await expect(startNodeManager(node.options)).rejects.toThrow("written by a newer agent");
  expect(readFileSync(state("journal"), "utf8")).toBe(before);
});

it("[NM15] a container whose record is unreadable is ended, and half-written files go", async () => {
  const first = await node.start();
  const id = await node.run(1, launchContext("echo $$; exec sleep 60"));
  const pid = await printedPid(id);
  await first.close();
  writeFileSync(state("journal"), `["${id}",{"phase":"RUNN\n`);
  writeFileSync(state("journal.tmp"), `["${id}",{"phase":"RUNN`);
  node.tracker.desired.clear();
  await node.start();
  expect(node.tracker.statuses.has(id)).toBe(false);
  await eventually(() => expect(runs(pid)).toBe(false));
  const left = readdirSync(state("")).filter((name) => /\.(?:tmp|pid|exitcode)$/.test(name));
  expect(left).toEqual([]);
  expect(readFileSync(state("journal.corrupt"), "utf8")).toContain("RUNN");
});

it("[NM15] keeps launch contexts no longer than the container may need them, for its owner only", async () => {
  await node.start();
  const id = await node.run(
    1,
    launchContext("exec sleep 60", { environment: { SECRET: "s3cret" } }),
  );
  await node.tracker.untilState(id, "RUNNING");
  expect(readFileSync(state(`${id}.launch-1`), "utf8")).toContain("s3cret");
  expect(spawnSync("stat", ["-c", "%a", state(`${id}.launch-1`)]).stdout.toString()).toBe("600\n");
  node.tracker.stop(id);
  await node.tracker.untilState(id, "COMPLETE");
  await eventually(() => expect(existsSync(state(`${id}.launch-1`))).toBe(false));
});

it("[NM15] an exit is reported though its record cannot be written", async () => {
  const first = await node.start();
  const id = await node.run(1, launchContext("while [ ! -e go ]; do sleep 0.05; done; exit 4"));
  await node.tracker.untilState(id, "RUNNING");
  await first.close();
  await node.start();
  // An agent's first change writes the journal anew.
  mkdirSync(state("journal.tmp"));
  writeFileSync(join(node.workDirectory(id), "go"), "");
  const status = await node.tracker.untilState(id, "COMPLETE");
  expect(status.exitStatus).toBe(4);
  expect(node.lines.map(({ event }) => event)).toContain("state.write");
  expect(storedRecord(state(""), id)).toMatchObject({ phase: "NEW" });
  rmSync(state("journal.tmp"), { recursive: true });
  await eventually(() => expect(storedRecord(state(""), id)).toMatchObject({ phase: "COMPLETE" }));
});

it("[NM16] a draining node takes nothing new, and goes when its containers have ended", async () => {
  const agent = await node.start();
  const id = await node.run(1, launchContext("while [ ! -e go ]; do sleep 0.05; done; exit 0"));
  await node.tracker.untilState(id, "RUNNING");
  const closing = agent.close({ drainTimeoutMs: 60_000 });
  const refused = await node.run(2, launchContext("true"));
  const status = await node.tracker.untilState(refused, "COMPLETE");
  expect(status).toMatchObject({ exitStatus: -100 });
  expect(status.diagnostics).toContain("is draining");
  writeFileSync(join(node.workDirectory(id), "go"), "");
  await closing;
  expect(node.tracker.statuses.get(id)).toMatchObject({ state: "COMPLETE", exitStatus: 0 });
});

it("[NM16] a draining node waits no longer than it was told, and leaves running what still runs", async () => {
  const agent = await node.start();
  const id = await node.run(1, launchContext("echo $$; exec sleep 60"));
  const pid = await printedPid(id);
  await agent.close({ drainTimeoutMs: 50 });
  expect(runs(pid)).toBe(true);
});
