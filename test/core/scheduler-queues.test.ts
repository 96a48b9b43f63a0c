import { describe, expect, it } from "vitest";
import { defaultQueue } from "../../src/core/scheduler/configuration.ts";
import { gb, percent, queues, SchedulerWorld, weight } from "./scheduler-world.ts";

/** 6 : 1 : 3, the example of seed 004. */
const COMPANY = queues({
  "finance-wizards": { capacity: percent(10) },
  "grumpy-engineers": {
    capacity: percent(60),
    children: { "infinite-monkeys": { maximumCapacity: percent(40), userLimitFactor: -1 } },
  },
  "marketing-moguls": { capacity: percent(30) },
});

function guaranteedMb(world: SchedulerWorld, path: string): number | undefined {
  return world.queue(path).partitions[0]?.guaranteed.memoryMb;
}

describe("what a queue is guaranteed", () => {
  it("[CS1] is its percentage of its parent's", () => {
    const world = new SchedulerWorld({ n1: gb(100) }, COMPANY);
    expect(guaranteedMb(world, "root.grumpy-engineers")).toBe(60 * 1_024);
    expect(guaranteedMb(world, "root.finance-wizards")).toBe(10 * 1_024);
    expect(world.queue("root.marketing-moguls").partitions[0]?.absoluteCapacity).toBeCloseTo(0.3);
  });

  it("[CS1] is its part of the siblings' weights, and shrinks as a sibling is added", () => {
    const world = new SchedulerWorld(
      { n1: gb(100) },
      queues({ a: { capacity: weight(1) }, b: { capacity: weight(3) } }),
    );
    expect(guaranteedMb(world, "root.b")).toBe(75 * 1_024);
    world.scheduler.reconfigure(
      queues({
        a: { capacity: weight(1) },
        b: { capacity: weight(3) },
        c: { capacity: weight(1) },
      }),
    );
    expect(guaranteedMb(world, "root.b")).toBe(60 * 1_024);
  });

  it("[CS1] is the resources that it was given, scaled down when the cluster has fewer", () => {
    const given = (gigabytes: number) => ({ mode: "absolute", resource: gb(gigabytes) }) as const;
    const configuration = queues({ a: { capacity: given(60) }, b: { capacity: given(20) } });
    const world = new SchedulerWorld({ n1: gb(50), n2: gb(50) }, configuration);
    expect(guaranteedMb(world, "root.a")).toBe(60 * 1_024);
    world.scheduler.removeNode("n2:1");
    expect(guaranteedMb(world, "root.a")).toBe(37.5 * 1_024);
    expect(guaranteedMb(world, "root.b")).toBe(12.5 * 1_024);
  });
});

