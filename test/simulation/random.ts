/**
 * The simulation's dice: one seeded generator, so that a seed is a whole history. Nothing in the
 * simulation may be random in any other way.
 */

export class Random {
  #state: number;

  constructor(seed: number) {
    // Neighbouring seeds must not begin alike.
    this.#state = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) >>> 0;
    this.next();
    this.next();
  }

  /** From 0 to below 1 (mulberry32). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** A whole number from `min` to `max`, both included. */
  between(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1));
  }

  /** Mostly near `min`, now and then near `max`: as delays are. */
  skewed(min: number, max: number): number {
    const x = this.next();
    return min + Math.floor(x * x * x * x * (max - min + 1));
  }

  pick<Value>(values: readonly Value[]): Value {
    const value = values[this.between(0, values.length - 1)];
    if (value === undefined) throw new Error("there is nothing to pick from");
    return value;
  }
}
