/**
 * Queues at run time. What a queue has and may have in one partition is a `QueueShare`; shares form
 * a tree of their own, so that a container is charged to its leaf and to every parent above in one
 * walk that allocates nothing.
 */
import type { QueueState } from "../../shared/queue.ts";
import { type Amounts, addDemand, type Demand, dominantShare } from "./amounts.ts";
import type { QueueConfiguration } from "./configuration.ts";
import type { LeafQueue } from "./leaf-queue.ts";
import type { Partition } from "./partition.ts";

/** What one queue has and may have in one partition. */
export class QueueShare {
  readonly queue: Queue;
  readonly partition: Partition;
  readonly parent: QueueShare | undefined;
  /** Shares of the whole partition, 0 to 1. */
  absoluteCapacity = 0;
  absoluteMaximumCapacity = 0;
  /** effectiveMin before it is rounded. */
  exactMinimum: Amounts = [0, 0];
  /** effectiveMin and effectiveMax of YARN. */
  minimum: Amounts = [0, 0];
  maximum: Amounts = [0, 0];
  /** All of the partition may be used, so that only nodes limit the queue. */
  isUnlimited = false;
  /** max(effectiveMin, minimum allocation), of which `usedCapacity` is a part. */
  guarantee: Amounts = [0, 0];
  /** GUARANTEED containers and reservations. */
  readonly used: Amounts = [0, 0];
  readonly reserved: Amounts = [0, 0];
  /** Used / guaranteed by the dominant resource. */
  usedCapacity = 0;
  /** Bits of the classes that are asked for below; and how many asks there are for each bit. */
  mask = 0;
  readonly #asksByBit = new Int32Array(32);
  /** Of the pass in which it was last looked at: see allocation-pass.ts. */
  pass = 0;
  readonly candidates: QueueShare[] = [];
  /** What more deserving queues below wait for in this pass, and nobody else may take. */
  blocked: Amounts | undefined;

  constructor(queue: Queue, partition: Partition, parent: QueueShare | undefined) {
    this.queue = queue;
    this.partition = partition;
    this.parent = parent;
  }

  /** Charges `times` the demand to the queue and all above it. */
  charge(demand: Demand, times: number): void {
    for (let share: QueueShare | undefined = this; share; share = share.parent) {
      addDemand(share.used, demand, times);
      share.usedCapacity = dominantShare(share.used, share.guarantee);
    }
  }

  chargeReserved(demand: Demand, times: number): void {
    this.charge(demand, times);
    for (let share: QueueShare | undefined = this; share; share = share.parent) {
      addDemand(share.reserved, demand, times);
    }
  }

  /** An ask of the class with this bit begins (1) or ends (-1). */
  countAsk(bit: number, times: 1 | -1): void {
    const index = 31 - Math.clz32(bit);
    for (let share: QueueShare | undefined = this; share; share = share.parent) {
      const asks = (share.#asksByBit[index] as number) + times;
      share.#asksByBit[index] = asks;
      share.mask = asks > 0 ? share.mask | bit : share.mask & ~bit;
    }
  }

  /**
   * The queue, from here upwards, that would be over its maximum with one more, or undefined. What
   * more deserving queues wait for counts as used.
   */
  limitedBy(demand: Demand): QueueShare | undefined {
    for (let share: QueueShare | undefined = this; share; share = share.parent) {
      if (!share.isUnlimited && !share.#hasHeadroom(demand)) return share;
    }
    return undefined;
  }

  /** What may still be taken of one type, here and above; infinite where only nodes limit. */
  headroom(type: number): number {
    let least = Number.POSITIVE_INFINITY;
    for (let share: QueueShare | undefined = this; share; share = share.parent) {
      if (share.isUnlimited) continue;
      const left =
        (share.maximum[type] ?? 0) - (share.used[type] ?? 0) - (share.blocked?.[type] ?? 0);
      least = Math.min(least, left);
    }
    return least;
  }

  #hasHeadroom({ types, amounts }: Demand): boolean {
    const { maximum, used, blocked } = this;
    for (let index = 0; index < types.length; index += 1) {
      const type = types[index] as number;
      const kept = blocked === undefined ? 0 : (blocked[type] ?? 0);
      const after = (used[type] ?? 0) + kept + (amounts[index] as number);
      if (after > (maximum[type] ?? 0)) return false;
    }
    return true;
  }
}

export abstract class Queue {
  readonly configuration: QueueConfiguration;
  readonly parent: ParentQueue | undefined;
  readonly isDynamic: boolean;
  /** By partition; made when first needed. */
  readonly #shares: QueueShare[] = [];
  /** In the queue or below it. */
  applications = 0;
  /** Those of them that do not wait for max-parallel-apps. */
  parallelApplications = 0;
  containers = 0;
  reservedContainers = 0;

  constructor(
    configuration: QueueConfiguration,
    parent: ParentQueue | undefined,
    isDynamic: boolean,
  ) {
    this.configuration = configuration;
    this.parent = parent;
    this.isDynamic = isDynamic;
  }

  get path(): string {
    return this.configuration.path;
  }

  /** A queue stops with its parent, and drains while it has applications. */
  get state(): QueueState {
    for (let queue: Queue | undefined = this; queue; queue = queue.parent) {
      if (queue.configuration.state === "STOPPED") {
        return this.applications > 0 ? "DRAINING" : "STOPPED";
      }
    }
    return "RUNNING";
  }

  share(partition: Partition): QueueShare {
    const known = this.#shares[partition.id];
    if (known) return known;
    const share = new QueueShare(this, partition, this.parent?.share(partition));
    this.#shares[partition.id] = share;
    return share;
  }

  mayUse(partition: Partition): boolean {
    const { accessibleNodeLabels: labels } = this.configuration;
    return partition.name === "" || labels === "*" || labels.includes(partition.name);
  }

  /** The queue and all above it. */
  *lineage(): Generator<Queue> {
    for (let queue: Queue | undefined = this; queue; queue = queue.parent) yield queue;
  }

  countContainers(number: number): void {
    for (let queue: Queue | undefined = this; queue; queue = queue.parent) {
      queue.containers += number;
    }
  }

  abstract leaves(): Generator<LeafQueue>;
}

export class ParentQueue extends Queue {
  children: Queue[] = [];

  *leaves(): Generator<LeafQueue> {
    for (const child of this.children) yield* child.leaves();
  }
}

/**
 * Which of two queues of one parent is more deserving: below 0 for the first (facts §3.6). Those
 * with a share of the partition come first, then the less used, then the larger.
 */
export function compareShares(a: QueueShare, b: QueueShare, byPriority: boolean): number {
  const hasShare = Number(b.absoluteCapacity > 0) - Number(a.absoluteCapacity > 0);
  if (hasShare !== 0) return hasShare;
  if (byPriority) {
    const satisfied = Number(a.usedCapacity >= 1) - Number(b.usedCapacity >= 1);
    if (satisfied !== 0) return satisfied;
    const priority = b.queue.configuration.priority - a.queue.configuration.priority;
    if (priority !== 0) return priority;
  }
  return (
    a.usedCapacity - b.usedCapacity ||
    b.absoluteCapacity - a.absoluteCapacity ||
    (a.queue.path < b.queue.path ? -1 : 1)
  );
}
