/**
 * The processes of one container, one after the other: the first, those that the node starts again
 * after a failure (ContainerRetry), and those that take its place when it is re-initialized. Each is
 * a run of its own; its number is on the disk before the process is launched.
 */
import { join } from "node:path";
import { type ContainerLaunchContext, EXIT } from "../shared/container.ts";
import { fail, ok, type Reply } from "../shared/errors.ts";
import { entrances, killGroup, oomKills } from "./cgroups.ts";
import { LaunchFailure, prepareContainer } from "./container-preparation.ts";
import { decideRetry, type RetryDecision } from "./container-retry.ts";
import type { ContainerProcess, ContainerSignal } from "./container-runtime.ts";
import type { ContainerState } from "./container-state.ts";
import { describeExit, describeMemoryKill } from "./exit-diagnostics.ts";
import { messageOf } from "./log.ts";
import type { ProcessIdentity } from "./process-table.ts";
import { endRemaining } from "./remaining-processes.ts";
import { RunningProcess } from "./running-process.ts";
import type { LaunchFacts } from "./state-store.ts";
import { LAUNCH_SCRIPT } from "./work-directory.ts";

/** How a container ends, or is to end. */
export type ContainerEnd = { readonly exitStatus: number; readonly diagnostics: string };

/** The container's life, as its processes act on it. */
export type ContainerLife = {
  /** The last process is gone: the container is COMPLETE. */
  complete(end: ContainerEnd): Promise<void>;
  /** It is beyond its limits, and to be ended. */
  stop(end: ContainerEnd): Promise<void>;
};

export class ContainerRuns {
  readonly #state: ContainerState;
  readonly #life: ContainerLife;
  #process: RunningProcess | undefined;
  #relaunchTimer: NodeJS.Timeout | undefined;
  /** The stop order has been carried out, so its exit status stands. */
  #isSignalled = false;
  #ending: Promise<void> = Promise.resolve();

  constructor(state: ContainerState, life: ContainerLife) {
    this.#state = state;
    this.#life = life;
  }

  get isRunning(): boolean {
    return this.#process !== undefined;
  }

  /** Of its present process. */
  get identity(): ProcessIdentity | undefined {
    return this.#process?.identity;
  }

  /** Starts a process in the prepared directories. Rejects when it cannot be started. */
  async launch(launch: ContainerLaunchContext): Promise<void> {
    const state = this.#state;
    const { containerId, placed, services } = state;
    const run = state.record.run + 1;
    state.put({ run, relaunchAtMs: undefined });
    await state.save();
    const { stop, resource, cgroup, launch: facts } = state.record;
    if (stop) return await this.#life.complete(stop);
    if (!placed) throw new Error("it has no work directory");
    const { workDirectory, logDirectories, user, applicationId } = placed;
    const [logs = workDirectory] = logDirectories;
    const process = await state.executor.launch({
      ...{ containerId, run, user, resource, launch, workDirectory, logDirectories },
      script: join(workDirectory, LAUNCH_SCRIPT),
      localDirectories: services.home.applicationDirectories(user, applicationId),
      localizedPaths: Object.values(facts?.localized ?? {}),
      stdout: join(logs, "stdout"),
      stderr: join(logs, "stderr"),
      entrances: cgroup ? entrances(cgroup) : [],
      ports: state.status.ports ?? {},
    });
    state.log("container.started", "ok", { pid: process.identity.pid });
    void this.#attach(process);
    if (state.record.stop) await this.terminate();
  }

  /** Continues after a restart of the agent, in the same boot of the machine. */
  async adopt(): Promise<void> {
    const state = this.#state;
    const { containerId, record } = state;
    const { run, bootId, stop, next, launch, relaunchAtMs } = record;
    this.#isSignalled = stop !== undefined;
    if (relaunchAtMs !== undefined) {
      if (stop) return await this.#life.complete(stop);
      return this.#scheduleRelaunch(relaunchAtMs);
    }
    const found = await state.executor.adopt({ containerId, run }, bootId);
    if (typeof found !== "object") return await this.#ended(found);
    state.log("container.adopted", "ok", { pid: found.identity.pid });
    const firstAnswer = this.#attach(found);
    if (stop) await this.terminate();
    else if (next) this.#process?.end(launch?.sigkillDelayMs ?? 0);
    else await firstAnswer;
  }

  /** What is known of the end of a run in an earlier boot. */
  async endBeforeReboot(): Promise<ContainerEnd> {
    const { containerId, record, executor } = this.#state;
    const { run, relaunchAtMs, next } = record;
    const exitCode = executor.exitCodeOf({ containerId, run });
    const wasOver = exitCode !== undefined && relaunchAtMs === undefined && !next;
    if (wasOver) return await this.#describe(exitCode);
    return {
      exitStatus: EXIT.ABORTED,
      diagnostics:
        "Container released on a *lost* node: the machine was restarted (reboot), and the " +
        "container ended with it.",
    };
  }

