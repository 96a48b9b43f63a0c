/**
 * What a RegistryTree answers to readers (seed 000 "Registry Operations"; facts/registry-dns.md
 * §1.2); `reason` carries the name of Java's exception. Changes are in writes.ts. In every tree `/`,
 * `/users` and `/services` exist, and every node's parent does.
 */
import { fail, ok, type Reply } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import type { ListPage, RegistryNodeView } from "../../shared/protocol/registry-operations.ts";
import {
  type RegistryPathStatus,
  readStoredRecord,
  type ServiceRecord,
} from "../../shared/registry.ts";
import {
  lineage,
  parsePath,
  type RegistryPath,
  ROOT,
  SYSTEM_PATHS,
} from "../../shared/registry-path.ts";
import { statusOf, viewOf } from "../../shared/registry-view.ts";
import type { RegistryNode, RegistryTree } from "./tree.ts";

/** Makes the paths that every registry has. Doing it again changes nothing. */
export function createSystemPaths(tree: RegistryTree, nowMs: number): void {
  for (const path of SYSTEM_PATHS) {
    if (tree.get(path) === undefined) tree.put(bareNode(path, nowMs));
  }
}

export function resolve(tree: RegistryTree, path: string): Reply<ServiceRecord> {
  const node = getNode(tree, path);
  if (!node.ok) return node;
  const record = recordOf(node.value);
  if (record !== null) return ok(record);
  return fail("NOT_FOUND", `${node.value.path} has no service record`, {
    reason: "NoRecordException",
    hint: "the path exists; list it to see what is below",
  });
}

export function stat(tree: RegistryTree, path: string): Reply<RegistryPathStatus> {
  const node = getNode(tree, path);
  return node.ok ? ok(statusOf(node.value, tree.countChildren(node.value.path))) : node;
}

/** Only a missing path is false; a path that cannot exist is an error. */
export function exists(tree: RegistryTree, path: string): Reply<boolean> {
  const parsed = parsePath(path);
  return parsed.ok ? ok(tree.get(parsed.value) !== undefined) : parsed;
}

/** Short names of the children, sorted; all of them unless a page is asked for. */
export function list(
  tree: RegistryTree,
  path: string,
  page: ListPage = {},
): Reply<readonly string[]> {
  const most = LIMITS.registryListPageMax;
  const { limit = most } = page;
  if (!Number.isInteger(limit) || limit < 1 || limit > most) {
    return fail("INVALID_ARGUMENT", `a page of a list has 1 to ${most} names, not ${limit}`);
  }
  const node = getNode(tree, path);
  return node.ok ? ok(tree.children(node.value.path, page)) : node;
}

/** Record, status and children in one consistent read. */
export function view(tree: RegistryTree, path: string): Reply<RegistryNodeView> {
  const node = getNode(tree, path);
  if (!node.ok) return node;
  return ok(viewOf(node.value, tree.children(node.value.path)));
}

/** The node of a path that exists. */
export function getNode(tree: RegistryTree, path: string): Reply<RegistryNode> {
  const parsed = parsePath(path);
  if (!parsed.ok) return parsed;
  const node = tree.get(parsed.value);
  return node === undefined ? pathNotFound(tree, parsed.value) : ok(node);
}

/** Says also how far the path does exist: that is what a person looks for next. */
export function pathNotFound(tree: RegistryTree, path: RegistryPath) {
  const nearest = lineage(path).findLast((above) => tree.get(above) !== undefined) ?? ROOT;
  return fail("NOT_FOUND", `${path} is not in the registry`, {
    reason: "PathNotFoundException",
    hint: `${nearest} exists; list it to see what is below`,
  });
}

function recordOf({ record }: Pick<RegistryNode, "record">): ServiceRecord | null {
  return record === null ? null : readStoredRecord(record);
}

/** A node without record that nobody has a right to but by its place. */
export function bareNode(path: RegistryPath, nowMs: number): RegistryNode {
  return { path, createdMs: nowMs, record: null, boundTo: null, version: 0, owner: null, acl: [] };
}
