/** What people and tools ask about an attempt's containers. */
import { fail, ok, type Reply } from "../../shared/errors.ts";
import type { ApplicationAttemptId, ContainerId } from "../../shared/ids.ts";
import type { ContainerInfo } from "../../shared/protocol/application-client.ts";
import type { Cluster } from "./cluster.ts";
import type { ContainerRow, RMContainerState } from "./rows.ts";

/** Seen from outside: whether the node was seen to run it, and whether it is over. */
const STATE: Readonly<Record<RMContainerState, ContainerInfo["state"]>> = {
  ALLOCATED: "NEW",
  ACQUIRED: "NEW",
  RUNNING: "RUNNING",
  COMPLETED: "COMPLETE",
};

/** Those that are not forgotten, in the order in which they were allocated. */
export function getContainers(
  cluster: Cluster,
  attemptId: ApplicationAttemptId,
): readonly ContainerInfo[] {
  return cluster.containersOfAttempt
    .of(attemptId)
    .map((containerId) => cluster.containers.get(containerId))
    .filter((row) => row !== undefined)
    .map(infoOf)
    .sort((a, b) => (a.containerId < b.containerId ? -1 : 1));
}

/** NOT_FOUND once it is forgotten: its master was told of its end, and acknowledged that. */
export function getContainer(cluster: Cluster, containerId: ContainerId): Reply<ContainerInfo> {
  const row = cluster.containers.get(containerId);
  if (row) return ok(infoOf(row));
  return fail("NOT_FOUND", `there is no container ${containerId}`, {
    reason: "ContainerNotFoundException",
    hint: "it never was, or it has ended; selvedge container list shows those there are",
  });
}

function infoOf(row: ContainerRow): ContainerInfo {
  return {
    containerId: row.containerId,
    attemptId: row.attemptId,
    nodeId: row.nodeId,
    resource: row.resource,
    priority: row.priority,
    executionType: row.executionType,
    state: STATE[row.state],
    allocatedMs: row.allocatedMs,
    exitStatus: row.exit?.exitStatus ?? null,
    diagnostics: (row.exit ?? row.cleanup)?.diagnostics ?? "",
  };
}
