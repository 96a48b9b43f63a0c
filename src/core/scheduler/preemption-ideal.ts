/**
 * Preemption, first half: who should have how much (facts/yarn-rm-nm-scheduler.md §3.15, YARN's
 * ProportionalCapacityPreemptionPolicy). From the root down, each level's queues first get what they
 * use of their guarantees; what is left is dealt out to those who ask, the most under-served first.
 * A queue that has more than that, while others are short of it, is asked for the difference.
 *
 * Every sum is taken type by type, where YARN compares dominant shares: memory is never taken from a
 * queue because somebody else lacks vcores.
 */
import type { ResourceTypes } from "./amounts.ts";
import type { PreemptionConfiguration } from "./configuration.ts";
import { placeIn } from "./outstanding-ask.ts";
import type {
  PreemptionLeaf,
  PreemptionPartition,
  PreemptionQueue,
} from "./preemption-snapshot.ts";
import {
  amount,
  dominantRatio,
  isSome,
  least,
  meets,
  most,
  NONE,
  plus,
  type ResourceVector,
  sum,
  times,
  wholeUnits,
  without,
} from "./resource-vector.ts";

/** What one queue of the snapshot should have. */
export type QueueShare = {
  readonly queue: PreemptionQueue;
  readonly leaf: PreemptionLeaf | undefined;
  readonly children: readonly QueueShare[];
  readonly guaranteed: ResourceVector;
  readonly maximum: ResourceVector;
  readonly used: ResourceVector;
  readonly pending: ResourceVector;
  /** Above the guarantee, and of queues that may not be preempted: they keep it. */
  readonly untouchable: ResourceVector;
  /** Above the guarantee, and of queues that may be. */
  readonly preemptable: ResourceVector;
  ideal: ResourceVector;
  /** To take from it until it has no more than it should, within the round's total. */
  toPreempt: ResourceVector;
};

/** The tree of shares, with `ideal` and `toPreempt` filled in. */
export function idealShares(
  partition: PreemptionPartition,
  types: ResourceTypes,
  allowed: ResourceVector,
): QueueShare {
  const root = shareOf(partition.root, types);
  root.ideal = root.guaranteed;
  assignBelow(root, allowed);
  return root;
}

export type LeafShare = QueueShare & { readonly leaf: PreemptionLeaf };

export function leavesOf(share: QueueShare): readonly LeafShare[] {
  return isLeaf(share) ? [share] : share.children.flatMap(leavesOf);
}

function isLeaf(share: QueueShare): share is LeafShare {
  return share.leaf !== undefined;
}

/**
 * What to take from a leaf in this round: nothing within the dead zone above its guarantee, and
 * otherwise only a part, since containers also end by themselves.
 */
export function toObtain(
  share: QueueShare,
  configuration: PreemptionConfiguration,
): ResourceVector {
  const ignored = times(share.guaranteed, 1 + configuration.maxIgnoredOverCapacity);
  const outside = share.toPreempt.map((value, type) =>
    amount(share.used, type) > amount(ignored, type) ? value : 0,
  );
  return wholeUnits(times(outside, configuration.naturalTerminationFactor));
}

function shareOf(queue: PreemptionQueue, types: ResourceTypes): QueueShare {
  const children = queue.children.map((child) => shareOf(child, types));
  const used = types.amounts(queue.used);
  const guaranteed = types.amounts(queue.guaranteed);
  const extra = without(used, guaranteed);
  const { leaf } = queue;
  const ofChildren = sum(children.map(({ preemptable }) => preemptable));
  const offered = leaf ? (leaf.preemptionDisabled ? NONE : extra) : ofChildren;
  const preemptable = least(offered, extra);
  return {
    queue,
    leaf,
    children,
    guaranteed,
    maximum: types.amounts(queue.maximum),
    used,
    pending: leaf ? types.amounts(leaf.pending) : sum(children.map(({ pending }) => pending)),
    untouchable: without(extra, preemptable),
    preemptable,
    ideal: NONE,
    toPreempt: NONE,
  };
}

function assignBelow({ children, ideal }: QueueShare, allowed: ResourceVector): void {
  if (children.length === 0) return;
  dealOut(ideal, children);
  const wanted = children.map((child) => without(child.used, child.ideal));
  const scales = sum(wanted).map((value, type) =>
    value > 0 ? Math.min(1, amount(allowed, type) / value) : 0,
  );
  for (const [index, child] of children.entries()) {
    child.toPreempt = (wanted[index] ?? NONE).map((value, type) => value * amount(scales, type));
    assignBelow(child, allowed);
  }
}

