/**
 * Failures as HTTP answers: RFC 9457 problem details, and beside them the shapes that existing
 * Hadoop clients understand. The only file with HTTP status numbers.
 */
import type { Context } from "hono";
import type { ErrorCode, Failure } from "../shared/errors.ts";

/** What a request that worked answers. */
export const SUCCESS = { OK: 200, ACCEPTED: 202, NO_CONTENT: 204, PARTIAL_CONTENT: 206 } as const;

/** What a request answers whose answer its sender has already. */
export const NOT_MODIFIED = 304;

/** The answer that hands the connection over to a WebSocket. */
export const SWITCHING_PROTOCOLS = 101;

export const STATUS = {
  INVALID_ARGUMENT: 400,
  UNAUTHENTICATED: 401,
  PERMISSION_DENIED: 403,
  NOT_FOUND: 404,
  ALREADY_EXISTS: 409,
  FAILED_PRECONDITION: 409,
  RESOURCE_EXHAUSTED: 429,
  UNAVAILABLE: 503,
  INTERNAL: 500,
} as const satisfies Record<ErrorCode, number>;

/** Failures of HTTP itself, for which HTTP has a status of its own; the key is `Failure.reason`. */
export const STATUS_OF_REASON = {
  MethodNotAllowed: 405,
  NotAcceptable: 406,
  VersionMismatch: 412,
  RequestBodyTooLarge: 413,
  UnsupportedMediaType: 415,
  RangeNotSatisfiable: 416,
  UpgradeRequired: 426,
  RemoteRegistryFailed: 502,
  RemoteRegistryTimeout: 504,
} as const;

const TITLE = {
  INVALID_ARGUMENT: "The request is not valid",
  UNAUTHENTICATED: "Authentication is needed",
  PERMISSION_DENIED: "A right is missing",
  NOT_FOUND: "There is no such thing",
  ALREADY_EXISTS: "The name is taken",
  FAILED_PRECONDITION: "Not possible in the present state",
  RESOURCE_EXHAUSTED: "Too much, or too often",
  UNAVAILABLE: "Not available at the moment",
  INTERNAL: "An error of the server",
} as const satisfies Record<ErrorCode, string>;

/** How the ResourceManager's REST names failures (facts/yarn-rm-nm-scheduler.md §1.9). */
const REMOTE_EXCEPTION = {
  INVALID_ARGUMENT: "org.apache.hadoop.yarn.webapp.BadRequestException",
  UNAUTHENTICATED: "org.apache.hadoop.security.authorize.AuthorizationException",
  PERMISSION_DENIED: "org.apache.hadoop.yarn.webapp.ForbiddenException",
  NOT_FOUND: "org.apache.hadoop.yarn.webapp.NotFoundException",
  ALREADY_EXISTS: "org.apache.hadoop.yarn.webapp.ConflictException",
  FAILED_PRECONDITION: "org.apache.hadoop.yarn.webapp.ConflictException",
  RESOURCE_EXHAUSTED: "org.apache.hadoop.ipc.RetriableException",
  UNAVAILABLE: "org.apache.hadoop.ipc.RetriableException",
  INTERNAL: "javax.ws.rs.WebApplicationException",
} as const satisfies Record<ErrorCode, string>;

/**
 * The answer for a failure, on any path. `diagnostics` (seed 001, ServiceStatus) is added below
 * `/app/v1`, `RemoteException` below `/ws/v1/cluster`.
 */
export function problem(c: Context, failure: Failure): Response {
  const status = statusOf(failure);
  const body: Record<string, unknown> = {
    type: `urn:selvedge:problem:${failure.code.toLowerCase().replaceAll("_", "-")}`,
    title: TITLE[failure.code],
    status,
    detail: failure.message,
    code: failure.code,
    reason: failure.reason,
    hint: failure.hint,
    findings: failure.findings,
  };
  if (c.req.path.startsWith("/app/v1")) body["diagnostics"] = inOneText(failure);
  if (c.req.path.startsWith("/ws/v1/cluster")) body["RemoteException"] = remoteException(failure);
  const headers = new Headers({ "Content-Type": "application/problem+json" });
  if (failure.code === "UNAUTHENTICATED")
    headers.set("WWW-Authenticate", 'Bearer realm="selvedge"');
  if (failure.retryAfterMs !== undefined) {
    headers.set("Retry-After", String(Math.ceil(failure.retryAfterMs / 1_000)));
  }
  return new Response(JSON.stringify(body), { status, headers });
}

export function statusOf(failure: Failure): number {
  const { reason } = failure;
  if (reason !== undefined && Object.hasOwn(STATUS_OF_REASON, reason)) {
    return STATUS_OF_REASON[reason as keyof typeof STATUS_OF_REASON];
  }
  return STATUS[failure.code];
}

/** Hadoop's clients print `diagnostics` and nothing else, so it holds everything. */
function inOneText(failure: Failure): string {
  const findings = (failure.findings ?? []).map(({ path, message }) =>
    path === "" ? message : `${path}: ${message}`,
  );
  return [failure.message, ...findings, ...(failure.hint ? [failure.hint] : [])].join("\n");
}

function remoteException(failure: Failure) {
  const javaClassName = REMOTE_EXCEPTION[failure.code];
  return {
    exception: javaClassName.slice(javaClassName.lastIndexOf(".") + 1),
    message: inOneText(failure),
    javaClassName,
  };
}
