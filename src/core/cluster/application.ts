/** ApplicationClientProtocol's commands and reports, over a Cluster. */
import { fail, ok, type Reply } from "../../shared/errors.ts";
import { type ApplicationId, formatApplicationId, formatAttemptId } from "../../shared/ids.ts";
import { NODE_STATES, type NodeState } from "../../shared/node.ts";
import type {
  ApplicationReport,
  ApplicationSubmissionContext,
  ClusterInfo,
  NodeInfo,
  ServiceEntry,
  SubmittedApplication,
} from "../../shared/protocol/application-client.ts";
import type { MasterName } from "../../shared/protocol/container-management.ts";
import { NO_RESOURCE } from "../../shared/resource.ts";
import { type ApplicationRow, type Cluster, isLive, type NodeRow } from "./cluster.ts";

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

  const queue = cluster.scheduler.resolveQueue(context.queue);
  if (!queue.ok) return queue;
  for (const { component, resource } of context.largestRequests) {
    const admitted = cluster.scheduler.admit(resource);
    if (!admitted.ok) {
      const { message, hint } = admitted.error;
      return fail("INVALID_ARGUMENT", `component ${component}: ${message}`, {
        ...(hint ? { hint } : {}),
        reason: "InvalidResourceRequestException",
      });
    }
  }

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
  });
  return ok({ applicationId, attemptId });
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

export function listServices(cluster: Cluster): readonly ServiceEntry[] {
  const entries: ServiceEntry[] = [];
  for (const { entry } of cluster.directory.values()) if (entry) entries.push(entry);
  const key = (entry: ServiceEntry) => `${entry.user}/${entry.name}`;
  return entries.sort((a, b) => (key(a) < key(b) ? -1 : 1));
}

export function getApplications(cluster: Cluster): readonly ApplicationReport[] {
  return [...cluster.applications.values()]
    .sort((a, b) => a.number - b.number)
    .map((row) => reportOf(cluster, row));
}

export function getApplicationReport(
  cluster: Cluster,
  applicationId: ApplicationId,
): Reply<ApplicationReport> {
  const row = cluster.applications.get(applicationId);
  return row ? ok(reportOf(cluster, row)) : unknownApplication(applicationId);
}

function reportOf(cluster: Cluster, row: ApplicationRow): ApplicationReport {
  const usage = cluster.scheduler.attemptUsage(row.attemptId);
  return {
    applicationId: row.applicationId,
    attemptId: row.attemptId,
    name: row.name,
    user: row.user,
    queue: row.queue,
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
  const usage = cluster.scheduler.nodeUsage(row.facts.nodeId);
  return {
    nodeId: row.facts.nodeId,
    host: row.facts.host,
    rack: row.facts.rack,
    state: row.state,
    labels: row.facts.labels,
    agentVersion: row.facts.agentVersion,
    healthReport: row.state === "RUNNING" ? row.facts.healthReport : row.reason,
    lastChangeMs: row.lastChangeMs,
    total: row.facts.capability,
    used: usage?.used ?? NO_RESOURCE,
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
