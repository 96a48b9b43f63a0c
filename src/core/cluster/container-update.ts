/**
 * Container updates (facts/yarn-rm-nm-scheduler.md §6.5): another size, or another execution type, of
 * a container that runs. A request names the version that it changes, so that hearing it twice
 * changes nothing more: the second time the container has its successor and is answered as it is.
 */
import type { ApplicationAttemptId } from "../../shared/ids.ts";
import type {
  UpdateContainerError,
  UpdateContainerRequest,
} from "../../shared/protocol/application-master.ts";
import { fitsIn, type Resource } from "../../shared/resource.ts";
import type { Cluster } from "./cluster.ts";
import type { ContainerRow } from "./rows.ts";

type Updates = {
  readonly updated: readonly ContainerRow[];
  readonly updateErrors: readonly UpdateContainerError[];
};

export function updateContainers(
  cluster: Cluster,
  attemptId: ApplicationAttemptId,
  requests: readonly UpdateContainerRequest[],
): Updates {
  const updated: ContainerRow[] = [];
  const updateErrors: UpdateContainerError[] = [];
  for (const request of requests) {
    const outcome = update(cluster, attemptId, request);
    if ("reason" in outcome) updateErrors.push(outcome);
    else updated.push(outcome);
  }
  return { updated, updateErrors };
}

function update(
  cluster: Cluster,
  attemptId: ApplicationAttemptId,
  request: UpdateContainerRequest,
): ContainerRow | UpdateContainerError {
  const { containerId, version } = request;
  const row = cluster.containers.get(containerId);
  const isAlive = row?.state === "ACQUIRED" || row?.state === "RUNNING";
  if (!row || row.attemptId !== attemptId || !isAlive || row.cleanup !== null) {
    return refused(request, "INVALID_CONTAINER_ID", "there is no such container, or it is ending");
  }
  if (row.version === version + 1 && isDone(row, request)) return row;
  if (row.version !== version) {
    const message = `the container has version ${row.version}, not ${version}`;
    return refused(request, "INCORRECT_CONTAINER_VERSION_ERROR", message);
  }
  const { scheduler } = cluster;
  if (request.capability === undefined) {
    const executionType =
      request.type === "PROMOTE_EXECUTION_TYPE" ? "GUARANTEED" : "OPPORTUNISTIC";
    const changed =
      executionType === "GUARANTEED"
        ? scheduler.promote(containerId)
        : scheduler.demote(containerId);
    if (!changed.ok) {
      return refused(request, "RESOURCE_OUTSIDE_ALLOWED_RANGE", changed.error.message);
    }
    return put(cluster, { ...row, executionType, version: version + 1 });
  }
  const { capability } = request;
  if (!isRightWay(request, row.resource, capability)) {
    const message = "an increase is larger in every type, a decrease smaller, and neither is equal";
    return refused(request, "RESOURCE_OUTSIDE_ALLOWED_RANGE", message);
  }
  const resized = scheduler.resize(containerId, capability);
  if (!resized.ok) {
    return refused(request, "RESOURCE_OUTSIDE_ALLOWED_RANGE", resized.error.message);
  }
  return put(cluster, { ...row, resource: capability, version: version + 1 });
}

function put(cluster: Cluster, row: ContainerRow): ContainerRow {
  cluster.containers.put(row);
  return row;
}

function isDone(row: ContainerRow, { type, capability }: UpdateContainerRequest): boolean {
  if (capability === undefined) {
    return (
      row.executionType === (type === "PROMOTE_EXECUTION_TYPE" ? "GUARANTEED" : "OPPORTUNISTIC")
    );
  }
  return fitsIn(row.resource, capability) && fitsIn(capability, row.resource);
}

function isRightWay({ type }: UpdateContainerRequest, from: Resource, to: Resource): boolean {
  const grows = fitsIn(from, to);
  const shrinks = fitsIn(to, from);
  if (grows === shrinks) return false;
  return type === "INCREASE_RESOURCE" ? grows : type === "DECREASE_RESOURCE" && shrinks;
}

function refused(
  { containerId }: UpdateContainerRequest,
  reason: UpdateContainerError["reason"],
  message: string,
): UpdateContainerError {
  return { containerId, reason, message };
}
