import { describe, expect, it } from "vitest";
import { CapacityScheduler } from "../../src/core/scheduler/capacity-scheduler.ts";
import {
  DEFAULT_CONFIGURATION,
  type SchedulerConfiguration,
} from "../../src/core/scheduler/configuration.ts";
import type { Ask, Assignment } from "../../src/core/scheduler/request.ts";
import type { Reply } from "../../src/shared/errors.ts";
import { NO_RESOURCE, type Resource } from "../../src/shared/resource.ts";

function cluster(
  nodes: Record<string, Resource> = {},
  configuration: SchedulerConfiguration = DEFAULT_CONFIGURATION,
) {
  const scheduler = new CapacityScheduler(configuration);
  let sequence = 0;
  let order = 0;
  const addNode = (nodeId: string, capability: Resource) => {
    const place = { host: nodeId, rack: "/default-rack", labels: [], attributes: {} };
    scheduler.addNode({ nodeId, ...place, capability });
  };
  const addApplication = (attemptId: string, position: number) =>
    scheduler.addApplication({
      attemptId,
      queue: "root.default",
      user: "alice",
      order: position,
      priority: 0,
      masterResource: NO_RESOURCE,
    });
  for (const [nodeId, capability] of Object.entries(nodes)) addNode(nodeId, capability);
  return {
    scheduler,
    addNode,
    addApplication,
    submit(attemptId: string, ...asks: Partial<Ask>[]) {
      order += 1;
      addApplication(attemptId, order);
      for (const ask of asks) this.ask(attemptId, ask);
    },
    ask(attemptId: string, ask: Partial<Ask>) {
      const base = { priority: 0, allocationRequestId: 0, capability: gb(1), count: 1 };
      scheduler.setAsk(attemptId, { ...base, ...ask });
    },
    schedule(max = 1_000): Assignment[] {
      return scheduler.schedule(0, max, () => {
        sequence += 1;
        return `c${sequence}`;
      });
    },
    reasons: (attemptId: string) => scheduler.pending(attemptId).map(({ reason }) => reason),
  };
}

function gb(gigabytes: number, vcores = 1, extra?: Record<string, number>): Resource {
  const plain = { memoryMb: gigabytes * 1_024, vcores };
  return extra ? { ...plain, extra } : plain;
}

function nodesOf(assignments: readonly Assignment[]): string[] {
  return assignments.map(({ nodeId }) => nodeId).sort();
}

function errorOf(reply: Reply<unknown>) {
  return reply.ok ? undefined : reply.error;
}

describe("queues", () => {
  it("knows root.default, in full or short, and tells what there is otherwise", () => {
    const { scheduler } = cluster();
    expect(scheduler.resolveQueue("default")).toEqual({ ok: true, value: "root.default" });
    expect(scheduler.resolveQueue("root.default")).toEqual({ ok: true, value: "root.default" });
    expect(errorOf(scheduler.resolveQueue("prod"))).toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining('"prod"'),
      hint: expect.stringContaining("root.default"),
    });
  });
});

