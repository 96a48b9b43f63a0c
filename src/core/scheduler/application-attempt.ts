/**
 * What the scheduler keeps of one application attempt: what it still asks for, and what it has.
 * Containers outlive the application's registration here, until each of them is released.
 */
import type { ApplicationAttemptId } from "../../shared/ids.ts";
import type { Amounts, Demand } from "./amounts.ts";
import { addDemand } from "./amounts.ts";
import type { BookingKind, Prefix } from "./bookings.ts";
import type { LeafQueue, User } from "./leaf-queue.ts";
import type { OutstandingAsk } from "./outstanding-ask.ts";
import type { RequestClass } from "./request-class.ts";
import type { Reservation } from "./reservations.ts";

/** Nodes up to which an application's containers are counted node by node, to spread them. */
const COUNTED_NODES_MAX = 512;

/**
 * `parallel` and `master` wait: for `max-parallel-apps`, and for the queue's share of
 * ApplicationMasters. Only an `active` one gets containers.
 */
export type Activation = "parallel" | "master" | "active";

export class ApplicationAttempt {
  readonly attemptId: ApplicationAttemptId;
  /** Spreads the choices of different applications over different nodes. */
  readonly seed: number;
  /** Added, and not removed since; otherwise it is known by its containers only. */
  isAdded = false;
  /** Kept after its end, while its containers count there. */
  leaf: LeafQueue | undefined;
  user: User | undefined;
  order = 0;
  priority = 0;
  master: Amounts = [0, 0];
  activation: Activation = "parallel";
  /** By priority, the smaller number first, then by allocationRequestId (facts §3.6). */
  asks: OutstandingAsk[] = [];
  /** Bits of the classes that it asks for, by partition. */
  readonly masks: number[] = [];
  blacklist: ReadonlySet<string> = NO_NAMES;
  reservation: Reservation | undefined;
  /** When its last reservation lapsed: epoch ms, and how many containers had ended by then. */
  lapsed: { readonly atMs: number; readonly releases: number } | undefined;
  containers = 0;
  readonly allocated: Amounts = [0, 0];
  /** Of the id of the last container that was booked. */
  lastPrefix: Prefix | undefined;
  /** Kinds of which it has, or had a moment ago, containers. */
  kinds: BookingKind[] = [];
  /**
   * Containers by slot. Undefined once they were on more nodes than are counted: an application so
   * large is spread well enough by drawing nodes at random.
   */
  #containersBySlot: Map<number, number> | undefined = new Map();

  constructor(attemptId: ApplicationAttemptId) {
    this.attemptId = attemptId;
    this.seed = hash(attemptId);
  }

  /** Its containers on a node, as far as they are counted. */
  containersOn(slot: number): number {
    return this.#containersBySlot?.get(slot) ?? 0;
  }

  take(slot: number, demand: Demand): void {
    this.containers += 1;
    addDemand(this.allocated, demand, 1);
    if (this.#containersBySlot === undefined) return;
    this.#containersBySlot.set(slot, (this.#containersBySlot.get(slot) ?? 0) + 1);
    if (this.#containersBySlot.size > COUNTED_NODES_MAX) this.#containersBySlot = undefined;
  }

  giveBack(slot: number, demand: Demand): void {
    this.containers -= 1;
    addDemand(this.allocated, demand, -1);
    if (this.#containersBySlot === undefined) return;
    const left = (this.#containersBySlot.get(slot) ?? 0) - 1;
    if (left > 0) this.#containersBySlot.set(slot, left);
    else this.#containersBySlot.delete(slot);
  }

  /** After an ask of the class has ended. Other asks may have the same bit. */
  dropFromMask({ partition, bit }: RequestClass): void {
    for (let index = 0; index < this.asks.length; index += 1) {
      const other = (this.asks[index] as OutstandingAsk).requestClass;
      if (other.bit === bit && other.partition === partition) return;
    }
    this.masks[partition.id] = (this.masks[partition.id] ?? 0) & ~bit;
  }

  addToMask({ partition, bit }: RequestClass): void {
    while (this.masks.length <= partition.id) this.masks.push(0);
    this.masks[partition.id] = (this.masks[partition.id] as number) | bit;
  }
}

const NO_NAMES: ReadonlySet<string> = new Set();

/** FNV-1a. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) {
    value = Math.imul(value ^ text.charCodeAt(index), 0x01000193);
  }
  return value;
}