describe("whose turn it is", () => {
  const config = queues({
    a: { capacity: percent(25), userLimitFactor: -1 },
    b: { capacity: percent(75), userLimitFactor: -1 },
  });

  it("[CS2] is the queue's that uses least of its guarantee", () => {
    const world = new SchedulerWorld({ n1: gb(8) }, config);
    world.submit("small", { queue: "root.a" }, { count: 100 });
    world.submit("large", { queue: "root.b" }, { count: 100 });
    expect(world.served()).toEqual({ small: 2, large: 6 });
  });

  it("[CS2] may use what others leave idle", () => {
    const world = new SchedulerWorld({ n1: gb(8) }, config);
    world.submit("small", { queue: "root.a" }, { count: 100 });
    expect(world.served()).toEqual({ small: 8 });
    expect(world.queue("root.a").partitions[0]?.usedCapacity).toBeCloseTo(4);
  });

  it("[CS2] with priority-utilization, is the more important queue's below its guarantee", () => {
    const ordering = { policy: "priority-utilization" } as const;
    const leaf = { capacity: percent(50), userLimitFactor: -1 };
    const root = { ...queues({ a: leaf, b: { ...leaf, priority: 5 } }).root, ordering };
    const world = new SchedulerWorld({ n1: gb(8) }, { ...config, root });
    world.submit("plain", { queue: "root.a" }, { count: 100 });
    world.submit("important", { queue: "root.b" }, { count: 100 });
    expect(world.served(4)).toEqual({ important: 4 });
    expect(world.served(4)).toEqual({ plain: 4 });
  });

  it("[CS3] within a queue, is the application's with the higher priority, then the earlier", () => {
    const world = new SchedulerWorld({ n1: gb(3) });
    world.submit("early", {}, { count: 2 });
    world.submit("late", {}, { count: 2 });
    world.submit("urgent", { priority: 9 }, { count: 2 });
    expect(world.served()).toEqual({ urgent: 2, early: 1 });
    world.scheduler.setApplicationPriority("late", 5);
    world.node("n2", gb(1));
    expect(world.served()).toEqual({ late: 1 });
  });

  it("[CS3] in a fair queue, is the application's that has least memory", () => {
    const ordering = { policy: "fair", sizeBasedWeight: false } as const;
    const world = new SchedulerWorld({ n1: gb(6) }, queues({ default: { ordering } }));
    world.submit("one", {}, { count: 100 });
    world.submit("two", {}, { count: 100 });
    world.submit("three", {}, { count: 1 });
    expect(world.served()).toEqual({ one: 3, two: 2, three: 1 });
  });
});

describe("how much a queue may have", () => {
  it("[CS4] is its maximum, though the rest of the cluster is idle", () => {
    const world = new SchedulerWorld({ n1: gb(100) }, COMPANY);
    world.submit("monkeys", { queue: "root.grumpy-engineers.infinite-monkeys" }, { count: 100 });
    expect(world.served()).toEqual({ monkeys: 40 });
    expect(world.reasons("monkeys")).toEqual([
      "queue root.grumpy-engineers.infinite-monkeys is at 100 % of its maximum",
    ]);
    expect(world.schedule()).toEqual([]);
    expect(world.scheduler.hasPending()).toBe(false);
  });

  it("[CS4] is never more than its maximum: 39 of 40 GB used, a request of 2 GB waits", () => {
    const leaf = { maximumCapacity: percent(40), userLimitFactor: -1 };
    const world = new SchedulerWorld({ n1: gb(100) }, queues({ a: leaf }));
    world.submit("app1", { queue: "root.a" }, { count: 39 });
    world.schedule();
    world.submit("app2", { queue: "root.a" }, { capability: gb(2) });
    world.submit("app3", { queue: "root.a" }, { capability: gb(1) });
    expect(world.schedule()).toEqual([]);
    world.scheduler.release("app1_1");
    expect(world.served()).toEqual({ app2: 1 });
  });

  it("[CS4] what a more deserving queue waits for is not taken by its siblings", () => {
    const child = { capacity: percent(50), userLimitFactor: -1 };
    const parent = { maximumCapacity: percent(40), children: { x: child, y: child } };
    const world = new SchedulerWorld({ n1: gb(100) }, queues({ p: parent }));
    world.submit("filler", { queue: "root.p.y" }, { count: 39 });
    world.schedule();
    world.submit("big", { queue: "root.p.x" }, { capability: gb(2) });
    world.ask("filler", { count: 5 });
    expect(world.schedule()).toEqual([]);
    world.scheduler.release("filler_1");
    expect(world.served()).toEqual({ big: 1 });
  });

  it("[CS4] follows the nodes that come and go", () => {
    const leaf = { maximumCapacity: percent(50), userLimitFactor: -1 };
    const world = new SchedulerWorld({ n1: gb(4) }, queues({ a: leaf }));
    world.submit("app1", { queue: "root.a" }, { count: 10 });
    expect(world.schedule()).toHaveLength(2);
    world.node("n2", gb(4));
    expect(world.schedule()).toHaveLength(2);
  });
});

