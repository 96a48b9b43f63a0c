/**
 * The rules of RegistryOperations (seed 000 "Registry Operations"; facts/registry-dns.md §1.2) over
 * any RegistryTree. Every operation is atomic, which Java's are not; `reason` carries the name of
 * Java's exception. In every tree `/`, `/users` and `/services` exist, and every node's parent does.
 */
import { fail, ok, type Reply } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import type {
  BindFlags,
  RegistryNodeView,
  RegistryOperation,
} from "../../shared/protocol/registry-operations.ts";
import {
  formatServiceRecord,
  type RegistryPathStatus,
  type ServiceRecord,
} from "../../shared/registry.ts";
import {
  lastElement,
  lineage,
  parentOf,
  parsePath,
  type RegistryPath,
  ROOT,
  SYSTEM_PATHS,
} from "./path.ts";
import {
  checkServiceRecord,
  parseServiceRecord,
  persistenceOf,
  utf8Length,
} from "./service-record.ts";
import type { BoundTo, RegistryNode, RegistryTree } from "./tree.ts";

/** Makes the paths that every registry has. Doing it again changes nothing. */
export function createSystemPaths(tree: RegistryTree, nowMs: number): void {
  for (const path of SYSTEM_PATHS) {
    if (tree.get(path) === undefined) tree.put(bareNode(path, nowMs));
  }
}

/** True if the path was created, false if it existed, with or without a record. */
export function mknode(
  tree: RegistryTree,
  path: string,
  createParents: boolean,
  nowMs: number,
): Reply<boolean> {
  return tree.atomically(() => mknodeWithin(tree, path, createParents, nowMs));
}

/**
 * Sets the record of a path. The parent must exist. With `overwrite` a record that is there is
 * replaced, and children and creation time stay; without it the path may exist only as a bare node.
 */
export function bind(
  tree: RegistryTree,
  path: string,
  record: ServiceRecord,
  flags: BindFlags,
  nowMs: number,
): Reply<undefined> {
  const more = { ...flags, createParents: false };
  return tree.atomically(() => bindWithin(tree, path, record, more, nowMs));
}

