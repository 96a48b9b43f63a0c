/**
 * Time, order and memory of a simulated history: a virtual clock, the queue of what is going to
 * happen, the dice and the trace. Whatever happens is an event; two events never happen at once.
 */
import type { Mutant } from "./mutants.ts";
import { Random } from "./random.ts";

/** A rule that did not hold. */
export class Violation extends Error {
  readonly rule: string;
  constructor(rule: string, message: string) {
    super(`${rule}: ${message}`);
    this.rule = rule;
  }
}

type Event = {
  readonly atMs: number;
  readonly order: number;
  readonly what: string;
  readonly happen: () => void;
};

/** 2026-01-01: any date would do, as long as it is always the same. */
const BEGINNING_MS = 1_767_225_600_000;

export class World {
  readonly seed: number;
  readonly random: Random;
  /** A fault put into the core on purpose, to see whether it is found. */
  readonly mutant: Mutant;
  nowMs = BEGINNING_MS;
  /** No faults any more: every message arrives, soon and once. */
  isCalm = false;
  steps = 0;
  readonly #queue: Event[] = [];
  #order = 0;
  #hash = 0x811c9dc5;
  readonly #print: ((line: string) => void) | undefined;

  constructor(seed: number, mutant: Mutant, print?: (line: string) => void) {
    this.seed = seed;
    this.mutant = mutant;
    this.random = new Random(seed);
    this.#print = print;
  }

  get elapsedMs(): number {
    return this.nowMs - BEGINNING_MS;
  }

  /** Of everything that has happened so far, in order. */
  get hash(): string {
    return (this.#hash >>> 0).toString(16).padStart(8, "0");
  }

  after(delayMs: number, what: string, happen: () => void): void {
    const atMs = this.nowMs + Math.max(0, delayMs);
    this.#push({ atMs, order: this.#order++, what, happen });
  }

  /** Lets the next event happen; false when there is none. */
  step(): boolean {
    const event = this.#pop();
    if (!event) return false;
    this.nowMs = Math.max(this.nowMs, event.atMs);
    this.steps += 1;
    this.note(event.what);
    event.happen();
    return true;
  }

  /** The clock leaps; what was due meanwhile happens late. */
  leap(durationMs: number): void {
    this.nowMs += durationMs;
  }

  /** Into the trace, and into its hash. */
  note(what: string): void {
    let hash = this.#hash ^ (this.nowMs & 0xffffffff);
    for (let index = 0; index < what.length; index += 1) {
      hash = Math.imul(hash ^ what.charCodeAt(index), 0x01000193);
    }
    this.#hash = hash;
    this.#print?.(`${(this.elapsedMs / 1_000).toFixed(3).padStart(10)}  ${what}`);
  }

  /** Into the printed trace only. */
  detail(what: () => string): void {
    this.#print?.(`${"".padStart(10)}    ${what()}`);
  }

  upcoming(): readonly string[] {
    return this.#queue.map(({ what }) => what);
  }

  #push(event: Event): void {
    const queue = this.#queue;
    let index = queue.length;
    queue.push(event);
    while (index > 0) {
      const parent = (index - 1) >> 1;
      const other = queue[parent] as Event;
      if (!isBefore(event, other)) break;
      queue[index] = other;
      index = parent;
    }
    queue[index] = event;
  }

  #pop(): Event | undefined {
    const queue = this.#queue;
    const first = queue[0];
    const last = queue.pop();
    if (first === undefined || last === undefined || queue.length === 0) return first;
    let index = 0;
    for (;;) {
      let child = 2 * index + 1;
      if (child >= queue.length) break;
      const right = child + 1;
      if (right < queue.length && isBefore(queue[right] as Event, queue[child] as Event)) {
        child = right;
      }
      if (!isBefore(queue[child] as Event, last)) break;
      queue[index] = queue[child] as Event;
      index = child;
    }
    queue[index] = last;
    return first;
  }
}

function isBefore(a: Event, b: Event): boolean {
  return a.atMs < b.atMs || (a.atMs === b.atMs && a.order < b.order);
}
