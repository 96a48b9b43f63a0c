/**
 * DefaultContainerExecutor: containers as processes of the node. Each run is led by a small
 * supervising shell, the leader of a session of its own, which outlives the agent: it claims
 * `{id}.pid` (of later runs `{id}.{run}.pid`), enters the control groups, runs the launch script
 * and leaves the exit code in the same file. stdout and stderr go straight to their files.
 *
 *   1234 (sh) S 1 1234 …   its line of /proc/PID/stat: who has claimed the run
 *   3                      the exit code, once it has ended
 */
import {
  constants,
  existsSync,
  type FSWatcher,
  readdirSync,
  readFileSync,
  rmSync,
  watch,
  writeFileSync,
} from "node:fs";
import { type FileHandle, open, rm } from "node:fs/promises";
import { constants as osConstants } from "node:os";
import { join } from "node:path";
import { ok, type Reply } from "../shared/errors.ts";
import type { ContainerId } from "../shared/ids.ts";
import type {
  ContainerExecutor,
  ContainerProcess,
  ContainerRun,
  ContainerSignal,
  LaunchRequest,
} from "./container-runtime.ts";
import { type ExecCommand, type ExecRequest, execCommand } from "./exec-command.ts";
import { codeOf } from "./log.ts";
import { ProcessLook } from "./process-look.ts";
import { ProcessSpawner } from "./process-spawner.ts";
import {
  isAlive,
  isGone,
  isRecycled,
  type ProcessIdentity,
  parseStat,
  processTree,
} from "./process-table.ts";

/** How often the supervising shells are looked at: one that is killed cannot tell. */
const POLL_INTERVAL_MS = 1_000;
/** A killed process is gone so soon, or twice as late, and so on. */
const KILL_SETTLE_MS = 2;
const KILLED = 128 + osConstants.signals.SIGKILL;
/** The line before was there from the beginning; a line that is not whole is being written. */
const EXIT_CODE = /^.*\n(\d+)\n$/;
/** Of the files of each run. Agents up to 0.1 had the exit code in a file of its own. */
const EXTENSIONS = ["pid", "exitcode", "exitcode.tmp"] as const;
const IS_OF_RUN = /\.(?:pid|exitcode|exitcode\.tmp)$/;

/**
 * `set -C` makes the claim exclusive: a launch that was given up may not come true later. The
 * traps do nothing but keep the shell alive, also without an agent that reads what it says; unlike
 * ignored signals they are not inherited. The shell's own messages ("Killed") are not part of the
 * container's stderr. Every word is the shell's own: it starts nothing but the container. The exit
 * code needs no room on a full disk: it fits into the claim's block.
 */
const SUPERVISOR = `
key=$2 pid_file=$1/$2.pid script=$3 preamble=$4 entrances=$5
shift 5
unset SHLVL OLDPWD
leave() { printf 'exited %s %s\\n' "$key" "$1" >&3; exit "$1"; }
trap : TERM INT HUP QUIT USR1 USR2 PIPE
exec 4>&2 2>/dev/null
set -C
{ read -r stat < "/proc/$$/stat" && printf '%s\\n' "$stat" > "$pid_file"; } || {
  printf 'failed %s the launch was given up, or the disk is full\\n' "$key" >&3
  exit 126
}
set +C
printf 'started %s %s\\n' "$key" "$stat" >&3
while [ "$entrances" -gt 0 ]; do
  echo 0 > "$1" || leave 125
  shift
  entrances=$((entrances - 1))
done
(
  eval "$preamble"
  exec 2>&4 3>&- 4>&-
  [ $# -eq 0 ] || exec "$@" "$script"
  . "$script"
)
code=$?
printf '%s\\n' "$code" >> "$pid_file"
leave "$code"
`;

/** How a process's rights are taken away. */
export type Confinement = {
  /** A POSIX shell's commands that come first: umask, resource limits. */
  readonly preamble: string;
  /** What runs the launch script, such as setpriv with a shell; the supervising shell when empty. */
  readonly words: readonly string[];
};
const UNCONFINED: Confinement = { preamble: "", words: [] };

