/**
 * An executor around the node's own that takes rights away from a process before its launch script
 * runs: it becomes its user, loses supplementary groups and capabilities, can gain no privileges
 * (setuid programs have no effect), and has the operator's resource limits.
 *
 * The inner launcher's supervising shell keeps the agent's rights: it enters control groups and
 * writes the exit code, and runs nothing of the user's.
 */
import { ok, type Reply } from "../shared/errors.ts";
import type { ContainerId } from "../shared/ids.ts";
import type { ContainerLauncher } from "./container-launcher.ts";
import type {
  ContainerExecutor,
  ContainerProcess,
  ContainerRun,
  ContainerSignal,
  LaunchRequest,
} from "./container-runtime.ts";
import { type ExecCommand, type ExecRequest, execCommand } from "./exec-command.ts";
import type { OsUser, OsUsers } from "./os-users.ts";
import { type Rlimits, ulimitCommands } from "./rlimits.ts";

/** util-linux' setpriv, which becomes the program that it is given. */
export const NO_NEW_PRIVILEGES = ["setpriv", "--no-new-privs"];

export type ConfinedLauncherOptions = {
  /** Itself without a way to new privileges. */
  readonly inner: ContainerLauncher;
  /** Left out where containers run as the agent's own user. */
  readonly users?: OsUsers;
  readonly rlimits: Rlimits;
};

export class ConfinedLauncher implements ContainerExecutor {
  readonly #options: ConfinedLauncherOptions;
  readonly #preamble: string;

  constructor(options: ConfinedLauncherOptions) {
    this.#options = options;
    this.#preamble = ["umask 027", ...ulimitCommands(options.rlimits)].join("\n");
  }

  get shell(): string {
    return this.#options.inner.shell;
  }

  async launch(request: LaunchRequest): Promise<ContainerProcess> {
    const { inner, users } = this.#options;
    const user = await users?.handOver(request);
    if (user && !user.ok) throw new Error(user.error.message);
    const words = user ? [...setpriv(user.value), "/bin/sh"] : [];
    return inner.launch(request, { preamble: this.#preamble, words });
  }

  adopt(run: ContainerRun, bootId: string) {
    return this.#options.inner.adopt(run, bootId);
  }

  exitCodeOf(run: ContainerRun): number | undefined {
    return this.#options.inner.exitCodeOf(run);
  }

  async execCommand(request: ExecRequest): Promise<Reply<ExecCommand>> {
    const user = this.#options.users?.resolve(request.user);
    if (user && !user.ok) return user;
    const words = user ? setpriv(user.value) : NO_NEW_PRIVILEGES;
    return ok(execCommand(request, { preamble: this.#preamble, words }));
  }

  signal(process: ContainerProcess, signal: ContainerSignal): void {
    this.#options.inner.signal(process, signal);
  }

  kill(process: ContainerProcess): void {
    this.#options.inner.kill(process);
  }

  forget(containerId: ContainerId, runs?: number): Promise<void> {
    return this.#options.inner.forget(containerId, runs);
  }

  endUnknown(known: ReadonlySet<ContainerId>): void {
    this.#options.inner.endUnknown(known);
  }

  close(): void {
    this.#options.inner.close();
  }
}

function setpriv({ uid, gid }: OsUser): string[] {
  const identity = [`--reuid=${uid}`, `--regid=${gid}`, "--clear-groups"];
  return [...NO_NEW_PRIVILEGES, ...identity, "--inh-caps=-all", "--bounding-set=-all"];
}
