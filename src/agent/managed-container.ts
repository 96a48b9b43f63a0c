/**
 * One container on this node, from the order to start it until the tracker has stored its end.
 * Phases go NEW → RUNNING → STOPPING → COMPLETE → FORGOTTEN, skipping some, never back, except
 * that a FORGOTTEN one is said again when the tracker asks. While it is RUNNING, one process may
 * follow another (container-runs.ts).
 *
 * The record is on the disk before the world changes (spawn, ordered signal, report), so that a
 * killed agent continues where it was.
 */
import { rm } from "node:fs/promises";
import { type ContainerLaunchContext, type ContainerStatus, EXIT } from "../shared/container.ts";
import { fail, ok, type Reply } from "../shared/errors.ts";
import { applicationOfContainer, type ContainerId } from "../shared/ids.ts";
import type { ApplicationContainer } from "./applications.ts";
import { removeGroup } from "./cgroups.ts";
import type { ContainerPhase, ContainerUpdate } from "./container-manager.ts";
import {
  checkLaunch,
  createCgroup,
  localizeResources,
  prepareContainer,
  verifyToken,
} from "./container-preparation.ts";
import { type ContainerEnd, ContainerRuns } from "./container-runs.ts";
import type { ContainerSignal } from "./container-runtime.ts";
import type { ContainerServices } from "./container-services.ts";
import { ContainerState } from "./container-state.ts";
import { ContainerUpdates } from "./container-updates.ts";
import { messageOf } from "./log.ts";
import type { ContainerRecord } from "./state-store.ts";
import type { ContainerInterior } from "./streams/container-interior.ts";

/** How long a container without a token (it never ran) is remembered after its end is stored. */
const TOMBSTONE_MS = 600_000;

export class ManagedContainer {
  readonly containerId: ContainerId;
  readonly #state: ContainerState;
  readonly #runs: ContainerRuns;
  readonly #updates: ContainerUpdates;
  readonly #completed = Promise.withResolvers<void>();

