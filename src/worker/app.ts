/**
 * The HTTP API as one application: every request passes, in this order, its request id and headers,
 * its cluster, authentication, the bound on its body, and then one route. Knows protocols only;
 * `connect` is all that ties it to a platform.
 */
import { type Context, Hono, type MiddlewareHandler } from "hono";
import { bodyLimit } from "hono/body-limit";
import { getPath } from "hono/utils/url";
import { DNS_QUERY_PATH } from "../shared/dns.ts";
import { fail } from "../shared/errors.ts";
import { LIMITS } from "../shared/limits.ts";
import { DEFAULT_CLUSTER, isClusterName } from "../shared/names.ts";
import { authenticate, isWrite } from "./auth.ts";
import { addEndpoints, type Endpoint } from "./endpoint.ts";
import { describeApi } from "./openapi.ts";
import { problem, STATUS, SWITCHING_PROTOCOLS } from "./problem.ts";
import type { AppEnv, Connect, Settings } from "./protocols.ts";
import { RegistryNet } from "./registry-net.ts";
import { REQUEST_ID_HEADER, requestIdOf } from "./request-id.ts";
import { applicationEndpoints } from "./routes/applications.ts";
import { clusterEndpoints, clusterNotFound } from "./routes/cluster.ts";
import { containerStreamEndpoints } from "./routes/container-streams.ts";
import { containerEndpoints } from "./routes/containers.ts";
import { dnsRoutes } from "./routes/dns.ts";
import { healthEndpoints } from "./routes/health.ts";
import { commandSource, installEndpoint } from "./routes/install.ts";
import { isLogChunk, logEndpoints } from "./routes/logs.ts";
import { nodeAdministrationEndpoints } from "./routes/node-administration.ts";
import { nodeWebEndpoints } from "./routes/node-web.ts";
import { nodeEndpoints } from "./routes/nodes.ts";
import { isPackagePart, packageEndpoints } from "./routes/packages.ts";
import { registryRoutes } from "./routes/registry.ts";
import { registryOperationEndpoints } from "./routes/registry-operations.ts";
import { schedulerEndpoints } from "./routes/scheduler.ts";
import { securityEndpoints } from "./routes/security.ts";
import { serviceUpgradeEndpoints } from "./routes/service-upgrade.ts";
import { serviceEndpoints } from "./routes/services.ts";

/** Every operation of the API but the registry's reads. */
export const ENDPOINTS: readonly Endpoint[] = [
  ...healthEndpoints,
  ...securityEndpoints,
  ...serviceEndpoints,
  ...serviceUpgradeEndpoints,
  ...clusterEndpoints,
  installEndpoint((c) => {
    const { command } = c.var.settings;
    return commandSource(command?.url, command?.sha256);
  }),
  ...applicationEndpoints,
  ...containerEndpoints,
  ...containerStreamEndpoints,
  ...schedulerEndpoints,
  ...nodeAdministrationEndpoints,
  ...nodeEndpoints,
  ...nodeWebEndpoints,
  ...packageEndpoints,
  ...logEndpoints,
  ...registryOperationEndpoints,
];

/** What docs/openapi.json holds. */
export function openApiDocument() {
  return describeApi(ENDPOINTS);
}

/** The application; `fetch` and `request` of it answer requests. */
export function createApp(connect: Connect, settings: Settings): Hono<AppEnv> {
  const app = new Hono<AppEnv>({ getPath: (request) => splitCluster(getPath(request)).path });
  app.use(addHeaders);
  app.use(findCluster(connect, settings));
  app.use(authenticate(settings));
  app.use(limitBody);

  let document: string | undefined;
  app.get("/openapi.json", (c) => {
    document ??= JSON.stringify(openApiDocument());
    return c.body(document, { headers: { "Content-Type": "application/json" } });
  });
  // How botnets try YARN's open door, and honest clients of Hadoop too: they are told what to do.
  app.on("POST", ["/ws/v1/cluster/apps", "/ws/v1/cluster/apps/new-application"], clusterNotFound);
  addEndpoints(app, ENDPOINTS);
  app.on(["POST", "PUT", "DELETE"], "/ws/v1/cluster/*", clusterNotFound);
  app.route(
    "/registry/v1",
    registryRoutes((c: Context<AppEnv>) => c.var.protocols, new RegistryNet(connect, settings)),
  );
  app.route(
    DNS_QUERY_PATH,
    dnsRoutes((c: Context<AppEnv>) => c.var.protocols.registry, settings.domain),
  );
  app.notFound(answerNotFound);
  app.onError(answerError);
  return app;
}

/**
 * `/clusters/{cluster}/rest` is `/rest` of that cluster. A name that is none leaves the path whole,
 * with `cluster` null.
 */
export function splitCluster(path: string): {
  readonly cluster: string | null;
  readonly path: string;
} {
  const trimmed = path.length > 1 && path.endsWith("/") ? path.slice(0, -1) : path;
  if (!/^\/clusters(?:\/|$)/.test(trimmed)) return { cluster: DEFAULT_CLUSTER, path: trimmed };
  const [, , cluster = "", ...rest] = trimmed.split("/");
  if (!isClusterName(cluster)) return { cluster: null, path: trimmed };
  return { cluster, path: `/${rest.join("/")}` };
}