describe("asking", () => {
  it("gets exactly what was asked for, and each container says which ask it answers", () => {
    const { scheduler, ...world } = cluster({ "n1:1": gb(8, 8) });
    world.submit("app1", { priority: 3, allocationRequestId: 7, count: 2 });
    expect(world.schedule()).toEqual(
      ["c1", "c2"].map((containerId) => ({
        containerId,
        attemptId: "app1",
        nodeId: "n1:1",
        resource: gb(1),
        priority: 3,
        allocationRequestId: 7,
        locality: "OFF_SWITCH",
      })),
    );
    expect(scheduler.asks("app1")).toEqual([]);
    expect(world.schedule()).toEqual([]);
    expect(scheduler.attemptUsage("app1")).toMatchObject({ allocated: gb(2, 2), containers: 2 });
    expect(scheduler.nodeUsage("n1:1")).toEqual({
      used: gb(2, 2),
      reserved: gb(0, 0),
      containers: 2,
    });
  });

  it("says the outstanding number, not a difference: the last word counts", () => {
    const world = cluster({ "n1:1": gb(8, 8) });
    world.submit("app1", { count: 5 }, { count: 2 });
    expect(world.schedule()).toHaveLength(2);
  });

  it("is taken back with a count of 0", () => {
    const world = cluster({ "n1:1": gb(8, 8) });
    world.submit("app1", { count: 5 }, { count: 0 });
    expect(world.scheduler.asks("app1")).toEqual([]);
    expect(world.schedule()).toEqual([]);
  });

  it("may change its size while it waits", () => {
    const world = cluster({ "n1:1": gb(2, 2) });
    world.submit("app1", { capability: gb(4) });
    expect(world.schedule()).toEqual([]);
    world.ask("app1", { capability: gb(2) });
    expect(world.schedule()).toMatchObject([{ resource: gb(2) }]);
  });

  it("is rounded up to a multiple of the minimum allocation", () => {
    const minimumAllocation = { memoryMb: 1_024, vcores: 2 };
    const configuration = { ...DEFAULT_CONFIGURATION, minimumAllocation };
    const world = cluster({ "n1:1": gb(8, 8) }, configuration);
    world.submit("app1", { capability: { memoryMb: 1_500, vcores: 3 } });
    world.submit("app2", { capability: { memoryMb: 0, vcores: 0 } });
    expect(world.scheduler.asks("app1")).toMatchObject([{ capability: gb(2, 4) }]);
    expect(world.schedule()).toMatchObject([{ resource: gb(2, 4) }, { resource: gb(1, 2) }]);
  });

  it("by default wastes nothing on a small node: 100 MB are 100 MB", () => {
    const world = cluster({ "n1:1": { memoryMb: 512, vcores: 8 } });
    world.submit("app1", { capability: { memoryMb: 100, vcores: 1 }, count: 9 });
    expect(world.schedule()).toHaveLength(5);
  });

  it("ends with the application; its containers stay booked until they are released", () => {
    const world = cluster({ "n1:1": gb(2, 2) });
    world.submit("app1", { count: 3 });
    world.schedule();
    world.scheduler.removeApplication("app1");
    world.scheduler.release("c1");
    expect(world.schedule()).toEqual([]);
    expect(world.scheduler.asks("app1")).toEqual([]);
    expect(world.scheduler.attemptUsage("app1")).toMatchObject({ allocated: gb(1), containers: 1 });
    world.scheduler.release("c2");
    expect(world.scheduler.usage()).toMatchObject({ used: gb(0, 0), containers: 0 });
  });
});

describe("order of service", () => {
  it("serves the application that was submitted first, whatever came first in time", () => {
    const { addApplication, schedule, ask } = cluster({ "n1:1": gb(1) });
    for (const [attemptId, order] of [["late", 2] as const, ["early", 1] as const]) {
      addApplication(attemptId, order);
      ask(attemptId, {});
    }
    expect(schedule()).toMatchObject([{ attemptId: "early" }]);
  });

  it("lets a small application pass a large one that does not fit", () => {
    const world = cluster({ "n1:1": gb(2, 2) });
    world.submit("large", { capability: gb(4) });
    world.submit("small", { capability: gb(1) });
    expect(world.schedule()).toMatchObject([{ attemptId: "small" }]);
  });

  it("within an application takes the smaller priority number first, then the smaller id", () => {
    const world = cluster({ "n1:1": gb(8, 8) });
    const keys = [
      { priority: 2, allocationRequestId: 0 },
      { priority: 1, allocationRequestId: 9 },
      { priority: 1, allocationRequestId: -1 },
    ];
    world.submit("app1", ...keys);
    expect(world.schedule().map((one) => [one.priority, one.allocationRequestId])).toEqual([
      [1, -1],
      [1, 9],
      [2, 0],
    ]);
  });

  it("within an application goes on with the next priority when the first must wait", () => {
    const world = cluster({ "n1:1": gb(2, 2) });
    world.submit("app1", { priority: 0, capability: gb(4) }, { priority: 1 });
    expect(world.schedule()).toMatchObject([{ priority: 1 }]);
  });

  it("stops at the maximum of a pass, and knows that there is more to do", () => {
    const world = cluster({ "n1:1": gb(4, 4) });
    world.submit("app1", { count: 6 });
    expect(world.schedule(3)).toHaveLength(3);
    expect(world.scheduler.hasPending()).toBe(true);
    expect(world.reasons("app1")).toEqual(["1/1 nodes have room: it is placed in the next pass"]);
    expect(world.schedule(3)).toHaveLength(1);
    expect(world.scheduler.hasPending()).toBe(false);
  });
});

