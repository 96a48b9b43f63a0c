/**
 * The CapacityScheduler: decides which container goes to which node. It has one queue,
 * `root.default`, in which applications are served first in, first out; one that cannot be served
 * does not hold up those behind it. All nodes form one partition: racks and labels do not matter.
 *
 * It is derived from the ResourceManager's rows and never the truth itself: its owner tells it of
 * nodes, applications, asks and containers, and after a restart tells it again, in any order. What
 * it decides follows from the state that it was told, not from the history of the calls.
 */
import { assert, fail, ok, type Reply } from "../../shared/errors.ts";
import type { ApplicationAttemptId, ContainerId, NodeId } from "../../shared/ids.ts";
import type { PendingRequest } from "../../shared/protocol/application-master.ts";
import { NO_RESOURCE, type Resource } from "../../shared/resource.ts";
import { ApplicationAttempt, type OutstandingAsk, placeIn } from "./application-attempt.ts";
import { admit, maximumCapability, whyWaiting } from "./diagnostics.ts";
import { NodeTable } from "./node-table.ts";
import { chooseNode } from "./placement.ts";
import { canonicalResource, keyOfResource, RequestClass } from "./request-class.ts";

const DEFAULT_QUEUE = "root.default";

/**
 * `yarn.scheduler.minimum-allocation-mb` and `-vcores`: requests are rounded up to multiples of
 * these. 1 and 1 by default, where YARN has 1024 MB: most services need far less, and on the small
 * machines of an edge cluster rounding up would waste most of the memory.
 */
export type MinimumAllocation = {
  readonly minimumMemoryMb: number;
  readonly minimumVcores: number;
};

export type SchedulerNode = {
  readonly nodeId: NodeId;
  readonly rack: string;
  readonly labels: readonly string[];
  readonly capability: Resource;
};

export type SchedulerApplication = {
  readonly attemptId: ApplicationAttemptId;
  /** As `resolveQueue` gave it. */
  readonly queue: string;
  readonly user: string;
  /** Smaller is served first. */
  readonly order: number;
};

export type Ask = {
  /** Smaller is more urgent. */
  readonly priority: number;
  readonly allocationRequestId: number;
  readonly capability: Resource;
  readonly count: number;
};

/** A container and where it is. */
export type BookedContainer = {
  readonly containerId: ContainerId;
  readonly attemptId: ApplicationAttemptId;
  readonly nodeId: NodeId;
  readonly resource: Resource;
};

export type Assignment = BookedContainer & {
  readonly priority: number;
  readonly allocationRequestId: number;
};

type Booking = {
  readonly attempt: ApplicationAttempt;
  readonly slot: number;
  readonly requestClass: RequestClass;
};

export class CapacityScheduler {
  readonly #minimum: MinimumAllocation;
  readonly #nodes = new NodeTable();
  readonly #attempts = new Map<ApplicationAttemptId, ApplicationAttempt>();
  /** Those with asks, in the order in which they are served. */
  #waiting: ApplicationAttempt[] = [];
  readonly #classes = new Map<string, RequestClass>();
  readonly #bookings = new Map<ContainerId, Booking>();

  constructor(minimum: MinimumAllocation = { minimumMemoryMb: 1, minimumVcores: 1 }) {
    const { minimumMemoryMb, minimumVcores } = minimum;
    assert(minimumMemoryMb >= 1 && minimumVcores >= 1, "the minimum allocation is at least 1");
    this.#minimum = minimum;
  }

  /** Registers a node, or changes its capability. Its containers stay booked. */
  addNode(node: SchedulerNode): void {
    this.#nodes.register(node.nodeId, canonicalResource(node.capability));
  }

  /** Nothing new is placed on it. Its containers stay booked until each is released. */
  removeNode(nodeId: NodeId): void {
    this.#nodes.unregister(nodeId);
  }

  /** The full path of a leaf queue; INVALID_ARGUMENT, with the queues there are, for any other. */
  resolveQueue(queue: string): Reply<string> {
    if (queue === "default" || queue === DEFAULT_QUEUE) return ok(DEFAULT_QUEUE);
    return fail("INVALID_ARGUMENT", `queue "${queue}" does not exist or is not a leaf queue`, {
      hint: `this cluster has one leaf queue: ${DEFAULT_QUEUE}`,
    });
  }

