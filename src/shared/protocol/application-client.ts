/**
 * ApplicationClientProtocol and ResourceManagerAdministrationProtocol: what people, tools and the
 * edge's own masters ask of the ResourceManager.
 */
import type { Reply } from "../errors.ts";
import type { ApplicationAttemptId, ApplicationId, ContainerId, NodeId } from "../ids.ts";
import type { NodeState } from "../node.ts";
import type { Resource } from "../resource.ts";
import type {
  ExecutionType,
  FinalStatus,
  PendingRequest,
  ResourceRequest,
} from "./application-master.ts";
import type { MasterName } from "./container-management.ts";
import type { VerificationKey } from "./resource-tracker.ts";

export type YarnApplicationState = "ACCEPTED" | "RUNNING" | "FINISHED" | "FAILED" | "KILLED";

/** YARN's ApplicationAccessType: reading an application and its logs, and changing or ending it. */
export type ApplicationAccessType = "VIEW_APP" | "MODIFY_APP";

/** The texts of Hadoop's ACLs (`users groups`, `*`); absent: nobody but those above the ACLs. */
export type ApplicationAcls = Readonly<Partial<Record<ApplicationAccessType, string>>>;

export type ApplicationSubmissionContext = {
  readonly name: string;
  readonly user: string;
  /** Short or full queue path, or `default`; placement rules may choose another. */
  readonly queue: string;
  readonly submitter: Submitter;
  /** The lifetime that the application keeps to by itself, in seconds; -1 is unlimited. */
  readonly lifetimeSeconds: number;
  readonly applicationType: "yarn-service";
  /** The edge master that runs the application (an unmanaged AM in YARN's words). */
  readonly master: MasterName;
  /** Chosen by the submitter; submitting again with the same one returns the same application. */
  readonly submissionId: string;
  /** Whom its user lets in. */
  readonly acls: ApplicationAcls;
  /** Every size the application will ask for; refused at once when no node can ever hold one. */
  readonly largestRequests: readonly { readonly component: string; readonly resource: Resource }[];
};

/** Whose right to submit is looked at: the caller of the Service API. */
export type Submitter = {
  readonly user: string;
  readonly groups: readonly string[];
  readonly isAdmin: boolean;
};

export type SubmittedApplication = {
  readonly applicationId: ApplicationId;
  readonly attemptId: ApplicationAttemptId;
};

/** What a live application waits for. */
export type ApplicationActivity = {
  readonly applicationId: ApplicationId;
  readonly name: string;
  readonly user: string;
  readonly queue: string;
  readonly priority: number;
  /** With a counted reason each; empty when nothing waits. */
  readonly waiting: readonly PendingRequest[];
};

/** The answer of a dry run. */
export type ApplicationPlan = {
  /** Full path of the leaf. */
  readonly queue: string;
  /** One for each container that would be placed at once. */
  readonly placements: readonly {
    readonly allocationRequestId: number;
    readonly nodeId: NodeId;
    readonly locality: "NODE_LOCAL" | "RACK_LOCAL" | "OFF_SWITCH";
  }[];
  /** What would wait, and for what. */
  readonly waiting: readonly PendingRequest[];
  /** What the first round of preemption would want back from others. */
  readonly preempted: readonly {
    readonly containerId: ContainerId;
    readonly applicationId: ApplicationId;
  }[];
};

export type ApplicationReport = {
  readonly applicationId: ApplicationId;
  readonly attemptId: ApplicationAttemptId;
  readonly name: string;
  readonly user: string;
  readonly queue: string;
  readonly priority: number;
  readonly applicationType: string;
  readonly state: YarnApplicationState;
  readonly finalStatus: FinalStatus | "UNDEFINED";
  readonly diagnostics: string;
  readonly startedMs: number;
  readonly finishedMs: number | null;
  readonly allocated: Resource;
  readonly runningContainers: number;
};

/** YARN's ContainerReport. */
export type ContainerInfo = {
  readonly containerId: ContainerId;
  readonly attemptId: ApplicationAttemptId;
  readonly nodeId: NodeId;
  readonly resource: Resource;
  readonly priority: number;
  readonly executionType: ExecutionType;
  /** NEW until its node has said that it runs. */
  readonly state: "NEW" | "RUNNING" | "COMPLETE";
  readonly allocatedMs: number;
  /** Null until it is COMPLETE. */
  readonly exitStatus: number | null;
  /** Why it ended, or is to end. */
  readonly diagnostics: string;
};

export type ContainerOwner = {
  readonly user: string;
  /** Null when the container is forgotten. */
  readonly nodeId: NodeId | null;
  readonly acls: ApplicationAcls;
};

export type NodeInfo = {
  readonly nodeId: NodeId;
  readonly host: string;
  readonly rack: string;
  readonly state: NodeState;
  /** As set by an administrator, or else as the node says. */
  readonly labels: readonly string[];
  readonly attributes: Readonly<Record<string, string>>;
  readonly agentVersion: string;
  readonly healthReport: string;
  readonly lastChangeMs: number;
  /** Of a node that is being decommissioned; null: no limit, or it is not. */
  readonly decommissionDeadlineMs: number | null;
  readonly total: Resource;
  readonly used: Resource;
  /** Kept free for requests that wait for more room than there is. */
  readonly reserved: Resource;
  readonly containers: number;
};

export type ClusterInfo = {
  readonly cluster: string;
  /** Cluster timestamp of ids: epoch ms of the cluster's first start. */
  readonly startedMs: number;
  readonly claimed: boolean;
  readonly nodes: Readonly<Record<NodeState, number>>;
  readonly applicationsRunning: number;
  readonly containersAllocated: number;
  readonly total: Resource;
  readonly used: Resource;
};

