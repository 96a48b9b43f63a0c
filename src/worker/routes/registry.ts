/**
 * The registry's read-only REST (seed 000 "REST API for reading registry data"): `GET {path…}` below
 * wherever it is mounted, with `?list`, `?depth`, `?find` and `?watch`. There is no write. An answer
 * may be as old as its Cache-Control says; the ETag is a hash of its content.
 */
import { type Context, Hono } from "hono";
import { accepts } from "hono/accepts";
import { cors } from "hono/cors";
import { basePath } from "hono/route";
import { type Failure, fail, ok, type Reply } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import type { RegistryChildrenPage } from "../../shared/protocol/registry-reader.ts";
import type { RegistryNodeDocument } from "../../shared/registry.ts";
import { contentTag, namesTag } from "../content-tag.ts";
import { NOT_MODIFIED, problem } from "../problem.ts";
import {
  answerOf,
  type RegistryAnswer,
  type RegistryQuestion,
  type RegistrySource,
} from "../registry-answer.ts";
import { openEventStream } from "../registry-events.ts";
import { netPlaceOf, type RegistryNet } from "../registry-net.ts";
import { pageSecurityPolicy, registryPage } from "../registry-page.ts";
import { parseRegistryRequest, type RegistryRequest } from "../registry-query.ts";
import { NET_HEADER } from "../registry-remote.ts";

const METHODS = ["GET", "HEAD"];
/** OPTIONS is answered too: a browser asks it before it may send If-None-Match elsewhere. */
const ALLOW = [...METHODS, "OPTIONS"].join(", ");
/** What a page of another site may send; Authorization for deployments whose readers need one. */
const CORS_HEADERS = ["If-None-Match", "Last-Event-ID", "Authorization", "X-Request-Id"];
/** A second of age spares the one object of the cluster a crowd of readers (registry-recent.ts). */
const CACHE_CONTROL = "public, max-age=1, must-revalidate";
/** The other cluster's second, and this one's. */
const NET_CACHE_CONTROL = "public, max-age=2, must-revalidate";
const NO_STORE = "no-store";

/**
 * Routes to mount at `/registry/v1`, with any prefix. `connect` finds the registry of a request,
 * `net` those of other clusters.
 */
export function registryRoutes(
  connect: (c: Context) => RegistrySource,
  net: Pick<RegistryNet, "read">,
): Hono {
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
  routes.all("*", async (c) => {
    if (!METHODS.includes(c.req.method)) return methodNotAllowed(c);
    const parameters = new URL(c.req.url).searchParams;
    const isPage = wantsPage(c) && [...parameters.keys()].every((name) => name === "after");
    const request = isPage ? ok({ view: "node" as const }) : parseRegistryRequest(parameters);
    if (!request.ok) return uncached(c, request.error);
    const reading = { reader: readerOf(c), isStrict: parameters.has("strict") };
    const path = requestedPath(c);
    const { value } = request;
    const place = netPlaceOf(path);
    if (place !== null) {
      const isFromRegistry = c.req.header(NET_HEADER) !== undefined;
      const read = (asked: RegistryRequest) =>
        net.read({ ...reading, place, isFromRegistry }, asked);
      if (isPage) return showPage(c, read, parameters.get("after"));
      return answerJson(c, await read(value), NET_CACHE_CONTROL);
    }
    const question: RegistryQuestion = { ...reading, source: connect(c), path };
    if (value.view === "events") return streamEvents(c, question, parameters.get("after"));
    const read: Read = (asked) => answerOf(question, asked);
    if (isPage) return showPage(c, read, parameters.get("after"));
    return answerJson(c, await read(value), value.view === "poll" ? NO_STORE : CACHE_CONTROL);
  });
  return routes;
}

type Read = (
  request: Exclude<RegistryRequest, { view: "events" }>,
) => Promise<Reply<RegistryAnswer>>;

function answerJson(c: Context, answer: Reply<RegistryAnswer>, cacheControl: string): Response {
  if (!answer.ok) return uncached(c, answer.error);
  const { document, ageMs } = answer.value;
  setFreshness(c, ageMs, cacheControl);
  return answerTagged(c, JSON.stringify(document), "application/json");
}

/** What has an age is the last answer of a cluster that cannot be asked. */
function setFreshness(c: Context, ageMs: number | null, cacheControl: string): void {
  c.header("Cache-Control", ageMs === null ? cacheControl : NO_STORE);
  c.header("Vary", "Accept", { append: true });
  if (ageMs === null) return;
  c.header("Age", String(Math.ceil(ageMs / 1_000)));
  c.header("Warning", '111 - "Revalidation Failed"');
}

/** Whoever has this answer already is told so. */
function answerTagged(c: Context, text: string, contentType: string): Response {
  const tag = contentTag(text);
  c.header("ETag", tag);
  if (namesTag(c.req.header("if-none-match"), tag)) return c.body(null, NOT_MODIFIED);
  return c.body(text, { headers: { "Content-Type": contentType } });
}

/** `Last-Event-ID` is what a browser sends when it comes back; `?after` is for everybody else. */
async function streamEvents(c: Context, question: RegistryQuestion, after: string | null) {
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

async function showPage(c: Context, read: Read, after: string | null) {
  const [node, page] = await Promise.all([
    read({ view: "node" }),
    read({ view: "list", page: { limit: LIMITS.registryPageDefault, after } }),
  ]);
  if (!node.ok) return uncached(c, node.error);
  if (!page.ok) return uncached(c, page.error);
  setFreshness(c, node.value.ageMs ?? page.value.ageMs, CACHE_CONTROL);
  c.header("Content-Security-Policy", await pageSecurityPolicy());
  c.header("Referrer-Policy", "no-referrer");
  const base = new URL(c.req.url).pathname.split("/registry/v1")[0];
  const html = registryPage(
    `${base}/registry/v1`,
    node.value.document as RegistryNodeDocument,
    page.value.document as RegistryChildrenPage,
  );
  return answerTagged(c, String(html), "text/html; charset=UTF-8");
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
