/**
 * What to start for a program that is run in a container of processes beside its own: as its user, in
 * its control groups and limits, in its directory, with its environment.
 *
 * The environment travels under other names until the rights are gone: a variable such as LD_PRELOAD
 * would otherwise run a user's code with the agent's rights. Only what the container is known by
 * (process-trees.ts) has its own name from the start, so that nothing that is run is ever missed.
 */
import { dirname } from "node:path";
import type { ContainerId } from "../shared/ids.ts";

/** A program to be run beside a container's own. */
export type ExecRequest = {
  readonly containerId: ContainerId;
  /** The container's present one. */
  readonly run: number;
  readonly user: string;
  readonly workDirectory: string;
  /** As the container's own program got it. */
  readonly environment: Readonly<Record<string, string>>;
  /** Files to write `0` to, which enter the container's control groups. */
  readonly entrances: readonly string[];
  readonly command: readonly string[];
  readonly stdin: boolean;
  readonly isTerminal: boolean;
  /** Tells what is run from everything else, as EXEC_MARK in its environment. */
  readonly mark: string;
};

/** Words and environment of the process that the agent starts for it. */
export type ExecCommand = {
  readonly words: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
};

/** How rights are taken away: see Confinement. `words` become the program that follows them. */
export type ExecConfinement = { readonly preamble: string; readonly words: readonly string[] };

/** Stays in the environment of the shell that leads what is run. */
export const EXEC_MARK = "_SELVEDGE_EXEC";
const PREFIX = "_SELVEDGE_ENV_";

/** With the agent's rights: it runs nothing of the user's. */
const ENTER = `
preamble=$1 entrances=$2
shift 2
while [ "$entrances" -gt 0 ]; do
  echo 0 > "$1" || exit 126
  shift
  entrances=$((entrances - 1))
done
eval "$preamble"
unset preamble entrances
exec "$@"
`;

/**
 * As the user. The shell stays, so that whatever the program does to its own environment, its parent
 * is known; it outlives an interrupt from a terminal, to tell how the program has ended. It has no
 * variable of its own that a container's could have the name of.
 */
const RUN = `
cd "$1" || exit 126
for ${PREFIX} in $2; do
  eval "export $${PREFIX}=\\"\\$${PREFIX}$${PREFIX}\\""
  unset "${PREFIX}$${PREFIX}"
done
shift 2
unset ${PREFIX} OLDPWD ${EXEC_MARK}
trap : INT QUIT
(exec "$@")
exit $?
`;

export function execCommand(
  request: ExecRequest,
  { preamble, words }: ExecConfinement,
): ExecCommand {
  const { containerId, workDirectory, entrances } = request;
  const enter = ["/bin/sh", "-c", ENTER, "selvedge-exec", preamble, String(entrances.length)];
  return {
    words: [...enter, ...entrances, ...words, ...runWords(request)],
    environment: {
      PATH: process.env["PATH"] ?? "/usr/local/bin:/usr/bin:/bin",
      // Not as the launch script says it, which is the user's to change.
      ...{ CONTAINER_ID: containerId, LOCAL_DIRS: dirname(workDirectory) },
      ...hiddenEnvironment(request),
    },
  };
}

/** What runs the program as its user, where there is a POSIX shell; it needs `hiddenEnvironment`. */
export function runWords({ workDirectory, environment, command }: ExecRequest): string[] {
  const names = Object.keys(environment).join(" ");
  return ["/bin/sh", "-c", RUN, "selvedge-exec", workDirectory, names, ...command];
}

/** Does nothing to a program that does not know of it. */
export function hiddenEnvironment({ environment, mark }: ExecRequest): Record<string, string> {
  const hidden = Object.entries(environment).map(([name, value]) => [`${PREFIX}${name}`, value]);
  return { [EXEC_MARK]: mark, ...Object.fromEntries(hidden) };
}
