/**
 * Random histories: the CapacityScheduler beside a naive model that keeps plain lists and looks at
 * everything. After every call both must tell the same. Where nothing is reserved, a scheduler rebuilt
 * from the model's lists, in another order, goes on exactly like the one with the history.
 */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CapacityScheduler } from "../../src/core/scheduler/capacity-scheduler.ts";
import { NodeSet } from "../../src/core/scheduler/node-set.ts";
import type { Assignment, BookedContainer } from "../../src/core/scheduler/request.ts";
import {
  addResource,
  fitsIn,
  NO_RESOURCE,
  type Resource,
  subtractResource,
} from "../../src/shared/resource.ts";

const GPU = "yarn.io/gpu";

type Call =
  | { readonly type: "addNode"; readonly node: number; readonly capability: Resource }
  | { readonly type: "removeNode"; readonly node: number }
  | { readonly type: "addApplication" | "removeApplication"; readonly app: number }
  | {
      readonly type: "setAsk";
      readonly app: number;
      readonly key: number;
      readonly capability: Resource;
      readonly count: number;
    }
  | {
      readonly type: "book";
      readonly app: number;
      readonly node: number;
      readonly capability: Resource;
    }
  | { readonly type: "release"; readonly pick: number }
  | { readonly type: "schedule"; readonly max: number };

const app = fc.integer({ min: 0, max: 3 });
const node = fc.integer({ min: 0, max: 5 });

/** Few different sizes, so that requests of one class meet; at most `scale` times the smallest. */
function resource(scale: number): fc.Arbitrary<Resource> {
  return fc.record(
    {
      memoryMb: fc.integer({ min: 1, max: scale }).map((units) => units * 256),
      vcores: fc.integer({ min: 1, max: scale }),
      extra: fc.record({ [GPU]: fc.integer({ min: 0, max: 2 }) }),
    },
    { requiredKeys: ["memoryMb", "vcores"] },
  );
}

const call: fc.Arbitrary<Call> = fc.oneof(
  fc.record({ type: fc.constant("addNode" as const), node, capability: resource(12) }),
  fc.record({ type: fc.constant("removeNode" as const), node }),
  fc.record({
    type: fc.constantFrom("addApplication" as const, "removeApplication" as const),
    app,
  }),
  {
    weight: 3,
    arbitrary: fc.record({
      type: fc.constant("setAsk" as const),
      app,
      key: fc.integer({ min: 0, max: 3 }),
      capability: resource(3),
      count: fc.integer({ min: 0, max: 12 }),
    }),
  },
  fc.record({ type: fc.constant("book" as const), app, node, capability: resource(3) }),
  { weight: 2, arbitrary: fc.record({ type: fc.constant("release" as const), pick: fc.nat(50) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      type: fc.constant("schedule" as const),
      max: fc.integer({ min: 0, max: 20 }),
    }),
  },
);

type ModelAsk = { readonly capability: Resource; count: number };

/** The naive model and the scheduler under test, driven together. */
class World {
  readonly scheduler = new CapacityScheduler();
  readonly nodes = new Map<string, Resource>();
  readonly apps = new Map<string, Map<number, ModelAsk>>();
  readonly containers = new Map<string, BookedContainer>();
  sequence = 0;

  free(nodeId: string): Resource {
    let free = this.nodes.get(nodeId) ?? NO_RESOURCE;
    for (const container of this.containers.values()) {
      if (container.nodeId === nodeId) free = subtractResource(free, container.resource);
    }
    return free;
  }

  addNode(nodeId: string, capability: Resource): void {
    this.nodes.set(nodeId, capability);
    const place = { host: nodeId, rack: "/default-rack", labels: [], attributes: {} };
    this.scheduler.addNode({ nodeId, ...place, capability });
  }

  run(action: Call): Assignment[] {
    switch (action.type) {
      case "addNode":
        this.addNode(`n${action.node}:1`, action.capability);
        break;
      case "removeNode":
        this.nodes.delete(`n${action.node}:1`);
        this.scheduler.removeNode(`n${action.node}:1`);
        break;
      case "addApplication":
        this.addApplication(action.app);
        break;
      case "removeApplication":
        this.apps.delete(`app${action.app}`);
        this.scheduler.removeApplication(`app${action.app}`);
        break;
      case "setAsk":
        this.setAsk(action);
        break;
      case "book":
        this.book({
          containerId: this.mint(),
          attemptId: `app${action.app}`,
          nodeId: `n${action.node}:1`,
          resource: action.capability,
          priority: 0,
        });
        break;
      case "release":
        this.release(action.pick);
        break;
      case "schedule":
        return this.schedule(action.max);
    }
    return [];
  }

  mint = (): string => {
    this.sequence += 1;
    return `c${this.sequence}`;
  };