  /** Carries out the stop order in the record. */
  async terminate(): Promise<void> {
    const state = this.#state;
    const process = this.#process;
    if (this.#cancelRelaunch() && state.record.stop) {
      return await this.#life.complete(state.record.stop);
    }
    if (!process) return;
    process.unwatch();
    state.setStatus({ subState: "KILLING" }, false);
    await state.trySave();
    // It won the race: its own exit code stands, and its exit is about to be heard of.
    if (process.hasExited() || state.isOver) return;
    this.#isSignalled = true;
    const { launch, stop } = state.record;
    state.log("container.stop", "ok", { exitStatus: stop?.exitStatus ?? EXIT.INVALID });
    process.end(launch?.sigkillDelayMs ?? 0);
  }

  /** FAILED_PRECONDITION when it has no process at the moment. */
  signal(signal: ContainerSignal): Reply<undefined> {
    const { containerId } = this.#state;
    if (!this.#process) {
      return fail("FAILED_PRECONDITION", `${containerId} has no process at the moment`);
    }
    this.#state.log("container.signal", "ok", { signal });
    this.#process.signal(signal);
    return ok();
  }

  /** The container's resource has changed. */
  resized(): void {
    this.#process?.watch(this.#state.record.resource.memoryMb);
  }

  /**
   * The present process is ended, and `next` started in its place. `previous` is kept for a
   * roll-back, and `revision` is told when that is on the disk. Rejects when it cannot be written.
   */
  async replaceWith(
    next: LaunchFacts,
    previous: LaunchFacts | undefined,
    revision: number,
  ): Promise<void> {
    const state = this.#state;
    if (state.phase !== "RUNNING") return;
    state.put({ next, previous });
    state.setStatus({
      ...{ subState: "REINITIALIZING", ready: false, readiness: undefined, revision },
    });
    await state.save();
    if (this.#cancelRelaunch()) this.#ending = this.#replace(next);
    else this.#process?.end(state.record.launch?.sigkillDelayMs ?? 0);
  }

  /** Watches nothing any more. */
  over(): void {
    this.#process?.detach();
    this.#cancelRelaunch();
  }

  /** The agent goes; the process stays. Resolves when an end under way is on the disk. */
  detach(): Promise<void> {
    this.over();
    return this.#ending;
  }

  /** Follows the process to its end; resolves with the first answer of the readiness check. */
  #attach(process: ContainerProcess): Promise<void> {
    const state = this.#state;
    const { monitor, ips } = state.services;
    const { cgroup, resource, launch } = state.record;
    const running = new RunningProcess({
      ...{ executor: state.executor, process, cgroup, monitor },
      readinessCheck: launch?.readinessCheck,
      host: ips[0] ?? "127.0.0.1",
      readinessChanged: ({ ready, readiness }) => state.setStatus({ ready, readiness }),
      workDirectory: state.placed?.workDirectory,
      logDirectories: state.placed?.logDirectories ?? [],
      exceeded: (overrun) => void this.#life.stop(overrun),
    });
    this.#process = running;
    if (state.phase === "NEW") state.put({ phase: "RUNNING" });
    void process.exited.then((exitCode) => {
      this.#ending = this.#ended(exitCode);
    });
    running.watch(resource.memoryMb);
    const launchVersion = launch && launch.version > 1 ? launch.version : undefined;
    const ready = !running.isProbed;
    const metaData = state.services.metaData();
    const auxiliaryServices = Object.keys(metaData).length > 0 ? { ...metaData } : undefined;
    const facts = { ready, launchVersion, auxiliaryServices };
    state.setStatus({ state: "RUNNING", subState: "RUNNING", ...facts });
    return running.probe();
  }

  async #ended(exitCode: number | undefined): Promise<void> {
    const state = this.#state;
    if (state.isDetached || state.isOver) return;
    await this.#endRemaining();
    if (state.isDetached || state.isOver) return;
    const { stop, next, launch, failures } = state.record;
    // With one to follow, it was ended by its node.
    if (stop && (this.#isSignalled || next)) return await this.#life.complete(stop);
    if (next) return await this.#replace(next);
    const end = await this.#describe(exitCode);
    if (state.record.stop) return await this.#life.complete(end);
    const nowMs = state.services.nowMs();
    const retry = decideRetry(launch?.retry, exitCode ?? EXIT.LOST, failures, nowMs);
    if (retry) return await this.#relaunchLater(retry, end);
    const { previous } = state.record;
    if (previous && end.exitStatus !== EXIT.SUCCESS) {
      return await this.#rollBackAfter(previous, end.diagnostics);
    }
    await this.#life.complete(end);
  }

  /** Whatever the process has left behind: before its end is told, and before another one starts. */
  async #endRemaining(): Promise<void> {
    const { containerId, placed, record, services } = this.#state;
    const { cgroup } = record;
    const { monitor } = services;
    const process = this.#process;
    this.#process = undefined;
    process?.detach();
    const leader = { identity: process?.identity, workDirectory: placed?.workDirectory };
    const kill = () => process?.kill();
    if (cgroup) {
      if (process) kill();
      else killGroup(cgroup);
    } else if (!(await endRemaining(monitor, containerId, leader, kill))) {
      this.#state.log("container.remaining", "processes of it cannot be killed");
    }
    monitor.forget(containerId);
  }

