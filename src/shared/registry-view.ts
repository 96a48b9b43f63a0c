/** A node of the registry as it is stored, and the view of it that readers get. */
import type { RegistryNodeView } from "./protocol/registry-operations.ts";
import { type RegistryPathStatus, readStoredRecord } from "./registry.ts";
import { lastElement, type RegistryPath } from "./registry-path.ts";
import { utf8Length } from "./utf8.ts";

export type StoredNode = {
  readonly path: RegistryPath;
  readonly createdMs: number;
  /** Canonical JSON; null for a node without record. */
  readonly record: string | null;
  /** Of the record; 0 for a node without record. */
  readonly version: number;
};

/** The view of a node that was read with the names of all its children. */
export function viewOf(node: StoredNode, children: readonly string[]): RegistryNodeView {
  return {
    path: node.path,
    stat: statusOf(node, children.length),
    record: node.record === null ? null : readStoredRecord(node.record),
    children,
  };
}

export function statusOf(node: StoredNode, children: number): RegistryPathStatus {
  return {
    path: lastElement(node.path),
    time: node.createdMs,
    size: node.record === null ? 0 : utf8Length(node.record),
    children,
    version: node.version,
  };
}
