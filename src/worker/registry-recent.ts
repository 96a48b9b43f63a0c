/**
 * Answers that the registry has just given, kept in the isolate as long as their Cache-Control says
 * (a second; a name's TTL), in front of the application: a crowd that asks one thing costs the
 * cluster's one object one read in that time and isolate, and costs the isolate little more than an
 * empty answer. Only for deployments whose registry anybody may read: who asks is never looked at.
 *
 * An answer is kept by all that it depends on: the URL, `Accept`, and a DNS query's bytes but its
 * id. Kept are answers that call themselves public, so no refusals, no events, and no names that do
 * not exist, of which there are endlessly many. A kept answer says its `Age`, rounded up: whatever
 * caches stand in between, nothing is older than its Cache-Control. `Cache-Control: no-cache` reads
 * anew, and a write through this isolate forgets everything.
 */
import { DNS_MESSAGE_TYPE } from "../shared/dns.ts";
import { LIMITS } from "../shared/limits.ts";
import { namesTag } from "./content-tag.ts";
import { NOT_MODIFIED, SUCCESS } from "./problem.ts";
import { REQUEST_ID_HEADER, requestIdOf } from "./request-id.ts";

type Answer = (request: Request) => Response | Promise<Response>;

/** A small part of an isolate's 128 MB. */
const ANSWERS_MAX = 16_384;
const BYTES_MAX = 16_777_216;
const ANSWER_BYTES_MAX = 65_536;
const KEY_LENGTH_MAX = 2_048;

