/**
 * Random histories for the CapacityScheduler: small clusters, small queue trees, and what may happen
 * to them. A World keeps, in plain maps, what was told to the scheduler and what it decided.
 */
import * as fc from "fast-check";
import { CapacityScheduler } from "../../src/core/scheduler/capacity-scheduler.ts";
import {
  DEFAULT_CONFIGURATION,
  defaultQueue,
  type QueueConfiguration,
  type SchedulerConfiguration,
} from "../../src/core/scheduler/configuration.ts";
import type {
  Ask,
  Assignment,
  BookedContainer,
  SchedulerApplication,
  SchedulerNode,
} from "../../src/core/scheduler/request.ts";
import { addResource, NO_RESOURCE, type Resource } from "../../src/shared/resource.ts";
import { normalised, type Reservation } from "./scheduler-oracle.ts";

export const LEAVES = ["root.a", "root.b.x", "root.b.y", "root.c"] as const;
const USERS = ["alice", "bob", "carol"] as const;
const RACKS = ["/rack0", "/rack1"] as const;

export type Command =
  | { readonly type: "addNode"; readonly node: number; readonly capability: Resource }
  | { readonly type: "removeNode" | "drainNode"; readonly node: number }
  | {
      readonly type: "submit";
      readonly app: number;
      readonly queue: string;
      readonly user: string;
      readonly priority: number;
    }
  | { readonly type: "finish"; readonly app: number }
  | {
      readonly type: "ask";
      readonly app: number;
      readonly key: number;
      readonly capability: Resource;
      readonly count: number;
    }
  | { readonly type: "release"; readonly pick: number }
  | { readonly type: "reconfigure"; readonly configuration: SchedulerConfiguration }
  | { readonly type: "schedule"; readonly max: number };

const app = fc.integer({ min: 0, max: 4 });
const node = fc.integer({ min: 0, max: 3 });

function resource(leastUnits: number, mostUnits: number): fc.Arbitrary<Resource> {
  const units = fc.integer({ min: leastUnits, max: mostUnits });
  return fc.record({ memoryMb: units.map((count) => count * 512), vcores: units });
}

/** Percentages of two or three siblings, together 100. */
function split(ways: 2 | 3): fc.Arbitrary<readonly number[]> {
  return ways === 2
    ? fc.constantFrom([50, 50], [70, 30], [10, 90], [100, 0])
    : fc.constantFrom([50, 30, 20], [20, 40, 40], [34, 33, 33], [10, 90, 0]);
}

type LeafSettings = Partial<QueueConfiguration>;

const leafSettings: fc.Arbitrary<LeafSettings> = fc.record({
  minimumUserLimit: fc.constantFrom(0.25, 0.5, 1),
  userLimitFactor: fc.constantFrom(-1, 1, 2),
  userWeights: fc.constantFrom<Record<string, number>>({}, { alice: 2 }),
  priority: fc.constantFrom(0, 0, 5),
  state: fc.constantFrom("RUNNING", "RUNNING", "RUNNING", "STOPPED"),
  ordering: fc.constantFrom<QueueConfiguration["ordering"]>(
    { policy: "fifo" },
    { policy: "fair", sizeBasedWeight: false },
  ),
});

/** Of the guaranteed percentage up to everything. */
const elasticity = fc.constantFrom(0, 0.5, 1);

function withCapacity(
  queue: QueueConfiguration,
  mode: "percentage" | "weight",
  percent: number,
  elastic: number,
): QueueConfiguration {
  return {
    ...queue,
    capacity:
      mode === "percentage"
        ? { mode, percent }
        : // A weight is above 0.
          { mode, weight: Math.max(1, percent / 10) },
    maximumCapacity: {
      mode: "percentage",
      percent: mode === "weight" ? 100 : Math.max(1, percent + elastic * (100 - percent)),
    },
  };
}

