/**
 * Starts processes from a small shell of the agent's own. To fork the agent would copy the page
 * tables of a hundred megabytes: 4 to 9 ms of CPU for each process, with the agent standing still.
 *
 * The shell reads one command a line and starts each process in the background, in a session of its
 * own. What it starts inherits its stdout as file 3 and says there what becomes of it:
 *
 *   started {key} {its line of /proc/PID/stat}
 *   failed {key} {why it has not}
 *   exited {key} {exit code}
 *
 * The processes outlive the shell, and the shell ends with the agent.
 */
import { type ChildProcessByStdio, spawn } from "node:child_process";
import type { Socket } from "node:net";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { type ProcessStat, parseStat } from "./process-table.ts";
import { quote } from "./shell-words.ts";

/** Shells keep a little of each process they ever started, some also its zombie. */
const LAUNCHES_PER_SHELL = 4_096;

/**
 * `/proc/PID/fd`: the agent's own open files, so that no link is followed to them. `-P`: nothing of
 * the way to a directory is looked at that the kernel does not look at. The shell reads what it is
 * told byte by byte, so that a launch says little.
 */
const LAUNCH = `
exec 3>&1 >/dev/null
setsid=$(command -v setsid)
failed() { printf 'failed %s %s\\n' "$key" "$1" >&3; exit 1; }
launch() {
  key=$1 stdout=/proc/$PPID/fd/$3 stderr=/proc/$PPID/fd/$4
  [ "$setsid" ] || failed 'this machine has no setsid (util-linux)'
  cd -P "$2" || failed "cannot enter $2"
  shift 4
  { exec "$setsid" $PROGRAM "$key" "$@"; } >>"$stdout" 2>>"$stderr" || failed 'cannot write its output'
}
`;

export type SpawnRequest = {
  /** Without spaces; tells processes apart. */
  readonly key: string;
  readonly workDirectory: string;
  /** Files that are open in this process. */
  readonly stdout: number;
  readonly stderr: number;
  readonly words: readonly string[];
};

export type ProcessSpawnerOptions = {
  /** Words that run a POSIX shell. */
  readonly shell: readonly string[];
  /** The first words of every process; the request's key and words follow. */
  readonly program: readonly string[];
  readonly exited: (key: string, exitCode: number) => void;
};

type Shell = ChildProcessByStdio<Writable, Readable, null>;
type Pending = { readonly shell: Shell } & PromiseWithResolvers<ProcessStat>;

export class ProcessSpawner {
  readonly #options: ProcessSpawnerOptions;
  readonly #pending = new Map<string, Pending>();
  #shell: Shell | undefined;
  #launches = 0;

  constructor(options: ProcessSpawnerOptions) {
    this.#options = options;
  }

  /** Resolves when the process says that it has started. After a rejection it may yet do so. */
  spawn({ key, workDirectory, stdout, stderr, words }: SpawnRequest): Promise<ProcessStat> {
    if (this.#launches++ % LAUNCHES_PER_SHELL === 0) this.close();
    this.#shell ??= this.#open();
    const pending = { shell: this.#shell, ...Promise.withResolvers<ProcessStat>() };
    this.#pending.set(key, pending);
    const given = [key, workDirectory, String(stdout), String(stderr), ...words];
    this.#shell.stdin.write(`launch ${given.map(quote).join(" ")} &\n`);
    return pending.promise;
  }

  /** What was started goes on, and is still heard of as long as the agent is there. */
  close(): void {
    this.#shell?.stdin.end();
    this.#shell = undefined;
  }

  #open(): Shell {
    const { shell, program } = this.#options;
    const [command = "/bin/sh", ...words] = shell;
    const child = spawn(command, [...words, "-s"], {
      cwd: "/",
      // Signals from a terminal are for the agent.
      detached: true,
      env: { PATH: process.env["PATH"] ?? "/usr/local/bin:/usr/bin:/bin" },
      stdio: ["pipe", "pipe", "ignore"],
    });
    const over = () => this.#over(child);
    child.on("error", over).on("exit", over);
    // Its end is told by `exit`.
    child.stdin.on("error", () => undefined);
    createInterface({ input: child.stdout }).on("line", (line) => this.#hear(line));
    child.stdin.write(LAUNCH.replace("$PROGRAM", () => program.map(quote).join(" ")));
    child.unref();
    for (const pipe of [child.stdin, child.stdout]) (pipe as Socket).unref();
    return child;
  }

  #hear(line: string): void {
    const [, what, key = "", rest = ""] = /^(\w+) (\S+) (.*)$/.exec(line) ?? [];
    const pending = this.#pending.get(key);
    this.#pending.delete(key);
    const stat = what === "started" ? parseStat(rest) : undefined;
    if (stat) pending?.resolve(stat);
    else pending?.reject(new Error(rest));
    if (what === "exited") this.#options.exited(key, Number(rest));
  }

  #over(shell: Shell): void {
    if (this.#shell === shell) this.#shell = undefined;
    for (const [key, pending] of this.#pending) {
      if (pending.shell !== shell) continue;
      this.#pending.delete(key);
      pending.reject(new Error("the agent's shell that starts processes has ended"));
    }
  }
}