describe("whether a queue takes an application", () => {
  it("[CS5] depends on the states of the queue and of all above it", () => {
    const stopped = { state: "STOPPED", children: { x: {} } } as const;
    const { scheduler } = new SchedulerWorld({}, queues({ p: stopped }));
    expect(scheduler.admitApplication({ queue: "root.p.x", user: "alice" })).toMatchObject({
      error: { code: "FAILED_PRECONDITION", message: expect.stringContaining("STOPPED") },
    });
  });

  it("[CS5] a stopped queue drains: what is in it goes on", () => {
    const world = new SchedulerWorld({ n1: gb(8) });
    world.submit("app1", {}, { count: 2 });
    world.scheduler.reconfigure(queues({ default: { state: "STOPPED" } }));
    expect(world.queue("root.default").state).toBe("DRAINING");
    expect(world.served()).toEqual({ app1: 2 });
    world.scheduler.removeApplication("app1");
    expect(world.queue("root.default").state).toBe("STOPPED");
  });

  it.each([
    [1, 500],
    [0.25, 125],
  ])(
    "[CS5] 10000 in the cluster, 5 %% of it, users' minimum %d: 500, and %d of one user",
    (minimumUserLimit, perUser) => {
      const small = { capacity: percent(5), minimumUserLimit };
      const configuration = queues({ small, rest: { capacity: percent(95) } });
      expect(new SchedulerWorld({}, configuration).queue("root.small")).toMatchObject({
        maximumApplications: 500,
        maximumApplicationsPerUser: perUser,
      });
    },
  );

  it("[CS5] counts applications of the queue, of the user and of the cluster", () => {
    const leaf = { capacity: percent(50), maximumApplications: 2, minimumUserLimit: 0.5 };
    const configuration = queues({ a: leaf, b: leaf }, { maximumApplications: 3 });
    const world = new SchedulerWorld({ n1: gb(8) }, configuration);
    const admit = (queue: string, user: string) =>
      world.scheduler.admitApplication({ queue, user });
    world.submit("app1", { queue: "root.a", user: "alice" });
    expect(admit("root.a", "alice")).toMatchObject({
      error: { message: expect.stringContaining("already has 1 applications from user alice") },
    });
    world.submit("app2", { queue: "root.a", user: "bob" });
    expect(admit("root.a", "carol")).toMatchObject({
      error: { message: expect.stringContaining("Queue root.a already has 2 applications") },
    });
    expect(admit("root.b", "carol").ok).toBe(true);
    world.submit("app3", { queue: "root.b", user: "carol" });
    expect(admit("root.b", "dave")).toMatchObject({
      error: { message: expect.stringContaining("Maximum system application limit") },
    });
  });

  it("[CS6] more than max-parallel-apps wait, and go on in the order of submission", () => {
    const world = new SchedulerWorld(
      { n1: gb(8) },
      queues({ default: { maxParallelApplications: 1 } }),
    );
    for (const name of ["app1", "app2", "app3"]) world.submit(name, {}, { count: 1 });
    expect(world.served()).toEqual({ app1: 1 });
    expect(world.reasons("app2")).toEqual([
      expect.stringContaining("queue root.default already runs 1 applications (max-parallel-apps)"),
    ]);
    world.scheduler.removeApplication("app1");
    expect(world.served()).toEqual({ app2: 1 });
  });

  it("[CS6] a user's max-parallel-apps count over all queues", () => {
    const leaf = { capacity: percent(50) };
    const configuration = queues({ a: leaf, b: leaf }, { maxParallelApplicationsOf: { alice: 1 } });
    const world = new SchedulerWorld({ n1: gb(8) }, configuration);
    world.submit("app1", { queue: "root.a" }, { count: 1 });
    world.submit("app2", { queue: "root.b" }, { count: 1 });
    world.submit("app3", { queue: "root.b", user: "bob" }, { count: 1 });
    expect(world.served()).toEqual({ app1: 1, app3: 1 });
  });
});

