/**
 * DefaultContainerExecutor: containers as processes of the node. Each run is led by a small
 * supervising shell, the leader of a session of its own, which outlives the agent: it claims
 * `{id}.pid` (of later runs `{id}.{run}.pid`), enters the control groups, runs the launch script
 * and leaves the exit code in `{id}.exitcode`. stdout and stderr go straight to their files.
 */
import { type ChildProcess, spawn } from "node:child_process";
import {
  closeSync,
  constants,
  existsSync,
  type FSWatcher,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  watch,
  writeFileSync,
} from "node:fs";
import { rm } from "node:fs/promises";
import { constants as osConstants } from "node:os";
import { join } from "node:path";
import type { ContainerId } from "../shared/ids.ts";
import type {
  ContainerExecutor,
  ContainerProcess,
  ContainerRun,
  ContainerSignal,
  LaunchRequest,
} from "./container-runtime.ts";
import { codeOf } from "./log.ts";
import {
  isAlive,
  isRecycled,
  type ProcessIdentity,
  parseStat,
  processTree,
  readProcesses,
  readStat,
} from "./process-table.ts";

/** How often adopted processes are looked at; their exit code files are watched besides. */
const ADOPTED_POLL_INTERVAL_MS = 1_000;
/** How long a killed process takes to be gone. */
const KILL_SETTLE_MS = 20;
/** Room for an exit code, so that a full disk does not keep the shell from writing it. */
const EXIT_CODE_PLACE = "   \n";

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
printf '%-3s\\n' "$code" 1<> "$exit_file.tmp" && mv -f "$exit_file.tmp" "$exit_file"
exit "$code"
`;

type Adopted = {
  readonly run: ContainerRun;
  readonly identity: ProcessIdentity;
  readonly resolve: (exitCode: number | undefined) => void;
};

export class ContainerLauncher implements ContainerExecutor {
  readonly shell = existsSync("/bin/bash") ? "/bin/bash" : "/bin/sh";
  readonly #bootId: string;
  readonly #state: string;
  readonly #adopted = new Map<ContainerId, Adopted>();
  #watcher: FSWatcher | undefined;
  #poll: NodeJS.Timeout | undefined;

  /** `stateDirectory` is where pid and exit code files lie; `bootId` is the machine's present one. */
  constructor(stateDirectory: string, bootId: string) {
    this.#state = stateDirectory;
    this.#bootId = bootId;
  }

  async launch(request: LaunchRequest): Promise<ContainerProcess> {
    const { containerId, run } = request;
    const exitFile = this.#file(request, "exitcode");
    writeFileSync(`${exitFile}.tmp`, EXIT_CODE_PLACE, { mode: 0o600 });
    const stdout = openLog(request.stdout);
    const stderr = openLog(request.stderr);
    try {
      const child = spawn(
        this.shell,
        [
          "-c",
          SUPERVISOR,
          "selvedge-container",
          this.#file(request, "pid"),
          exitFile,
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
      const identity = { pid, startTicks, bootId: this.#bootId };
      return { run: { containerId, run }, identity, exited };
    } finally {
      closeSync(stdout);
      closeSync(stderr);
    }
  }

  async adopt(run: ContainerRun, bootId: string): Promise<ContainerProcess | number | undefined> {
    if (bootId !== this.#bootId) return this.exitCodeOf(run);
    const identity = this.#claimed(run);
    if (!identity) return undefined;
    if (this.exitCodeOf(run) !== undefined || !isAlive(identity)) {
      this.#killTree(identity);
      return this.exitCodeOf(run);
    }
    const exited = new Promise<number | undefined>((resolve) => {
      this.#adopted.set(run.containerId, { run, identity, resolve });
    });
    this.#watchAdopted();
    return { run, identity, exited };
  }

  /** Who claimed the pid file. If nobody did, it is claimed here, so that nobody will. */
  #claimed(run: ContainerRun): ProcessIdentity | undefined {
    const path = this.#file(run, "pid");
    try {
      writeFileSync(path, "given up\n", { flag: "wx", mode: 0o600 });
      return undefined;
    } catch (error) {
      if (codeOf(error) !== "EEXIST") throw error;
    }
    return this.#identityIn(path);
  }

  #identityIn(path: string): ProcessIdentity | undefined {
    const stat = parseStat(readFileSync(path, "utf8"));
    return stat && { pid: stat.pid, startTicks: stat.startTicks, bootId: this.#bootId };
  }

  /** The exit code that the supervising shell has left. */
  exitCodeOf(run: ContainerRun): number | undefined {
    try {
      const code = Number.parseInt(readFileSync(this.#file(run, "exitcode"), "utf8"), 10);
      return Number.isNaN(code) ? undefined : code;
    } catch {
      return undefined;
    }
  }

  /** To the whole process group. */
  signal({ identity }: ContainerProcess, signal: ContainerSignal): void {
    if (!isRecycled(identity)) send(-identity.pid, signal);
  }

  /** SIGKILL to whatever is left of the group, the session, and their descendants. */
  kill({ identity }: ContainerProcess): void {
    this.#killTree(identity);
  }

  #killTree(identity: ProcessIdentity): void {
    if (isRecycled(identity)) return;
    const tree = processTree(identity, readProcesses());
    send(-identity.pid, "SIGKILL");
    for (const { pid } of tree) send(pid, "SIGKILL");
    // A killed supervising shell leaves no file, so an adopted one's end is looked for.
    if (this.#adopted.size) setTimeout(() => this.#checkAdopted(), KILL_SETTLE_MS).unref();
  }

  async forget(containerId: ContainerId): Promise<void> {
    for (const name of this.#filesOf(containerId)) {
      await rm(join(this.#state, name), { force: true });
    }
  }

  endUnknown(known: ReadonlySet<ContainerId>): void {
    for (const name of readdirSync(this.#state)) {
      const [containerId = "", ...extensions] = name.split(".");
      if (known.has(containerId) || extensions.at(-1) !== "pid") continue;
      const identity = this.#identityIn(join(this.#state, name));
      if (identity && isAlive(identity)) this.#killTree(identity);
      for (const file of this.#filesOf(containerId))
        rmSync(join(this.#state, file), { force: true });
    }
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
    for (const [containerId, { run, identity, resolve }] of this.#adopted) {
      const wasAlive = isAlive(identity);
      const exitCode = this.exitCodeOf(run);
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

  #file({ containerId, run }: ContainerRun, extension: "pid" | "exitcode"): string {
    const name = run === 1 ? containerId : `${containerId}.${run}`;
    return join(this.#state, `${name}.${extension}`);
  }

  #filesOf(containerId: ContainerId): string[] {
    return readdirSync(this.#state).filter(
      (name) =>
        name.startsWith(`${containerId}.`) && /\.(?:pid|exitcode|exitcode\.tmp)$/.test(name),
    );
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

function send(pid: number, signal: ContainerSignal): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    // ESRCH: gone by itself. EPERM: it has become another user's, and is not ours to end.
    if (codeOf(error) !== "ESRCH" && codeOf(error) !== "EPERM") throw error;
  }
}
