import { afterEach, beforeEach, expect, it } from "vitest";
import { eventually } from "../support/eventually.ts";
import { NodeAudit } from "../support/node-audit.ts";
import { runs, TestNode } from "./test-node.ts";
import { launchContext } from "./test-tracker.ts";

let node: TestNode;
let audit: NodeAudit;
beforeEach(async () => {
  // Control groups are the machine's: no other test or agent may share this name.
  node = await TestNode.create("127.0.0.1:18042");
  audit = NodeAudit.begin(node);
  await node.start();
});
afterEach(async () => {
  await node.close();
  await eventually(() => expect(audit.machineFindings()).toEqual([]));
});

/** Waits until the container has written as many lines as it has processes to tell of. */
async function pids(id: string, count: number): Promise<number[]> {
  return eventually(() => {
    const lines = node.stdout(id).trim().split("\n").map(Number);
    expect(lines).toHaveLength(count);
    return lines;
  });
}

it("lets a container end by itself on SIGTERM, and reports the order's status", async () => {
  const command = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.02; done";
  const id = await node.run(1, launchContext(command, { sigkillDelayMs: 5_000 }));
  await eventually(() => expect(node.stdout(id)).toBe("up\n"));
  node.tracker.stop(id);
  const status = await node.tracker.untilState(id, "COMPLETE");
  expect(status).toMatchObject({ exitStatus: -105, diagnostics: "stopped by the master" });
  expect(node.stdout(id)).toBe("up\nbye\n");
});

it("kills a stubborn process tree after the delay, children in sessions of their own too", async () => {
  const stubborn = "trap '' TERM; echo $$; while :; do sleep 0.05; done";
  const command = `sh -c "${stubborn.replaceAll("$", "\\$")}" &
    setsid sh -c "${stubborn.replaceAll("$", "\\$")}" &
    ${stubborn}`;
  const id = await node.run(1, launchContext(command, { sigkillDelayMs: 100 }));
  const tree = await pids(id, 3);
  expect(tree.every(runs)).toBe(true);
  node.tracker.stop(id);
  await node.tracker.untilState(id, "COMPLETE");
  await eventually(() => expect(tree.filter(runs)).toEqual([]));
});

it("leaves the container its own exit code when it ended before the order came", async () => {
  const id = await node.run(1, launchContext("exit 7"));
  await node.tracker.untilState(id, "COMPLETE");
  node.tracker.stop(id);
  node.tracker.dropConnections();
  await node.tracker.until("a second registration", () => node.registrations === 2);
  expect(node.tracker.statuses.get(id)?.exitStatus).toBe(7);
});

it("completes at once, as ordered, a container that never ran, and never runs it", async () => {
  const id = "container_e01_1700000000000_0001_01_000009";
  node.tracker.stop(id, -100, "released by application");
  const status = await node.tracker.untilState(id, "COMPLETE");
  expect(status).toMatchObject({ exitStatus: -100, diagnostics: "released by application" });
  await node.run(9, launchContext("echo ran"));
  const next = await node.run(10, launchContext("true"));
  await node.tracker.untilState(next, "COMPLETE");
  expect(node.tracker.statuses.get(id)?.exitStatus).toBe(-100);
  expect(() => node.stdout(id)).toThrow("ENOENT");
});

it("stops a container that is just being launched", async () => {
  const id = await node.run(1, launchContext("sleep 60"));
  node.tracker.stop(id);
  const status = await node.tracker.untilState(id, "COMPLETE");
  expect(status.exitStatus).toBe(-105);
});

it("kills a container that the tracker does not name at registration", async () => {
  const id = await node.run(1, launchContext("echo $$; sleep 60"));
  const [pid = 0] = await pids(id, 1);
  node.tracker.desired.clear();
  node.tracker.dropConnections();
  const status = await node.tracker.untilState(id, "COMPLETE");
  expect(status.exitStatus).toBe(-106);
  expect(runs(pid)).toBe(false);
});

it("ends its containers and unregisters when told to do so on exit", async () => {
  const other = await TestNode.create();
  try {
    const agent = await other.start({ stopContainersOnExit: true });
    const id = await other.run(1, launchContext("sleep 60"));
    await other.tracker.untilState(id, "RUNNING");
    await agent.close();
    const last = await other.tracker.until("unregister", () => {
      return other.tracker.received.find(({ type }) => type === "unregister");
    });
    expect(last.type).toBe("unregister");
    expect(other.tracker.statuses.get(id)).toMatchObject({ state: "COMPLETE", exitStatus: -100 });
  } finally {
    await other.close();
  }
});