describe("queues that change", () => {
  const {
    path: _path,
    name: _name,
    children: _children,
    template: _,
    ...leaf
  } = defaultQueue("root.users.x");
  const template = { maxQueues: 2, leaf: { ...leaf, capacity: weight(1) }, expirySeconds: 300 };
  const users = queues({ users: { template } });

  it("[CS7] a template makes the leaf of a first application, and it goes when long empty", () => {
    const world = new SchedulerWorld({ n1: gb(8) }, users);
    expect(world.scheduler.resolveQueue("root.users.bob")).toMatchObject({
      value: "root.users.bob",
    });
    world.submit("app1", { queue: "root.users.bob", user: "bob" }, { count: 1 });
    expect(world.served()).toEqual({ app1: 1 });
    expect(world.queue("root.users.bob")).toMatchObject({ isDynamic: true, applications: 1 });
    world.scheduler.removeApplication("app1");
    world.scheduler.release("app1_1");
    world.schedule();
    world.nowMs = 299_999;
    world.schedule();
    expect(world.scheduler.leafQueues()).toEqual(["root.users.bob"]);
    world.nowMs = 300_000;
    world.schedule();
    expect(world.scheduler.leafQueues()).toEqual([]);
  });

  it("[CS7] a template makes no more leaves than it may", () => {
    const world = new SchedulerWorld({ n1: gb(8) }, users);
    world.submit("app1", { queue: "root.users.bob" });
    world.submit("app2", { queue: "root.users.carol" });
    const admitted = world.scheduler.admitApplication({ queue: "root.users.dave", user: "dave" });
    expect(admitted).toMatchObject({ error: { code: "RESOURCE_EXHAUSTED" } });
  });

  it("[CS8] an application moves with its requests and containers", () => {
    const child = { capacity: percent(50), userLimitFactor: -1 };
    const world = new SchedulerWorld({ n1: gb(8) }, queues({ a: child, b: child }));
    world.submit("app1", { queue: "root.a" }, { count: 3 });
    world.schedule(2);
    expect(world.scheduler.moveApplication("app1", "root.b").ok).toBe(true);
    expect(world.queue("root.a")).toMatchObject({ applications: 0, containers: 0 });
    expect(world.queue("root.b")).toMatchObject({
      applications: 1,
      containers: 2,
      pendingContainers: 1,
    });
    expect(world.queue("root.b").partitions[0]?.used.memoryMb).toBe(2_048);
    expect(world.served()).toEqual({ app1: 1 });
  });

  it("[CS8] an application does not move to a queue that does not take it", () => {
    const child = { capacity: percent(50) };
    const configuration = queues({ a: child, b: { ...child, state: "STOPPED" } });
    const world = new SchedulerWorld({ n1: gb(8) }, configuration);
    world.submit("app1", { queue: "root.a" });
    expect(world.scheduler.moveApplication("app1", "root.b").ok).toBe(false);
    expect(world.scheduler.moveApplication("app1", "root.c").ok).toBe(false);
    expect(world.queue("root.a").applications).toBe(1);
  });

  it("[CS9] another configuration keeps every application, request and container", () => {
    const world = new SchedulerWorld({ n1: gb(8) }, queues({ a: { userLimitFactor: -1 } }));
    world.submit("app1", { queue: "root.a" }, { count: 9 });
    world.schedule();
    const limited = { capacity: percent(50), maximumCapacity: percent(50), userLimitFactor: -1 };
    world.scheduler.reconfigure(queues({ a: limited, b: { capacity: percent(50) } }));
    expect(world.queue("root.a")).toMatchObject({
      applications: 1,
      containers: 8,
      pendingContainers: 1,
    });
    for (const number of [1, 2, 3, 4]) world.scheduler.release(`app1_${number}`);
    expect(world.schedule()).toEqual([]);
    world.scheduler.release("app1_5");
    expect(world.served()).toEqual({ app1: 1 });
  });
});