describe("placement", () => {
  it("spreads the containers of one application over the nodes", () => {
    const world = cluster({ "n1:1": gb(8, 8), "n2:1": gb(8, 8), "n3:1": gb(8, 8) });
    world.submit("app1", { count: 3 });
    expect(nodesOf(world.schedule())).toEqual(["n1:1", "n2:1", "n3:1"]);
  });

  it("prefers fewer containers of the same application to an emptier node", () => {
    const world = cluster({ "big:1": gb(64, 64), "tiny:1": gb(2, 2) });
    world.submit("app1", { count: 2 });
    expect(nodesOf(world.schedule())).toEqual(["big:1", "tiny:1"]);
  });

  it("between equals takes the node that stays least used, by its dominant resource", () => {
    const world = cluster({ "a:1": gb(10, 4), "b:1": gb(6, 16) });
    world.submit("app1", { capability: gb(1, 2) });
    expect(nodesOf(world.schedule())).toEqual(["b:1"]);
  });

  it("spreads over a cluster that is too large to look at whole", () => {
    const names = Array.from({ length: 500 }, (_, index) => [`n${index}:1`, gb(64, 64)] as const);
    const world = cluster(Object.fromEntries(names));
    world.submit("app1", { count: 100 });
    expect(new Set(nodesOf(world.schedule())).size).toBe(100);
  });

  it("fills a large cluster to the last container", () => {
    const names = Array.from({ length: 1_500 }, (_, index) => [`n${index}:1`, gb(2, 2)] as const);
    const world = cluster(Object.fromEntries(names));
    world.submit("app1", { count: 4_000 });
    expect(world.schedule(5_000)).toHaveLength(3_000);
    expect(world.reasons("app1")).toEqual(["0/1500 nodes: 1500 too little memory"]);
  });

  it("gives a container with an extra resource to a node that has it free", () => {
    const world = cluster({ "cpu:1": gb(64, 64), "gpu:1": gb(8, 8, { "yarn.io/gpu": 1 }) });
    world.submit("app1", { capability: gb(1, 1, { "yarn.io/gpu": 1 }), count: 2 });
    expect(nodesOf(world.schedule())).toEqual(["gpu:1"]);
    expect(world.reasons("app1")).toEqual([
      "0/2 nodes: 1 too few yarn.io/gpu, 1 without yarn.io/gpu",
    ]);
    world.addNode("gpu:2", gb(8, 8, { "yarn.io/gpu": 4 }));
    expect(nodesOf(world.schedule())).toEqual(["gpu:2"]);
    expect(world.scheduler.usage().used).toEqual(gb(2, 2, { "yarn.io/gpu": 2 }));
    world.scheduler.release("c1");
    world.scheduler.release("c2");
    expect(world.scheduler.usage().used).toEqual(gb(0, 0));
  });
});

