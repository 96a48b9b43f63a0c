/**
 * The NodeManager: receives what the tracker says, compares it with what is (container-manager.ts),
 * acts, and reports every change at once. It owns the containers and their shared services; the
 * connection is node-status-updater.ts.
 */
import type { ContainerId } from "../shared/ids.ts";
import { LIMITS } from "../shared/limits.ts";
import type { NodeFacts } from "../shared/node.ts";
import {
  type AgentMessage,
  NODE_PROTOCOL_VERSION,
  type RegisterNodeManager,
  type TrackerMessage,
} from "../shared/protocol/resource-tracker.ts";
import {
  type Action,
  type ContainerPhase,
  type DesiredSet,
  reconcile,
  takeAcknowledged,
  takeDesired,
  takeRegistered,
} from "./container-manager.ts";
import { messageOf } from "./log.ts";
import { type ReadLogMessage, readLog } from "./log-reader.ts";
import { LOG_RETENTION_MS, sweepLogs } from "./log-retention.ts";
import { type ContainerServices, ManagedContainer } from "./managed-container.ts";

/** 64 statuses with the longest diagnostics, every character escaped, stay below the 4 MB limit. */
const STATUSES_PER_MESSAGE_MAX = 64;
/** Diagnostics' length in a register message that would otherwise be too long. */
const SHORT_DIAGNOSTICS_LENGTH = 300;
const SWEEP_INTERVAL_MS = 600_000;

export type NodeManagerOptions = {
  readonly facts: NodeFacts;
  readonly services: Omit<ContainerServices, "changed">;
  readonly send: (message: AgentMessage) => void;
  /** The tracker does not want this node. */
  readonly shutdown: (reason: string) => void;
  readonly logRetentionMs?: number;
};

export class NodeManager {
  readonly #options: NodeManagerOptions;
  readonly #services: ContainerServices;
  readonly #containers = new Map<ContainerId, ManagedContainer>();
  readonly #dirty = new Set<ManagedContainer>();
  readonly #closed = new AbortController();
  /** Launches, stops and the like under way. */
  readonly #pending = new Set<Promise<void>>();
  #desired: DesiredSet | undefined;
  #sweepTimer: NodeJS.Timeout | undefined;
  /** The containers are being ended for good; what is still sent here is for another node. */
  #isStopping = false;

  constructor(options: NodeManagerOptions) {
    this.#options = options;
    this.#services = { ...options.services, changed: (container) => this.#changed(container) };
  }

  /** Finds the containers of the agent's last life; resolves when each one's state is known. */
  async recover(): Promise<void> {
    const records = await this.#services.store.readAll();
    const adoptions = records.map((record) => {
      const container = new ManagedContainer(this.#services, record);
      this.#containers.set(container.containerId, container);
      return container.adopt();
    });
    await Promise.all(adoptions);
    await this.#sweep();
    this.#sweepTimer = setInterval(() => this.#track(this.#sweep()), SWEEP_INTERVAL_MS);
    this.#sweepTimer.unref();
  }

  /** The full truth: everything known and not yet acknowledged. */
  registration(): RegisterNodeManager {
    this.#dirty.clear();
    const { facts } = this.#options;
    const containers = this.#reportable().map(({ status }) => status);
    const message: RegisterNodeManager = {
      type: "register",
      protocolVersion: NODE_PROTOCOL_VERSION,
      node: facts,
      containers,
    };
    if (Buffer.byteLength(JSON.stringify(message)) < LIMITS.nodeMessageBytesMax) return message;
    const short = containers.map((status) => ({
      ...status,
      diagnostics: status.diagnostics.slice(0, SHORT_DIAGNOSTICS_LENGTH),
    }));
    return { ...message, containers: short };
  }

  /** `connection` tells the tracker's connections apart (see container-manager.ts). */
  receive(message: TrackerMessage, connection: number): void {
    switch (message.type) {
      case "registered":
        this.#services.verifier.setKeys(message.keys);
        this.#acknowledge(message.acknowledged);
        this.#desired = takeRegistered(this.#desired, connection, message);
        this.#reconcile();
        break;
      case "desired":
        this.#desired = takeDesired(this.#desired, connection, message);
        this.#reconcile();
        break;
      case "acknowledge":
        this.#acknowledge(message.containerIds);
        break;
      case "keys":
        this.#services.verifier.setKeys(message.keys);
        break;
      case "read-log":
        this.#track(this.#readLog(message));
        break;
      case "shutdown":
        this.#options.shutdown(message.reason);
        break;
    }
  }

  /** Something is under way that the tracker waits for. */
  isBusy(): boolean {
    return this.#reportable().some(
      ({ phase, status }) => phase !== "RUNNING" || !status.ready || this.#dirty.size > 0,
    );
  }

