/**
 * Where containers run: the one thing a ContainerExecutor (YARN's term) does is to start a prepared
 * container, and to know, also after a restart of the agent, what became of it. The node's own
 * processes are container-launcher.ts; docker and its like plug in beside it by the `type` of
 * the launch context's `runtime`.
 *
 * What every executor promises:
 *   - the process outlives the agent, and `adopt` finds it again;
 *   - one run is launched at most once: a launch that was given up never comes true later;
 *   - an exit code is kept until `forget`, whether or not an agent was there to see it.
 */
import type { ContainerLaunchContext } from "../shared/container.ts";
import type { Reply } from "../shared/errors.ts";
import type { ContainerId } from "../shared/ids.ts";
import type { Resource } from "../shared/resource.ts";
import type { ExecCommand, ExecRequest } from "./exec-command.ts";
import type { ProcessIdentity } from "./process-table.ts";

/** SignalContainerCommand: OUTPUT_THREAD_DUMP, GRACEFUL_SHUTDOWN, FORCEFUL_SHUTDOWN. */
export type ContainerSignal = "SIGQUIT" | "SIGTERM" | "SIGKILL";

/** One start of a container's process. Every relaunch and every upgrade in place is a new run. */
export type ContainerRun = {
  readonly containerId: ContainerId;
  /** From 1. */
  readonly run: number;
};

/** A running process, whether launched by this agent or found after a restart. */
export type ContainerProcess = {
  readonly run: ContainerRun;
  /** The leader of the process tree, as the machine sees it; what the monitor measures. */
  readonly identity: ProcessIdentity;
  /** 0–255, 128 + signal, or undefined when nobody saw the exit code. Never rejects. */
  readonly exited: Promise<number | undefined>;
};

export type LaunchRequest = ContainerRun & {
  /** Whose the container is; an executor that switches users gives him the directories first. */
  readonly user: string;
  readonly resource: Resource;
  readonly launch: ContainerLaunchContext;
  /** `launch_container.sh`: exports the environment and runs the commands. */
  readonly script: string;
  readonly workDirectory: string;
  /** The first is where stdout and stderr go; all are the container's own. */
  readonly logDirectories: readonly string[];
  /** Directories of the application (LOCAL_DIRS), and what was localized, read-only. */
  readonly localDirectories: readonly string[];
  readonly localizedPaths: readonly string[];
  readonly stdout: string;
  readonly stderr: string;
  /** `cgroup.procs` or `tasks` files to enter before the container's command runs. */
  readonly entrances: readonly string[];
  /** TCP ports of the node that were picked for the container, by name. */
  readonly ports: Readonly<Record<string, number>>;
};

export interface ContainerExecutor {
  /** The shell that runs the launch script where the container runs, such as `/bin/bash`. */
  readonly shell: string;

  /** Resolves once the process is there. Rejects, with words for people, when it cannot start. */
  launch(request: LaunchRequest): Promise<ContainerProcess>;

  /**
   * Finds a run after a restart of the agent: its process, its exit code when it has ended, or
   * undefined when nothing is left of it; a launch that has not happened yet never will. `bootId`:
   * the boot in which it was launched.
   */
  adopt(run: ContainerRun, bootId: string): Promise<ContainerProcess | number | undefined>;

  /** What is known of a run's end at this moment; undefined as long as nothing is. */
  exitCodeOf(run: ContainerRun): number | undefined;

  /** Whether a run that has ended was killed for its memory, where only the executor can tell. */
  wasMemoryKill?(run: ContainerRun): boolean;

  /**
   * What to start to run a program in a container that runs, with no more rights than its own program
   * has. Fails when this user may not run anything here any more.
   */
  execCommand(request: ExecRequest): Promise<Reply<ExecCommand>>;

  /** The IP address by which this machine reaches a run that has a network of its own. */
  addressOf?(run: ContainerRun): Promise<string | undefined>;

  /** To all of the container's processes; nothing happens when they are gone. */
  signal(process: ContainerProcess, signal: ContainerSignal): void;

  /** SIGKILL to whatever is left of the container, within a moment. */
  kill(process: ContainerProcess): void;

  /**
   * Its end is stored by the tracker: what takes room goes at once. What keeps a late launch from
   * coming true stays until `forget`.
   */
  release?(containerId: ContainerId): Promise<void>;

  /** Drops all that is kept of the container's runs, 1 to `runs`: nobody can order it any more. */
  forget(containerId: ContainerId, runs?: number): Promise<void>;

  /** At the agent's start: ends and drops the containers of this node that nobody knows any more. */
  endUnknown(known: ReadonlySet<ContainerId>): void;

  /** Stops watching; the containers go on. */
  close(): void;
}

/** By the `type` of a launch context's runtime; `process` is always there. */
export type ContainerExecutors = { readonly process: ContainerExecutor } & {
  readonly [type in NonNullable<ContainerLaunchContext["runtime"]>["type"]]?: ContainerExecutor;
};
