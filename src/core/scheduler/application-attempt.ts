/**
 * What the scheduler keeps of one application attempt: what it still asks for, and what it has.
 * Containers outlive the application's registration here, until each of them is released.
 */
import type { ApplicationAttemptId } from "../../shared/ids.ts";
import type { Resource } from "../../shared/resource.ts";
import { canonicalResource, type RequestClass } from "./request-class.ts";

/** One scheduler key of YARN: (priority, allocationRequestId). */
export type OutstandingAsk = {
  readonly priority: number;
  readonly allocationRequestId: number;
  readonly requestClass: RequestClass;
  /** Above 0 but for the moment in which the last one is placed. */
  count: number;
};

export class ApplicationAttempt {
  readonly attemptId: ApplicationAttemptId;
  /** Spreads the choices of different applications over different nodes. */
  readonly seed: number;
  /** Undefined: known only by its containers. */
  order: number | undefined;
  /** By priority, the smaller number first, then by allocationRequestId (facts §3.6). */
  asks: OutstandingAsk[] = [];
  /** Containers by slot of the node table. */
  readonly containersBySlot = new Map<number, number>();
  containers = 0;
  #memoryMb = 0;
  #vcores = 0;
  readonly #extra = new Map<string, number>();

  constructor(attemptId: ApplicationAttemptId) {
    this.attemptId = attemptId;
    this.seed = hash(attemptId);
  }

  take(slot: number, resource: Resource): void {
    this.containersBySlot.set(slot, (this.containersBySlot.get(slot) ?? 0) + 1);
    this.#add(resource, 1);
  }

  giveBack(slot: number, resource: Resource): void {
    const left = (this.containersBySlot.get(slot) ?? 0) - 1;
    if (left > 0) this.containersBySlot.set(slot, left);
    else this.containersBySlot.delete(slot);
    this.#add(resource, -1);
  }

  get allocated(): Resource {
    const extra = Object.fromEntries(this.#extra);
    return canonicalResource({ memoryMb: this.#memoryMb, vcores: this.#vcores, extra });
  }

  /** In place, since it runs for every container. */
  #add(resource: Resource, sign: 1 | -1): void {
    this.containers += sign;
    this.#memoryMb += sign * resource.memoryMb;
    this.#vcores += sign * resource.vcores;
    if (resource.extra === undefined) return;
    for (const [name, amount] of Object.entries(resource.extra)) {
      this.#extra.set(name, (this.#extra.get(name) ?? 0) + sign * amount);
    }
  }
}

/** Where `item` stands, or belongs, in a list sorted by `compare`. */
export function placeIn<Item>(
  items: readonly Item[],
  compare: (item: Item) => number,
): { readonly index: number; readonly found: Item | undefined } {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (compare(items[middle] as Item) < 0) low = middle + 1;
    else high = middle;
  }
  const item = items[low];
  return { index: low, found: item !== undefined && compare(item) === 0 ? item : undefined };
}

/** FNV-1a. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    value = Math.imul(value ^ text.charCodeAt(index), 0x01000193);
  }
  return value;
}