describe("nodes come and go", () => {
  it("places what waited as soon as a node comes", () => {
    const world = cluster();
    world.submit("app1", {});
    expect(world.schedule()).toEqual([]);
    world.addNode("n1:1", gb(1));
    expect(world.schedule()).toMatchObject([{ nodeId: "n1:1" }]);
  });

  it("places nothing on a removed node, whose containers stay booked until released", () => {
    const world = cluster({ "n1:1": gb(4, 4) });
    world.submit("app1", { count: 1 });
    world.schedule();
    world.scheduler.removeNode("n1:1");
    world.ask("app1", { count: 1 });
    expect(world.schedule()).toEqual([]);
    expect(world.scheduler.nodeUsage("n1:1")).toEqual({
      used: gb(1),
      reserved: gb(0, 0),
      containers: 1,
    });
    expect(world.scheduler.usage()).toEqual({
      total: gb(0, 0),
      used: gb(1),
      nodes: 0,
      containers: 1,
    });
    world.scheduler.release("c1");
    expect(world.scheduler.nodeUsage("n1:1")).toBeUndefined();
  });

  it("finds the containers again on a node that comes back", () => {
    const world = cluster({ "n1:1": gb(2, 2) });
    world.submit("app1", { count: 1 });
    world.schedule();
    world.scheduler.removeNode("n1:1");
    world.addNode("n1:1", gb(2, 2));
    world.ask("app1", { count: 2 });
    expect(world.schedule()).toHaveLength(1);
  });

  it("places nothing on a node that shrank below its containers, until enough are gone", () => {
    const world = cluster({ "n1:1": gb(4, 4) });
    world.submit("app1", { count: 4 });
    world.schedule();
    world.addNode("n1:1", gb(2, 2));
    world.ask("app1", { count: 1 });
    world.scheduler.release("c1");
    world.scheduler.release("c2");
    expect(world.schedule()).toEqual([]);
    expect(world.scheduler.headroom("app1")).toEqual(gb(0, 0));
    world.scheduler.release("c3");
    expect(world.schedule()).toHaveLength(1);
  });

  it("uses what a grown node has more", () => {
    const world = cluster({ "n1:1": gb(1) });
    world.submit("app1", { count: 3 });
    expect(world.schedule()).toHaveLength(1);
    world.addNode("n1:1", gb(3, 3));
    expect(world.schedule()).toHaveLength(2);
  });

  it("notices room on one node even after a great many changes on another", () => {
    const world = cluster({ "quiet:1": gb(4, 4), "busy:1": gb(1) });
    const book = (containerId: string, nodeId: string) =>
      world.scheduler.book({
        containerId,
        attemptId: "app0",
        nodeId,
        resource: gb(1),
        priority: 0,
      });
    book("first", "quiet:1");
    world.submit("app1", { capability: gb(4, 4) });
    expect(world.schedule()).toEqual([]);
    world.scheduler.release("first");
    for (let change = 0; change < 500; change += 1) {
      book("again", "busy:1");
      world.scheduler.release("again");
    }
    expect(world.schedule()).toMatchObject([{ nodeId: "quiet:1" }]);
  });

  it("notices room on one node even after containers of many unknown nodes came", () => {
    const world = cluster({ "n0:1": gb(1), "n1:1": gb(4, 4) });
    const book = (containerId: string, nodeId: string) =>
      world.scheduler.book({
        containerId,
        attemptId: "app0",
        nodeId,
        resource: gb(1),
        priority: 0,
      });
    book("first", "n1:1");
    world.submit("app1", { capability: gb(4, 4) });
    expect(world.schedule()).toEqual([]);
    world.scheduler.release("first");
    for (let number = 0; number < 63; number += 1) book(`other${number}`, `lost${number}:1`);
    expect(world.schedule()).toMatchObject([{ nodeId: "n1:1" }]);
  });

  it("ignores the removal of a node and the release of a container that it does not know", () => {
    const world = cluster({ "n1:1": gb(1) });
    world.scheduler.removeNode("n2:1");
    world.scheduler.release("c99");
    expect(world.scheduler.usage()).toMatchObject({ nodes: 1, containers: 0 });
  });
});

