/**
 * What the command's exit code says, in one table. 40–59 are Hadoop's LauncherExitCodes and 66–75
 * Apache Slider's SliderExitCodes (YARN's own copy of the latter counts one less; scripts written
 * for Slider go on working here). `selvedge --help` shows this table.
 */
import type { Failure } from "../shared/errors.ts";

export const EXIT_CODE = {
  OK: 0,
  OTHER: 1,
  USAGE: 2,
  INVALID_ARGUMENT: 40,
  UNAUTHORIZED: 41,
  NOT_FOUND: 44,
  CONNECTIVITY: 48,
  CONFLICT: 49,
  UNAVAILABLE: 53,
  NOT_READY: 54,
  EXCEPTION: 56,
  SERVICE_FAILED: 66,
  SERVICE_KILLED: 67,
  TIMED_OUT: 68,
  FINISHED_WITH_ERROR: 69,
  UNKNOWN_INSTANCE: 70,
  BAD_STATE: 71,
  DEPLOYMENT_FAILED: 73,
  INSTANCE_EXISTS: 75,
  INTERRUPTED: 130,
  TERMINATED: 143,
} as const;
export type ExitCode = (typeof EXIT_CODE)[keyof typeof EXIT_CODE];

/** In words, for `selvedge --help` and the documentation. */
export const EXIT_CODE_MEANINGS: Readonly<Record<ExitCode, string>> = {
  0: "done; with --wait: the service is what was asked for",
  1: "anything not named below",
  2: "wrong usage: unknown verb or option, missing argument, or a missing --yes",
  40: "an argument or a Yarnfile is not valid",
  41: "not logged in, or not allowed",
  44: "no such component, instance, node, registry path, context or file",
  48: "the cluster cannot be reached, or something else answers at its URL",
  49: "in conflict with the present state (of anything but a service)",
  53: "the cluster is there, but cannot do it now, or a limit is reached",
  54: "this machine is not ready to be a node: another agent has its directory, say",
  56: "the cluster failed in an unexpected way",
  66: "a service that was already running FAILED while it was waited for",
  67: "the service was stopped or destroyed by somebody else while it was waited for",
  68: "--timeout passed before the service was what was asked for",
  69: "a service that runs to an end (restart policy NEVER, ON_FAILURE) ended with an error",
  70: "no service of that name",
  71: "the service's present state does not allow it",
  73: "launch or start: the service FAILED before it was STABLE",
  75: "a service of that name exists already",
  130: "interrupted (Ctrl-C); what the cluster was told to do goes on",
  143: "terminated (SIGTERM); what the cluster was told to do goes on",
};

/** What a failure was about: the same code means more when it is about a service. */
export type Subject = "service" | "other";

/** The exit code of an answer of the cluster. */
export function exitCodeOf(failure: Failure, subject: Subject): ExitCode {
  const service = subject === "service";
  switch (failure.code) {
    case "INVALID_ARGUMENT":
      return EXIT_CODE.INVALID_ARGUMENT;
    case "UNAUTHENTICATED":
    case "PERMISSION_DENIED":
      return EXIT_CODE.UNAUTHORIZED;
    case "NOT_FOUND":
      return service ? EXIT_CODE.UNKNOWN_INSTANCE : EXIT_CODE.NOT_FOUND;
    case "ALREADY_EXISTS":
      return service ? EXIT_CODE.INSTANCE_EXISTS : EXIT_CODE.CONFLICT;
    case "FAILED_PRECONDITION":
      return service ? EXIT_CODE.BAD_STATE : EXIT_CODE.CONFLICT;
    case "RESOURCE_EXHAUSTED":
    case "UNAVAILABLE":
      return EXIT_CODE.UNAVAILABLE;
    case "INTERNAL":
      return EXIT_CODE.EXCEPTION;
  }
}
