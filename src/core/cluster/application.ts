/** ApplicationClientProtocol's commands and reports, over a Cluster. */
import { fail, ok, type Reply } from "../../shared/errors.ts";
import { type ApplicationId, formatApplicationId, formatAttemptId } from "../../shared/ids.ts";
import { NODE_STATES, type NodeState } from "../../shared/node.ts";
import type {
  ApplicationAccessType,
  ApplicationActivity,
  ApplicationReport,
  ApplicationSubmissionContext,
  ClusterInfo,
  NodeInfo,
  ServiceEntry,
  SubmittedApplication,
  Submitter,
} from "../../shared/protocol/application-client.ts";
import type { MasterName } from "../../shared/protocol/container-management.ts";
import { NO_RESOURCE } from "../../shared/resource.ts";
import { type QueueTemplate, queueSettings } from "../scheduler/configuration.ts";
import { checkQueueRight } from "../scheduler/queue-acl.ts";
import { mapQueue } from "../scheduler/queue-mapping.ts";
import {
  applicationHidden,
  applicationRefused,
  checkApplicationAccess,
  mayUse,
} from "./application-access.ts";
import { type Cluster, isLive } from "./cluster.ts";
import { effectiveFacts } from "./node-administration.ts";
import type { ApplicationRow, NodeRow } from "./rows.ts";

/**
 * Accepts an application. The same `submissionId` again answers the same application.
 * Refused: an unknown queue; a request that no registered node could ever hold.
 */
export function submitApplication(
  cluster: Cluster,
  context: ApplicationSubmissionContext,
  nowMs: number,
): Reply<SubmittedApplication> {
  const [known] = cluster.applicationOfSubmission.of(context.submissionId);
  const before = known === undefined ? undefined : cluster.applications.get(known);
  if (before) return ok({ applicationId: before.applicationId, attemptId: before.attemptId });

  const queue = chooseQueue(cluster, context);
  if (!queue.ok) return queue;
  for (const { component, resource } of context.largestRequests) {
    const admitted = cluster.scheduler.admit(resource, { queue: queue.value });
    if (!admitted.ok) {
      const { message, hint } = admitted.error;
      return fail("INVALID_ARGUMENT", `component ${component}: ${message}`, {
        ...(hint ? { hint } : {}),
        reason: "InvalidResourceRequestException",
      });
    }
  }

  const settings = queueSettings(cluster.scheduler.configuration, queue.value);
  const lifetimeSeconds = queueLifetime(settings, context.lifetimeSeconds);
  const meta = cluster.open(nowMs);
  cluster.meta.put({ ...meta, nextApplication: meta.nextApplication + 1 });
  const applicationId = formatApplicationId(meta.timestamp, meta.nextApplication);
  const attemptId = formatAttemptId(applicationId, 1);
  cluster.addApplication({
    applicationId,
    attemptId,
    number: meta.nextApplication,
    name: context.name,
    user: context.user,
    queue: queue.value,
    priority: settings?.defaultApplicationPriority ?? 0,
    deadlineMs: lifetimeSeconds > 0 ? nowMs + lifetimeSeconds * 1_000 : null,
    applicationType: context.applicationType,
    master: context.master,
    submissionId: context.submissionId,
    state: "ACCEPTED",
    finalStatus: "UNDEFINED",
    diagnostics: "",
    startedMs: nowMs,
    finishedMs: null,
    nextContainer: 1,
    responseId: 0,
    sequence: 0,
    masterUnaware: false,
    blacklist: [],
    acls: context.acls,
  });
  return ok({ applicationId, attemptId });
}

/**
 * Placement rules, then the right to submit, then the queue's own state and limits (facts §3.3; all
 * of it refuses the submission itself, where YARN lets some of it fail later).
 */
export function chooseQueue(
  cluster: Cluster,
  { queue, user, name, submitter }: ApplicationSubmissionContext,
): Reply<string> {
  const { scheduler } = cluster;
  const { configuration } = scheduler;
  // The groups in a token are its user's: nothing is known of those of somebody else.
  const groups = submitter.user === user ? submitter.groups : [];
  const mapped = mapQueue(configuration, { queue, user, groups, name });
  if (!mapped.ok) return mapped;
  const resolved = scheduler.resolveQueue(mapped.value.queue);
  if (!resolved.ok) return resolved;
  const allowed = checkQueueRight(configuration, resolved.value, "submit", submitter);
  if (!allowed.ok) return allowed;
  const admitted = scheduler.admitApplication({ queue: resolved.value, user });
  return admitted.ok ? resolved : admitted;
}

