/**
 * LocalDirsHandlerService: which of the local and log directories can be used. One is bad when it
 * cannot be written, is too full, or has too little room; it is good again below the low watermark.
 * The node is unhealthy when too few of either kind are good.
 */
import { setTimeout as delay } from "node:timers/promises";
import { messageOf } from "../log.ts";
import type { DirectoryProbe, DiskSpace } from "./directory-probe.ts";
import type { Health } from "./health.ts";

export type DiskLimits = {
  /** `yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage`, 0–100. */
  readonly usedPercentMax: number;
  /** `….disk-utilization-watermark-low-per-disk-percentage`: below it a full disk is good again. */
  readonly usedPercentLow: number;
  /** `….min-free-space-per-disk-mb` */
  readonly freeMbMin: number;
  /** `….min-healthy-disks`: the fraction of local, and of log directories that must be good. */
  readonly healthyFractionMin: number;
  /** A disk that takes longer to answer is bad: a network file system that hangs. */
  readonly probeTimeoutMs: number;
};

export const DEFAULT_DISK_LIMITS: DiskLimits = {
  usedPercentMax: 90,
  usedPercentLow: 90,
  freeMbMin: 0,
  healthyFractionMin: 0.25,
  probeTimeoutMs: 30_000,
};

export type LocalDirsHandlerOptions = {
  readonly localDirectories: readonly string[];
  readonly logDirectories: readonly string[];
  readonly limits: DiskLimits;
  readonly probe: DirectoryProbe;
};

export class LocalDirsHandler {
  readonly #options: LocalDirsHandlerOptions;
  /**
   * Looks that have not come back. One that hangs on a dead disk holds a thread of the few that all
   * file operations share, so that no other is begun beside it.
   */
  readonly #looking = new Map<string, Promise<DiskSpace>>();
  /** What is wrong with each bad directory. */
  #bad: ReadonlyMap<string, string> = new Map();

  constructor(options: LocalDirsHandlerOptions) {
    this.#options = options;
  }

  /** Looks at every directory once; resolves when all were. Never rejects. */
  async check(): Promise<void> {
    const { localDirectories, logDirectories } = this.#options;
    const paths = [...new Set([...localDirectories, ...logDirectories])];
    const found = await Promise.all(
      paths.map(async (path) => [path, await this.#whatIsWrong(path)] as const),
    );
    const bad = new Map<string, string>();
    for (const [path, wrong] of found) if (wrong !== undefined) bad.set(path, wrong);
    this.#bad = bad;
  }

  /** For localized resources and work directories; none: no container can be launched (-101). */
  goodLocalDirs(): string[] {
    return this.#options.localDirectories.filter((path) => !this.#bad.has(path));
  }

  goodLogDirs(): string[] {
    return this.#options.logDirectories.filter((path) => !this.#bad.has(path));
  }

  badDirs(): string[] {
    return [...this.#bad.keys()];
  }

  /** A report also comes with a healthy node when some of its directories are bad. */
  get health(): Health {
    const { localDirectories, logDirectories } = this.#options;
    const isEnough = (good: readonly string[], all: readonly string[]) =>
      good.length > 0 && good.length >= all.length * this.#options.limits.healthyFractionMin;
    return {
      healthy:
        isEnough(this.goodLocalDirs(), localDirectories) &&
        isEnough(this.goodLogDirs(), logDirectories),
      report: [
        this.#describe("local-dirs", localDirectories),
        this.#describe("log-dirs", logDirectories),
      ]
        .filter((text) => text !== "")
        .join(" ; "),
    };
  }

  #describe(kind: string, directories: readonly string[]): string {
    const bad = directories.flatMap((path) => {
      const wrong = this.#bad.get(path);
      return wrong === undefined ? [] : [`${path} : ${wrong}`];
    });
    if (!bad.length) return "";
    return `${bad.length}/${directories.length} ${kind} are bad: [ ${bad.join(", ")} ]`;
  }

  #look(path: string): Promise<DiskSpace> {
    const before = this.#looking.get(path);
    if (before) return before;
    const look = this.#options.probe(path).finally(() => this.#looking.delete(path));
    this.#looking.set(path, look);
    // Its failure may come when nobody waits for it any more.
    look.catch(() => undefined);
    return look;
  }

  async #whatIsWrong(path: string): Promise<string | undefined> {
    const { limits } = this.#options;
    const { usedPercentMax, usedPercentLow, freeMbMin, probeTimeoutMs } = limits;
    const answered = new AbortController();
    const late = delay(probeTimeoutMs, undefined, { signal: answered.signal, ref: false });
    try {
      const space = await Promise.race([this.#look(path), late]);
      if (!space) return `no answer within ${probeTimeoutMs} ms`;
      const allowed = this.#bad.has(path) ? usedPercentLow : usedPercentMax;
      if (space.usedPercent > allowed || space.usedPercent >= 100) {
        return `used space above threshold of ${usedPercentMax}%`;
      }
      return space.freeMb < freeMbMin ? `free space below ${freeMbMin} MB` : undefined;
    } catch (error) {
      return messageOf(error);
    } finally {
      late.catch(() => undefined);
      answered.abort();
    }
  }
}
