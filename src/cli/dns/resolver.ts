/**
 * One query in, one answer out: the cluster's names from the cluster, with a cache, everything else
 * from the system's resolvers. Equal questions that are under way share one answer; that also ends
 * every loop, since a question that comes around only waits for itself and then fails.
 */
import {
  DNS_CLASS,
  type DnsAnswer,
  type DnsQuestion,
  type DnsRecord,
  isWithin,
  RCODE,
  rcodeName,
  typeName,
} from "../../shared/dns.ts";
import {
  type DnsMessage,
  decodeMessage,
  encodeMessage,
  UDP_BYTES_MAX,
} from "../../shared/dns-message.ts";
import { AnswerCache } from "./answer-cache.ts";
import type { AskCluster } from "./cluster-names.ts";
import { aged, withTtl } from "./ttl.ts";
import type { AskUpstream } from "./upstream.ts";

export type QuerySource = "cluster" | "cache" | "stale" | "upstream" | "none";

/** What is logged of a query that was answered. */
export type QueryLog = {
  readonly name: string;
  readonly type: string;
  readonly rcode: string;
  readonly source: QuerySource;
  readonly durationMs: number;
  /** What went wrong on the way. */
  readonly error?: string;
};

export type ResolverOptions = {
  /** The cluster's zone; lower case, without a dot at its end. */
  readonly domain: string;
  readonly askCluster: AskCluster;
  readonly askUpstream: AskUpstream;
  /** Epoch ms. */
  readonly now: () => number;
  readonly log: (line: QueryLog) => void;
  readonly signal: AbortSignal;
};

/** Queries under way; each is a socket or a request, and a process has about 1,000 of them. */
const CONCURRENT_MAX = 256;
/** RFC 8767 §4: what an outdated answer may be kept for. */
const STALE_TTL_SECONDS = 30;
/** How long the cluster is left alone after it could not be reached, where an old answer is there. */
const RETRY_AFTER_MS = 2_000;
/** Names of addresses that are not the cluster's are asked of the cluster again after this long. */
const FOREIGN_MS = 30_000;
const FOREIGN_MAX = 10_000;
/** Of the header's third byte: 1 for an answer. */
const RESPONSE = 0x80;
const HEADER_BYTES = 12;

type Resolved = {
  readonly bytes: Uint8Array;
  readonly source: QuerySource;
  readonly rcode: number;
  readonly error?: string;
};
type Found = { readonly answer: DnsAnswer; readonly source: QuerySource; readonly error?: string };

export class Resolver {
  readonly #options: ResolverOptions;
  readonly #cache = new AnswerCache();
  readonly #asking = new Map<string, Promise<DnsAnswer>>();
  readonly #forwarding = new Map<string, Promise<Uint8Array>>();
  readonly #foreign = new Map<string, number>();
  #unreachableUntilMs = 0;
  #concurrent = 0;

  constructor(options: ResolverOptions) {
    this.#options = options;
  }

