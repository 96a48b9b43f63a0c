/**
 * ContainerExecutor: the only file that spawns and signals container processes. Each container is
 * led by a small supervising shell, the leader of a session of its own, which outlives the agent:
 * it claims `{id}.pid`, enters the control groups, runs the launch script and leaves the exit
 * code in `{id}.exitcode`. stdout and stderr go straight to their files.
 */
import { type ChildProcess, spawn } from "node:child_process";
import {
  closeSync,
  constants,
  existsSync,
  type FSWatcher,
  openSync,
  readFileSync,
  watch,
  writeFileSync,
} from "node:fs";
import { constants as osConstants } from "node:os";
import { join } from "node:path";
import type { ContainerId } from "../shared/ids.ts";
import { codeOf } from "./log.ts";
import {
  isAlive,
  isRecycled,
  type ProcessIdentity,
  parseStat,
  processTree,
  readBootId,
  readProcesses,
  readStat,
} from "./process-table.ts";

/** How often adopted processes are looked at; their exit code files are watched besides. */
const ADOPTED_POLL_INTERVAL_MS = 1_000;
/** How long a killed process takes to be gone. */
const KILL_SETTLE_MS = 20;

/**
 * `set -C` makes the claim exclusive: a launch that was given up may not come true later. The
 * traps do nothing but keep the shell alive; unlike ignored signals they are not inherited.
 * The shell's own messages ("Killed") are not part of the container's stderr.
 */
const SUPERVISOR = `
pid_file=$1 exit_file=$2 shell=$3 script=$4
shift 4
set -C
{ read -r stat < "/proc/$$/stat" && printf '%s\\n' "$stat" > "$pid_file"; } 2>/dev/null || exit 126
set +C
for entrance; do
  echo 0 > "$entrance" || exit 125
done
trap : TERM INT HUP QUIT USR1 USR2
exec 3>&2 2>/dev/null
"$shell" "$script" 2>&3 3>&-
code=$?
printf '%s\\n' "$code" > "$exit_file.tmp" && mv -f "$exit_file.tmp" "$exit_file"
exit "$code"
`;

/** A container's process, whether spawned by this agent or found after a restart. */
export type ContainerProcess = {
  readonly identity: ProcessIdentity;
  /** 0–255, 128 + signal, or undefined when nobody saw the exit code. Never rejects. */
  readonly exited: Promise<number | undefined>;
};

export type LaunchRequest = {
  readonly containerId: ContainerId;
  readonly script: string;
  readonly workDirectory: string;
  readonly stdout: string;
  readonly stderr: string;
  /** `cgroup.procs` files to enter before the container's command runs. */
  readonly entrances: readonly string[];
};

type Adopted = {
  readonly identity: ProcessIdentity;
  readonly resolve: (exitCode: number | undefined) => void;
};

export class ContainerLauncher {
  readonly shell = existsSync("/bin/bash") ? "/bin/bash" : "/bin/sh";
  readonly bootId = readBootId();
  readonly #state: string;
  readonly #adopted = new Map<ContainerId, Adopted>();
  #watcher: FSWatcher | undefined;
  #poll: NodeJS.Timeout | undefined;

  /** `stateDirectory` is where pid and exit code files lie. */
  constructor(stateDirectory: string) {
    this.#state = stateDirectory;
  }

  /** Rejects when the process cannot be spawned. */
  async launch(request: LaunchRequest): Promise<ContainerProcess> {
    const stdout = openLog(request.stdout);
    const stderr = openLog(request.stderr);
    try {
      const child = spawn(
        this.shell,
        [
          "-c",
          SUPERVISOR,
          "selvedge-container",
          this.#file(request.containerId, "pid"),
          this.#file(request.containerId, "exitcode"),
          this.shell,
          request.script,
          ...request.entrances,
        ],
        {
          cwd: request.workDirectory,
          detached: true,
          env: { PATH: process.env["PATH"] ?? "/usr/local/bin:/usr/bin:/bin" },
          stdio: ["ignore", stdout, stderr],
        },
      );
      const exited = exitOf(child);
      const pid = await spawned(child);
      child.unref();
      const startTicks = readStat(pid)?.startTicks ?? 0;
      return { identity: { pid, startTicks, bootId: this.bootId }, exited };
    } finally {
      closeSync(stdout);
      closeSync(stderr);
    }
  }

