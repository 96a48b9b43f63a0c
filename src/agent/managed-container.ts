/**
 * One container on this node, from the order to start it until the tracker has stored its end.
 * Phases go NEW → RUNNING → STOPPING → COMPLETE → FORGOTTEN, skipping some, never back, except
 * that a FORGOTTEN one is said again when the tracker asks. The record is on the disk before the
 * world changes (spawn, ordered signal, report), so that a killed agent continues where it was.
 */
import { rm, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type ContainerLaunchContext, type ContainerStatus, EXIT } from "../shared/container.ts";
import type { ContainerId, NodeId } from "../shared/ids.ts";
import { LIMITS } from "../shared/limits.ts";
import type { AgentHome } from "./agent-home.ts";
import { type Cgroups, entrances, killGroup, oomKills, removeGroup } from "./cgroups.ts";
import type { ContainerLauncher, ContainerProcess } from "./container-launcher.ts";
import type { ContainerPhase } from "./container-manager.ts";
import { LaunchFailure, prepareContainer } from "./container-preparation.ts";
import type { ContainersMonitor } from "./containers-monitor.ts";
import { describeExit, describeMemoryKill } from "./exit-diagnostics.ts";
import { type Log, messageOf } from "./log.ts";
import type { PortAllocator } from "./port-allocator.ts";
import { ReadinessProber } from "./readiness-prober.ts";
import type { ContainerRecord, StateStore } from "./state-store.ts";
import type { TokenVerifier } from "./token-verifier.ts";

/** How long a container without a token (it never ran) is remembered after its end is stored. */
const TOMBSTONE_MS = 600_000;

/** What all containers of a node share. */
export type ContainerServices = {
  readonly nodeId: NodeId;
  /** The cluster's, without a slash at its end. */
  readonly clusterUrl: string;
  readonly host: string;
  readonly ips: readonly string[];
  readonly home: AgentHome;
  readonly store: StateStore;
  readonly verifier: TokenVerifier;
  readonly launcher: ContainerLauncher;
  readonly monitor: ContainersMonitor;
  readonly ports: PortAllocator;
  readonly cgroups: Cgroups | undefined;
  readonly log: Log;
  readonly nowMs: () => number;
  /** The status of this container is to be reported. */
  readonly changed: (container: ManagedContainer) => void;
};

type Order = { readonly exitStatus: number; readonly diagnostics: string };

export class ManagedContainer {
  readonly containerId: ContainerId;
  readonly #services: ContainerServices;
  #record: ContainerRecord;
  #process: ContainerProcess | undefined;
  #prober: ReadinessProber | undefined;
  #killTimer: NodeJS.Timeout | undefined;
  /** The stop order has been carried out, so its exit status stands. */
  #isSignalled = false;
  #isDetached = false;
  #ending: Promise<void> = Promise.resolve();
  readonly #completed = Promise.withResolvers<void>();

  constructor(services: ContainerServices, record: ContainerRecord) {
    this.containerId = record.status.containerId;
    this.#services = services;
    this.#record = record;
    if (record.phase === "COMPLETE" || record.phase === "FORGOTTEN") this.#completed.resolve();
  }

  /** A container that the node hears of for the first time. */
  static create(services: ContainerServices, containerId: ContainerId): ManagedContainer {
    return new ManagedContainer(services, {
      phase: "NEW",
      status: {
        containerId,
        state: "NEW",
        exitStatus: EXIT.INVALID,
        diagnostics: "",
        ready: false,
        host: services.host,
        ips: [...services.ips],
      },
      user: "",
      memoryMb: 0,
      tokenExpiresMs: services.nowMs() + TOMBSTONE_MS,
      sigkillDelayMs: 0,
      bootId: services.launcher.bootId,
    });
  }

  get phase(): ContainerPhase {
    return this.#record.phase;
  }

  get status(): ContainerStatus {
    return this.#record.status;
  }

  /** Epoch ms until when the container has to be remembered once it is forgotten. */
  get rememberedUntilMs(): number {
    return this.#record.tokenExpiresMs;
  }

