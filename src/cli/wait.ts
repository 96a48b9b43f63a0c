/**
 * Waiting until a service is what was asked for, with the truth as exit code: reached, failed,
 * stopped by somebody else, or not in time. The Service API offers no push, so this asks again:
 * quickly at first, because a service is usually up in well under a second, then once a second.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { ProblemError } from "../client/problem-error.ts";
import type { ServicesClient } from "../client/services.ts";
import type { Failure } from "../shared/errors.ts";
import type { ServiceEvent } from "../shared/protocol/service.ts";
import type { ComponentView, ServiceView } from "../shared/service.ts";
import { CliError } from "./errors.ts";
import { EXIT_CODE, type ExitCode } from "./exit-codes.ts";
import { Interrupted } from "./io.ts";
import { componentLine, countContainers, createProgress, type Progress } from "./progress.ts";
import type { Session } from "./session.ts";

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1_000;
/** A control plane that restarts is back long before; one that is gone should be said to be gone. */
const UNREACHABLE_MAX_MS = 30_000;

/** `null` stands for a service that does not exist (any more). */
type Judgement = "reached" | "waiting" | CliError;
export type Goal = {
  /** Completes "service hello is not …". */
  wanted(view: ServiceView | null): string;
  judge(name: string, view: ServiceView | null): Judgement;
};

/** After launch and start: every container ready; or, for work that is meant to end, its end. */
export const STABLE: Goal = {
  wanted: (view) => (view !== null && isWork(view) ? "finished" : "STABLE"),
  judge(name, view) {
    if (view === null) return killed(name, "was destroyed");
    if (view.state === "SUCCEEDED") return "reached";
    if (view.state === "STABLE") return isWork(view) ? "waiting" : "reached";
    if (view.state === "STOPPED") return killed(name, "was stopped");
    if (view.state === "FAILED") return failed(name, view, EXIT_CODE.DEPLOYMENT_FAILED);
    return "waiting";
  },
};

/** After flex: the named components have exactly the containers they shall have, all ready. */
export function flexed(components: readonly string[]): Goal {
  return {
    wanted: () => "at its new size",
    judge(name, view) {
      if (view === null) return killed(name, "was destroyed");
      if (view.state === "STOPPED") return killed(name, "was stopped");
      if (view.state === "FAILED") return failed(name, view, EXIT_CODE.SERVICE_FAILED);
      if (view.state === "SUCCEEDED") return "reached";
      const settled = view.components
        .filter((component) => components.includes(component.name))
        .every(isSettled);
      return settled ? "reached" : "waiting";
    },
  };
}

export const STOPPED: Goal = {
  wanted: () => "STOPPED",
  judge(name, view) {
    if (view === null) return killed(name, "was destroyed");
    const ended = view.state === "STOPPED" || view.state === "FAILED" || view.state === "SUCCEEDED";
    return ended && view.number_of_running_containers === 0 ? "reached" : "waiting";
  },
};

export const GONE: Goal = {
  wanted: () => "gone",
  judge: (_name, view) => (view === null ? "reached" : "waiting"),
};

export type WaitOptions = {
  readonly timeoutSeconds: number;
  /** Events from before the change; they are not shown. */
  readonly earlier: readonly ServiceEvent[];
};

/** The service as it was when the goal was reached; throws a `CliError` when it cannot be. */
export async function waitFor(
  session: Session,
  services: ServicesClient,
  name: string,
  goal: Goal,
  options: WaitOptions,
): Promise<ServiceView | null> {
  const progress = createProgress(session.io, session.output.quiet);
  const seen = new Set(options.earlier.map(keyOf));
  const deadlineMs = Date.now() + options.timeoutSeconds * 1_000;
  let reachableMs = Date.now();
  let last: ServiceView | null = null;
  let pauseMs = FIRST_PAUSE_MS;
  try {
    for (;;) {
      try {
        last = await look(services, name, seen, progress);
        reachableMs = Date.now();
        const judgement = goal.judge(name, last);
        if (judgement === "reached") return last;
        if (judgement !== "waiting") throw judgement;
      } catch (error) {
        const passing = error instanceof ProblemError && error.failure.code === "UNAVAILABLE";
        if (!passing || Date.now() - reachableMs > UNREACHABLE_MAX_MS) throw error;
        progress.note(`${error.message}; trying again`);
      }
      const leftMs = deadlineMs - Date.now();
      if (leftMs <= 0) throw timedOut(name, goal, last, options.timeoutSeconds);
      await sleep(Math.min(pauseMs, leftMs), undefined, { signal: session.io.signal });
      pauseMs = Math.min(pauseMs * 1.5, LONGEST_PAUSE_MS);
    }
  } catch (error) {
    if (!session.io.signal.aborted) throw error;
    throw interrupted(session, name);
  } finally {
    progress.close();
  }
}

