/**
 * The registry's read-only REST (seed 000 "REST API for reading registry data"): `GET {path…}` below
 * wherever it is mounted, with `?list`, `?depth`, `?find` and `?watch`. There is no write. An answer
 * may be as old as its Cache-Control says; the ETag is a hash of its content.
 */
import { type Context, Hono, type MiddlewareHandler } from "hono";
import { accepts } from "hono/accepts";
import { cors } from "hono/cors";
import { etag, RETAINED_304_HEADERS } from "hono/etag";
import { basePath } from "hono/route";
import { type Failure, fail, ok, type Reply } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import type { RegistryReader, RegistryWatch } from "../../shared/protocol/registry-reader.ts";
import {
  formatServiceRecordForReaders,
  formatServiceRecordStrict,
  type ServiceRecord,
  type ServiceRecordDocument,
} from "../../shared/registry.ts";
import { problem } from "../problem.ts";
import { openEventStream, poll } from "../registry-events.ts";
import { pageSecurityPolicy, registryPage } from "../registry-page.ts";
import { parseRegistryRequest, type RegistryRequest, writeCursor } from "../registry-query.ts";

const METHODS = ["GET", "HEAD"];
/** OPTIONS is answered too: a browser asks it before it may send If-None-Match elsewhere. */
const ALLOW = [...METHODS, "OPTIONS"].join(", ");
/** What a page of another site may send; Authorization for deployments whose readers need one. */
const CORS_HEADERS = ["If-None-Match", "Last-Event-ID", "Authorization", "X-Request-Id"];
/** A second of age spares the one object of the cluster a crowd of readers. */
const CACHE_CONTROL = "public, max-age=1, must-revalidate";
const NO_STORE = "no-store";

/** What the routes read from. */
export type RegistrySource = {
  readonly registry: RegistryReader;
  readonly registryWatch: RegistryWatch;
};

/** One question to one registry. */
type Question = {
  readonly source: RegistrySource;
  readonly path: string;
  /** The client's address, by which rude ones are slowed down; null where nobody tells it. */
  readonly reader: string | null;
  readonly format: (record: ServiceRecord) => ServiceRecordDocument;
};

/** Routes to mount at `/registry/v1`, with any prefix. `connect` finds the registry of a request. */
export function registryRoutes(connect: (c: Context) => RegistrySource): Hono {
  const routes = new Hono();
  routes.use(
    cors({
      origin: "*",
      allowMethods: METHODS,
      allowHeaders: CORS_HEADERS,
      exposeHeaders: ["ETag", "Retry-After"],
      maxAge: 86_400,
    }),
  );
  routes.use(tagged);
  routes.all("*", async (c) => {
    if (!METHODS.includes(c.req.method)) return methodNotAllowed(c);
    const parameters = new URL(c.req.url).searchParams;
    const isPage = wantsPage(c) && [...parameters.keys()].every((name) => name === "after");
    const request = isPage ? ok({ view: "node" as const }) : parseRegistryRequest(parameters);
    if (!request.ok) return uncached(c, request.error);
    const question: Question = {
      source: connect(c),
      path: requestedPath(c),
      reader: readerOf(c),
      format: parameters.has("strict") ? formatServiceRecordStrict : formatServiceRecordForReaders,
    };
    if (isPage) return showPage(c, question, parameters.get("after"));
    const { value } = request;
    if (value.view === "events") return streamEvents(c, question, parameters.get("after"));
    const answer = await answerOf(question, value);
    if (!answer.ok) return uncached(c, answer.error);
    c.header("Cache-Control", value.view === "poll" ? NO_STORE : CACHE_CONTROL);
    c.header("Vary", "Accept", { append: true });
    return c.json(answer.value);
  });
  return routes;
}

const hashed = etag({
  retainedHeaders: [
    ...RETAINED_304_HEADERS,
    "access-control-allow-origin",
    "access-control-expose-headers",
  ],
});

/** A stream of events never ends, and so has no hash. */
const tagged: MiddlewareHandler = (c, next) =>
  c.req.query("watch") === undefined ? hashed(c, next) : next();

