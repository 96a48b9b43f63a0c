/**
 * The NodeManager: receives what the tracker says, compares it with what is (container-manager.ts),
 * acts, and reports every change at once. It owns the containers and their shared services; the
 * connection is node-status-updater.ts.
 */
import { setTimeout as delay } from "node:timers/promises";
import { EXIT } from "../shared/container.ts";
import { fail, type Reply } from "../shared/errors.ts";
import { type ApplicationId, applicationOfContainer, type ContainerId } from "../shared/ids.ts";
import { LIMITS } from "../shared/limits.ts";
import type { NodeFacts } from "../shared/node.ts";
import type { NodeQuery } from "../shared/protocol/node-query.ts";
import {
  type AgentMessage,
  NODE_PROTOCOL_VERSION,
  type RegisterNodeManager,
  type TrackerMessage,
} from "../shared/protocol/resource-tracker.ts";
import { ApplicationRegistry, type ApplicationService } from "./applications.ts";
import { removeGroup } from "./cgroups.ts";
import {
  type Action,
  type ContainerPhase,
  type DesiredSet,
  reconcile,
  takeAcknowledged,
  takeDesired,
  takeRegistered,
} from "./container-manager.ts";
import type { ContainerServices } from "./container-services.ts";
import { ContainerSignals } from "./container-signals.ts";
import { messageOf } from "./log.ts";
import { type ReadLogMessage, readLog } from "./log-reader.ts";
import { LOG_RETENTION_MS, sweepLogs } from "./log-retention.ts";
import { ManagedContainer } from "./managed-container.ts";
import { nodeAnswer } from "./node-answer.ts";
import { endStrays } from "./remaining-processes.ts";

/** 64 statuses with the longest diagnostics, every character escaped, stay below the 4 MB limit. */
const STATUSES_PER_MESSAGE_MAX = 64;
/** Diagnostics' length in a register message that would otherwise be too long. */
const SHORT_DIAGNOSTICS_LENGTH = 300;
/** Also `yarn.nodemanager.localizer.cache.cleanup.interval-ms`. */
const SWEEP_INTERVAL_MS = 600_000;

export type NodeManagerOptions = {
  readonly facts: NodeFacts;
  /** Beside localization: auxiliary services, log aggregation, devices. */
  readonly applicationServices?: readonly ApplicationService[];
  /** Logs that are not in the cluster's store yet, and stay whatever their age. */
  readonly areLogsNeeded?: (containerId: ContainerId) => boolean;
  readonly services: Omit<ContainerServices, "applications">;
  readonly send: (message: AgentMessage) => void;
  /** The tracker does not want this node. */
  readonly shutdown: (reason: string) => void;
  /** Answers what is asked of the node beside signals; the value becomes JSON. */
  readonly onQuery?: (query: NodeQuery) => Promise<Reply<unknown>>;
  readonly logRetentionMs?: number;
};

export class NodeManager {
  readonly #options: NodeManagerOptions;
  readonly #services: ContainerServices;
  readonly #containers = new Map<ContainerId, ManagedContainer>();
  readonly #signals: ContainerSignals;
  readonly #dirty = new Set<ManagedContainer>();
  readonly #closed = new AbortController();
  /** Launches, stops and the like under way. */
  readonly #pending = new Set<Promise<void>>();
  #facts: NodeFacts;
  #desired: DesiredSet | undefined;
  #sweepTimer: NodeJS.Timeout | undefined;
  /** Nothing new is taken: why, in words. */
  #refusal: string | undefined;
  /** The containers are being ended for good; what is still sent here is for another node. */
  #isStopping = false;

  constructor(options: NodeManagerOptions) {
    this.#options = options;
    this.#facts = options.facts;
    const { services, applicationServices = [] } = options;
    const { home, store, log, localization } = services;
    const applications = new ApplicationRegistry({
      services: [localizationService(localization), ...applicationServices],
      home,
      store: store.applications,
      log,
      finished: (applicationId) =>
        options.send({ type: "applications-finished", applicationIds: [applicationId] }),
    });
    this.#services = { ...services, applications };
    this.#signals = new ContainerSignals((id) => this.#containers.get(id), services.nowMs);
  }

