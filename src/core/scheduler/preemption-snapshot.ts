/**
 * What a round of preemption looks at: one tree of queues for each partition, as plain values. Who
 * makes it makes it only for a round, and the containers of an application only when asked.
 */
import type { ApplicationAttemptId, ContainerId } from "../../shared/ids.ts";
import type { Resource } from "../../shared/resource.ts";

export type PreemptionSnapshot = { readonly partitions: readonly PreemptionPartition[] };

export type PreemptionPartition = {
  /** Of the registered nodes. Its types are the types that count. */
  readonly total: Resource;
  /** Of normalisation: an application is left at least so much of it (userlimit_first). */
  readonly minimumAllocation: Resource;
  /** Parents' figures are sums over their leaves where nothing else is said. */
  readonly root: PreemptionQueue;
};

export type PreemptionQueue = {
  readonly path: string;
  /** effectiveMin and effectiveMax in this partition. */
  readonly guaranteed: Resource;
  readonly maximum: Resource;
  /** Of guaranteed containers, with what is reserved. */
  readonly used: Resource;
  /** Larger is more important; 0 unless the parent's ordering is priority-utilization. */
  readonly priority: number;
  readonly children: readonly PreemptionQueue[];
  /** Leaves have one. */
  readonly leaf?: PreemptionLeaf;
};

export type PreemptionLeaf = {
  /**
   * What its applications ask for and their user limits allow, less what is reserved for them: what
   * is reserved is already on its way.
   */
  readonly pending: Resource;
  /** `disable_preemption`, with what is inherited. */
  readonly preemptionDisabled: boolean;
  readonly intraQueuePreemptionDisabled: boolean;
  /** The queue's limit for ApplicationMasters: those within it are never preempted. */
  readonly masterLimit: Resource;
  /** In the order of service, the first is served first. */
  readonly applications: readonly PreemptionApplication[];
  /** Of every user with an application here (the limit for all users, facts §3.4). */
  readonly users: ReadonlyMap<string, PreemptionUser>;
};

export type PreemptionUser = { readonly used: Resource; readonly limit: Resource };

export type PreemptionApplication = {
  readonly attemptId: ApplicationAttemptId;
  readonly user: string;
  /** Larger is more important. */
  readonly priority: number;
  /** In this partition, with its master and what is reserved, without what is opportunistic. */
  readonly used: Resource;
  readonly pending: Resource;
  /** Of its master's container; nothing for masters at the edge. */
  readonly masterUsed: Resource;
  /** Nodes on which something is reserved for it. */
  readonly reservations: readonly PreemptionReservation[];
  /** In this partition, in any order. */
  containers(): readonly PreemptionContainer[];
};

/** `key` is the snapshot maker's own name for it, unique in the cluster. */
export type PreemptionReservation = { readonly key: string; readonly resource: Resource };

export type PreemptionContainer = {
  readonly containerId: ContainerId;
  readonly resource: Resource;
  /** Of its request: the larger number is taken first. */
  readonly priority: number;
  readonly isMaster: boolean;
  /** Not part of anybody's use; only `opportunisticVictims` looks at it. */
  readonly isOpportunistic: boolean;
  /** Placed on a node of this shared partition although its request named another. */
  readonly ignoresExclusivity: boolean;
};