/** One look at the service and what happened to it since the last; null when it does not exist. */
async function look(
  services: ServicesClient,
  name: string,
  seen: Set<string>,
  progress: Progress,
): Promise<ServiceView | null> {
  try {
    const view = await services.get(name);
    for (const event of await services.events(name)) {
      if (seen.has(keyOf(event))) continue;
      seen.add(keyOf(event));
      progress.event(event);
    }
    progress.update(view);
    return view;
  } catch (error) {
    if (error instanceof ProblemError && error.failure.code === "NOT_FOUND") return null;
    throw error;
  }
}

function keyOf(event: ServiceEvent): string {
  return JSON.stringify([event.timeMs, event.type, event.component, event.instance, event.message]);
}

/** No component runs for ever: such a service is over when all have succeeded, or one failed. */
function isWork({ components }: ServiceView): boolean {
  return (
    components.length > 0 && components.every(({ restart_policy }) => restart_policy !== "ALWAYS")
  );
}

function isSettled(component: ComponentView): boolean {
  const { ready, starting } = countContainers(component);
  return component.state === "STABLE" && starting === 0 && ready === component.number_of_containers;
}

function killed(name: string, what: string): CliError {
  return new CliError(EXIT_CODE.SERVICE_KILLED, {
    code: "FAILED_PRECONDITION",
    message: `service ${name} ${what} while it was waited for`,
  });
}

/** A component that is meant to end, and ended badly, is an error of the work, not of running it. */
function failed(name: string, view: ServiceView, otherwise: ExitCode): CliError {
  const finished = view.components.some(
    ({ state, restart_policy }) => state === "FAILED" && restart_policy !== "ALWAYS",
  );
  return new CliError(finished ? EXIT_CODE.FINISHED_WITH_ERROR : otherwise, {
    code: "FAILED_PRECONDITION",
    message: `service ${name} FAILED${view.diagnostics === "" ? "" : `: ${view.diagnostics}`}`,
    hint: `\`selvedge service logs ${name}\` and \`selvedge service events ${name}\` say more`,
    ...findingsOf(view),
  });
}

function timedOut(name: string, goal: Goal, view: ServiceView | null, seconds: number): CliError {
  const now = view === null ? "it cannot be seen" : `it is ${view.state}`;
  const why = view === null || view.diagnostics === "" ? "" : `: ${view.diagnostics}`;
  return new CliError(EXIT_CODE.TIMED_OUT, {
    code: "UNAVAILABLE",
    message: `service ${name} is not ${goal.wanted(view)} after ${seconds} s; ${now}${why}`,
    hint: `it goes on all the same; see \`selvedge service status ${name}\``,
    ...findingsOf(view),
  });
}

function findingsOf(view: ServiceView | null): Pick<Failure, "findings"> {
  const findings = (view?.components ?? [])
    .filter((component) => !isSettled(component))
    .map((component) => ({ path: "", message: componentLine(component) }));
  return findings.length === 0 ? {} : { findings };
}

function interrupted(session: Session, name: string): CliError {
  const reason: unknown = session.io.signal.reason;
  const terminated = reason instanceof Interrupted && reason.by === "SIGTERM";
  return new CliError(terminated ? EXIT_CODE.TERMINATED : EXIT_CODE.INTERRUPTED, {
    code: "UNAVAILABLE",
    message: `stopped waiting for service ${name}; the cluster goes on with what it was told`,
    hint: `see \`selvedge service status ${name}\``,
  });
}
