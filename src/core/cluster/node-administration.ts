/**
 * What administrators decide about nodes: their labels, attributes and size, who may join, and who
 * has to leave. What is decided is stored by node id, whether or not the node is there now;
 * `settleNode` (node.ts) compares it with what the node's tracker says.
 */
import { fail, ok, type Reply } from "../../shared/errors.ts";
import type { NodeId } from "../../shared/ids.ts";
import type { NodeFacts } from "../../shared/node.ts";
import type { NodeChange, NodeLists } from "../../shared/protocol/administration.ts";
import type { SchedulerConfiguration } from "../scheduler/configuration.ts";
import type { SchedulerNode } from "../scheduler/request.ts";
import type { Cluster } from "./cluster.ts";
import type { NodeSettingsRow } from "./rows.ts";

/** What counts: the administrator's word, and else the node's own. */
export function effectiveFacts(cluster: Cluster, facts: NodeFacts): NodeFacts {
  const settings = cluster.nodeSettings.get(facts.nodeId);
  if (!settings) return facts;
  return {
    ...facts,
    labels: [...(settings.labels ?? facts.labels)],
    attributes: { ...(settings.attributes ?? facts.attributes) },
    capability: settings.resource ?? facts.capability,
  };
}

/**
 * The node as the scheduler sees it. Only labels that the cluster knows make partitions; any other
 * one is a word for people, and its node stays in the default partition.
 */
export function schedulerNode(
  cluster: Cluster,
  { nodeLabels }: SchedulerConfiguration,
  facts: NodeFacts,
): SchedulerNode {
  const effective = effectiveFacts(cluster, facts);
  const labels = effective.labels.filter((label) => nodeLabels.some(({ name }) => name === label));
  return { ...effective, labels };
}

/** Why a node may not take part; null when it may. */
export function whyExcluded(cluster: Cluster, { nodeId, host }: NodeFacts): string | null {
  const { include, exclude } = nodeLists(cluster);
  const isOn = (list: readonly string[]) => list.includes(host) || list.includes(nodeId);
  if (isOn(exclude)) return "the node is on the cluster's exclude list";
  if (include.length > 0 && !isOn(include)) return "the node is not on the cluster's include list";
  return null;
}

export function nodeLists(cluster: Cluster): NodeLists {
  return cluster.nodeLists.get("lists") ?? { include: [], exclude: [] };
}

/** The caller settles every node afterwards. */
export function setNodeLists(cluster: Cluster, { include, exclude }: NodeLists): void {
  cluster.nodeLists.put({
    key: "lists",
    include: [...new Set(include)].sort(),
    exclude: [...new Set(exclude)].sort(),
  });
}

/** All of the changes or, when a node is unknown, none. */
export function updateNodes(cluster: Cluster, changes: readonly NodeChange[]): Reply<undefined> {
  const known = checkKnown(
    cluster,
    changes.map(({ nodeId }) => nodeId),
  );
  if (!known.ok) return known;
  for (const { nodeId, ...change } of changes) put(cluster, nodeId, change);
  return ok();
}

export function decommissionNodes(
  cluster: Cluster,
  nodes: readonly NodeId[],
  timeoutSeconds: number | null,
  nowMs: number,
): Reply<undefined> {
  const known = checkKnown(cluster, nodes);
  if (!known.ok) return known;
  const deadlineMs = timeoutSeconds === null ? null : nowMs + timeoutSeconds * 1_000;
  for (const nodeId of nodes) put(cluster, nodeId, { decommission: { deadlineMs } });
  return ok();
}

export function recommissionNodes(cluster: Cluster, nodes: readonly NodeId[]): Reply<undefined> {
  const known = checkKnown(cluster, nodes);
  if (!known.ok) return known;
  for (const nodeId of nodes) put(cluster, nodeId, { decommission: null });
  return ok();
}

/** Epoch ms of the next end of a decommissioning's time, or null. */
export function nextDecommissionMs(cluster: Cluster): number | null {
  let next: number | null = null;
  for (const nodeId of cluster.decommissioning.of("decommissioning")) {
    const deadlineMs = cluster.nodeSettings.get(nodeId)?.decommission?.deadlineMs ?? null;
    if (deadlineMs !== null && (next === null || deadlineMs < next)) next = deadlineMs;
  }
  return next;
}

/** A row that says nothing is no row. */
function put(
  cluster: Cluster,
  nodeId: NodeId,
  change: Partial<Omit<NodeSettingsRow, "nodeId">>,
): void {
  const nothing = { labels: null, attributes: null, resource: null, decommission: null };
  const row = { nodeId, ...nothing, ...cluster.nodeSettings.get(nodeId), ...change };
  const saysNothing =
    row.labels === null &&
    row.attributes === null &&
    row.resource === null &&
    row.decommission === null;
  if (saysNothing) cluster.nodeSettings.delete(nodeId);
  else cluster.nodeSettings.put(row);
}

function checkKnown(cluster: Cluster, nodes: readonly NodeId[]): Reply<undefined> {
  const unknown = nodes.find((nodeId) => !cluster.nodes.get(nodeId));
  if (unknown === undefined) return ok();
  return fail("NOT_FOUND", `the cluster knows no node ${unknown}`, {
    hint: "selvedge node list shows the nodes; one that has yet to join is set up at its start",
  });
}