const READ = /^https?:\/\/[^/]+(?:\/clusters\/[^/?#]+)?\/(registry\/v1|dns-query)(?:[/?]|$)/;
const WRITE = /^https?:\/\/[^/]+(?:\/clusters\/[^/?#]+)?\/ws\/v1\/registry-operations\//;
const MAY_BE_KEPT = /^public, max-age=(\d+)/;
const WANTS_NEW = /\bno-cache\b|\bno-store\b|\bmax-age=0+\b/;

type Kept = {
  readonly atMs: number;
  readonly untilMs: number;
  readonly headers: Headers;
  readonly body: Uint8Array<ArrayBuffer>;
};

/** `answer` with a short memory. `now` is the clock, in ms. */
export function keepRecent(answer: Answer, now: () => number = Date.now): Answer {
  const recent = new RecentAnswers(now);
  return (request) => {
    const { method, url } = request;
    const place = READ.exec(url)?.[1];
    if (method === "GET" && place !== undefined) return answerUrl(recent, answer, request);
    if (method === "POST" && place === "dns-query") return answerQuery(recent, answer, request);
    return WRITE.test(url) ? forgetAfter(recent, answer, request) : answer(request);
  };
}

async function answerUrl(recent: RecentAnswers, answer: Answer, request: Request) {
  const key = keyOf(request, "");
  if (key === null) return answer(request);
  const kept = wantsNew(request) ? undefined : recent.find(key);
  if (kept !== undefined) return recent.responseOf(kept, request, kept.body);
  const write = recent.writer(key);
  return write(await answer(request));
}

/** RFC 8484's POST: the same question comes with any id. */
async function answerQuery(recent: RecentAnswers, answer: Answer, request: Request) {
  const { headers, url } = request;
  const length = Number(headers.get("content-length") ?? Number.NaN);
  const isQuery = headers.get("content-type") === DNS_MESSAGE_TYPE;
  if (!isQuery || !(length >= ID_BYTES && length <= LIMITS.dnsQueryBytesMax))
    return answer(request);
  const query = new Uint8Array(await request.arrayBuffer());
  const key = keyOf(request, latin1(query.subarray(ID_BYTES)));
  const kept = key === null || wantsNew(request) ? undefined : recent.find(key);
  if (kept !== undefined) {
    const body = kept.body.slice();
    body.set(query.subarray(0, ID_BYTES));
    return recent.responseOf(kept, request, body);
  }
  const asked = new Request(url, { method: "POST", headers, body: query });
  if (key === null) return answer(asked);
  const write = recent.writer(key);
  return write(await answer(asked));
}

const ID_BYTES = 2;
const LATIN1 = new TextDecoder("latin1");

function latin1(bytes: Uint8Array): string {
  return LATIN1.decode(bytes);
}

/** Null for a request that is too long to be kept by. Only the body, at the end, has line ends. */
function keyOf({ method, url, headers }: Request, body: string): string | null {
  const key = `${method}\n${headers.get("accept") ?? ""}\n${url}\n${body}`;
  return key.length > KEY_LENGTH_MAX ? null : key;
}

function wantsNew({ headers }: Request): boolean {
  const directives = headers.get("cache-control");
  return directives !== null && WANTS_NEW.test(directives);
}

/** Whoever writes here reads here what it has written, also when a read was under way meanwhile. */
async function forgetAfter(recent: RecentAnswers, answer: Answer, request: Request) {
  try {
    return await answer(request);
  } finally {
    recent.clear();
  }
}

class RecentAnswers {
  readonly #now: () => number;
  readonly #kept = new Map<string, Kept>();
  #bytes = 0;
  /** Rises when everything is forgotten, so that no read that began before is kept after. */
  #generation = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  find(key: string): Kept | undefined {
    const kept = this.#kept.get(key);
    return kept !== undefined && kept.untilMs > this.#now() ? kept : undefined;
  }

  responseOf(kept: Kept, request: Request, body: Uint8Array<ArrayBuffer>): Response {
    const tag = kept.headers.get("etag");
    const isKnown = tag !== null && namesTag(request.headers.get("if-none-match"), tag);
    const response = isKnown
      ? new Response(null, { status: NOT_MODIFIED, headers: kept.headers })
      : new Response(body, { headers: kept.headers });
    if (isKnown) response.headers.delete("content-type");
    const given = request.headers.get(REQUEST_ID_HEADER);
    response.headers.set("Age", String(Math.max(1, Math.ceil((this.#now() - kept.atMs) / 1_000))));
    response.headers.set(REQUEST_ID_HEADER, requestIdOf(given));
    return response;
  }

  /** Called before the registry is read: the age of what is then kept counts from here. */
  writer(key: string): (response: Response) => Promise<Response> {
    const generation = this.#generation;
    const atMs = this.#now();
    return async (response) => {
      const seconds = MAY_BE_KEPT.exec(response.headers.get("cache-control") ?? "")?.[1];
      if (response.status !== SUCCESS.OK || seconds === undefined) return response;
      const body = new Uint8Array(await response.arrayBuffer());
      const headers = new Headers(response.headers);
      const untilMs = atMs + Number(seconds) * 1_000;
      if (generation === this.#generation) this.#keep(key, { atMs, untilMs, headers, body });
      return new Response(body, response);
    };
  }

  clear(): void {
    this.#generation += 1;
    this.#kept.clear();
    this.#bytes = 0;
  }

  /** The map's order is that of keeping, so what is dropped first is the oldest. */
  #keep(key: string, kept: Kept): void {
    if (kept.body.length > ANSWER_BYTES_MAX) return;
    this.#drop(key);
    this.#kept.set(key, kept);
    this.#bytes += sizeOf(key, kept);
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= ANSWERS_MAX && this.#bytes <= BYTES_MAX) return;
      this.#drop(oldest);
    }
  }

  #drop(key: string): void {
    const kept = this.#kept.get(key);
    if (kept === undefined) return;
    this.#kept.delete(key);
    this.#bytes -= sizeOf(key, kept);
  }
}

function sizeOf(key: string, { body }: Kept): number {
  return key.length + body.length + HEADERS_BYTES;
}

/** About what the headers of one answer take. */
const HEADERS_BYTES = 512;