  /** Ends every container and reports it; resolves when none runs any more. */
  async stopContainers(exitStatus: number, diagnostics: string): Promise<void> {
    this.#isStopping = true;
    const containers = [...this.#containers.values()];
    await Promise.all(containers.map((container) => container.stop({ exitStatus, diagnostics })));
    await Promise.all(containers.map((container) => container.completed()));
    this.#flush();
  }

  /** Lets go of the containers, which run on. */
  async close(): Promise<void> {
    clearInterval(this.#sweepTimer);
    this.#closed.abort();
    await Promise.all(this.#pending);
    await Promise.all([...this.#containers.values()].map((container) => container.detach()));
    this.#services.monitor.close();
    this.#services.launcher.close();
    await this.#services.store.drain();
  }

  #reportable(): ManagedContainer[] {
    return [...this.#containers.values()].filter(({ phase }) => phase !== "FORGOTTEN");
  }

  #reconcile(): void {
    if (this.#closed.signal.aborted || this.#isStopping) return;
    const actual = new Map<ContainerId, ContainerPhase>();
    for (const { containerId, phase } of this.#containers.values()) actual.set(containerId, phase);
    for (const action of reconcile(this.#desired, actual)) this.#track(this.#perform(action));
  }

  async #perform(action: Action): Promise<void> {
    const container = this.#containerOf(action.containerId);
    switch (action.type) {
      case "START":
        return await container.start(action.token, action.launch);
      case "STOP":
        return await container.stop(action);
      case "COMPLETE":
        return await container.completeUnstarted(action);
      case "REPORT_AGAIN":
        return await container.reportAgain();
    }
  }

  #containerOf(containerId: ContainerId): ManagedContainer {
    let container = this.#containers.get(containerId);
    if (!container) {
      container = ManagedContainer.create(this.#services, containerId);
      this.#containers.set(containerId, container);
    }
    return container;
  }

  #acknowledge(containerIds: readonly ContainerId[]): void {
    const complete = containerIds.filter((id) => this.#containers.get(id)?.phase === "COMPLETE");
    this.#desired = takeAcknowledged(this.#desired, complete);
    for (const containerId of complete) {
      const container = this.#containers.get(containerId);
      if (container) this.#track(container.forget());
    }
  }

  /** Changes of one turn of the event loop go up together. */
  #changed(container: ManagedContainer): void {
    if (!this.#dirty.size) setImmediate(() => this.#flush());
    this.#dirty.add(container);
  }

  #flush(): void {
    const statuses = [...this.#dirty].map(({ status }) => status);
    this.#dirty.clear();
    for (let start = 0; start < statuses.length; start += STATUSES_PER_MESSAGE_MAX) {
      const containers = statuses.slice(start, start + STATUSES_PER_MESSAGE_MAX);
      this.#options.send({ type: "statuses", containers });
    }
  }

  async #readLog(request: ReadLogMessage): Promise<void> {
    const { home } = this.#services;
    const isComplete = (containerId: ContainerId) => {
      const phase = this.#containers.get(containerId)?.phase;
      return phase === undefined || phase === "COMPLETE" || phase === "FORGOTTEN";
    };
    this.#options.send(await readLog(home, request, isComplete, this.#closed.signal));
  }

  /** Drops forgotten containers whose tokens have expired, and old logs. */
  async #sweep(): Promise<void> {
    const { home, store, log, nowMs } = this.#services;
    try {
      for (const container of this.#containers.values()) {
        const { containerId, phase, rememberedUntilMs } = container;
        if (phase !== "FORGOTTEN" || rememberedUntilMs > nowMs()) continue;
        this.#containers.delete(containerId);
        await store.remove(containerId);
      }
      const isKept = (containerId: ContainerId) => {
        const phase = this.#containers.get(containerId)?.phase;
        return phase !== undefined && phase !== "FORGOTTEN";
      };
      const retentionMs = this.#options.logRetentionMs ?? LOG_RETENTION_MS;
      await sweepLogs(home, isKept, nowMs(), retentionMs);
    } catch (error) {
      log({ event: "sweep", outcome: messageOf(error) });
    }
  }

  #track(work: Promise<void>): void {
    this.#pending.add(work);
    const release = () => this.#pending.delete(work);
    const report = (error: unknown) => {
      release();
      this.#services.log({ event: "agent.error", outcome: messageOf(error) });
    };
    work.then(release, report);
  }
}
