/**
 * What holds for the CapacityScheduler after any history. Each property stands for itself; that the
 * decisions are the right ones is scheduler-oracle.test.ts.
 */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { CapacityScheduler } from "../../src/core/scheduler/capacity-scheduler.ts";
import {
  DEFAULT_CONFIGURATION,
  defaultQueue,
  type SchedulerConfiguration,
} from "../../src/core/scheduler/configuration.ts";
import type { Ask } from "../../src/core/scheduler/request.ts";
import type { QueueInfo } from "../../src/shared/queue.ts";
import {
  fitsIn,
  formatResource,
  NO_RESOURCE,
  type Resource,
  subtractResource,
} from "../../src/shared/resource.ts";
import { type Command, configuration, history, World } from "./scheduler-oracle-history.ts";

/** The same in every run, so that a failure is one for everybody; fast-check prints it. */
const SEED = 20_261_121;
const BOUNDED = { seed: SEED, numRuns: 200 };

function played(first: SchedulerConfiguration, commands: readonly Command[]): World {
  const world = new World(first);
  for (const command of commands) world.run(command);
  return world;
}

function queuesOf(info: QueueInfo): QueueInfo[] {
  return [info, ...info.children.flatMap(queuesOf)];
}

/** All that it says about what is. */
function viewOf(scheduler: CapacityScheduler, { nodes, applications }: World) {
  return {
    usage: scheduler.usage(),
    queues: scheduler.queueInfo(),
    nodes: [...nodes.keys()].map((nodeId) => scheduler.nodeUsage(nodeId)),
    applications: [...applications.keys()].map((attemptId) => ({
      headroom: scheduler.headroom(attemptId),
      usage: scheduler.attemptUsage(attemptId),
      asks: scheduler.asks(attemptId),
    })),
  };
}

/** In the default partition. */
function usageOf(info: QueueInfo) {
  const usage = info.partitions.find(({ partition }) => partition === "");
  if (usage === undefined) throw new Error(`${info.path} says nothing of the default partition`);
  return usage;
}

function countOf({ priority, allocationRequestId, capability, count }: Ask): string {
  return `${priority}/${allocationRequestId}: ${count} of ${formatResource(capability)}`;
}

/** Any order of the same things, the same for the same numbers. */
function orderBy(numbers: readonly number[]) {
  return <Item>(items: Item[]): Item[] =>
    items
      .map((item, index) => ({ item, key: numbers[index % numbers.length] ?? 0 }))
      .sort((a, b) => a.key - b.key)
      .map(({ item }) => item);
}

const someOrder = fc.array(fc.integer(), { minLength: 30, maxLength: 30 });

