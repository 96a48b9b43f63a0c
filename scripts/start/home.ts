/**
 * The home folder of a local cluster: who is using it, and the administrator's token that is kept
 * in it. The token is readable by its owner alone.
 */
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { clusterProcesses, endClusterProcesses, isAlive } from "../processes.ts";
import { StartError } from "./options.ts";

const LEFTOVER_GRACE_MS = 5_000;

/**
 * Takes the home for this process, ending what an `npm start` that was killed has left running.
 * Throws a StartError when another one is using it. Answers how to give it back.
 */
export async function occupyHome(home: string): Promise<() => void> {
  mkdirSync(home, { recursive: true, mode: 0o700 });
  const file = join(home, "start.pid");
  const owner = Number(read(file) ?? 0);
  if (owner > 0 && owner !== process.pid && isAlive(owner) && isStart(owner)) {
    throw new StartError(
      `The cluster in ${home} is running already (process ${owner}): stop it with Ctrl-C there, ` +
        "or start a second one with SELVEDGE_HOME=.selvedge-2 PORT=8090 npm start",
    );
  }
  if (clusterProcesses(home).length > 0) await endClusterProcesses(home, LEFTOVER_GRACE_MS);
  writeFileSync(file, String(process.pid));
  return () => rmSync(file, { force: true });
}

/** A process id may have been given to somebody else since. */
function isStart(pid: number): boolean {
  const command = read(`/proc/${pid}/cmdline`);
  return command === undefined || command.includes("start");
}

export function adminTokenFile(home: string): string {
  return join(home, "admin.token");
}

/** Undefined before the cluster has been claimed. */
export function readAdminToken(home: string): string | undefined {
  return read(adminTokenFile(home))?.trim();
}

/** Whole or not at all, and never readable by others, not even for a moment. */
export function writeAdminToken(home: string, token: string): void {
  const file = adminTokenFile(home);
  writeFileSync(`${file}.new`, `${token}\n`, { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

function read(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return undefined;
  }
}