export function resolve(tree: RegistryTree, path: string): Reply<ServiceRecord> {
  const node = getNode(tree, path);
  if (!node.ok) return node;
  const record = recordOf(node.value);
  if (!record.ok) return record;
  if (record.value !== null) return ok(record.value);
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

/** Short names of the children, sorted. */
export function list(tree: RegistryTree, path: string): Reply<readonly string[]> {
  const node = getNode(tree, path);
  return node.ok ? ok(tree.children(node.value.path)) : node;
}

/** `/`, `/users` and `/services` cannot be deleted; a path with children only recursively. */
export function deletePath(tree: RegistryTree, path: string, recursive: boolean): Reply<undefined> {
  return tree.atomically(() => deleteWithin(tree, path, { recursive, missingOk: false }));
}

/**
 * All operations in their order, each seeing what those before it did; if one fails, none has
 * happened, and the failure is that one's.
 */
export function transact(
  tree: RegistryTree,
  operations: readonly RegistryOperation[],
  nowMs: number,
): Reply<undefined> {
  const most = LIMITS.registryOperationsPerTransactionMax;
  if (operations.length > most) {
    const message = `a registry transaction has ${operations.length} operations; at most ${most}`;
    return fail("INVALID_ARGUMENT", message, { hint: "split it into several transactions" });
  }
  return tree.atomically(() => {
    for (const operation of operations) {
      const reply = perform(tree, operation, nowMs);
      if (!reply.ok) return reply;
    }
    return ok();
  });
}

/** Record, status and children in one consistent read. */
export function view(tree: RegistryTree, path: string): Reply<RegistryNodeView> {
  const node = getNode(tree, path);
  if (!node.ok) return node;
  const record = recordOf(node.value);
  if (!record.ok) return record;
  const children = tree.children(node.value.path);
  return ok({
    path: node.value.path,
    stat: statusOf(node.value, children.length),
    record: record.value,
    children,
  });
}

/**
 * Deletes the records that are bound to what has ended, each with everything below it (seed 000
 * "YARN Persistence policies"). Answers how many of them were deleted; one that stood below another
 * goes with it and is not counted.
 */
export function purge(tree: RegistryTree, boundTo: BoundTo): Reply<number> {
  return tree.atomically(() => {
    let purged = 0;
    for (const path of tree.findBoundTo(boundTo)) {
      const node = tree.get(path);
      if (node === undefined) continue;
      purged += 1;
      // A record that somebody put on a system path goes; the path and the tree below it stay.
      if (SYSTEM_PATHS.includes(path)) tree.put({ ...node, record: null, boundTo: null });
      else tree.deleteSubtree(path);
    }
    return ok(purged);
  });
}

function perform(tree: RegistryTree, operation: RegistryOperation, nowMs: number): Reply<unknown> {
  switch (operation.op) {
    case "mknode":
      return mknodeWithin(tree, operation.path, operation.createParents, nowMs);
    case "bind":
      return bindWithin(tree, operation.path, operation.record, operation, nowMs);
    case "delete":
      return deleteWithin(tree, operation.path, operation);
  }
}

function mknodeWithin(
  tree: RegistryTree,
  path: string,
  createParents: boolean,
  nowMs: number,
): Reply<boolean> {
  const parsed = parsePath(path);
  if (!parsed.ok) return parsed;
  if (tree.get(parsed.value) !== undefined) return ok(false);
  const parent = ensureParent(tree, parsed.value, createParents, nowMs);
  if (!parent.ok) return parent;
  tree.put(bareNode(parsed.value, nowMs));
  return ok(true);
}

function bindWithin(
  tree: RegistryTree,
  path: string,
  record: ServiceRecord,
  flags: BindFlags & { readonly createParents: boolean },
  nowMs: number,
): Reply<undefined> {
  const parsed = parsePath(path);
  if (!parsed.ok) return parsed;
  const checked = checkServiceRecord(record);
  if (!checked.ok) {
    const { error } = checked;
    return { ok: false, error: { ...error, message: `${parsed.value}: ${error.message}` } };
  }
  const before = tree.get(parsed.value);
  if (before !== undefined && before.record !== null && !flags.overwrite) {
    return fail("ALREADY_EXISTS", `${parsed.value} has a service record already`, {
      reason: "FileAlreadyExistsException",
      hint: "bind with overwrite to replace it",
    });
  }
  if (before === undefined) {
    const parent = ensureParent(tree, parsed.value, flags.createParents, nowMs);
    if (!parent.ok) return parent;
  }
  const text = JSON.stringify(formatServiceRecord(checked.value));
  // The same record again costs no row: publishers say it whenever they are not sure.
  if (before?.record === text) return ok();
  tree.put({
    ...(before ?? bareNode(parsed.value, nowMs)),
    record: text,
    boundTo: persistenceOf(checked.value),
  });
  return ok();
}

function deleteWithin(
  tree: RegistryTree,
  path: string,
  flags: { readonly recursive: boolean; readonly missingOk: boolean },
): Reply<undefined> {
  const parsed = parsePath(path);
  if (!parsed.ok) return parsed;
  if (SYSTEM_PATHS.includes(parsed.value)) {
    return fail("FAILED_PRECONDITION", `${parsed.value} cannot be deleted`, {
      hint: `${SYSTEM_PATHS.join(", ")} are part of every registry; delete what is below them`,
    });
  }
  if (tree.get(parsed.value) === undefined) {
    return flags.missingOk ? ok() : pathNotFound(tree, parsed.value);
  }
  const children = flags.recursive ? 0 : tree.countChildren(parsed.value);
  if (children > 0) {
    const noun = children === 1 ? "child" : "children";
    return fail("FAILED_PRECONDITION", `${parsed.value} has ${children} ${noun}`, {
      reason: "PathIsNotEmptyDirectoryException",
      hint: "delete recursively to delete them too",
    });
  }
  tree.deleteSubtree(parsed.value);
  return ok();
}

/** Afterwards the parent exists, or the reply is the failure. The root has no parent to ensure. */
function ensureParent(
  tree: RegistryTree,
  path: RegistryPath,
  createParents: boolean,
  nowMs: number,
): Reply<undefined> {
  const parent = parentOf(path);
  if (parent === null || tree.get(parent) !== undefined) return ok();
  if (!createParents) return pathNotFound(tree, parent);
  for (const above of lineage(parent)) {
    if (tree.get(above) === undefined) tree.put(bareNode(above, nowMs));
  }
  return ok();
}

function getNode(tree: RegistryTree, path: string): Reply<RegistryNode> {
  const parsed = parsePath(path);
  if (!parsed.ok) return parsed;
  const node = tree.get(parsed.value);
  return node === undefined ? pathNotFound(tree, parsed.value) : ok(node);
}

/** Says also how far the path does exist: that is what a person looks for next. */
function pathNotFound(tree: RegistryTree, path: RegistryPath) {
  const nearest = lineage(path).findLast((above) => tree.get(above) !== undefined) ?? ROOT;
  return fail("NOT_FOUND", `${path} is not in the registry`, {
    reason: "PathNotFoundException",
    hint: `${nearest} exists; list it to see what is below`,
  });
}

function recordOf(node: RegistryNode): Reply<ServiceRecord | null> {
  return node.record === null ? ok(null) : parseServiceRecord(JSON.parse(node.record));
}

function statusOf(node: RegistryNode, children: number): RegistryPathStatus {
  return {
    path: lastElement(node.path),
    time: node.createdMs,
    size: node.record === null ? 0 : utf8Length(node.record),
    children,
  };
}

function bareNode(path: RegistryPath, nowMs: number): RegistryNode {
  return { path, createdMs: nowMs, record: null, boundTo: null };
}
