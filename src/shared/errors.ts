/**
 * Failures as values. Core functions and Durable Object methods answer with a `Reply`; nothing
 * that is expected is ever thrown across a boundary. Programmer errors throw through `assert`.
 */

/** A tenth code needs a caller that would act on the difference. HTTP statuses: worker/problem.ts. */
export const ERROR_CODES = [
  "INVALID_ARGUMENT",
  "UNAUTHENTICATED",
  "PERMISSION_DENIED",
  "NOT_FOUND",
  "ALREADY_EXISTS",
  "FAILED_PRECONDITION",
  "RESOURCE_EXHAUSTED",
  "UNAVAILABLE",
  "INTERNAL",
] as const;
export type ErrorCode = (typeof ERROR_CODES)[number];

export type Failure = {
  readonly code: ErrorCode;
  /** One sentence that names the thing and what is wrong with it. Read by people. */
  readonly message: string;
  /** What would be right, or the command that helps. */
  readonly hint?: string;
  /** A finer name where the source has one, such as Hadoop's exception `PathNotFoundException`. */
  readonly reason?: string;
  /** Every single finding of a validation, with the path of the field (`components[0].resource.cpus`). */
  readonly findings?: readonly Finding[];
  /** When asking again may help, from now. */
  readonly retryAfterMs?: number;
};

export type Finding = { readonly path: string; readonly message: string };

export type Reply<Value> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly error: Failure };

export function ok(): { readonly ok: true; readonly value: undefined };
export function ok<Value>(value: Value): { readonly ok: true; readonly value: Value };
export function ok<Value>(value?: Value) {
  return { ok: true, value } as const;
}

export function fail(
  code: ErrorCode,
  message: string,
  more: Omit<Failure, "code" | "message"> = {},
): { readonly ok: false; readonly error: Failure } {
  return { ok: false, error: { code, message, ...more } };
}

/** Stops on a programmer's error; the sentence says what must hold. */
export function assert(condition: unknown, sentence: string): asserts condition {
  if (!condition) throw new Error(`assertion failed: ${sentence}`);
}
