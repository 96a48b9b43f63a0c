/**
 * The one error that a typed client throws: what the cluster answered, or why it could not be
 * asked, as the same `Failure` that the cluster's own functions answer with. It never holds the
 * request's headers or body, so that printing it whole gives away no token.
 */
import { ERROR_CODES, type ErrorCode, type Failure, type Finding } from "../shared/errors.ts";

/** Where a request ended: with an answer of the cluster, or before one could be had. */
export type ProblemOrigin = "answer" | "connection" | "not-a-cluster";

export class ProblemError extends Error {
  override readonly name = "ProblemError";
  readonly failure: Failure;
  readonly origin: ProblemOrigin;
  /** HTTP status of the answer; null when there was none. */
  readonly status: number | null;
  /** The answer's request id, by which the operator finds it in the log. */
  readonly requestId: string | null;

  constructor(
    failure: Failure,
    from: {
      readonly origin: ProblemOrigin;
      readonly status?: number;
      readonly requestId?: string | null;
      readonly cause?: unknown;
    },
  ) {
    super(failure.message, { cause: from.cause });
    this.failure = failure;
    this.origin = from.origin;
    this.status = from.status ?? null;
    this.requestId = from.requestId ?? null;
  }
}

/**
 * Reads an error body in any of the three forms a YARN endpoint answers with: problem+json, the
 * Service API's `diagnostics`, and Hadoop's `RemoteException` (bare or wrapped).
 */
export function failureOfBody(body: unknown, status: number): Failure {
  const outer = asObject(body);
  const remote = asObject(outer["RemoteException"] ?? body);
  const code = ERROR_CODES.find((known) => known === outer["code"]) ?? codeOfStatus(status);
  const message =
    text(outer["detail"]) ??
    text(outer["diagnostics"]) ??
    text(remote["message"]) ??
    text(outer["title"]) ??
    `the cluster answered with status ${status}`;
  const hint = text(outer["hint"]);
  const reason = text(outer["reason"]) ?? text(remote["exception"]);
  const findings = findingsOf(outer["findings"]);
  return {
    code,
    message,
    ...(hint === undefined ? {} : { hint }),
    ...(reason === undefined ? {} : { reason }),
    ...(findings.length === 0 ? {} : { findings }),
  };
}

/** For answers that name no code, such as those of a proxy in between. */
export function codeOfStatus(status: number): ErrorCode {
  const known: Readonly<Record<number, ErrorCode>> = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "UNAVAILABLE",
  };
  return known[status] ?? (status < 500 ? "INVALID_ARGUMENT" : "INTERNAL");
}

function findingsOf(value: unknown): readonly Finding[] {
  if (!Array.isArray(value)) return [];
  return value.map((entry) => {
    const finding = asObject(entry);
    return { path: text(finding["path"]) ?? "", message: text(finding["message"]) ?? "is invalid" };
  });
}

function asObject(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Readonly<Record<string, unknown>>)
    : {};
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
