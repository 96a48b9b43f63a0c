/**
 * Everything that the CapacityScheduler knows, and the primitives that keep it in step: nodes and
 * containers (ledger), queues, applications with their asks, reservations.
 */
import { assert, fail, ok, type Reply } from "../../shared/errors.ts";
import {
  type ApplicationAttemptId,
  applicationOfAttempt,
  type ContainerId,
  type NodeId,
} from "../../shared/ids.ts";
import type { Resource } from "../../shared/resource.ts";
import { AllocationPass, type Placer } from "./allocation-pass.ts";
import { amountOf, canonicalResource, type ResourceTypes, roundDown, roundUp } from "./amounts.ts";
import { ApplicationAttempt } from "./application-attempt.ts";
import type { SchedulerConfiguration } from "./configuration.ts";
import { Ledger } from "./ledger.ts";
import { Locality, type Spot } from "./locality.ts";
import type { NodeTable } from "./node-table.ts";
import { type OutstandingAsk, outstanding, type Place, placeIn } from "./outstanding-ask.ts";
import type { Partition } from "./partition.ts";
import { BoundConstraint } from "./placement-constraint.ts";
import { ParallelLimits } from "./queue-admission.ts";
import { Queues } from "./queues.ts";
import type {
  Ask,
  Assignment,
  BookedContainer,
  SchedulerApplication,
  SchedulerNode,
} from "./request.ts";
import { type Reservation, Reservations } from "./reservations.ts";
import { SharedPartitions } from "./shared-partitions.ts";

export class SchedulerState {
  configuration: SchedulerConfiguration;
  readonly ledger = new Ledger();
  readonly attempts = new Map<ApplicationAttemptId, ApplicationAttempt>();
  readonly locality: Locality;
  readonly reservations: Reservations;
  readonly parallel: ParallelLimits;
  readonly sharing: SharedPartitions;
  queues: Queues;
  #passes = 0;

  constructor(configuration: SchedulerConfiguration) {
    this.configuration = configuration;
    this.locality = new Locality(this.ledger.nodes, configuration);
    this.reservations = new Reservations(this.ledger, this.locality);
    this.sharing = new SharedPartitions(this.ledger, this.locality);
    this.parallel = new ParallelLimits(configuration);
    this.queues = new Queues(configuration, this.ledger.nodes);
    this.#setExclusivity();
  }

  get nodes(): NodeTable {
    return this.ledger.nodes;
  }

  get types(): ResourceTypes {
    return this.ledger.types;
  }

  /** Brings capacities up to date; before anything that depends on them. */
  settle(): void {
    this.queues.settle();
  }

