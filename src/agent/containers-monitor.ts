/**
 * ContainersMonitor: watches the physical memory of containers whose limit no control group
 * enforces. YARN's rule: killed at once above twice the limit; above the limit only when processes
 * older than one round exceed it, so that a burst of forks is forgiven once.
 */
import type { ContainerId } from "../shared/ids.ts";
import {
  type ProcessIdentity,
  type ProcessStat,
  processTree,
  readProcesses,
  readResidentBytes,
} from "./process-table.ts";

/** `yarn.nodemanager.container-monitor.interval-ms`. */
export const MONITOR_INTERVAL_MS = 3_000;
const TREE_LENGTH_MAX = 4_000;
const MEGABYTE = 1_048_576;

type Watched = {
  readonly identity: ProcessIdentity;
  readonly limitBytes: number;
  readonly exceeded: (diagnostics: string) => void;
  /** pid:startTicks of the last round. */
  seen: ReadonlySet<string>;
};

export class ContainersMonitor {
  readonly #intervalMs: number;
  readonly #watched = new Map<ContainerId, Watched>();
  #timer: NodeJS.Timeout | undefined;

  constructor(intervalMs = MONITOR_INTERVAL_MS) {
    this.#intervalMs = intervalMs;
  }

  /** `exceeded` is called once, with the kill's diagnostics; the container is unwatched then. */
  watch(
    containerId: ContainerId,
    identity: ProcessIdentity,
    limitBytes: number,
    exceeded: (diagnostics: string) => void,
  ): void {
    this.#watched.set(containerId, { identity, limitBytes, exceeded, seen: new Set() });
    this.#timer ??= setInterval(() => this.#round(), this.#intervalMs);
  }

  unwatch(containerId: ContainerId): void {
    this.#watched.delete(containerId);
    if (!this.#watched.size) this.close();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #round(): void {
    const processes = readProcesses();
    for (const [containerId, watched] of this.#watched) {
      const usage = measure(watched, processes);
      watched.seen = new Set(usage.lines.map(({ stat }) => keyOf(stat)));
      const { limitBytes } = watched;
      if (usage.bytes <= 2 * limitBytes && usage.oldBytes <= limitBytes) continue;
      this.unwatch(containerId);
      watched.exceeded(describe(containerId, watched, usage));
    }
  }
}

type Usage = {
  readonly bytes: number;
  /** Of processes that were there in the last round already. */
  readonly oldBytes: number;
  readonly lines: readonly { readonly stat: ProcessStat; readonly bytes: number }[];
};

function measure({ identity, seen }: Watched, processes: readonly ProcessStat[]): Usage {
  let bytes = 0;
  let oldBytes = 0;
  const lines = processTree(identity, processes).map((stat) => {
    const own = readResidentBytes(stat.pid);
    bytes += own;
    if (seen.has(keyOf(stat))) oldBytes += own;
    return { stat, bytes: own };
  });
  return { bytes, oldBytes, lines };
}

function keyOf(stat: ProcessStat): string {
  return `${stat.pid}:${stat.startTicks}`;
}

function describe(containerId: ContainerId, { identity, limitBytes }: Watched, usage: Usage) {
  const tree = usage.lines.map(
    ({ stat, bytes }) =>
      `|- ${stat.pid} ${stat.parentPid} ${stat.groupId} ${stat.sessionId} ` +
      `(${stat.name}) ${formatMb(bytes)}`,
  );
  return (
    `Container [pid=${identity.pid},containerID=${containerId}] is running beyond physical ` +
    `memory limits. Current usage: ${formatMb(usage.bytes)} of ${formatMb(limitBytes)} physical ` +
    "memory used. Killing container.\n" +
    `Dump of the process-tree for ${containerId} :\n` +
    "|- PID PPID PGRPID SESSID CMD_NAME RSSMEM_USAGE\n" +
    tree.join("\n").slice(0, TREE_LENGTH_MAX)
  );
}

/** `70.1 MB`. */
export function formatMb(bytes: number): string {
  return `${Math.round((bytes / MEGABYTE) * 10) / 10} MB`;
}