function findCluster(connect: Connect, settings: Settings): MiddlewareHandler<AppEnv> {
  return async (c, next) => {
    const { cluster } = splitCluster(getPath(c.req.raw));
    if (cluster === null) {
      const failure = fail("INVALID_ARGUMENT", `${c.req.path} names no cluster`, {
        hint: "a cluster's name has lower-case letters, digits and hyphens inside: /clusters/{name}/…",
      });
      return problem(c, failure.error);
    }
    if (!settings.isCluster(cluster)) {
      const failure = fail("NOT_FOUND", `there is no cluster ${cluster} here`, {
        hint: "the deployment's variable SELVEDGE_CLUSTERS names those it has",
      });
      return problem(c, failure.error);
    }
    c.set("cluster", cluster);
    c.set("protocols", connect(cluster));
    c.set("settings", settings);
    return next();
  };
}

/** The outermost middleware: whatever was answered leaves with these headers and this audit line. */
const addHeaders: MiddlewareHandler<AppEnv> = async (c, next) => {
  c.set("requestId", requestIdOf(c.req.header(REQUEST_ID_HEADER)));
  c.set("caller", null);
  c.set("audited", null);
  await next();
  // A DNS query is no write, however it is sent.
  const isAudited = isWrite(c.req.method) ? c.req.path !== DNS_QUERY_PATH : c.var.audited !== null;
  if (isAudited) audit(c);
  if (c.res.status === SWITCHING_PROTOCOLS) return;
  const { headers } = c.res;
  headers.set(REQUEST_ID_HEADER, c.var.requestId);
  headers.set("X-Content-Type-Options", "nosniff");
  headers.set("X-Frame-Options", "DENY");
  const isRefusal = c.res.status >= STATUS.INVALID_ARGUMENT;
  if (c.var.caller !== null || isRefusal) headers.set("Cache-Control", "no-store");
};

/** One line for each write, done or refused: who, what, how it ended. Never bodies, never tokens. A
 * stream into a container is a write, too. */
function audit(c: Context<AppEnv>): void {
  const { caller, cluster, requestId, audited } = c.var;
  const line = {
    event: "audit",
    user: caller?.kind === "user" ? caller.user : null,
    ...(caller?.kind === "node" ? { nodeId: caller.nodeId } : {}),
    ...(caller?.kind === "container" ? { containerId: caller.containerId } : {}),
    cluster,
    method: c.req.method,
    path: c.req.path.slice(0, 512),
    ...audited,
    status: c.res.status,
    requestId,
  };
  console.log(JSON.stringify(line));
}

const limitRequest = limitTo(LIMITS.requestBodyBytesMax);
const limitNodeMessage = limitTo(LIMITS.nodeMessageBytesMax);

const limitPackagePart = limitTo(LIMITS.packagePartBytes);
const limitLogChunk = limitTo(LIMITS.aggregatedChunkPackedBytesMax);

const limitBody: MiddlewareHandler<AppEnv> = (c, next) => {
  if (isPackagePart(c.req.method, c.req.path)) return limitPackagePart(c, next);
  if (isLogChunk(c.req.method, c.req.path)) return limitLogChunk(c, next);
  return c.req.path === "/ws/v1/node/heartbeat" ? limitNodeMessage(c, next) : limitRequest(c, next);
};

function limitTo(bytesMax: number): MiddlewareHandler<AppEnv> {
  return bodyLimit({
    maxSize: bytesMax,
    onError: (c) => {
      const failure = fail("INVALID_ARGUMENT", `the request body is above ${bytesMax} bytes`, {
        reason: "RequestBodyTooLarge",
      });
      return problem(c, failure.error);
    },
  });
}

function answerNotFound(c: Context<AppEnv>): Response {
  if (c.req.path.startsWith("/ws/v1/cluster/")) return clusterNotFound(c);
  const failure = fail("NOT_FOUND", `there is nothing at ${c.req.path}`, {
    hint: "all paths are in /openapi.json",
  });
  return problem(c, failure.error);
}

/** What went wrong inside stays in the log; the caller gets the id by which to find it there. */
function answerError(error: Error, c: Context<AppEnv>): Response {
  const { requestId } = c.var;
  console.error(JSON.stringify({ event: "error", requestId, error: String(error.stack) }));
  if (isPassing(error)) {
    const failure = fail("UNAVAILABLE", "the cluster is busy or restarting; try again");
    return problem(c, failure.error);
  }
  const failure = fail(
    "INTERNAL",
    `an error of the server; its log has it as request ${requestId}`,
  );
  return problem(c, failure.error);
}

/** Durable Objects mark errors of overload and restart so. */
function isPassing(error: Error): boolean {
  const { overloaded, retryable } = error as { overloaded?: unknown; retryable?: unknown };
  return overloaded === true || retryable === true;
}