  addApplication(number: number): void {
    const attemptId = `app${number}`;
    if (this.apps.has(attemptId)) return;
    this.apps.set(attemptId, new Map());
    // Two applications may share an order.
    const order = number >> 1;
    this.scheduler.addApplication({
      attemptId,
      queue: "root.default",
      user: "alice",
      order,
      priority: 0,
      masterResource: NO_RESOURCE,
    });
  }

  setAsk(action: Extract<Call, { type: "setAsk" }>): void {
    this.addApplication(action.app);
    const attemptId = `app${action.app}`;
    const { key, capability, count } = action;
    const asks = this.apps.get(attemptId);
    if (count > 0) asks?.set(key, { capability, count });
    else asks?.delete(key);
    const ask = { priority: key >> 1, allocationRequestId: key & 1, capability, count };
    this.scheduler.setAsk(attemptId, ask);
  }

  book(container: BookedContainer): void {
    this.containers.set(container.containerId, container);
    this.scheduler.book(container);
  }

  release(pick: number): void {
    const ids = [...this.containers.keys()].sort();
    const containerId = ids[pick % Math.max(1, ids.length)] ?? "unknown";
    this.containers.delete(containerId);
    this.scheduler.release(containerId);
  }

  /** Takes over what was decided, refusing anything that was not asked for or does not fit. */
  schedule(max: number): Assignment[] {
    const assignments = this.scheduler.schedule(0, max, this.mint);
    expect(assignments.length).toBeLessThanOrEqual(max);
    for (const assignment of assignments) {
      const { attemptId, priority, allocationRequestId, containerId, nodeId } = assignment;
      const asks = this.apps.get(attemptId);
      const key = priority * 2 + allocationRequestId;
      const ask = asks?.get(key);
      expect(ask?.count).toBeGreaterThan(0);
      expect(plain(assignment.resource)).toEqual(plain(ask?.capability ?? NO_RESOURCE));
      expect(fits(assignment.resource, this.free(nodeId))).toBe(true);
      expect(this.nodes.has(nodeId)).toBe(true);
      if (ask) ask.count -= 1;
      if (ask?.count === 0) asks?.delete(key);
      this.containers.set(containerId, {
        containerId,
        attemptId,
        nodeId,
        resource: assignment.resource,
        priority,
      });
    }
    if (assignments.length < max) expect(this.placeable()).toBe(false);
    return assignments;
  }

  /** Whether some ask fits some node that is not kept for a larger one. */
  placeable(): boolean {
    const asks = [...this.apps.values()].flatMap((outstanding) => [...outstanding.values()]);
    if (asks.length === 0) return false;
    const open = [...this.nodes.keys()].filter((nodeId) => !this.isReserved(nodeId));
    const free = open.map((nodeId) => this.free(nodeId));
    return asks.some(({ capability }) => free.some((one) => fits(capability, one)));
  }

  isReserved(nodeId: string): boolean {
    return (this.scheduler.nodeUsage(nodeId)?.reserved.memoryMb ?? 0) > 0;
  }

  /** What is kept on a node fits no sooner than the next pass places it. */
  isFulfillable(): boolean {
    return [...this.nodes.keys()].some((nodeId) => {
      const reserved = this.scheduler.nodeUsage(nodeId)?.reserved ?? NO_RESOURCE;
      return this.isReserved(nodeId) && fits(reserved, this.free(nodeId));
    });
  }

  check(): void {
    expect(this.scheduler.hasPending()).toBe(this.placeable() || this.isFulfillable());
    const containers = [...this.containers.values()];
    const usage = this.scheduler.usage();
    expect(usage.nodes).toBe(this.nodes.size);
    expect(usage.containers).toBe(containers.length);
    expect(plain(usage.total)).toEqual(plain(sumOf([...this.nodes.values()])));
    expect(plain(usage.used)).toEqual(plain(sumOf(containers.map((one) => one.resource))));
    for (const nodeId of new Set([...this.nodes.keys(), ...containers.map((one) => one.nodeId)])) {
      const here = containers.filter((one) => one.nodeId === nodeId);
      const reported = this.scheduler.nodeUsage(nodeId);
      expect(reported?.containers).toBe(here.length);
      expect(plain(reported?.used)).toEqual(plain(sumOf(here.map((one) => one.resource))));
    }
    for (const attemptId of ["app0", "app1", "app2", "app3"]) this.#checkAttempt(attemptId);
  }

