/**
 * The dry run: where would an application's containers go now, what would wait and why, what would
 * be preempted. It is tried out on a scheduler of its own, made from the same rows; the cluster's
 * own is not touched.
 */
import { ok, type Reply } from "../../shared/errors.ts";
import {
  applicationOfContainer,
  type ContainerId,
  formatApplicationId,
  formatAttemptId,
  formatContainerId,
} from "../../shared/ids.ts";
import { LIMITS } from "../../shared/limits.ts";
import type {
  ApplicationPlan,
  ApplicationSubmissionContext,
} from "../../shared/protocol/application-client.ts";
import type { ResourceRequest } from "../../shared/protocol/application-master.ts";
import { NO_RESOURCE } from "../../shared/resource.ts";
import { chooseQueue } from "./application.ts";
import type { Cluster } from "./cluster.ts";

/** Refused for the reasons for which the submission would be. */
export function planApplication(
  cluster: Cluster,
  context: ApplicationSubmissionContext,
  asks: readonly ResourceRequest[],
  nowMs: number,
): Reply<ApplicationPlan> {
  const queue = chooseQueue(cluster, context);
  if (!queue.ok) return queue;
  const scheduler = cluster.newScheduler();
  const { timestamp, nextApplication } = cluster.meta.get("cluster") ?? {
    timestamp: nowMs,
    nextApplication: 1,
  };
  const attemptId = formatAttemptId(formatApplicationId(timestamp, nextApplication), 1);
  scheduler.addApplication({
    attemptId,
    queue: queue.value,
    user: context.user,
    order: nextApplication,
    priority: 0,
    masterResource: NO_RESOURCE,
  });
  for (const ask of asks) scheduler.setAsk(attemptId, ask);
  let minted = 0;
  const mint = () => {
    minted += 1;
    return formatContainerId(attemptId, 1, minted);
  };
  const assignments = scheduler
    .schedule(nowMs, LIMITS.containersPerServiceMax, mint)
    .filter((assignment) => assignment.attemptId === attemptId);
  const waiting = scheduler.pending(attemptId);
  const { asked, kill } = scheduler.preempt(nowMs);
  const preempted = new Set<ContainerId>([...[...asked.values()].flat(), ...kill]);
  return ok({
    queue: queue.value,
    placements: assignments.map(({ nodeId, allocationRequestId, locality }) => ({
      allocationRequestId,
      nodeId,
      locality,
    })),
    waiting,
    preempted: [...preempted].map((containerId) => ({
      containerId,
      applicationId: applicationOfContainer(containerId),
    })),
  });
}