/** Always the same names, so that one configuration can follow another. */
export const configuration: fc.Arbitrary<SchedulerConfiguration> = fc
  .record({
    mode: fc.constantFrom("percentage" as const, "percentage" as const, "weight" as const),
    top: split(3),
    below: split(2),
    elastic: fc.array(elasticity, { minLength: 5, maxLength: 5 }),
    settings: fc.array(leafSettings, { minLength: 4, maxLength: 4 }),
    policy: fc.constantFrom("utilization" as const, "priority-utilization" as const),
    minimumAllocation: fc.constantFrom(
      { memoryMb: 1, vcores: 1 },
      { memoryMb: 512, vcores: 1 },
      { memoryMb: 1024, vcores: 1 },
    ),
  })
  .map(({ mode, top, below, elastic, settings, policy, minimumAllocation }) => {
    const at = (list: readonly number[], index: number) => list[index] ?? 0;
    const make = (path: string, index: number, percent: number) =>
      withCapacity(
        { ...defaultQueue(path), ...settings[index] },
        mode,
        percent,
        at(elastic, index),
      );
    const ordering = { policy };
    const leaves = [make("root.b.x", 1, at(below, 0)), make("root.b.y", 2, at(below, 1))];
    const b = withCapacity(
      { ...defaultQueue("root.b", leaves), ordering },
      mode,
      at(top, 1),
      at(elastic, 4),
    );
    const children = [make("root.a", 0, at(top, 0)), b, make("root.c", 3, at(top, 2))];
    const root = { ...defaultQueue("root", children), ordering };
    const made = { ...DEFAULT_CONFIGURATION, root, minimumAllocation };
    // In counterexamples only what differs between configurations is worth reading.
    const text = `${minimumAllocation.memoryMb} MB ${policy}: ${[...children, ...leaves].map(shown).join("; ")}`;
    return Object.defineProperty(made, fc.toStringMethod, { value: () => text });
  });

function shown(queue: QueueConfiguration): string {
  const { path, capacity, maximumCapacity, minimumUserLimit, userLimitFactor } = queue;
  const [least, most] = [capacity, maximumCapacity].map((one) =>
    one.mode === "percentage" ? `${one.percent} %` : one.mode === "weight" ? `${one.weight}w` : "",
  );
  const users = `${minimumUserLimit} × ${userLimitFactor} ${JSON.stringify(queue.userWeights)}`;
  return `${path} ${least} to ${most}, ${queue.ordering.policy}, priority ${queue.priority}, users ${users}`;
}

const submit: fc.Arbitrary<Command> = fc.record({
  type: fc.constant("submit" as const),
  app,
  queue: fc.constantFrom(...LEAVES),
  user: fc.constantFrom(...USERS),
  priority: fc.constantFrom(0, 0, 1),
});
const ask: fc.Arbitrary<Command> = fc.record({
  type: fc.constant("ask" as const),
  app,
  key: fc.integer({ min: 0, max: 2 }),
  capability: resource(1, 5),
  count: fc.integer({ min: 0, max: 8 }),
});
const schedule: fc.Arbitrary<Command> = fc.record({
  type: fc.constant("schedule" as const),
  max: fc.constantFrom(1, 3, 20),
});

const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant("addNode" as const),
      node,
      capability: resource(2, 12),
    }),
  },
  fc.record({ type: fc.constantFrom("removeNode" as const, "drainNode" as const), node }),
  { weight: 4, arbitrary: submit },
  fc.record({ type: fc.constant("finish" as const), app }),
  { weight: 6, arbitrary: ask },
  { weight: 3, arbitrary: fc.record({ type: fc.constant("release" as const), pick: fc.nat(50) }) },
  fc.record({ type: fc.constant("reconfigure" as const), configuration }),
  { weight: 5, arbitrary: schedule },
);

/** A cluster of two nodes with some demand, and then anything. */
export const history: fc.Arbitrary<readonly Command[]> = fc
  .record({
    nodes: fc.array(resource(4, 12), { minLength: 2, maxLength: 2 }),
    submissions: fc.array(submit, { minLength: 2, maxLength: 4 }),
    asks: fc.array(ask, { minLength: 2, maxLength: 4 }),
    more: fc.array(command, { maxLength: 30, size: "max" }),
  })
  .map(({ nodes, submissions, asks, more }) => [
    ...nodes.map((capability, index): Command => ({ type: "addNode", node: index, capability })),
    ...submissions,
    ...asks,
    ...more,
  ]);

/** The same with every request of one size, which leaves nothing to reserve nodes for. */
export const uniformHistory: fc.Arbitrary<readonly Command[]> = fc
  .record({ commands: history, units: fc.integer({ min: 1, max: 3 }) })
  .map(({ commands, units }) => {
    // A multiple of every minimum allocation, so that no refresh rounds it to another.
    const capability = { memoryMb: units * 1_024, vcores: units };
    return commands.map((one) => (one.type === "ask" ? { ...one, capability } : one));
  });

