/**
 * The ResourceManager's rows and the few primitives that keep rows and scheduler in step.
 * Commands (application.ts, application-master.ts, node.ts) change a cluster only through these.
 *
 * The scheduler is derived: `restore` rebuilds it from the rows. A container's resources count as
 * used until its node has said that the process is gone (or the node itself is gone).
 */
import { EXIT } from "../../shared/container.ts";
import {
  type ApplicationAttemptId,
  type ContainerId,
  formatContainerId,
} from "../../shared/ids.ts";
import { LIMITS } from "../../shared/limits.ts";
import type { YarnEnd } from "../../shared/protocol/registry-operations.ts";
import { NO_RESOURCE } from "../../shared/resource.ts";
import { CapacityScheduler } from "../scheduler/capacity-scheduler.ts";
import type { BookedContainer, PreemptionRound } from "../scheduler/request.ts";
import { type Change, Index, Table } from "../table.ts";
import { guard } from "../transitions.ts";
import { schedulerNode } from "./node-administration.ts";
import type {
  ApplicationRow,
  AskOptions,
  AskRow,
  ClusterRow,
  ContainerRow,
  DirectoryRow,
  Exit,
  NodeListsRow,
  NodeRow,
  NodeSettingsRow,
  PurgePage,
  SchedulerConfRow,
  TrackerRow,
  UserRow,
} from "./rows.ts";
import { currentConfiguration } from "./scheduler-configuration.ts";
import { APPLICATION_TRANSITIONS, CONTAINER_TRANSITIONS, NODE_TRANSITIONS } from "./transitions.ts";

/** `yarn.resourcemanager.rm.container-allocation.expiry-interval-ms`. */
export const ALLOCATION_EXPIRY_MS = 600_000;
/** Rises only when a cluster is restored from a backup, so that ids never repeat. */
const EPOCH = 1;

const PREEMPTED: Exit = {
  exitStatus: EXIT.PREEMPTED,
  diagnostics: "Container preempted by scheduler",
};

type AskKey = Pick<AskRow, "priority" | "allocationRequestId">;

function keyOf(attemptId: ApplicationAttemptId, { priority, allocationRequestId }: AskKey): string {
  return `${attemptId}/${priority}/${allocationRequestId}`;
}

const askKey = (ask: AskKey & Pick<AskRow, "attemptId">) => keyOf(ask.attemptId, ask);

export class Cluster {
  readonly meta = new Table<ClusterRow>("cluster", (row) => row.key);
  readonly nodes = new Table<NodeRow>("nodes", (row) => row.facts.nodeId);
  readonly nodeSettings = new Table<NodeSettingsRow>("node_settings", (row) => row.nodeId);
  readonly nodeLists = new Table<NodeListsRow>("node_lists", (row) => row.key);
  readonly schedulerConf = new Table<SchedulerConfRow>("scheduler_conf", (row) =>
    String(row.version),
  );
  readonly applications = new Table<ApplicationRow>("applications", (row) => row.applicationId);
  readonly asks = new Table<AskRow>("asks", askKey);
  readonly containers = new Table<ContainerRow>("containers", (row) => row.containerId);
  readonly trackers = new Table<TrackerRow>("trackers", (row) => row.shard);
  readonly directory = new Table<DirectoryRow>("directory", (row) => row.master);
  readonly purges = new Table<PurgePage>("purges", (row) => String(row.page));
  readonly users = new Table<UserRow>("users", (row) => row.user);
  readonly tables = [
    this.meta,
    this.nodes,
    this.nodeSettings,
    this.nodeLists,
    this.schedulerConf,
    this.applications,
    this.asks,
    this.containers,
    this.trackers,
    this.directory,
    this.purges,
    this.users,
  ] as const;
  readonly usersWithoutHome = new Index(
    this.users,
    (row) => row.user,
    (row) => (row.hasHome ? undefined : "homeless"),
  );

