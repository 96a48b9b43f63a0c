import { describe, expect, it } from "vitest";
import { gb, percent, queues, SchedulerWorld } from "./scheduler-world.ts";

/** Both nodes full of small containers of one application that wants more and more of them. */
function crowded(): SchedulerWorld {
  const world = new SchedulerWorld({ n1: gb(4), n2: gb(4) });
  world.submit("small", {}, { count: 8 });
  world.schedule();
  world.ask("small", { count: 100 });
  return world;
}

const reservedOn = (world: SchedulerWorld, host: string) =>
  world.scheduler.nodeUsage(`${host}:1`)?.reserved.memoryMb;

/** Ends one container on a node. */
function endOne(world: SchedulerWorld, host: string): void {
  const before = world.scheduler.nodeUsage(`${host}:1`)?.containers ?? 0;
  for (let number = 1; number <= 200; number += 1) {
    world.scheduler.release(`small_${number}`);
    if ((world.scheduler.nodeUsage(`${host}:1`)?.containers ?? 0) < before) return;
  }
}

describe("a request that no node has room for", () => {
  it("[CS18] is not starved by small ones: what gets free on one node is kept for it", () => {
    const world = crowded();
    world.submit("big", { priority: 1 }, { capability: gb(3) });
    world.schedule();
    const [host = ""] = ["n1", "n2"].filter((name) => reservedOn(world, name) === 3_072);
    expect(world.reasons("big")).toEqual([
      expect.stringContaining(`node ${host}:1 is reserved for it`),
    ]);
    let gotIt = false;
    for (let ended = 0; ended < 8 && !gotIt; ended += 1) {
      world.scheduler.release(`small_${ended + 1}`);
      gotIt = (world.served()["big"] ?? 0) === 1;
    }
    expect(gotIt).toBe(true);
    expect(reservedOn(world, host)).toBe(0);
  });

  it("[CS18] keeps one node, and counts as used by queue and application until then", () => {
    const world = crowded();
    world.submit("big", {}, { capability: gb(3), count: 5 });
    world.schedule();
    expect([reservedOn(world, "n1"), reservedOn(world, "n2")].sort()).toEqual([0, 3_072]);
    const queue = world.queue("root.default");
    expect(queue).toMatchObject({ reservedContainers: 1, containers: 8 });
    expect(queue.partitions[0]).toMatchObject({
      used: { memoryMb: 11 * 1_024 },
      reserved: { memoryMb: 3 * 1_024 },
    });
    expect(world.scheduler.attemptUsage("big").reserved.memoryMb).toBe(3_072);
  });

  it("[CS18] tells others who has the node", () => {
    const world = crowded();
    world.submit("big", {}, { capability: gb(3) });
    world.schedule();
    endOne(world, reservedOn(world, "n1") === 3_072 ? "n1" : "n2");
    expect(world.reasons("small")[0]).toContain("1 reserved for big");
  });

  it("[CS19] keeps no node for longer than five minutes, and none again where nothing ends", () => {
    const world = crowded();
    world.submit("big", { priority: 1 }, { capability: gb(3) });
    world.schedule();
    const host = reservedOn(world, "n1") === 3_072 ? "n1" : "n2";
    endOne(world, host);
    expect(world.schedule()).toEqual([]);
    world.nowMs += 300_000;
    expect(world.scheduler.wakeAtMs()).toBe(world.nowMs);
    expect(world.schedule()).toMatchObject([{ attemptId: "small", nodeId: `${host}:1` }]);
    expect([reservedOn(world, "n1"), reservedOn(world, "n2")]).toEqual([0, 0]);
    world.nowMs += 3_600_000;
    world.schedule();
    expect([reservedOn(world, "n1"), reservedOn(world, "n2")]).toEqual([0, 0]);
    expect(world.scheduler.wakeAtMs()).toBeUndefined();
  });

  it("[CS19] goes elsewhere when there is room first, and gives the node up", () => {
    const world = crowded();
    world.submit("big", { priority: 1 }, { capability: gb(3) });
    world.schedule();
    world.node("n3", gb(3));
    expect(world.schedule()).toMatchObject([{ attemptId: "big", nodeId: "n3:1" }]);
    expect([reservedOn(world, "n1"), reservedOn(world, "n2")]).toEqual([0, 0]);
  });

  it("[CS19] that is taken back, or whose application ends, gives the node up", () => {
    for (const end of ["ask", "application"]) {
      const world = crowded();
      world.submit("big", {}, { capability: gb(3) });
      world.schedule();
      if (end === "ask") world.ask("big", { count: 0 });
      else world.scheduler.removeApplication("big");
      expect([reservedOn(world, "n1"), reservedOn(world, "n2")]).toEqual([0, 0]);
      expect(world.queue("root.default").reservedContainers).toBe(0);
    }
  });

  it("[CS19] gives up a node that is lost, drains or shrinks, and gets another", () => {
    for (const change of ["remove", "drain", "shrink"] as const) {
      const world = crowded();
      world.submit("big", {}, { capability: gb(3) });
      world.schedule();
      const host = reservedOn(world, "n1") === 3_072 ? "n1" : "n2";
      if (change === "remove") world.scheduler.removeNode(`${host}:1`);
      else if (change === "drain") world.scheduler.drainNode(`${host}:1`);
      else world.node(host, gb(1));
      world.schedule();
      expect(reservedOn(world, host)).toBe(0);
      expect(reservedOn(world, host === "n1" ? "n2" : "n1")).toBe(3_072);
    }
  });

  it("[CS19] larger than every node reserves nothing", () => {
    const world = crowded();
    world.submit("huge", {}, { capability: gb(5) });
    world.schedule();
    expect([reservedOn(world, "n1"), reservedOn(world, "n2")]).toEqual([0, 0]);
  });

  it("[CS19] never keeps more than half of the nodes", () => {
    const world = crowded();
    for (const name of ["big1", "big2", "big3"]) world.submit(name, {}, { capability: gb(3) });
    for (let pass = 0; pass < 5; pass += 1) world.schedule();
    expect([reservedOn(world, "n1"), reservedOn(world, "n2")].sort()).toEqual([0, 3_072]);
  });

  it("[CS19] whose reservation is in the way of its queue's maximum gets what it can have", () => {
    const leaf = { capacity: percent(50), maximumCapacity: percent(50), userLimitFactor: -1 };
    const world = new SchedulerWorld({ n1: gb(4), n2: gb(4) }, queues({ a: leaf, b: leaf }));
    world.submit("other", { queue: "root.b" }, { capability: gb(2), count: 2 });
    world.schedule();
    world.ask("other", { allocationRequestId: 1, count: 5 });
    world.submit("app1", { queue: "root.a" }, { capability: gb(3) });
    world.schedule();
    expect(world.scheduler.attemptUsage("app1").reserved.memoryMb).toBe(3_072);
    world.ask("app1", { priority: 1, capability: gb(2) });
    expect(world.schedule()).toMatchObject([{ attemptId: "app1", resource: { memoryMb: 2_048 } }]);
  });
});