/** One line of the cluster's directory of services. */
export type ServiceEntry = {
  readonly user: string;
  readonly name: string;
  readonly version: string;
  readonly state: string;
  readonly applicationId: ApplicationId | null;
  readonly components: readonly string[];
  readonly changedMs: number;
};

/** What a signed token of the cluster may be. */
export type Principal = {
  readonly user: string;
  readonly role: "admin" | "user";
  /** For the ACLs of queues and for placement rules; the first is the primary group. */
  readonly groups?: readonly string[];
};

export interface ApplicationClientProtocol {
  submitApplication(context: ApplicationSubmissionContext): Promise<Reply<SubmittedApplication>>;
  /** What would come of it if it were submitted and asked for this now. Changes nothing. */
  planApplication(
    context: ApplicationSubmissionContext,
    asks: readonly ResourceRequest[],
  ): Promise<Reply<ApplicationPlan>>;
  /** Ends it now; its containers are cleaned up. Killing a finished application changes nothing. */
  forceKillApplication(
    applicationId: ApplicationId,
    diagnostics: string,
  ): Promise<Reply<undefined>>;
  /** Clipped to the cluster's maximum; answers the priority that counts. */
  setApplicationPriority(
    applicationId: ApplicationId,
    priority: number,
  ): Promise<Reply<{ readonly priority: number }>>;
  /** `by` needs the right to submit to the new queue. */
  moveApplication(
    applicationId: ApplicationId,
    queue: string,
    by: Submitter,
  ): Promise<Reply<{ readonly queue: string }>>;
  /**
   * Of one application, or of all that run, as far as `viewer` may see them; the reasons are made up
   * when somebody asks.
   */
  getActivities(
    viewer: Submitter,
    applicationId?: ApplicationId,
  ): Promise<readonly ApplicationActivity[]>;
  /** All, or those that `viewer` may see. */
  getApplications(viewer?: Submitter): Promise<readonly ApplicationReport[]>;
  /**
   * For who has the right to it. NOT_FOUND also when `who` may not see it; PERMISSION_DENIED when
   * `who` may see it and no more.
   */
  getApplicationReport(
    applicationId: ApplicationId,
    who: Submitter,
    right: ApplicationAccessType,
  ): Promise<Reply<ApplicationReport>>;
  /**
   * Whose it is, when that is `who` or lets `who` in, else null: YARN's ApplicationACLsManager, which
   * knows nothing of queues and their administrators.
   */
  checkApplicationAccess(
    applicationId: ApplicationId,
    who: Submitter,
    right: ApplicationAccessType,
  ): Promise<{ readonly user: string } | null>;
  /** Those of an attempt that are not forgotten. */
  getContainers(attemptId: ApplicationAttemptId): Promise<readonly ContainerInfo[]>;
  getContainer(containerId: ContainerId): Promise<Reply<ContainerInfo>>;
  /** Which application and user a container belongs (or, until forgotten, belonged) to. */
  getContainerOwner(containerId: ContainerId): Promise<Reply<ContainerOwner>>;
  /** Null for a container that has ended, or never was. */
  findLiveContainer(containerId: ContainerId): Promise<{ readonly user: string } | null>;
  getClusterNodes(): Promise<readonly NodeInfo[]>;
  getClusterInfo(): Promise<ClusterInfo>;
  /** All, or those that are `viewer`'s own or let `viewer` in. */
  listServices(viewer?: Submitter): Promise<readonly ServiceEntry[]>;
  /** One of those that `listServices` shows to `viewer`, or null. */
  findService(user: string, name: string, viewer: Submitter): Promise<ServiceEntry | null>;
}

/** Service masters tell the directory their state; the highest generation of a name wins. */
export interface ServiceDirectory {
  reportService(
    master: MasterName,
    generation: number,
    entry: ServiceEntry | null,
  ): Promise<Reply<undefined>>;
}

/** Of a person's or tool's token when it is not said: a month between two logins. */
export const TOKEN_LIFETIME_SECONDS = 30 * 86_400;
/** Of any token: long enough for a machine that nobody looks after, short enough to end. */
export const TOKEN_LIFETIME_SECONDS_MAX = 366 * 86_400;
/** Of a join token when it is not said: it is meant to be used at once. */
export const JOIN_TOKEN_LIFETIME_SECONDS = 3_600;
/** One token for the roll-out of a whole data centre. */
export const JOIN_TOKEN_USES_MAX = 100_000;

/** The `iss` of every token of a cluster: one cluster's tokens mean nothing to another. */
export function tokenIssuer(cluster: string): string {
  return `selvedge:${cluster}`;
}

/** Tokens, claim and join (design §7). */
export interface ClusterSecurity {
  /** Public keys that verify every token of the cluster. */
  getVerificationKeys(): Promise<readonly VerificationKey[]>;
  isClaimed(): Promise<boolean>;
  /** First claim wins; answers the admin's token once. */
  claim(code: string, user: string): Promise<Reply<{ readonly token: string }>>;
  createToken(
    principal: Principal,
    lifetimeSeconds: number,
  ): Promise<Reply<{ readonly token: string; readonly expiresMs: number }>>;
  createJoinToken(
    uses: number,
    lifetimeSeconds: number,
  ): Promise<Reply<{ readonly token: string; readonly expiresMs: number }>>;
  /** Exchanges one use of a join token (already verified; `jti` names it) for a node credential. */
  joinNode(
    jti: string,
    nodeId: NodeId,
  ): Promise<Reply<{ readonly credential: string; readonly expiresMs: number }>>;
}
