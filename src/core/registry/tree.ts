/**
 * What the registry's rules need of a store. The SQLite one is in durable/store, the Map one with
 * the tests; one contract suite (test/support/registry-contract.ts) runs against both.
 */
import type { Reply } from "../../shared/errors.ts";
import type { BoundTo, ListPage } from "../../shared/protocol/registry-operations.ts";
import type { RegistryPath } from "../../shared/registry-path.ts";

export type RegistryNode = {
  readonly path: RegistryPath;
  /** Epoch ms. */
  readonly createdMs: number;
  /** The record's canonical JSON text; null for a node without record. */
  readonly record: string | null;
  /** Whose end removes the node; null for a node that stays. */
  readonly boundTo: BoundTo | null;
  /** Of the record, from `nextVersion`; 0 for a node without record. */
  readonly version: number;
  /** Name of the user whose home the node is; null for all others, and homes nobody has claimed. */
  readonly owner: string | null;
  /** What is granted beside what the node's place grants (access-control.ts). */
  readonly acl: readonly AclEntry[];
};

/** `id` of scheme `digest` is `{accessor}:{hash}`; `permissions` are letters of "rwcda". */
export type AclEntry = {
  readonly scheme: "user" | "digest" | "container";
  readonly id: string;
  readonly permissions: string;
};

export interface RegistryTree {
  get(path: RegistryPath): RegistryNode | undefined;
  /** Says which paths a transaction is about, so that a store may read them, and those above, at once. */
  prepare(paths: readonly RegistryPath[]): void;
  /**
   * Adds or replaces the node; its children are left alone. `terms` are those of its record, where
   * the caller has them at hand.
   */
  put(node: RegistryNode, terms?: readonly string[]): void;
  /** Removes the node and everything below it. Never the root. */
  deleteSubtree(path: RegistryPath): void;
  /** Short names, in code unit order; those after `after`, at most `limit`, when said. */
  children(path: RegistryPath, page?: ListPage): readonly string[];
  countChildren(path: RegistryPath): number;
  /** Paths in code unit order, so that a parent comes before what is below it. */
  findBoundTo(boundTo: BoundTo): readonly RegistryPath[];
  /** Greater than all it has answered before, and at least `nowMs`. */
  nextVersion(nowMs: number): number;
  /** Keeps all writes of `work` if its reply is ok, and none if it fails or throws. */
  atomically<Value>(work: () => Reply<Value>): Reply<Value>;
}
