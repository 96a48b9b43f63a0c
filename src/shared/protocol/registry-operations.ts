/**
 * RegistryOperations (seed 000 "Registry Operations"; facts/registry-dns.md §1) as far as the main
 * job needs it; the names are Java's.
 */
import type { Reply } from "../errors.ts";
import type { RegistryPathStatus, ServiceRecord } from "../registry.ts";

export type BindFlags = { readonly overwrite: boolean };

export type RegistryOperation =
  | { readonly op: "mknode"; readonly path: string; readonly createParents: boolean }
  | {
      readonly op: "bind";
      readonly path: string;
      readonly record: ServiceRecord;
      readonly overwrite: boolean;
      readonly createParents: boolean;
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
  bind(path: string, record: ServiceRecord, flags: BindFlags): Promise<Reply<undefined>>;
  resolve(path: string): Promise<Reply<ServiceRecord>>;
  stat(path: string): Promise<Reply<RegistryPathStatus>>;
  exists(path: string): Promise<Reply<boolean>>;
  list(path: string): Promise<Reply<readonly string[]>>;
  delete(path: string, recursive: boolean): Promise<Reply<undefined>>;
  /** All of them in one transaction, or none. How a ServiceMaster publishes its records. */
  transact(operations: readonly RegistryOperation[]): Promise<Reply<undefined>>;
  /** Record, status and children in one consistent read. */
  view(path: string): Promise<Reply<RegistryNodeView>>;
}

/** The aspect of an application's life that a record is bound to (seed 000, `yarn:persistence`). */
export type PersistencePolicy = "application" | "application-attempt" | "container";

/** ResourceManager → Registry: an application, attempt or container has ended. */
export interface RegistryPurge {
  /**
   * Deletes every record whose `yarn:id` and `yarn:persistence` are these, each with all its
   * children, in one transaction. Answers how many records matched; 0 is no error, so that it can
   * be said again.
   */
  purge(yarnId: string, persistence: PersistencePolicy): Promise<Reply<number>>;
}
