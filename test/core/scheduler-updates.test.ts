import { describe, expect, it } from "vitest";
import { DEFAULT_PREEMPTION } from "../../src/core/scheduler/configuration.ts";
import { gb, percent, queues, SchedulerWorld } from "./scheduler-world.ts";

describe("another size for a container", () => {
  it("[CS20] smaller is given at once, and what it gives back serves others", () => {
    const world = new SchedulerWorld({ n1: gb(4) });
    world.submit("app1", {}, { capability: gb(4, 1) });
    world.submit("app2", {}, { count: 2 });
    world.schedule();
    expect(world.scheduler.resize("app1_1", gb(2, 1)).ok).toBe(true);
    expect(world.gigabytes("app1")).toEqual([2]);
    expect(world.served()).toEqual({ app2: 2 });
  });

  it("[CS20] larger is given when node, queue and user have it, else refused with the reason", () => {
    const leaf = { capacity: percent(50), maximumCapacity: percent(50), userLimitFactor: -1 };
    const world = new SchedulerWorld({ n1: gb(3), n2: gb(5) }, queues({ a: leaf, b: leaf }));
    world.submit("app1", { queue: "root.a" });
    const container = { attemptId: "app1", priority: 0, resource: gb(1, 1) };
    world.scheduler.book({ containerId: "one", nodeId: "n1:1", ...container });
    world.scheduler.book({ containerId: "two", nodeId: "n2:1", ...container });
    expect(world.scheduler.resize("one", gb(4, 1))).toMatchObject({
      error: { message: expect.stringContaining("node n1:1 has too little room") },
    });
    expect(world.scheduler.resize("two", gb(4, 1))).toMatchObject({
      error: { message: expect.stringContaining("queue root.a is at its maximum") },
    });
    expect(world.scheduler.resize("two", gb(3, 1)).ok).toBe(true);
    expect(world.queue("root.a").partitions[0]?.used.memoryMb).toBe(4_096);
    expect(world.scheduler.resize("nobody", gb(1))).toMatchObject({ error: { code: "NOT_FOUND" } });
  });
});

describe("opportunistic containers", () => {
  const opportunistic = { executionType: "OPPORTUNISTIC" } as const;

  function shared(): SchedulerWorld {
    const world = new SchedulerWorld({ n1: gb(4) });
    world.submit("idle", {}, { ...opportunistic, count: 9 });
    world.schedule();
    return world;
  }

  it("[CS21] use what is free, and count in no queue", () => {
    const world = shared();
    expect(world.gigabytes("idle")).toEqual([4]);
    expect(world.queue("root.default").partitions[0]?.used.memoryMb).toBe(0);
    expect(world.scheduler.nodeUsage("n1:1")?.used.memoryMb).toBe(4_096);
  });

  it("[CS21] take no room from guaranteed ones, and have to go for them at once", () => {
    const world = shared();
    expect(world.scheduler.wakeAtMs()).toBeUndefined();
    world.submit("app1", {}, { count: 3 });
    expect(world.served()).toEqual({ app1: 3 });
    expect(world.scheduler.wakeAtMs()).toBe(0);
    const { kill, asked } = world.scheduler.preempt(0);
    expect(kill).toHaveLength(3);
    expect(asked.size).toBe(0);
    for (const containerId of kill) world.scheduler.release(containerId);
    expect(world.scheduler.preempt(0).kill).toEqual([]);
    expect(world.scheduler.wakeAtMs()).toBeUndefined();
  });

  it("[CS21] become guaranteed when there is room for it, and the reverse", () => {
    const world = shared();
    world.submit("app1", {}, { count: 3 });
    world.schedule();
    expect(world.scheduler.promote("idle_1").ok).toBe(true);
    expect(world.queue("root.default").partitions[0]?.used.memoryMb).toBe(4_096);
    expect(world.scheduler.promote("idle_2")).toMatchObject({
      error: { message: expect.stringContaining("too little room") },
    });
    expect(world.scheduler.demote("idle_1").ok).toBe(true);
    expect(world.queue("root.default").partitions[0]?.used.memoryMb).toBe(3_072);
  });
});

describe("preemption", () => {
  const preemption = {
    ...DEFAULT_PREEMPTION,
    enabled: true,
    totalPreemptionPerRound: 1,
    naturalTerminationFactor: 1,
  };
  const leaf = { capacity: percent(50), userLimitFactor: -1 };
  const configuration = queues({ a: leaf, b: leaf }, { preemption });

  it("[CS22] is looked for every interval while something waits, and asks before it ends", () => {
    const world = new SchedulerWorld({ n1: gb(8) }, configuration);
    world.submit("greedy", { queue: "root.a" }, { count: 8 });
    world.schedule();
    expect(world.scheduler.wakeAtMs()).toBeUndefined();
    world.submit("poor", { queue: "root.b" }, { count: 8 });
    world.schedule();
    expect(world.scheduler.wakeAtMs()).toBe(preemption.monitoringIntervalMs);
    const first = world.scheduler.preempt(3_000);
    expect(first.asked.get("greedy")?.length).toBe(4);
    expect(first.kill).toEqual([]);
    const last = world.scheduler.preempt(3_000 + preemption.maxWaitBeforeKillMs);
    expect(last.kill).toHaveLength(4);
    for (const containerId of last.kill) world.scheduler.release(containerId);
    world.nowMs = 20_000;
    expect(world.served()).toEqual({ poor: 4 });
  });

  it("[CS22] is not looked for when it is off", () => {
    const world = new SchedulerWorld({ n1: gb(1) });
    world.submit("app1", {}, { count: 8 });
    world.schedule();
    expect(world.scheduler.wakeAtMs()).toBeUndefined();
    expect(world.scheduler.preempt(0)).toEqual({ asked: new Map(), kill: [] });
  });
});

describe("activity", () => {
  it("[CS23] counts the nodes that refuse a request, and says what else is in the way", () => {
    const world = new SchedulerWorld({ n1: gb(1), n2: gb(1), n3: gb(4) });
    world.submit("app1", {}, { capability: gb(2), count: 4 });
    world.schedule();
    expect(world.scheduler.activity("app1")).toEqual({
      queue: "root.default",
      isActive: true,
      requests: [
        {
          priority: 0,
          allocationRequestId: 0,
          count: 2,
          partition: "",
          nodes: 3,
          nodesWithRoom: 0,
          refusals: [{ reason: "too little memory", nodes: 3 }],
          blockedBy: [],
        },
      ],
    });
    expect(world.scheduler.activity("nobody")).toMatchObject({ queue: null, requests: [] });
  });
});