describe("after any history", () => {
  it("[CS61] a pass never puts more onto a node than it has", () => {
    fc.assert(
      fc.property(configuration, history, (first, commands) => {
        const world = new World(first);
        for (const command of commands) {
          for (const { nodeId } of world.run(command)) {
            const free = world.free(nodeId);
            expect(Math.min(free.memoryMb, free.vcores)).toBeGreaterThanOrEqual(0);
            expect(world.draining.has(nodeId)).toBe(false);
          }
        }
      }),
      BOUNDED,
    );
  });

  it("[CS62] a pass leaves no queue above its maximum", () => {
    fc.assert(
      fc.property(configuration, history, (first, commands) => {
        const world = new World(first);
        for (const command of commands) {
          const assignments = world.run(command);
          const grown = new Set(assignments.map(({ attemptId }) => world.queueOf(attemptId)));
          for (const info of queuesOf(world.scheduler.queueInfo())) {
            if (![...grown].some((leaf) => `${leaf}.`.startsWith(`${info.path}.`))) continue;
            const { used, reserved, maximum, absoluteMaximumCapacity } = usageOf(info);
            // A queue that may have everything is limited by nodes, and a node can become smaller.
            if (absoluteMaximumCapacity === 1) continue;
            expect(fitsIn(subtractResource(used, reserved), maximum)).toBe(true);
          }
        }
      }),
      BOUNDED,
    );
  });

  it("[CS68] the same history makes the same decisions", () => {
    fc.assert(
      fc.property(configuration, history, (first, commands) => {
        const [one, other] = [new World(first), new World(first)];
        for (const command of commands) expect(one.run(command)).toEqual(other.run(command));
      }),
      BOUNDED,
    );
  });

  it("[CS66] a refresh of the configuration keeps every container and every request", () => {
    fc.assert(
      fc.property(configuration, history, configuration, (first, commands, next) => {
        const world = played(first, commands);
        const { scheduler } = world;
        const before = scheduler.usage();
        world.run({ type: "reconfigure", configuration: next });
        expect(scheduler.usage()).toEqual(before);
        for (const [attemptId, asks] of world.asks) {
          const kept = [...scheduler.asks(attemptId)].map(countOf);
          expect(kept.sort()).toEqual([...asks.values()].map(countOf).sort());
        }
        for (const info of queuesOf(scheduler.queueInfo())) {
          // What a draining node still holds counts in no queue.
          const inQueue = world.usedBy(
            ({ attemptId, nodeId }) =>
              !world.draining.has(nodeId) &&
              `${world.queueOf(attemptId)}.`.startsWith(`${info.path}.`),
          );
          expect(usageOf(info).used).toEqual(inQueue);
        }
      }),
      BOUNDED,
    );
  });

  it("[CS67] when all is released nothing is in use anywhere", () => {
    fc.assert(
      fc.property(configuration, history, (first, commands) => {
        const world = played(first, commands);
        const { scheduler } = world;
        for (const attemptId of world.applications.keys()) {
          for (const ask of scheduler.asks(attemptId)) {
            scheduler.setAsk(attemptId, { ...ask, count: 0 });
          }
        }
        for (const containerId of [...world.containers.keys()]) world.release(containerId);
        const { used, containers } = scheduler.usage();
        expect({ used, containers }).toEqual({ used: NO_RESOURCE, containers: 0 });
        for (const nodeId of world.nodes.keys()) {
          const node = scheduler.nodeUsage(nodeId);
          expect(node?.used).toEqual(NO_RESOURCE);
          expect(node?.reserved).toEqual(NO_RESOURCE);
        }
        for (const info of queuesOf(scheduler.queueInfo())) {
          const { used: inQueue, reserved, pending } = usageOf(info);
          expect([inQueue, reserved, pending]).toEqual([NO_RESOURCE, NO_RESOURCE, NO_RESOURCE]);
          for (const user of info.users ?? []) expect(user.used).toEqual(NO_RESOURCE);
        }
      }),
      BOUNDED,
    );
  });

  it("[CS68] a scheduler that is told the same rows in any order knows the same", () => {
    fc.assert(
      fc.property(configuration, history, someOrder, (first, commands, numbers) => {
        const world = played(first, commands);
        const told = world.restored((items) => items);
        const again = world.restored(orderBy(numbers));
        expect(viewOf(again, world)).toEqual(viewOf(told, world));
        // What is reserved is no row: it is found again by the next passes.
        world.noteReservations();
        if (world.reservations.size === 0) {
          expect(viewOf(told, world)).toEqual(viewOf(world.scheduler, world));
        }
        const mint = () => {
          let minted = 0;
          return () => `again${minted++}`;
        };
        expect(again.schedule(0, 50, mint())).toEqual(told.schedule(0, 50, mint()));
      }),
      BOUNDED,
    );
  });
});

