/**
 * The CapacityScheduler's configuration as the scheduler uses it: parsed, validated, with everything
 * inherited filled in. Property names, defaults and meanings are YARN's
 * (facts/yarn-rm-nm-scheduler.md §3.1); where it comes from is configuration-properties.ts.
 */
import type { Resource } from "../../shared/resource.ts";
import { type AccessControlList, EVERYBODY, NOBODY } from "../access-control-list.ts";

/** How much of its parent a queue is guaranteed, or may have at most. */
export type Capacity =
  /** Percent of the parent, 0 to 100. */
  | { readonly mode: "percentage"; readonly percent: number }
  /** Share of the parent among its siblings' weights; above 0. Not for maxima. */
  | { readonly mode: "weight"; readonly weight: number }
  /** `[memory=10240,vcores=12]` */
  | { readonly mode: "absolute"; readonly resource: Resource };

export type PartitionCapacity = {
  readonly capacity: Capacity;
  readonly maximumCapacity: Capacity;
  /** Fraction, 0 to 1. */
  readonly maximumAmResourceFraction: number;
};

export type QueueConfiguration = {
  /** `root.a.b` */
  readonly path: string;
  /** Last element of the path. */
  readonly name: string;
  /** Children in the order of `<q>.queues`. A leaf has none and no template. */
  readonly children: readonly QueueConfiguration[];
  /** In the default partition "". */
  readonly capacity: Capacity;
  readonly maximumCapacity: Capacity;
  /** For each other partition the queue has access to; none: no capacity there. */
  readonly partitions: Readonly<Record<string, PartitionCapacity>>;
  /** "*" is every label. */
  readonly accessibleNodeLabels: "*" | readonly string[];
  /** The partition of requests that name none; "" is the default partition. */
  readonly defaultNodeLabel: string;
  readonly state: "RUNNING" | "STOPPED";
  /** Fraction, 0 to 1 (`minimum-user-limit-percent` / 100). */
  readonly minimumUserLimit: number;
  /** -1: no limit per user but the queue's. */
  readonly userLimitFactor: number;
  /** Users without an entry have weight 1. */
  readonly userWeights: Readonly<Record<string, number>>;
  readonly ordering:
    | { readonly policy: "fifo" }
    | { readonly policy: "fair"; readonly sizeBasedWeight: boolean }
    /** Parents. */
    | { readonly policy: "utilization" | "priority-utilization" };
  /** Larger is served first, among siblings under priority-utilization. */
  readonly priority: number;
  /** Undefined: derived from the cluster's number and the queue's absolute share. */
  readonly maximumApplications: number | undefined;
  readonly maximumAmResourceFraction: number;
  readonly maxParallelApplications: number;
  /** Undefined: the cluster's. Extra types that it does not name are not limited by it. */
  readonly maximumAllocation: Resource | undefined;
  readonly submitAcl: AccessControlList;
  readonly administerAcl: AccessControlList;
  readonly defaultApplicationPriority: number;
  /** Seconds; -1 is none. */
  readonly maximumLifetimeSeconds: number;
  readonly defaultLifetimeSeconds: number;
  readonly preemptionDisabled: boolean;
  readonly intraQueuePreemptionDisabled: boolean;
  /** A parent in which leaves are made for those who are mapped to it (auto-queue-creation-v2). */
  readonly template: QueueTemplate | undefined;
};

export type QueueTemplate = {
  readonly maxQueues: number;
  /** Everything of a new leaf but its path, name and children. */
  readonly leaf: Omit<QueueConfiguration, "path" | "name" | "children" | "template">;
  /** Seconds that a dynamic leaf stays empty before it is removed. */
  readonly expirySeconds: number;
};

/** One rule of `mapping-rule-json` or of the legacy `u:user:queue` lists; first match wins. */
export type MappingRule = {
  readonly type: "user" | "group" | "application";
  /** A name, or `*`. */
  readonly matches: string;
  /**
   * May hold %user, %primary_group, %secondary_group, %application, %specified and %default; the
   * parent part may name a templated parent. Undefined: whoever matches is refused.
   */
  readonly queue: string | undefined;
  /** Make the leaf when its parent has a template. */
  readonly create: boolean;
  readonly fallback: "skip" | "reject" | "placeDefault";
};

/** `yarn.resourcemanager.monitor.capacity.preemption.*` (facts §3.15). Fractions 0 to 1, times in ms. */
export type PreemptionConfiguration = {
  /** `yarn.resourcemanager.scheduler.monitor.enable` */
  readonly enabled: boolean;
  readonly observeOnly: boolean;
  readonly monitoringIntervalMs: number;
  readonly maxWaitBeforeKillMs: number;
  readonly totalPreemptionPerRound: number;
  readonly maxIgnoredOverCapacity: number;
  readonly naturalTerminationFactor: number;
  readonly intraQueueEnabled: boolean;
  readonly intraQueueMinimumThreshold: number;
  readonly intraQueueMaxAllowableLimit: number;
  readonly intraQueueOrder: "userlimit_first" | "priority_first";
};

