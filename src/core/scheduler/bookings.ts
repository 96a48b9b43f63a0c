/**
 * Every booked container in packed rows, since a million of them must fit beside everything else in
 * 128 MB: about 32 bytes for each, where an object with its id would need 200. What belongs together
 * lies together, so that a row is one read of memory.
 *
 * An id is kept as a prefix, which the containers of an application share, and the number at its
 * end. What containers have in common (application, size, priority, …) is a `BookingKind`.
 */
import { assert } from "../../shared/errors.ts";
import type { ContainerId } from "../../shared/ids.ts";
import type { ApplicationAttempt } from "./application-attempt.ts";
import { enlarged } from "./node-table.ts";
import type { Partition } from "./partition.ts";
import type { RequestClasses, Size } from "./request-class.ts";

export type BookingKind = {
  readonly attempt: ApplicationAttempt;
  readonly size: Size;
  readonly priority: number;
  /** The partition it was asked in, when that is not the node's. */
  readonly askedIn: Partition | undefined;
  readonly isOpportunistic: boolean;
  readonly isMaster: boolean;
  readonly tags: readonly string[];
  /** Containers of this kind, and its place among the kinds while there are any. */
  count: number;
  index: number;
};

/** A kind of which there is no container yet. */
export function newKind(kind: Omit<BookingKind, "count" | "index">): BookingKind {
  return { ...kind, count: 0, index: NONE };
}

/** Names a container while it is booked. */
export type Row = number;

/** The beginning that ids share. */
export type Prefix = {
  readonly text: string;
  readonly hash: number;
  readonly index: number;
  count: number;
};

const NONE = -1;
/** The part of the hash table that is filled at most: more, and searches become long. */
const FILLED_MAX = 0.5;
/** Rows come in chunks of so many, since one array would have to be copied to grow. */
const CHUNK_BITS = 13;
const CHUNK_MASK = (1 << CHUNK_BITS) - 1;
/** Numbers of a row. */
const ROW = 6;
const PREFIX = 0;
const NUMBER = 1;
const SLOT = 2;
const KIND = 3;
/** Containers of one slot as a list in both directions; NEXT also links vacant rows. */
const NEXT = 4;
const PREVIOUS = 5;
const DIGIT_ZERO = 48;
const DIGIT_NINE = 57;
/** So many characters of a prefix make its hash: the numbers of application and attempt. */
const HASHED_MAX = 12;
/** So many digits at the end of an id fit into a column. */
const DIGITS_MAX = 9;

export class Bookings {
  #size = 0;
  #end = 0;
  #vacant = NONE;
  readonly #chunks: Int32Array[] = [];
  #firstOf = new Int32Array(64).fill(NONE);
  /** Rows + 1 by hash of the id, 0 where there is none. Its length is a power of two. */
  #table = new Int32Array(128);
  readonly #prefixes = new Map<string, Prefix>();
  readonly #prefixAt: Prefix[] = [];
  readonly #vacantPrefixes: number[] = [];
  readonly #kinds: BookingKind[] = [];
  readonly #vacantKinds: number[] = [];
  readonly #classes: RequestClasses;

  constructor(classes: RequestClasses) {
    this.#classes = classes;
  }

  get size(): number {
    return this.#size;
  }

  slotOf(row: Row): number {
    return this.#get(row, SLOT);
  }

  kindOf(row: Row): BookingKind {
    return this.#kinds[this.#get(row, KIND)] as BookingKind;
  }

  idOf(row: Row): ContainerId {
    const number = this.#get(row, NUMBER);
    const { text } = this.#prefixAt[this.#get(row, PREFIX)] as Prefix;
    return number === NONE ? text : `${text}${number}`;
  }