  async #describe(exitCode: number | undefined): Promise<ContainerEnd> {
    const { containerId, services, record, executor } = this.#state;
    const { cgroup, resource, run } = record;
    if (exitCode === undefined) {
      const diagnostics =
        `Container ${containerId} ended while the agent was away, and its exit code ` +
        "was not found.";
      return { exitStatus: EXIT.LOST, diagnostics };
    }
    const wasMemoryKill = () =>
      (cgroup !== undefined && oomKills(cgroup) > 0) ||
      executor.wasMemoryKill?.({ containerId, run });
    if (exitCode !== 0 && wasMemoryKill()) {
      const diagnostics = describeMemoryKill(containerId, resource.memoryMb);
      return { exitStatus: EXIT.KILLED_EXCEEDED_PMEM, diagnostics };
    }
    const stderr = services.home.logFile(containerId, "stderr");
    return { exitStatus: exitCode, diagnostics: await describeExit(exitCode, stderr) };
  }

  async #relaunchLater(
    { relaunchAtMs, failures }: RetryDecision,
    end: ContainerEnd,
  ): Promise<void> {
    const state = this.#state;
    const { exitStatus, diagnostics } = end;
    state.put({ relaunchAtMs, failures: [...failures] });
    state.log("container.relaunch", "failed", { exitStatus });
    state.setStatus({
      ...{ subState: "RELAUNCHING", ready: false, readiness: undefined, diagnostics },
    });
    await state.trySave();
    if (state.record.stop) return await this.#life.complete(state.record.stop);
    this.#scheduleRelaunch(relaunchAtMs);
  }

  #scheduleRelaunch(relaunchAtMs: number): void {
    const { isDetached, services } = this.#state;
    if (isDetached) return;
    const delayMs = Math.max(0, relaunchAtMs - services.nowMs());
    this.#relaunchTimer = setTimeout(() => {
      this.#relaunchTimer = undefined;
      this.#ending = this.#relaunch();
    }, delayMs);
  }

  /** True when one was due. */
  #cancelRelaunch(): boolean {
    const isDue = this.#relaunchTimer !== undefined;
    clearTimeout(this.#relaunchTimer);
    this.#relaunchTimer = undefined;
    return isDue;
  }

  /** In the same directories, with what was prepared then. */
  async #relaunch(): Promise<void> {
    const state = this.#state;
    try {
      const { version = 1 } = state.record.launch ?? {};
      const launch = await state.services.store.readLaunch(state.containerId, version);
      state.setStatus({ relaunches: (state.status.relaunches ?? 0) + 1 }, false);
      await this.launch(launch);
    } catch (error) {
      await this.launchFailed(error);
    }
  }

  /** The process before is gone: prepares the same directories anew and launches. */
  async #replace(next: LaunchFacts): Promise<void> {
    const state = this.#state;
    const { containerId, services, record } = state;
    const { user, workDirectory, logDirectories, launch: present } = record;
    try {
      const launch = await services.store.readLaunch(containerId, next.version);
      const before = present && (await services.store.readLaunch(containerId, present.version));
      const { ports = {} } = state.status;
      const place = { containerId, user, workDirectory, logDirectories, ports };
      const prepared = await prepareContainer(services, place, launch, next.localized, before);
      state.put({ launch: prepared.launch, next: undefined, failures: [] });
      state.setStatus({ ports: prepared.ports, startedMs: services.nowMs() }, false);
      await this.launch(launch);
    } catch (error) {
      const { previous, stop } = state.record;
      if (previous && !stop) await this.#rollBackAfter(previous, messageOf(error));
      else await this.launchFailed(error);
    }
  }

  /** The new launch failed before anybody committed it. */
  async #rollBackAfter(previous: LaunchFacts, why: string): Promise<void> {
    const state = this.#state;
    state.log("container.rollback", "failed");
    state.put({ next: previous, previous: undefined });
    state.setStatus({
      ...{ subState: "REINITIALIZING", ready: false, readiness: undefined },
      diagnostics: `Container re-initialization rolled back: ${why}`,
    });
    await state.trySave();
    await this.#replace(previous);
  }

  /** The container never got a process, or gets no other one: COMPLETE. */
  async launchFailed(error: unknown): Promise<void> {
    const exitStatus = error instanceof LaunchFailure ? error.exitStatus : EXIT.INVALID;
    const diagnostics = `Container launch failed: ${messageOf(error)}`;
    await this.#life.complete(this.#state.record.stop ?? { exitStatus, diagnostics });
  }
}
