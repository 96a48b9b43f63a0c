/**
 * Which applications have something on which nodes, beyond the lives of their containers: localized
 * resources, auxiliary services, logs. A row is made with an application's first container on a
 * node, and goes when the node says that nothing is left, or with the node.
 */
import { type ApplicationId, applicationOfContainer, type NodeId } from "../../shared/ids.ts";
import type { TrackedApplication, Tracker } from "./tracker.ts";

export function applicationKey({ nodeId, applicationId }: Omit<TrackedApplication, "finished">) {
  return `${nodeId} ${applicationId}`;
}

/** The application gets a container on the node; one that was finished there begins anew. */
export function applicationStarts(
  tracker: Tracker,
  nodeId: NodeId,
  applicationId: ApplicationId,
): void {
  const known = tracker.applications.get(applicationKey({ nodeId, applicationId }));
  if (known) return;
  tracker.applications.put({ nodeId, applicationId, finished: false });
}

/**
 * The ResourceManager says that applications are finished; saying it again changes nothing. Nodes
 * are told at once, or when they register.
 */
export function finishApplications(
  tracker: Tracker,
  applicationIds: readonly ApplicationId[],
): void {
  const told = new Map<NodeId, ApplicationId[]>();
  for (const applicationId of applicationIds) {
    for (const key of tracker.nodesOfApplication.of(applicationId)) {
      const row = tracker.applications.get(key);
      if (!row || row.finished) continue;
      tracker.applications.put({ ...row, finished: true });
      const others = told.get(row.nodeId);
      if (others) others.push(applicationId);
      else told.set(row.nodeId, [applicationId]);
    }
  }
  for (const [nodeId, finished] of told) {
    if (tracker.nodes.get(nodeId)?.presence !== "CONNECTED") continue;
    tracker.send(nodeId, { type: "finish-applications", applicationIds: finished });
  }
}

/** A node says that nothing is left of these. */
export function applicationsFinished(
  tracker: Tracker,
  nodeId: NodeId,
  applicationIds: readonly ApplicationId[],
): void {
  for (const applicationId of applicationIds) forgetApplication(tracker, nodeId, applicationId);
}

/**
 * A node that registers names the applications that are not over there; `named` is undefined for an
 * agent that keeps none. Those that the tracker does not know any more are finished. Answers what
 * the node is to finish.
 */
export function applicationsOfNode(
  tracker: Tracker,
  nodeId: NodeId,
  named: readonly ApplicationId[] | undefined,
): readonly ApplicationId[] {
  const here = new Set(named);
  for (const key of [...tracker.applicationsOfNode.of(nodeId)]) {
    const row = tracker.applications.get(key);
    if (row && !here.has(row.applicationId)) forgetApplication(tracker, nodeId, row.applicationId);
  }
  const finished: ApplicationId[] = [];
  for (const applicationId of here) {
    const row = tracker.applications.get(applicationKey({ nodeId, applicationId }));
    if (!row && hasContainers(tracker, nodeId, applicationId)) {
      tracker.applications.put({ nodeId, applicationId, finished: false });
    } else if (!row || row.finished) {
      finished.push(applicationId);
    }
  }
  return finished;
}

/** What a node is still to finish. */
export function finishedApplications(tracker: Tracker, nodeId: NodeId): readonly ApplicationId[] {
  return [...tracker.applicationsOfNode.of(nodeId)].flatMap((key) => {
    const row = tracker.applications.get(key);
    return row?.finished ? [row.applicationId] : [];
  });
}

/** Unless a container of it is, or is to be, on the node. */
function forgetApplication(tracker: Tracker, nodeId: NodeId, applicationId: ApplicationId): void {
  if (hasContainers(tracker, nodeId, applicationId)) return;
  tracker.applications.delete(applicationKey({ nodeId, applicationId }));
}

function hasContainers(tracker: Tracker, nodeId: NodeId, applicationId: ApplicationId): boolean {
  for (const id of tracker.containersOfNode.of(nodeId)) {
    const status = tracker.containers.get(id)?.status;
    if (status?.state !== "COMPLETE" && applicationOfContainer(id) === applicationId) return true;
  }
  return false;
}
