/**
 * What tracker shards tell the ResourceManager of nodes and containers, and what it wants of them.
 * Reports carry latest values, so the same one twice, or an old one late, changes nothing.
 */
import { EXIT } from "../../shared/container.ts";
import { fail, ok, type Reply } from "../../shared/errors.ts";
import {
  type ApplicationId,
  applicationOfContainer,
  type ContainerId,
  type NodeId,
} from "../../shared/ids.ts";
import type { ContainerOwner } from "../../shared/protocol/application-client.ts";
import type {
  CleanupOrder,
  ContainerReport,
  NodeReport,
  ShutdownOrder,
  TrackerReport,
} from "../../shared/protocol/resource-tracker.ts";
import { ALLOCATION_EXPIRY_MS, type Cluster } from "./cluster.ts";
import { schedulerNode, whyExcluded } from "./node-administration.ts";
import type { NodeRow } from "./rows.ts";

/** Answers the generation heard, and the containers of the report that nobody owns (any more). */
export function reportNodes(
  cluster: Cluster,
  report: TrackerReport,
  nowMs: number,
): { readonly acknowledged: number; readonly cleanup: readonly CleanupOrder[] } {
  const tracker = cluster.trackers.get(report.shard);
  const known = tracker?.generation ?? 0;
  if (report.generation < known) return { acknowledged: known, cleanup: [] };
  if (report.generation > known) {
    cluster.trackers.put({ ...tracker, shard: report.shard, generation: report.generation });
  }
  const cleanup: CleanupOrder[] = [];
  for (const container of report.containers) {
    const orphan = reportContainer(cluster, container);
    if (orphan) cleanup.push(orphan);
  }
  for (const node of report.nodes) reportNode(cluster, report.shard, node, nowMs);
  cluster.schedule(nowMs);
  return { acknowledged: report.generation, cleanup };
}

function reportContainer(cluster: Cluster, report: ContainerReport): CleanupOrder | undefined {
  const { containerId, nodeId, exitStatus, diagnostics } = report;
  const container = cluster.containers.get(containerId);
  if (!container || container.nodeId !== nodeId || container.state === "COMPLETED") {
    if (report.state === "COMPLETE") return undefined;
    return {
      nodeId,
      containerId,
      exitStatus: EXIT.KILLED_BY_RESOURCEMANAGER,
      diagnostics: "The ResourceManager does not know this container (any more)",
    };
  }
  if (report.state === "COMPLETE") cluster.complete(container, { exitStatus, diagnostics });
  else if (container.state !== "RUNNING")
    cluster.containers.put({ ...container, state: "RUNNING" });
  return undefined;
}

function reportNode(cluster: Cluster, shard: string, report: NodeReport, nowMs: number): void {
  const { node: facts, presence, incarnation, reason } = report;
  const before = cluster.nodes.get(facts.nodeId);
  const { state, lastChangeMs } = before ?? { state: "RUNNING", lastChangeMs: nowMs };
  const row = { facts, shard, presence, incarnation, state, reason, lastChangeMs };
  settle(cluster, row, before, nowMs);
}

/** Brings a node into the state that follows from what its tracker and administrators have said. */
export function settleNode(cluster: Cluster, nodeId: NodeId, nowMs: number): void {
  const row = cluster.nodes.get(nodeId);
  if (row) settle(cluster, row, row, nowMs);
}

function settle(cluster: Cluster, row: NodeRow, before: NodeRow | undefined, nowMs: number): void {
  const { facts } = row;
  const { nodeId } = facts;
  const { state, reason } = stateOf(cluster, row, nowMs);
  const lastChangeMs = before?.state === state ? before.lastChangeMs : nowMs;
  cluster.nodes.put({ ...row, state, reason, lastChangeMs });
  if (state === "RUNNING" || state === "DECOMMISSIONING") {
    const { scheduler } = cluster;
    scheduler.addNode(schedulerNode(cluster, scheduler.configuration, facts));
    if (state === "DECOMMISSIONING") cluster.scheduler.drainNode(nodeId);
    return;
  }
  cluster.scheduler.removeNode(nodeId);
  if (row.presence !== "PRESENT") {
    loseContainers(cluster, nodeId, reason);
    return;
  }
  const diagnostics = `Container released on a *${state.toLowerCase()}* node: ${reason}`;
  for (const id of cluster.containersOfNode.of(nodeId)) {
    const container = cluster.containers.get(id);
    if (container) cluster.requestCleanup(container, { exitStatus: EXIT.ABORTED, diagnostics });
  }
}

function stateOf(
  cluster: Cluster,
  { facts, presence, reason }: NodeRow,
  nowMs: number,
): Pick<NodeRow, "state" | "reason"> {
  const excluded = whyExcluded(cluster, facts);
  if (excluded !== null) return { state: "DECOMMISSIONED", reason: excluded };
  const decommission = cluster.nodeSettings.get(facts.nodeId)?.decommission;
  if (decommission) {
    const isPresent = presence === "PRESENT";
    const isOver = decommission.deadlineMs !== null && decommission.deadlineMs <= nowMs;
    const isEmpty = cluster.containersOfNode.count(facts.nodeId) === 0;
    if (isOver || isEmpty || !isPresent) {
      const why = isOver && !isEmpty ? ": its time was over" : "";
      return { state: "DECOMMISSIONED", reason: `an administrator decommissioned the node${why}` };
    }
    return { state: "DECOMMISSIONING", reason: "an administrator decommissions the node" };
  }
  if (presence !== "PRESENT") return { state: presence, reason };
  return facts.healthy
    ? { state: "RUNNING", reason: "" }
    : { state: "UNHEALTHY", reason: facts.healthReport };
}

