/**
 * What one isolate of the edge keeps of one cluster's registry: ready answers, each with the time as
 * of which it is known to hold. One question to the registry, what has changed since the last one,
 * renews all of them at once but those that the changes touch: so a crowd that asks for many paths
 * costs the cluster's one object one call in a second and isolate.
 *
 * An answer is touched by what happens at its path, below it and above it: it shows children, and
 * some show all that is below. Answers without a path of their own, such as DNS's, only grow old.
 */
import type { RegistryEdge, RegistryNews } from "../shared/protocol/registry-reader.ts";
import { lineage, type RegistryPath } from "../shared/registry-path.ts";

/** Less than half of an isolate's 128 MB. */
const ANSWERS_MAX = 65_536;
const BYTES_MAX = 50_331_648;
const ANSWER_BYTES_MAX = 65_536;
/** Paths that are remembered as touched, until all answers are forgotten instead. */
const TOUCHED_MAX = 65_536;
/** About what one answer takes beside its texts. */
const ENTRY_BYTES = 256;

export type Answer = {
  /** Of every header but the ETag; many answers share one. */
  readonly headers: Headers;
  readonly tag: string | null;
  readonly body: string | Uint8Array<ArrayBuffer>;
  /** How old it may become. */
  readonly maxAgeMs: number;
};

/** One that is made when it is asked for first, which most are not. */
export type LaterAnswer = {
  /** About the length of its body. */
  readonly bytes: number;
  readonly maxAgeMs: number;
  readonly make: () => Answer;
};

/** Taken before the registry is read: what the answer's age and validity count from. */
export type Reading = {
  readonly atMs: number;
  readonly writes: number;
  readonly sequence: number | null;
};

type Entry = Pick<Reading, "atMs" | "writes"> & {
  answer: Answer | LaterAnswer;
  /** With its key, and what else an entry takes. */
  readonly bytes: number;
  /** Null: it is not renewed. */
  readonly path: RegistryPath | null;
  /** Number of the news up to which it is known not to be touched. */
  newsHeard: number;
};

export type Found = { readonly answer: Answer; readonly ageMs: number };

export class RegistryMemory {
  readonly #registry: () => RegistryEdge | null;
  readonly #now: () => number;
  readonly #entries = new Map<string, Entry>();
  #bytes = 0;
  /** What is known of the registry, and since when; null before it was asked. */
  #known: (Reading & { readonly sequence: number }) | null = null;
  /** How often news had changes, and by which of them a path was touched last. */
  #newsHeard = 0;
  readonly #touched = new Map<RegistryPath, number>();
  readonly #deleted = new Map<RegistryPath, number>();
  /** Writes that went through this isolate: what was read before one of them may lack it. */
  #writes = 0;
  #askingSinceMs: number | null = null;

  /** `registry` finds it for the request that is being answered; `now` is the clock, in ms. */
  constructor(registry: () => RegistryEdge | null, now: () => number) {
    this.#registry = registry;
    this.#now = now;
  }