  /** Verifies, prepares, launches. Never rejects: a failed launch is a COMPLETE container. */
  async start(token: string, launch: ContainerLaunchContext): Promise<void> {
    const { verifier, store, launcher, home, log, nowMs } = this.#services;
    const { containerId } = this;
    try {
      const claims = await verifier.verify(token, { containerId, user: launch.user });
      if (!claims.ok) throw new LaunchFailure(EXIT.INVALID, claims.error.message);
      const { script, ports, facts } = await prepareContainer(this.#services, claims.value, launch);
      this.#record = { ...this.#record, ...facts };
      this.#setStatus({ ports, startedMs: nowMs() }, false);
      await store.write(this.#record);
      if (this.#record.stop) return await this.#complete(this.#record.stop);
      const logs = home.logDirectory(containerId);
      const process = await launcher.launch({
        containerId,
        script,
        workDirectory: dirname(script),
        stdout: join(logs, "stdout"),
        stderr: join(logs, "stderr"),
        entrances: this.#record.cgroup ? entrances(this.#record.cgroup) : [],
      });
      log({ event: "container.started", outcome: "ok", containerId, pid: process.identity.pid });
      void this.#attach(process);
      if (this.#record.stop) await this.#terminate();
    } catch (error) {
      const exitStatus = error instanceof LaunchFailure ? error.exitStatus : EXIT.INVALID;
      const diagnostics = `Container launch failed: ${messageOf(error)}`;
      this.#setStatus({ startedMs: undefined }, false);
      await this.#complete(this.#record.stop ?? { exitStatus, diagnostics });
    }
  }

  /** Continues with a container found in the state store after a restart of the agent. */
  async adopt(): Promise<void> {
    const { launcher, ports, log } = this.#services;
    const { containerId } = this;
    if (this.phase === "COMPLETE" || this.phase === "FORGOTTEN") return;
    ports.take(this.status.ports ?? {});
    const found = launcher.adopt(containerId, this.#record.bootId);
    this.#isSignalled = this.#record.stop !== undefined;
    if (typeof found !== "object") return this.#ended(found);
    log({ event: "container.adopted", outcome: "ok", containerId, pid: found.identity.pid });
    const firstAnswer = this.#attach(found);
    if (this.#record.stop) await this.#terminate();
    else await firstAnswer;
  }

  /** Ends it: SIGTERM, `sigkillDelayMs`, SIGKILL; then COMPLETE as ordered. */
  async stop(order: Order): Promise<void> {
    if (this.phase !== "NEW" && this.phase !== "RUNNING") return;
    this.#record = { ...this.#record, phase: "STOPPING", stop: order };
    // A launch under way sees the order and gives up, or terminates what it has just spawned.
    if (this.#process) await this.#terminate();
  }

  /** COMPLETE without ever having run here. */
  async completeUnstarted(order: Order): Promise<void> {
    await this.#complete(order);
  }

  /** The tracker has stored its end: only the logs and a short memory of it stay. */
  async forget(): Promise<void> {
    const { home, log } = this.#services;
    if (this.phase !== "COMPLETE") return;
    this.#record = { ...this.#record, phase: "FORGOTTEN" };
    try {
      await this.#persist();
      if (!this.#record.user) return;
      const directory = home.workDirectory(this.#record.user, this.containerId);
      await rm(directory, { recursive: true, force: true });
      // Fails, rightly, while the application has other containers here.
      await rmdir(dirname(directory)).catch(() => undefined);
    } catch (error) {
      const { containerId } = this;
      log({ event: "container.forget", outcome: messageOf(error), containerId });
    }
  }

  /** Says the end of a forgotten container again. */
  async reportAgain(): Promise<void> {
    if (this.phase !== "FORGOTTEN") return;
    this.#record = { ...this.#record, phase: "COMPLETE" };
    await this.#persist();
    this.#services.changed(this);
  }

  /** Resolves when it has ended and that is on the disk. */
  completed(): Promise<void> {
    return this.#completed.promise;
  }

  /** The agent goes; the process stays. Resolves when an end under way is on the disk. */
  detach(): Promise<void> {
    this.#isDetached = true;
    this.#prober?.stop();
    clearTimeout(this.#killTimer);
    return this.#ending;
  }

  /** Follows the process to its end; resolves with the first answer of the readiness check. */
  #attach(process: ContainerProcess): Promise<void> {
    const { monitor, ips } = this.#services;
    const { cgroup, memoryMb, readinessCheck } = this.#record;
    this.#process = process;
    if (this.phase === "NEW") this.#record = { ...this.#record, phase: "RUNNING" };
    void process.exited.then((exitCode) => {
      this.#ending = this.#ended(exitCode);
    });
    if (cgroup?.memory === undefined && memoryMb > 0) {
      const limitBytes = memoryMb * 1_048_576;
      monitor.watch(this.containerId, process.identity, limitBytes, (diagnostics) => {
        void this.stop({ exitStatus: EXIT.KILLED_EXCEEDED_PMEM, diagnostics });
      });
    }
    const needsProbe = readinessCheck !== undefined && readinessCheck.type !== "DEFAULT";
    this.#setStatus({ state: "RUNNING", ready: !needsProbe });
    if (!needsProbe) return Promise.resolve();
    this.#prober = new ReadinessProber(
      readinessCheck,
      ips[0] ?? "127.0.0.1",
      ({ ready, readiness }) => this.#setStatus({ ready, readiness }),
    );
    return this.#prober.start();
  }

  async #terminate(): Promise<void> {
    const { launcher, monitor, log } = this.#services;
    const { containerId } = this;
    const identity = this.#process?.identity;
    if (!identity) return;
    this.#prober?.stop();
    monitor.unwatch(containerId);
    await this.#persist();
    // It won the race: its own exit code stands, and its exit is about to be heard of.
    if (launcher.exitCodeOf(containerId) !== undefined || this.phase === "COMPLETE") return;
    this.#isSignalled = true;
    const { sigkillDelayMs, stop, cgroup } = this.#record;
    log({ event: "container.stop", outcome: "ok", containerId, exitStatus: stop?.exitStatus });
    const kill = () => {
      launcher.killTree(identity);
      if (cgroup) killGroup(cgroup);
    };
    if (sigkillDelayMs <= 0) return kill();
    launcher.signal(identity, "SIGTERM");
    this.#killTimer = setTimeout(kill, sigkillDelayMs);
  }

  async #ended(exitCode: number | undefined): Promise<void> {
    if (this.#isDetached || this.phase === "COMPLETE" || this.phase === "FORGOTTEN") return;
    const { launcher, home } = this.#services;
    const { cgroup, stop, memoryMb } = this.#record;
    if (this.#process) launcher.killTree(this.#process.identity);
    if (cgroup) killGroup(cgroup);
    if (stop && this.#isSignalled) return this.#complete(stop);
    const { containerId } = this;
    if (exitCode === undefined) {
      const diagnostics =
        `Container ${containerId} ended while the agent was away, and its exit code ` +
        "was not found.";
      return this.#complete({ exitStatus: EXIT.LOST, diagnostics });
    }
    if (exitCode !== 0 && cgroup && oomKills(cgroup) > 0) {
      const exitStatus = EXIT.KILLED_EXCEEDED_PMEM;
      const diagnostics = describeMemoryKill(containerId, memoryMb);
      return this.#complete({ exitStatus, diagnostics });
    }
    const stderr = join(home.logDirectory(containerId), "stderr");
    await this.#complete({
      exitStatus: exitCode,
      diagnostics: await describeExit(exitCode, stderr),
    });
  }

  async #complete({ exitStatus, diagnostics }: Order): Promise<void> {
    const { monitor, ports, log, nowMs, changed } = this.#services;
    const { containerId } = this;
    if (this.phase === "COMPLETE") return;
    this.#prober?.stop();
    clearTimeout(this.#killTimer);
    monitor.unwatch(containerId);
    ports.release(this.status.ports ?? {});
    this.#record = { ...this.#record, phase: "COMPLETE" };
    this.#setStatus(
      {
        state: "COMPLETE",
        exitStatus,
        diagnostics: diagnostics.slice(0, LIMITS.diagnosticsLengthMax),
        ready: false,
        readiness: undefined,
        finishedMs: nowMs(),
      },
      false,
    );
    await this.#persist();
    const outcome = exitStatus === EXIT.SUCCESS ? "ok" : "failed";
    log({ event: "container.exited", outcome, containerId, exitStatus });
    changed(this);
    const { cgroup } = this.#record;
    if (cgroup && !(await removeGroup(cgroup))) {
      log({ event: "cgroup.remove", outcome: "still in use", containerId });
    }
    this.#completed.resolve();
  }

  #setStatus(change: Partial<ContainerStatus>, isReported = true): void {
    this.#record = { ...this.#record, status: { ...this.status, ...change } };
    if (isReported && !this.#isDetached) this.#services.changed(this);
  }

  /** A full disk must not keep an exit from being reported, so a failed write is only logged. */
  async #persist(): Promise<void> {
    try {
      await this.#services.store.write(this.#record);
    } catch (error) {
      const { containerId } = this;
      this.#services.log({ event: "state.write", outcome: messageOf(error), containerId });
    }
  }
}