/** What is true, in plain maps. */
export class Books {
  configuration: SchedulerConfiguration;
  readonly nodes: Map<string, SchedulerNode>;
  readonly draining: Set<string>;
  readonly applications: Map<string, SchedulerApplication>;
  /** Outstanding, by application and key. */
  readonly asks: Map<string, Map<string, Ask>>;
  readonly containers: Map<string, BookedContainer>;
  /** By application. */
  readonly reservations: Map<string, Reservation>;

  constructor(from: Books | SchedulerConfiguration) {
    const books = from instanceof Books ? from : undefined;
    this.configuration = from instanceof Books ? from.configuration : from;
    this.nodes = new Map(books?.nodes);
    this.draining = new Set(books?.draining);
    this.applications = new Map(books?.applications);
    this.asks = new Map([...(books?.asks ?? [])].map(([id, asks]) => [id, new Map(asks)]));
    this.containers = new Map(books?.containers);
    this.reservations = new Map(books?.reservations);
  }

  setAsk(attemptId: string, ask: Ask): void {
    const key = `${ask.priority}/${ask.allocationRequestId}`;
    if (ask.count > 0) this.asks.get(attemptId)?.set(key, ask);
    else this.asks.get(attemptId)?.delete(key);
  }

  /** A container more, and one request less. */
  take(assignment: Assignment): void {
    const { attemptId, priority, allocationRequestId, containerId } = assignment;
    this.containers.set(containerId, assignment);
    const ask = this.asks.get(attemptId)?.get(`${priority}/${allocationRequestId}`);
    if (ask === undefined) throw new Error(`${containerId} was asked for by nobody`);
    this.setAsk(attemptId, { ...ask, count: ask.count - 1 });
  }

  containersOf(isOne: (container: BookedContainer) => boolean): BookedContainer[] {
    return [...this.containers.values()].filter(isOne);
  }

  usedBy(isOne: (container: BookedContainer) => boolean): Resource {
    return this.containersOf(isOne)
      .map((container) => container.resource)
      .reduce(addResource, NO_RESOURCE);
  }

  queueOf(attemptId: string): string {
    return this.applications.get(attemptId)?.queue ?? "";
  }

  /** Of the nodes that are not draining. */
  activeTotal(): Resource {
    return [...this.nodes.values()]
      .filter(({ nodeId }) => !this.draining.has(nodeId))
      .map(({ capability }) => capability)
      .reduce(addResource, NO_RESOURCE);
  }

  /** Less than nothing where a node became smaller under its containers. */
  free(nodeId: string): Resource {
    const total = this.nodes.get(nodeId)?.capability ?? NO_RESOURCE;
    const used = this.usedBy((container) => container.nodeId === nodeId);
    return { memoryMb: total.memoryMb - used.memoryMb, vcores: total.vcores - used.vcores };
  }
}

/** A scheduler, and beside it the books of what it was told and what it decided. */
export class World extends Books {
  readonly scheduler: CapacityScheduler;
  nowMs = 0;
  #minted = 0;

  constructor(configuration: SchedulerConfiguration) {
    super(configuration);
    this.scheduler = new CapacityScheduler(configuration);
  }

  /** Applies one command; what was scheduled by it. */
  run(command: Command): Assignment[] {
    switch (command.type) {
      case "addNode":
        this.#addNode(command.node, command.capability);
        return [];
      case "removeNode":
        this.#removeNode(`n${command.node}:1`);
        return [];
      case "drainNode":
        this.#drainNode(`n${command.node}:1`);
        return [];
      case "submit":
        this.#submit(command);
        return [];
      case "finish":
        this.#finish(`app${command.app}`);
        return [];
      case "ask":
        this.#ask(command);
        return [];
      case "release":
        this.#releaseAny(command.pick);
        return [];
      case "reconfigure":
        this.#reconfigure(command.configuration);
        return [];
      case "schedule":
        return this.schedule(command.max);
    }
  }

  /** One pass, entered into the books. */
  schedule(max: number): Assignment[] {
    const assignments = this.scheduler.schedule(this.nowMs, max, () => {
      this.#minted += 1;
      return `c${this.#minted}`;
    });
    for (const assignment of assignments) this.take(assignment);
    return assignments;
  }