describe("why not", () => {
  it("counts each node once, under the first thing that it lacks", () => {
    const world = cluster({
      "full:1": gb(1, 8),
      "full:2": gb(1, 8),
      "slow:1": gb(8, 1),
      "plain:1": gb(8, 8),
      "gpu:1": gb(2, 8, { "yarn.io/gpu": 1 }),
      "gpu:2": gb(8, 8, { "yarn.io/gpu": 1 }),
    });
    const capability = gb(4, 4, { "yarn.io/gpu": 1 });
    world.submit("app1", { capability, count: 4 });
    expect(nodesOf(world.schedule())).toEqual(["gpu:2"]);
    world.scheduler.book({
      containerId: "other",
      attemptId: "app2",
      nodeId: "plain:1",
      resource: gb(1),
      priority: 0,
    });
    expect(world.scheduler.pending("app1")).toEqual([
      {
        priority: 0,
        allocationRequestId: 0,
        count: 3,
        reason:
          "0/6 nodes: 3 too little memory, 1 too few vcores, 1 too few yarn.io/gpu, 1 without yarn.io/gpu",
      },
    ]);
  });

  it("says that there are no nodes", () => {
    const world = cluster();
    world.submit("app1", {});
    expect(world.reasons("app1")).toEqual(["no nodes are registered"]);
  });

  it("says that no node will ever do, and what the largest has", () => {
    const world = cluster({ "n1:1": gb(4, 4), "n2:1": gb(2, 2) });
    world.submit("app1", { capability: gb(8) });
    world.schedule();
    expect(world.reasons("app1")).toEqual([
      "no node is large enough: the largest has 4096 MB, 4 vcores",
    ]);
  });

  it("has nothing to say of an application that waits for nothing", () => {
    const world = cluster();
    world.submit("app1");
    expect(world.scheduler.pending("app1")).toEqual([]);
    expect(world.scheduler.pending("nobody")).toEqual([]);
  });
});

describe("admission", () => {
  it("admits what a node could hold if it were empty, even when it is full", () => {
    const world = cluster({ "n1:1": gb(4, 4) });
    world.submit("app1", { capability: gb(4, 4) });
    world.schedule();
    expect(world.scheduler.admit(gb(4, 4))).toEqual({ ok: true, value: undefined });
  });

  it("admits everything while no node is registered", () => {
    expect(cluster().scheduler.admit(gb(9_999)).ok).toBe(true);
  });

  it.each([
    ["too large", gb(8), "the largest has 4096 MB, 16 vcores"],
    ["of an unknown type", gb(1, 1, { "yarn.io/fpga": 1 }), "no node has yarn.io/fpga"],
    ["large in two types that no node unites", gb(4, 8), "no single node has all of it"],
  ])("refuses what is %s, in words", (_, capability, words) => {
    const { scheduler } = cluster({ "n1:1": gb(4, 4), "n2:1": gb(2, 16) });
    expect(errorOf(scheduler.admit(capability))).toMatchObject({
      code: "FAILED_PRECONDITION",
      message: expect.stringContaining(words),
    });
  });

  it("forgets the size of a node that is gone", () => {
    const { scheduler } = cluster({ "big:1": gb(64, 64), "n1:1": gb(4, 4) });
    scheduler.removeNode("big:1");
    expect(scheduler.admit(gb(8)).ok).toBe(false);
    expect(scheduler.maximumCapability()).toEqual(gb(4, 4));
  });

  it("tells the largest container type by type", () => {
    const { scheduler } = cluster({ "n1:1": gb(4, 2), "n2:1": gb(2, 8, { "yarn.io/gpu": 2 }) });
    expect(scheduler.maximumCapability()).toEqual(gb(4, 8, { "yarn.io/gpu": 2 }));
  });
});

describe("headroom", () => {
  it("is what is free on registered nodes, in whole minimum allocations", () => {
    const minimumAllocation = { memoryMb: 1_024, vcores: 1 };
    const nodes = { "n1:1": { memoryMb: 3_500, vcores: 4 }, "n2:1": gb(8, 8) };
    const world = cluster(nodes, { ...DEFAULT_CONFIGURATION, minimumAllocation });
    world.submit("app1", { count: 1 });
    world.schedule();
    world.scheduler.removeNode("n2:1");
    const onN1 = world.scheduler.nodeUsage("n1:1")?.containers ?? 0;
    expect(world.scheduler.headroom("app1")).toEqual(gb(3 - onN1, 4 - onN1));
    expect(world.scheduler.headroom("nobody")).toEqual(gb(0, 0));
  });
});