/** Decides what is due by now: decommissioned nodes that have run empty, or whose time is over. */
export function settleDecommissioning(cluster: Cluster, nowMs: number): void {
  for (const nodeId of [...cluster.decommissioning.of("decommissioning")]) {
    const deadlineMs = cluster.nodeSettings.get(nodeId)?.decommission?.deadlineMs ?? null;
    const isOver = deadlineMs !== null && deadlineMs <= nowMs;
    if (isOver || cluster.containersOfNode.count(nodeId) === 0) settleNode(cluster, nodeId, nowMs);
  }
}

function loseContainers(cluster: Cluster, nodeId: NodeId, reason: string): void {
  const diagnostics = `Container released on a *lost* node: ${reason}`;
  for (const id of cluster.containersOfNode.of(nodeId)) {
    const container = cluster.containers.get(id);
    if (container) cluster.complete(container, { exitStatus: EXIT.ABORTED, diagnostics });
  }
}

/** Nodes that have to go and hold nothing any more, by shard, with the reason to tell them. */
export function shutdownOrders(cluster: Cluster): ReadonlyMap<string, readonly ShutdownOrder[]> {
  const orders = new Map<string, readonly ShutdownOrder[]>();
  for (const shard of cluster.toBeShutDown.groups()) {
    const ofShard = cluster.toBeShutDown
      .of(shard)
      .filter((nodeId) => cluster.containersOfNode.count(nodeId) === 0)
      .map((nodeId) => ({ nodeId, reason: cluster.nodes.get(nodeId)?.reason ?? "" }));
    if (ofShard.length > 0) orders.set(shard, ofShard);
  }
  return orders;
}

/** Cleanup orders that the trackers have not stored yet, by shard. */
export function unsentCleanups(cluster: Cluster): ReadonlyMap<string, readonly CleanupOrder[]> {
  const orders = new Map<string, CleanupOrder[]>();
  for (const nodeId of cluster.unsentCleanups.groups()) {
    const shard = cluster.nodes.get(nodeId)?.shard;
    if (shard === undefined) continue;
    const ofShard = orders.get(shard) ?? [];
    for (const containerId of cluster.unsentCleanups.of(nodeId)) {
      const cleanup = cluster.containers.get(containerId)?.cleanup;
      if (!cleanup) continue;
      const { exitStatus, diagnostics } = cleanup;
      ofShard.push({ nodeId, containerId, exitStatus, diagnostics });
    }
    orders.set(shard, ofShard);
  }
  return orders;
}

/** Finished applications that tracker shards are still to be told of. */
export function untoldFinished(cluster: Cluster): ReadonlyMap<string, readonly ApplicationId[]> {
  const untold = new Map<string, readonly ApplicationId[]>();
  for (const { shard, finished } of cluster.trackers.values()) {
    if (finished !== undefined && finished.length > 0) untold.set(shard, finished);
  }
  return untold;
}

/** The shard has stored that these are finished. */
export function finishedTold(
  cluster: Cluster,
  shard: string,
  applicationIds: readonly ApplicationId[],
): void {
  const tracker = cluster.trackers.get(shard);
  if (!tracker) return;
  const told = new Set(applicationIds);
  const finished = (tracker.finished ?? []).filter((id) => !told.has(id));
  cluster.trackers.put({ ...tracker, finished });
}

/** The tracker has stored the orders; those `gone` it never had, so that they are over already. */
export function cleanupsSent(
  cluster: Cluster,
  orders: readonly CleanupOrder[],
  gone: readonly ContainerId[],
  nowMs: number,
): void {
  for (const { containerId } of orders) {
    const container = cluster.containers.get(containerId);
    if (!container?.cleanup) continue;
    cluster.containers.put({ ...container, cleanup: { ...container.cleanup, sent: true } });
  }
  for (const containerId of gone) {
    const container = cluster.containers.get(containerId);
    if (container?.cleanup) cluster.complete(container, exitOf(container.cleanup));
  }
  cluster.schedule(nowMs);
}

/** Ends containers which were given away but never seen on their node. */
export function expireAllocations(cluster: Cluster, nowMs: number): void {
  const diagnostics = "Container expired since it was unused";
  for (const id of cluster.starting.of("starting")) {
    const container = cluster.containers.get(id);
    if (!container || container.allocatedMs + ALLOCATION_EXPIRY_MS > nowMs) continue;
    cluster.requestCleanup(container, { exitStatus: EXIT.ABORTED, diagnostics });
  }
  cluster.schedule(nowMs);
}

/** Epoch ms at which `expireAllocations` next has something to do, or null. */
export function nextExpiryMs(cluster: Cluster): number | null {
  let earliest: number | null = null;
  for (const id of cluster.starting.of("starting")) {
    const allocatedMs = cluster.containers.get(id)?.allocatedMs ?? 0;
    if (earliest === null || allocatedMs < earliest) earliest = allocatedMs;
  }
  return earliest === null ? null : earliest + ALLOCATION_EXPIRY_MS;
}

/** Whose container it is; after the container is forgotten its application still knows the user. */
export function getContainerOwner(
  cluster: Cluster,
  containerId: ContainerId,
): Reply<ContainerOwner> {
  const application = cluster.applications.get(applicationOfContainer(containerId));
  if (!application) return fail("NOT_FOUND", `there is no container ${containerId}`);
  const nodeId = cluster.containers.get(containerId)?.nodeId ?? null;
  return ok({ user: application.user, nodeId, acls: application.acls ?? {} });
}

function exitOf({ exitStatus, diagnostics }: { exitStatus: number; diagnostics: string }) {
  return { exitStatus, diagnostics };
}
