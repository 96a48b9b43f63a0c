/**
 * From any thrown error to what a person reads, what a program reads, and the exit code. The form
 * is fixed: one `error:` line, one `hint:` line, then the findings with their paths.
 */
import { CommanderError } from "commander";
import { ProblemError } from "../client/problem-error.ts";
import type { ErrorCode, Failure } from "../shared/errors.ts";
import { EXIT_CODE, type ExitCode, exitCodeOf, type Subject } from "./exit-codes.ts";
import { Interrupted } from "./io.ts";

/** An expected failure of the command itself, with the exit code that tells the truth about it. */
export class CliError extends Error {
  override readonly name = "CliError";
  readonly failure: Failure;
  readonly exitCode: ExitCode;
  constructor(exitCode: ExitCode, failure: Failure) {
    super(failure.message);
    this.exitCode = exitCode;
    this.failure = failure;
  }
}

/** Wrong usage: what was wrong, and what would be right. */
export function usageError(message: string, hint?: string): CliError {
  return cliError(EXIT_CODE.USAGE, "INVALID_ARGUMENT", message, hint);
}

export function cliError(
  exitCode: ExitCode,
  code: ErrorCode,
  message: string,
  hint?: string,
): CliError {
  return new CliError(exitCode, { code, message, ...(hint === undefined ? {} : { hint }) });
}

/** All that is said about an error, in either form. */
export type ErrorReport = {
  readonly exitCode: ExitCode;
  readonly failure: Failure;
  readonly status: number | null;
  readonly requestId: string | null;
  readonly stack: string | undefined;
};

export function reportOf(error: unknown, subject: Subject): ErrorReport {
  const stack = error instanceof Error ? error.stack : undefined;
  const plain = { status: null, requestId: null, stack };
  if (error instanceof CliError) {
    return { ...plain, exitCode: error.exitCode, failure: error.failure };
  }
  if (error instanceof ProblemError) {
    const { failure, status, requestId } = error;
    return { exitCode: exitCodeOfProblem(error, subject), failure, status, requestId, stack };
  }
  if (error instanceof CommanderError) {
    return { ...plain, exitCode: EXIT_CODE.USAGE, failure: failureOfUsage(error) };
  }
  if (error instanceof Interrupted) {
    const exitCode = error.by === "SIGINT" ? EXIT_CODE.INTERRUPTED : EXIT_CODE.TERMINATED;
    const failure: Failure = { code: "UNAVAILABLE", message: error.message };
    return { ...plain, exitCode, failure };
  }
  const message = error instanceof Error ? error.message : String(error);
  return { ...plain, exitCode: EXIT_CODE.OTHER, failure: { code: "INTERNAL", message } };
}

function exitCodeOfProblem(error: ProblemError, subject: Subject): ExitCode {
  if (error.origin === "answer") return exitCodeOf(error.failure, subject);
  if (error.failure.code === "INVALID_ARGUMENT") return EXIT_CODE.INVALID_ARGUMENT;
  return error.failure.code === "UNAUTHENTICATED" || error.failure.code === "PERMISSION_DENIED"
    ? EXIT_CODE.UNAUTHORIZED
    : EXIT_CODE.CONNECTIVITY;
}

/** Commander puts its suggestion in the message, in brackets on a line of its own. */
function failureOfUsage(error: CommanderError): Failure {
  const [first = "", ...rest] = error.message.replace(/^error: /, "").split("\n");
  const suggestion = rest.join(" ").match(/\((.*)\)/)?.[1];
  const hint = suggestion?.replace("Did", "did") ?? "see `selvedge --help`";
  return { code: "INVALID_ARGUMENT", message: first, hint };
}

/** For people. `verbose` adds what an operator needs to find the request in the log. */
export function formatError(report: ErrorReport, verbose: boolean): string {
  const { failure } = report;
  const lines = [`error: ${failure.message}`];
  if (failure.hint !== undefined) lines.push(`hint: ${failure.hint}`);
  for (const { path, message } of failure.findings ?? []) {
    lines.push(`  - ${path === "" ? "" : `${path}: `}${message}`);
  }
  if (verbose) {
    lines.push(`code: ${failure.code}${failure.reason === undefined ? "" : ` ${failure.reason}`}`);
    if (report.status !== null) lines.push(`status: ${report.status}`);
    if (report.requestId !== null) lines.push(`request id: ${report.requestId}`);
    if (report.stack !== undefined) lines.push(report.stack);
  }
  return lines.join("\n");
}

/** For programs: one line of JSON. */
export function errorAsJson(report: ErrorReport, verbose: boolean): string {
  const { failure, exitCode, status, requestId, stack } = report;
  return JSON.stringify({
    error: {
      ...failure,
      exitCode,
      ...(status === null ? {} : { status }),
      ...(requestId === null ? {} : { requestId }),
      ...(verbose && stack !== undefined ? { stack } : {}),
    },
  });
}
