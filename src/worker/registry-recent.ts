/**
 * Answers that the registry has given, kept in the isolate (registry-memory.ts), in front of the
 * application: they cost the isolate little more than an empty answer, and the cluster's one object
 * next to nothing. Only for deployments whose registry anybody may read: who asks is never looked at.
 *
 * An answer is kept by all that it depends on: the URL, `Accept`, and a DNS query's bytes but its
 * id. Kept are answers that call themselves public, so no refusals, no events, and no names that do
 * not exist, of which there are endlessly many. A kept answer says its `Age`, rounded up: whatever
 * caches stand in between, nothing is older than its Cache-Control. `Cache-Control: no-cache` reads
 * anew, and after a write through this isolate nothing is answered that may lack it.
 */
import { DNS_MESSAGE_TYPE } from "../shared/dns.ts";
import { LIMITS } from "../shared/limits.ts";
import { DEFAULT_CLUSTER } from "../shared/names.ts";
import type { RegistryEdge } from "../shared/protocol/registry-reader.ts";
import type { RegistryPath } from "../shared/registry-path.ts";
import { namesTag } from "./content-tag.ts";
import { NOT_MODIFIED, SUCCESS } from "./problem.ts";
import { RegistryCopy } from "./registry-copy.ts";
import { type Answer, type Found, RegistryMemory } from "./registry-memory.ts";
import { REQUEST_ID_HEADER, requestIdOf } from "./request-id.ts";

/** Work that goes on after the answer; the platform's execution context has it. */
export type Later = { waitUntil(work: Promise<unknown>): void };

type Application = (request: Request) => Response | Promise<Response>;

const KEY_LENGTH_MAX = 2_048;
/** A deployment has a few clusters; with more of them in use the memory begins anew. */
const CLUSTERS_MAX = 64;
/** Distinct headers that answers share: they differ in little but their ETag. */
const SHARED_HEADERS_MAX = 1_024;

