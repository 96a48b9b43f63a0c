/** What people and tools ask about queues and partitions. */
import type { Reply } from "../../shared/errors.ts";
import type { NodeLabel, SchedulerView } from "../../shared/protocol/administration.ts";
import type { Submitter } from "../../shared/protocol/application-client.ts";
import type { QueueInfo, QueueSettings, QueueView } from "../../shared/queue.ts";
import { addResource, NO_RESOURCE } from "../../shared/resource.ts";
import { formatAccessControlList } from "../access-control-list.ts";
import { queueSettings, type SchedulerConfiguration } from "../scheduler/configuration.ts";
import { checkQueueRight, type QueueRight } from "../scheduler/queue-acl.ts";
import type { Cluster } from "./cluster.ts";
import { effectiveFacts } from "./node-administration.ts";

export function getQueues({ scheduler }: Cluster): SchedulerView {
  return {
    root: queueView(scheduler.configuration, scheduler.queueInfo()),
    minimumAllocation: scheduler.configuration.minimumAllocation,
    maximumAllocation: scheduler.maximumCapability(),
  };
}

function queueView(configuration: SchedulerConfiguration, info: QueueInfo): QueueView {
  const children = info.children.map((child) => queueView(configuration, child));
  const settings = settingsOf(configuration, info.path);
  return { ...info, children, settings };
}

function settingsOf(configuration: SchedulerConfiguration, path: string): QueueSettings {
  const queue = queueSettings(configuration, path) ?? configuration.root;
  const { ordering, accessibleNodeLabels: labels } = queue;
  return {
    priority: queue.priority,
    orderingPolicy: ordering.policy,
    minimumUserLimitPercent: queue.minimumUserLimit * 100,
    userLimitFactor: queue.userLimitFactor,
    maximumAmResourceFraction: queue.maximumAmResourceFraction,
    maxParallelApplications: queue.maxParallelApplications,
    submitAcl: formatAccessControlList(queue.submitAcl),
    administerAcl: formatAccessControlList(queue.administerAcl),
    defaultApplicationPriority: queue.defaultApplicationPriority,
    maximumLifetimeSeconds: queue.maximumLifetimeSeconds,
    defaultLifetimeSeconds: queue.defaultLifetimeSeconds,
    preemptionDisabled: queue.preemptionDisabled || !configuration.preemption.enabled,
    intraQueuePreemptionDisabled: queue.intraQueuePreemptionDisabled,
    accessibleNodeLabels: labels === "*" ? ["*"] : labels,
    defaultNodeLabel: queue.defaultNodeLabel,
  };
}

/** PERMISSION_DENIED with the right that is missing; INVALID_ARGUMENT for a queue that is none. */
export function checkQueueAccess(
  { scheduler }: Cluster,
  queue: string,
  right: QueueRight,
  who: Submitter,
): Reply<undefined> {
  const resolved = scheduler.resolveQueue(queue);
  if (!resolved.ok) return resolved;
  return checkQueueRight(scheduler.configuration, resolved.value, right, who);
}

/** The cluster's labels, with the nodes that are in them and run. */
export function getNodeLabels(cluster: Cluster): readonly NodeLabel[] {
  return cluster.scheduler.configuration.nodeLabels.map(({ name, exclusive }) => {
    let nodes = 0;
    let total = NO_RESOURCE;
    for (const { state, facts } of cluster.nodes.values()) {
      const { labels, capability } = effectiveFacts(cluster, facts);
      if (state !== "RUNNING" || labels[0] !== name) continue;
      nodes += 1;
      total = addResource(total, capability);
    }
    return { name, exclusive, nodes, total };
  });
}
