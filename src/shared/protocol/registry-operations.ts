/**
 * RegistryOperations (seed 000 "Registry Operations"; facts/registry-dns.md §1): the names are
 * Java's. The cluster's own objects speak RegistryOperations and may do everything; whoever comes
 * from outside speaks RegistryWriter, which asks who it is.
 */
import type { Reply } from "../errors.ts";
import type { ContainerId } from "../ids.ts";
import type { RegistryPathStatus, ServiceRecord } from "../registry.ts";

/**
 * What `bind` finds at the path: `"absent"` is no record, a number the version of the record that
 * the caller has seen. Anything else there, and nothing is written. It implies `overwrite`.
 */
export type RecordCondition = number | "absent";

export type BindFlags = {
  readonly overwrite: boolean;
  readonly ifVersion?: RecordCondition;
};

/** `version` rises with every change of the record, also when the path is deleted and made anew. */
export type BindResult = { readonly version: number };

/** A part of a list of names: those after `after`, at most `limit` of them (1 to 1,000). */
export type ListPage = { readonly after?: string; readonly limit?: number };

export type RegistryOperation =
  | { readonly op: "mknode"; readonly path: string; readonly createParents: boolean }
  | {
      readonly op: "bind";
      readonly path: string;
      readonly record: ServiceRecord;
      readonly overwrite: boolean;
      readonly createParents: boolean;
      readonly ifVersion?: RecordCondition;
    }
  | {
      readonly op: "delete";
      readonly path: string;
      readonly recursive: boolean;
      readonly missingOk: boolean;
    };

/** One node as the read-only REST shows it. */
export type RegistryNodeView = {
  readonly path: string;
  readonly stat: RegistryPathStatus;
  readonly record: ServiceRecord | null;
  /** Short names, sorted. */
  readonly children: readonly string[];
};

export interface RegistryOperations {
  mknode(path: string, createParents: boolean): Promise<Reply<boolean>>;
  bind(path: string, record: ServiceRecord, flags: BindFlags): Promise<Reply<BindResult>>;
  resolve(path: string): Promise<Reply<ServiceRecord>>;
  stat(path: string): Promise<Reply<RegistryPathStatus>>;
  exists(path: string): Promise<Reply<boolean>>;
  /** Short names in code unit order; all of them unless a page is asked for. */
  list(path: string, page?: ListPage): Promise<Reply<readonly string[]>>;
  delete(path: string, recursive: boolean): Promise<Reply<undefined>>;
  /** All of them in one transaction, or none. */
  transact(operations: readonly RegistryOperation[]): Promise<Reply<undefined>>;
  /** Record, status and children in one consistent read. */
  view(path: string): Promise<Reply<RegistryNodeView>>;
}

/**
 * Which publication of a publisher it is: a later one has a greater `life`, or the same and a
 * greater `count`. Two publications that differ never have the same.
 */
export type PublicationNumber = { readonly life: number; readonly count: number };

/** Operations of one of the cluster's own objects, in the name of a user. */
export type Publication = PublicationNumber & {
  /** Names the publisher: a ServiceMaster's Durable Object name. */
  readonly publisher: string;
  /**
   * The user's home is recorded as that user's when it is made on the way, and the home of a user
   * with another name is refused, though both names may make the same path element.
   */
  readonly user: string;
  readonly operations: readonly RegistryOperation[];
};

/** ServiceMaster → Registry. */
export interface RegistryPublisher {
  /**
   * All operations in one transaction, or none. A publication that comes after a later one of its
   * publisher is `overtaken` and changes nothing; the same one again changes nothing either.
   */
  publish(publication: Publication): Promise<Reply<{ readonly overtaken: boolean }>>;
}

/** The aspect of an application's life that a record is bound to (seed 000, `yarn:persistence`). */
export type PersistencePolicy = "application" | "application-attempt" | "container";

/** Who asks for a change. `user` is the YARN user's name, not the path element made of it. */
export type RegistryCaller =
  /** The cluster's own objects. `user`: in whose name. */
  | { readonly kind: "service"; readonly user?: string }
  | { readonly kind: "user"; readonly user: string; readonly admin: boolean }
  /** A container with its own credential: it may write below `path` only. */
  | { readonly kind: "container"; readonly containerId: ContainerId; readonly path: string }
  /** Nobody but what its accessors prove. */
  | { readonly kind: "anonymous" };

/**
 * Claims of a container's registry credential, signed by the cluster: the component's path as
 * `componentPath` makes it. It is worth nothing once the container has ended, whatever its `exp`.
 */
export type RegistryTokenClaims = {
  readonly aud: "registry";
  /** The container's id. */
  readonly sub: ContainerId;
  readonly path: string;
};