  newPass(partition: Partition, nowMs: number, placer: Placer): AllocationPass {
    this.#passes += 1;
    const { ledger, locality, reservations } = this;
    const continueLooking = this.configuration.reservationsContinueLook;
    const parts = { ledger, locality, reservations, continueLooking };
    return new AllocationPass(parts, partition, { pass: this.#passes, nowMs, placer });
  }

  reconfigure(next: SchedulerConfiguration): void {
    const added = [...this.attempts.values()].filter((attempt) => attempt.isAdded);
    const asks = new Map(added.map((attempt) => [attempt, this.asks(attempt.attemptId)]));
    for (const attempt of added) this.#dropAsks(attempt);
    this.configuration = next;
    this.locality.configure(next);
    this.parallel.reset(next);
    this.queues = new Queues(next, this.nodes);
    this.#setExclusivity();
    for (const attempt of this.attempts.values()) {
      const { leaf, user } = attempt;
      attempt.activation = "parallel";
      if (leaf && user) this.#enterLeaf(attempt, leaf.path, user.name);
    }
    this.ledger.chargeAll();
    this.settle();
    for (const attempt of added) this.#countApplication(attempt, 1);
    for (const [attempt, wanted] of asks) for (const ask of wanted) this.setAsk(attempt, ask);
  }

  addNode(node: SchedulerNode): void {
    const slot = this.nodes.slotFor(node.nodeId);
    this.#beforeNodeChange(slot);
    this.nodes.register({ ...node, capability: canonicalResource(node.capability) });
    this.ledger.chargeNode(slot, 1);
    this.ledger.tags.nodeChanged(slot);
  }

  drainNode(nodeId: NodeId): void {
    const slot = this.nodes.find(nodeId);
    if (slot === undefined || !this.nodes.isRegistered(slot)) return;
    this.#beforeNodeChange(slot);
    this.nodes.drain(slot);
  }

  removeNode(nodeId: NodeId): void {
    const slot = this.nodes.find(nodeId);
    if (slot === undefined) return;
    this.#beforeNodeChange(slot);
    this.nodes.unregister(slot);
  }

  #beforeNodeChange(slot: number): void {
    this.reservations.dropOn(slot);
    this.ledger.chargeNode(slot, -1);
  }

  addApplication(application: SchedulerApplication): void {
    const attempt = this.#attemptOf(application.attemptId);
    assert(!attempt.isAdded, "an application attempt is added once");
    attempt.isAdded = true;
    attempt.order = application.order;
    attempt.priority = application.priority;
    attempt.master = this.types.amounts(application.masterResource);
    this.#enterLeaf(attempt, application.queue, application.user);
    this.ledger.chargeAttempt(attempt, 1);
    this.settle();
    this.#countApplication(attempt, 1);
  }

  removeApplication(attempt: ApplicationAttempt): void {
    this.#dropAsks(attempt);
    this.#countApplication(attempt, -1);
    attempt.isAdded = false;
    this.#forgetUnused(attempt);
  }

  setPriority(attempt: ApplicationAttempt, priority: number): void {
    const { leaf } = attempt;
    const isWaiting = attempt.asks.length > 0 && attempt.activation === "active";
    if (isWaiting) leaf?.setWaiting(attempt, false);
    attempt.priority = priority;
    if (isWaiting) leaf?.setWaiting(attempt, true);
  }

  moveApplication(attempt: ApplicationAttempt, path: string): Reply<undefined> {
    const target = this.queues.leafFor(path);
    const partition = this.ledger.partitionsOf(attempt).find((each) => !target.mayUse(each));
    if (partition !== undefined) {
      return fail(
        "FAILED_PRECONDITION",
        `${attempt.attemptId} has containers in partition ${partition.name}, which queue ${path} may not use`,
      );
    }
    const asks = this.asks(attempt.attemptId);
    const user = attempt.user?.name ?? "";
    this.#dropAsks(attempt);
    this.#countApplication(attempt, -1);
    this.ledger.chargeAttempt(attempt, -1);
    this.#enterLeaf(attempt, path, user);
    this.ledger.chargeAttempt(attempt, 1);
    this.settle();
    this.#countApplication(attempt, 1);
    for (const ask of asks) this.setAsk(attempt, ask);
    return ok();
  }

  setAsk(attempt: ApplicationAttempt, ask: Ask): void {
    const { leaf } = attempt;
    assert(leaf !== undefined, "an application that was added has a queue");
    const { index, found } = placeIn(
      attempt.asks,
      (other) =>
        other.priority - ask.priority || other.allocationRequestId - ask.allocationRequestId,
    );
    if (found && ask.count > 0 && isSamePlain(found.ask, ask)) {
      found.count = ask.count;
      this.reservations.consider(attempt);
      return;
    }
    if (found) this.#endAsk(attempt, found);
    if (ask.count === 0) return;
    const partition = this.queues.partitionOf(leaf, ask.nodeLabel);
    const isOpportunistic = ask.executionType === "OPPORTUNISTIC";
    const capability = this.normalise(ask.capability);
    const requestClass = this.ledger.classes.beginAsk(capability, partition, isOpportunistic);
    attempt.asks.splice(index, 0, {
      ask,
      priority: ask.priority,
      allocationRequestId: ask.allocationRequestId,
      requestClass,
      count: ask.count,
      places: placesOf(ask),
      constraint: this.#bind(attempt, ask, partition),
      waitingSinceMs: undefined,
      kind: undefined,
    });
    attempt.addToMask(requestClass);
    if (leaf.mayUse(partition)) leaf.share(partition).countAsk(requestClass.bit, 1);
    if (attempt.activation === "active") leaf.setWaiting(attempt, true);
    this.reservations.consider(attempt);
  }

  asks(attemptId: ApplicationAttemptId): readonly Ask[] {
    return (this.attempts.get(attemptId)?.asks ?? []).map(outstanding);
  }

  book(container: BookedContainer): void {
    const attempt = this.#attemptOf(container.attemptId);
    const slot = this.nodes.slotFor(container.nodeId);
    const size = this.ledger.classes.takeSize(container.resource);
    const { nodeLabel } = container;
    const kind = this.ledger.kindOf(attempt, size, {
      priority: container.priority,
      askedIn: nodeLabel === undefined ? undefined : this.nodes.partition(nodeLabel),
      isOpportunistic: container.executionType === "OPPORTUNISTIC",
      isMaster: container.isMaster ?? false,
      tags: [...new Set(container.allocationTags)],
    });
    this.ledger.book(container.containerId, slot, kind);
    this.ledger.classes.dropSize(size);
  }

  release(containerId: ContainerId): void {
    const row = this.ledger.bookings.find(containerId);
    if (row === undefined) return;
    const { attempt } = this.ledger.bookings.kindOf(row);
    this.ledger.release(row);
    if (attempt.containers === 0) this.#forgetUnused(attempt);
  }

  /** Books a container for an ask, and takes it off the ask. */
  place(
    attempt: ApplicationAttempt,
    ask: OutstandingAsk,
    spot: Spot,
    containerId: ContainerId,
  ): Assignment {
    const { size, partition, isOpportunistic } = ask.requestClass;
    const { executionType, allocationTags } = ask.ask;
    const isShared = this.nodes.partitionOf(spot.slot) !== partition;
    const kind =
      ask.kind !== undefined && !isShared
        ? ask.kind
        : this.ledger.kindOf(attempt, size, {
            priority: ask.priority,
            askedIn: isShared ? partition : undefined,
            isOpportunistic,
            isMaster: false,
            tags: [...new Set(allocationTags)],
          });
    if (!isShared) ask.kind = kind;
    this.ledger.book(containerId, spot.slot, kind);
    ask.count -= 1;
    this.locality.placed(ask, spot);
    if (ask.count === 0) this.#endAsk(attempt, ask);
    const assignment: Assignment = {
      containerId,
      attemptId: attempt.attemptId,
      nodeId: this.nodes.idOf(spot.slot),
      resource: size.resource,
      priority: ask.priority,
      allocationRequestId: ask.allocationRequestId,
      locality: spot.locality,
    };
    if (!isShared && allocationTags === undefined && executionType === undefined) return assignment;
    return {
      ...assignment,
      ...(isShared && { nodeLabel: partition.name }),
      ...(allocationTags && { allocationTags }),
      ...(executionType && { executionType }),
    };
  }

  /** Places what a reservation was made for, where it was made; or drops it, if it may not. */
  fulfil(reservation: Reservation, placer: Placer): void {
    const { attempt, ask, slot } = reservation;
    if (attempt.reservation !== reservation) return;
    const isRefused = this.locality.whyNot(attempt, ask, slot) !== undefined;
    this.reservations.drop(reservation);
    if (isRefused) return;
    placer.place(attempt, ask, { slot, locality: this.locality.localityOf(ask, slot) });
  }

  headroom(attempt: ApplicationAttempt): Resource {
    const { leaf, user } = attempt;
    assert(leaf !== undefined && user !== undefined, "an added application has queue and user");
    const partitions = new Set(attempt.asks.map((ask) => ask.requestClass.partition));
    if (partitions.size === 0) partitions.add(leaf.defaultPartition);
    const sum = new Array<number>(this.types.size).fill(0);
    const { minimumAllocation } = this.queues;
    for (const partition of partitions) {
      const limits = leaf.limits(partition);
      const limit = limits.limitOf(user, leaf.activeUserWeights);
      const { used } = limits.useOf(user);
      const share = leaf.share(partition);
      const root = this.queues.root.share(partition);
      for (const [type, before] of sum.entries()) {
        const free = amountOf(partition.total, type) - amountOf(root.used, type);
        const left = Math.min(
          amountOf(limit, type) - amountOf(used, type),
          share.headroom(type),
          free,
        );
        sum[type] = before + roundDown(Math.max(0, left), amountOf(minimumAllocation, type));
      }
    }
    return this.types.resource(sum);
  }

  /** value = roundUp(max(ask, minimum), step = minimum) */
  normalise(resource: Resource): Resource {
    const { memoryMb: stepMb, vcores: step } = this.configuration.minimumAllocation;
    const memoryMb = roundUp(Math.max(resource.memoryMb, 1), stepMb);
    const vcores = roundUp(Math.max(resource.vcores, 1), step);
    return canonicalResource({ ...resource, memoryMb, vcores });
  }

  #bind(attempt: ApplicationAttempt, ask: Ask, partition: Partition): BoundConstraint | undefined {
    if (ask.constraint === undefined) return undefined;
    const applicationId = applicationOfAttempt(attempt.attemptId);
    const requester = {
      applicationId,
      tags: ask.allocationTags ?? [],
      partition: partition.name,
    };
    const { tags, topology } = this.ledger;
    return new BoundConstraint(ask.constraint, requester, tags, topology);
  }