  find(containerId: ContainerId): Row | undefined {
    const digits = startOfNumber(containerId);
    const number = numberFrom(containerId, digits);
    const prefixHash = hashOfText(containerId, digits);
    const mask = this.#table.length - 1;
    for (let place = hash(prefixHash, number) & mask; ; place = (place + 1) & mask) {
      const row = (this.#table[place] as number) - 1;
      if (row < 0) return undefined;
      if (this.#get(row, NUMBER) !== number) continue;
      const { text } = this.#prefixAt[this.#get(row, PREFIX)] as Prefix;
      if (text.length === digits && containerId.startsWith(text)) return row;
    }
  }

  /** The id is not booked yet. */
  add(containerId: ContainerId, slot: number, kind: BookingKind): void {
    if (this.#size >= FILLED_MAX * this.#table.length) this.#growTable();
    const digits = startOfNumber(containerId);
    const prefix = this.#prefixOfAttempt(kind.attempt, containerId, digits);
    const number = numberFrom(containerId, digits);
    const place = this.#placeOf(prefix, number);
    assert(this.#table[place] === 0, "a container is booked once");
    const row = this.#takeRow();
    this.#table[place] = row + 1;
    this.#set(row, PREFIX, prefix.index);
    this.#set(row, NUMBER, number);
    this.#set(row, SLOT, slot);
    prefix.count += 1;
    this.#size += 1;
    this.#setKind(row, kind);
    this.#link(row, slot);
  }

  remove(row: Row): void {
    const prefix = this.#prefixAt[this.#get(row, PREFIX)] as Prefix;
    this.#removeFromTable(this.#placeOf(prefix, this.#get(row, NUMBER)));
    this.#unlink(row);
    this.#dropKind(this.kindOf(row));
    prefix.count -= 1;
    if (prefix.count === 0) {
      this.#prefixes.delete(prefix.text);
      this.#vacantPrefixes.push(prefix.index);
    }
    this.#set(row, NEXT, this.#vacant);
    this.#set(row, SLOT, NONE);
    this.#vacant = row;
    this.#size -= 1;
  }

  /** The container is of another kind from now on. */
  changeKind(row: Row, kind: BookingKind): void {
    const before = this.kindOf(row);
    this.#setKind(row, kind);
    this.#dropKind(before);
  }

  /** Booked containers of one node, the last booked first. */
  *onSlot(slot: number): Generator<Row> {
    let row = slot < this.#firstOf.length ? (this.#firstOf[slot] as number) : NONE;
    while (row !== NONE) {
      const next = this.#get(row, NEXT);
      yield row;
      row = next;
    }
  }

  *rows(): Generator<Row> {
    for (let row = 0; row < this.#end; row += 1) if (this.#get(row, SLOT) !== NONE) yield row;
  }

  #get(row: Row, field: number): number {
    const chunk = this.#chunks[row >> CHUNK_BITS] as Int32Array;
    return chunk[ROW * (row & CHUNK_MASK) + field] as number;
  }

  #set(row: Row, field: number, value: number): void {
    const chunk = this.#chunks[row >> CHUNK_BITS] as Int32Array;
    chunk[ROW * (row & CHUNK_MASK) + field] = value;
  }

  #setKind(row: Row, kind: BookingKind): void {
    if (kind.index === NONE) {
      kind.index = this.#vacantKinds.pop() ?? this.#kinds.length;
      this.#kinds[kind.index] = kind;
      kind.attempt.kinds.push(kind);
      kind.size.references += 1;
    }
    kind.count += 1;
    this.#set(row, KIND, kind.index);
  }

  #dropKind(kind: BookingKind): void {
    kind.count -= 1;
    if (kind.count > 0) return;
    this.#vacantKinds.push(kind.index);
    kind.index = NONE;
    kind.attempt.kinds.splice(kind.attempt.kinds.indexOf(kind), 1);
    this.#classes.dropSize(kind.size);
  }

  #takeRow(): Row {
    const row = this.#vacant;
    if (row === NONE) {
      const end = this.#end;
      if (end >> CHUNK_BITS === this.#chunks.length) {
        this.#chunks.push(new Int32Array(ROW << CHUNK_BITS));
      }
      this.#end += 1;
      return end;
    }
    this.#vacant = this.#get(row, NEXT);
    return row;
  }

  #link(row: Row, slot: number): void {
    while (slot >= this.#firstOf.length) {
      const larger = new Int32Array(2 * this.#firstOf.length).fill(NONE);
      this.#firstOf = enlarged(this.#firstOf, larger);
    }
    const first = this.#firstOf[slot] as number;
    this.#set(row, NEXT, first);
    this.#set(row, PREVIOUS, NONE);
    if (first !== NONE) this.#set(first, PREVIOUS, row);
    this.#firstOf[slot] = row;
  }