  /** Whose reservation is where; two of one size may be confused, which changes nothing. */
  noteReservations(): void {
    this.reservations.clear();
    const kept = [...this.nodes.keys()].flatMap((nodeId) => {
      const resource = this.scheduler.nodeUsage(nodeId)?.reserved ?? NO_RESOURCE;
      return resource.memoryMb > 0 ? [{ nodeId, resource }] : [];
    });
    for (const attemptId of this.applications.keys()) {
      const { reserved } = this.scheduler.attemptUsage(attemptId);
      const index = kept.findIndex(
        ({ resource }) =>
          resource.memoryMb === reserved.memoryMb && resource.vcores === reserved.vcores,
      );
      const [found] = index < 0 ? [] : kept.splice(index, 1);
      if (found !== undefined) this.reservations.set(attemptId, found);
    }
    if (kept.length > 0) throw new Error(`${kept[0]?.nodeId} is reserved for nobody`);
  }

  release(containerId: string): void {
    this.containers.delete(containerId);
    this.scheduler.release(containerId);
  }

  /** A new scheduler that is told what is true now. Equal seeds tell it in the same order. */
  restored(order: <Item>(items: Item[]) => Item[]): CapacityScheduler {
    const scheduler = new CapacityScheduler(this.configuration);
    const nodes = [...this.nodes.values()].map((node) => () => {
      scheduler.addNode(node);
      if (this.draining.has(node.nodeId)) scheduler.drainNode(node.nodeId);
    });
    const applications = [...this.applications.values()].map((application) => () => {
      scheduler.addApplication(application);
      const asks = [...(this.asks.get(application.attemptId)?.values() ?? [])];
      for (const ask of order(asks)) scheduler.setAsk(application.attemptId, ask);
    });
    const containers = [...this.containers.values()].map((container) => () => {
      scheduler.book(container);
    });
    for (const tell of order([...nodes, ...applications, ...containers])) tell();
    return scheduler;
  }

  #addNode(number: number, capability: Resource): void {
    const nodeId = `n${number}:1`;
    const node: SchedulerNode = {
      nodeId,
      host: `n${number}`,
      rack: RACKS[number % RACKS.length] ?? RACKS[0],
      labels: [],
      attributes: {},
      capability,
    };
    this.nodes.set(nodeId, node);
    this.draining.delete(nodeId);
    this.scheduler.addNode(node);
  }

  /** As when a node is lost: its containers go first. */
  #removeNode(nodeId: string): void {
    for (const one of this.containersOf((container) => container.nodeId === nodeId)) {
      this.release(one.containerId);
    }
    this.nodes.delete(nodeId);
    this.draining.delete(nodeId);
    this.scheduler.removeNode(nodeId);
  }

  #drainNode(nodeId: string): void {
    if (!this.nodes.has(nodeId)) return;
    this.draining.add(nodeId);
    this.scheduler.drainNode(nodeId);
  }

  #submit({ app: number, queue, user, priority }: Extract<Command, { type: "submit" }>): void {
    const attemptId = `app${number}`;
    if (this.applications.has(attemptId)) return;
    const application: SchedulerApplication = {
      attemptId,
      queue,
      user,
      order: number,
      priority,
      masterResource: NO_RESOURCE,
    };
    this.applications.set(attemptId, application);
    this.asks.set(attemptId, new Map());
    this.scheduler.addApplication(application);
  }

  /** Its containers end with it. */
  #finish(attemptId: string): void {
    if (!this.applications.has(attemptId)) return;
    for (const one of this.containersOf((container) => container.attemptId === attemptId)) {
      this.release(one.containerId);
    }
    this.applications.delete(attemptId);
    this.asks.delete(attemptId);
    this.scheduler.removeApplication(attemptId);
  }

  /** Requests are rounded to the minimum allocation of now. */
  #reconfigure(next: SchedulerConfiguration): void {
    this.configuration = next;
    this.scheduler.reconfigure(next);
    for (const [attemptId, asks] of this.asks) {
      for (const ask of asks.values()) {
        this.setAsk(attemptId, { ...ask, capability: normalised(ask.capability, next) });
      }
    }
  }

  #ask({ app: number, key, capability, count }: Extract<Command, { type: "ask" }>): void {
    const attemptId = `app${number}`;
    if (!this.applications.has(attemptId)) return;
    // Of three keys two have one priority.
    const ask: Ask = { priority: key >> 1, allocationRequestId: key & 1, capability, count };
    this.scheduler.setAsk(attemptId, ask);
    this.setAsk(attemptId, { ...ask, capability: normalised(capability, this.configuration) });
  }

  #releaseAny(pick: number): void {
    const ids = [...this.containers.keys()].sort();
    const containerId = ids[pick % Math.max(1, ids.length)];
    if (containerId !== undefined) this.release(containerId);
  }
}
