/**
 * Finding and ending the processes of one local cluster: the Worker's process and its workerd, the
 * agents, and the containers, also those whose parent is gone. `npm start`, the Worker's process
 * and the end-to-end tests use it to make sure that nothing survives them.
 *
 * The Worker and the agents are known by an environment variable that holds the cluster's home;
 * a container by YARN's CONTAINER_ID together with a path below that home. A shell that somebody
 * has opened in the home is neither. Environments are read from /proc, so elsewhere than on Linux
 * nothing is found and only the processes started directly are ended.
 */
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

export type ClusterProcess = { readonly pid: number; readonly command: string };

const HOME_VARIABLE = "SELVEDGE_LOCAL_CLUSTER";
const POLL_MS = 20;

/** What marks a process as belonging to the cluster with this (absolute) home. */
export function clusterMark(home: string): Record<string, string> {
  return { [HOME_VARIABLE]: home };
}

/** Every living process of the cluster but the calling one. */
export function clusterProcesses(home: string): ClusterProcess[] {
  const found: ClusterProcess[] = [];
  for (const pid of processIds()) {
    if (pid === process.pid) continue;
    const environment = readProc(pid, "environ");
    if (!belongsTo(home, environment)) continue;
    found.push({ pid, command: readProc(pid, "cmdline").replaceAll("\0", " ").trim() });
  }
  return found;
}

function belongsTo(home: string, environment: string): boolean {
  const variables = environment.split("\0");
  if (variables.includes(`${HOME_VARIABLE}=${home}`)) return true;
  const isContainer = variables.some((variable) => variable.startsWith("CONTAINER_ID=container_"));
  return isContainer && variables.some((variable) => variable.includes(`${home}/`));
}

function processIds(): number[] {
  try {
    return readdirSync("/proc").map(Number).filter(Number.isInteger);
  } catch {
    return [];
  }
}

/** Empty where the process is gone meanwhile, a zombie, or another user's. */
function readProc(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    return "";
  }
}

/**
 * Ends every process of the cluster but the calling one: SIGTERM, up to `graceMs`, SIGKILL.
 * Answers those that had to be killed.
 */
export async function endClusterProcesses(
  home: string,
  graceMs: number,
): Promise<ClusterProcess[]> {
  for (const { pid } of clusterProcesses(home)) signal(pid, "SIGTERM");
  const deadline = Date.now() + graceMs;
  while (clusterProcesses(home).length > 0 && Date.now() < deadline) await delay(POLL_MS);
  const stubborn = clusterProcesses(home);
  // Killing a parent can bring forth nothing new, but a fork may have raced with the listing.
  while (clusterProcesses(home).length > 0) {
    for (const { pid } of clusterProcesses(home)) signal(pid, "SIGKILL");
    await delay(POLL_MS);
  }
  return stubborn;
}

/** Sends a signal to a process, or to a process group by its negative id; gone already is fine. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