  addApplication(application: SchedulerApplication): void {
    const attempt = this.#attemptOf(application.attemptId);
    assert(application.queue === DEFAULT_QUEUE, "an application's queue is a resolved leaf queue");
    assert(attempt.order === undefined, "an application attempt is added once");
    attempt.order = application.order;
  }

  /** Drops its asks. Its containers stay booked until each is released. Unknown: no effect. */
  removeApplication(attemptId: ApplicationAttemptId): void {
    const attempt = this.#attempts.get(attemptId);
    if (attempt === undefined) return;
    for (const ask of attempt.asks) this.#endAsk(ask);
    attempt.asks = [];
    this.#waiting = this.#waiting.filter((other) => other !== attempt);
    attempt.order = undefined;
    this.#forgetUnused(attempt);
  }

  /**
   * The outstanding number for (priority, allocationRequestId), absolute; 0 removes the ask. The
   * capability is rounded up as YARN does (facts §3.10) and replaces an earlier one.
   */
  setAsk(attemptId: ApplicationAttemptId, ask: Ask): void {
    const attempt = this.#attempts.get(attemptId);
    assert(attempt?.order !== undefined, "asks come from an application that was added");
    assert(
      Number.isSafeInteger(ask.count) && ask.count >= 0,
      "a count is a whole number, 0 or more",
    );
    const { index, found } = placeIn(
      attempt.asks,
      (other) =>
        other.priority - ask.priority || other.allocationRequestId - ask.allocationRequestId,
    );
    const wasWaiting = attempt.asks.length > 0;
    const { priority, allocationRequestId, count } = ask;
    if (count > 0) {
      const requestClass = this.#classOf(this.#normalise(ask.capability));
      this.#beginAsk(requestClass);
      const added = { priority, allocationRequestId, requestClass, count };
      attempt.asks.splice(index, found ? 1 : 0, added);
    } else if (found) {
      attempt.asks.splice(index, 1);
    }
    if (found) this.#endAsk(found);
    this.#keepWaiting(attempt, wasWaiting);
  }

  /** The outstanding asks, most urgent first, with their capability as rounded. */
  asks(attemptId: ApplicationAttemptId): readonly Ask[] {
    return (this.#attempts.get(attemptId)?.asks ?? []).map(
      ({ priority, allocationRequestId, requestClass, count }) => ({
        priority,
        allocationRequestId,
        capability: requestClass.resource,
        count,
      }),
    );
  }

  /**
   * Takes in a container that exists, whether or not its node is registered, its application is
   * added or there is room for it. Touches no ask.
   */
  book(container: BookedContainer): void {
    const slot = this.#nodes.slotFor(container.nodeId);
    const requestClass = this.#classOf(canonicalResource(container.resource));
    requestClass.needs ??= this.#nodes.needs(requestClass.resource);
    this.#book(container.containerId, this.#attemptOf(container.attemptId), slot, requestClass);
  }

  /** The container is gone and what it used is free. Unknown: no effect. */
  release(containerId: ContainerId): void {
    const booking = this.#bookings.get(containerId);
    if (booking === undefined) return;
    const { attempt, slot, requestClass } = booking;
    this.#bookings.delete(containerId);
    this.#nodes.giveBack(slot, requestClass.needs ?? []);
    attempt.giveBack(slot, requestClass.resource);
    this.#dropReference(requestClass);
    this.#forgetUnused(attempt);
  }

  /**
   * One scheduling pass: places what can be placed, at most `max` containers, books them and takes
   * them off the asks. `mint` gives a new container's id and must not call the scheduler.
   */
  schedule(max: number, mint: (attemptId: ApplicationAttemptId) => ContainerId): Assignment[] {
    const assignments: Assignment[] = [];
    let someGotAll = false;
    for (const attempt of this.#waiting) {
      if (assignments.length >= max) break;
      let askIsDone = false;
      for (const ask of attempt.asks) {
        this.#serve(attempt, ask, max, mint, assignments);
        if (ask.count === 0) askIsDone = true;
      }
      if (askIsDone) attempt.asks = attempt.asks.filter((ask) => ask.count > 0);
      if (attempt.asks.length === 0) someGotAll = true;
    }
    if (someGotAll) this.#waiting = this.#waiting.filter((attempt) => attempt.asks.length > 0);
    return assignments;
  }

