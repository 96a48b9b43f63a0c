/**
 * A request class is every request of one size. Which nodes can hold a size is remembered per class,
 * not per request: a change of a node costs one comparison per class, and "nothing fits" is a
 * counter that reads zero (facts/performance-and-reliability.md §A6). A class that nobody asks for
 * costs nothing: it catches up with the node table when it is asked for again.
 */
import { assert } from "../../shared/errors.ts";
import type { Resource } from "../../shared/resource.ts";
import type { Need, NodeTable } from "./node-table.ts";

export class RequestClass {
  readonly key: string;
  readonly resource: Resource;
  /** Undefined while no registered node has ever had some type of it. */
  needs: readonly Need[] | undefined;
  /** Outstanding asks of this size. */
  asks = 0;
  /** Asks and containers of this size; the class goes with the last of them. */
  references = 0;
  /** Positions of the nodes with room for one more, as of the node table's change `#seen`. */
  #feasible = new NodeSet(0);
  #layout = -1;
  #seen = 0;

  constructor(key: string, resource: Resource) {
    const { memoryMb, vcores, extra } = resource;
    for (const amount of [memoryMb, vcores, ...Object.values(extra ?? {})]) {
      assert(Number.isSafeInteger(amount) && amount >= 0, "amounts are whole numbers, 0 or more");
    }
    this.key = key;
    this.resource = resource;
  }

  /** Positions of the nodes with room for one more, now. */
  feasibleIn(nodes: NodeTable): NodeSet {
    const { layout, order, changes } = nodes;
    const behind = changes - this.#seen;
    if (behind === 0 && this.#layout === layout) return this.#feasible;
    this.needs ??= nodes.findNeeds(this.resource);
    const { needs } = this;
    if (this.#layout !== layout || behind > nodes.changesKept) {
      this.#feasible = new NodeSet(order.length);
      for (let position = 0; needs && position < order.length; position += 1) {
        const slot = order[position] as number;
        if (nodes.hasRoom(slot, needs)) this.#feasible.assign(position, true);
      }
    } else {
      for (let change = this.#seen; needs && change < changes; change += 1) {
        const slot = nodes.changedAt(change);
        if (!nodes.isRegistered(slot)) continue;
        this.#feasible.assign(nodes.positionOf(slot), nodes.hasRoom(slot, needs));
      }
    }
    this.#layout = layout;
    this.#seen = changes;
    return this.#feasible;
  }
}

/** A set of node positions: one bit for each, and one bit for each word of 32 that is not empty. */
export class NodeSet {
  readonly #words: Int32Array;
  readonly #summary: Int32Array;
  #size = 0;

  /** For positions 0 to `capacity` - 1. */
  constructor(capacity: number) {
    this.#words = new Int32Array(Math.ceil(capacity / 32));
    this.#summary = new Int32Array(Math.ceil(capacity / 1024));
  }

  get size(): number {
    return this.#size;
  }

  assign(position: number, isMember: boolean): void {
    const index = position >> 5;
    const before = this.#words[index] as number;
    const bit = 1 << (position & 31);
    if (((before & bit) !== 0) === isMember) return;
    const after = before ^ bit;
    this.#words[index] = after;
    this.#size += isMember ? 1 : -1;
    if (before !== 0 && after !== 0) return;
    this.#summary[index >> 5] = (this.#summary[index >> 5] as number) ^ (1 << (index & 31));
  }

  /** The first member at or after `position`, going on from 0 after the last. Not when empty. */
  next(position: number): number {
    const index = position >> 5;
    const here = this.#rest(this.#words, index, position & 31);
    if (here !== 0) return index * 32 + lowestBit(here);
    let block = (index + 1) >> 5;
    let words = this.#rest(this.#summary, block, (index + 1) & 31);
    while (words === 0) {
      block = block + 1 < this.#summary.length ? block + 1 : 0;
      words = this.#summary[block] as number;
    }
    const found = block * 32 + lowestBit(words);
    return found * 32 + lowestBit(this.#words[found] as number);
  }

  /** The bits of one word from `bit` upwards; none beyond the last word. */
  #rest(words: Int32Array, index: number, bit: number): number {
    return index < words.length ? (words[index] as number) & (-1 << bit) : 0;
  }
}

function lowestBit(word: number): number {
  return 31 - Math.clz32(word & -word);
}

/** One form for equal resources: extra types in the order of their names, none that is zero. */
export function canonicalResource(resource: Resource): Resource {
  const { memoryMb, vcores } = resource;
  const extra = Object.entries(resource.extra ?? {}).filter(([, amount]) => amount > 0);
  if (extra.length === 0) return { memoryMb, vcores };
  extra.sort(([a], [b]) => (a < b ? -1 : 1));
  return { memoryMb, vcores, extra: Object.fromEntries(extra) };
}

/** Takes a canonical resource. */
export function keyOfResource(resource: Resource): string {
  const extra = Object.entries(resource.extra ?? {}).map(([name, amount]) => `,${name}=${amount}`);
  return `${resource.memoryMb},${resource.vcores}${extra.join("")}`;
}