  #unlink(row: Row): void {
    const next = this.#get(row, NEXT);
    const previous = this.#get(row, PREVIOUS);
    if (next !== NONE) this.#set(next, PREVIOUS, previous);
    if (previous !== NONE) this.#set(previous, NEXT, next);
    else this.#firstOf[this.#get(row, SLOT)] = next;
  }

  /** Most often the one that the application's last container had. */
  #prefixOfAttempt(attempt: ApplicationAttempt, id: ContainerId, length: number): Prefix {
    const last = attempt.lastPrefix;
    if (last !== undefined && last.count > 0 && last.text.length === length) {
      if (id.startsWith(last.text)) return last;
    }
    const prefix = this.#internPrefix(id.slice(0, length));
    attempt.lastPrefix = prefix;
    return prefix;
  }

  #internPrefix(text: string): Prefix {
    const known = this.#prefixes.get(text);
    if (known !== undefined) return known;
    const index = this.#vacantPrefixes.pop() ?? this.#prefixAt.length;
    const prefix = { text, hash: hashOfText(text, text.length), index, count: 0 };
    this.#prefixes.set(text, prefix);
    this.#prefixAt[index] = prefix;
    return prefix;
  }

  /** Where the id stands in the table, or would stand. */
  #placeOf(prefix: Prefix, number: number): number {
    const mask = this.#table.length - 1;
    let place = hash(prefix.hash, number) & mask;
    for (;;) {
      const row = (this.#table[place] as number) - 1;
      if (row < 0) return place;
      if (this.#get(row, NUMBER) === number && this.#get(row, PREFIX) === prefix.index) {
        return place;
      }
      place = (place + 1) & mask;
    }
  }

  #homeOf(row: Row): number {
    const prefix = this.#prefixAt[this.#get(row, PREFIX)] as Prefix;
    return hash(prefix.hash, this.#get(row, NUMBER)) & (this.#table.length - 1);
  }

  /** Closes the gap, so that no search ends too early. */
  #removeFromTable(place: number): void {
    const table = this.#table;
    const mask = table.length - 1;
    let gap = place;
    let scanned = place;
    for (;;) {
      scanned = (scanned + 1) & mask;
      const row = (table[scanned] as number) - 1;
      if (row < 0) break;
      if (((scanned - this.#homeOf(row)) & mask) < ((scanned - gap) & mask)) continue;
      table[gap] = row + 1;
      gap = scanned;
    }
    table[gap] = 0;
  }

  #growTable(): void {
    this.#table = new Int32Array(2 * this.#table.length);
    for (const row of this.rows()) {
      const prefix = this.#prefixAt[this.#get(row, PREFIX)] as Prefix;
      this.#table[this.#placeOf(prefix, this.#get(row, NUMBER))] = row + 1;
    }
  }
}

/**
 * FNV-1a of the end of the beginning of a text: there the prefixes of ids differ, whose applications
 * are numbered. Others that agree in so much only share a place.
 */
function hashOfText(text: string, length: number): number {
  let value = 0x811c9dc5 ^ length;
  for (let index = Math.max(0, length - HASHED_MAX); index < length; index += 1) {
    value = Math.imul(value ^ text.charCodeAt(index), 0x01000193);
  }
  return value;
}

/** MurmurHash3's finalizer over both. */
function hash(prefixHash: number, number: number): number {
  let value = prefixHash ^ Math.imul(number, 0x9e3779b1);
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return value ^ (value >>> 16);
}

/** Where the number at the end begins, without leading zeros; the id's length when it has none. */
function startOfNumber(id: string): number {
  let start = id.length;
  const least = Math.max(0, id.length - DIGITS_MAX);
  while (start > least) {
    const code = id.charCodeAt(start - 1);
    if (code < DIGIT_ZERO || code > DIGIT_NINE) break;
    start -= 1;
  }
  while (start < id.length && id.charCodeAt(start) === DIGIT_ZERO) start += 1;
  return start;
}

function numberFrom(id: string, start: number): number {
  if (start === id.length) return NONE;
  let number = 0;
  for (let index = start; index < id.length; index += 1) {
    number = number * 10 + (id.charCodeAt(index) - DIGIT_ZERO);
  }
  return number;
}
