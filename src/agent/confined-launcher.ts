/**
 * An executor around another one that takes rights away from a process before its launch script
 * runs: it becomes its user, loses supplementary groups and capabilities, can gain no privileges
 * (setuid programs have no effect), and has the operator's resource limits.
 *
 * The inner executor's supervising shell keeps the agent's rights: it enters control groups and
 * writes the exit code, and runs nothing of the user's.
 */
import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ContainerId } from "../shared/ids.ts";
import type {
  ContainerExecutor,
  ContainerProcess,
  ContainerRun,
  ContainerSignal,
  LaunchRequest,
} from "./container-runtime.ts";
import type { OsUser, OsUsers } from "./os-users.ts";
import { prlimitArguments, type Rlimits } from "./rlimits.ts";
import { quote } from "./shell-words.ts";

export type ConfinedLauncherOptions = {
  readonly inner: ContainerExecutor;
  /** Where the scripts that take rights away lie; no user may write here. */
  readonly directory: string;
  /** Left out where containers run as the agent's own user. */
  readonly users?: OsUsers;
  readonly rlimits: Rlimits;
};

export class ConfinedLauncher implements ContainerExecutor {
  readonly #options: ConfinedLauncherOptions;

  constructor(options: ConfinedLauncherOptions) {
    this.#options = options;
  }

  get shell(): string {
    return this.#options.inner.shell;
  }

  async launch(request: LaunchRequest): Promise<ContainerProcess> {
    const { inner, directory, users, rlimits } = this.#options;
    const user = await users?.handOver(request);
    if (user && !user.ok) throw new Error(user.error.message);
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const script = join(directory, `${request.containerId}.${request.run}`);
    const command = [...confinement(user?.value, rlimits), inner.shell, request.script];
    await writeFile(script, `umask 027\nexec ${command.map(quote).join(" ")}\n`, { mode: 0o600 });
    return inner.launch({ ...request, script });
  }

  adopt(run: ContainerRun, bootId: string) {
    return this.#options.inner.adopt(run, bootId);
  }

  exitCodeOf(run: ContainerRun): number | undefined {
    return this.#options.inner.exitCodeOf(run);
  }

  signal(process: ContainerProcess, signal: ContainerSignal): void {
    this.#options.inner.signal(process, signal);
  }

  kill(process: ContainerProcess): void {
    this.#options.inner.kill(process);
  }

  async forget(containerId: ContainerId): Promise<void> {
    const { inner, directory } = this.#options;
    const names = await readdir(directory).catch(() => []);
    for (const name of names.filter((each) => each.startsWith(`${containerId}.`))) {
      await rm(join(directory, name), { force: true });
    }
    await inner.forget(containerId);
  }

  endUnknown(known: ReadonlySet<ContainerId>): void {
    this.#options.inner.endUnknown(known);
  }

  close(): void {
    this.#options.inner.close();
  }
}

/** util-linux' setpriv and prlimit, which become the program that they are given. */
function confinement(user: OsUser | undefined, rlimits: Rlimits): string[] {
  const identity = user
    ? [
        `--reuid=${user.uid}`,
        `--regid=${user.gid}`,
        "--clear-groups",
        "--inh-caps=-all",
        "--bounding-set=-all",
      ]
    : [];
  const limits = prlimitArguments(rlimits);
  const limited = limits.length ? ["prlimit", ...limits] : [];
  return ["setpriv", ...identity, "--no-new-privs", ...limited];
}
