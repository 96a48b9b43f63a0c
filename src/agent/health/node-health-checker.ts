/**
 * NodeHealthCheckerService: joins what the disks and the operator's scripts say into one health of
 * the node, and tells each change at once. An unhealthy node gets no new containers; it is
 * back as soon as everything is well again.
 */
import { LIMITS } from "../../shared/limits.ts";
import { type DirectoryProbe, probeDirectory } from "./directory-probe.ts";
import type { Health } from "./health.ts";
import { HealthScript, type HealthScriptOptions } from "./health-script.ts";
import { DEFAULT_DISK_LIMITS, type DiskLimits, LocalDirsHandler } from "./local-dirs-handler.ts";

/** `yarn.nodemanager.health-checker.scripts` names at most so many. */
export const HEALTH_SCRIPTS_MAX = 4;

export type NodeHealthCheckerOptions = {
  readonly localDirectories: readonly string[];
  readonly logDirectories: readonly string[];
  readonly disks?: Partial<DiskLimits>;
  /** `yarn.nodemanager.disk-health-checker.interval-ms`; 2 min. */
  readonly diskIntervalMs?: number;
  /** At most HEALTH_SCRIPTS_MAX. */
  readonly scripts?: readonly HealthScriptOptions[];
  readonly probe?: DirectoryProbe;
  /** Called for each change, also for one of the report alone. */
  readonly changed: (health: Health) => void;
  /** Called after each look at the disks, with those that new containers must not get. */
  readonly disksChecked: (badDirs: readonly string[]) => void;
};

const DISK_INTERVAL_MS = 120_000;

export class NodeHealthChecker {
  readonly #options: NodeHealthCheckerOptions;
  readonly #disks: LocalDirsHandler;
  readonly #scripts: readonly HealthScript[];
  #timer: NodeJS.Timeout | undefined;
  #isChecking = false;
  #checkedMs = 0;
  #told: Health = { healthy: true, report: "" };

  constructor(options: NodeHealthCheckerOptions) {
    this.#options = options;
    const { localDirectories, logDirectories, disks, scripts = [], probe } = options;
    if (scripts.length > HEALTH_SCRIPTS_MAX) {
      throw new RangeError(`at most ${HEALTH_SCRIPTS_MAX} health scripts can be run`);
    }
    this.#disks = new LocalDirsHandler({
      localDirectories,
      logDirectories,
      limits: { ...DEFAULT_DISK_LIMITS, ...disks },
      probe: probe ?? probeDirectory,
    });
    this.#scripts = scripts.map((script) => new HealthScript(script, () => this.#tell()));
  }

  /** Resolves when the disks were looked at once; the scripts' first words come later. */
  async start(): Promise<void> {
    const { diskIntervalMs = DISK_INTERVAL_MS } = this.#options;
    await this.#checkDisks();
    for (const script of this.#scripts) script.start();
    this.#timer = setInterval(() => void this.#checkDisks(), diskIntervalMs);
    this.#timer.unref();
  }

  /** Of everything together, as told last; for the node's registration. */
  get health(): Health {
    return this.#told;
  }

  /** Epoch ms of the last look at anything; 0 before the first. */
  get checkedMs(): number {
    return this.#checkedMs;
  }

  /** Resolves when no script runs any more. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.#scripts.map((script) => script.stop()));
  }

  async #checkDisks(): Promise<void> {
    if (this.#isChecking) return;
    this.#isChecking = true;
    await this.#disks.check();
    this.#isChecking = false;
    this.#options.disksChecked(this.#disks.badDirs());
    this.#tell();
  }

  #tell(): void {
    this.#checkedMs = Date.now();
    const parts = [this.#disks, ...this.#scripts].map(({ health }) => health);
    const health: Health = {
      healthy: parts.every(({ healthy }) => healthy),
      report: parts
        .map(({ report }) => report)
        .filter((report) => report !== "")
        .join("\n")
        .slice(0, LIMITS.diagnosticsLengthMax),
    };
    if (health.healthy === this.#told.healthy && health.report === this.#told.report) return;
    this.#told = health;
    this.#options.changed(health);
  }
}
