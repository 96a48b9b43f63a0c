/**
 * A container's process while it runs: its memory is watched where no control group limits it, it
 * is asked whether it is ready, and it is ended: SIGTERM, a moment, SIGKILL.
 */
import type { ReadinessCheck } from "../shared/container.ts";
import { killGroup } from "./cgroups.ts";
import type { Overrun } from "./container-limits.ts";
import type { ContainerExecutor, ContainerProcess, ContainerSignal } from "./container-runtime.ts";
import type { ContainersMonitor } from "./containers-monitor.ts";
import type { ProcessIdentity } from "./process-table.ts";
import { type Readiness, ReadinessProber } from "./readiness-prober.ts";
import type { ContainerCgroup } from "./state-store.ts";

export type RunningProcessOptions = {
  readonly executor: ContainerExecutor;
  readonly process: ContainerProcess;
  readonly cgroup: ContainerCgroup | undefined;
  readonly monitor: ContainersMonitor;
  readonly readinessCheck: ReadinessCheck | undefined;
  /** Where a PORT check connects to. */
  readonly host: string;
  /** The first answer, and each that differs from the one before. */
  readonly readinessChanged: (readiness: Readiness) => void;
  readonly workDirectory: string | undefined;
  readonly logDirectories: readonly string[];
  /** It is beyond one of its limits; the order says how it is to end. */
  readonly exceeded: (overrun: Overrun) => void;
};

export class RunningProcess {
  readonly #options: RunningProcessOptions;
  readonly #prober: ReadinessProber | undefined;
  #killTimer: NodeJS.Timeout | undefined;
  #isEnding = false;

  constructor(options: RunningProcessOptions) {
    this.#options = options;
    const { readinessCheck, host, readinessChanged } = options;
    if (readinessCheck !== undefined && readinessCheck.type !== "DEFAULT") {
      this.#prober = new ReadinessProber(readinessCheck, host, readinessChanged);
    }
  }

  get identity(): ProcessIdentity {
    return this.#options.process.identity;
  }

  /** False: nobody asks, and it is ready as soon as it runs. */
  get isProbed(): boolean {
    return this.#prober !== undefined;
  }

  /** Resolves with the first answer of the readiness check. */
  async probe(): Promise<void> {
    await this.#prober?.start();
  }

  /** Watches what it uses. Called again when the limit changes. */
  watch(memoryMb: number): void {
    const { monitor, process, cgroup, workDirectory, logDirectories, exceeded } = this.#options;
    if (this.#isEnding) return;
    const container = {
      containerId: process.run.containerId,
      identity: process.identity,
      memoryMb,
      isMemoryEnforced: cgroup?.memory !== undefined,
      workDirectory,
      logDirectories,
    };
    monitor.watch(container, exceeded);
  }

  signal(signal: ContainerSignal): void {
    this.#options.executor.signal(this.#options.process, signal);
  }

  /** It has ended by itself, though its end may not have been heard of yet. */
  hasExited(): boolean {
    return this.#options.executor.exitCodeOf(this.#options.process.run) !== undefined;
  }

  /** SIGTERM, and SIGKILL `sigkillDelayMs` later; 0: at once. */
  end(sigkillDelayMs: number): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    this.unwatch();
    if (sigkillDelayMs > 0) {
      this.signal("SIGTERM");
      this.#killTimer = setTimeout(() => this.kill(), sigkillDelayMs);
    } else {
      this.kill();
    }
  }

  /** SIGKILL to whatever is left of it. */
  kill(): void {
    const { executor, process, cgroup } = this.#options;
    executor.kill(process);
    if (cgroup) killGroup(cgroup);
  }

  /** Neither watches nor asks any more; the process goes on. */
  detach(): void {
    this.unwatch();
    clearTimeout(this.#killTimer);
  }

  unwatch(): void {
    this.#prober?.stop();
    this.#options.monitor.unwatch(this.#options.process.run.containerId);
  }
}
