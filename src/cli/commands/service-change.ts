/**
 * Sending a change of a service, and what comes after: waiting until the service is what was asked
 * for, and saying how it went.
 */
import type { Command } from "commander";
import { servicesClient } from "../../client/services.ts";
import { seconds } from "../arguments.ts";
import { oneLine } from "../output.ts";
import { formatOutcome } from "../service-text.ts";
import type { Session } from "../session.ts";
import { type Goal, waitFor } from "../wait.ts";

export type WaitFlags = { readonly wait?: boolean; readonly timeout?: number };

/** Longer than any healthy start; a person notices sooner, a CI job must end some time. */
const WAIT_SECONDS = 300;

export const clientOf = (session: Session) =>
  servicesClient(session.http(), session.connection().user);

export function withWait(command: Command, until: string): Command {
  return command
    .option("--wait", `wait until ${until}; the exit code says whether it is`)
    .option("--timeout <seconds>", `longest wait (default: ${WAIT_SECONDS})`, seconds);
}

/** Sends one change, then waits if that is wanted, then says how it went. */
export async function change(
  session: Session,
  name: string,
  options: WaitFlags,
  goal: Goal,
  done: string,
  send: () => Promise<{ readonly diagnostics?: string } | undefined>,
): Promise<void> {
  const earlier = options.wait ? await clientOf(session).events(name) : [];
  const status = await send();
  if (options.wait) return finishWait(session, name, goal, options, earlier);
  session.output.result(status ?? {}, () =>
    session.output.quiet ? "" : [`service ${name} ${done}`, ...linesOf(status)].join("\n"),
  );
}

export async function finishWait(
  session: Session,
  name: string,
  goal: Goal,
  options: WaitFlags,
  earlier: Parameters<typeof waitFor>[4]["earlier"],
): Promise<void> {
  const timeoutSeconds = options.timeout ?? WAIT_SECONDS;
  const view = await waitFor(session, clientOf(session), name, goal, { timeoutSeconds, earlier });
  session.output.result(view ?? {}, () => {
    if (session.output.quiet) return "";
    return view === null ? `service ${name} is gone` : formatOutcome(view);
  });
}

/** A line for each thing that the cluster says it changed. */
function linesOf(status: { readonly diagnostics?: string } | undefined): readonly string[] {
  return (status?.diagnostics ?? "")
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => `  ${oneLine(line)}`);
}
