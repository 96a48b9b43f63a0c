/**
 * What is known of one container at this moment, and how it is changed: in memory, on the disk, and
 * towards the tracker. Shared by those that act on the container.
 */
import type { ContainerStatus } from "../shared/container.ts";
import { applicationOfContainer, type ContainerId } from "../shared/ids.ts";
import { LIMITS } from "../shared/limits.ts";
import type { ApplicationContainer } from "./applications.ts";
import type { ContainerPhase } from "./container-manager.ts";
import type { ContainerExecutor } from "./container-runtime.ts";
import type { ContainerServices } from "./container-services.ts";
import { messageOf } from "./log.ts";
import type { ContainerRecord } from "./state-store.ts";

const SAVE_AGAIN_MS = 2_000;

export class ContainerState {
  readonly containerId: ContainerId;
  readonly services: ContainerServices;
  /** The agent goes: nothing more is reported. */
  isDetached = false;
  readonly #changed: () => void;
  #record: ContainerRecord;
  #isUnsaved = false;
  #saveTimer: NodeJS.Timeout | undefined;

  /** `changed` is called when the container's status is to be reported. */
  constructor(services: ContainerServices, record: ContainerRecord, changed: () => void) {
    this.containerId = record.status.containerId;
    this.services = services;
    this.#record = record;
    this.#changed = changed;
  }

  get record(): ContainerRecord {
    return this.#record;
  }

  get phase(): ContainerPhase {
    return this.#record.phase;
  }

  get status(): ContainerStatus {
    return this.#record.status;
  }

  /** COMPLETE or FORGOTTEN. */
  get isOver(): boolean {
    return this.phase === "COMPLETE" || this.phase === "FORGOTTEN";
  }

  get executor(): ContainerExecutor {
    const { executors } = this.services;
    return executors[this.#record.launch?.runtime ?? "process"] ?? executors.process;
  }

  /** As the node's services know it; undefined as long as nobody knows whose it is. */
  get placed(): ApplicationContainer | undefined {
    const { containerId } = this;
    const { home } = this.services;
    const { user } = this.#record;
    if (user === "") return undefined;
    const workDirectory = this.#record.workDirectory ?? home.workDirectory(user, containerId);
    const applicationId = applicationOfContainer(containerId);
    const logDirectories = this.#record.logDirectories ?? home.containerLogDirectories(containerId);
    return { applicationId, user, containerId, workDirectory, logDirectories };
  }

  /** In memory only; on the disk with the next `save`. */
  put(change: Partial<ContainerRecord>): void {
    this.#record = { ...this.#record, ...change };
  }

  /** Diagnostics are cut to their maximum. */
  setStatus(change: Partial<ContainerStatus>, isReported = true): void {
    const { diagnostics = this.status.diagnostics } = change;
    const cut = diagnostics.slice(0, LIMITS.diagnosticsLengthMax);
    this.put({ status: { ...this.status, ...change, diagnostics: cut } });
    if (isReported) this.report();
  }

  report(): void {
    if (!this.isDetached) this.#changed();
  }

  /** Resolves when the record is on the disk; rejects when it cannot be written. */
  save(): Promise<void> {
    return this.services.store.write(this.#record);
  }

  /**
   * A full disk must not keep an exit from being reported, so a failed write is only logged, and
   * made up for when there is room again: a later agent is not to tell the end anew.
   */
  async trySave(): Promise<void> {
    try {
      await this.save();
      this.#isUnsaved = false;
    } catch (error) {
      if (!this.#isUnsaved) this.log("state.write", messageOf(error));
      this.#isUnsaved = true;
      clearTimeout(this.#saveTimer);
      this.#saveTimer = setTimeout(() => void this.#saveAgain(), SAVE_AGAIN_MS).unref();
    }
  }

  /** Nothing of it is written any more. */
  erased(): void {
    this.#isUnsaved = false;
    clearTimeout(this.#saveTimer);
  }

  async #saveAgain(): Promise<void> {
    if (this.#isUnsaved && !this.isDetached) await this.trySave();
  }

  log(event: string, outcome: string, facts: Readonly<Record<string, string | number>> = {}): void {
    this.services.log({ event, outcome, containerId: this.containerId, ...facts });
  }
}
