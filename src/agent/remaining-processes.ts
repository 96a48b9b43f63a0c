/**
 * What is left of a container when its process is gone, and is ended with it: daemons that have left
 * its session and its parents behind. Where a control group holds a container, the kernel knows them
 * all; here they are known by what process-trees.ts knows them by. One that has also wiped its
 * environment, before the monitor ever saw it, is known by nothing.
 */
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { ContainerId } from "../shared/ids.ts";
import type { ContainersMonitor } from "./containers-monitor.ts";
import { codeOf } from "./log.ts";
import { type ProcessStat, readProcesses, readStat } from "./process-table.ts";
import { type Mark, ownerOf, type ProcessLeader, readMarks } from "./process-trees.ts";

/** Also how long a killed process takes to be gone. */
const LOOK_AGAIN_MS = 20;
const LOOKS_MAX = 100;

/**
 * SIGKILL to all that is left of a container, again and again, since a process may fork while it is
 * looked for; `killTree` besides, which a group of processes cannot fork away from. Resolves when
 * nothing is left, or with false after 2 s.
 */
export async function endRemaining(
  monitor: ContainersMonitor,
  containerId: ContainerId,
  leader: ProcessLeader,
  killTree: () => void,
): Promise<boolean> {
  for (let look = 0; look < LOOKS_MAX; look++) {
    const left = await monitor.processesOf(containerId, leader);
    if (left.length === 0) return true;
    killTree();
    for (const stat of left) kill(stat);
    await delay(LOOK_AGAIN_MS);
  }
  return false;
}

/**
 * At the agent's start: SIGKILL to what is left of containers of these local directories that are
 * over, or that nobody knows any more.
 */
export function endStrays(
  localDirectories: readonly string[],
  isRunning: (containerId: ContainerId) => boolean,
): void {
  for (const stat of readProcesses()) {
    const marks = readMarks(stat) ?? [];
    const isStray = (mark: Mark) =>
      isOfNode(mark, localDirectories) && !isRunning(mark.containerId);
    if (marks.some(isStray)) kill(stat);
  }
}

/** A directory that only this node has is named, and whoever runs the container names it. */
function isOfNode({ containerId, environment }: Mark, localDirectories: readonly string[]) {
  if (!environment) return false;
  const { uid } = environment;
  return environment.localDirectories
    .filter((path) => localDirectories.some((ours) => path.startsWith(join(ours, "usercache/"))))
    .some((path) => uid === (ownerOf(join(path, containerId)) ?? process.getuid?.()));
}

function kill({ pid, startTicks }: ProcessStat): void {
  if (pid === process.pid || readStat(pid)?.startTicks !== startTicks) return;
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    // Gone by itself in between, or another user's and not ours to end.
    if (codeOf(error) !== "ESRCH" && codeOf(error) !== "EPERM") throw error;
  }
}
