/**
 * Who uses what: books containers on nodes, and charges them to applications, users and queues.
 *
 * Queues are charged for what runs on active nodes only. What a lost or draining node still holds
 * counts neither as used nor in the partition's total, so it takes nothing from anybody's share.
 */
import { applicationOfAttempt, type ContainerId } from "../../shared/ids.ts";
import { type Demand, ResourceTypes } from "./amounts.ts";
import type { ApplicationAttempt } from "./application-attempt.ts";
import { type BookingKind, Bookings, newKind, type Row } from "./bookings.ts";
import { NodeTable } from "./node-table.ts";
import type { Partition } from "./partition.ts";
import { RequestClasses, type Size } from "./request-class.ts";
import { type TaggedVisitor, TagIndex, type Topology } from "./tag-counts.ts";

type KindFacts = Omit<BookingKind, "attempt" | "size" | "count" | "index">;

export class Ledger {
  readonly types = new ResourceTypes();
  readonly nodes = new NodeTable(this.types);
  readonly classes = new RequestClasses(this.nodes);
  readonly bookings = new Bookings(this.classes);
  readonly topology: Topology = this.#topology();
  readonly tags = new TagIndex(this.topology);
  /** Containers that have ended so far. */
  releases = 0;
  /** Reserved nodes on which room has come since the last pass. */
  readonly touchedReservations = new Set<number>();
  /** Nodes on which OPPORTUNISTIC containers may have to give way to GUARANTEED ones. */
  readonly crowded = new Set<number>();

  /** The kind of one more container; equal ones share it. */
  kindOf(attempt: ApplicationAttempt, size: Size, facts: KindFacts): BookingKind {
    for (const kind of attempt.kinds) {
      if (kind.size === size && isSameKind(kind, facts)) return kind;
    }
    return newKind({ ...facts, attempt, size });
  }

  book(containerId: ContainerId, slot: number, kind: BookingKind): void {
    this.bookings.add(containerId, slot, kind);
    this.#count(slot, kind, 1);
  }

  release(row: Row): void {
    const kind = this.bookings.kindOf(row);
    const slot = this.bookings.slotOf(row);
    this.bookings.remove(row);
    this.#count(slot, kind, -1);
    this.releases += 1;
    if (this.nodes.isReserved(slot)) this.touchedReservations.add(slot);
  }

  /** Another size or execution type; the node is asked for room by the caller. */
  changeKind(row: Row, kind: BookingKind): void {
    const slot = this.bookings.slotOf(row);
    this.#count(slot, this.bookings.kindOf(row), -1);
    this.bookings.changeKind(row, kind);
    this.#count(slot, kind, 1);
    if (this.nodes.isReserved(slot)) this.touchedReservations.add(slot);
  }

  demandOf(size: Size): Demand {
    size.demand ??= this.types.demand(size.resource);
    return size.demand;
  }

  /** Takes a node's containers off (-1), or puts them onto (1), the use of their queues. */
  chargeNode(slot: number, times: 1 | -1): void {
    if (!this.nodes.isActive(slot)) return;
    for (const row of this.bookings.onSlot(slot)) {
      this.#charge(slot, this.bookings.kindOf(row), times);
    }
  }

  /** The same for all containers of an application, as it comes to a queue or leaves one. */
  chargeAttempt(attempt: ApplicationAttempt, times: 1 | -1): void {
    if (attempt.containers === 0) return;
    attempt.leaf?.countContainers(times * attempt.containers);
    for (const row of this.bookings.rows()) {
      const kind = this.bookings.kindOf(row);
      const slot = this.bookings.slotOf(row);
      if (kind.attempt === attempt && this.nodes.isActive(slot)) this.#charge(slot, kind, times);
    }
  }

  /** Puts every container onto the use of its queue, which has none yet. */
  chargeAll(): void {
    for (const row of this.bookings.rows()) {
      const kind = this.bookings.kindOf(row);
      const slot = this.bookings.slotOf(row);
      kind.attempt.leaf?.countContainers(1);
      if (this.nodes.isActive(slot)) this.#charge(slot, kind, 1);
    }
  }

  /** The partitions in which an application has containers. */
  partitionsOf(attempt: ApplicationAttempt): readonly Partition[] {
    const partitions = new Set<Partition>();
    if (attempt.containers === 0) return [];
    for (const row of this.bookings.rows()) {
      const kind = this.bookings.kindOf(row);
      if (kind.attempt !== attempt) continue;
      partitions.add(this.partitionOf(row));
    }
    return [...partitions];
  }

  /** The partition in which a container counts. */
  partitionOf(row: Row): Partition {
    return this.bookings.kindOf(row).askedIn ?? this.nodes.partitionOf(this.bookings.slotOf(row));
  }

  #count(slot: number, kind: BookingKind, times: 1 | -1): void {
    const { attempt, tags } = kind;
    const demand = this.demandOf(kind.size);
    if (this.nodes.isActive(slot)) this.#charge(slot, kind, times);
    if (times > 0) attempt.take(slot, demand);
    else attempt.giveBack(slot, demand);
    attempt.leaf?.countContainers(times);
    if (tags.length > 0) {
      const applicationId = applicationOfAttempt(attempt.attemptId);
      if (times > 0) this.tags.add(slot, applicationId, tags);
      else this.tags.remove(slot, applicationId, tags);
    }
    this.nodes.take(slot, demand, kind.isOpportunistic, times);
    if (times > 0 && this.nodes.crowdingOn(slot) !== undefined) this.crowded.add(slot);
  }

  #charge(slot: number, kind: BookingKind, times: 1 | -1): void {
    const { leaf, user } = kind.attempt;
    if (kind.isOpportunistic || leaf === undefined || user === undefined) return;
    const partition = kind.askedIn ?? this.nodes.partitionOf(slot);
    leaf.charge(partition, user, this.demandOf(kind.size), times);
  }

  #topology(): Topology {
    const { nodes } = this;
    return {
      get version() {
        return nodes.version;
      },
      slotsOf: (partition: string) => nodes.findPartition(partition)?.order ?? [],
      rackOf: (slot: number) => nodes.rackOf(slot),
      attributeOf: (slot: number, attribute: string) => nodes.attributeOf(slot, attribute),
      visitTagged: (visit: TaggedVisitor) => this.#visitTagged(visit),
    };
  }

  #visitTagged(visit: TaggedVisitor): void {
    for (const row of this.bookings.rows()) {
      const { attempt, tags } = this.bookings.kindOf(row);
      if (tags.length === 0) continue;
      visit(this.bookings.slotOf(row), applicationOfAttempt(attempt.attemptId), tags);
    }
  }
}

function isSameKind(kind: BookingKind, facts: KindFacts): boolean {
  return (
    kind.priority === facts.priority &&
    kind.askedIn === facts.askedIn &&
    kind.isOpportunistic === facts.isOpportunistic &&
    kind.isMaster === facts.isMaster &&
    kind.tags.length === facts.tags.length &&
    kind.tags.every((tag, index) => tag === facts.tags[index])
  );
}
