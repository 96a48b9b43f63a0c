/**
 * The processes of containers, as the operating system knows them: end-to-end tests compare what the
 * cluster says with what runs, and take containers away behind its back. Linux only, like the agent.
 */
import { readdirSync, readFileSync } from "node:fs";
import { signal } from "../../scripts/processes.ts";

/** Every living process of the container, found by YARN's CONTAINER_ID in its environment. */
export function containerProcesses(containerId: string): number[] {
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry))
    .filter((pid) => environmentOf(pid).includes(`CONTAINER_ID=${containerId}`))
    .map(Number);
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
