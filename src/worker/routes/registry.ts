/**
 * The registry's read-only REST (seed 000 "REST API for reading registry data"): `GET {path…}` below
 * wherever it is mounted. Anybody reads, from any web page too, so there is no credential here and
 * no write. An answer may be as old as its Cache-Control says; the ETag is a hash of its content.
 */
import { type Context, Hono } from "hono";
import { cors } from "hono/cors";
import { etag, RETAINED_304_HEADERS } from "hono/etag";
import { basePath } from "hono/route";
import { type Failure, fail } from "../../shared/errors.ts";
import type {
  RegistryNodeView,
  RegistryOperations,
} from "../../shared/protocol/registry-operations.ts";
import { formatServiceRecordForReaders, type RegistryNodeDocument } from "../../shared/registry.ts";
import { problem } from "../problem.ts";

const METHODS = ["GET", "HEAD"];
/** OPTIONS is answered too: a browser asks it before it may send If-None-Match elsewhere. */
const ALLOW = [...METHODS, "OPTIONS"].join(", ");
/** Names that have no meaning here; to ignore them would answer another question than was asked. */
const REFUSED_PARAMETERS = ["find", "watch", "depth", "list"];
/** A second of age spares the one object of the cluster a crowd of readers. */
const CACHE_CONTROL = "public, max-age=1, must-revalidate";

/** Routes to mount at `/registry/v1`, with any prefix. `connect` finds the registry of a request. */
export function registryRoutes(
  connect: (c: Context) => { readonly registry: Pick<RegistryOperations, "view"> },
): Hono {
  const routes = new Hono();
  routes.use(cors({ origin: "*", allowMethods: METHODS, exposeHeaders: ["ETag"] }));
  routes.use(
    etag({
      retainedHeaders: [
        ...RETAINED_304_HEADERS,
        "access-control-allow-origin",
        "access-control-expose-headers",
      ],
    }),
  );
  routes.all("*", async (c) => {
    if (!METHODS.includes(c.req.method)) return methodNotAllowed(c);
    const refused = REFUSED_PARAMETERS.filter((name) => c.req.query(name) !== undefined);
    if (refused.length > 0) return parametersRefused(c, refused);
    const view = await connect(c).registry.view(requestedPath(c));
    if (!view.ok) return uncached(c, view.error);
    c.header("Cache-Control", CACHE_CONTROL);
    return c.json(documentOf(view.value));
  });
  return routes;
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

function documentOf({ path, stat, record, children }: RegistryNodeView): RegistryNodeDocument {
  return record === null
    ? { path, stat, children }
    : { path, stat, record: formatServiceRecordForReaders(record), children };
}

function methodNotAllowed(c: Context): Response {
  const message = `the registry's REST only reads; it cannot be used with ${c.req.method}`;
  const more = { reason: "MethodNotAllowed", hint: `it answers ${ALLOW}` };
  const response = uncached(c, fail("INVALID_ARGUMENT", message, more).error);
  response.headers.set("Allow", ALLOW);
  return response;
}

function parametersRefused(c: Context, names: readonly string[]): Response {
  const shown = names.map((name) => `?${name}`).join(", ");
  const { error } = fail("INVALID_ARGUMENT", `the registry does not support ${shown}`, {
    hint: "ask for one path without parameters; the answer lists its children",
    findings: names.map((path) => ({ path, message: "is not supported" })),
  });
  return uncached(c, error);
}

function uncached(c: Context, failure: Failure): Response {
  const response = problem(c, failure);
  response.headers.set("Cache-Control", "no-store");
  return response;
}
