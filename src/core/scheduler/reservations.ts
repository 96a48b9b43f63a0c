/**
 * Reservations (facts §3.8): a request that some node could hold, but none has room for, keeps what
 * is and gets free on one node, so that smaller requests do not take it away for ever. What is
 * reserved counts as used by its application, user and queue.
 *
 * An application has one reservation at a time and a node has one, and only so many of a partition's
 * nodes are reserved, where YARN may reserve them all. A reservation lapses after a while, unlike in
 * YARN: where containers run for weeks, it would close its node for as long.
 */
import type { Demand } from "./amounts.ts";
import type { ApplicationAttempt } from "./application-attempt.ts";
import type { LeafQueue, User } from "./leaf-queue.ts";
import type { Ledger } from "./ledger.ts";
import type { Locality } from "./locality.ts";
import { mix } from "./node-choice.ts";
import type { OutstandingAsk } from "./outstanding-ask.ts";
import type { Partition } from "./partition.ts";

/** Nodes looked at for one reservation. */
const DRAWS = 64;
/** Applications looked at in one pass; the others come in the next ones. */
const TRIES_PER_PASS = 16;
/** How long a node is kept, and how long the application then waits before it may have another. */
const HOLD_MS = 300_000;
const PAUSE_MS = 300_000;
/** Shares of a partition's nodes that may be reserved. */
const MOST_WHEN_BEHIND = 0.5;
const MOST_OTHERWISE = 0.05;
/** Used capacity of a queue, as a share of its parent's, below which it is behind. */
const BEHIND = 0.9;

export type Reservation = {
  readonly attempt: ApplicationAttempt;
  readonly ask: OutstandingAsk;
  readonly leaf: LeafQueue;
  readonly user: User;
  readonly slot: number;
  readonly partition: Partition;
  readonly demand: Demand;
  /** Epoch ms at which it lapses. */
  readonly untilMs: number;
};

export class Reservations {
  readonly #ledger: Ledger;
  readonly #locality: Locality;
  /** How many have been dropped so far. */
  drops = 0;
  readonly #bySlot = new Map<number, Reservation>();
  /** Applications that may want one, the longest waiting first. */
  readonly #candidates = new Set<ApplicationAttempt>();

  constructor(ledger: Ledger, locality: Locality) {
    this.#ledger = ledger;
    this.#locality = locality;
  }

  on(slot: number): Reservation | undefined {
    return this.#bySlot.get(slot);
  }

  /** The application asks for something that may not fit anywhere. */
  consider(attempt: ApplicationAttempt): void {
    if (attempt.reservation === undefined) this.#candidates.add(attempt);
  }

  forget(attempt: ApplicationAttempt): void {
    this.#candidates.delete(attempt);
    if (attempt.reservation) this.drop(attempt.reservation);
    this.#candidates.delete(attempt);
  }

  drop(reservation: Reservation): void {
    const { attempt, leaf, user, slot, partition, demand } = reservation;
    this.#bySlot.delete(slot);
    this.drops += 1;
    attempt.reservation = undefined;
    leaf.chargeReserved(partition, user, demand, -1);
    this.#ledger.nodes.setReserved(slot, false);
    this.consider(attempt);
  }

  /** Drops what is reserved on a node that changes or goes. */
  dropOn(slot: number): void {
    const reservation = this.#bySlot.get(slot);
    if (reservation) this.drop(reservation);
  }

  /** Reservations that can be fulfilled now, by the node's id. */
  ready(): readonly Reservation[] {
    const { touchedReservations, nodes } = this.#ledger;
    if (touchedReservations.size === 0) return [];
    const ready: Reservation[] = [];
    for (const slot of touchedReservations) {
      const reservation = this.#bySlot.get(slot);
      if (reservation === undefined || !nodes.hasFree(slot, reservation.demand)) {
        touchedReservations.delete(slot);
      } else if (isWithinLimits(reservation)) {
        ready.push(reservation);
      }
    }
    return ready.sort((a, b) => (nodes.idOf(a.slot) < nodes.idOf(b.slot) ? -1 : 1));
  }

