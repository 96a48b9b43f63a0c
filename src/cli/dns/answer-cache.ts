/**
 * Answers of the cluster as long as they may be kept, positive and negative ones, the least recently
 * used dropped first. What has expired is kept on for a while, to be served when the cluster cannot
 * be reached (RFC 8767).
 */
import { type DnsAnswer, freshnessSeconds } from "../../shared/dns.ts";

/** About 1 KB each. */
const ANSWERS_MAX = 10_000;
/** An hour without the cluster: its containers run on meanwhile, at the addresses they had. */
const STALE_MAX_MS = 3_600_000;

export type CachedAnswer = {
  readonly answer: DnsAnswer;
  readonly isFresh: boolean;
  /** Whole seconds since the cluster has given it. */
  readonly ageSeconds: number;
};

type Entry = { readonly answer: DnsAnswer; readonly storedMs: number; readonly freshMs: number };

export class AnswerCache {
  /** In the order of last use. */
  readonly #entries = new Map<string, Entry>();
  readonly #answersMax: number;

  constructor(answersMax = ANSWERS_MAX) {
    this.#answersMax = answersMax;
  }

  get size(): number {
    return this.#entries.size;
  }

  find(key: string, nowMs: number): CachedAnswer | null {
    const entry = this.#entries.get(key);
    if (entry === undefined) return null;
    this.#entries.delete(key);
    const ageMs = nowMs - entry.storedMs;
    if (ageMs > entry.freshMs + STALE_MAX_MS) return null;
    this.#entries.set(key, entry);
    return {
      answer: entry.answer,
      isFresh: ageMs < entry.freshMs,
      ageSeconds: Math.floor(ageMs / 1_000),
    };
  }

  /** What may not be kept, such as a refusal, is not. */
  put(key: string, answer: DnsAnswer, nowMs: number): void {
    this.#entries.delete(key);
    const freshMs = freshnessSeconds(answer) * 1_000;
    if (freshMs === 0) return;
    this.#entries.set(key, { answer, storedMs: nowMs, freshMs });
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > this.#answersMax && oldest !== undefined) this.#entries.delete(oldest);
  }
}
