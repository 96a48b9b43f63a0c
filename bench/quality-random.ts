/** Random numbers that are the same for the same seed: a workload is its parameters and its seed. */

export class Random {
  #state: number;

  /** `seed` is a whole number. */
  constructor(seed: number) {
    this.#state = seed | 0;
  }

  /** Mulberry32: 0 ≤ number < 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number from 0 to `below` - 1. */
  index(below: number): number {
    return Math.floor(this.next() * below);
  }

  pick<Item>(items: readonly [Item, ...Item[]]): Item {
    return items[this.index(items.length)] ?? items[0];
  }

  /** An item, each as likely as its weight says. Weights are 0 or more, and not all 0. */
  weighted<Item>(items: readonly Item[], weightOf: (item: Item) => number): Item {
    let left = this.next() * items.reduce((sum, item) => sum + weightOf(item), 0);
    const found = items.find((item) => {
      left -= weightOf(item);
      return left < 0;
    });
    if (found === undefined) throw new Error("there must be something to choose, of some weight");
    return found;
  }

  /** Normal, by Box and Muller. */
  normal(mean: number, deviation: number): number {
    const radius = Math.sqrt(-2 * Math.log(1 - this.next()));
    return mean + deviation * radius * Math.cos(2 * Math.PI * this.next());
  }

  /** Log-normal with this mean and standard deviation of the values themselves; mean above 0. */
  logNormal(mean: number, deviation: number): number {
    const variance = Math.log(1 + (deviation / mean) ** 2);
    return Math.exp(this.normal(Math.log(mean) - variance / 2, Math.sqrt(variance)));
  }

  /** In place (Fisher and Yates). */
  shuffle<Item>(items: Item[]): Item[] {
    for (let last = items.length - 1; last > 0; last -= 1) {
      const other = this.index(last + 1);
      [items[last], items[other]] = [items[other] as Item, items[last] as Item];
    }
    return items;
  }
}
