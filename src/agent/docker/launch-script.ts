/**
 * Reads what launch-context.ts has written. The launch script is where a resolved launch lies, also
 * for a run that an earlier agent has prepared; an image that keeps its entry point runs no script,
 * and gets the same environment and words from here.
 */
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { fail, ok, type Reply } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";

export type ScriptedLaunch = {
  readonly environment: Readonly<Record<string, string>>;
  /** One shell command line. */
  readonly command: string;
};

/** Far above what a launch context may have; its user could make the file any size. */
const BYTES_MAX = 4 * LIMITS.nodeMessageBytesMax;
const QUOTED = /'((?:[^']|'\\'')*)'/.source;
const EXPORT = new RegExp(`export ([A-Za-z_][A-Za-z0-9_]*)=(?:${QUOTED}|\\$\\$)\\n`, "y");
const OWN_PID = /(?:read -r JVM_PID _ < \/proc\/self\/stat && export JVM_PID\n)?/.source;
const EXEC = new RegExp(`${OWN_PID}exec \\S+ -c ${QUOTED}\\n$`, "y");

/** The file may be the container's user's by now: no link is followed, and no more read than there may be. */
export async function readLaunchScript(path: string): Promise<Reply<ScriptedLaunch>> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    if ((await file.stat()).size > BYTES_MAX) return changed();
    return parseLaunchScript(await file.readFile("utf8"));
  } finally {
    await file.close();
  }
}

/** Fails when somebody else has written it. */
export function parseLaunchScript(text: string): Reply<ScriptedLaunch> {
  const environment: Record<string, string> = {};
  let end = text.indexOf("\n") + 1;
  for (;;) {
    EXPORT.lastIndex = end;
    const [line, name, value] = EXPORT.exec(text) ?? [];
    if (line === undefined || name === undefined) break;
    end += line.length;
    // `$$`, as earlier agents wrote it, is the shell's pid, and there is no shell.
    if (value !== undefined) environment[name] = unquote(value);
  }
  EXEC.lastIndex = end;
  const command = EXEC.exec(text)?.[1];
  if (command === undefined) return changed();
  return ok({ environment, command: unquote(command) });
}

function changed(): Reply<never> {
  return fail("FAILED_PRECONDITION", "the launch script was changed");
}

function unquote(text: string): string {
  return text.replaceAll(`'\\''`, "'");
}
