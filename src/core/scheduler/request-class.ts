/**
 * A request class is every request of one size in one partition. Which nodes can hold one more is
 * remembered per class, not per request: a change of a node costs one comparison per class, and
 * "nothing fits" is a counter that reads zero (facts/performance-and-reliability.md §A6). A class
 * that nobody asks for costs nothing: it catches up with its partition when it is asked for again.
 */
import { assert } from "../../shared/errors.ts";
import type { Resource } from "../../shared/resource.ts";
import { canonicalResource, type Demand } from "./amounts.ts";
import { NodeSet } from "./node-set.ts";
import type { NodeTable } from "./node-table.ts";
import type { Partition } from "./partition.ts";

/** Every request and container of one resource. */
export class Size {
  /** Of a size with extra types. */
  readonly key: string;
  readonly resource: Resource;
  /** By partition, and in it GUARANTEED before OPPORTUNISTIC. */
  readonly classes: (RequestClass | undefined)[] = [];
  /** Undefined while no node or container has ever had some type of it. */
  demand: Demand | undefined;
  /** Classes and bookings of this size; the size goes with the last of them. */
  references = 0;

  /** Takes a canonical resource. */
  constructor(key: string, resource: Resource) {
    const { memoryMb, vcores, extra } = resource;
    for (const amount of [memoryMb, vcores, ...Object.values(extra ?? {})]) {
      assert(Number.isSafeInteger(amount) && amount >= 0, "amounts are whole numbers, 0 or more");
    }
    this.key = key;
    this.resource = resource;
  }
}

const NO_NODES = new NodeSet(0);

export class RequestClass {
  readonly size: Size;
  readonly partition: Partition;
  readonly isOpportunistic: boolean;
  /** One bit of 32 that stands for this class, and for others, in the masks of queues and asks. */
  readonly bit: number;
  /** Outstanding asks. */
  asks = 0;
  /** Nodes with room for one more, by position, as of the partition's change `#seen`. */
  #feasible = NO_NODES;
  #largeEnough = 0;
  #layout = -1;
  #seen = 0;

  constructor(size: Size, partition: Partition, isOpportunistic: boolean, index: number) {
    this.size = size;
    this.partition = partition;
    this.isOpportunistic = isOpportunistic;
    this.bit = 1 << (index & 31);
  }

  /** Nodes that have room now, as far as `catchUp` and `nodeChanged` have been told. */
  get feasible(): NodeSet {
    return this.#feasible;
  }

  /** Active nodes that could hold one if they were empty. */
  get largeEnough(): number {
    return this.#largeEnough;
  }

  /** Looks at what changed since the last time. */
  catchUp(nodes: NodeTable): NodeSet {
    const { partition } = this;
    const behind = partition.changes - this.#seen;
    if (behind === 0 && this.#layout === partition.layout) return this.#feasible;
    this.size.demand ??= nodes.types.findDemand(this.size.resource);
    const { demand } = this.size;
    if (this.#layout !== partition.layout || behind > partition.changesKept) {
      this.#lookAtAll(nodes, demand);
    } else if (demand) {
      const feasible = this.#feasible;
      const { changes } = partition;
      for (let change = this.#seen; change < changes; change += 1) {
        const slot = partition.changedAt(change);
        const hasRoom = nodes.hasRoom(slot, demand, this.isOpportunistic);
        feasible.assign(partition.positionOf(slot), hasRoom);
      }
    }
    this.#layout = partition.layout;
    this.#seen = partition.changes;
    return this.#feasible;
  }

  /** A container was placed on a node: it may have no room for another. */
  placed(nodes: NodeTable, slot: number, position: number): void {
    this.#seen += 1;
    if (!this.#feasible.has(position)) return;
    const { demand } = this.size;
    if (demand === undefined) return;
    if (!nodes.hasRoom(slot, demand, this.isOpportunistic)) this.#feasible.assign(position, false);
  }

  #lookAtAll(nodes: NodeTable, demand: Demand | undefined): void {
    const { order } = this.partition;
    this.#feasible = new NodeSet(order.length);
    this.#largeEnough = 0;
    if (demand === undefined) return;
    for (let position = 0; position < order.length; position += 1) {
      const slot = order[position] as number;
      if (!nodes.isLargeEnough(slot, demand)) continue;
      this.#largeEnough += 1;
      if (nodes.hasRoom(slot, demand, this.isOpportunistic)) this.#feasible.assign(position, true);
    }
  }
}

/** Sizes and classes, each known once while somebody refers to it. */
export class RequestClasses {
  readonly #nodes: NodeTable;
  readonly #sizes = new Map<string, Size>();
  /** By memory, then by vcores. */
  readonly #plainSizes = new Map<number, Map<number, Size>>();
  #made = 0;

  constructor(nodes: NodeTable) {
    this.#nodes = nodes;
  }

  /** The caller refers to it until `dropSize`. */
  takeSize(resource: Resource): Size {
    if (resource.extra === undefined) return this.#takePlain(resource);
    const canonical = canonicalResource(resource);
    if (canonical.extra === undefined) return this.#takePlain(canonical);
    const key = keyOfResource(canonical);
    let size = this.#sizes.get(key);
    if (size === undefined) {
      size = new Size(key, canonical);
      this.#sizes.set(key, size);
    }
    size.references += 1;
    return size;
  }

  /** Most sizes have no extra types: they are found without making a text of them. */
  #takePlain({ memoryMb, vcores }: Resource): Size {
    let byVcores = this.#plainSizes.get(memoryMb);
    if (byVcores === undefined) {
      byVcores = new Map();
      this.#plainSizes.set(memoryMb, byVcores);
    }
    let size = byVcores.get(vcores);
    if (size === undefined) {
      size = new Size("", { memoryMb, vcores });
      byVcores.set(vcores, size);
    }
    size.references += 1;
    return size;
  }

  dropSize(size: Size): void {
    size.references -= 1;
    if (size.references > 0) return;
    const { memoryMb, vcores, extra } = size.resource;
    if (extra !== undefined) {
      this.#sizes.delete(size.key);
      return;
    }
    const byVcores = this.#plainSizes.get(memoryMb);
    byVcores?.delete(vcores);
    if (byVcores?.size === 0) this.#plainSizes.delete(memoryMb);
  }

  /** An ask of this class begins; `endAsk` when it is over. */
  beginAsk(resource: Resource, partition: Partition, isOpportunistic: boolean): RequestClass {
    const size = this.takeSize(resource);
    const at = classIndex(partition, isOpportunistic);
    let found = size.classes[at];
    if (found === undefined) {
      found = new RequestClass(size, partition, isOpportunistic, this.#made);
      this.#made += 1;
      size.classes[at] = found;
    }
    if (found.asks === 0) partition.asked.push(found);
    found.asks += 1;
    found.catchUp(this.#nodes);
    return found;
  }

  endAsk(requestClass: RequestClass): void {
    const { partition, size } = requestClass;
    requestClass.asks -= 1;
    if (requestClass.asks === 0) {
      partition.asked.splice(partition.asked.indexOf(requestClass), 1);
    }
    this.dropSize(size);
  }
}

function classIndex({ id }: Partition, isOpportunistic: boolean): number {
  return 2 * id + Number(isOpportunistic);
}

/** Takes a canonical resource. */
function keyOfResource(resource: Resource): string {
  const extra = Object.entries(resource.extra ?? {}).map(([name, amount]) => `,${name}=${amount}`);
  return `${resource.memoryMb},${resource.vcores}${extra.join("")}`;
}