  readonly decommissioning = new Index(
    this.nodes,
    (row) => row.facts.nodeId,
    (row) => (row.state === "DECOMMISSIONING" ? "decommissioning" : undefined),
  );
  /** Nodes that are there and must not be. */
  readonly toBeShutDown = new Index(
    this.nodes,
    (row) => row.facts.nodeId,
    (row) => (row.state === "DECOMMISSIONED" && row.presence === "PRESENT" ? row.shard : undefined),
  );
  readonly containersOfNode = new Index(this.containers, containerKey, (row) =>
    row.state === "COMPLETED" ? undefined : row.nodeId,
  );
  readonly containersOfAttempt = new Index(this.containers, containerKey, (row) => row.attemptId);
  /** Containers that the attempt's master has not been told everything about. */
  readonly newsOfAttempt = new Index(this.containers, containerKey, (row) =>
    hasNews(row) ? row.attemptId : undefined,
  );
  /** Containers whose end was told, and whose row goes once the master acknowledged that. */
  readonly toldOfAttempt = new Index(this.containers, containerKey, (row) =>
    row.exitDeliveredIn === null ? undefined : row.attemptId,
  );
  /** Cleanup orders that the node's tracker has not stored yet. */
  readonly unsentCleanups = new Index(this.containers, containerKey, (row) =>
    row.cleanup !== null && !row.cleanup.sent && row.state !== "COMPLETED" ? row.nodeId : undefined,
  );
  /** Containers given away but not yet seen on their node; they expire. */
  readonly starting = new Index(this.containers, containerKey, (row) =>
    row.state === "ACQUIRED" && row.cleanup === null ? "starting" : undefined,
  );
  readonly asksOfAttempt = new Index(this.asks, askKey, (row) => row.attemptId);
  readonly applicationOfAttemptIndex = new Index(
    this.applications,
    (row) => row.applicationId,
    (row) => row.attemptId,
  );
  readonly applicationOfSubmission = new Index(
    this.applications,
    (row) => row.applicationId,
    (row) => row.submissionId,
  );
  readonly liveApplications = new Index(
    this.applications,
    (row) => row.applicationId,
    (row) => (isLive(row) ? "live" : undefined),
  );
  readonly limitedApplications = new Index(
    this.applications,
    (row) => row.applicationId,
    (row) => (isLive(row) && row.deadlineMs !== null ? "limited" : undefined),
  );
  readonly #unawareAttempts = new Index(
    this.applications,
    (row) => row.applicationId,
    (row) => (row.masterUnaware ? row.attemptId : undefined),
  );

  scheduler = new CapacityScheduler();
  /**
   * Containers that their applications were asked to give back in the last round of preemption.
   * Not stored: after a restart the next round asks again.
   */
  #askedBack: PreemptionRound["asked"] = new Map();
  /** The last pass placed all that one pass may. */
  #isPassFull = false;
  readonly servesRegistry: boolean;

  /** `servesRegistry` is `hadoop.registry.rm.enabled`: the registry hears of users and of ends. */
  constructor({ servesRegistry = true }: { readonly servesRegistry?: boolean } = {}) {
    this.servesRegistry = servesRegistry;
    guard(this.applications, APPLICATION_TRANSITIONS, ({ state }) => state);
    guard(this.containers, CONTAINER_TRANSITIONS, ({ state }) => state);
    guard(this.nodes, NODE_TRANSITIONS, ({ state }) => state);
  }

  /** Rebuilds the scheduler after the rows were loaded. */
  restore(): void {
    this.scheduler = this.newScheduler();
  }

  /** A scheduler in the state that follows from the rows. */
  newScheduler(): CapacityScheduler {
    const scheduler = new CapacityScheduler(currentConfiguration(this));
    for (const { state, facts } of this.nodes.values()) {
      if (state !== "RUNNING" && state !== "DECOMMISSIONING") continue;
      scheduler.addNode(schedulerNode(this, scheduler.configuration, facts));
      if (state === "DECOMMISSIONING") scheduler.drainNode(facts.nodeId);
    }
    for (const application of this.applications.values()) {
      if (isLive(application)) addSchedulable(scheduler, application);
    }
    for (const container of this.containers.values()) {
      if (container.state !== "COMPLETED") scheduler.book(bookingOf(container));
    }
    for (const ask of this.asks.values()) scheduler.setAsk(ask.attemptId, ask);
    return scheduler;
  }

  drain(): Change[] {
    return this.tables.flatMap((table) => table.drain());
  }

  /** First start of a cluster: its timestamp goes into every id. Later starts change nothing. */
  open(nowMs: number): ClusterRow {
    const known = this.meta.get("cluster");
    if (known) return known;
    const row: ClusterRow = { key: "cluster", timestamp: nowMs, nextApplication: 1 };
    this.meta.put(row);
    return row;
  }

  applicationOf(attemptId: ApplicationAttemptId): ApplicationRow | undefined {
    const [applicationId] = this.applicationOfAttemptIndex.of(attemptId);
    return applicationId === undefined ? undefined : this.applications.get(applicationId);
  }

  /** Attempts whose masters have to be told to call allocate. */
  attemptsWithNews(): readonly ApplicationAttemptId[] {
    return [...this.newsOfAttempt.groups(), ...this.#unawareAttempts.groups()];
  }

  addApplication(row: ApplicationRow): void {
    this.applications.put(row);
    if (this.servesRegistry && !this.users.get(row.user)) {
      this.users.put({ user: row.user, hasHome: false });
    }
    addSchedulable(this.scheduler, row);
  }

  /** Sets the outstanding number of an ask, in the rows and in the scheduler; 0 removes it. */
  setAsk(ask: AskRow): void {
    if (ask.count > 0) this.asks.put(ask);
    else this.asks.delete(askKey(ask));
    this.scheduler.setAsk(ask.attemptId, ask);
  }

  /** Places what can be placed now, as new ALLOCATED containers. */
  schedule(nowMs: number): void {
    const max = LIMITS.assignmentsPerPassMax;
    const mint = (attemptId: ApplicationAttemptId) => this.#mintContainerId(attemptId);
    const served = new Set<string>();
    const assignments = this.scheduler.schedule(nowMs, max, mint);
    this.#isPassFull = assignments.length >= max;
    for (const assignment of assignments) {
      const { containerId, attemptId, nodeId, resource, priority, allocationRequestId } =
        assignment;
      const key = askKey(assignment);
      this.containers.put({
        containerId,
        attemptId,
        nodeId,
        nodeIncarnation: this.nodes.get(nodeId)?.incarnation ?? 0,
        resource,
        priority,
        allocationRequestId,
        options: optionsOf(this.asks.get(key)),
        executionType: assignment.executionType ?? "GUARANTEED",
        version: 0,
        state: "ALLOCATED",
        allocatedMs: nowMs,
        deliveredIn: null,
        cleanup: null,
        exit: null,
        exitDeliveredIn: null,
      });
      served.add(key);
    }
    for (const key of served) this.#storeAsk(key);
  }

  /** PreemptionContract of an application: containers it should release. */
  askedBack(attemptId: ApplicationAttemptId): readonly ContainerId[] {
    return this.#askedBack.get(attemptId) ?? [];
  }

  /** When the scheduler wants `tick` to be called: epoch ms, 0 for at once, or null. */
  nextTickMs(): number | null {
    return this.#isPassFull ? 0 : (this.scheduler.wakeAtMs() ?? null);
  }

  /** What time alone makes possible: waiting for locality is over, a round of preemption is due. */
  tick(nowMs: number): void {
    const dueMs = this.nextTickMs();
    if (dueMs === null || dueMs > nowMs) return;
    const { asked, kill } = this.scheduler.preempt(nowMs);
    this.#askedBack = asked;
    for (const containerId of kill) {
      const container = this.containers.get(containerId);
      if (container) this.requestCleanup(container, PREEMPTED);
    }
    this.schedule(nowMs);
  }

  /** The scheduler has counted an ask down, also at the places that it names. */
  #storeAsk(key: string): void {
    const row = this.asks.get(key);
    if (!row) return;
    const left = this.scheduler
      .asks(row.attemptId)
      .find((ask) => keyOf(row.attemptId, ask) === key);
    if (left) this.asks.put({ ...row, ...left });
    else this.asks.delete(key);
  }

  #mintContainerId(attemptId: ApplicationAttemptId): ContainerId {
    const application = this.applicationOf(attemptId);
    if (!application)
      throw new Error(`assertion failed: ${attemptId} was scheduled but is unknown`);
    this.applications.put({ ...application, nextContainer: application.nextContainer + 1 });
    return formatContainerId(attemptId, EPOCH, application.nextContainer);
  }

  /**
   * Wants a container ended. One that its master was never told of ends at once; any other ends
   * when its node says so.
   */
  requestCleanup(container: ContainerRow, exit: Exit): void {
    if (container.state === "COMPLETED" || container.cleanup !== null) return;
    if (container.deliveredIn === null) this.complete(container, exit);
    else this.containers.put({ ...container, cleanup: { ...exit, sent: false } });
  }

  /** The container is over: frees its resources and keeps the row until its master was told. */
  complete(container: ContainerRow, exit: Exit): void {
    if (container.state === "COMPLETED") return;
    this.scheduler.release(container.containerId);
    // Of a container that its master was never told of nobody can have published a record.
    if (container.deliveredIn !== null) this.#ended(container.containerId, "container");
    const application = this.applicationOf(container.attemptId);
    if (!application || !isLive(application)) {
      this.containers.delete(container.containerId);
    } else if (container.deliveredIn === null) {
      this.containers.delete(container.containerId);
      this.#askAgain(container);
    } else {
      this.containers.put({ ...container, state: "COMPLETED", exit });
    }
  }

  /** The registry shall purge what is bound to it: stored with the end itself, so never forgotten. */
  #ended(yarnId: string, persistence: YarnEnd["persistence"]): void {
    if (!this.servesRegistry) return;
    const last = Math.max(0, ...[...this.purges.values()].map(({ page }) => page));
    const { ended } = this.purges.get(String(last)) ?? { ended: [] };
    const isFull = ended.length >= LIMITS.registryPurgesPerTransactionMax;
    const before = isFull ? { page: last + 1, ended: [] } : { page: last, ended };
    this.purges.put({ page: before.page, ended: [...before.ended, { yarnId, persistence }] });
  }

  /** A container was lost before its master heard of it, so the ask for it still stands. */
  #askAgain(container: ContainerRow): void {
    const { attemptId, priority, allocationRequestId, resource, options } = container;
    const row = this.asks.get(askKey(container));
    const count = (row?.count ?? 0) + 1;
    const ask = row ?? {
      attemptId,
      priority,
      allocationRequestId,
      capability: resource,
      ...options,
    };
    this.setAsk({ ...ask, count });
  }

  /** Ends an application; what it still holds is cleaned up. */
  endApplication(
    application: ApplicationRow,
    end: Pick<ApplicationRow, "state" | "finalStatus" | "diagnostics" | "masterUnaware">,
    nowMs: number,
  ): void {
    for (const key of this.asksOfAttempt.of(application.attemptId)) this.asks.delete(key);
    this.scheduler.removeApplication(application.attemptId);
    const current = this.applications.get(application.applicationId) ?? application;
    this.applications.put({ ...current, ...end, finishedMs: nowMs });
    for (const tracker of [...this.trackers.values()]) {
      const finished = [...(tracker.finished ?? []), application.applicationId];
      this.trackers.put({ ...tracker, finished });
    }
    this.#ended(application.attemptId, "application-attempt");
    this.#ended(application.applicationId, "application");
    const exit = {
      exitStatus: EXIT.KILLED_AFTER_APP_COMPLETION,
      diagnostics: `Container of a completed application: ${end.diagnostics}`,
    };
    for (const id of this.containersOfAttempt.of(application.attemptId)) {
      const container = this.containers.get(id);
      if (container?.state === "COMPLETED") this.containers.delete(id);
      else if (container) this.requestCleanup(container, exit);
    }
    this.#forgetOldApplications();
  }

  /** `yarn.resourcemanager.max-completed-applications`: oldest finished first. */
  #forgetOldApplications(): void {
    const excess =
      this.applications.size -
      this.liveApplications.count("live") -
      LIMITS.completedApplicationsMax;
    if (excess <= 0) return;
    const finished = [...this.applications.values()]
      .filter((row) => !isLive(row) && this.containersOfAttempt.count(row.attemptId) === 0)
      .sort((a, b) => (a.finishedMs ?? 0) - (b.finishedMs ?? 0));
    for (const row of finished.slice(0, excess)) this.applications.delete(row.applicationId);
  }
}