  #endAsk(attempt: ApplicationAttempt, ask: OutstandingAsk): void {
    const { leaf } = attempt;
    const { requestClass } = ask;
    if (attempt.reservation?.ask === ask) this.reservations.drop(attempt.reservation);
    attempt.asks.splice(attempt.asks.indexOf(ask), 1);
    if (leaf?.mayUse(requestClass.partition)) {
      leaf.share(requestClass.partition).countAsk(requestClass.bit, -1);
    }
    this.ledger.classes.endAsk(requestClass);
    ask.constraint?.release();
    this.locality.forget(ask);
    this.sharing.forget(ask);
    attempt.dropFromMask(requestClass);
    if (attempt.asks.length === 0 && attempt.activation === "active") {
      leaf?.setWaiting(attempt, false);
    }
  }

  #dropAsks(attempt: ApplicationAttempt): void {
    this.reservations.forget(attempt);
    for (const ask of [...attempt.asks]) this.#endAsk(attempt, ask);
    this.reservations.forget(attempt);
  }

  #enterLeaf(attempt: ApplicationAttempt, path: string, user: string): void {
    const leaf = this.queues.leafFor(path);
    attempt.leaf = leaf;
    attempt.user = leaf.user(user);
  }

  /** In the counts of its queues and user, and of max-parallel-apps. */
  #countApplication(attempt: ApplicationAttempt, times: 1 | -1): void {
    const { leaf, user } = attempt;
    assert(leaf !== undefined && user !== undefined, "an added application has queue and user");
    for (const queue of leaf.lineage()) queue.applications += times;
    user.applications += times;
    if (times > 0) this.parallel.add(attempt);
    else this.parallel.remove(attempt);
    leaf.forgetUnused(user);
  }

  #attemptOf(attemptId: ApplicationAttemptId): ApplicationAttempt {
    const known = this.attempts.get(attemptId);
    if (known) return known;
    const attempt = new ApplicationAttempt(attemptId);
    this.attempts.set(attemptId, attempt);
    return attempt;
  }

  #forgetUnused(attempt: ApplicationAttempt): void {
    if (attempt.isAdded || attempt.containers > 0) return;
    if (attempt.leaf && attempt.user) attempt.leaf.forgetUnused(attempt.user);
    this.attempts.delete(attempt.attemptId);
  }

  #setExclusivity(): void {
    for (const { name, exclusive } of this.configuration.nodeLabels) {
      this.nodes.partition(name).isExclusive = exclusive;
    }
  }
}

function placesOf({ places }: Ask): Map<string, Place> | undefined {
  if (places === undefined || places.length === 0) return undefined;
  return new Map(
    places.map(({ name, count, relaxLocality }) => [
      name,
      { count, isRelaxed: relaxLocality !== false },
    ]),
  );
}

/** Whether only the count differs, of asks without particulars. */
function isSamePlain(before: Ask, now: Ask): boolean {
  const { memoryMb, vcores, extra } = before.capability;
  return (
    isPlain(before) &&
    isPlain(now) &&
    extra === undefined &&
    now.capability.extra === undefined &&
    memoryMb === now.capability.memoryMb &&
    vcores === now.capability.vcores &&
    before.nodeLabel === now.nodeLabel &&
    before.executionType === now.executionType
  );
}

function isPlain({ places, constraint, allocationTags }: Ask): boolean {
  return places === undefined && constraint === undefined && allocationTags === undefined;
}