/** A run whose end is waited for. */
type Followed = {
  readonly run: ContainerRun;
  /** Of the supervising shell, as soon as it is known. */
  identity: ProcessIdentity | undefined;
  /** What is told of a shell that was killed. */
  readonly exitCodeIfKilled: number | undefined;
  readonly exited: Promise<number | undefined>;
  readonly resolve: (exitCode: number | undefined) => void;
};

export class ContainerLauncher implements ContainerExecutor {
  readonly shell = existsSync("/bin/bash") ? "/bin/bash" : "/bin/sh";
  readonly #bootId: string;
  readonly #state: string;
  readonly #spawner: ProcessSpawner;
  readonly #look = new ProcessLook();
  /** By file name. */
  readonly #followed = new Map<string, Followed>();
  #watcher: FSWatcher | undefined;
  #poll: NodeJS.Timeout | undefined;

  /**
   * `stateDirectory` is where pid and exit code files lie; `bootId` is the machine's present one.
   * `wrapper`: words in front of the shell that starts everything, such as setpriv's.
   */
  constructor(stateDirectory: string, bootId: string, wrapper: readonly string[] = []) {
    this.#state = stateDirectory;
    this.#bootId = bootId;
    this.#spawner = new ProcessSpawner({
      shell: [...wrapper, this.shell],
      program: ["/bin/sh", "-c", SUPERVISOR, "selvedge-container", stateDirectory],
      exited: (key, exitCode) => this.#ended(key, exitCode),
    });
  }

  async launch(
    request: LaunchRequest,
    { preamble, words }: Confinement = UNCONFINED,
  ): Promise<ContainerProcess> {
    const { workDirectory, script, entrances } = request;
    const stdout = await openLog(request.stdout);
    const stderr = await openLog(request.stderr);
    const name = nameOf(request);
    // Its end may be heard of in the same moment as its start.
    const followed = this.#follow(request, KILLED);
    try {
      const { pid, startTicks } = await this.#spawner.spawn({
        ...{ key: name, workDirectory, stdout: stdout.fd, stderr: stderr.fd },
        words: [script, preamble, String(entrances.length), ...entrances, ...words],
      });
      const identity = { pid, startTicks, bootId: this.#bootId };
      followed.identity = identity;
      return { run: runOf(request), identity, exited: followed.exited };
    } catch (error) {
      this.#followed.delete(name);
      // It may have started all the same, unheard of. If not, it never will.
      const found = await this.adopt(request, this.#bootId);
      if (typeof found === "object") return found;
      const identity = this.#identityIn(this.#file(request, "pid"));
      if (found === undefined || !identity) throw error;
      return { run: runOf(request), identity, exited: Promise.resolve(found) };
    } finally {
      // Nobody waits for it: the container may already be spoken to.
      for (const file of [stdout, stderr]) file.close().catch(() => undefined);
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
    const followed = this.#follow(run, undefined);
    followed.identity = identity;
    this.#watcher ??= watch(this.#state, (_event, file) => this.#noticed(file ?? ""));
    return { run: runOf(run), identity, exited: followed.exited };
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
    const [, exitCode] = EXIT_CODE.exec(this.#read(run, "pid")) ?? [];
    if (exitCode !== undefined) return Number(exitCode);
    const former = this.#read(run, "exitcode");
    return /^\d+ *\n$/.test(former) ? Number(former) : undefined;
  }

  async execCommand(request: ExecRequest): Promise<Reply<ExecCommand>> {
    return ok(execCommand(request, UNCONFINED));
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
    if (!isRecycled(identity)) send(-identity.pid, "SIGKILL");
    this.#look.ask((processes) => {
      if (isRecycled(identity)) return;
      for (const { pid } of processTree(identity, processes)) send(pid, "SIGKILL");
      this.#lookSoon(identity.pid, KILL_SETTLE_MS);
    });
  }

  async forget(containerId: ContainerId, runs = 1): Promise<void> {
    for (let run = 1; run <= runs; run++) {
      for (const extension of EXTENSIONS) {
        await rm(this.#file({ containerId, run }, extension), { force: true });
      }
    }
  }

  endUnknown(known: ReadonlySet<ContainerId>): void {
    const files = readdirSync(this.#state).filter((name) => IS_OF_RUN.test(name));
    for (const name of files) {
      const [containerId = ""] = name.split(".");
      if (known.has(containerId)) continue;
      const path = join(this.#state, name);
      const identity = name.endsWith(".pid") ? this.#identityIn(path) : undefined;
      if (identity && isAlive(identity)) this.#killTree(identity);
      rmSync(path, { force: true });
    }
  }

  /** Stops watching; the processes go on. */
  close(): void {
    this.#look.look();
    this.#followed.clear();
    this.#spawner.close();
    this.#unwatch();
  }

  #follow(run: ContainerRun, exitCodeIfKilled: number | undefined): Followed {
    const { promise: exited, resolve } = Promise.withResolvers<number | undefined>();
    const followed = { run, identity: undefined, exitCodeIfKilled, exited, resolve };
    this.#followed.set(nameOf(run), followed);
    this.#poll ??= setInterval(() => this.#lookAtAll(), POLL_INTERVAL_MS);
    return followed;
  }

  #ended(name: string, exitCode: number | undefined): void {
    this.#followed.get(name)?.resolve(exitCode);
    this.#followed.delete(name);
    if (!this.#followed.size) this.#unwatch();
  }

  /** A file of the state directory has changed. */
  #noticed(file: string): void {
    const [, name = ""] = /^(.*)\.(?:pid|exitcode)$/.exec(file) ?? [];
    const followed = this.#followed.get(name);
    const exitCode = followed && this.exitCodeOf(followed.run);
    if (exitCode !== undefined) this.#ended(name, exitCode);
  }

  #lookAtAll(): void {
    for (const [name, followed] of this.#followed) this.#lookAt(name, followed);
  }

  #lookAt(name: string, { identity, run, exitCodeIfKilled }: Followed): void {
    if (!identity || !isGone(identity)) return;
    this.#ended(name, this.exitCodeOf(run) ?? exitCodeIfKilled);
  }

  /** A supervising shell that was killed cannot tell of its end. */
  #lookSoon(pid: number, delayMs: number): void {
    const found = [...this.#followed].find(([, { identity }]) => identity?.pid === pid);
    if (!found || delayMs > POLL_INTERVAL_MS) return;
    const look = () => {
      this.#lookAt(...found);
      this.#lookSoon(pid, delayMs * 2);
    };
    setTimeout(look, delayMs).unref();
  }

  #unwatch(): void {
    this.#watcher?.close();
    this.#watcher = undefined;
    clearInterval(this.#poll);
    this.#poll = undefined;
  }

  /** Empty when it is not there. */
  #read(run: ContainerRun, extension: (typeof EXTENSIONS)[number]): string {
    try {
      return readFileSync(this.#file(run, extension), "utf8");
    } catch {
      return "";
    }
  }

  #file(run: ContainerRun, extension: (typeof EXTENSIONS)[number]): string {
    return join(this.#state, `${nameOf(run)}.${extension}`);
  }
}

function nameOf({ containerId, run }: ContainerRun): string {
  return run === 1 ? containerId : `${containerId}.${run}`;
}

function runOf({ containerId, run }: ContainerRun): ContainerRun {
  return { containerId, run };
}

function openLog(path: string): Promise<FileHandle> {
  const { O_APPEND, O_CREAT, O_NOFOLLOW, O_WRONLY } = constants;
  return open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0o600);
}

function send(pid: number, signal: ContainerSignal): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    // ESRCH: gone by itself. EPERM: it has become another user's, and is not ours to end.
    if (codeOf(error) !== "ESRCH" && codeOf(error) !== "EPERM") throw error;
  }
}