  #checkAttempt(attemptId: string): void {
    const mine = [...this.containers.values()].filter((one) => one.attemptId === attemptId);
    const { allocated, containers } = this.scheduler.attemptUsage(attemptId);
    expect(containers).toBe(mine.length);
    expect(plain(allocated)).toEqual(plain(sumOf(mine.map((one) => one.resource))));
    const expected = [...(this.apps.get(attemptId) ?? [])].sort(([a], [b]) => a - b);
    const asks = this.scheduler.asks(attemptId);
    expect(asks.map((ask) => [ask.priority * 2 + ask.allocationRequestId, ask.count])).toEqual(
      expected.map(([key, { count }]) => [key, count]),
    );
    for (const waiting of this.scheduler.pending(attemptId)) {
      expect(waiting.reason).toMatch(
        /^(\d+\/\d+ nodes|no nodes are registered|no (single )?node |node \S+ is reserved for it)/,
      );
    }
  }

  /** A new scheduler that is told the present state, everything in the reverse order. */
  rebuilt(): World {
    const world = new World();
    world.sequence = this.sequence;
    for (const container of [...this.containers.values()].reverse()) world.book(container);
    for (const [attemptId, asks] of [...this.apps].reverse()) {
      const number = Number(attemptId.slice(3));
      world.addApplication(number);
      for (const [key, { capability, count }] of [...asks].reverse()) {
        world.setAsk({ type: "setAsk", app: number, key, capability, count });
      }
    }
    for (const [nodeId, capability] of [...this.nodes].reverse()) world.addNode(nodeId, capability);
    return world;
  }
}

/** Who asks for no GPU does not mind that a node, which lost one, has fewer than none free. */
function fits(resource: Resource, free: Resource): boolean {
  const { memoryMb, vcores, extra } = resource;
  return fitsIn(extra?.[GPU] === 0 ? { memoryMb, vcores } : resource, free);
}

function sumOf(resources: readonly Resource[]): Resource {
  return resources.reduce(addResource, NO_RESOURCE);
}

/** The amounts alone: with no distinction between no GPUs and zero GPUs. */
function plain(value: Resource | undefined) {
  return { memoryMb: value?.memoryMb, vcores: value?.vcores, gpus: value?.extra?.[GPU] ?? 0 };
}

/** So many nodes to begin with; above 64 the scheduler draws candidates and does not look at all. */
function worldOf(nodes: number): World {
  const world = new World();
  for (let number = 0; number < nodes; number += 1) {
    const extra = number % 3 === 0 ? { extra: { [GPU]: 1 } } : {};
    world.addNode(`n${number}:1`, { memoryMb: 256 * (1 + (number % 5)), vcores: 2, ...extra });
  }
  return world;
}

const history = fc.array(call, { minLength: 1, maxLength: 40, size: "max" });
/** Of one size are all asks, so that none is large enough to be kept a place. */
const oneSize = history.map((calls) =>
  calls.map((action) =>
    action.type === "setAsk" ? { ...action, capability: { memoryMb: 512, vcores: 1 } } : action,
  ),
);
const fleet = fc.constantFrom(0, 3, 80);

describe("any history of calls", () => {
  it("keeps the scheduler in agreement with a naive model", () => {
    fc.assert(
      fc.property(fleet, history, (nodes, calls) => {
        const world = worldOf(nodes);
        for (const action of calls) {
          world.run(action);
          world.check();
        }
      }),
      { numRuns: 100 },
    );
  });

  it("leads to the same decisions each time", () => {
    fc.assert(
      fc.property(fleet, history, (nodes, calls) => {
        const [one, other] = [worldOf(nodes), worldOf(nodes)];
        for (const action of calls) expect(one.run(action)).toEqual(other.run(action));
      }),
      { numRuns: 100 },
    );
  });

  it("does not matter: rebuilt from what is true now, the scheduler goes on the same", () => {
    fc.assert(
      fc.property(fleet, oneSize, oneSize, (nodes, past, future) => {
        const world = worldOf(nodes);
        for (const action of past) world.run(action);
        const rebuilt = world.rebuilt();
        rebuilt.check();
        for (const action of future) {
          expect(rebuilt.run(action)).toEqual(world.run(action));
          expect(rebuilt.scheduler.usage()).toEqual(world.scheduler.usage());
          for (const attemptId of world.apps.keys()) {
            expect(rebuilt.scheduler.pending(attemptId)).toEqual(
              world.scheduler.pending(attemptId),
            );
          }
        }
      }),
      { numRuns: 150 },
    );
  });
});

describe("a set of node positions", () => {
  it("finds the next member, around the end, like a sorted list does", () => {
    const position = fc.nat(4_999);
    const changes = fc.array(fc.tuple(position, fc.boolean()), { maxLength: 60, size: "max" });
    fc.assert(
      fc.property(changes, fc.array(position), (assigned, starts) => {
        const set = new NodeSet(5_000);
        const members = new Set<number>();
        for (const [member, isMember] of assigned) {
          set.assign(member, isMember);
          if (isMember) members.add(member);
          else members.delete(member);
        }
        expect(set.size).toBe(members.size);
        if (members.size === 0) return;
        const sorted = [...members].sort((a, b) => a - b);
        for (const start of [...starts, 0, 4_999, ...sorted.map((member) => member + 1)]) {
          expect(set.next(start)).toBe(sorted.find((member) => member >= start) ?? sorted[0]);
        }
      }),
    );
  });
});