  /** Whether another `schedule` would place something now, since the last one reached its `max`. */
  hasPending(): boolean {
    for (const requestClass of this.#classes.values()) {
      if (requestClass.asks > 0 && requestClass.feasibleIn(this.#nodes).size > 0) return true;
    }
    return false;
  }

  /** Why each outstanding ask waits. Walks all nodes once for each size asked for. */
  pending(attemptId: ApplicationAttemptId): PendingRequest[] {
    const reasons = new Map<RequestClass, string>();
    return (this.#attempts.get(attemptId)?.asks ?? []).map((ask) => {
      const { priority, allocationRequestId, requestClass, count } = ask;
      const reason = reasons.get(requestClass) ?? this.#reason(requestClass);
      reasons.set(requestClass, reason);
      return { priority, allocationRequestId, count, reason };
    });
  }

  /**
   * FAILED_PRECONDITION when no registered node could ever hold it, not even an empty one. While no
   * node is registered everything is admitted and waits.
   */
  admit(resource: Resource): Reply<undefined> {
    return admit(this.#nodes, this.#normalise(resource));
  }

  /** The largest container that registered nodes could hold, type by type. */
  maximumCapability(): Resource {
    return maximumCapability(this.#nodes);
  }

  /**
   * What the application may still get: here, all that is free (facts §3.11). Optimistic, since it
   * is scattered over nodes and others want it too. Nothing for an application that was not added.
   */
  headroom(attemptId: ApplicationAttemptId): Resource {
    if (this.#attempts.get(attemptId)?.order === undefined) return NO_RESOURCE;
    const { minimumMemoryMb, minimumVcores } = this.#minimum;
    const registered = this.#nodes.order;
    const free = this.#nodes.resource((column) => Math.max(0, sum(column.free, registered)));
    return {
      ...free,
      memoryMb: free.memoryMb - (free.memoryMb % minimumMemoryMb),
      vcores: free.vcores - (free.vcores % minimumVcores),
    };
  }

  /** `total` and `nodes` are of registered nodes; `used` and `containers` of all that is booked. */
  usage(): { total: Resource; used: Resource; nodes: number; containers: number } {
    const slots = [...this.#nodes.slots()];
    return {
      total: this.#nodes.resource((column) => sum(column.total, slots)),
      used: this.#nodes.resource(({ total, free }) => sum(total, slots) - sum(free, slots)),
      nodes: this.#nodes.size,
      containers: this.#bookings.size,
    };
  }

  /** Undefined for a node that is neither registered nor holds a booked container. */
  nodeUsage(nodeId: NodeId): { used: Resource; containers: number } | undefined {
    const slot = this.#nodes.find(nodeId);
    if (slot === undefined) return undefined;
    const containers = this.#nodes.containersOf(slot);
    const used = this.#nodes.resource(
      ({ total, free }) => (total[slot] as number) - (free[slot] as number),
    );
    return { used, containers };
  }

  attemptUsage(attemptId: ApplicationAttemptId): { allocated: Resource; containers: number } {
    const attempt = this.#attempts.get(attemptId);
    return { allocated: attempt?.allocated ?? NO_RESOURCE, containers: attempt?.containers ?? 0 };
  }

  /** Places as many of one ask as there is room for, up to `max` assignments in all. */
  #serve(
    attempt: ApplicationAttempt,
    ask: OutstandingAsk,
    max: number,
    mint: (attemptId: ApplicationAttemptId) => ContainerId,
    assignments: Assignment[],
  ): void {
    const { priority, allocationRequestId, requestClass } = ask;
    const { resource } = requestClass;
    const { attemptId } = attempt;
    while (ask.count > 0 && assignments.length < max) {
      const feasible = requestClass.feasibleIn(this.#nodes);
      const { needs } = requestClass;
      if (feasible.size === 0 || needs === undefined) break;
      const seed = (attempt.seed + Math.imul(this.#bookings.size, 0x9e3779b1)) | 0;
      const slot = chooseNode(this.#nodes, feasible, needs, attempt, seed);
      const containerId = mint(attemptId);
      const nodeId = this.#nodes.idOf(slot);
      this.#book(containerId, attempt, slot, requestClass);
      ask.count -= 1;
      assignments.push({
        containerId,
        attemptId,
        nodeId,
        resource,
        priority,
        allocationRequestId,
      });
    }
    if (ask.count === 0) this.#endAsk(ask);
  }

  #book(
    containerId: ContainerId,
    attempt: ApplicationAttempt,
    slot: number,
    requestClass: RequestClass,
  ): void {
    const before = this.#bookings.size;
    this.#bookings.set(containerId, { attempt, slot, requestClass });
    assert(this.#bookings.size > before, "a container is booked once");
    requestClass.references += 1;
    this.#nodes.take(slot, requestClass.needs ?? []);
    attempt.take(slot, requestClass.resource);
  }

  #reason(requestClass: RequestClass): string {
    const feasible = requestClass.feasibleIn(this.#nodes);
    if (feasible.size === 0) return whyWaiting(this.#nodes, requestClass.resource);
    return `${feasible.size}/${this.#nodes.size} nodes have room: it is placed in the next pass`;
  }

  /** value = roundUp(max(ask, minimum), step = minimum) */
  #normalise(resource: Resource): Resource {
    const { minimumMemoryMb, minimumVcores } = this.#minimum;
    return canonicalResource({
      ...resource,
      memoryMb: Math.max(1, Math.ceil(resource.memoryMb / minimumMemoryMb)) * minimumMemoryMb,
      vcores: Math.max(1, Math.ceil(resource.vcores / minimumVcores)) * minimumVcores,
    });
  }

  #attemptOf(attemptId: ApplicationAttemptId): ApplicationAttempt {
    const known = this.#attempts.get(attemptId);
    if (known) return known;
    const attempt = new ApplicationAttempt(attemptId);
    this.#attempts.set(attemptId, attempt);
    return attempt;
  }

  #forgetUnused(attempt: ApplicationAttempt): void {
    if (attempt.order !== undefined || attempt.containers > 0) return;
    this.#attempts.delete(attempt.attemptId);
  }

  /** Takes a canonical resource. The caller refers to the class, or it stays for nothing. */
  #classOf(resource: Resource): RequestClass {
    const key = keyOfResource(resource);
    const known = this.#classes.get(key);
    if (known) return known;
    const requestClass = new RequestClass(key, resource);
    this.#classes.set(key, requestClass);
    return requestClass;
  }

  #beginAsk(requestClass: RequestClass): void {
    requestClass.references += 1;
    requestClass.asks += 1;
  }

  #endAsk({ requestClass }: OutstandingAsk): void {
    requestClass.asks -= 1;
    this.#dropReference(requestClass);
  }

  #dropReference(requestClass: RequestClass): void {
    requestClass.references -= 1;
    if (requestClass.references === 0) this.#classes.delete(requestClass.key);
  }

  /** Moves the application into or out of the line after its asks have changed. */
  #keepWaiting(attempt: ApplicationAttempt, wasWaiting: boolean): void {
    const isWaiting = attempt.asks.length > 0;
    if (isWaiting === wasWaiting) return;
    const { index } = placeIn(this.#waiting, (other) => byOrder(other, attempt));
    if (isWaiting) this.#waiting.splice(index, 0, attempt);
    else this.#waiting.splice(index, 1);
  }
}

function byOrder(a: ApplicationAttempt, b: ApplicationAttempt): number {
  return (a.order ?? 0) - (b.order ?? 0) || (a.attemptId < b.attemptId ? -1 : a === b ? 0 : 1);
}

function sum(amounts: Float64Array, slots: readonly number[]): number {
  return slots.reduce((total, slot) => total + (amounts[slot] as number), 0);
}
