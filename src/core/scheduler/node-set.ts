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

  has(position: number): boolean {
    return ((this.#words[position >> 5] as number) & (1 << (position & 31))) !== 0;
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
    const here = rest(this.#words, index, position & 31);
    if (here !== 0) return index * 32 + lowestBit(here);
    let block = (index + 1) >> 5;
    let words = rest(this.#summary, block, (index + 1) & 31);
    while (words === 0) {
      block = block + 1 < this.#summary.length ? block + 1 : 0;
      words = this.#summary[block] as number;
    }
    const found = block * 32 + lowestBit(words);
    return found * 32 + lowestBit(this.#words[found] as number);
  }
}

/** The bits of one word from `bit` upwards; none beyond the last word. */
function rest(words: Int32Array, index: number, bit: number): number {
  return index < words.length ? (words[index] as number) & (-1 << bit) : 0;
}

function lowestBit(word: number): number {
  return 31 - Math.clz32(word & -word);
}
