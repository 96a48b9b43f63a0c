/**
 * ApplicationClientProtocol and ResourceManagerAdministrationProtocol: what people, tools and the
 * edge's own masters ask of the ResourceManager.
 */
import type { Reply } from "../errors.ts";
import type { ApplicationAttemptId, ApplicationId, ContainerId, NodeId } from "../ids.ts";
import type { NodeState } from "../node.ts";
import type { Resource } from "../resource.ts";
import type { FinalStatus } from "./application-master.ts";
import type { MasterName } from "./container-management.ts";
import type { VerificationKey } from "./resource-tracker.ts";

export type YarnApplicationState = "ACCEPTED" | "RUNNING" | "FINISHED" | "FAILED" | "KILLED";

export type ApplicationSubmissionContext = {
  readonly name: string;
  readonly user: string;
  /** Short or full queue path. */
  readonly queue: string;
  readonly applicationType: "yarn-service";
  /** The edge master that runs the application (an unmanaged AM in YARN's words). */
  readonly master: MasterName;
  /** Chosen by the submitter; submitting again with the same one returns the same application. */
  readonly submissionId: string;
  /** Every size the application will ask for; refused at once when no node can ever hold one. */
  readonly largestRequests: readonly { readonly component: string; readonly resource: Resource }[];
};

export type SubmittedApplication = {
  readonly applicationId: ApplicationId;
  readonly attemptId: ApplicationAttemptId;
};

export type ApplicationReport = {
  readonly applicationId: ApplicationId;
  readonly attemptId: ApplicationAttemptId;
  readonly name: string;
  readonly user: string;
  readonly queue: string;
  readonly applicationType: string;
  readonly state: YarnApplicationState;
  readonly finalStatus: FinalStatus | "UNDEFINED";
  readonly diagnostics: string;
  readonly startedMs: number;
  readonly finishedMs: number | null;
  readonly allocated: Resource;
  readonly runningContainers: number;
};

export type NodeInfo = {
  readonly nodeId: NodeId;
  readonly host: string;
  readonly rack: string;
  readonly state: NodeState;
  readonly labels: readonly string[];
  readonly agentVersion: string;
  readonly healthReport: string;
  readonly lastChangeMs: number;
  readonly total: Resource;
  readonly used: Resource;
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
};

export interface ApplicationClientProtocol {
  submitApplication(context: ApplicationSubmissionContext): Promise<Reply<SubmittedApplication>>;
  /** Ends it now; its containers are cleaned up. Killing a finished application changes nothing. */
  forceKillApplication(
    applicationId: ApplicationId,
    diagnostics: string,
  ): Promise<Reply<undefined>>;
  getApplications(): Promise<readonly ApplicationReport[]>;
  getApplicationReport(applicationId: ApplicationId): Promise<Reply<ApplicationReport>>;
  /** Which application and user a container belongs (or, until forgotten, belonged) to. */
  getContainerOwner(
    containerId: ContainerId,
  ): Promise<Reply<{ readonly user: string; readonly nodeId: NodeId | null }>>;
  /** Null for a container that has ended, or never was. */
  findLiveContainer(containerId: ContainerId): Promise<{ readonly user: string } | null>;
  getClusterNodes(): Promise<readonly NodeInfo[]>;
  getClusterInfo(): Promise<ClusterInfo>;
  listServices(): Promise<readonly ServiceEntry[]>;
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
