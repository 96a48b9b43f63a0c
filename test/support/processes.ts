/**
 * The processes of containers, as the operating system knows them: end-to-end tests compare what the
 * cluster says with what runs, and take containers away behind its back. Linux only, like the agent.
 */
import { readdirSync, readFileSync } from "node:fs";
import { type ClusterProcess, signal } from "../../scripts/processes.ts";

/**
 * The container ids in the environments of all living processes of a cluster's containers, one for
 * each process, sorted. A container of one process that is there twice was started twice.
 */
export function runningContainers(home: string): string[] {
  return processesNaming(`${home}/nodes/`)
    .flatMap(({ pid }) => processEnvironment(pid))
    .filter((variable) => variable.startsWith("CONTAINER_ID="))
    .map((variable) => variable.slice("CONTAINER_ID=".length))
    .toSorted();
}

/** Every living process of the container, found by YARN's CONTAINER_ID in its environment. */
export function containerProcesses(containerId: string): number[] {
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry))
    .filter((pid) => environmentOf(pid).includes(`CONTAINER_ID=${containerId}`))
    .map(Number);
}

/**
 * Every living process, but this one, with `text` in its environment or its command line. With a
 * cluster's home these are all its processes, the containers' supervising shells among them.
 */
export function processesNaming(text: string): ClusterProcess[] {
  const found: ClusterProcess[] = [];
  for (const entry of readdirSync("/proc")) {
    if (!/^\d+$/.test(entry) || Number(entry) === process.pid) continue;
    const command = commandLineOf(entry);
    const names =
      command.includes(text) || environmentOf(entry).some((each) => each.includes(text));
    if (names) found.push({ pid: Number(entry), command: command.trim() });
  }
  return found;
}

/** The environment of a process, one `NAME=value` each; empty for one that has ended meanwhile. */
export function processEnvironment(pid: number): string[] {
  return environmentOf(String(pid));
}

/** SIGKILL to every process of the container, as the kernel does when memory runs out. */
export function killContainer(containerId: string): void {
  const pids = containerProcesses(containerId);
  if (pids.length === 0) throw new Error(`${containerId} has no process that could be killed.`);
  for (const pid of pids) signal(pid, "SIGKILL");
}

/** Empty for a zombie and for a process that has ended meanwhile. */
function environmentOf(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
  } catch {
    return [];
  }
}

function commandLineOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
  } catch {
    return "";
  }
}