async function answerOf(
  { source: { registry, registryWatch }, path, reader, format }: Question,
  request: Exclude<RegistryRequest, { view: "events" }>,
): Promise<Reply<object>> {
  switch (request.view) {
    case "node": {
      const node = await registry.readNode(path, reader);
      return mapOk(node, ({ record, ...rest }) => ({ ...rest, ...formatted(record, format) }));
    }
    case "list":
      return registry.readChildren(path, request.page, reader);
    case "subtree": {
      const page = await registry.readSubtree(path, request.depth, request.page, reader);
      return mapOk(page, ({ nodes, next, ...rest }) => ({
        ...rest,
        depth: request.depth,
        nodes: nodes.map(({ record, ...node }) => ({ ...node, ...formatted(record, format) })),
        truncated: next !== undefined,
        ...cursor(next),
      }));
    }
    case "find": {
      const page = await registry.find(path, request.query, request.page, reader);
      return mapOk(page, ({ matches, next }) => ({
        matches: matches.map((match) => ({ path: match.path, record: format(match.record) })),
        ...cursor(next),
      }));
    }
    case "poll":
      return poll(registryWatch, { path, after: request.after, reader }, request.waitMs);
  }
}

function mapOk<Value>(reply: Reply<Value>, map: (value: Value) => object): Reply<object> {
  return reply.ok ? ok(map(reply.value)) : reply;
}

/** A node without record has no field `record`. */
function formatted(record: ServiceRecord | null, format: Question["format"]) {
  return record === null ? {} : { record: format(record) };
}

function cursor(next: string | undefined) {
  return next === undefined ? {} : { next: writeCursor(next) };
}

/** `Last-Event-ID` is what a browser sends when it comes back; `?after` is for everybody else. */
async function streamEvents(c: Context, question: Question, after: string | null) {
  const last = c.req.header("last-event-id") ?? after ?? "";
  if (!/^\d{0,15}$/.test(last)) {
    const failure = fail("INVALID_ARGUMENT", "the last event's id is a whole number", {
      hint: "send the id of the last event as it came, or none to watch from now on",
    });
    return uncached(c, failure.error);
  }
  const headers = { "Content-Type": "text/event-stream", "Cache-Control": NO_STORE };
  if (c.req.method === "HEAD") return c.body(null, { headers });
  const { source, path, reader } = question;
  const resumed = last === "" ? null : Number(last);
  const stream = await openEventStream(source.registryWatch, { path, after: resumed, reader });
  if (!stream.ok) return uncached(c, stream.error);
  return c.body(stream.value, { headers });
}

async function showPage(c: Context, question: Question, after: string | null) {
  const { source, path, reader, format } = question;
  const [node, page] = await Promise.all([
    source.registry.readNode(path, reader),
    source.registry.readChildren(path, { limit: LIMITS.registryPageDefault, after }, reader),
  ]);
  if (!node.ok) return uncached(c, node.error);
  if (!page.ok) return uncached(c, page.error);
  const { record, ...rest } = node.value;
  c.header("Cache-Control", CACHE_CONTROL);
  c.header("Vary", "Accept", { append: true });
  c.header("Content-Security-Policy", await pageSecurityPolicy());
  c.header("Referrer-Policy", "no-referrer");
  const base = new URL(c.req.url).pathname.split("/registry/v1")[0];
  const document = { ...rest, ...formatted(record, format) };
  return c.html(registryPage(`${base}/registry/v1`, document, page.value));
}

/** Cloudflare says who is calling; the developer's own machine is nobody to be protected from. */
function readerOf(c: Context): string | null {
  const address = c.req.header("cf-connecting-ip");
  if (address === undefined || /^(?:127\.|::1$|::ffff:127\.)/.test(address)) return null;
  return address.slice(0, 64);
}

/** Browsers name text/html first; programs that name nothing, or anything, get JSON. */
function wantsPage(c: Context): boolean {
  if (c.req.header("accept")?.includes("text/html") !== true) return false;
  const supports = ["application/json", "text/html"];
  return accepts(c, { header: "Accept", supports, default: "application/json" }) === "text/html";
}

/** What stands behind the mount point. Whether it is a registry path is the registry's to say. */
function requestedPath(c: Context): string {
  const rest = c.req.path.slice(basePath(c).length);
  return rest.split("/").map(decodeElement).join("/") || "/";
}

/** An escaped `/` stays escaped: it must not make two elements of one. */
function decodeElement(text: string): string {
  try {
    const decoded = decodeURIComponent(text);
    return decoded.includes("/") ? text : decoded;
  } catch {
    return text;
  }
}

function methodNotAllowed(c: Context): Response {
  const message = `the registry's REST only reads; it cannot be used with ${c.req.method}`;
  const more = { reason: "MethodNotAllowed", hint: `it answers ${ALLOW}` };
  const response = uncached(c, fail("INVALID_ARGUMENT", message, more).error);
  response.headers.set("Allow", ALLOW);
  return response;
}

function uncached(c: Context, failure: Failure): Response {
  const response = problem(c, failure);
  response.headers.set("Cache-Control", NO_STORE);
  return response;
}