  /**
   * The answer, if it holds and is not too old. One that could be renewed is, here or, before that is
   * needed, in the work that `later` is given.
   */
  async find(key: string, later: (work: Promise<void>) => void): Promise<Found | null> {
    const entry = this.#entries.get(key);
    if (entry === undefined) return null;
    const found = this.#use(key, entry);
    if (found !== null) {
      const isHalfOld = found.ageMs >= found.answer.maxAgeMs / 2;
      if (entry.path !== null && isHalfOld && !this.#isAsking()) later(this.#hearNews());
      return found;
    }
    const isLost = this.#entries.get(key) !== entry;
    if (isLost || (entry.path === null && this.#known !== null)) return null;
    await this.#hearNews();
    return this.#entries.get(key) === entry ? this.#use(key, entry) : null;
  }

  /** Whether there is hardly any room left that is not taken from other answers. */
  get isFull(): boolean {
    return this.#entries.size > 0.9 * ANSWERS_MAX || this.#bytes > 0.9 * BYTES_MAX;
  }

  has(key: string): boolean {
    return this.#entries.has(key);
  }

  /** Afterwards what is read can be renewed, unless the registry could not be asked. */
  async follow(): Promise<void> {
    if (this.#known === null) await this.#hearNews();
  }

  /** Before the registry is read. */
  begin(): Reading {
    const sequence = this.#known?.sequence ?? null;
    return { atMs: this.#now(), writes: this.#writes, sequence };
  }

  /** Keeps what was read since `reading`; with a `path` to be renewed as long as nothing touches it. */
  keep(
    key: string,
    reading: Reading,
    path: RegistryPath | null,
    answer: Answer | LaterAnswer,
  ): void {
    const bytes = "make" in answer ? answer.bytes : answer.body.length;
    if (bytes > ANSWER_BYTES_MAX) return;
    // When there was news meanwhile, nobody knows whether the answer has it.
    const isCertain = this.#known !== null && reading.sequence === this.#known.sequence;
    const entry: Entry = {
      answer,
      bytes: key.length + bytes + ENTRY_BYTES,
      atMs: reading.atMs,
      writes: reading.writes,
      path: isCertain ? path : null,
      newsHeard: this.#newsHeard,
    };
    this.#drop(key);
    this.#entries.set(key, entry);
    this.#bytes += entry.bytes;
    // The map's order is that of keeping, so what is dropped first is the oldest.
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= ANSWERS_MAX && this.#bytes <= BYTES_MAX) return;
      this.#drop(oldest);
    }
  }

  /** After a write through this isolate: whoever has written reads what it has written. */
  noteWrite(): void {
    this.#writes += 1;
  }

  /** Null for one that may not hold now, or is too old. What was touched is dropped. */
  #use(key: string, entry: Entry): Found | null {
    if (entry.path !== null && entry.newsHeard !== this.#newsHeard) {
      if (this.#isTouched(entry.path, entry.newsHeard)) {
        this.#drop(key);
        return null;
      }
      entry.newsHeard = this.#newsHeard;
    }
    const renewed = entry.path === null ? null : this.#known;
    if (Math.max(entry.writes, renewed?.writes ?? 0) < this.#writes) return null;
    const ageMs = this.#now() - Math.max(entry.atMs, renewed?.atMs ?? 0);
    return ageMs < entry.answer.maxAgeMs ? { answer: answerOf(entry), ageMs } : null;
  }

  #isTouched(path: RegistryPath, since: number): boolean {
    if ((this.#touched.get(path) ?? 0) > since) return true;
    return lineage(path).some((above) => (this.#deleted.get(above) ?? 0) > since);
  }

  #isAsking(): boolean {
    // A request that was cut off never says that it has ended.
    return this.#askingSinceMs !== null && this.#now() - this.#askingSinceMs < 1_000;
  }

  /** An answer that could not be renewed is read; that says what is wrong, if anything is. */
  async #hearNews(): Promise<void> {
    const reading = this.begin();
    this.#askingSinceMs = reading.atMs;
    try {
      const news = await this.#registry()?.newsSince(reading.sequence);
      if (news !== undefined) this.#hear(reading, news);
    } catch (error) {
      console.warn(JSON.stringify({ event: "registry.news", outcome: String(error) }));
    } finally {
      this.#askingSinceMs = null;
    }
  }

  /** News may overtake other news. To hear of a change twice costs an answer, and is no harm. */
  #hear(reading: Reading, { sequence, changes }: RegistryNews): void {
    const known = this.#known;
    if (known === null || (changes === null && reading.sequence !== null)) {
      if (known !== null) this.#forget();
      this.#known = { ...reading, sequence };
      return;
    }
    if (changes === null) return;
    this.#known = {
      atMs: Math.max(reading.atMs, known.atMs),
      writes: Math.max(reading.writes, known.writes),
      sequence: Math.max(sequence, known.sequence),
    };
    if (changes.length === 0) return;
    if (this.#touched.size + this.#deleted.size > TOUCHED_MAX) this.#forget();
    this.#newsHeard += 1;
    for (const { type, path } of changes) {
      for (const above of lineage(path)) this.#touched.set(above, this.#newsHeard);
      if (type === "deleted") this.#deleted.set(path, this.#newsHeard);
    }
  }

  #forget(): void {
    this.#entries.clear();
    this.#bytes = 0;
    this.#touched.clear();
    this.#deleted.clear();
  }

  #drop(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    this.#bytes -= entry.bytes;
  }
}

function answerOf(entry: Entry): Answer {
  const { answer } = entry;
  const made = "make" in answer ? answer.make() : answer;
  entry.answer = made;
  return made;
}
