/** The tree of queues as people and tools see it. Made when somebody asks. */
import type { QueueInfo, QueueUsage, QueueUserUsage } from "../../shared/queue.ts";
import { type Amounts, addDemand, dominantShare } from "./amounts.ts";
import { LeafQueue } from "./leaf-queue.ts";
import type { Partition } from "./partition.ts";
import { ParentQueue, type Queue } from "./queue.ts";
import { maximumApplications, maximumApplicationsPerUser } from "./queue-admission.ts";
import type { SchedulerState } from "./scheduler-state.ts";

export function queueInfo(state: SchedulerState, queue: Queue): QueueInfo {
  const { configuration } = queue;
  const { capacity } = configuration;
  const leaves = [...queue.leaves()];
  const active = leaves.reduce((sum, leaf) => sum + leaf.activeApplications, 0);
  return {
    path: queue.path,
    name: configuration.name,
    kind: queue instanceof LeafQueue ? "leaf" : "parent",
    state: queue.state,
    isDynamic: queue.isDynamic,
    capacityMode: capacity.mode,
    configuredCapacity:
      capacity.mode === "percentage"
        ? capacity.percent
        : capacity.mode === "weight"
          ? capacity.weight
          : 0,
    partitions: state.nodes.partitions
      .filter((partition) => queue.mayUse(partition))
      .map((partition) => usageIn(state, queue, leaves, partition)),
    applications: queue.applications,
    activeApplications: active,
    pendingApplications: queue.applications - active,
    containers: queue.containers,
    reservedContainers: queue.reservedContainers,
    pendingContainers: leaves.reduce((sum, leaf) => sum + pendingContainers(leaf), 0),
    ...applicationLimits(state, queue),
    ...(queue instanceof LeafQueue && leafInfo(state, queue)),
    children:
      queue instanceof ParentQueue ? queue.children.map((child) => queueInfo(state, child)) : [],
  };
}

function usageIn(
  state: SchedulerState,
  queue: Queue,
  leaves: readonly LeafQueue[],
  partition: Partition,
): QueueUsage {
  const { types } = state;
  const share = queue.share(partition);
  const pending: Amounts = [0, 0];
  for (const leaf of leaves) addPending(pending, leaf, partition);
  return {
    partition: partition.name,
    absoluteCapacity: share.absoluteCapacity,
    absoluteMaximumCapacity: share.absoluteMaximumCapacity,
    absoluteUsedCapacity: dominantShare(share.used, partition.total),
    usedCapacity: share.usedCapacity,
    guaranteed: types.resource(share.minimum),
    maximum: types.resource(share.maximum),
    used: types.resource(share.used),
    reserved: types.resource(share.reserved),
    pending: types.resource(pending),
  };
}

/** Adds what the leaf's applications ask for in a partition. */
function addPending(pending: Amounts, leaf: LeafQueue, partition: Partition): void {
  for (const { asks } of leaf.waiting) {
    for (const { requestClass, count } of asks) {
      const { demand } = requestClass.size;
      if (requestClass.partition === partition && demand) addDemand(pending, demand, count);
    }
  }
}

function pendingContainers(leaf: LeafQueue): number {
  let count = 0;
  for (const { asks } of leaf.waiting) for (const ask of asks) count += ask.count;
  return count;
}

function applicationLimits(
  { configuration }: SchedulerState,
  queue: Queue,
): Pick<QueueInfo, "maximumApplications" | "maximumApplicationsPerUser"> {
  if (!(queue instanceof LeafQueue)) {
    const most = configuration.maximumApplications;
    return { maximumApplications: most, maximumApplicationsPerUser: most };
  }
  return {
    maximumApplications: maximumApplications(queue, configuration),
    maximumApplicationsPerUser: maximumApplicationsPerUser(queue, configuration),
  };
}

function leafInfo({ types }: SchedulerState, leaf: LeafQueue) {
  const { defaultPartition: partition } = leaf;
  const limits = leaf.limits(partition);
  const users = [...leaf.users.values()].map(
    (user): QueueUserUsage => ({
      user: user.name,
      used: types.resource(limits.useOf(user).used),
      limit: types.resource(limits.limitOf(user, leaf.activeUserWeights)),
      weight: user.weight,
      activeApplications: user.activeApplications,
      pendingApplications: user.applications - user.activeApplications,
      isActive: user.isActive,
    }),
  );
  return {
    masterLimit: types.resource(leaf.masterLimit()),
    masterUsed: types.resource(leaf.masterUsed),
    users: users.sort((a, b) => (a.user < b.user ? -1 : 1)),
  };
}