/** Queues without any guarantee come after all others. */
function dealOut(total: ResourceVector, shares: readonly QueueShare[]): void {
  let unassigned = total;
  for (const share of shares) {
    share.ideal = plus(least(share.used, share.guaranteed), share.untouchable);
    unassigned = without(unassigned, share.ideal);
  }
  const guaranteed = shares.filter((share) => isSome(share.guaranteed));
  unassigned = deal(unassigned, guaranteed);
  deal(
    unassigned,
    shares.filter((share) => !isSome(share.guaranteed)),
  );
}

/**
 * Deals in rounds, each to the most under-served, until nothing is left or nobody wants it. The rest
 * is the answer.
 */
function deal(total: ResourceVector, shares: readonly QueueShare[]): ResourceVector {
  let unassigned = total;
  const hungry = sortedByNeed(shares, unassigned);
  let first = 0;
  while (first < hungry.length && isSome(unassigned)) {
    const end = endOfGroup(hungry, first);
    const group = hungry.slice(first, end);
    const left = dealTo(group, hungry, unassigned);
    if (!isSome(without(unassigned, left))) {
      // What is left is of no use to them; it may be to those who are better served.
      first = end;
      continue;
    }
    unassigned = left;
    putBack(group, hungry, first, unassigned);
    first = 0;
  }
  return unassigned;
}

/** Equally served queues from `first` on: where they end. */
function endOfGroup(hungry: readonly Need[], first: number): number {
  const need = hungry[first] as Need;
  let end = first + 1;
  while (end < hungry.length && compareNeed(need, hungry[end] as Need) === 0) end += 1;
  return end;
}

/** Each goes to its new place in the order, or away when it has enough. */
function putBack(
  group: readonly Need[],
  hungry: Need[],
  first: number,
  unassigned: ResourceVector,
): void {
  hungry.splice(first, group.length);
  for (const { share } of group) {
    if (!isHungry(share, unassigned)) continue;
    const need = needOf(share);
    const { index } = placeIn(hungry, (other) => compareNeed(other, need));
    hungry.splice(index, 0, need);
  }
}

/** One round for equally served queues, each by its guarantee's weight among all the hungry. */
function dealTo(
  group: readonly Need[],
  hungry: readonly Need[],
  unassigned: ResourceVector,
): ResourceVector {
  const weights = unassigned.map((_, type) =>
    hungry.reduce((weight, { share }) => weight + amount(share.guaranteed, type), 0),
  );
  let left = unassigned;
  for (const { share } of group) {
    const offer = unassigned.map((value, type) => {
      const weight = amount(weights, type);
      return weight > 0 ? (value * amount(share.guaranteed, type)) / weight : value / hungry.length;
    });
    const accepted = least(least(wholeUnits(offer), left), wish(share));
    share.ideal = plus(share.ideal, accepted);
    left = without(left, accepted);
  }
  return left;
}

function isHungry(share: QueueShare, unassigned: ResourceVector): boolean {
  return meets(wish(share), unassigned);
}

/** What it would still take. A leaf above its guarantee may keep what it has, not win more. */
function wish({ leaf, ideal, used, pending, guaranteed, maximum }: QueueShare): ResourceVector {
  const demand = least(plus(used, pending), maximum);
  return without(leaf ? least(demand, most(used, guaranteed)) : demand, ideal);
}

type Need = { readonly share: QueueShare; readonly served: number };

function needOf(share: QueueShare): Need {
  return { share, served: dominantRatio(share.ideal, share.guaranteed) };
}

/** Those who want something of what is left, the most under-served first. */
function sortedByNeed(shares: readonly QueueShare[], unassigned: ResourceVector): Need[] {
  const hungry = shares.filter((share) => isHungry(share, unassigned));
  return hungry.map(needOf).sort(compareNeed);
}

/** As YARN's priority-utilization: priority decides among those on one side of their guarantee. */
function compareNeed(a: Need, b: Need): number {
  const byPriority = b.share.queue.priority - a.share.queue.priority;
  const isSameSide = a.served < 1 === b.served < 1;
  if (byPriority !== 0 && isSameSide) return byPriority;
  return a.served === b.served ? 0 : a.served - b.served;
}
