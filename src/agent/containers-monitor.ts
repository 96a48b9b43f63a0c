/**
 * ContainersMonitor: one look at the machine's processes each round tells what every container
 * uses, and ends those that go beyond their limits (container-limits.ts). Where a control group
 * enforces the memory limit, the kernel is faster and counts shared pages once, so that is left to
 * it. Nothing here is sent anywhere: usage is handed out when somebody asks.
 */
import { readFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { ContainerId } from "../shared/ids.ts";
import {
  type ContainerLimits,
  findLogOverrun,
  findOverrun,
  type LogLimits,
  type Overrun,
  type TreeUsage,
} from "./container-limits.ts";
import { measureDirectory } from "./directory-size.ts";
import { type Log, messageOf } from "./log.ts";
import {
  type ProcessIdentity,
  type ProcessStat,
  readMachineUnits,
  readProcesses,
} from "./process-table.ts";
import { type ProcessLeader, ProcessTrees, processKey } from "./process-trees.ts";

const MEGABYTE = 1_048_576;
/** Of one walk: a second of work on a slow disk. */
const ENTRIES_MAX = 10_000;

export type MonitorOptions = {
  /** `yarn.nodemanager.container-monitor.interval-ms`. */
  readonly intervalMs: number;
  /** `yarn.nodemanager.pmem-check-enabled`. */
  readonly pmemCheckEnabled: boolean;
  /**
   * `yarn.nodemanager.vmem-check-enabled`. Off, unlike YARN's: 64-bit runtimes (Node, Java, Go)
   * reserve gigabytes of addresses that they never use.
   */
  readonly vmemCheckEnabled: boolean;
  /** `yarn.nodemanager.vmem-pmem-ratio`. */
  readonly vmemPmemRatio: number;
  /** Processes of one container; a runaway fork ends here. */
  readonly processesMax: number;
  /** How often disk use is looked at; `yarn.nodemanager.container-log-monitor.interval-ms`. */
  readonly diskIntervalMs: number;
  /** `yarn.nodemanager.container-log-monitor.*`; absent: logs are measured, and nobody is ended. */
  readonly logLimits?: LogLimits;
  /** Called in each look at the disks, before logs are measured; never rejects. */
  readonly lookAtLogs?: (containerId: ContainerId) => Promise<void>;
};

const DEFAULTS: MonitorOptions = {
  intervalMs: 3_000,
  pmemCheckEnabled: true,
  vmemCheckEnabled: false,
  vmemPmemRatio: 2.1,
  processesMax: 8_192,
  diskIntervalMs: 60_000,
};

export type WatchedContainer = {
  readonly containerId: ContainerId;
  /** The leader of its process tree. */
  readonly identity: ProcessIdentity;
  /** What it was granted; 0: memory is not checked. */
  readonly memoryMb: number;
  /** A control group ends it when it uses more memory than that. */
  readonly isMemoryEnforced: boolean;
  readonly workDirectory: string | undefined;
  readonly logDirectories: readonly string[];
};

/** What a container used when it was looked at last. */
export type ContainerUsage = {
  readonly physicalBytes: number;
  readonly virtualBytes: number;
  /** Per cent of one core since the round before; absent in the first. */
  readonly cpuPercent?: number;
  readonly processes: number;
  /** On the disk; absent until looked at. At least so much when there are very many files. */
  readonly workBytes?: number;
  readonly logBytes?: number;
};

export type NodeUsage = {
  readonly memoryBytes: number;
  readonly memoryTotalBytes: number;
  /** Per cent of all cores together since it was asked last. */
  readonly cpuPercent: number;
  /** Sums over the containers. */
  readonly containersPhysicalBytes: number;
  readonly containersVirtualBytes: number;
  /** Per cent of one core. */
  readonly containersCpuPercent: number;
};

type Watched = {
  readonly container: WatchedContainer;
  readonly exceeded: (overrun: Overrun) => void;
  /** CPU ticks by process, of the last round; undefined before the first. */
  ticks: ReadonlyMap<string, number> | undefined;
  usage: ContainerUsage | undefined;
};

export class ContainersMonitor {
  readonly options: MonitorOptions;
  readonly #log: Log;
  readonly #watched = new Map<ContainerId, Watched>();
  /** Of those that are watched, and of those that are being ended. */
  readonly #leaders = new Map<ContainerId, ProcessLeader>();
  readonly #trees = new ProcessTrees();
  #look: Promise<ReadonlyMap<ContainerId, readonly ProcessStat[]>> | undefined;
  readonly #units = readMachineUnits();
  #timer: NodeJS.Timeout | undefined;
  #diskTimer: NodeJS.Timeout | undefined;
  #walk: AbortController | undefined;
  #roundAtMs = 0;
  #cores = cpuTimes();

  constructor(log: Log, options: Partial<MonitorOptions> = {}) {
    this.#log = log;
    this.options = { ...DEFAULTS, ...options };
  }

  /**
   * `exceeded` is called once, with the order that ends the container, which is unwatched then.
   * Watching it again replaces what is known of it, such as its limit after an update.
   */
  watch(container: WatchedContainer, exceeded: (overrun: Overrun) => void): void {
    const { containerId, identity } = container;
    const before = this.#watched.get(containerId);
    const isSame = before?.container.identity.pid === identity.pid;
    const { ticks, usage } = isSame ? before : { ticks: undefined, usage: undefined };
    this.#watched.set(containerId, { container, exceeded, ticks, usage });
    this.#leaders.set(containerId, container);
    this.#timer ??= setInterval(() => this.#tryRound(), this.options.intervalMs);
    this.#diskTimer ??= setInterval(() => void this.#lookAtDisks(), this.options.diskIntervalMs);
  }

  /** It is to be ended; which processes are its is kept in mind until it is forgotten. */
  unwatch(containerId: ContainerId): void {
    this.#watched.delete(containerId);
    if (!this.#watched.size) this.close();
  }

  /**
   * What there is of a container, whether it is watched or not. When many ask in one turn of the
   * event loop, the machine is looked at once.
   */
  async processesOf(
    containerId: ContainerId,
    leader: ProcessLeader,
  ): Promise<readonly ProcessStat[]> {
    this.#leaders.set(containerId, leader);
    this.#look ??= nextTurn().then(() => {
      this.#look = undefined;
      return this.#trees.assign(this.#leaders, readProcesses());
    });
    return (await this.#look).get(containerId) ?? [];
  }

  /** Nothing is left of it. */
  forget(containerId: ContainerId): void {
    this.unwatch(containerId);
    this.#leaders.delete(containerId);
  }

  /** Undefined when it is not watched, or was not looked at yet. */
  usage(containerId: ContainerId): ContainerUsage | undefined {
    return this.#watched.get(containerId)?.usage;
  }

  nodeUsage(): NodeUsage {
    const usages = [...this.#watched.values()].flatMap(({ usage }) => usage ?? []);
    const before = this.#cores;
    this.#cores = cpuTimes();
    const elapsed = this.#cores.total - before.total;
    const busy = elapsed - (this.#cores.idle - before.idle);
    return {
      memoryBytes: totalmem() - readAvailableBytes(),
      memoryTotalBytes: totalmem(),
      cpuPercent: elapsed > 0 ? (100 * busy) / elapsed : 0,
      containersPhysicalBytes: sum(usages.map(({ physicalBytes }) => physicalBytes)),
      containersVirtualBytes: sum(usages.map(({ virtualBytes }) => virtualBytes)),
      containersCpuPercent: sum(usages.map(({ cpuPercent }) => cpuPercent ?? 0)),
    };
  }

  /** Stops looking; may be called twice. */
  close(): void {
    clearInterval(this.#timer);
    clearInterval(this.#diskTimer);
    this.#walk?.abort();
    this.#timer = undefined;
    this.#diskTimer = undefined;
  }

  /** A machine that is out of file descriptors, say, is looked at again in the next round. */
  #tryRound(): void {
    try {
      this.#round();
    } catch (error) {
      this.#log({ event: "monitor.round", outcome: messageOf(error) });
    }
  }

  #round(): void {
    const nowMs = performance.now();
    const elapsedTicks = ((nowMs - this.#roundAtMs) / 1_000) * this.#units.ticksPerSecond;
    this.#roundAtMs = nowMs;
    const trees = this.#trees.assign(this.#leaders, readProcesses());
    for (const [containerId, watched] of this.#watched) {
      this.#measure(watched, trees.get(containerId) ?? [], elapsedTicks);
    }
  }

  #measure(watched: Watched, processes: readonly ProcessStat[], elapsedTicks: number): void {
    const { ticks: before } = watched;
    const { pageBytes } = this.#units;
    const ticks = new Map<string, number>();
    const tree = { physicalBytes: 0, agedPhysicalBytes: 0, virtualBytes: 0, agedVirtualBytes: 0 };
    let spent = 0;
    for (const stat of processes) {
      const key = processKey(stat);
      const physicalBytes = stat.residentPages * pageBytes;
      tree.physicalBytes += physicalBytes;
      tree.virtualBytes += stat.virtualBytes;
      if (before?.has(key)) {
        tree.agedPhysicalBytes += physicalBytes;
        tree.agedVirtualBytes += stat.virtualBytes;
      }
      spent += stat.cpuTicks - (before?.get(key) ?? 0);
      ticks.set(key, stat.cpuTicks);
    }
    watched.ticks = ticks;
    watched.usage = {
      ...watched.usage,
      physicalBytes: tree.physicalBytes,
      virtualBytes: tree.virtualBytes,
      processes: processes.length,
      ...(before ? { cpuPercent: (100 * spent) / elapsedTicks } : {}),
    };
    this.#check(watched, { ...tree, processes });
  }

  #check(watched: Watched, usage: TreeUsage): void {
    const { containerId, identity } = watched.container;
    const limits = this.#limitsOf(watched.container);
    const named = { containerId, pid: identity.pid };
    const overrun = findOverrun(named, usage, limits, this.#units.pageBytes);
    if (overrun) this.#end(watched, overrun);
  }

  #limitsOf({ memoryMb, isMemoryEnforced }: WatchedContainer): ContainerLimits {
    const { pmemCheckEnabled, vmemCheckEnabled, vmemPmemRatio, processesMax } = this.options;
    const physicalBytes = memoryMb * MEGABYTE;
    const isPhysicalChecked = pmemCheckEnabled && !isMemoryEnforced && memoryMb > 0;
    const isVirtualChecked = vmemCheckEnabled && memoryMb > 0;
    return {
      processes: processesMax,
      ...(isPhysicalChecked ? { physicalBytes } : {}),
      ...(isVirtualChecked ? { virtualBytes: physicalBytes * vmemPmemRatio } : {}),
    };
  }

  /** One container after the other; a look that takes longer than the interval is not doubled. */
  async #lookAtDisks(): Promise<void> {
    if (this.#walk) return;
    const walk = new AbortController();
    this.#walk = walk;
    try {
      for (const watched of [...this.#watched.values()]) {
        if (!walk.signal.aborted) await this.#measureDisk(watched, walk.signal);
      }
    } catch (error) {
      this.#log({ event: "monitor.disk", outcome: messageOf(error) });
    } finally {
      this.#walk = undefined;
    }
  }

  async #measureDisk(watched: Watched, stopped: AbortSignal): Promise<void> {
    const { containerId, identity, workDirectory, logDirectories } = watched.container;
    await this.options.lookAtLogs?.(containerId);
    const sizes = new Map<string, number>();
    for (const directory of logDirectories) {
      sizes.set(directory, (await measureDirectory(directory, ENTRIES_MAX, stopped)).bytes);
    }
    const work = workDirectory && (await measureDirectory(workDirectory, ENTRIES_MAX, stopped));
    if (stopped.aborted || this.#watched.get(containerId) !== watched) return;
    if (watched.usage) {
      watched.usage = {
        ...watched.usage,
        logBytes: sum(sizes.values()),
        ...(work ? { workBytes: work.bytes } : {}),
      };
    }
    const { logLimits } = this.options;
    if (!logLimits) return;
    const overrun = findLogOverrun({ containerId, pid: identity.pid }, sizes, logLimits);
    if (overrun) this.#end(watched, overrun);
  }

  #end(watched: Watched, overrun: Overrun): void {
    this.unwatch(watched.container.containerId);
    watched.exceeded(overrun);
  }
}

function sum(values: Iterable<number>): number {
  let total = 0;
  for (const value of values) total += value;
  return total;
}

/** Of all cores, in ms since the machine's start. */
function cpuTimes(): { readonly idle: number; readonly total: number } {
  const times = cpus().map((core) => core.times);
  return {
    idle: sum(times.map(({ idle }) => idle)),
    total: sum(times.map(({ user, nice, sys, idle, irq }) => user + nice + sys + idle + irq)),
  };
}

/** What processes could still take, caches counted as free. */
function readAvailableBytes(): number {
  const match = /^MemAvailable:\s+(\d+) kB/m.exec(readFileSync("/proc/meminfo", "utf8"));
  return match ? Number(match[1]) * 1_024 : 0;
}