  /**
   * Finds the containers and applications of the agent's last life; resolves when each one's state
   * is known. Rejects with a NewerFormatError when a later agent has written them.
   */
  async recover(): Promise<void> {
    const { store, applications, localization, executors, cgroups } = this.#services;
    for (const record of await store.readAll()) {
      const container = new ManagedContainer(this.#services, record, this.#changed);
      this.#containers.set(container.containerId, container);
    }
    const known = new Set(this.#containers.keys());
    for (const executor of Object.values(executors)) executor.endUnknown(known);
    const containers = [...this.#containers.values()];
    const running = containers.filter((container) => !isOver(container));
    const placed = running.flatMap(({ placed }) => (placed ? [placed] : []));
    await applications.recover(placed);
    const inUse = running.flatMap(({ placed, localized }) =>
      placed ? { ...placed, localized } : [],
    );
    await localization.recover(inUse, applications.live);
    await Promise.all(running.map((container) => container.adopt()));
    endStrays(this.#services.home.localDirectories, (containerId) => {
      const container = this.#containers.get(containerId);
      return container !== undefined && !isOver(container);
    });
    applications.resume();
    for (const containerId of cgroups?.containers() ?? []) {
      if (!known.has(containerId)) this.#track(this.#removeGroup(containerId));
    }
    await this.#sweep();
    this.#sweepTimer = setInterval(() => this.#track(this.#sweep()), SWEEP_INTERVAL_MS);
    this.#sweepTimer.unref();
  }

  /** Tells the tracker, now and whenever it registers. */
  setHealth(health: Pick<NodeFacts, "healthy" | "healthReport">): void {
    this.#facts = { ...this.#facts, ...health };
    this.#options.send({ type: "health", ...health });
  }

  find(containerId: ContainerId): ManagedContainer | undefined {
    return this.#containers.get(containerId);
  }

  /** For the node's own REST API and its auxiliary parts. */
  get containers(): readonly ManagedContainer[] {
    return [...this.#containers.values()];
  }

  get applications(): ApplicationRegistry {
    return this.#services.applications;
  }

  /** The full truth: everything known and not yet acknowledged. */
  registration(): RegisterNodeManager {
    this.#dirty.clear();
    const containers = this.#reportable().map(({ status }) => status);
    const message: RegisterNodeManager = {
      type: "register",
      protocolVersion: NODE_PROTOCOL_VERSION,
      node: this.#facts,
      containers,
      applications: this.#services.applications.live.map(({ applicationId }) => applicationId),
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
        this.#finishApplications(message.finishedApplications ?? []);
        this.#reconcile();
        break;
      case "desired":
        this.#takeDesired(message, connection);
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
      case "node-query":
        this.#track(this.#answer(message.requestId, message.query));
        break;
      case "finish-applications":
        this.#finishApplications(message.applicationIds);
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

  /**
   * Takes nothing new (it is reported as ABORTED, so that it is allocated elsewhere), and waits
   * until all containers have ended, but not longer than `timeoutMs`. True when they have.
   */
  async drain(timeoutMs: number): Promise<boolean> {
    this.#refusal = `node ${this.#services.nodeId} is draining`;
    const ended = Promise.all(this.containers.map((container) => container.completed()));
    const abort = new AbortController();
    const { signal } = abort;
    const inTime = await Promise.race([
      ended.then(() => true),
      delay(timeoutMs, false, { signal }).catch(() => false),
    ]);
    abort.abort();
    this.#flush();
    return inTime;
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
    await this.#services.applications.close();
    await this.#services.localization.close();
    this.#services.monitor.close();
    for (const executor of Object.values(this.#services.executors)) executor.close();
    await this.#services.store.drain();
  }

  #reportable(): ManagedContainer[] {
    return [...this.#containers.values()].filter(({ phase }) => phase !== "FORGOTTEN");
  }

  #takeDesired(message: Extract<TrackerMessage, { type: "desired" }>, connection: number): void {
    const before = this.#desired;
    this.#desired = takeDesired(before, connection, message);
    if (this.#desired !== before)
      this.#reconcile(message.put.map(({ containerId }) => containerId));
  }

  /** Compares these containers with what is desired; all of them when left out. */
  #reconcile(containerIds?: readonly ContainerId[]): void {
    if (this.#closed.signal.aborted || this.#isStopping || !this.#desired) return;
    const { entries } = this.#desired;
    const desired = containerIds
      ? { ...this.#desired, entries: pick(entries, containerIds) }
      : this.#desired;
    const containers = containerIds ? pick(this.#containers, containerIds) : this.#containers;
    const actual = new Map<ContainerId, ContainerPhase>();
    const revisions = new Map<ContainerId, number>();
    for (const { containerId, phase, revision } of containers.values()) {
      actual.set(containerId, phase);
      revisions.set(containerId, revision);
    }
    for (const action of reconcile(desired, actual, revisions)) {
      this.#track(this.#perform(action));
    }
  }

  async #perform(action: Action): Promise<void> {
    const container = this.#containerOf(action.containerId);
    switch (action.type) {
      case "START":
        if (this.#refusal !== undefined) {
          const { ABORTED: exitStatus } = EXIT;
          return await container.completeUnstarted({ exitStatus, diagnostics: this.#refusal });
        }
        await container.start(action.token, action.launch);
        // What was changed of it meanwhile.
        return this.#reconcile([action.containerId]);
      case "STOP":
        return await container.stop(action);
      case "COMPLETE":
        return await container.completeUnstarted(action);
      case "UPDATE":
        return await container.update(action);
      case "REPORT_AGAIN":
        return await container.reportAgain();
    }
  }

  #containerOf(containerId: ContainerId): ManagedContainer {
    let container = this.#containers.get(containerId);
    if (!container) {
      container = ManagedContainer.create(this.#services, containerId, this.#changed);
      this.#containers.set(containerId, container);
    }
    return container;
  }

  /** What of them still runs here is ended, as the ResourceManager orders too. */
  #finishApplications(applicationIds: readonly ApplicationId[]): void {
    const finished = new Set(applicationIds);
    for (const container of this.#containers.values()) {
      const { containerId } = container;
      if (!finished.has(applicationOfContainer(containerId))) continue;
      const exitStatus = EXIT.KILLED_AFTER_APP_COMPLETION;
      const diagnostics = `Container ${containerId} killed: its application is finished.`;
      this.#track(container.stop({ exitStatus, diagnostics }));
    }
    for (const applicationId of finished) {
      this.#track(this.#services.applications.finish(applicationId));
    }
  }

  async #answer(requestId: string, query: NodeQuery): Promise<void> {
    this.#options.send(nodeAnswer(requestId, await this.#replyTo(requestId, query)));
  }

  async #replyTo(requestId: string, query: NodeQuery): Promise<Reply<unknown>> {
    try {
      if (query.type === "signal") return this.#signals.send(requestId, query);
      const reply = await this.#options.onQuery?.(query);
      return reply ?? fail("FAILED_PRECONDITION", `node ${this.#services.nodeId} cannot tell`);
    } catch (error) {
      return fail("INTERNAL", messageOf(error));
    }
  }

  async #removeGroup(containerId: ContainerId): Promise<void> {
    const { cgroups, log } = this.#services;
    if (!cgroups || (await removeGroup(cgroups.find(containerId)))) return;
    log({ event: "cgroup.remove", outcome: "still in use", containerId });
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
  readonly #changed = (container: ManagedContainer): void => {
    if (!this.#dirty.size) setImmediate(() => this.#flush());
    this.#dirty.add(container);
  };

  #flush(): void {
    const statuses = [...this.#dirty].map(({ status }) => status);
    this.#dirty.clear();
    for (let start = 0; start < statuses.length; start += STATUSES_PER_MESSAGE_MAX) {
      const containers = statuses.slice(start, start + STATUSES_PER_MESSAGE_MAX);
      this.#options.send({ type: "statuses", containers });
    }
  }

  async #readLog(request: ReadLogMessage): Promise<void> {
    const { logs } = this.#services;
    const isComplete = (containerId: ContainerId) => {
      const phase = this.#containers.get(containerId)?.phase;
      return phase === undefined || phase === "COMPLETE" || phase === "FORGOTTEN";
    };
    this.#options.send(await readLog(logs, request, isComplete, this.#closed.signal));
  }

  /** Drops forgotten containers whose tokens have expired, and old logs. */
  async #sweep(): Promise<void> {
    const { home, localization, logs, log, nowMs } = this.#services;
    try {
      for (const container of this.#containers.values()) {
        const { containerId, phase, rememberedUntilMs } = container;
        if (phase !== "FORGOTTEN" || rememberedUntilMs > nowMs()) continue;
        this.#containers.delete(containerId);
        await container.erase();
      }
      const isKept = (containerId: ContainerId) => {
        const phase = this.#containers.get(containerId)?.phase;
        const isUsed = phase !== undefined && phase !== "FORGOTTEN";
        return isUsed || this.#options.areLogsNeeded?.(containerId) === true;
      };
      const retentionMs = this.#options.logRetentionMs ?? LOG_RETENTION_MS;
      await sweepLogs(home, isKept, nowMs(), retentionMs);
      await logs.forgetRemoved();
      await localization.cleanUp();
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

function isOver({ phase }: ManagedContainer): boolean {
  return phase === "COMPLETE" || phase === "FORGOTTEN";
}

function pick<Value>(
  from: ReadonlyMap<string, Value>,
  keys: readonly string[],
): Map<string, Value> {
  const picked = new Map<string, Value>();
  for (const key of keys) {
    const value = from.get(key);
    if (value !== undefined) picked.set(key, value);
  }
  return picked;
}

/** Localized resources live as long as who uses them. */
function localizationService(localization: ContainerServices["localization"]): ApplicationService {
  return {
    name: "localization",
    stopContainer: async ({ containerId }) => localization.release(containerId),
    stopApplication: ({ applicationId }) => localization.applicationFinished(applicationId),
  };
}
