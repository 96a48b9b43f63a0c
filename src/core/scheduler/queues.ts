/**
 * The tree of queues at run time: made from the configuration, with the leaves that templates make,
 * and brought up to date with what the partitions have.
 */
import { assert, fail, ok, type Reply } from "../../shared/errors.ts";
import type { Amounts } from "./amounts.ts";
import {
  defaultQueue,
  type QueueConfiguration,
  type SchedulerConfiguration,
} from "./configuration.ts";
import { LeafQueue } from "./leaf-queue.ts";
import type { NodeTable } from "./node-table.ts";
import type { Partition } from "./partition.ts";
import { ParentQueue, type Queue } from "./queue.ts";
import { updateCapacities } from "./queue-capacities.ts";
import { QueueLookup } from "./queue-lookup.ts";
import { parentQueue, queueName } from "./queue-name.ts";

/** Leaves named to somebody who named none of them. */
const PATHS_SHOWN_MAX = 10;

export class Queues {
  readonly root: ParentQueue;
  readonly minimumAllocation: Amounts;
  readonly #nodes: NodeTable;
  readonly #lookup: QueueLookup;
  readonly #byPath = new Map<string, Queue>();
  #dynamicLeaves = 0;
  /** The layout of each partition for which capacities were computed. */
  readonly #layouts: number[] = [];

  constructor(configuration: SchedulerConfiguration, nodes: NodeTable) {
    const { memoryMb, vcores } = configuration.minimumAllocation;
    assert(memoryMb >= 1 && vcores >= 1, "the minimum allocation is at least 1");
    this.#nodes = nodes;
    this.minimumAllocation = [memoryMb, vcores];
    this.#lookup = new QueueLookup(configuration.root);
    const root = this.#make(configuration.root, undefined);
    assert(root instanceof ParentQueue, "root has queues");
    this.root = root;
  }

  find(path: string): Queue | undefined {
    return this.#byPath.get(path);
  }

  findLeaf(path: string): LeafQueue | undefined {
    const queue = this.#byPath.get(path);
    return queue instanceof LeafQueue ? queue : undefined;
  }

  leaves(): Generator<LeafQueue> {
    return this.root.leaves();
  }

  /** Full path of a leaf, also of one that a template can make. */
  resolve(name: string): Reply<string> {
    const found = this.#lookup.find(name, "leaf");
    if (found.kind === "leaf" || found.kind === "template") return ok(found.path);
    const paths = [...this.root.leaves()].map((leaf) => leaf.path);
    const hint = `its leaf queues: ${paths.slice(0, PATHS_SHOWN_MAX).join(", ")}`;
    return fail("INVALID_ARGUMENT", this.#lookup.check(name, "leaf") ?? `no queue ${name}`, {
      hint: paths.length > PATHS_SHOWN_MAX ? `${hint}, …` : hint,
    });
  }

  /**
   * The leaf at a path. One that a template can make is made. One that is not configured any more,
   * though an application of it is still there, comes back without a share, and stopped.
   */
  leafFor(path: string): LeafQueue {
    const known = this.findLeaf(path);
    if (known) return known;
    const parent = this.#nearestParent(path);
    const template = parent.path === parentQueue(path) ? parent.configuration.template : undefined;
    const lost: QueueConfiguration = {
      ...defaultQueue(path),
      capacity: { mode: "percentage", percent: 0 },
      state: "STOPPED",
    };
    const configuration: QueueConfiguration = template
      ? { ...template.leaf, path, name: queueName(path), children: [], template: undefined }
      : lost;
    const leaf = this.#makeLeaf(configuration, parent, true);
    parent.children.push(leaf);
    this.#dynamicLeaves += 1;
    this.#layouts.length = 0;
    return leaf;
  }

  /** Dynamic leaves that a parent has; a template makes no more than its `maxQueues`. */
  dynamicLeavesOf(parentPath: string): number {
    const parent = this.#byPath.get(parentPath);
    if (!(parent instanceof ParentQueue)) return 0;
    return parent.children.reduce((count, child) => count + Number(child.isDynamic), 0);
  }

  /** Takes away dynamic leaves that have been empty for as long as their template says. */
  removeExpired(nowMs: number): void {
    if (this.#dynamicLeaves === 0) return;
    for (const leaf of [...this.leaves()]) {
      const expiresMs = expiryMs(leaf, nowMs);
      if (expiresMs === undefined || expiresMs > nowMs) continue;
      const { parent } = leaf;
      parent?.children.splice(parent.children.indexOf(leaf), 1);
      this.#byPath.delete(leaf.path);
      this.#dynamicLeaves -= 1;
      this.#layouts.length = 0;
    }
  }

  partitionOf(leaf: LeafQueue, nodeLabel: string | undefined): Partition {
    return nodeLabel === undefined ? leaf.defaultPartition : this.#nodes.partition(nodeLabel);
  }

  /** Computes capacities for partitions whose nodes have changed. */
  settle(): void {
    for (const partition of this.#nodes.partitions) {
      if (this.#layouts[partition.id] === partition.layout) continue;
      this.#layouts[partition.id] = partition.layout;
      const { minimumAllocation } = this;
      updateCapacities(this.root, partition, { types: this.#nodes.types, minimumAllocation });
      for (const leaf of this.leaves()) leaf.capacitiesChanged(partition);
    }
  }

  #nearestParent(path: string): ParentQueue {
    for (let above = parentQueue(path); above !== ""; above = parentQueue(above)) {
      const queue = this.#byPath.get(above);
      if (queue instanceof ParentQueue) return queue;
    }
    return this.root;
  }

  #make(configuration: QueueConfiguration, parent: ParentQueue | undefined): Queue {
    const isParent = configuration.children.length > 0 || configuration.template !== undefined;
    if (!isParent) return this.#makeLeaf(configuration, parent, false);
    const queue = new ParentQueue(configuration, parent, false);
    this.#byPath.set(configuration.path, queue);
    queue.children = configuration.children.map((child) => this.#make(child, queue));
    return queue;
  }

  #makeLeaf(
    configuration: QueueConfiguration,
    parent: ParentQueue | undefined,
    isDynamic: boolean,
  ): LeafQueue {
    const partition = this.#nodes.partition(configuration.defaultNodeLabel);
    const leaf = new LeafQueue(configuration, parent, isDynamic, partition, this.minimumAllocation);
    this.#byPath.set(configuration.path, leaf);
    return leaf;
  }
}

/** When an empty dynamic leaf goes; counts from the first time that it was seen empty. */
function expiryMs(leaf: LeafQueue, nowMs: number): number | undefined {
  const isEmpty = leaf.applications === 0 && leaf.containers === 0;
  if (!leaf.isDynamic || !isEmpty) {
    leaf.emptySinceMs = undefined;
    return undefined;
  }
  leaf.emptySinceMs ??= nowMs;
  const seconds = leaf.parent?.configuration.template?.expirySeconds ?? 0;
  return leaf.emptySinceMs + 1_000 * seconds;
}