export function isLive(application: ApplicationRow): boolean {
  return application.state === "ACCEPTED" || application.state === "RUNNING";
}

/** Places are counted down as they are served, and a lost container may go anywhere. */
function optionsOf(ask: AskRow | undefined): AskOptions {
  if (!ask) return {};
  const { attemptId, priority, allocationRequestId, capability, count, places, ...options } = ask;
  return options;
}

function addSchedulable(scheduler: CapacityScheduler, row: ApplicationRow): void {
  const { attemptId, queue, user, number: order, priority, blacklist } = row;
  // Masters at the edge take nothing of any node.
  const masterResource = NO_RESOURCE;
  scheduler.addApplication({ attemptId, queue, user, order, priority, masterResource });
  scheduler.setBlacklist(attemptId, blacklist);
}

/** A container as the scheduler has to know it. */
export function bookingOf(row: ContainerRow): BookedContainer {
  const { containerId, attemptId, nodeId, resource, priority, executionType, options } = row;
  const { nodeLabel, allocationTags } = options;
  return {
    containerId,
    attemptId,
    nodeId,
    resource,
    priority,
    executionType,
    ...(nodeLabel === undefined ? {} : { nodeLabel }),
    ...(allocationTags === undefined ? {} : { allocationTags }),
  };
}

function containerKey(row: ContainerRow): string {
  return row.containerId;
}

function hasNews(row: ContainerRow): boolean {
  return row.deliveredIn === null || (row.state === "COMPLETED" && row.exitDeliveredIn === null);
}
