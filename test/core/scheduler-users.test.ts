import { describe, expect, it } from "vitest";
import type { QueueConfiguration } from "../../src/core/scheduler/configuration.ts";
import { gb, percent, queues, SchedulerWorld } from "./scheduler-world.ts";

const MINIMUM = { minimumAllocation: { memoryMb: 1_024, vcores: 1 } };

/** 100 GB; root.a has 30 % of it, at most 60 %, as in the worked numbers of facts §3.16. */
function cluster(settings: Partial<Omit<QueueConfiguration, "children">>): SchedulerWorld {
  const a = { capacity: percent(30), maximumCapacity: percent(60), ...settings };
  const configuration = queues({ a, b: { capacity: percent(70) } }, MINIMUM);
  return new SchedulerWorld({ n1: gb(100) }, configuration);
}

function limitGb(world: SchedulerWorld, user: string): number | undefined {
  const users = world.queue("root.a").users ?? [];
  const limit = users.find((each) => each.user === user)?.limit;
  return limit && limit.memoryMb / 1_024;
}

/** One application for each user, with so many containers of 1 GB, and more wanted. */
function run(world: SchedulerWorld, users: Readonly<Record<string, number>>): void {
  for (const [user, containers] of Object.entries(users)) {
    world.submit(`app-${user}`, { queue: "root.a", user });
    for (let number = 0; number < containers; number += 1) {
      world.scheduler.book({
        containerId: `${user}_${number}`,
        attemptId: `app-${user}`,
        nodeId: "n1:1",
        resource: gb(1, 1),
        priority: 0,
      });
    }
  }
  for (const user of Object.keys(users)) world.ask(`app-${user}`, { count: 100 });
}

describe("what one user may have of a queue", () => {
  it("[CS10] is the queue's guarantee, though its ceiling is higher", () => {
    const world = cluster({});
    run(world, { alice: 0 });
    expect(limitGb(world, "alice")).toBe(30);
    expect(world.served()).toEqual({ "app-alice": 31 });
    expect(world.reasons("app-alice")).toEqual([
      expect.stringContaining("user alice is above the user limit of queue root.a (30720 MB"),
    ]);
  });

  it("[CS10] with a user limit factor of 2 grows with what is used, up to the ceiling", () => {
    const world = cluster({ userLimitFactor: 2 });
    run(world, { alice: 0 });
    expect(limitGb(world, "alice")).toBe(30);
    expect(world.served()).toEqual({ "app-alice": 60 });
  });

  it("[CS10] with a factor of -1 is the queue's maximum", () => {
    const world = cluster({ userLimitFactor: -1, minimumUserLimit: 0.1 });
    run(world, { alice: 0 });
    expect(world.served()).toEqual({ "app-alice": 60 });
  });

  it("[CS10] two active users with 10 GB each, 25 %: 11 GB each", () => {
    const world = cluster({ minimumUserLimit: 0.25 });
    run(world, { alice: 10, bob: 10 });
    expect(limitGb(world, "alice")).toBe(11);
    expect(limitGb(world, "bob")).toBe(11);
  });

  it("[CS10] five active users with 6 GB each, 25 %: 8 GB each", () => {
    const world = cluster({ minimumUserLimit: 0.25 });
    run(world, { u1: 6, u2: 6, u3: 6, u4: 6, u5: 6 });
    expect(limitGb(world, "u3")).toBe(8);
  });

  it("[CS10] users who want more share the queue, nobody more than a container above a third", () => {
    const world = cluster({ minimumUserLimit: 0.25, maximumCapacity: percent(30) });
    run(world, { alice: 0, bob: 0, carol: 0 });
    const shares = Object.values(world.served());
    expect(shares.reduce((sum, share) => sum + share, 0)).toBe(30);
    expect(Math.max(...shares)).toBe(11);
  });

  it("[CS10] a user who wants nothing more does not count", () => {
    const world = cluster({ minimumUserLimit: 0.25, maximumCapacity: percent(30) });
    run(world, { alice: 5, bob: 0 });
    world.ask("app-alice", { count: 0 });
    expect(world.served()).toEqual({ "app-bob": 25 });
  });

  it("[CS10] a user of double weight gets twice as much", () => {
    const userWeights = { alice: 2 };
    const world = cluster({
      minimumUserLimit: 0.25,
      maximumCapacity: percent(30),
      userWeights,
    });
    run(world, { alice: 0, bob: 0 });
    const { "app-alice": alice = 0, "app-bob": bob = 0 } = world.served();
    expect(alice + bob).toBe(30);
    expect(alice / bob).toBeCloseTo(2, 0);
  });
});

describe("ApplicationMasters", () => {
  const master = { master: gb(2) };

  it("[CS11] a first one starts though it is larger than their share; a second one waits", () => {
    const world = new SchedulerWorld({ n1: gb(8) }, queues({ default: {} }, MINIMUM));
    world.submit("app1", master, { count: 1 });
    world.submit("app2", master, { count: 1 });
    expect(world.queue("root.default")).toMatchObject({
      masterLimit: { memoryMb: 1_024 },
      activeApplications: 1,
      pendingApplications: 1,
    });
    expect(world.served()).toEqual({ app1: 1 });
    expect(world.reasons("app2")).toEqual([
      expect.stringContaining("Queue's AM resource limit exceeded"),
    ]);
    world.scheduler.removeApplication("app1");
    expect(world.served()).toEqual({ app2: 1 });
  });

  it("[CS11] one that does not fit does not hold up a smaller one behind it", () => {
    const world = new SchedulerWorld({ n1: gb(30) }, queues({ default: {} }, MINIMUM));
    world.submit("app1", master, { count: 1 });
    world.submit("large", master, { count: 1 });
    world.submit("small", { master: gb(1) }, { count: 1 });
    expect(world.served()).toEqual({ app1: 1, small: 1 });
  });

  it("[CS11] more nodes make room for more of them", () => {
    const world = new SchedulerWorld({ n1: gb(8) }, queues({ default: {} }, MINIMUM));
    world.submit("app1", master, { count: 1 });
    world.submit("app2", master, { count: 1 });
    expect(world.served()).toEqual({ app1: 1 });
    world.node("n2", gb(40));
    expect(world.served()).toEqual({ app2: 1 });
  });

  it("[CS11] at the edge take nothing, so that none of them waits", () => {
    const world = new SchedulerWorld({ n1: gb(8) });
    for (let number = 0; number < 20; number += 1) world.submit(`app${number}`);
    expect(world.queue("root.default").activeApplications).toBe(20);
  });
});

describe("headroom", () => {
  it("[CS12] is the least of what user, queue and cluster still have", () => {
    const world = cluster({});
    run(world, { alice: 10 });
    expect(world.scheduler.headroom("app-alice").memoryMb).toBe(20 * 1_024);
    world.node("n1", gb(15));
    expect(world.scheduler.headroom("app-alice").memoryMb).toBe(0);
  });
});
