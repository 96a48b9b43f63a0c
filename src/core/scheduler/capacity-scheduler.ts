/**
 * The CapacityScheduler: decides which container goes to which node, for hierarchical queues with
 * guaranteed and maximum capacities, user limits and shares of ApplicationMasters, in partitions,
 * with locality, placement constraints and reservations (seed 004; facts §3).
 *
 * It is derived from the ResourceManager's rows and never the truth itself: its owner tells it of
 * nodes, applications, asks and containers, and after a restart tells it again, in any order. The
 * same calls give the same decisions.
 */
import { assert, fail, ok, type Reply } from "../../shared/errors.ts";
import type { ApplicationAttemptId, ContainerId, NodeId } from "../../shared/ids.ts";
import type { PendingRequest } from "../../shared/protocol/application-master.ts";
import type { ApplicationActivity, QueueInfo } from "../../shared/queue.ts";
import { NO_RESOURCE, type Resource } from "../../shared/resource.ts";
import type { Placer } from "./allocation-pass.ts";
import { DEFAULT_CONFIGURATION, type SchedulerConfiguration } from "./configuration.ts";
import { ContainerUpdates } from "./container-updates.ts";
import { Diagnostics } from "./diagnostics.ts";
import { PreemptionMonitor } from "./preemption-monitor.ts";
import { admitApplication } from "./queue-admission.ts";
import { queueInfo } from "./queue-view.ts";
import type {
  Ask,
  Assignment,
  BookedContainer,
  PreemptionRound,
  SchedulerApplication,
  SchedulerNode,
} from "./request.ts";
import { SchedulerState } from "./scheduler-state.ts";

export class CapacityScheduler {
  readonly #state: SchedulerState;
  readonly #diagnostics: Diagnostics;
  readonly #updates: ContainerUpdates;
  readonly #monitor: PreemptionMonitor;
  /** Epoch ms of the last pass. */
  #nowMs = 0;

  constructor(configuration: SchedulerConfiguration = DEFAULT_CONFIGURATION) {
    this.#state = new SchedulerState(configuration);
    this.#diagnostics = new Diagnostics(this.#state);
    this.#updates = new ContainerUpdates(this.#state);
    this.#monitor = new PreemptionMonitor(this.#state);
  }

  get configuration(): SchedulerConfiguration {
    return this.#state.configuration;
  }

  /**
   * Takes another configuration, which is valid and may replace the present one. Every application,
   * ask and container stays; reservations are made anew.
   */
  reconfigure(next: SchedulerConfiguration): void {
    this.#state.reconfigure(next);
  }

  /** Registers a node, or changes what it has and is. Its containers stay booked. */
  addNode(node: SchedulerNode): void {
    this.#state.addNode(node);
  }

  /** DECOMMISSIONING: nothing new is placed on it, and it counts in no queue's share. */
  drainNode(nodeId: NodeId): void {
    this.#state.drainNode(nodeId);
  }

  /** Nothing new is placed on it. Its containers stay booked until each is released. */
  removeNode(nodeId: NodeId): void {
    this.#state.removeNode(nodeId);
  }

  /**
   * The full path of a leaf queue, also of one that a template can make; INVALID_ARGUMENT for any
   * other name, and for a short name that several queues have.
   */
  resolveQueue(queue: string): Reply<string> {
    return this.#state.queues.resolve(queue);
  }

