/**
 * ApplicationMasterProtocol (seed 004; facts/yarn-rm-nm-scheduler.md §6): how an ApplicationMaster,
 * the ServiceMaster or a foreign one, asks the ResourceManager for containers.
 */
import type { Container } from "../container.ts";
import type { Reply } from "../errors.ts";
import type { ApplicationAttemptId, ContainerId } from "../ids.ts";
import type { PlacementConstraint } from "../placement.ts";
import type { Resource } from "../resource.ts";

export type RegisterApplicationMasterRequest = {
  readonly host: string;
  readonly rpcPort: number;
  readonly trackingUrl: string;
};
export type RegisterApplicationMasterResponse = {
  readonly queue: string;
  /** The largest container that a registered node could hold, type by type. */
  readonly maximumCapability: Resource;
};

export const EXECUTION_TYPES = ["GUARANTEED", "OPPORTUNISTIC"] as const;
export type ExecutionType = (typeof EXECUTION_TYPES)[number];

export type PlaceRequest = {
  /** A host, or a rack such as `/rack1`. */
  readonly name: string;
  /** Like the request's own count, but of this place. */
  readonly count: number;
  /** Of a rack: false pins to the hosts named in it. True when left out. */
  readonly relaxLocality?: boolean;
};

/**
 * Absolute, not a delta: the outstanding number for (priority, allocationRequestId) beyond what the
 * ApplicationMaster has received up to `responseId`. Containers on their way to it count against it,
 * so that sending the same number again asks for nothing more. 0 cancels. What YARN says in several
 * ResourceRequests (`*`, racks, hosts) or in a SchedulingRequest is one request here.
 */
export type ResourceRequest = {
  /** Smaller is more urgent. */
  readonly priority: number;
  readonly allocationRequestId: number;
  readonly capability: Resource;
  /** Containers anywhere (`*`): the true demand. */
  readonly count: number;
  /** Of `*`: false pins it to the racks and hosts named. True when left out. */
  readonly relaxLocality?: boolean;
  /** Preferred hosts and racks. A host without its rack is never placed, as in YARN. */
  readonly places?: readonly PlaceRequest[];
  /** Partition; left out: the queue's default. */
  readonly nodeLabel?: string;
  readonly constraint?: PlacementConstraint;
  /** Tags that its containers carry while they are allocated. */
  readonly allocationTags?: readonly string[];
  /** GUARANTEED when left out. */
  readonly executionType?: ExecutionType;
};

/** A change of a container that the ApplicationMaster has (facts §6.5). */
export type UpdateContainerRequest = {
  readonly containerId: ContainerId;
  /** The version that the ApplicationMaster knows; a container begins with 0. */
  readonly version: number;
  readonly type:
    | "INCREASE_RESOURCE"
    | "DECREASE_RESOURCE"
    | "PROMOTE_EXECUTION_TYPE"
    | "DEMOTE_EXECUTION_TYPE";
  /** Of a change of resources. */
  readonly capability?: Resource;
};

export type UpdateContainerError = {
  readonly containerId: ContainerId;
  readonly reason:
    | "INVALID_CONTAINER_ID"
    | "INCORRECT_CONTAINER_VERSION_ERROR"
    | "RESOURCE_OUTSIDE_ALLOWED_RANGE";
  readonly message: string;
};

export type AllocateRequest = {
  /** The last responseId received; 0 after registering. A reply that got lost is given again. */
  readonly responseId: number;
  /** Rises with every request that is made; one that was overtaken is void. From 1. */
  readonly sequence: number;
  /** 0–1 */
  readonly progress: number;
  readonly asks: readonly ResourceRequest[];
  readonly releases: readonly ContainerId[];
  /** Hosts and racks to avoid; absolute. Left out: as before. */
  readonly blacklist?: readonly string[];
  readonly updates?: readonly UpdateContainerRequest[];
};

export type CompletedContainer = {
  readonly containerId: ContainerId;
  readonly exitStatus: number;
  readonly diagnostics: string;
};

export type AllocateResponse = {
  readonly responseId: number;
  readonly allocated: readonly Container[];
  readonly completed: readonly CompletedContainer[];
  /** Headroom. */
  readonly availableResources: Resource;
  readonly clusterNodes: number;
  /** Why each outstanding request waits, in words; empty when nothing waits. */
  readonly pending: readonly PendingRequest[];
  /**
   * PreemptionContract: containers that others have a better right to. What is not released in time
   * ends with -102 (PREEMPTED).
   */
  readonly preemption: readonly ContainerId[];
  /** Changed as asked, with new tokens. */
  readonly updated: readonly Container[];
  readonly updateErrors: readonly UpdateContainerError[];
};

export type PendingRequest = {
  readonly priority: number;
  readonly allocationRequestId: number;
  readonly count: number;
  /** `0/12 nodes: 7 too little memory, 5 too few vcores` */
  readonly reason: string;
};

/** FinalApplicationStatus as an ApplicationMaster may set it. */
export type FinalStatus = "SUCCEEDED" | "FAILED" | "KILLED" | "ENDED";

export type FinishApplicationMasterRequest = {
  readonly finalStatus: FinalStatus;
  readonly diagnostics: string;
};

export interface ApplicationMasterProtocol {
  /** Registering again is not an error for an edge master: its object may have been restarted. */
  registerApplicationMaster(
    attemptId: ApplicationAttemptId,
    request: RegisterApplicationMasterRequest,
  ): Promise<Reply<RegisterApplicationMasterResponse>>;
  allocate(
    attemptId: ApplicationAttemptId,
    request: AllocateRequest,
  ): Promise<Reply<AllocateResponse>>;
  /** Ends the application; the containers it still has are cleaned up by the ResourceManager. */
  finishApplicationMaster(
    attemptId: ApplicationAttemptId,
    request: FinishApplicationMasterRequest,
  ): Promise<Reply<undefined>>;
}

/** ResourceManager → edge master: "allocate would tell you something new". A hint, said until heard. */
export interface ApplicationMasterCallback {
  onAllocateReady(attemptId: ApplicationAttemptId): Promise<void>;
}