  /** `changed`: its status is to be reported. */
  constructor(
    services: ContainerServices,
    record: ContainerRecord,
    changed: (container: ManagedContainer) => void,
  ) {
    this.#state = new ContainerState(services, record, () => changed(this));
    this.containerId = this.#state.containerId;
    this.#runs = new ContainerRuns(this.#state, {
      complete: (end) => this.#complete(end),
      stop: (end) => this.stop(end),
    });
    this.#updates = new ContainerUpdates(this.#state, this.#runs);
    if (this.#state.isOver) this.#completed.resolve();
  }

  /** A container that the node hears of for the first time. */
  static create(
    services: ContainerServices,
    containerId: ContainerId,
    changed: (container: ManagedContainer) => void,
  ): ManagedContainer {
    const { host, ips, bootId, nowMs } = services;
    const record: ContainerRecord = {
      phase: "NEW",
      status: {
        containerId,
        state: "NEW",
        exitStatus: EXIT.INVALID,
        diagnostics: "",
        ready: false,
        host,
        ips: [...ips],
      },
      user: "",
      resource: { memoryMb: 0, vcores: 0 },
      tokenVersion: 0,
      tokenExpiresMs: nowMs() + TOMBSTONE_MS,
      bootId,
      run: 0,
      failures: [],
    };
    return new ManagedContainer(services, record, changed);
  }

  get phase(): ContainerPhase {
    return this.#state.phase;
  }

  get status(): ContainerStatus {
    return this.#state.status;
  }

  /** Whose it is, what it was granted, how it is launched. */
  get record(): ContainerRecord {
    return this.#state.record;
  }

  /** As the node's services know it; undefined as long as nobody knows whose it is. */
  get placed(): ApplicationContainer | undefined {
    return this.#state.placed;
  }

  /** Of the desired set's entry: the latest that was begun. */
  get revision(): number {
    return this.#updates.revision;
  }

  /** Epoch ms until when the container has to be remembered once it is forgotten. */
  get rememberedUntilMs(): number {
    return this.record.tokenExpiresMs;
  }

  /** Paths of its localized resources, by link, those that it may come back to included. */
  get localized(): Readonly<Record<string, string>> {
    const { previous, launch, next } = this.record;
    return { ...previous?.localized, ...launch?.localized, ...next?.localized };
  }

  /** Verifies, localizes, prepares, launches. Never rejects: a failed launch is a COMPLETE container. */
  async start(token: string, launch: ContainerLaunchContext): Promise<void> {
    const state = this.#state;
    const { containerId, services } = state;
    const { user } = launch;
    try {
      const { resource, version, exp } = await verifyToken(state, token, user);
      checkLaunch(services, launch);
      state.put({ user, resource, tokenVersion: version, tokenExpiresMs: exp * 1_000 });
      const applicationId = applicationOfContainer(containerId);
      await services.applications.begin({ applicationId, user }, containerId, launch);
      const localized = await localizeResources(state, launch);
      if (state.record.stop) return await this.#complete(state.record.stop);
      const place = { containerId, user, ports: {} };
      const prepared = await prepareContainer(services, place, launch, localized);
      const cgroup = await createCgroup(services, containerId, resource);
      state.put({
        launch: prepared.launch,
        workDirectory: prepared.workDirectory,
        logDirectories: [...prepared.logDirectories],
        cgroup,
      });
      const { ports } = prepared;
      state.setStatus({ ports, startedMs: services.nowMs(), subState: "SCHEDULED" }, false);
      await this.#runs.launch(launch);
    } catch (error) {
      state.setStatus({ startedMs: undefined }, false);
      await this.#runs.launchFailed(error);
    }
  }

  /** Continues with a container found in the state store after a restart of the agent. */
  async adopt(): Promise<void> {
    const { isOver, record, services, status } = this.#state;
    if (isOver) return;
    services.ports.take(status.ports ?? {});
    if (record.bootId === services.bootId) return await this.#runs.adopt();
    await this.#complete(record.stop ?? (await this.#runs.endBeforeReboot()));
  }

  /** Ends it: SIGTERM, `sigkillDelayMs`, SIGKILL; then COMPLETE as ordered. */
  async stop(order: ContainerEnd): Promise<void> {
    const state = this.#state;
    if (state.phase !== "NEW" && state.phase !== "RUNNING") return;
    const isLocalizing = state.phase === "NEW" && state.record.launch === undefined;
    state.put({ phase: "STOPPING", stop: order });
    // A launch under way sees the order and gives up, or terminates what it has just spawned.
    if (isLocalizing) state.services.localization.release(this.containerId);
    else await this.#runs.terminate();
  }

  /** Resolves when the update is carried out, or refused. */
  update(update: ContainerUpdate): Promise<void> {
    return this.#updates.take(update);
  }

  /** FAILED_PRECONDITION when it has no process at the moment. */
  signal(signal: ContainerSignal): Reply<undefined> {
    return this.#runs.signal(signal);
  }

  /** What streams into it go by. FAILED_PRECONDITION when it has no process at the moment. */
  get interior(): Reply<ContainerInterior> {
    const { containerId, placed, executor, record } = this.#state;
    const { identity } = this.#runs;
    if (!identity || !placed || this.phase !== "RUNNING") {
      return fail("FAILED_PRECONDITION", `${containerId} has no process at the moment`, {
        hint: "it is being started, restarted or stopped; `selvedge service events` tells more",
      });
    }
    const { user, workDirectory } = placed;
    const { run, cgroup } = record;
    return ok({ containerId, user, run, identity, workDirectory, cgroup, executor });
  }

  /** COMPLETE without ever having run here. */
  async completeUnstarted(order: ContainerEnd): Promise<void> {
    await this.#complete(order);
  }

  /** The tracker has stored its end: only the logs and a short memory of it stay. */
  async forget(): Promise<void> {
    const state = this.#state;
    if (state.phase !== "COMPLETE") return;
    state.put({ phase: "FORGOTTEN" });
    await state.trySave();
    try {
      await state.executor.release?.(this.containerId);
      if (state.placed) await rm(state.placed.workDirectory, { recursive: true, force: true });
    } catch (error) {
      state.log("container.forget", messageOf(error));
    }
  }

  /** Removes the last memory of it. */
  async erase(): Promise<void> {
    const { executor, services } = this.#state;
    this.#state.erased();
    await executor.forget(this.containerId, this.record.run);
    await services.store.removeLaunches(this.containerId);
    await services.store.remove(this.containerId);
  }

  /** Says the end of a forgotten container again. */
  async reportAgain(): Promise<void> {
    const state = this.#state;
    if (state.phase !== "FORGOTTEN") return;
    state.put({ phase: "COMPLETE" });
    await state.trySave();
    state.report();
  }

  /** Resolves when it has ended and that is on the disk. */
  completed(): Promise<void> {
    return this.#completed.promise;
  }

  /** The agent goes; the process stays. Resolves when an end under way is on the disk. */
  detach(): Promise<void> {
    this.#state.isDetached = true;
    return this.#runs.detach();
  }

  async #complete({ exitStatus, diagnostics }: ContainerEnd): Promise<void> {
    const state = this.#state;
    const { containerId, services, placed } = state;
    if (state.phase === "COMPLETE") return;
    this.#runs.over();
    services.ports.release(state.status.ports ?? {});
    state.put({
      ...{ phase: "COMPLETE", next: undefined, previous: undefined, relaunchAtMs: undefined },
    });
    const over = {
      state: "COMPLETE",
      subState: "DONE",
      ready: false,
      readiness: undefined,
    } as const;
    const finishedMs = services.nowMs();
    state.setStatus({ ...over, exitStatus, diagnostics, finishedMs }, false);
    await state.trySave();
    state.log("container.exited", exitStatus === EXIT.SUCCESS ? "ok" : "failed", { exitStatus });
    state.report();
    const { cgroup } = state.record;
    if (cgroup && !(await removeGroup(cgroup))) state.log("cgroup.remove", "still in use");
    await services.store.removeLaunches(containerId);
    if (placed) await services.applications.containerEnded(placed, state.status);
    this.#completed.resolve();
  }
}
