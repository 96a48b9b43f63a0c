/** What goes into the CapacityScheduler and what comes out. */
import type { ApplicationAttemptId, ContainerId, NodeId } from "../../shared/ids.ts";
import type { ExecutionType, ResourceRequest } from "../../shared/protocol/application-master.ts";
import type { Resource } from "../../shared/resource.ts";

export type SchedulerNode = {
  readonly nodeId: NodeId;
  /** The name by which requests ask for it. */
  readonly host: string;
  readonly rack: string;
  /** Its partition is the first; none: the default partition. */
  readonly labels: readonly string[];
  readonly attributes: Readonly<Record<string, string>>;
  readonly capability: Resource;
};

export type SchedulerApplication = {
  readonly attemptId: ApplicationAttemptId;
  /** Full path of a leaf, as `resolveQueue` gave it. */
  readonly queue: string;
  readonly user: string;
  /** Position in the order of submission: smaller is served first among equal priorities. */
  readonly order: number;
  /** Application priority: larger is served first. */
  readonly priority: number;
  /** What its ApplicationMaster takes of the queue's AM share; nothing for masters at the edge. */
  readonly masterResource: Resource;
};

/** One scheduler key of an application: (priority, allocationRequestId), with absolute counts. */
export type Ask = ResourceRequest;

/** A container and where it is. */
export type BookedContainer = {
  readonly containerId: ContainerId;
  readonly attemptId: ApplicationAttemptId;
  readonly nodeId: NodeId;
  readonly resource: Resource;
  /** Of the ask it came from; decides who is preempted first. */
  readonly priority: number;
  /** The partition it was asked in, when that is not the node's (shared partition). */
  readonly nodeLabel?: string;
  readonly allocationTags?: readonly string[];
  readonly executionType?: ExecutionType;
  /** Runs the ApplicationMaster: preempted last. */
  readonly isMaster?: boolean;
};

export type Assignment = BookedContainer & {
  readonly allocationRequestId: number;
  readonly locality: "NODE_LOCAL" | "RACK_LOCAL" | "OFF_SWITCH";
};

/** What one monitoring round of preemption wants. */
export type PreemptionRound = {
  /** PreemptionContract: containers that each application should give up by itself. */
  readonly asked: ReadonlyMap<ApplicationAttemptId, readonly ContainerId[]>;
  /** Asked for longer than max_wait_before_kill ago and still needed: end with -102. */
  readonly kill: readonly ContainerId[];
};
