/**
 * The ResourceManager's rows: what it must not forget, as stored. Everything else of a cluster
 * follows from them.
 */
import type { ApplicationAttemptId, ApplicationId, ContainerId, NodeId } from "../../shared/ids.ts";
import type { NodeFacts, NodeState } from "../../shared/node.ts";
import type { NodeLists, SchedulerConfVersion } from "../../shared/protocol/administration.ts";
import type {
  ApplicationAcls,
  ServiceEntry,
  YarnApplicationState,
} from "../../shared/protocol/application-client.ts";
import type {
  ExecutionType,
  FinalStatus,
  ResourceRequest,
} from "../../shared/protocol/application-master.ts";
import type { MasterName } from "../../shared/protocol/container-management.ts";
import type { YarnEnd } from "../../shared/protocol/registry-operations.ts";
import type { NodeReport } from "../../shared/protocol/resource-tracker.ts";
import type { Resource } from "../../shared/resource.ts";

export type ClusterRow = {
  readonly key: "cluster";
  /** The cluster timestamp inside every id: epoch ms of the first start. */
  readonly timestamp: number;
  readonly nextApplication: number;
};

export type NodeRow = {
  readonly facts: NodeFacts;
  readonly shard: string;
  readonly state: NodeState;
  /** As its tracker said last. */
  readonly presence: NodeReport["presence"];
  /** Its stay in the cluster, as its tracker numbers them. */
  readonly incarnation: number;
  readonly reason: string;
  readonly lastChangeMs: number;
};

/** What an administrator has set for a node; null: what the node says of itself. */
export type NodeSettingsRow = {
  readonly nodeId: NodeId;
  readonly labels: readonly string[] | null;
  readonly attributes: Readonly<Record<string, string>> | null;
  readonly resource: Resource | null;
  /** It has to leave: when it runs nothing any more, or at `deadlineMs` (null: no limit). */
  readonly decommission: { readonly deadlineMs: number | null } | null;
};

/** One version of the scheduler's configuration, in Hadoop's properties. */
export type SchedulerConfRow = SchedulerConfVersion & {
  readonly properties: Readonly<Record<string, string>>;
};

export type NodeListsRow = NodeLists & { readonly key: "lists" };

export type ApplicationRow = {
  readonly applicationId: ApplicationId;
  readonly attemptId: ApplicationAttemptId;
  /** Position in the order of submission. */
  readonly number: number;
  readonly name: string;
  readonly user: string;
  readonly queue: string;
  /** Larger is served first. */
  readonly priority: number;
  readonly applicationType: string;
  readonly master: MasterName;
  readonly submissionId: string;
  readonly state: YarnApplicationState;
  readonly finalStatus: FinalStatus | "UNDEFINED";
  readonly diagnostics: string;
  readonly startedMs: number;
  readonly finishedMs: number | null;
  readonly nextContainer: number;
  /** Number of the last allocate reply that told something new. */
  readonly responseId: number;
  /** Of the last allocate request heard. */
  readonly sequence: number;
  /** Ended behind its master's back, which has not answered to that yet. */
  readonly masterUnaware: boolean;
  /** Epoch ms at which its queue's time for it is over. */
  readonly deadlineMs: number | null;
  readonly blacklist: readonly string[];
  /** Whom its user lets in; absent in rows of older code: nobody. */
  readonly acls?: ApplicationAcls;
};

export type AskRow = ResourceRequest & { readonly attemptId: ApplicationAttemptId };

/** What an ask says beyond number and size; a container keeps it, to be asked for again. */
export type AskOptions = Omit<
  ResourceRequest,
  "priority" | "allocationRequestId" | "capability" | "count"
>;

export type Exit = { readonly exitStatus: number; readonly diagnostics: string };

/** RMContainerState; RELEASED, KILLED and EXPIRED are `cleanup` with its exit status. */
export type RMContainerState = "ALLOCATED" | "ACQUIRED" | "RUNNING" | "COMPLETED";

export type ContainerRow = {
  readonly containerId: ContainerId;
  readonly attemptId: ApplicationAttemptId;
  readonly nodeId: NodeId;
  readonly nodeIncarnation: number;
  readonly resource: Resource;
  readonly priority: number;
  readonly allocationRequestId: number;
  readonly options: AskOptions;
  readonly executionType: ExecutionType;
  /** Rises with every update of its size or execution type. */
  readonly version: number;
  readonly state: RMContainerState;
  readonly allocatedMs: number;
  /** The allocate reply that carried it; null while the master has not been told. */
  readonly deliveredIn: number | null;
  /** Ordered to end; `sent` once the tracker has stored the order. */
  readonly cleanup: (Exit & { readonly sent: boolean }) | null;
  readonly exit: Exit | null;
  readonly exitDeliveredIn: number | null;
};

/** The last report heard from a tracker shard. */
export type TrackerRow = {
  readonly shard: string;
  readonly generation: number;
  /** Finished applications that the shard was not told of; absent: none. */
  readonly finished?: readonly ApplicationId[];
};

export type DirectoryRow = {
  readonly master: MasterName;
  readonly generation: number;
  readonly entry: ServiceEntry | null;
};

/** What has ended and whose records the registry has not purged yet, many to a row. */
export type PurgePage = { readonly page: number; readonly ended: readonly YarnEnd[] };

/** A user who has submitted something, and whether the registry has made the user's home. */
export type UserRow = { readonly user: string; readonly hasHome: boolean };
