/**
 * The CapacityScheduler in YARN's JSON (facts/yarn-rm-nm-scheduler.md §1.6): percents from 0 to 100,
 * `capacity` and `maxCapacity` relative to the parent, and only the fields whose values are known.
 */
import * as z from "zod";
import type { SchedulerView } from "../shared/protocol/administration.ts";
import type { QueueUsage, QueueUserUsage, QueueView } from "../shared/queue.ts";
import type { Resource } from "../shared/resource.ts";

const resourceSchema = z.object({
  memory: z.number(),
  vCores: z.number(),
  extra: z.record(z.string(), z.number()).optional(),
});
const partitionSchema = z.object({
  partitionName: z.string(),
  absoluteCapacity: z.number(),
  absoluteMaxCapacity: z.number(),
  absoluteUsedCapacity: z.number(),
  usedCapacity: z.number(),
  effectiveMinResource: resourceSchema,
  effectiveMaxResource: resourceSchema,
});
const usageSchema = z.object({
  partitionName: z.string(),
  used: resourceSchema,
  reserved: resourceSchema,
  pending: resourceSchema,
});
const userSchema = z.object({
  username: z.string(),
  resourcesUsed: resourceSchema,
  userResourceLimit: resourceSchema,
  userWeight: z.number(),
  isActive: z.boolean(),
  numActiveApplications: z.int(),
  numPendingApplications: z.int(),
});

const queueFields = {
  queueName: z.string(),
  queuePath: z.string(),
  queueType: z.enum(["parent", "leaf"]),
  state: z.enum(["RUNNING", "DRAINING", "STOPPED"]),
  mode: z.enum(["percentage", "weight", "absolute"]),
  creationMethod: z.enum(["static", "dynamicFlexible"]),
  capacity: z.number(),
  maxCapacity: z.number(),
  usedCapacity: z.number(),
  weight: z.number().describe("-1 unless in weight mode."),
  absoluteCapacity: z.number(),
  absoluteMaxCapacity: z.number(),
  absoluteUsedCapacity: z.number(),
  numApplications: z.int(),
  allocatedContainers: z.int(),
  reservedContainers: z.int(),
  pendingContainers: z.int(),
  resourcesUsed: resourceSchema,
  capacities: z.object({ queueCapacitiesByPartition: z.array(partitionSchema) }),
  resources: z.object({ resourceUsagesByPartition: z.array(usageSchema) }),
  nodeLabels: z.array(z.string()),
  defaultNodeLabelExpression: z.string(),
  queuePriority: z.int(),
  orderingPolicyInfo: z.string(),
  maxParallelApps: z.int(),
  preemptionDisabled: z.boolean(),
  intraQueuePreemptionDisabled: z.boolean(),
  defaultPriority: z.int(),
  maxApplicationLifetime: z.int(),
  defaultApplicationLifetime: z.int(),
  queueAcls: z.object({
    queueAcl: z.array(z.object({ accessType: z.string(), accessControlList: z.string() })),
  }),
};
const leafFields = {
  type: z.literal("capacitySchedulerLeafQueueInfo"),
  numActiveApplications: z.int(),
  numPendingApplications: z.int(),
  numContainers: z.int(),
  maxApplications: z.int(),
  maxApplicationsPerUser: z.int(),
  userLimit: z.number(),
  userLimitFactor: z.number(),
  configuredMaxAMResourceLimit: z.number(),
  AMResourceLimit: resourceSchema,
  usedAMResource: resourceSchema,
  users: z.object({ user: z.array(userSchema) }),
};

type Queue = Record<string, unknown>;
/** Queues hold queues; the document says so once, under this name. */
const queueSchema = z
  .object({ ...queueFields, ...z.object(leafFields).partial().shape })
  .extend({ queues: z.object({ queue: z.array(z.record(z.string(), z.unknown())) }).optional() })
  .meta({ id: "CapacitySchedulerQueue" });

export const schedulerSchema = z.object({
  schedulerInfo: queueSchema.extend({
    type: z.literal("capacityScheduler"),
    minimumAllocation: resourceSchema,
    maximumAllocation: resourceSchema,
  }),
});

export function schedulerView(view: SchedulerView) {
  return {
    ...queueView(view.root, view.root),
    type: "capacityScheduler" as const,
    minimumAllocation: resourceView(view.minimumAllocation),
    maximumAllocation: resourceView(view.maximumAllocation),
  };
}

