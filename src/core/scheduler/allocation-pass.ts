/**
 * One pass over a partition: the most deserving queue, in it the first application that may have
 * more, its most urgent request that some node has room for; one container at a time.
 *
 * Within a pass room only shrinks and use only grows. So what was skipped stays skipped, each parent
 * keeps its children in a heap that is built once, and a leaf goes on where it stood. Only a user
 * limit can rise, as others of the queue get more: its applications are then looked at again.
 */
import { type Amounts, addAmounts } from "./amounts.ts";
import type { ApplicationAttempt } from "./application-attempt.ts";
import { compareFifo, LeafQueue, type User } from "./leaf-queue.ts";
import type { Ledger } from "./ledger.ts";
import { isParticular, type Locality, type Spot } from "./locality.ts";
import { chooseNode } from "./node-choice.ts";
import type { OutstandingAsk } from "./outstanding-ask.ts";
import type { Partition } from "./partition.ts";
import { compareShares, ParentQueue, type QueueShare } from "./queue.ts";
import type { Reservations } from "./reservations.ts";
import type { UserLimits } from "./user-limits.ts";

/** What a pass does with what it found. */
export type Placer = {
  /** False: only look whether there is something to place. */
  readonly commits: boolean;
  place(attempt: ApplicationAttempt, ask: OutstandingAsk, spot: Spot): void;
};

type BlockedUser = { readonly user: User; index: number };

/** Where one leaf stands in a pass. */
class LeafTurn {
  readonly line: ApplicationAttempt[];
  readonly isFair: boolean;
  cursor = 0;
  readonly blockedUsers: BlockedUser[] = [];

  constructor(leaf: LeafQueue) {
    const { ordering } = leaf.configuration;
    this.isFair = ordering.policy === "fair";
    this.line =
      ordering.policy === "fair"
        ? [...leaf.waiting].sort((a, b) => compareFair(a, b, ordering.sizeBasedWeight))
        : leaf.waiting;
  }

  /** The application at the cursor got a container. */
  served(leaf: LeafQueue, attempt: ApplicationAttempt): void {
    const isDone = attempt.asks.length === 0;
    if (isDone) this.#removed();
    if (!this.isFair) return;
    this.line.splice(this.cursor, 1);
    if (isDone) return;
    const { ordering } = leaf.configuration;
    const bySize = ordering.policy === "fair" && ordering.sizeBasedWeight;
    let index = this.cursor;
    while (
      index < this.line.length &&
      compareFair(this.line[index] as ApplicationAttempt, attempt, bySize) < 0
    ) {
      index += 1;
    }
    this.line.splice(index, 0, attempt);
  }

  block(user: User): void {
    if (this.blockedUsers.some((blocked) => blocked.user === user)) return;
    this.blockedUsers.push({ user, index: this.cursor });
  }

  /** Goes back to the first application of a user who is not over the limit any more. */
  lift(limits: UserLimits, activeWeights: number): void {
    const { length } = this.blockedUsers;
    let kept = 0;
    for (let index = 0; index < length; index += 1) {
      const blocked = this.blockedUsers[index] as BlockedUser;
      if (limits.isOver(blocked.user, activeWeights)) {
        this.blockedUsers[kept] = blocked;
        kept += 1;
      } else {
        this.cursor = Math.min(this.cursor, blocked.index);
      }
    }
    // Said only when it changes: to set a length costs more than all the rest.
    if (kept < length) this.blockedUsers.length = kept;
  }

  #removed(): void {
    for (const blocked of this.blockedUsers) {
      if (blocked.index > this.cursor) blocked.index -= 1;
    }
  }
}

export class AllocationPass {
  readonly #ledger: Ledger;
  readonly #locality: Locality;
  readonly #reservations: Reservations;
  readonly #continueLooking: boolean;
  readonly #nowMs: number;
  readonly #placer: Placer;
  readonly #pass: number;
  readonly #turns = new Map<LeafQueue, LeafTurn>();
  readonly #partition: Partition;
  #feasible = 0;
  /** The partition's changes that `#feasible` knows of. */
  #seen = 0;
  readonly #blocked: QueueShare[] = [];

  constructor(
    parts: {
      readonly ledger: Ledger;
      readonly locality: Locality;
      readonly reservations: Reservations;
      readonly continueLooking: boolean;
    },
    partition: Partition,
    turn: { readonly pass: number; readonly nowMs: number; readonly placer: Placer },
  ) {
    this.#ledger = parts.ledger;
    this.#locality = parts.locality;
    this.#reservations = parts.reservations;
    this.#continueLooking = parts.continueLooking;
    this.#partition = partition;
    this.#pass = turn.pass;
    this.#nowMs = turn.nowMs;
    this.#placer = turn.placer;
    this.#lookForRoom();
  }