/** A digest accessor as its holder knows it (seed 000 "Security": `digest:` tokens). */
export type RegistryAccessor = { readonly id: string; readonly password: string };

export type RegistrySession = {
  readonly caller: RegistryCaller;
  /** Proven where nodes name them, and put into the ACL of every node that is created. */
  readonly accessors: readonly RegistryAccessor[];
};

/** What an ACL grants to: `digest` by the accessor's id, `container` by the container's id. */
export type AclSubject = {
  readonly scheme: "user" | "digest" | "container";
  readonly id: string;
};

/** `permissions`: letters of "rwcda", as ZooKeeper's; c and d are about a node's children. */
export type AclGrant = AclSubject & { readonly permissions: string };

/** What a node's ACL says, including what every node grants by its place (`implied`). */
export type RegistryAcl = {
  readonly path: string;
  readonly entries: readonly {
    readonly scheme: AclSubject["scheme"] | "world" | "system";
    readonly id: string;
    readonly permissions: string;
    readonly implied: boolean;
  }[];
};

/** `yarn:id` and `yarn:persistence` of a record that lives no longer than what they name. */
export type BoundTo = { readonly yarnId: string; readonly persistence: PersistencePolicy };

/** A record that the edge has checked (shared/service-record.ts), as it is stored. */
export type CheckedRecord = {
  /** Its canonical JSON. */
  readonly text: string;
  /** Whose end removes the record; null: it stays until somebody deletes it. */
  readonly boundTo: BoundTo | null;
  /** What it is found by (shared/registry-terms.ts). */
  readonly terms: readonly string[];
};

/** A change from outside. */
export type RegistryWrite =
  | Exclude<RegistryOperation, { readonly op: "bind" }>
  | (Omit<Extract<RegistryOperation, { readonly op: "bind" }>, "record"> & {
      readonly record: CheckedRecord;
    })
  | {
      readonly op: "set-acl";
      readonly path: string;
      /** A digest is named by the id of an accessor of the session, which has its password. */
      readonly add: readonly AclGrant[];
      readonly remove: readonly AclSubject[];
    };

/** What one write has done, in the order of the writes. */
export type RegistryWriteResult =
  /** False: the path existed. */
  | { readonly op: "mknode"; readonly path: string; readonly created: boolean }
  | { readonly op: "bind"; readonly path: string; readonly version: number }
  /** False: the path was missing, and `missingOk` said that it may be. */
  | { readonly op: "delete"; readonly path: string; readonly deleted: boolean }
  | { readonly op: "set-acl"; readonly path: string; readonly acl: RegistryAcl };

/** RegistryOperations for those who have to show who they are (seed 000 "Security"). */
export interface RegistryWriter {
  /** All of them in one transaction, or none; the failure is that of the first that fails. */
  write(
    session: RegistrySession,
    writes: readonly RegistryWrite[],
  ): Promise<Reply<readonly RegistryWriteResult[]>>;
  /** For those who may change it, and for the owner of the home it is in. */
  getAcl(session: RegistrySession, path: string): Promise<Reply<RegistryAcl>>;
}

/** What becomes of a matching record that has children (seed 000; facts §3). */
export const PURGE_POLICIES = ["PurgeAll", "FailOnChildren", "SkipOnChildren"] as const;
export type PurgePolicy = (typeof PURGE_POLICIES)[number];

/** An application, attempt or container that is over: the id, and what it is the id of. */
export type YarnEnd = { readonly yarnId: string; readonly persistence: PersistencePolicy };

/** ResourceManager → Registry (Hadoop's RMRegistryOperationsService). */
export interface RMRegistryOperations {
  /**
   * Purges (PurgeAll) what is bound to each of at most `registryPurgesPerTransactionMax` that have
   * ended, in one transaction. Answers how many records were deleted.
   */
  purgeEnded(ended: readonly YarnEnd[]): Promise<Reply<number>>;
  /**
   * Makes the homes of users that have none. One that belongs to another user already, or whose
   * name makes no path element, is left out. Answers how many were made.
   */
  createHomes(users: readonly string[]): Promise<Reply<number>>;
}

/** An administrator's own purge; the ResourceManager's ends are RMRegistryOperations. */
export interface RegistryPurge {
  /**
   * Deletes every record whose `yarn:id` and `yarn:persistence` are these, each with all its
   * children unless `policy` says otherwise (PurgeAll when not said), in one transaction. Answers
   * how many records were deleted; 0 is no error, so that it can be said again.
   */
  purge(
    yarnId: string,
    persistence: PersistencePolicy,
    policy?: PurgePolicy,
  ): Promise<Reply<number>>;
}
