/**
 * A partition: the nodes of one label, or, in the default partition "", those without. Every
 * placement is made in one partition.
 *
 * Its nodes have positions, in the order of their ids. Choices are made by position, so that they
 * follow from which nodes there are and not from how they came and went.
 */
import type { NodeId } from "../../shared/ids.ts";
import { type Amounts, addAmounts } from "./amounts.ts";
import type { RequestClass } from "./request-class.ts";

/** Changes remembered; with more, looking at every node of a class anew is cheaper. A power of two. */
const CHANGES_KEPT = 4_096;

export class Partition {
  readonly id: number;
  readonly name: string;
  /** Non-exclusive: its idle nodes serve requests of the default partition too, last. */
  isExclusive = true;
  /** What its active nodes have. */
  readonly total: Amounts = [0, 0];
  /** Classes that somebody asks for. */
  readonly asked: RequestClass[] = [];
  readonly #idOf: (slot: number) => NodeId;
  readonly #members = new Set<number>();
  #order: number[] = [];
  #positions = new Int32Array(0);
  #isSettled = true;
  #layout = 0;
  /** The slots that changed last: a ring. */
  readonly #changed = new Int32Array(CHANGES_KEPT);
  #changes = 0;

  constructor(id: number, name: string, idOf: (slot: number) => NodeId) {
    this.id = id;
    this.name = name;
    this.#idOf = idOf;
  }

  /** Active nodes. */
  get size(): number {
    return this.#members.size;
  }

  /** Slots of the active nodes by position. */
  get order(): readonly number[] {
    if (!this.#isSettled) this.#settle();
    return this.#order;
  }

  /** Another number after nodes came, went or changed: what is known by position is void. */
  get layout(): number {
    return this.#layout;
  }

  /** How many changes there have been of what is free on some node. */
  get changes(): number {
    return this.#changes;
  }

  get changesKept(): number {
    return CHANGES_KEPT;
  }

  /** The slot of the given change: one of the last `changesKept`. */
  changedAt(change: number): number {
    return this.#changed[change & (CHANGES_KEPT - 1)] as number;
  }

  has(slot: number): boolean {
    return this.#members.has(slot);
  }

  /** Of a node of this partition. */
  positionOf(slot: number): number {
    return this.#positions[slot] as number;
  }

  noteChange(slot: number): void {
    this.#changed[this.#changes & (CHANGES_KEPT - 1)] = slot;
    this.#changes += 1;
  }

  join(slot: number, totals: Amounts): void {
    this.#members.add(slot);
    addAmounts(this.total, totals, 1);
    this.#isSettled = false;
    this.#layout += 1;
  }

  leave(slot: number, totals: Amounts): void {
    this.#members.delete(slot);
    addAmounts(this.total, totals, -1);
    this.#isSettled = false;
    this.#layout += 1;
  }

  #settle(): void {
    const ids = new Map([...this.#members].map((slot) => [slot, this.#idOf(slot)] as const));
    this.#order = [...ids.keys()].sort((a, b) =>
      (ids.get(a) ?? "") < (ids.get(b) ?? "") ? -1 : 1,
    );
    this.#positions = new Int32Array(
      1 + this.#order.reduce((most, slot) => Math.max(most, slot), 0),
    );
    for (const [position, slot] of this.#order.entries()) this.#positions[slot] = position;
    this.#isSettled = true;
  }
}
