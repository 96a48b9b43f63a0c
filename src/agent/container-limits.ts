/**
 * What the ContainersMonitor allows a container, and what it says when one goes beyond. YARN's rule
 * for memory: too much at once above twice the limit; above the limit only when processes older
 * than one round exceed it, so that a burst of forks is forgiven once. YARN's words, too: clients
 * look for them in the diagnostics.
 */
import { EXIT } from "../shared/container.ts";
import type { ContainerId } from "../shared/ids.ts";
import type { ProcessStat } from "./process-table.ts";

const MEGABYTE = 1_048_576;
/** A dump of thousands of processes helps nobody, and the diagnostics are cut anyhow. */
const TREE_LENGTH_MAX = 4_000;

/** Absent: not checked. Bytes, and a number of processes. */
export type ContainerLimits = {
  readonly physicalBytes?: number;
  readonly virtualBytes?: number;
  readonly processes?: number;
};

/** One container's processes at one moment; `aged…` is of those seen a round earlier already. */
export type TreeUsage = {
  readonly physicalBytes: number;
  readonly agedPhysicalBytes: number;
  readonly virtualBytes: number;
  readonly agedVirtualBytes: number;
  readonly processes: readonly ProcessStat[];
};

/** For the order that ends the container. */
export type Overrun = { readonly exitStatus: number; readonly diagnostics: string };

/** A container as diagnostics name it. */
export type Named = { readonly containerId: ContainerId; readonly pid: number };

/** The limit that a container is beyond, if there is one. Virtual memory is looked at first. */
export function findOverrun(
  container: Named,
  usage: TreeUsage,
  limits: ContainerLimits,
  pageBytes: number,
): Overrun | undefined {
  const { physicalBytes, virtualBytes, processes } = limits;
  const memoryKill = (kind: "virtual" | "physical", exitStatus: number) => ({
    exitStatus,
    diagnostics:
      `${nameOf(container)} is running beyond ${kind} memory limits. Current usage: ` +
      `${describeUse(usage.physicalBytes, physicalBytes)} physical memory used; ` +
      `${describeUse(usage.virtualBytes, virtualBytes)} virtual memory used. Killing container.\n` +
      describeTree(container.containerId, usage.processes, pageBytes),
  });
  if (isBeyond(usage.virtualBytes, usage.agedVirtualBytes, virtualBytes)) {
    return memoryKill("virtual", EXIT.KILLED_EXCEEDED_VMEM);
  }
  if (isBeyond(usage.physicalBytes, usage.agedPhysicalBytes, physicalBytes)) {
    return memoryKill("physical", EXIT.KILLED_EXCEEDED_PMEM);
  }
  if (processes === undefined || usage.processes.length <= processes) return undefined;
  return {
    exitStatus: EXIT.FORCE_KILLED,
    diagnostics:
      `${nameOf(container)} is running beyond its limit of processes. Current usage: ` +
      `${usage.processes.length} of ${processes} processes. Killing container.\n` +
      describeTree(container.containerId, usage.processes, pageBytes),
  };
}

/** Limits of ContainerLogMonitor, in bytes on the disk. */
export type LogLimits = { readonly directoryBytesMax: number; readonly totalBytesMax: number };

/** `sizes`: bytes of each of the container's log directories, by path. */
export function findLogOverrun(
  container: Named,
  sizes: ReadonlyMap<string, number>,
  { directoryBytesMax, totalBytesMax }: LogLimits,
): Overrun | undefined {
  const overrun = (what: string) => ({
    exitStatus: EXIT.KILLED_FOR_EXCESS_LOGS,
    diagnostics: `${nameOf(container)} is logging beyond ${what}\nKilling container.`,
  });
  let total = 0;
  for (const [directory, bytes] of sizes) {
    total += bytes;
    if (bytes <= directoryBytesMax) continue;
    return overrun(
      "the container single log directory limit.\n" +
        `Limit: ${directoryBytesMax} Log Directory Size: ${bytes} Log Directory: ${directory}`,
    );
  }
  if (total <= totalBytesMax) return undefined;
  return overrun(`the container total log limit.\nLimit: ${totalBytesMax} Total Size: >=${total}`);
}

/** `70.1 MB`. */
export function formatMb(bytes: number): string {
  return `${Math.round((bytes / MEGABYTE) * 10) / 10} MB`;
}

function isBeyond(bytes: number, agedBytes: number, limit: number | undefined): boolean {
  return limit !== undefined && (bytes > 2 * limit || agedBytes > limit);
}

function nameOf({ containerId, pid }: Named): string {
  return `Container [pid=${pid},containerID=${containerId}]`;
}

function describeUse(bytes: number, limit: number | undefined): string {
  return limit === undefined ? formatMb(bytes) : `${formatMb(bytes)} of ${formatMb(limit)}`;
}

/** YARN's table without its FULL_CMD_LINE: people write passwords there. */
function describeTree(
  containerId: ContainerId,
  processes: readonly ProcessStat[],
  pageBytes: number,
): string {
  const lines = processes.map(
    ({ pid, parentPid, groupId, sessionId, name, virtualBytes, residentPages }) =>
      `|- ${pid} ${parentPid} ${groupId} ${sessionId} (${name}) ` +
      `${formatMb(virtualBytes)} ${formatMb(residentPages * pageBytes)}`,
  );
  return (
    `Dump of the process-tree for ${containerId} :\n` +
    "|- PID PPID PGRPID SESSID CMD_NAME VMEM_USAGE RSSMEM_USAGE\n" +
    lines.join("\n").slice(0, TREE_LENGTH_MAX)
  );
}
