/** What agents say to their tracker shard, and what becomes of nodes that fall silent. */
import { type ContainerStatus, EXIT } from "../../shared/container.ts";
import type { ApplicationId, ContainerId, NodeId } from "../../shared/ids.ts";
import type {
  DesiredContainer,
  RegisterNodeManager,
  VerificationKey,
} from "../../shared/protocol/resource-tracker.ts";
import { desiredOf, type TrackedContainer, type TrackedNode, type Tracker } from "./tracker.ts";
import { applicationsOfNode, finishedApplications } from "./tracker-applications.ts";

/** How long a node whose connection broke may take to come back before it is LOST. */
export const NODE_GRACE_MS = 10_000;
/** `yarn.nm.liveness-monitor.expiry-interval-ms`: an open connection that says nothing. */
export const NODE_EXPIRY_MS = 600_000;
export const PING_INTERVAL_MS = 30_000;

/**
 * A node states its full truth on a new connection and is told the whole of its desired set.
 * `session` must differ from the node's earlier connections.
 */
export function registerNodeManager(
  tracker: Tracker,
  message: RegisterNodeManager,
  session: number,
  keys: readonly VerificationKey[],
): void {
  const { nodeId } = message.node;
  const before = tracker.nodes.get(nodeId);
  const generation = (before?.generation ?? 0) + 1;
  const changedIn = nodeIsNews(before, message) ? tracker.tickClock() : (before?.changedIn ?? 0);
  tracker.nodes.put({
    facts: message.node,
    presence: "CONNECTED",
    reason: "",
    deadlineMs: null,
    session,
    incarnation: before && isPresent(before) ? before.incarnation : changedIn,
    generation,
    changedIn,
  });

  const acknowledged: ContainerId[] = [];
  for (const status of message.containers) {
    updateStatus(tracker, nodeId, status);
    if (status.state === "COMPLETE") acknowledged.push(status.containerId);
  }
  const reported = new Set(message.containers.map((status) => status.containerId));
  for (const id of tracker.containersOfNode.of(nodeId)) {
    const row = tracker.containers.get(id);
    if (!row || row.status === null || row.status.state === "COMPLETE" || reported.has(id))
      continue;
    // It had not come as far as its launch, so that it can be started anew.
    if (row.status.state === "NEW") tracker.containers.put({ ...row, status: null });
    else tracker.lose(row, "its NodeManager came back without this container", EXIT.LOST);
  }
  const finished = applicationsOfNode(tracker, nodeId, message.applications);
  sendDesired(tracker, nodeId, generation, keys, acknowledged, finished);
}

/** For a node without a socket: the whole desired set again. */
export function resendDesired(
  tracker: Tracker,
  nodeId: NodeId,
  keys: readonly VerificationKey[],
): void {
  const node = tracker.nodes.get(nodeId);
  if (!node) return;
  const finished = finishedApplications(tracker, nodeId);
  sendDesired(tracker, nodeId, node.generation, keys, [], finished);
}

function sendDesired(
  tracker: Tracker,
  nodeId: NodeId,
  generation: number,
  keys: readonly VerificationKey[],
  acknowledged: readonly ContainerId[],
  finishedApplications: readonly ApplicationId[],
): void {
  const desired: DesiredContainer[] = [];
  for (const id of tracker.containersOfNode.of(nodeId)) {
    const row = tracker.containers.get(id);
    if (row && row.status?.state !== "COMPLETE") desired.push(desiredOf(row));
  }
  tracker.send(nodeId, {
    type: "registered",
    generation,
    desired,
    acknowledged,
    keys,
    finishedApplications,
    pingIntervalMs: PING_INTERVAL_MS,
  });
}

function nodeIsNews(before: TrackedNode | undefined, message: RegisterNodeManager): boolean {
  if (!before || !isPresent(before)) return true;
  return JSON.stringify(before.facts) !== JSON.stringify(message.node);
}

function isPresent({ presence }: TrackedNode): boolean {
  return presence === "CONNECTED" || presence === "DISCONNECTED";
}

/** Statuses that changed on a connected node; ends are acknowledged once they are stored. */
export function containerStatuses(
  tracker: Tracker,
  nodeId: NodeId,
  statuses: readonly ContainerStatus[],
): void {
  const ended: ContainerId[] = [];
  for (const status of statuses) {
    updateStatus(tracker, nodeId, status);
    if (status.state === "COMPLETE") ended.push(status.containerId);
  }
  if (ended.length > 0) tracker.send(nodeId, { type: "acknowledge", containerIds: ended });
}

