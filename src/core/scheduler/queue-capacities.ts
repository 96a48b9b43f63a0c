/**
 * What each queue is guaranteed and may have at most of a partition, in resources (facts §3.2).
 * Computed anew for the whole tree after a partition's nodes or the configuration changed.
 */

import type { ResourceTypes } from "./amounts.ts";
import { type Amounts, amountOf, combineAmounts, dominantShare } from "./amounts.ts";
import type { Capacity, PartitionCapacity } from "./configuration.ts";
import type { Partition } from "./partition.ts";
import { ParentQueue, type Queue, type QueueShare } from "./queue.ts";

export type CapacityInputs = {
  readonly types: ResourceTypes;
  readonly minimumAllocation: Amounts;
};

const NONE: PartitionCapacity = {
  capacity: { mode: "percentage", percent: 0 },
  maximumCapacity: { mode: "percentage", percent: 0 },
  maximumAmResourceFraction: 0,
};

/** What is configured for a queue in a partition; nothing where it has no access. */
export function capacityIn(queue: Queue, partition: Partition): PartitionCapacity {
  const { configuration } = queue;
  if (partition.name === "" || queue.parent === undefined) return configuration;
  if (!queue.mayUse(partition)) return NONE;
  return configuration.partitions[partition.name] ?? NONE;
}

export function updateCapacities(
  root: ParentQueue,
  partition: Partition,
  inputs: CapacityInputs,
): void {
  const share = root.share(partition);
  share.absoluteCapacity = 1;
  share.absoluteMaximumCapacity = 1;
  share.exactMinimum = [...partition.total];
  share.maximum = [...partition.total];
  finish(share, inputs);
  updateChildren(root, partition, inputs);
}

function updateChildren(parent: ParentQueue, partition: Partition, inputs: CapacityInputs): void {
  const above = parent.share(partition);
  const scale = absoluteScale(parent, partition, inputs);
  let weights = 0;
  for (const child of parent.children) {
    const { capacity } = capacityIn(child, partition);
    if (capacity.mode === "weight") weights += capacity.weight;
  }
  for (const child of parent.children) {
    const share = child.share(partition);
    const { capacity, maximumCapacity } = capacityIn(child, partition);
    setMinimum(share, above, capacity, weights, scale, inputs);
    setMaximum(share, above, maximumCapacity, inputs);
    finish(share, inputs);
    if (child instanceof ParentQueue) updateChildren(child, partition, inputs);
  }
}

function setMinimum(
  share: QueueShare,
  above: QueueShare,
  capacity: Capacity,
  weights: number,
  scale: Amounts,
  { types }: CapacityInputs,
): void {
  if (capacity.mode === "absolute") {
    share.exactMinimum = combineAmounts(types.amounts(capacity.resource), scale, (a, b) => a * b);
    share.absoluteCapacity = dominantShare(share.exactMinimum, share.partition.total);
    return;
  }
  const fraction = capacity.mode === "weight" ? capacity.weight / weights : capacity.percent / 100;
  share.absoluteCapacity = above.absoluteCapacity * fraction;
  share.exactMinimum = above.exactMinimum.map((amount) => amount * fraction);
}

/** A maximum in resources leaves types that it does not name to the parent's. */
function setMaximum(
  share: QueueShare,
  above: QueueShare,
  maximum: Capacity,
  { types }: CapacityInputs,
): void {
  if (maximum.mode === "absolute") {
    const named = types.amounts(maximum.resource);
    const isNamed = (type: number) =>
      type < 2 || maximum.resource.extra?.[types.names[type] as string] !== undefined;
    share.maximum = above.maximum.map((amount, type) =>
      isNamed(type) ? Math.min(amount, amountOf(named, type)) : amount,
    );
    share.absoluteMaximumCapacity = Math.min(
      above.absoluteMaximumCapacity,
      dominantShare(share.maximum, share.partition.total),
    );
    share.isUnlimited = false;
    return;
  }
  const fraction = maximum.mode === "percentage" ? maximum.percent / 100 : 1;
  share.absoluteMaximumCapacity = above.absoluteMaximumCapacity * fraction;
  share.maximum = above.maximum.map((amount) => Math.floor(amount * fraction + 1e-6));
}

/** When the children's resources are more than the parent has, each gets the same part of its own. */
function absoluteScale(
  parent: ParentQueue,
  partition: Partition,
  { types }: CapacityInputs,
): Amounts {
  const wanted: Amounts = new Array(types.size).fill(0);
  for (const child of parent.children) {
    const { capacity } = capacityIn(child, partition);
    if (capacity.mode !== "absolute") continue;
    for (const [type, amount] of types.amounts(capacity.resource).entries()) {
      wanted[type] = (wanted[type] ?? 0) + amount;
    }
  }
  const { exactMinimum } = parent.share(partition);
  return wanted.map((amount, type) => {
    const there = amountOf(exactMinimum, type);
    return amount > there ? there / amount : 1;
  });
}

function finish(share: QueueShare, { minimumAllocation }: CapacityInputs): void {
  share.minimum = share.exactMinimum.map((amount) => Math.floor(amount + 1e-6));
  share.guarantee = combineAmounts(share.minimum, minimumAllocation, Math.max);
  share.usedCapacity = dominantShare(share.used, share.guarantee);
  share.isUnlimited = share.maximum.every(
    (amount, type) => amount >= amountOf(share.partition.total, type),
  );
}