  /** Gives back what was kept for too long. */
  lapse(nowMs: number): void {
    for (const reservation of [...this.#bySlot.values()]) {
      if (reservation.untilMs > nowMs) continue;
      this.drop(reservation);
      reservation.attempt.lapsed = { atMs: nowMs, releases: this.#ledger.releases };
    }
  }

  /** Epoch ms at which `lapse` next has something to do. */
  lapseAtMs(): number | undefined {
    let earliest: number | undefined;
    for (const { untilMs } of this.#bySlot.values()) {
      if (earliest === undefined || untilMs < earliest) earliest = untilMs;
    }
    return earliest;
  }

  /** Makes reservations for those that nothing more could be placed for. */
  make(nowMs: number): void {
    let tries = TRIES_PER_PASS;
    for (const attempt of [...this.#firstCandidates()]) {
      if (tries === 0) return;
      tries -= 1;
      this.#candidates.delete(attempt);
      if (attempt.activation !== "active" || attempt.asks.length === 0) continue;
      const isServed =
        this.#mayReserve(attempt, nowMs) &&
        attempt.asks.some((ask) => this.#reserve(attempt, ask, nowMs));
      if (!isServed) this.#candidates.add(attempt);
    }
  }

  /** Where nothing ends, keeping a node once more would bring no more than the last time. */
  #mayReserve({ lapsed }: ApplicationAttempt, nowMs: number): boolean {
    if (lapsed === undefined) return true;
    return lapsed.atMs + PAUSE_MS <= nowMs && lapsed.releases !== this.#ledger.releases;
  }

  *#firstCandidates(): Generator<ApplicationAttempt> {
    let left = TRIES_PER_PASS;
    for (const attempt of this.#candidates) {
      if (left === 0) return;
      left -= 1;
      yield attempt;
    }
  }

  #reserve(attempt: ApplicationAttempt, ask: OutstandingAsk, nowMs: number): boolean {
    const { leaf, user } = attempt;
    const { partition, feasible, largeEnough, isOpportunistic, size } = ask.requestClass;
    const { demand } = size;
    if (leaf === undefined || user === undefined || demand === undefined) return false;
    if (feasible.size > 0 || largeEnough === 0 || isOpportunistic) return false;
    if (!isTaller(ask, partition) || this.#isEnough(leaf, partition)) return false;
    if (!hasSomeHeadroom(leaf, partition, demand)) return false;
    if (leaf.limits(partition).isOver(user, leaf.activeUserWeights)) return false;
    const slot = this.#nearest(attempt, ask, demand);
    if (slot === undefined) return false;
    const untilMs = nowMs + HOLD_MS;
    const reservation = { attempt, ask, leaf, user, slot, partition, demand, untilMs };
    attempt.reservation = reservation;
    this.#bySlot.set(slot, reservation);
    leaf.chargeReserved(partition, user, demand, 1);
    this.#ledger.nodes.setReserved(slot, true);
    return true;
  }

  /**
   * What is kept is not used meanwhile. A queue that has less than it is owed may keep half of the
   * nodes, any other one a twentieth, and one node in any case: measured by bench/quality.ts, more
   * costs more than it brings.
   */
  #isEnough(leaf: LeafQueue, partition: Partition): boolean {
    if (this.#bySlot.size === 0) return false;
    const most = isBehind(leaf, partition) ? MOST_WHEN_BEHIND : MOST_OTHERWISE;
    return this.#bySlot.size + 1 > most * partition.size;
  }

  /** Of the nodes drawn, the one on which least has to become free. */
  #nearest(attempt: ApplicationAttempt, ask: OutstandingAsk, demand: Demand): number | undefined {
    const { nodes } = this.#ledger;
    const { order } = ask.requestClass.partition;
    const draws = Math.min(DRAWS, order.length);
    const begin = order.length <= DRAWS ? 0 : mix(attempt.seed + attempt.containers);
    let nearest: number | undefined;
    let least = 0;
    for (let index = 0; index < draws; index += 1) {
      const slot = order[(begin + index) % order.length] as number;
      if (nodes.isReserved(slot) || !nodes.isLargeEnough(slot, demand)) continue;
      if (!this.#locality.reaches(ask, slot)) continue;
      if (this.#locality.whyNot(attempt, ask, slot) !== undefined) continue;
      const missing = this.#missing(slot, demand);
      if (nearest !== undefined && missing >= least) continue;
      nearest = slot;
      least = missing;
    }
    return nearest;
  }

  /** What has to become free, as a share of what the node has. */
  #missing(slot: number, { types, amounts }: Demand): number {
    const { nodes } = this.#ledger;
    let missing = 0;
    for (const [index, type] of types.entries()) {
      const lack = (amounts[index] as number) - nodes.freeOf(slot, type);
      missing = Math.max(missing, lack / nodes.totalOf(slot, type));
    }
    return missing;
  }
}

/** On some level the queue is served less than those around it. */
function isBehind(leaf: LeafQueue, partition: Partition): boolean {
  for (let share = leaf.share(partition); share.parent !== undefined; share = share.parent) {
    if (share.usedCapacity < BEHIND * share.parent.usedCapacity) return true;
  }
  return false;
}

/** Whether the queues allow what is reserved to be used: it counts in them already. */
function isWithinLimits({ leaf, user, partition, demand }: Reservation): boolean {
  leaf.chargeReserved(partition, user, demand, -1);
  const isWithin = leaf.share(partition).limitedBy(demand) === undefined;
  leaf.chargeReserved(partition, user, demand, 1);
  return isWithin;
}

/** Whether somebody asks for less of some type, and could take away what this ask waits for. */
function isTaller(ask: OutstandingAsk, { asked }: Partition): boolean {
  const { resource } = ask.requestClass.size;
  return asked.some((other) => {
    const { memoryMb, vcores } = other.size.resource;
    return memoryMb < resource.memoryMb || vcores < resource.vcores;
  });
}

/** What is reserved is given in time as others' containers end, so a little headroom will do. */
function hasSomeHeadroom(leaf: LeafQueue, partition: Partition, { types, amounts }: Demand) {
  const share = leaf.share(partition);
  return types.every((type, index) => {
    for (let above = share; ; above = above.parent) {
      const most = above.maximum[type] ?? 0;
      const isWithin = (above.used[type] ?? 0) < most && (amounts[index] as number) <= most;
      if (!above.isUnlimited && !isWithin) return false;
      if (above.parent === undefined) return true;
    }
  });
}
