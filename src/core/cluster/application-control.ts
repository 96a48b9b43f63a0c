/** What owners and administrators change of an application that runs (facts §1.4, §3.12). */
import { fail, ok, type Reply } from "../../shared/errors.ts";
import type { ApplicationId } from "../../shared/ids.ts";
import type { Submitter } from "../../shared/protocol/application-client.ts";
import { checkQueueRight } from "../scheduler/queue-acl.ts";
import { type Cluster, isLive } from "./cluster.ts";
import type { ApplicationRow } from "./rows.ts";

/** Clipped to the cluster's maximum, as in YARN; answers the priority that counts. */
export function setApplicationPriority(
  cluster: Cluster,
  applicationId: ApplicationId,
  priority: number,
  nowMs: number,
): Reply<{ readonly priority: number }> {
  const application = liveApplication(cluster, applicationId);
  if (!application.ok) return application;
  const { maximumApplicationPriority } = cluster.scheduler.configuration;
  const effective = Math.min(priority, maximumApplicationPriority);
  cluster.applications.put({ ...application.value, priority: effective });
  cluster.scheduler.setApplicationPriority(application.value.attemptId, effective);
  cluster.schedule(nowMs);
  return ok({ priority: effective });
}

/** The mover needs the right to submit to the new queue; the containers stay where they are. */
export function moveApplication(
  cluster: Cluster,
  applicationId: ApplicationId,
  queue: string,
  by: Submitter,
  nowMs: number,
): Reply<{ readonly queue: string }> {
  const application = liveApplication(cluster, applicationId);
  if (!application.ok) return application;
  const { scheduler } = cluster;
  const resolved = scheduler.resolveQueue(queue);
  if (!resolved.ok) return resolved;
  if (resolved.value === application.value.queue) return ok({ queue: resolved.value });
  const allowed = checkQueueRight(scheduler.configuration, resolved.value, "submit", by);
  if (!allowed.ok) return allowed;
  const moved = scheduler.moveApplication(application.value.attemptId, resolved.value);
  if (!moved.ok) return moved;
  cluster.applications.put({ ...application.value, queue: resolved.value });
  cluster.schedule(nowMs);
  return ok({ queue: resolved.value });
}

function liveApplication(cluster: Cluster, applicationId: ApplicationId): Reply<ApplicationRow> {
  const application = cluster.applications.get(applicationId);
  if (!application) {
    return fail("NOT_FOUND", `there is no application ${applicationId}`, {
      reason: "ApplicationNotFoundException",
    });
  }
  if (isLive(application)) return ok(application);
  return fail("FAILED_PRECONDITION", `application ${applicationId} is ${application.state}`);
}
