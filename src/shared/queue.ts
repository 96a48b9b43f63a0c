/** Queues as people and tools see them (facts/yarn-rm-nm-scheduler.md §1.6, §3). */
import type { Resource } from "./resource.ts";

/** QueueState. DRAINING: set to STOPPED, and the last applications in it still run. */
export type QueueState = "RUNNING" | "DRAINING" | "STOPPED";

/** What one queue has and may have in one partition; "" is the default partition. */
export type QueueUsage = {
  readonly partition: string;
  /** Shares of the whole partition, 0 to 1. */
  readonly absoluteCapacity: number;
  readonly absoluteMaximumCapacity: number;
  readonly absoluteUsedCapacity: number;
  /** Used / guaranteed by the dominant resource; above 1 for an elastic queue. */
  readonly usedCapacity: number;
  /** effectiveMin and effectiveMax of YARN. */
  readonly guaranteed: Resource;
  readonly maximum: Resource;
  readonly used: Resource;
  readonly reserved: Resource;
  readonly pending: Resource;
};

export type QueueUserUsage = {
  readonly user: string;
  readonly used: Resource;
  readonly limit: Resource;
  readonly weight: number;
  readonly activeApplications: number;
  readonly pendingApplications: number;
  /** Has an unsatisfied request. */
  readonly isActive: boolean;
};

export type QueueInfo = {
  readonly path: string;
  readonly name: string;
  readonly kind: "parent" | "leaf";
  readonly state: QueueState;
  /** Made from a template for a mapped user or application. */
  readonly isDynamic: boolean;
  readonly capacityMode: "percentage" | "weight" | "absolute";
  /** As configured: percent of the parent, weight, or 0 in absolute mode. */
  readonly configuredCapacity: number;
  readonly partitions: readonly QueueUsage[];
  readonly applications: number;
  readonly activeApplications: number;
  /** Waiting for the queue's share of ApplicationMasters or for max-parallel-apps. */
  readonly pendingApplications: number;
  readonly containers: number;
  readonly reservedContainers: number;
  readonly pendingContainers: number;
  readonly maximumApplications: number;
  readonly maximumApplicationsPerUser: number;
  /** Leaves only. */
  readonly masterLimit?: Resource;
  readonly masterUsed?: Resource;
  readonly users?: readonly QueueUserUsage[];
  readonly children: readonly QueueInfo[];
};

/** What is configured for a queue, with everything inherited filled in. */
export type QueueSettings = {
  readonly priority: number;
  /** `fifo`, `fair`; of parents `utilization`, `priority-utilization`. */
  readonly orderingPolicy: string;
  /** Percent. */
  readonly minimumUserLimitPercent: number;
  readonly userLimitFactor: number;
  /** Fraction, 0 to 1. */
  readonly maximumAmResourceFraction: number;
  readonly maxParallelApplications: number;
  /** In YARN's text: `users groups`. */
  readonly submitAcl: string;
  readonly administerAcl: string;
  readonly defaultApplicationPriority: number;
  /** Seconds; -1 is none. */
  readonly maximumLifetimeSeconds: number;
  readonly defaultLifetimeSeconds: number;
  readonly preemptionDisabled: boolean;
  readonly intraQueuePreemptionDisabled: boolean;
  readonly accessibleNodeLabels: readonly string[];
  readonly defaultNodeLabel: string;
};

export type QueueView = Omit<QueueInfo, "children"> & {
  readonly settings: QueueSettings;
  readonly children: readonly QueueView[];
};

/** Why one request of an application waits, counted over the nodes (app-activities of YARN). */
export type RequestActivity = {
  readonly priority: number;
  readonly allocationRequestId: number;
  readonly count: number;
  readonly partition: string;
  /** Active nodes of the partition, and how many of them would do now. */
  readonly nodes: number;
  readonly nodesWithRoom: number;
  /** Each other node once, under the first thing that it lacks; the commonest first. */
  readonly refusals: readonly { readonly reason: string; readonly nodes: number }[];
  /** What stands in the way whatever the nodes have: limits of queue or user, states, waiting. */
  readonly blockedBy: readonly string[];
};

export type ApplicationActivity = {
  /** Its queue; null for an application that is not known. */
  readonly queue: string | null;
  readonly isActive: boolean;
  readonly requests: readonly RequestActivity[];
};