/** The last word counts, except that nothing comes after COMPLETE. */
function updateStatus(tracker: Tracker, nodeId: NodeId, status: ContainerStatus): void {
  const row = tracker.containers.get(status.containerId);
  if (!row || row.nodeId !== nodeId || row.status?.state === "COMPLETE") return;
  const before = row.status;
  if (before !== null && JSON.stringify(before) === JSON.stringify(status)) return;
  const stateIsNew = before?.state !== status.state;
  // The launch context holds the user's environment: it stays no longer than the agent, which keeps
  // nothing of it until it launches, may need it.
  const isTaken = status.state !== "NEW" && (status.revision ?? 0) >= (row.revision ?? 0);
  const updated: TrackedContainer = {
    ...row,
    status,
    ...(isTaken ? { launch: null, token: "" } : {}),
    changedIn: stateIsNew ? tracker.tickClock() : row.changedIn,
    changedForMasterIn: status.state === "RUNNING" ? tracker.tickClock() : row.changedForMasterIn,
  };
  tracker.containers.put(updated);
}

export function nodeHealth(
  tracker: Tracker,
  nodeId: NodeId,
  health: { readonly healthy: boolean; readonly healthReport: string },
): void {
  const node = tracker.nodes.get(nodeId);
  if (!node) return;
  const { healthy, healthReport } = health;
  const facts = { ...node.facts, healthy, healthReport };
  if (JSON.stringify(facts) === JSON.stringify(node.facts)) return;
  tracker.nodes.put({ ...node, facts, changedIn: tracker.tickClock() });
}

/** A connection ended. Unless a newer one took over, the node has the grace period to come back. */
export function nodeDisconnected(
  tracker: Tracker,
  nodeId: NodeId,
  session: number,
  nowMs: number,
): void {
  const node = tracker.nodes.get(nodeId);
  if (node?.presence !== "CONNECTED" || node.session !== session) return;
  tracker.nodes.put({ ...node, presence: "DISCONNECTED", deadlineMs: nowMs + NODE_GRACE_MS });
}

/** The node stops for good and its containers with it. */
export function nodeUnregistered(tracker: Tracker, nodeId: NodeId): void {
  const node = tracker.nodes.get(nodeId);
  if (node) nodeGone(tracker, node, "SHUTDOWN", "the NodeManager was shut down");
}

/** Nodes which did not come back in time are LOST, and so are their containers. */
export function expireNodes(tracker: Tracker, nowMs: number): void {
  for (const nodeId of tracker.waitingNodes.of("waiting")) {
    const node = tracker.nodes.get(nodeId);
    if (node?.deadlineMs == null || node.deadlineMs > nowMs) continue;
    const reason = `no connection for ${NODE_GRACE_MS / 1000} s`;
    nodeGone(tracker, node, "LOST", reason);
  }
}

/** A connected node was silent for longer than the expiry interval. */
export function nodeSilent(tracker: Tracker, nodeId: NodeId): void {
  const node = tracker.nodes.get(nodeId);
  if (node?.presence !== "CONNECTED") return;
  nodeGone(tracker, node, "LOST", `nothing heard for ${NODE_EXPIRY_MS / 1000} s`);
}

export function nextNodeDeadlineMs(tracker: Tracker): number | null {
  let earliest: number | null = null;
  for (const nodeId of tracker.waitingNodes.of("waiting")) {
    const deadlineMs = tracker.nodes.get(nodeId)?.deadlineMs ?? null;
    if (deadlineMs !== null && (earliest === null || deadlineMs < earliest)) earliest = deadlineMs;
  }
  return earliest;
}

function nodeGone(
  tracker: Tracker,
  node: TrackedNode,
  presence: "LOST" | "SHUTDOWN",
  reason: string,
): void {
  const changedIn = tracker.tickClock();
  tracker.nodes.put({ ...node, presence, reason, deadlineMs: null, changedIn });
  for (const id of tracker.containersOfNode.of(node.facts.nodeId)) {
    const row = tracker.containers.get(id);
    if (row && row.status?.state !== "COMPLETE") tracker.lose(row, reason);
  }
}