export type SchedulerConfiguration = {
  readonly root: QueueConfiguration;
  readonly minimumAllocation: { readonly memoryMb: number; readonly vcores: number };
  /** Undefined: the largest node's. Extra types that it does not name are not limited by it. */
  readonly maximumAllocation: Resource | undefined;
  /** Pending and running, in the whole cluster. */
  readonly maximumApplications: number;
  /** `global-queue-max-application` */
  readonly queueMaximumApplications: number | undefined;
  readonly userMaxParallelApplications: number;
  readonly maxParallelApplicationsOf: Readonly<Record<string, number>>;
  readonly maximumApplicationPriority: number;
  readonly nodeLocalityDelay: number;
  /** -1: off; see facts §3.7. */
  readonly rackLocalityAdditionalDelay: number;
  readonly rackLocalityFullReset: boolean;
  readonly reservationsContinueLook: boolean;
  readonly mappingRules: readonly MappingRule[];
  /** Rules also apply when the submitter named a queue. */
  readonly mappingOverride: boolean;
  readonly nodeLabels: readonly { readonly name: string; readonly exclusive: boolean }[];
  readonly preemption: PreemptionConfiguration;
};

/** The settings of a queue; those of the template for a leaf that is made from it. */
export function queueSettings(
  { root }: SchedulerConfiguration,
  path: string,
): QueueTemplate["leaf"] | undefined {
  let queue = root;
  for (const name of path.split(".").slice(1)) {
    const child = queue.children.find((each) => each.name === name);
    if (!child) return queue.template?.leaf;
    queue = child;
  }
  return queue;
}

export const DEFAULT_PREEMPTION: PreemptionConfiguration = {
  enabled: false,
  observeOnly: false,
  monitoringIntervalMs: 3_000,
  maxWaitBeforeKillMs: 15_000,
  totalPreemptionPerRound: 0.1,
  maxIgnoredOverCapacity: 0.1,
  naturalTerminationFactor: 0.2,
  intraQueueEnabled: false,
  intraQueueMinimumThreshold: 0.5,
  intraQueueMaxAllowableLimit: 0.2,
  intraQueueOrder: "userlimit_first",
};

const HUNDRED: Capacity = { mode: "percentage", percent: 100 };

/** A queue with YARN's defaults. */
export function defaultQueue(
  path: string,
  children: readonly QueueConfiguration[] = [],
): QueueConfiguration {
  return {
    path,
    name: path.slice(path.lastIndexOf(".") + 1),
    children,
    capacity: HUNDRED,
    maximumCapacity: HUNDRED,
    partitions: {},
    // Inherited from root, which has all.
    accessibleNodeLabels: "*",
    defaultNodeLabel: "",
    state: "RUNNING",
    minimumUserLimit: 1,
    userLimitFactor: 1,
    userWeights: {},
    ordering: { policy: children.length > 0 ? "utilization" : "fifo" },
    priority: 0,
    maximumApplications: undefined,
    maximumAmResourceFraction: 0.1,
    maxParallelApplications: 2_147_483_647,
    maximumAllocation: undefined,
    submitAcl: path === "root" ? EVERYBODY : NOBODY,
    administerAcl: NOBODY,
    defaultApplicationPriority: 0,
    maximumLifetimeSeconds: -1,
    defaultLifetimeSeconds: -1,
    preemptionDisabled: false,
    intraQueuePreemptionDisabled: false,
    template: undefined,
  };
}

/** One leaf, root.default, with all of the cluster: what a cluster has until somebody configures it. */
export const DEFAULT_CONFIGURATION: SchedulerConfiguration = {
  root: defaultQueue("root", [defaultQueue("root.default")]),
  // 1 and 1, where YARN has 1024 MB: most services need far less, and on the small machines of an
  // edge cluster rounding up would waste most of the memory.
  minimumAllocation: { memoryMb: 1, vcores: 1 },
  maximumAllocation: undefined,
  maximumApplications: 10_000,
  queueMaximumApplications: undefined,
  userMaxParallelApplications: 2_147_483_647,
  maxParallelApplicationsOf: {},
  maximumApplicationPriority: 0,
  nodeLocalityDelay: 40,
  rackLocalityAdditionalDelay: -1,
  rackLocalityFullReset: true,
  reservationsContinueLook: true,
  mappingRules: [],
  mappingOverride: false,
  nodeLabels: [],
  preemption: DEFAULT_PREEMPTION,
};
