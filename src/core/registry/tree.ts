/**
 * What the registry's rules need of a store. The SQLite one is in durable/store, the Map one with
 * the tests; one contract suite (test/support/registry-contract.ts) runs against both.
 */
import type { Reply } from "../../shared/errors.ts";
import type { PersistencePolicy } from "../../shared/protocol/registry-operations.ts";
import type { RegistryPath } from "./path.ts";

export type RegistryNode = {
  readonly path: RegistryPath;
  /** Epoch ms. */
  readonly createdMs: number;
  /** The record's canonical JSON text; null for a node without record. */
  readonly record: string | null;
  /** Whose end removes the node; null for a node that stays. */
  readonly boundTo: BoundTo | null;
};

/** `yarn:id` and `yarn:persistence` of a record that lives no longer than what they name. */
export type BoundTo = { readonly yarnId: string; readonly persistence: PersistencePolicy };

export interface RegistryTree {
  get(path: RegistryPath): RegistryNode | undefined;
  /** Adds or replaces the node; its children are left alone. */
  put(node: RegistryNode): void;
  /** Removes the node and everything below it. Never the root. */
  deleteSubtree(path: RegistryPath): void;
  /** Short names, in code unit order. */
  children(path: RegistryPath): readonly string[];
  countChildren(path: RegistryPath): number;
  /** Paths in code unit order, so that a parent comes before what is below it. */
  findBoundTo(boundTo: BoundTo): readonly RegistryPath[];
  /** Keeps all writes of `work` if its reply is ok, and none if it fails or throws. */
  atomically<Value>(work: () => Reply<Value>): Reply<Value>;
}
