/** `selvedge node status`: what a real agent has left in its directory. */
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { TestNode } from "../agent/test-node.ts";
import { JOIN_TOKEN, launchContext } from "../agent/test-tracker.ts";
import { createDesk, type Desk } from "./command.ts";

let desk: Desk;
beforeEach(() => {
  desk = createDesk();
});
afterEach(() => desk.clear());

describe("node status", () => {
  let node: TestNode;
  beforeEach(async () => {
    node = await TestNode.create();
  });
  afterEach(() => node.close());

  const status = async () => {
    const ran = await desk.run(["node", "status", "--home", node.home, "-o", "json"]);
    return JSON.parse(ran.stdout);
  };

  it("[NM110] shows the agent, its cluster and its containers, without asking anybody", async () => {
    const { credential: _, ...joining } = node.options;
    const { startNodeManager } = await import("../../src/agent/main.ts");
    const agent = await startNodeManager({
      ...joining,
      joinToken: JOIN_TOKEN,
      log: () => undefined,
    });
    try {
      const id = await node.run(1, launchContext("exec sleep 60"));
      await node.tracker.untilState(id, "RUNNING");
      expect(await status()).toMatchObject({
        running: true,
        pid: process.pid,
        nodeId: node.nodeId,
        cluster: node.tracker.url,
        containers: [{ containerId: id, state: "RUNNING", user: "alice", memoryMb: 128 }],
        unreadable: [],
      });
      const shown = await desk.run(["node", "status", "--home", node.home]);
      expect(shown.stdout).toContain(`agent       running, process ${process.pid}\n`);
      expect(shown.stdout).toMatch(new RegExp(`^${id} +RUNNING +alice +- +128 +1$`, "m"));
      node.tracker.stop(id);
      await node.tracker.untilState(id, "COMPLETE");
      expect(await status()).toMatchObject({
        containers: [{ containerId: id, state: "COMPLETE", exitStatus: -105 }],
      });
    } finally {
      await agent.close();
    }
    expect(await status()).toMatchObject({ running: false, pid: null, nodeId: node.nodeId });
  });

  it("[NM110] takes no other process for the agent, whatever pid is in a stale lock", async () => {
    const stale = { pid: process.pid, startTicks: 1, bootId: "another boot" };
    writeFileSync(join(node.home, "nm.lock"), JSON.stringify(stale));
    expect(await status()).toMatchObject({ running: false, pid: null });
    expect((await desk.run(["node", "status", "--home", node.home, "-q"])).stdout).toBe(
      "not running\n",
    );
  });

  it("[NM110] counts what caches and logs take, and says which records it cannot read", async () => {
    const before = await status();
    mkdirSync(join(node.home, "logs", "application"), { recursive: true });
    writeFileSync(join(node.home, "logs", "application", "stdout"), Buffer.alloc(200_000, "x"));
    mkdirSync(join(node.home, "nm-state"));
    writeFileSync(join(node.home, "nm-state", "journal"), '["container_1",{}]\n');
    const after = await status();
    const logs = ({ disk }: { disk: { what: string; bytes: number }[] }) =>
      disk.find(({ what }) => what === "logs")?.bytes ?? 0;
    expect(logs(after) - logs(before)).toBeGreaterThanOrEqual(200_000);
    expect(after.unreadable).toEqual(["container_1"]);
  });
});

it("[NM110] of a machine without a node says how there would be one", async () => {
  const home = join(desk.directory, "nothing");
  rmSync(home, { recursive: true, force: true });
  const ran = await desk.run(["node", "status", "--home", home]);
  expect(ran.exitCode).toBe(44);
  expect(ran.stderr).toContain(`error: there is no node in ${home}\nhint: say where it is`);
});