/**
 * What the queue adds to the lifetime that the application keeps to by itself (facts §3.12): its
 * default for those without one, its maximum for all. Seconds; -1 is unlimited.
 */
function queueLifetime(
  settings: QueueTemplate["leaf"] | undefined,
  requestedSeconds: number,
): number {
  if (!settings) return -1;
  const { defaultLifetimeSeconds, maximumLifetimeSeconds } = settings;
  const seconds = requestedSeconds > 0 ? -1 : defaultLifetimeSeconds;
  if (maximumLifetimeSeconds <= 0) return seconds;
  return seconds > 0 ? Math.min(seconds, maximumLifetimeSeconds) : maximumLifetimeSeconds;
}

/** Ends the applications whose queue gives them no more time. */
export function expireApplications(cluster: Cluster, nowMs: number): void {
  for (const applicationId of cluster.limitedApplications.of("limited")) {
    const { deadlineMs, queue } = cluster.applications.get(applicationId) ?? {};
    if (deadlineMs === undefined || deadlineMs === null || deadlineMs > nowMs) continue;
    const diagnostics = `Application killed: its time in queue ${queue} is over`;
    forceKillApplication(cluster, applicationId, diagnostics, nowMs);
  }
}

/** Epoch ms at which `expireApplications` next has something to do, or null. */
export function nextApplicationExpiryMs(cluster: Cluster): number | null {
  const deadlines = cluster.limitedApplications
    .of("limited")
    .map((applicationId) => cluster.applications.get(applicationId)?.deadlineMs ?? Infinity);
  return deadlines.length === 0 ? null : Math.min(...deadlines);
}

export function forceKillApplication(
  cluster: Cluster,
  applicationId: ApplicationId,
  diagnostics: string,
  nowMs: number,
): Reply<undefined> {
  const application = cluster.applications.get(applicationId);
  if (!application) return unknownApplication(applicationId);
  if (isLive(application)) {
    const end = {
      state: "KILLED",
      finalStatus: "KILLED",
      diagnostics,
      masterUnaware: true,
    } as const;
    cluster.endApplication(application, end, nowMs);
    cluster.schedule(nowMs);
  }
  return ok();
}

/** A destroyed service's generation is kept this long, so that a late report cannot revive it. */
const TOMBSTONE_MS = 3_600_000;

/**
 * The directory keeps the entry of the highest generation (which is about the epoch ms of the
 * change); null takes a service off the list.
 */
export function reportService(
  cluster: Cluster,
  master: MasterName,
  generation: number,
  entry: ServiceEntry | null,
  nowMs: number,
): Reply<undefined> {
  const known = cluster.directory.get(master);
  if (known && known.generation >= generation) return ok();
  cluster.directory.put({ master, generation, entry });
  for (const row of [...cluster.directory.values()]) {
    if (row.entry === null && row.generation < nowMs - TOMBSTONE_MS) {
      cluster.directory.delete(row.master);
    }
  }
  return ok();
}

export function listServices(cluster: Cluster, viewer?: Submitter): readonly ServiceEntry[] {
  const entries: ServiceEntry[] = [];
  for (const { entry } of cluster.directory.values()) {
    if (entry && (!viewer || maySeeService(cluster, entry, viewer))) entries.push(entry);
  }
  const key = (entry: ServiceEntry) => `${entry.user}/${entry.name}`;
  return entries.sort((a, b) => (key(a) < key(b) ? -1 : 1));
}

/** Null where there is none, and where `viewer` may not see it. */
export function findService(
  cluster: Cluster,
  user: string,
  name: string,
  viewer: Submitter,
): ServiceEntry | null {
  for (const { entry } of cluster.directory.values()) {
    if (entry?.user !== user || entry.name !== name) continue;
    return maySeeService(cluster, entry, viewer) ? entry : null;
  }
  return null;
}

function maySeeService(
  cluster: Cluster,
  { user, applicationId }: ServiceEntry,
  viewer: Submitter,
): boolean {
  if (viewer.isAdmin || user === viewer.user) return true;
  const right = "VIEW_APP";
  return (
    applicationId !== null && checkApplicationAccess(cluster, applicationId, viewer, right) !== null
  );
}