  /** Places one container; false: there is nothing more to place in this partition. */
  next(root: ParentQueue): boolean {
    const share = root.share(this.#partition);
    return this.#isWorthALook(share) && this.#serve(share);
  }

  /** What was kept back in this pass is so no longer. */
  end(): void {
    for (const share of this.#blocked) share.blocked = undefined;
  }

  #isWorthALook(share: QueueShare): boolean {
    return (share.mask & this.#feasible) !== 0;
  }

  #serve(share: QueueShare): boolean {
    const { queue } = share;
    if (share.pass !== this.#pass) this.#begin(share);
    if (queue instanceof LeafQueue) return this.#serveLeaf(queue, share);
    const byPriority = queue.configuration.ordering.policy === "priority-utilization";
    const { candidates } = share;
    while (candidates.length > 0) {
      const child = candidates[0] as QueueShare;
      if (this.#isWorthALook(child) && this.#serve(child)) {
        siftDown(candidates, 0, byPriority);
        return true;
      }
      const last = candidates.pop() as QueueShare;
      if (candidates.length === 0) break;
      candidates[0] = last;
      siftDown(candidates, 0, byPriority);
    }
    return false;
  }

  /** The first look at a queue in this pass. */
  #begin(share: QueueShare): void {
    share.pass = this.#pass;
    const { queue, candidates } = share;
    if (!(queue instanceof ParentQueue)) return;
    candidates.length = 0;
    for (const child of queue.children) {
      const below = child.share(this.#partition);
      if (this.#isWorthALook(below)) candidates.push(below);
    }
    const byPriority = queue.configuration.ordering.policy === "priority-utilization";
    for (let index = (candidates.length >> 1) - 1; index >= 0; index -= 1) {
      siftDown(candidates, index, byPriority);
    }
  }

  #serveLeaf(leaf: LeafQueue, share: QueueShare): boolean {
    let turn = this.#turns.get(leaf);
    if (turn === undefined) {
      turn = new LeafTurn(leaf);
      this.#turns.set(leaf, turn);
    }
    const limits = leaf.limits(this.#partition);
    const { id } = this.#partition;
    while (turn.cursor < turn.line.length) {
      const attempt = turn.line[turn.cursor] as ApplicationAttempt;
      const { user } = attempt;
      if (user === undefined || ((attempt.masks[id] ?? 0) & this.#feasible) === 0) {
        turn.cursor += 1;
        continue;
      }
      const isOver = limits.isOver(user, leaf.activeUserWeights);
      const outcome = this.#serveAttempt(attempt, share, isOver);
      if (outcome === "placed") {
        turn.served(leaf, attempt);
        turn.lift(limits, leaf.activeUserWeights);
        return true;
      }
      if (outcome === "queue limit") {
        this.#keepBack(share);
        turn.cursor = turn.line.length;
        return false;
      }
      if (isOver) turn.block(user);
      turn.cursor += 1;
    }
    return false;
  }

  #serveAttempt(
    attempt: ApplicationAttempt,
    share: QueueShare,
    isOverUserLimit: boolean,
  ): "placed" | "skipped" | "queue limit" {
    for (const ask of attempt.asks) {
      const { partition, feasible, isOpportunistic, size } = ask.requestClass;
      const { demand } = size;
      if (partition !== this.#partition || feasible.size === 0 || demand === undefined) continue;
      if (isOpportunistic) {
        if (this.#placeFor(attempt, ask)) return "placed";
        continue;
      }
      const limited = isOverUserLimit || share.limitedBy(demand) !== undefined;
      if (!limited) {
        if (this.#placeFor(attempt, ask)) return "placed";
        continue;
      }
      const instead = this.#placeInsteadOfReservation(attempt, ask, share);
      if (instead) return "placed";
      if (isOverUserLimit) return "skipped";
      if (couldEverFit(share, ask)) return "queue limit";
    }
    return "skipped";
  }

  /** Continue-looking: what is reserved is in the way of what could be had now. */
  #placeInsteadOfReservation(
    attempt: ApplicationAttempt,
    ask: OutstandingAsk,
    share: QueueShare,
  ): boolean {
    const { reservation } = attempt;
    const { demand } = ask.requestClass.size;
    if (!this.#continueLooking || reservation === undefined || demand === undefined) return false;
    const { leaf, user, partition } = reservation;
    if (partition !== this.#partition) return false;
    leaf.chargeReserved(partition, user, reservation.demand, -1);
    const isOver = leaf.limits(partition).isOver(user, leaf.activeUserWeights);
    const fits = !isOver && share.limitedBy(demand) === undefined;
    leaf.chargeReserved(partition, user, reservation.demand, 1);
    if (!fits) return false;
    if (!this.#placer.commits) return true;
    const spot = this.#spotFor(attempt, ask);
    if (spot === undefined) return false;
    this.#reservations.drop(reservation);
    return this.#commit(attempt, ask, spot);
  }

  #placeFor(attempt: ApplicationAttempt, ask: OutstandingAsk): boolean {
    const spot = this.#spotFor(attempt, ask);
    if (spot === undefined) return false;
    const { reservation } = attempt;
    // The last one wanted is placed elsewhere, so that what was reserved for it is free again.
    if (reservation?.ask === ask && ask.count === 1 && this.#placer.commits) {
      this.#reservations.drop(reservation);
    }
    return this.#commit(attempt, ask, spot);
  }

  #spotFor(attempt: ApplicationAttempt, ask: OutstandingAsk): Spot | undefined {
    const { feasible, size } = ask.requestClass;
    const { demand } = size;
    if (demand === undefined) return undefined;
    const seed = (attempt.seed + Math.imul(this.#ledger.bookings.size, 0x9e3779b1)) | 0;
    if (isParticular(attempt, ask)) return this.#locality.choose(attempt, ask, seed, this.#nowMs);
    const slot = chooseNode(this.#ledger.nodes, this.#partition, feasible, attempt, demand, seed);
    return { slot, locality: "OFF_SWITCH" };
  }

  #commit(attempt: ApplicationAttempt, ask: OutstandingAsk, spot: Spot): boolean {
    this.#placer.place(attempt, ask, spot);
    if (!this.#placer.commits) return true;
    if (this.#partition.changes === this.#seen + 1) this.#roomTaken(spot.slot);
    else this.#lookForRoom();
    return true;
  }

  /** After a placement and nothing else since the last look. */
  #roomTaken(slot: number): void {
    this.#seen += 1;
    const { nodes } = this.#ledger;
    const position = this.#partition.positionOf(slot);
    let mask = 0;
    for (const asked of this.#partition.asked) {
      asked.placed(nodes, slot, position);
      if (asked.feasible.size > 0) mask |= asked.bit;
    }
    this.#feasible = mask;
  }

  #lookForRoom(): void {
    this.#seen = this.#partition.changes;
    const { nodes } = this.#ledger;
    let mask = 0;
    for (const asked of this.#partition.asked) {
      if (asked.catchUp(nodes).size > 0) mask |= asked.bit;
    }
    this.#feasible = mask;
  }

  /** What the leaf could still take is kept for it, from all that are served later in this pass. */
  #keepBack(share: QueueShare): void {
    const { types } = this.#ledger;
    const headroom: Amounts = [];
    for (let type = 0; type < types.size; type += 1) {
      const left = share.headroom(type);
      headroom.push(Number.isFinite(left) ? Math.max(0, left) : 0);
    }
    for (let above = share.parent; above; above = above.parent) {
      above.blocked ??= [];
      this.#blocked.push(above);
      addAmounts(above.blocked, headroom, 1);
    }
  }
}

/** Whether the queues would allow it if they were empty. */
function couldEverFit(share: QueueShare, ask: OutstandingAsk): boolean {
  const { demand } = ask.requestClass.size;
  if (demand === undefined) return false;
  for (let above: QueueShare | undefined = share; above; above = above.parent) {
    const { maximum } = above;
    const fits = demand.types.every(
      (type, index) => (demand.amounts[index] as number) <= (maximum[type] ?? 0),
    );
    if (!fits) return false;
  }
  return true;
}

function siftDown(heap: QueueShare[], from: number, byPriority: boolean): void {
  const item = heap[from] as QueueShare;
  let index = from;
  for (;;) {
    let child = 2 * index + 1;
    if (child >= heap.length) break;
    const right = child + 1;
    if (
      right < heap.length &&
      compareShares(heap[right] as QueueShare, heap[child] as QueueShare, byPriority) < 0
    ) {
      child = right;
    }
    if (compareShares(heap[child] as QueueShare, item, byPriority) >= 0) break;
    heap[index] = heap[child] as QueueShare;
    index = child;
  }
  heap[index] = item;
}

/** Fair ordering: the least memory used first, divided by log2(1 + demand) if wanted. */
function compareFair(a: ApplicationAttempt, b: ApplicationAttempt, bySize: boolean): number {
  const magnitude = (attempt: ApplicationAttempt) => {
    const used = attempt.allocated[0] ?? 0;
    if (!bySize) return used;
    let demand = used;
    for (const { requestClass, count } of attempt.asks) {
      demand += count * requestClass.size.resource.memoryMb;
    }
    return used / Math.log2(2 + demand);
  };
  return magnitude(a) - magnitude(b) || compareFifo(a, b);
}