  /**
   * Finds the process of a container after a restart of the agent. An exit code when it has ended,
   * undefined when nothing is left of it; a launch that has not happened yet never will.
   */
  adopt(containerId: ContainerId, bootId: string): ContainerProcess | number | undefined {
    if (bootId !== this.bootId) return this.exitCodeOf(containerId);
    const identity = this.#claimed(containerId);
    if (!identity) return undefined;
    if (this.exitCodeOf(containerId) !== undefined || !isAlive(identity)) {
      this.killTree(identity);
      return this.exitCodeOf(containerId);
    }
    const exited = new Promise<number | undefined>((resolve) => {
      this.#adopted.set(containerId, { identity, resolve });
    });
    this.#watchAdopted();
    return { identity, exited };
  }

  /** Who claimed the pid file. If nobody did, it is claimed here, so that nobody will. */
  #claimed(containerId: ContainerId): ProcessIdentity | undefined {
    const path = this.#file(containerId, "pid");
    try {
      writeFileSync(path, "given up\n", { flag: "wx", mode: 0o600 });
      return undefined;
    } catch (error) {
      if (codeOf(error) !== "EEXIST") throw error;
    }
    const stat = parseStat(readFileSync(path, "utf8"));
    return stat && { pid: stat.pid, startTicks: stat.startTicks, bootId: this.bootId };
  }

  /** The exit code that the supervising shell has left; undefined as long as there is none. */
  exitCodeOf(containerId: ContainerId): number | undefined {
    try {
      const code = Number.parseInt(readFileSync(this.#file(containerId, "exitcode"), "utf8"), 10);
      return Number.isNaN(code) ? undefined : code;
    } catch {
      return undefined;
    }
  }

  /** To the whole process group; nothing happens when it is gone. */
  signal(identity: ProcessIdentity, signal: "SIGTERM" | "SIGKILL"): void {
    if (!isRecycled(identity)) send(-identity.pid, signal);
  }

  /** SIGKILL to whatever is left of the group, the session, and their descendants. */
  killTree(identity: ProcessIdentity): void {
    if (isRecycled(identity)) return;
    const tree = processTree(identity, readProcesses());
    send(-identity.pid, "SIGKILL");
    for (const { pid } of tree) send(pid, "SIGKILL");
    // A killed supervising shell leaves no file, so an adopted one's end is looked for.
    if (this.#adopted.size) setTimeout(() => this.#checkAdopted(), KILL_SETTLE_MS).unref();
  }

  /** Stops watching; the processes go on. */
  close(): void {
    this.#adopted.clear();
    this.#unwatch();
  }

  #watchAdopted(): void {
    if (this.#poll) return;
    this.#watcher = watch(this.#state, () => this.#checkAdopted());
    this.#poll = setInterval(() => this.#checkAdopted(), ADOPTED_POLL_INTERVAL_MS);
  }

  #checkAdopted(): void {
    for (const [containerId, { identity, resolve }] of this.#adopted) {
      const wasAlive = isAlive(identity);
      const exitCode = this.exitCodeOf(containerId);
      if (exitCode === undefined && wasAlive) continue;
      this.#adopted.delete(containerId);
      resolve(exitCode);
    }
    if (!this.#adopted.size) this.#unwatch();
  }

  #unwatch(): void {
    this.#watcher?.close();
    clearInterval(this.#poll);
    this.#poll = undefined;
  }

  #file(containerId: ContainerId, extension: "pid" | "exitcode"): string {
    return join(this.#state, `${containerId}.${extension}`);
  }
}

function openLog(path: string): number {
  const { O_APPEND, O_CREAT, O_NOFOLLOW, O_WRONLY } = constants;
  return openSync(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0o600);
}

function exitOf(child: ChildProcess): Promise<number | undefined> {
  return new Promise((resolve) => {
    child.once("exit", (code, signal) => {
      resolve(code ?? (signal ? 128 + osConstants.signals[signal] : undefined));
    });
  });
}

function spawned(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("spawn", () => resolve(child.pid ?? 0));
  });
}

function send(pid: number, signal: "SIGTERM" | "SIGKILL"): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    // ESRCH: gone by itself. EPERM: it has become another user's, and is not ours to end.
    if (codeOf(error) !== "ESRCH" && codeOf(error) !== "EPERM") throw error;
  }
}
