/**
 * NodeHealthScriptRunner: runs the operator's script every now and then. What it says counts, not
 * how it exits: a line that begins with ERROR makes the node unhealthy, and so does a script that
 * does not end in time or cannot be started. A non-zero exit does not, since a mistake in a script
 * must not take a whole cluster away.
 */
import { spawn } from "node:child_process";
import { dirname } from "node:path";
import { messageOf } from "../log.ts";
import { checkTrustedFile } from "../trusted-file.ts";
import type { Health } from "./health.ts";

export type HealthScriptOptions = {
  /** For people: such as `disks`. */
  readonly name: string;
  /** `yarn.nodemanager.health-checker.{name}.path`; the operator's, see trusted-file.ts. */
  readonly path: string;
  /** `….opts` */
  readonly arguments: readonly string[];
  /** `….interval-ms`, from the end of one run to the next. */
  readonly intervalMs: number;
  /** `….timeout-ms` */
  readonly timeoutMs: number;
};

export const HEALTH_SCRIPT_INTERVAL_MS = 600_000;
export const HEALTH_SCRIPT_TIMEOUT_MS = 1_200_000;

/** Nothing of the agent's own environment, which may hold secrets. */
const ENVIRONMENT = {
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  LANG: "C",
};
const LINE_LENGTH_MAX = 1_000;
const ERROR_LINES_MAX = 5;

export class HealthScript {
  readonly #options: HealthScriptOptions;
  readonly #changed: () => void;
  readonly #stopped = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();
  #health: Health = { healthy: true, report: "" };

  /** `changed` is called after each run. */
  constructor(options: HealthScriptOptions, changed: () => void) {
    this.#options = options;
    this.#changed = changed;
  }

  /** Of the last run; healthy until the first has ended. */
  get health(): Health {
    return this.#health;
  }

  start(): void {
    this.#running = this.#runAndWait();
  }

  /** Kills a run under way; resolves when it is gone. */
  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    this.#stopped.abort();
    await this.#running;
  }

  async #runAndWait(): Promise<void> {
    const { path, intervalMs } = this.#options;
    const trusted = await checkTrustedFile(path, dirname(path));
    if (this.#stopped.signal.aborted) return;
    const report = trusted.ok ? await this.#run(trusted.value) : trusted.error.message;
    if (this.#stopped.signal.aborted) return;
    this.#health = { healthy: report === "", report };
    this.#changed();
    this.#timer = setTimeout(() => this.start(), intervalMs);
    this.#timer.unref();
  }

  /** Resolves with what is wrong, or nothing. */
  #run(path: string): Promise<string> {
    const { name, timeoutMs } = this.#options;
    return new Promise((resolve) => {
      const script = spawn(path, this.#options.arguments, {
        env: ENVIRONMENT,
        cwd: "/",
        stdio: ["ignore", "pipe", "ignore"],
        // A group of its own, so that what it has started goes with it.
        detached: true,
      });
      const lines = new ErrorLines();
      script.stdout.setEncoding("utf8").on("data", (text: string) => lines.add(text));
      const kill = () => {
        killGroup(script.pid);
        script.stdout.destroy();
      };
      const end = (report: string) => {
        clearTimeout(timer);
        this.#stopped.signal.removeEventListener("abort", kill);
        resolve(report);
      };
      const timer = setTimeout(() => {
        kill();
        // Not waited for: a process that hangs on a dead disk cannot even be killed.
        end(`health script ${name} timed out`);
      }, timeoutMs);
      this.#stopped.signal.addEventListener("abort", kill);
      script.on("error", (error) => end(`health script ${name}: ${messageOf(error)}`));
      // Not "exit": what it wrote last is read by then.
      script.on("close", () => end(lines.found.join("\n")));
    });
  }
}

/** Keeps the lines that begin with ERROR, however much else there is. */
class ErrorLines {
  readonly #found: string[] = [];
  #rest = "";

  add(text: string): void {
    const lines = (this.#rest + text).split("\n");
    // A line that never ends is kept as far as its beginning matters.
    this.#rest = (lines.pop() ?? "").slice(0, LINE_LENGTH_MAX);
    for (const line of lines) this.#look(line);
  }

  get found(): readonly string[] {
    this.#look(this.#rest);
    this.#rest = "";
    return this.#found;
  }

  #look(line: string): void {
    if (!line.startsWith("ERROR") || this.#found.length >= ERROR_LINES_MAX) return;
    this.#found.push(line.slice(0, LINE_LENGTH_MAX));
  }
}

function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // All of it has ended by itself.
  }
}
