import { describe, expect, it } from "vitest";
import type { Ask } from "../../src/core/scheduler/request.ts";
import { gb, percent, queues, SchedulerWorld } from "./scheduler-world.ts";

/** Two racks with two hosts each. */
function racks(configuration = queues({ default: {} })): SchedulerWorld {
  const world = new SchedulerWorld({}, configuration);
  for (const [host, rack] of Object.entries({ h1: "/r1", h2: "/r1", h3: "/r2", h4: "/r2" })) {
    world.node(host, gb(4), { rack });
  }
  return world;
}

function near(host: string, rack: string, more: Partial<Ask> = {}): Partial<Ask> {
  const places = [host, rack].map((name) => ({ name, count: more.count ?? 1 }));
  return { places, ...more };
}

/** Takes a whole node. */
function fill(world: SchedulerWorld, host: string): void {
  const container = { containerId: `full-${host}`, attemptId: "other", priority: 0 };
  world.scheduler.book({ ...container, nodeId: `${host}:1`, resource: gb(4, 1) });
}

describe("a request that names hosts and racks", () => {
  it("[CS13] goes to its host when that has room", () => {
    const world = racks();
    world.submit("app1", {}, near("h3", "/r2"));
    expect(world.schedule()).toMatchObject([{ nodeId: "h3:1", locality: "NODE_LOCAL" }]);
    expect(world.scheduler.asks("app1")).toEqual([]);
  });

  it("[CS13] waits for its host, then for its rack, then goes anywhere", () => {
    const world = racks(
      queues({ default: {} }, { nodeLocalityDelay: 2, rackLocalityAdditionalDelay: 1 }),
    );
    fill(world, "h3");
    world.submit("app1", {}, near("h3", "/r2", { count: 2 }));
    expect(world.schedule()).toEqual([]);
    expect(world.reasons("app1")).toEqual([
      "0/4 nodes: 3 waiting for a nearer node, 1 too little memory",
    ]);
    expect(world.scheduler.wakeAtMs()).toBe(500);
    world.nowMs = 499;
    expect(world.schedule()).toEqual([]);
    world.nowMs = 500;
    expect(world.schedule(1)).toMatchObject([{ nodeId: "h4:1", locality: "RACK_LOCAL" }]);
    fill(world, "h4");
    expect(world.schedule()).toEqual([]);
    world.nowMs = 500 + 750;
    expect(world.schedule()).toMatchObject([{ locality: "OFF_SWITCH" }]);
  });

  it("[CS13] does not wait longer than its host is full", () => {
    const world = racks();
    fill(world, "h3");
    world.submit("app1", {}, near("h3", "/r2"));
    expect(world.schedule()).toEqual([]);
    world.scheduler.release("full-h3");
    expect(world.schedule()).toMatchObject([{ nodeId: "h3:1", locality: "NODE_LOCAL" }]);
    expect(world.scheduler.wakeAtMs()).toBeUndefined();
  });

  it("[CS14] without relaxLocality stays in its racks, and for ever", () => {
    const world = racks();
    fill(world, "h3");
    fill(world, "h4");
    const places = [{ name: "/r2", count: 1 }];
    world.submit("app1", {}, { places, relaxLocality: false });
    world.nowMs = 3_600_000;
    world.schedule();
    world.nowMs *= 2;
    expect(world.schedule()).toEqual([]);
    expect(world.reasons("app1")).toEqual([
      expect.stringContaining("outside the hosts and racks asked for"),
    ]);
  });

  it("[CS14] without relaxLocality of the rack either stays on its hosts", () => {
    const world = racks();
    fill(world, "h3");
    const places = [
      { name: "h3", count: 1 },
      { name: "/r2", count: 1, relaxLocality: false },
    ];
    world.submit("app1", {}, { places, relaxLocality: false });
    world.schedule();
    world.nowMs = 3_600_000;
    expect(world.schedule()).toEqual([]);
    world.scheduler.release("full-h3");
    expect(world.schedule()).toMatchObject([{ nodeId: "h3:1" }]);
  });

  it("[CS14] that names a host without its rack is not placed there", () => {
    const world = racks();
    world.submit("app1", {}, { places: [{ name: "h3", count: 1 }], relaxLocality: false });
    world.nowMs = 3_600_000;
    expect(world.schedule()).toEqual([]);
  });

  it("[CS15] avoids hosts and racks that the application has blacklisted", () => {
    const world = racks();
    world.submit("app1", {}, { count: 100 });
    world.scheduler.setBlacklist("app1", ["/r1", "h3"]);
    expect(world.schedule().map(({ nodeId }) => nodeId)).toEqual(Array(4).fill("h4:1"));
    expect(world.reasons("app1")).toEqual(["0/4 nodes: 3 blacklisted, 1 too little memory"]);
    world.scheduler.setBlacklist("app1", []);
    expect(world.schedule()).toHaveLength(12);
  });

  it("[CS15] keeps to its constraint as containers come and go", () => {
    const world = racks();
    world.submit(
      "app1",
      {},
      {
        count: 5,
        allocationTags: ["web"],
        constraint: {
          type: "cardinality",
          scope: "node",
          targets: [{ kind: "allocation-tags", namespace: "self", tags: ["web"] }],
          min: 0,
          max: 0,
        },
      },
    );
    const placed = world.schedule();
    expect(placed.map(({ nodeId }) => nodeId).sort()).toEqual(["h1:1", "h2:1", "h3:1", "h4:1"]);
    expect(world.reasons("app1")).toEqual(["0/4 nodes: 4 anti-affinity with web on this node"]);
    world.scheduler.release(placed[0]?.containerId ?? "");
    expect(world.schedule()).toMatchObject([{ nodeId: placed[0]?.nodeId }]);
  });
});