function queueView(queue: QueueView, parent: QueueView) {
  const { settings, partitions } = queue;
  const [inDefault] = partitions;
  const [ofParent] = parent.partitions;
  const share = (own: number, whole: number) => (whole > 0 ? percent(own / whole) : 0);
  return {
    queueName: queue.name,
    queuePath: queue.path,
    queueType: queue.kind,
    state: queue.state,
    mode: queue.capacityMode,
    creationMethod: queue.isDynamic ? ("dynamicFlexible" as const) : ("static" as const),
    capacity:
      queue === parent
        ? 100
        : share(inDefault?.absoluteCapacity ?? 0, ofParent?.absoluteCapacity ?? 0),
    maxCapacity:
      queue === parent
        ? 100
        : share(inDefault?.absoluteMaximumCapacity ?? 0, ofParent?.absoluteMaximumCapacity ?? 0),
    usedCapacity: percent(inDefault?.usedCapacity ?? 0),
    weight: queue.capacityMode === "weight" ? queue.configuredCapacity : -1,
    absoluteCapacity: percent(inDefault?.absoluteCapacity ?? 0),
    absoluteMaxCapacity: percent(inDefault?.absoluteMaximumCapacity ?? 0),
    absoluteUsedCapacity: percent(inDefault?.absoluteUsedCapacity ?? 0),
    numApplications: queue.applications,
    allocatedContainers: queue.containers,
    reservedContainers: queue.reservedContainers,
    pendingContainers: queue.pendingContainers,
    resourcesUsed: resourceView(inDefault?.used ?? { memoryMb: 0, vcores: 0 }),
    capacities: { queueCapacitiesByPartition: partitions.map(capacityView) },
    resources: { resourceUsagesByPartition: partitions.map(usageView) },
    nodeLabels: [...settings.accessibleNodeLabels],
    defaultNodeLabelExpression: settings.defaultNodeLabel,
    queuePriority: settings.priority,
    orderingPolicyInfo: settings.orderingPolicy,
    maxParallelApps: settings.maxParallelApplications,
    preemptionDisabled: settings.preemptionDisabled,
    intraQueuePreemptionDisabled: settings.intraQueuePreemptionDisabled,
    defaultPriority: settings.defaultApplicationPriority,
    maxApplicationLifetime: settings.maximumLifetimeSeconds,
    defaultApplicationLifetime: settings.defaultLifetimeSeconds,
    queueAcls: {
      queueAcl: [
        { accessType: "SUBMIT_APP", accessControlList: settings.submitAcl },
        { accessType: "ADMINISTER_QUEUE", accessControlList: settings.administerAcl },
      ],
    },
    ...(queue.kind === "leaf" ? leafView(queue) : { queues: { queue: childrenOf(queue) } }),
  };
}

function childrenOf(queue: QueueView): Queue[] {
  return queue.children.map((child) => queueView(child, queue));
}

function leafView({ settings, ...queue }: QueueView) {
  return {
    type: "capacitySchedulerLeafQueueInfo" as const,
    numActiveApplications: queue.activeApplications,
    numPendingApplications: queue.pendingApplications,
    numContainers: queue.containers,
    maxApplications: queue.maximumApplications,
    maxApplicationsPerUser: queue.maximumApplicationsPerUser,
    userLimit: settings.minimumUserLimitPercent,
    userLimitFactor: settings.userLimitFactor,
    configuredMaxAMResourceLimit: settings.maximumAmResourceFraction,
    AMResourceLimit: resourceView(queue.masterLimit ?? { memoryMb: 0, vcores: 0 }),
    usedAMResource: resourceView(queue.masterUsed ?? { memoryMb: 0, vcores: 0 }),
    users: { user: (queue.users ?? []).map(userView) },
  };
}

function capacityView(usage: QueueUsage): z.input<typeof partitionSchema> {
  return {
    partitionName: usage.partition,
    absoluteCapacity: percent(usage.absoluteCapacity),
    absoluteMaxCapacity: percent(usage.absoluteMaximumCapacity),
    absoluteUsedCapacity: percent(usage.absoluteUsedCapacity),
    usedCapacity: percent(usage.usedCapacity),
    effectiveMinResource: resourceView(usage.guaranteed),
    effectiveMaxResource: resourceView(usage.maximum),
  };
}

function usageView(usage: QueueUsage): z.input<typeof usageSchema> {
  return {
    partitionName: usage.partition,
    used: resourceView(usage.used),
    reserved: resourceView(usage.reserved),
    pending: resourceView(usage.pending),
  };
}

function userView(user: QueueUserUsage): z.input<typeof userSchema> {
  return {
    username: user.user,
    resourcesUsed: resourceView(user.used),
    userResourceLimit: resourceView(user.limit),
    userWeight: user.weight,
    isActive: user.isActive,
    numActiveApplications: user.activeApplications,
    numPendingApplications: user.pendingApplications,
  };
}

function resourceView({ memoryMb, vcores, extra }: Resource) {
  return { memory: memoryMb, vCores: vcores, ...(extra ? { extra: { ...extra } } : {}) };
}

/** Two decimals, as people read them. */
function percent(share: number): number {
  return Math.round(share * 10_000) / 100;
}