  leafQueues(): readonly string[] {
    return [...this.#state.queues.leaves()].map((leaf) => leaf.path);
  }

  /**
   * Whether the queue takes one more application of the user. RESOURCE_EXHAUSTED for a count of
   * cluster, queue or user; FAILED_PRECONDITION for a queue that is not RUNNING.
   */
  admitApplication({ queue, user }: { queue: string; user: string }): Reply<undefined> {
    this.#state.settle();
    return admitApplication(this.#state.queues, this.configuration, queue, user);
  }

  /** Refuses nothing. Makes the queue when its parent has a template. */
  addApplication(application: SchedulerApplication): void {
    this.#state.addApplication(application);
  }

  /** Drops its asks. Its containers stay booked until each is released. Unknown: no effect. */
  removeApplication(attemptId: ApplicationAttemptId): void {
    const attempt = this.#state.attempts.get(attemptId);
    if (attempt?.isAdded) this.#state.removeApplication(attempt);
  }

  /** Larger is served first. Unknown: no effect. */
  setApplicationPriority(attemptId: ApplicationAttemptId, priority: number): void {
    const attempt = this.#state.attempts.get(attemptId);
    if (attempt?.isAdded) this.#state.setPriority(attempt, priority);
  }

  /**
   * Moves an application, with its asks and containers, to another leaf. Refused like a submission
   * to it, and when the queue may not use a partition in which the application has containers.
   */
  moveApplication(attemptId: ApplicationAttemptId, queue: string): Reply<undefined> {
    const attempt = this.#state.attempts.get(attemptId);
    if (!attempt?.isAdded || attempt.user === undefined) {
      return fail("NOT_FOUND", `there is no application attempt ${attemptId}`);
    }
    const resolved = this.resolveQueue(queue);
    if (!resolved.ok) return resolved;
    if (resolved.value === attempt.leaf?.path) return ok();
    const admitted = this.admitApplication({ queue: resolved.value, user: attempt.user.name });
    if (!admitted.ok) return admitted;
    return this.#state.moveApplication(attempt, resolved.value);
  }

  /**
   * The outstanding number for (priority, allocationRequestId), absolute; 0 removes the ask. The
   * capability is rounded up as YARN does (facts §3.10), and everything replaces what was said
   * earlier.
   */
  setAsk(attemptId: ApplicationAttemptId, ask: Ask): void {
    const attempt = this.#state.attempts.get(attemptId);
    assert(attempt?.isAdded, "asks come from an application that was added");
    assert(
      Number.isSafeInteger(ask.count) && ask.count >= 0,
      "a count is a whole number, 0 or more",
    );
    this.#state.setAsk(attempt, ask);
  }

  /** The outstanding asks, most urgent first, with their capability as rounded. */
  asks(attemptId: ApplicationAttemptId): readonly Ask[] {
    return this.#state.asks(attemptId);
  }

  /** Hosts, racks and node ids that the application avoids; replaces the earlier ones. */
  setBlacklist(attemptId: ApplicationAttemptId, names: readonly string[]): void {
    const attempt = this.#state.attempts.get(attemptId);
    if (attempt) attempt.blacklist = new Set(names);
  }

  /**
   * Takes in a container that exists, whether or not its node is registered, its application is
   * added or there is room for it. Touches no ask.
   */
  book(container: BookedContainer): void {
    this.#state.book(container);
  }

  /** The container is gone and what it used is free. Unknown: no effect. */
  release(containerId: ContainerId): void {
    this.#state.release(containerId);
  }

  /**
   * Another size for a container, where it is. Less is given at once; more only when its node, queue
   * and user have it: FAILED_PRECONDITION.
   */
  resize(containerId: ContainerId, resource: Resource): Reply<undefined> {
    return this.#updates.resize(containerId, resource);
  }

  /** OPPORTUNISTIC to GUARANTEED, if its node, queue and user have room for it. */
  promote(containerId: ContainerId): Reply<undefined> {
    return this.#updates.changeExecutionType(containerId, "GUARANTEED");
  }

  /** GUARANTEED to OPPORTUNISTIC. */
  demote(containerId: ContainerId): Reply<undefined> {
    return this.#updates.changeExecutionType(containerId, "OPPORTUNISTIC");
  }

  /**
   * One scheduling pass: places what can be placed, at most `max` containers, books them and takes
   * them off the asks. `mint` gives a new container's id and must not call the scheduler. `nowMs`
   * (epoch ms) does not go back between passes.
   */
  schedule(
    nowMs: number,
    max: number,
    mint: (attemptId: ApplicationAttemptId) => ContainerId,
  ): Assignment[] {
    this.#nowMs = nowMs;
    const state = this.#state;
    state.settle();
    state.queues.removeExpired(nowMs);
    state.reservations.lapse(nowMs);
    const assignments: Assignment[] = [];
    const placer: Placer = {
      commits: true,
      place: (attempt, ask, spot) => {
        assignments.push(state.place(attempt, ask, spot, mint(attempt.attemptId)));
      },
    };
    for (const reservation of state.reservations.ready()) {
      if (assignments.length >= max) break;
      state.fulfil(reservation, placer);
    }
    const isFull = () => assignments.length >= max;
    for (const partition of state.nodes.partitions) {
      this.#placeIn(partition.id, placer, isFull);
    }
    if (!isFull()) state.sharing.place(state.queues, nowMs, placer, isFull);
    if (!isFull()) state.reservations.make(nowMs);
    return assignments;
  }

  /** Whether another `schedule` would place something now, since the last one reached its `max`. */
  hasPending(): boolean {
    const state = this.#state;
    state.settle();
    if (state.reservations.ready().length > 0) return true;
    const placer: Placer = { commits: false, place: () => {} };
    return state.nodes.partitions.some((partition) => {
      const pass = state.newPass(partition, this.#nowMs, placer);
      const isSomething = pass.next(state.queues.root);
      pass.end();
      return isSomething;
    });
  }

  /**
   * When time alone makes something possible (epoch ms): an ask has waited long enough for a better
   * place, or a round of preemption is due. Undefined: nothing waits for time.
   */
  wakeAtMs(): number | undefined {
    const { locality, sharing, reservations } = this.#state;
    const times = [
      reservations.lapseAtMs(),
      locality.wakeAtMs(this.#nowMs),
      sharing.wakeAtMs(this.#nowMs),
      this.#monitor.dueMs(this.#nowMs),
    ];
    const known = times.filter((time) => time !== undefined);
    return known.length === 0 ? undefined : Math.min(...known);
  }

  /** One monitoring round; releases nothing, and drops reservations that have to give way. */
  preempt(nowMs: number): PreemptionRound {
    this.#nowMs = Math.max(this.#nowMs, nowMs);
    this.#state.settle();
    return this.#monitor.round(nowMs);
  }

  /** Why each outstanding ask waits. Walks all nodes once for each. */
  pending(attemptId: ApplicationAttemptId): PendingRequest[] {
    this.#state.settle();
    return this.#diagnostics.pending(attemptId, this.#nowMs);
  }

  /** The same as facts that can be counted. */
  activity(attemptId: ApplicationAttemptId): ApplicationActivity {
    this.#state.settle();
    return this.#diagnostics.activity(attemptId, this.#nowMs);
  }

  /**
   * FAILED_PRECONDITION when no registered node could ever hold it, not even an empty one, or when
   * it is above the maximum allocation, or its queue may not use the partition. While no node is
   * registered everything is admitted and waits.
   */
  admit(
    resource: Resource,
    { queue, nodeLabel }: { readonly queue?: string; readonly nodeLabel?: string | undefined } = {},
  ): Reply<undefined> {
    return this.#diagnostics.admit(this.#state.normalise(resource), queue, nodeLabel);
  }

  /** The largest container that may be asked for and that some node could hold, type by type. */
  maximumCapability(queue?: string): Resource {
    return this.#diagnostics.maximumCapability(queue);
  }

  /**
   * What the application may still get (facts §3.11): within its user's limit, its queue's maximum
   * and what is free. Optimistic, since it is scattered over nodes and others want it too.
   */
  headroom(attemptId: ApplicationAttemptId): Resource {
    const attempt = this.#state.attempts.get(attemptId);
    if (!attempt?.isAdded) return NO_RESOURCE;
    this.#state.settle();
    return this.#state.headroom(attempt);
  }

  /** `total` and `nodes` are of registered nodes; `used` and `containers` of all that is booked. */
  usage(): { total: Resource; used: Resource; nodes: number; containers: number } {
    const { nodes, types, ledger } = this.#state;
    return {
      total: types.resource(nodes.registeredTotal),
      used: types.resource(nodes.used),
      nodes: nodes.size,
      containers: ledger.bookings.size,
    };
  }

  /** Undefined for a node that is neither registered nor holds a booked container. */
  nodeUsage(
    nodeId: NodeId,
  ): { used: Resource; reserved: Resource; containers: number } | undefined {
    const { nodes, types, reservations } = this.#state;
    const slot = nodes.find(nodeId);
    if (slot === undefined) return undefined;
    return {
      used: types.resource(nodes.usedOn(slot)),
      reserved: reservations.on(slot)?.ask.requestClass.size.resource ?? NO_RESOURCE,
      containers: nodes.containersOf(slot),
    };
  }

  attemptUsage(attemptId: ApplicationAttemptId): {
    allocated: Resource;
    reserved: Resource;
    containers: number;
  } {
    const attempt = this.#state.attempts.get(attemptId);
    if (attempt === undefined) {
      return { allocated: NO_RESOURCE, reserved: NO_RESOURCE, containers: 0 };
    }
    return {
      reserved: attempt.reservation?.ask.requestClass.size.resource ?? NO_RESOURCE,
      allocated: this.#state.types.resource(attempt.allocated),
      containers: attempt.containers,
    };
  }

  queueInfo(): QueueInfo {
    this.#state.settle();
    return queueInfo(this.#state, this.#state.queues.root);
  }

  #placeIn(partition: number, placer: Placer, isFull: () => boolean): void {
    const state = this.#state;
    const where = state.nodes.partitions[partition];
    if (where === undefined || where.asked.length === 0) return;
    for (;;) {
      const dropsBefore = state.reservations.drops;
      const pass = state.newPass(where, this.#nowMs, placer);
      while (!isFull() && pass.next(state.queues.root));
      pass.end();
      // What was reserved and is not any more may be what somebody, passed over, waits for.
      if (isFull() || state.reservations.drops === dropsBefore) return;
    }
  }
}