describe("partitions", () => {
  const gpu = {
    capacity: percent(50),
    maximumCapacity: percent(100),
    maximumAmResourceFraction: 1,
  };
  const labelled = (exclusive: boolean) =>
    queues(
      {
        a: {
          capacity: percent(50),
          userLimitFactor: -1,
          accessibleNodeLabels: ["gpu"],
          partitions: { gpu },
        },
        b: { capacity: percent(50), userLimitFactor: -1, accessibleNodeLabels: [] },
      },
      { nodeLabels: [{ name: "gpu", exclusive }] },
    );

  function world(exclusive: boolean): SchedulerWorld {
    const made = new SchedulerWorld({ plain: gb(2) }, labelled(exclusive));
    made.node("gpu1", gb(4), { labels: ["gpu"] });
    return made;
  }

  it("[CS16] a request goes to the nodes of its label, and no other", () => {
    const made = world(true);
    made.submit("app1", { queue: "root.a" }, { nodeLabel: "gpu", count: 9 });
    made.submit("app2", { queue: "root.a" }, { count: 9 });
    const nodes = made.schedule().map(({ attemptId, nodeId }) => `${attemptId} ${nodeId}`);
    expect(new Set(nodes)).toEqual(new Set(["app1 gpu1:1", "app2 plain:1"]));
    expect(nodes).toHaveLength(6);
  });

  it("[CS16] each has capacities and use of its own", () => {
    const made = world(true);
    made.submit("app1", { queue: "root.a" }, { nodeLabel: "gpu", count: 3 });
    made.schedule();
    expect(made.queue("root.a").partitions).toMatchObject(
      [
        { partition: "", guaranteed: gb(1), used: { memoryMb: 0 } },
        { partition: "gpu", guaranteed: gb(2), used: { memoryMb: 3_072 } },
      ].map(({ guaranteed: { memoryMb }, ...usage }) => ({ ...usage, guaranteed: { memoryMb } })),
    );
  });

  it("[CS16] a queue without access to a label gets nothing there, and is told so", () => {
    const made = world(true);
    made.submit("app1", { queue: "root.b" }, { nodeLabel: "gpu" });
    expect(made.schedule()).toEqual([]);
    expect(made.reasons("app1")).toEqual(["queue root.b may not use node label gpu"]);
    const admitted = made.scheduler.admit(gb(1), { queue: "root.b", nodeLabel: "gpu" });
    expect(admitted).toMatchObject({ error: { code: "FAILED_PRECONDITION" } });
  });

  it("[CS16] a queue's default label is that of requests that name none", () => {
    const { root, ...rest } = labelled(true);
    const children = root.children.map((leaf) =>
      leaf.name === "a" ? { ...leaf, defaultNodeLabel: "gpu" } : leaf,
    );
    const made = new SchedulerWorld({ plain: gb(2) }, { ...rest, root: { ...root, children } });
    made.node("gpu1", gb(4), { labels: ["gpu"] });
    made.submit("app1", { queue: "root.a" }, {});
    expect(made.schedule()).toMatchObject([{ nodeId: "gpu1:1" }]);
  });

  it("[CS17] an exclusive one serves nobody else; a shared one does, after a second", () => {
    const [exclusive, shared] = [world(true), world(false)];
    for (const made of [exclusive, shared]) {
      made.submit("app1", { queue: "root.b" }, { count: 4 });
      expect(made.served()).toEqual({ app1: 2 });
      made.nowMs = 1_000;
    }
    expect(exclusive.schedule()).toEqual([]);
    expect(shared.schedule()).toMatchObject([
      { nodeId: "gpu1:1", nodeLabel: "" },
      { nodeId: "gpu1:1", nodeLabel: "" },
    ]);
    expect(shared.queue("root.b").partitions[0]?.used.memoryMb).toBe(4_096);
  });

  it("[CS17] a shared one wakes who waits for it", () => {
    const made = world(false);
    made.submit("app1", { queue: "root.b" }, { count: 4 });
    made.schedule();
    expect(made.scheduler.wakeAtMs()).toBe(1_000);
  });

  it("[CS17] a node that changes its label takes what runs on it along", () => {
    const made = world(true);
    made.submit("app1", { queue: "root.a" }, { nodeLabel: "gpu", count: 3 });
    made.schedule();
    made.node("gpu1", gb(4), { labels: [] });
    const [plain, gpuUse] = made.queue("root.a").partitions;
    expect(plain?.used.memoryMb).toBe(3_072);
    expect(gpuUse?.used.memoryMb).toBe(0);
  });
});