const READ =
  /^https?:\/\/[^/]+(?:\/clusters\/([^/?#]+))?\/(registry\/v1|dns-query)(\/[^?#]*)?(\?.*)?$/;
const WRITE = /^https?:\/\/[^/]+(?:\/clusters\/([^/?#]+))?\/ws\/v1\/registry-operations\//;
/** A path as the registry writes it. This cluster's news do not tell of other clusters, below /net. */
const RENEWABLE = /^(?!\/net(?:\/|$))(?:\/[a-z0-9-]+)+$/;
const MAY_BE_KEPT = /^public, max-age=(\d+)/;
const WANTS_NEW = /\bno-cache\b|\bno-store\b|\bmax-age=0+\b/;

/** What is kept of one cluster. */
type Cluster = { readonly memory: RegistryMemory; readonly copy: RegistryCopy };

/** One question, before it is answered. */
type Asked = {
  readonly request: Request;
  readonly later: Later;
  readonly cluster: Cluster;
  /** Null for an answer that only grows old. */
  readonly path: RegistryPath | null;
  /** Of a plain question for a path's JSON: the URL before that path. Null for all others. */
  readonly base: string | null;
};

/**
 * `application` with a memory. `registryOf` finds the registry of a cluster, or null for a name that
 * is none's; `now` is the clock, in ms.
 */
export function keepRecent(
  application: Application,
  registryOf: (cluster: string) => RegistryEdge | null,
  now: () => number = Date.now,
): (request: Request, later: Later) => Response | Promise<Response> {
  const clusters = new Map<string, Cluster>();
  const clusterOf = (name: string): Cluster | null => {
    const known = clusters.get(name);
    if (known !== undefined) return known;
    // What is asked of it later is asked for another request, which needs a connection of its own.
    const registry = () => registryOf(name);
    if (registry() === null) return null;
    if (clusters.size >= CLUSTERS_MAX) clusters.clear();
    const memory = new RegistryMemory(registry, now);
    const cluster = { memory, copy: new RegistryCopy(registry, memory, now) };
    clusters.set(name, cluster);
    return cluster;
  };
  return (request, later) => {
    const { method, url } = request;
    const read = READ.exec(url);
    if (read === null) {
      const write = WRITE.exec(url);
      if (write === null) return application(request);
      return noteWrite(application, request, clusterOf(write[1] ?? DEFAULT_CLUSTER));
    }
    const [, name = DEFAULT_CLUSTER, place, said = "", query] = read;
    const cluster = method === "GET" || place === "dns-query" ? clusterOf(name) : null;
    if (cluster === null) return application(request);
    const path = place !== "dns-query" && RENEWABLE.test(said) ? said : null;
    const isPlain = path !== null && query === undefined;
    const base = isPlain ? url.slice(0, -path.length) : null;
    const asked = { request, later, cluster, path, base };
    if (method === "GET") return answerUrl(application, asked);
    return method === "POST" ? answerQuery(application, asked) : application(request);
  };
}

async function answerUrl(application: Application, asked: Asked): Promise<Response> {
  const { request, cluster, later } = asked;
  const key = keyOf(request, request.url, "");
  if (key === null) return application(request);
  const found = await find(asked, key);
  if (found !== null) return responseOf(found, request, found.answer.body);
  const reading = cluster.memory.begin();
  const { response, answer } = await read(application, request);
  if (answer === null) return response;
  cluster.memory.keep(key, reading, asked.path, answer);
  const { path, base } = asked;
  const isJson = answer.headers.get("content-type") === "application/json";
  if (path !== null && base !== null && isJson && !wantsNew(request) && cluster.copy.isDue()) {
    const keyOfNode = (node: RegistryPath) => keyOf(request, `${base}${node}`, "");
    later.waitUntil(cluster.copy.continue(path, answer, keyOfNode));
  }
  return response;
}

/** RFC 8484's POST: the same question comes with any id. */
async function answerQuery(application: Application, asked: Asked): Promise<Response> {
  const { request, cluster } = asked;
  const { headers, url } = request;
  const length = Number(headers.get("content-length") ?? Number.NaN);
  const isQuery = headers.get("content-type") === DNS_MESSAGE_TYPE;
  if (!isQuery || !(length >= ID_BYTES && length <= LIMITS.dnsQueryBytesMax))
    return application(request);
  const query = new Uint8Array(await request.arrayBuffer());
  const key = keyOf(request, url, LATIN1.decode(query.subarray(ID_BYTES)));
  const found = key === null ? null : await find(asked, key);
  if (found !== null && typeof found.answer.body !== "string") {
    const body = found.answer.body.slice();
    body.set(query.subarray(0, ID_BYTES));
    return responseOf(found, request, body);
  }
  const reading = cluster.memory.begin();
  const again = new Request(url, { method: "POST", headers, body: query });
  const { response, answer } = await read(application, again);
  if (key !== null && answer !== null) cluster.memory.keep(key, reading, null, answer);
  return response;
}

const ID_BYTES = 2;
const LATIN1 = new TextDecoder("latin1");

async function find({ request, cluster, later }: Asked, key: string): Promise<Found | null> {
  if (wantsNew(request)) return null;
  return cluster.memory.find(key, (work) => later.waitUntil(work));
}

/**
 * Null for a request that is too long to be kept by. Only the body, at the end, has line ends. The
 * registry answers all with the same JSON but those who name HTML; DNS looks closer.
 */
function keyOf({ method, headers }: Request, url: string, body: string): string | null {
  const accept = headers.get("accept") ?? "";
  const told = accept.includes("html") || url.includes("/dns-query") ? accept : "";
  const key = `${method}\n${told}\n${url}\n${body}`;
  return key.length > KEY_LENGTH_MAX ? null : key;
}

function wantsNew({ headers }: Request): boolean {
  const directives = headers.get("cache-control");
  return directives !== null && WANTS_NEW.test(directives);
}

/** Whoever writes here reads here what it has written, also when a read was under way meanwhile. */
async function noteWrite(
  application: Application,
  request: Request,
  cluster: Cluster | null,
): Promise<Response> {
  try {
    return await application(request);
  } finally {
    cluster?.memory.noteWrite();
  }
}

/** What the application answers, and the same as it may be kept; null for what may not. */
async function read(
  application: Application,
  request: Request,
): Promise<{ readonly response: Response; readonly answer: Answer | null }> {
  const response = await application(request);
  const seconds = MAY_BE_KEPT.exec(response.headers.get("cache-control") ?? "")?.[1];
  if (response.status !== SUCCESS.OK || seconds === undefined) return { response, answer: null };
  const isMessage = response.headers.get("content-type") === DNS_MESSAGE_TYPE;
  const body = isMessage ? new Uint8Array(await response.arrayBuffer()) : await response.text();
  const headers = share(response.headers);
  const tag = response.headers.get("etag");
  return {
    response: new Response(body, response),
    answer: { headers, tag, body, maxAgeMs: Number(seconds) * 1_000 },
  };
}

const shared = new Map<string, Headers>();

/** The headers without those that each answer has of its own, and with the age of most of them. */
function share(headers: Headers): Headers {
  const common = new Headers(headers);
  common.set("Age", "1");
  common.delete("etag");
  common.delete(REQUEST_ID_HEADER);
  const key = JSON.stringify([...common]);
  const known = shared.get(key) ?? common;
  if (shared.size >= SHARED_HEADERS_MAX) shared.clear();
  shared.set(key, known);
  return known;
}

function responseOf({ answer, ageMs }: Found, request: Request, body: Answer["body"]): Response {
  const { tag, headers } = answer;
  const isKnown = tag !== null && namesTag(request.headers.get("if-none-match"), tag);
  const response = isKnown
    ? new Response(null, { status: NOT_MODIFIED, headers })
    : new Response(body, { headers });
  if (isKnown) response.headers.delete("content-type");
  if (tag !== null) response.headers.set("ETag", tag);
  const seconds = Math.ceil(ageMs / 1_000);
  if (seconds > 1) response.headers.set("Age", String(seconds));
  // Nothing is in the log under an id that nobody has given.
  const given = request.headers.get(REQUEST_ID_HEADER);
  if (given !== null) response.headers.set(REQUEST_ID_HEADER, requestIdOf(given));
  return response;
}
