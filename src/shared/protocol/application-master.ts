/**
 * ApplicationMasterProtocol (seed 004; facts/yarn-rm-nm-scheduler.md §6): how an ApplicationMaster,
 * the ServiceMaster or a foreign one, asks the ResourceManager for containers.
 */
import type { Container } from "../container.ts";
import type { Reply } from "../errors.ts";
import type { ApplicationAttemptId, ContainerId } from "../ids.ts";
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

/**
 * Absolute, not a delta: the outstanding number for (priority, allocationRequestId) beyond what the
 * ApplicationMaster has received up to `responseId`. Containers on their way to it count against it,
 * so that sending the same number again asks for nothing more. 0 cancels.
 */
export type ResourceRequest = {
  readonly priority: number;
  readonly allocationRequestId: number;
  /** `*`; racks and hosts belong to the locality work of the scheduler. */
  readonly resourceName: string;
  readonly capability: Resource;
  readonly count: number;
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
