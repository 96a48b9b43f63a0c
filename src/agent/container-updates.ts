/**
 * Brings a running container to a later revision of its entry in the desired set: another resource
 * (updateContainer), another launch context in place (reInitializeContainer), or the end of the
 * choice between two (commit, rollback). One after the other; what cannot be done is said in the
 * diagnostics, and the container goes on as it was.
 */
import type { ContainerLaunchContext } from "../shared/container.ts";
import { resizeGroup } from "./cgroups.ts";
import type { ContainerUpdate } from "./container-manager.ts";
import { checkLaunch, factsOf, localizeResources, verifyToken } from "./container-preparation.ts";
import type { ContainerRuns } from "./container-runs.ts";
import type { ContainerState } from "./container-state.ts";
import { messageOf } from "./log.ts";

export class ContainerUpdates {
  readonly #state: ContainerState;
  readonly #runs: ContainerRuns;
  /** The latest that was begun; the record has the latest that was carried out. */
  #begun = 0;
  #last: Promise<void> = Promise.resolve();

  constructor(state: ContainerState, runs: ContainerRuns) {
    this.#state = state;
    this.#runs = runs;
  }

  get revision(): number {
    return Math.max(this.#begun, this.#state.status.revision ?? 0);
  }

  /** Resolves when it is carried out, or refused. */
  take(update: ContainerUpdate): Promise<void> {
    this.#begun = Math.max(this.#begun, update.revision);
    this.#last = this.#last.then(() => this.#carryOut(update));
    return this.#last;
  }

  async #carryOut(update: ContainerUpdate): Promise<void> {
    const state = this.#state;
    if (state.phase !== "RUNNING") return;
    const { revision } = update;
    let outcome = "ok";
    try {
      await this.#apply(update);
    } catch (error) {
      outcome = messageOf(error);
      const subState = this.#runs.isRunning ? "RUNNING" : state.status.subState;
      state.setStatus({ diagnostics: `Container update refused: ${outcome}`, subState }, false);
    }
    state.log("container.update", outcome, { revision });
    if (state.isOver) return;
    state.setStatus({ revision });
    await state.trySave();
  }

  async #apply({ revision, token, launch, reInitialization }: ContainerUpdate): Promise<void> {
    if (token !== undefined) await this.#resize(token);
    const { previous } = this.#state.record;
    if (reInitialization === "ROLLED_BACK") {
      if (previous) await this.#runs.replaceWith(previous, undefined, revision);
      return;
    }
    if (launch) await this.#reInitialize(launch, revision);
    if (reInitialization !== "PENDING") await this.#commit();
  }

  /** A ContainerToken of a higher version says another resource; its limits change in place. */
  async #resize(token: string): Promise<void> {
    const state = this.#state;
    const { user, tokenVersion, tokenExpiresMs, cgroup } = state.record;
    const claims = await verifyToken(state, token, user);
    const { resource, version } = claims;
    if (version <= tokenVersion) return;
    const expiresMs = Math.max(tokenExpiresMs, claims.exp * 1_000);
    state.put({ resource, tokenVersion: version, tokenExpiresMs: expiresMs });
    if (cgroup) resizeGroup(cgroup, resource);
    this.#runs.resized();
  }

  /** Localizes while the present process runs on, then takes its place. */
  async #reInitialize(launch: ContainerLaunchContext, revision: number): Promise<void> {
    const state = this.#state;
    const { launch: present, user } = state.record;
    if (!present || (launch.version ?? 1) <= present.version) return;
    if (launch.user !== user) throw new Error(`it is ${user}'s container, not ${launch.user}'s`);
    const runtime = launch.runtime?.type ?? "process";
    if (runtime !== present.runtime) {
      throw new Error(`it runs by ${present.runtime}, and cannot go over to ${runtime}`);
    }
    checkLaunch(state.services, launch);
    state.setStatus({ subState: "REINITIALIZING" });
    const localized = await localizeResources(state, launch);
    await state.services.store.writeLaunch(state.containerId, await this.#withRegistry(launch));
    await this.#runs.replaceWith(factsOf(launch, localized), present, revision);
  }

  /** Its credential is the container's, not the process's; the master gave it away at the start. */
  async #withRegistry(launch: ContainerLaunchContext): Promise<ContainerLaunchContext> {
    const { containerId, record, services } = this.#state;
    const { registry } = await services.store.readLaunch(containerId, record.launch?.version ?? 1);
    return registry && !launch.registry ? { ...launch, registry } : launch;
  }

  /** The launch before cannot be taken again any more. */
  async #commit(): Promise<void> {
    const state = this.#state;
    const { launch, next } = state.record;
    state.put({ previous: undefined });
    // The present one is still needed to clear away what it brought.
    const kept = [launch, next].flatMap((facts) => (facts ? [facts.version] : []));
    await state.services.store.removeLaunches(state.containerId, kept);
  }
}