  /**
   * The answer's bytes, at most `bytesMax`, or null for what deserves none: bytes that are no query.
   * Never rejects.
   */
  async resolve(query: Uint8Array, bytesMax: number): Promise<Uint8Array | null> {
    if (query.length < HEADER_BYTES || ((query[2] ?? 0) & RESPONSE) !== 0) return null;
    const startedMs = this.#options.now();
    const message = decodeMessage(query);
    if (message === null) return headerOnly(query, RCODE.FORMERR);
    const refusal = refusalOf(message);
    const [question] = message.questions;
    if (refusal !== null || question === undefined) {
      return reply(message, noAnswer(refusal ?? RCODE.FORMERR), bytesMax);
    }
    const busy = this.#concurrent >= CONCURRENT_MAX;
    if (busy) return reply(message, noAnswer(RCODE.SERVFAIL), bytesMax);
    this.#concurrent += 1;
    try {
      const { bytes, source, rcode, error } = await this.#resolve(message, query, bytesMax);
      this.#options.log({
        name: question.name === "" ? "." : question.name,
        type: typeName(question.type),
        rcode: rcodeName(rcode),
        source,
        durationMs: this.#options.now() - startedMs,
        ...(error === undefined ? {} : { error }),
      });
      return bytes;
    } finally {
      this.#concurrent -= 1;
    }
  }

  async #resolve(message: DnsMessage, query: Uint8Array, bytesMax: number): Promise<Resolved> {
    const [question = { name: "", type: 0 }] = message.questions;
    const asked = { name: question.name.toLowerCase(), type: question.type };
    if (isWithin(asked.name, this.#options.domain)) {
      return resolved(message, await this.#findInCluster(asked), bytesMax);
    }
    const isReverse = /\.(?:in-addr|ip6)\.arpa$/.test(asked.name);
    if (isReverse && !this.#isForeign(asked.name)) {
      const found = await this.#findInCluster(asked);
      const { rcode } = found.answer;
      if (rcode === RCODE.REFUSED) this.#rememberForeign(asked.name);
      else if (rcode !== RCODE.SERVFAIL) return resolved(message, found, bytesMax);
    }
    return this.#forward(message, query, bytesMax);
  }

  async #findInCluster(asked: DnsQuestion): Promise<Found> {
    const key = `${asked.type} ${asked.name}`;
    const cached = this.#cache.find(key, this.#options.now());
    if (cached?.isFresh) return { answer: aged(cached.answer, cached.ageSeconds), source: "cache" };
    if (cached && this.#options.now() < this.#unreachableUntilMs) {
      return { answer: stale(cached.answer), source: "stale", error: "the cluster is not reached" };
    }
    try {
      return { answer: await this.#askOnce(key, asked), source: "cluster" };
    } catch (error) {
      this.#unreachableUntilMs = this.#options.now() + RETRY_AFTER_MS;
      const text = innermostMessage(error);
      if (cached) return { answer: stale(cached.answer), source: "stale", error: text };
      return { answer: noAnswer(RCODE.SERVFAIL), source: "none", error: text };
    }
  }

  #askOnce(key: string, asked: DnsQuestion): Promise<DnsAnswer> {
    const underWay = this.#asking.get(key);
    if (underWay !== undefined) return underWay;
    const answer = this.#options
      .askCluster(asked)
      .then((given) => {
        this.#cache.put(key, given, this.#options.now());
        return given;
      })
      .finally(() => this.#asking.delete(key));
    this.#asking.set(key, answer);
    return answer;
  }

  async #forward(message: DnsMessage, query: Uint8Array, bytesMax: number): Promise<Resolved> {
    // All but the id: two programs that ask the same in the same words get the same answer.
    const key = Buffer.from(query.subarray(2)).toString("latin1");
    try {
      const shared = this.#forwarding.get(key) ?? this.#startForward(key, query);
      const bytes = Uint8Array.from(await shared);
      bytes.set(query.subarray(0, 2));
      const rcode = (bytes[3] ?? 0) & 15;
      return {
        bytes: bytes.length > bytesMax ? truncated(message, rcode, bytesMax) : bytes,
        rcode,
        source: "upstream",
      };
    } catch (error) {
      const bytes = reply(message, noAnswer(RCODE.SERVFAIL), bytesMax);
      return { bytes, rcode: RCODE.SERVFAIL, source: "none", error: innermostMessage(error) };
    }
  }

  #startForward(key: string, query: Uint8Array): Promise<Uint8Array> {
    const { askUpstream, signal } = this.#options;
    const answer = askUpstream(query, signal).finally(() => this.#forwarding.delete(key));
    this.#forwarding.set(key, answer);
    return answer;
  }

  #isForeign(name: string): boolean {
    return (this.#foreign.get(name) ?? 0) > this.#options.now();
  }

  #rememberForeign(name: string): void {
    if (this.#foreign.size >= FOREIGN_MAX) this.#foreign.clear();
    this.#foreign.set(name, this.#options.now() + FOREIGN_MS);
  }
}

function resolved(message: DnsMessage, found: Found, bytesMax: number): Resolved {
  const { answer, ...more } = found;
  return { ...more, rcode: answer.rcode, bytes: reply(message, answer, bytesMax) };
}

function refusalOf({ opcode, questions, edns }: DnsMessage): number | null {
  if (opcode !== 0) return RCODE.NOTIMP;
  if (edns !== null && edns.version > 0) return RCODE.BADVERS;
  const [question] = questions;
  if (question === undefined || questions.length > 1) return RCODE.FORMERR;
  const isIn = question.class === DNS_CLASS.IN || question.class === DNS_CLASS.ANY;
  return isIn ? null : RCODE.REFUSED;
}

function reply(query: DnsMessage, answer: DnsAnswer, bytesMax: number): Uint8Array {
  const own = query.questions[0]?.name;
  // Names are told in the letters in which they were asked for.
  const named = (record: DnsRecord): DnsRecord =>
    own !== undefined && record.name === own.toLowerCase() ? { ...record, name: own } : record;
  const message: DnsMessage = {
    ...query,
    isResponse: true,
    authoritative: false,
    truncated: false,
    recursionAvailable: true,
    rcode: answer.rcode,
    answers: answer.answers.map(named),
    authority: answer.authority,
    additional: answer.additional,
    edns: query.edns && { ...query.edns, version: 0, udpBytesMax: UDP_BYTES_MAX, padded: false },
  };
  const bytes = encodeMessage(message, bytesMax);
  // Additional records are a favour; an answer is not truncated for their sake (RFC 2181 §9).
  const isCut = ((bytes[2] ?? 0) & 0x02) !== 0 && answer.additional.length > 0;
  return isCut ? encodeMessage({ ...message, additional: [] }, bytesMax) : bytes;
}

function truncated(query: DnsMessage, rcode: number, bytesMax: number): Uint8Array {
  return reply({ ...query }, noAnswer(rcode), bytesMax).map((byte, at) =>
    at === 2 ? byte | 0x02 : byte,
  );
}

/** For a query that cannot be read: its id, and what is wrong. */
function headerOnly(query: Uint8Array, rcode: number): Uint8Array {
  const header = new Uint8Array(HEADER_BYTES);
  header.set(query.subarray(0, 2));
  header[2] = RESPONSE;
  header[3] = rcode;
  return header;
}

function stale(answer: DnsAnswer): DnsAnswer {
  return withTtl(answer, () => STALE_TTL_SECONDS);
}

function noAnswer(rcode: number): DnsAnswer {
  return { rcode, authoritative: false, answers: [], authority: [], additional: [] };
}

/** The innermost cause says most: `fetch failed` says nothing. */
export function innermostMessage(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const inner: unknown = error instanceof AggregateError ? error.errors[0] : error.cause;
  return inner instanceof Error ? innermostMessage(inner) : error.message;
}
