/**
 * Answers that the registry has just given, kept in the isolate for a second, so that a crowd that
 * asks for one name costs the one object of the cluster one read per second and isolate. Kept by
 * question and never by request: ids, cookies and padding differ in every one. Names that do not
 * exist are not kept: there are endlessly many of them.
 */
import { type DnsAnswer, type DnsQuestion, RCODE } from "../shared/dns.ts";

/** As old as the registry's REST may answer; an answer's TTL is longer by far. */
const KEPT_MS = 1_000;
/** With some 500 bytes each, a small part of an isolate's 128 MB. */
const ANSWERS_MAX = 4_096;

export class RecentAnswers {
  readonly #now: () => number;
  readonly #kept = new Map<string, { readonly untilMs: number; readonly answer: DnsAnswer }>();

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  async find(
    cluster: string,
    { name, type }: DnsQuestion,
    ask: () => Promise<DnsAnswer>,
  ): Promise<DnsAnswer> {
    // Case is part of the answer: it says the name as it was asked.
    const key = `${cluster} ${type} ${name}`;
    const kept = this.#kept.get(key);
    const nowMs = this.#now();
    if (kept !== undefined && kept.untilMs > nowMs) return kept.answer;
    const answer = await ask();
    if (answer.rcode !== RCODE.NOERROR) return answer;
    if (this.#kept.size >= ANSWERS_MAX) this.#kept.clear();
    this.#kept.set(key, { untilMs: nowMs + KEPT_MS, answer });
    return answer;
  }
}