export function getApplications(
  cluster: Cluster,
  viewer?: Submitter,
): readonly ApplicationReport[] {
  return [...cluster.applications.values()]
    .filter((row) => !viewer || mayUse(cluster, row, viewer, "VIEW_APP"))
    .sort((a, b) => a.number - b.number)
    .map((row) => reportOf(cluster, row));
}

/** Why what waits is waiting: of one application, or of all that run, for who may see it. */
export function getActivities(
  cluster: Cluster,
  viewer: Submitter,
  only?: ApplicationId,
): readonly ApplicationActivity[] {
  const ids = only === undefined ? cluster.liveApplications.of("live") : [only];
  return ids.flatMap((applicationId) => {
    const row = cluster.applications.get(applicationId);
    if (!row || !isLive(row) || !mayUse(cluster, row, viewer, "VIEW_APP")) return [];
    const { name, user, queue, priority, attemptId } = row;
    const waiting = cluster.scheduler.pending(attemptId);
    return [{ applicationId, name, user, queue, priority, waiting }];
  });
}

/** NOT_FOUND also when `who` may not see it; PERMISSION_DENIED when `who` may see it and no more. */
export function getApplicationReport(
  cluster: Cluster,
  applicationId: ApplicationId,
  who: Submitter,
  right: ApplicationAccessType,
): Reply<ApplicationReport> {
  const row = cluster.applications.get(applicationId);
  if (!row) {
    return who.isAdmin ? unknownApplication(applicationId) : applicationHidden(applicationId, who);
  }
  if (mayUse(cluster, row, who, right)) return ok(reportOf(cluster, row));
  if (mayUse(cluster, row, who, "VIEW_APP")) return applicationRefused(row, who, right);
  return applicationHidden(applicationId, who);
}

function reportOf(cluster: Cluster, row: ApplicationRow): ApplicationReport {
  const usage = cluster.scheduler.attemptUsage(row.attemptId);
  return {
    applicationId: row.applicationId,
    attemptId: row.attemptId,
    name: row.name,
    user: row.user,
    queue: row.queue,
    priority: row.priority,
    applicationType: row.applicationType,
    state: row.state,
    finalStatus: row.finalStatus,
    diagnostics: row.diagnostics,
    startedMs: row.startedMs,
    finishedMs: row.finishedMs,
    allocated: usage.allocated,
    runningContainers: usage.containers,
  };
}

export function getClusterNodes(cluster: Cluster): readonly NodeInfo[] {
  return [...cluster.nodes.values()]
    .sort((a, b) => (a.facts.nodeId < b.facts.nodeId ? -1 : 1))
    .map((row) => nodeInfo(cluster, row));
}

function nodeInfo(cluster: Cluster, row: NodeRow): NodeInfo {
  const facts = effectiveFacts(cluster, row.facts);
  const usage = cluster.scheduler.nodeUsage(facts.nodeId);
  const decommission = cluster.nodeSettings.get(facts.nodeId)?.decommission;
  return {
    nodeId: facts.nodeId,
    host: facts.host,
    rack: facts.rack,
    state: row.state,
    labels: facts.labels,
    attributes: facts.attributes,
    agentVersion: facts.agentVersion,
    healthReport: row.state === "RUNNING" ? facts.healthReport : row.reason,
    lastChangeMs: row.lastChangeMs,
    decommissionDeadlineMs: decommission?.deadlineMs ?? null,
    total: facts.capability,
    used: usage?.used ?? NO_RESOURCE,
    reserved: usage?.reserved ?? NO_RESOURCE,
    containers: usage?.containers ?? 0,
  };
}

export function getClusterInfo(cluster: Cluster, name: string, claimed: boolean): ClusterInfo {
  const nodes = Object.fromEntries(NODE_STATES.map((state) => [state, 0])) as Record<
    NodeState,
    number
  >;
  for (const node of cluster.nodes.values()) nodes[node.state] += 1;
  const usage = cluster.scheduler.usage();
  return {
    cluster: name,
    startedMs: cluster.meta.get("cluster")?.timestamp ?? 0,
    claimed,
    nodes,
    applicationsRunning: cluster.liveApplications.count("live"),
    containersAllocated: usage.containers,
    total: usage.total,
    used: usage.used,
  };
}

function unknownApplication(applicationId: ApplicationId) {
  return fail("NOT_FOUND", `there is no application ${applicationId}`, {
    reason: "ApplicationNotFoundException",
  });
}