describe("what a queue is promised", () => {
  it("[CS64] it gets back with the next containers that end, when another queue took everything", () => {
    const shares = fc.integer({ min: 1, max: 9 });
    const nodes = fc.integer({ min: 1, max: 5 });
    fc.assert(
      fc.property(shares, nodes, someOrder, (tenths, nodeCount, numbers) => {
        const world = twoQueues(tenths * 10, nodeCount);
        world.run(submission(0, "root.b"));
        world.run(request(0, UNIT, 10_000));
        world.schedule(1_000);
        expect(world.containers.size).toBe(nodeCount * UNITS);
        world.run(submission(1, "root.a"));
        world.run(request(1, UNIT, 10_000));
        const promised = tenths * nodeCount;
        for (let released = 0; released < promised; released += 1) {
          const held = world.containersOf(({ attemptId }) => attemptId === "app0");
          const pick = Math.abs(numbers[released % numbers.length] ?? 0) % held.length;
          world.release(held[pick]?.containerId ?? "");
          world.schedule(1_000);
        }
        expect(world.containersOf(({ attemptId }) => attemptId === "app1")).toHaveLength(promised);
      }),
      BOUNDED,
    );
  });

  it("[CS65] a large request gets its machine as soon as all that ran before it has ended", () => {
    const nodes = fc.integer({ min: 1, max: 4 });
    const units = fc.integer({ min: 2, max: UNITS });
    fc.assert(
      fc.property(nodes, units, (nodeCount, large) => {
        const world = twoQueues(50, nodeCount);
        world.run(submission(0, "root.b"));
        world.run(request(0, UNIT, 10_000));
        world.schedule(1_000);
        world.run(submission(1, "root.a"));
        world.run(request(1, times(large), 1));
        // The small ones ask on and on, and take every room that nobody keeps.
        for (const containerId of [...world.containers.keys()]) {
          world.schedule(1_000);
          world.release(containerId);
        }
        world.schedule(1_000);
        const placed = world.containersOf(({ attemptId }) => attemptId === "app1");
        expect(placed).toHaveLength(1);
      }),
      BOUNDED,
    );
  });

  it("[CS63] a user gets nothing more once he is over his limit", () => {
    fc.assert(
      fc.property(configuration, history, (first, commands) => {
        const world = played(first, commands);
        for (let more = 0; more < 20; more += 1) {
          world.noteReservations();
          const before = queuesOf(world.scheduler.queueInfo());
          const [assignment] = world.schedule(1);
          if (assignment === undefined) return;
          const { attemptId, nodeId } = assignment;
          const reservation = world.reservations.get(attemptId);
          // What was reserved when there was room below the limit is given when it comes.
          if (reservation?.nodeId === nodeId) continue;
          const { queue, user } = world.applications.get(attemptId) ?? {};
          const standing = before
            .find(({ path }) => path === queue)
            ?.users?.find((one) => one.user === user);
          const used = subtractResource(
            standing?.used ?? NO_RESOURCE,
            reservation?.resource ?? NO_RESOURCE,
          );
          const total = world.activeTotal();
          expect(dominantShare(used, total)).toBeLessThanOrEqual(
            dominantShare(standing?.limit ?? NO_RESOURCE, total) + 1e-9,
          );
        }
      }),
      BOUNDED,
    );
  });
});

/** A node holds so many of the units that requests are made of. */
const UNITS = 10;
const UNIT: Resource = { memoryMb: 1_024, vcores: 1 };

function times(count: number): Resource {
  return { memoryMb: count * UNIT.memoryMb, vcores: count * UNIT.vcores };
}

/** root.a has so many percent guaranteed, root.b the rest; each may take all that is idle. */
function twoQueues(percent: number, nodeCount: number): World {
  const leaf = (name: string, share: number) => ({
    ...defaultQueue(`root.${name}`),
    capacity: { mode: "percentage" as const, percent: share },
    userLimitFactor: -1,
  });
  const world = new World({
    ...DEFAULT_CONFIGURATION,
    root: defaultQueue("root", [leaf("a", percent), leaf("b", 100 - percent)]),
  });
  for (let node = 0; node < nodeCount; node += 1) {
    world.run({ type: "addNode", node, capability: times(UNITS) });
  }
  return world;
}

function submission(app: number, queue: string): Command {
  return { type: "submit", app, queue, user: `user${app}`, priority: 0 };
}

function request(app: number, capability: Resource, count: number): Command {
  return { type: "ask", app, key: 0, capability, count };
}

function dominantShare(resource: Resource, total: Resource): number {
  const share = (amount: number, whole: number) => (whole > 0 ? amount / whole : 0);
  return Math.max(share(resource.memoryMb, total.memoryMb), share(resource.vcores, total.vcores));
}
