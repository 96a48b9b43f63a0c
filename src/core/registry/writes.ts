/**
 * What changes a RegistryTree (seed 000 "Registry Operations"; facts/registry-dns.md §1.2). Every
 * operation is atomic, which Java's are not, and asks first whether its caller may; `reason` carries
 * the name of Java's exception.
 */
import { fail, ok, type Reply } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import type {
  BindFlags,
  BindResult,
  BoundTo,
  CheckedRecord,
  Publication,
  PurgePolicy,
  RecordCondition,
  RegistryOperation,
  RegistryWrite,
  RegistryWriteResult,
  YarnEnd,
} from "../../shared/protocol/registry-operations.ts";
import type { ServiceRecord } from "../../shared/registry.ts";
import {
  homePathForUser,
  lineage,
  NET,
  parentOf,
  parsePath,
  type RegistryPath,
  SYSTEM_PATHS,
} from "../../shared/registry-path.ts";
import { checkServiceRecord } from "../../shared/service-record.ts";
import {
  CLUSTER_ACCESS,
  type RegistryAccess,
  requireCreation,
  requireDeletion,
  requirePermission,
  rightsOfNewNode,
} from "./access-control.ts";
import { setAcl } from "./acl.ts";
import { isAtOrBelow } from "./find.ts";
import { isLater, isSame, PUBLISHER_MEMORY_MS, type PublisherLog } from "./publishers.ts";
import { bareNode, pathNotFound } from "./registry.ts";
import type { RegistryNode, RegistryTree } from "./tree.ts";

/** True if the path was created, false if it existed, with or without a record. */
export function mknode(
  tree: RegistryTree,
  path: string,
  createParents: boolean,
  nowMs: number,
): Reply<boolean> {
  const flags = { createParents };
  const work: Work = { tree, access: CLUSTER_ACCESS, nowMs };
  return tree.atomically(() => mknodeWithin(work, parsePath(path), flags));
}

/**
 * Sets the record of a path. The parent must exist. With `overwrite` or `ifVersion` a record that is
 * there is replaced, and children and creation time stay; without, the path may exist only as a
 * bare node.
 */
export function bind(
  tree: RegistryTree,
  path: string,
  record: ServiceRecord,
  flags: BindFlags,
  nowMs: number,
): Reply<BindResult> {
  const more = { ...flags, createParents: false };
  const work: Work = { tree, access: CLUSTER_ACCESS, nowMs };
  const check = () => checkServiceRecord(path, record);
  return tree.atomically(() => bindWithin(work, parsePath(path), check, more));
}

/** `/`, `/users` and `/services` cannot be deleted; a path with children only recursively. */
export function deletePath(tree: RegistryTree, path: string, recursive: boolean): Reply<undefined> {
  const work: Work = { tree, access: CLUSTER_ACCESS, nowMs: 0 };
  const flags = { recursive, missingOk: false };
  return nothing(tree.atomically(() => deleteWithin(work, parsePath(path), flags)));
}

/**
 * All operations of the cluster's own objects in their order, each seeing what those before it did;
 * if one fails, none has happened, and the failure is that one's.
 */
export function transact(
  tree: RegistryTree,
  operations: readonly RegistryOperation[],
  nowMs: number,
): Reply<undefined> {
  const work: Work = { tree, access: CLUSTER_ACCESS, nowMs };
  return nothing(performAll(work, operations, checkServiceRecord));
}

/**
 * The same in the name of a user, unless its publisher has published something later: then the
 * request was under way for too long, and what it says is no longer so.
 */
export function publish(
  tree: RegistryTree,
  publishers: PublisherLog,
  publication: Publication,
  nowMs: number,
): Reply<{ readonly overtaken: boolean }> {
  const { publisher, user, operations } = publication;
  const last = publishers.last(publisher);
  if (last !== undefined && !isLater(publication, last)) {
    return ok({ overtaken: !isSame(publication, last) });
  }
  const note = () => {
    if (last === undefined) publishers.forgetBefore(nowMs - PUBLISHER_MEMORY_MS);
    publishers.note(publisher, publication, nowMs);
  };
  const work: Work = { tree, access: accessOfService(user), nowMs, beforeCommit: note };
  const reply = performAll(work, operations, checkServiceRecord);
  return reply.ok ? ok({ overtaken: false }) : reply;
}

/** Answers how many of the homes it has made; a name that cannot have its home is left out. */
export function createHomes(
  tree: RegistryTree,
  users: readonly string[],
  nowMs: number,
): Reply<number> {
  return tree.atomically(() => {
    let created = 0;
    for (const user of users) {
      const home = homePathForUser(user);
      if (!home.ok) continue;
      const work: Work = { tree, access: accessOfService(user), nowMs };
      const made = mknodeWithin(work, home, { createParents: false });
      if (made.ok && made.value) created += 1;
    }
    return ok(created);
  });
}

function accessOfService(user: string): RegistryAccess {
  return { ...CLUSTER_ACCESS, caller: { kind: "service", user } };
}

/** The same for those who have shown who they are. */
export function write(
  tree: RegistryTree,
  writes: readonly RegistryWrite[],
  access: RegistryAccess,
  nowMs: number,
): Reply<readonly RegistryWriteResult[]> {
  return performAll({ tree, access, nowMs }, writes, (_path, record) => ok(record));
}

/**
 * Deletes the records that are bound to what has ended, each with everything below it (seed 000
 * "YARN Persistence policies"), or as `policy` says for one that has children: FailOnChildren
 * deletes nothing at all then, SkipOnChildren leaves that record. Answers how many of them were
 * deleted; one that stood below another goes with it and is not counted.
 */
export function purge(
  tree: RegistryTree,
  boundTo: BoundTo,
  policy: PurgePolicy = "PurgeAll",
): Reply<number> {
  return tree.atomically(() => purgeWithin(tree, boundTo, policy));
}

/** Purges what is bound to each of these, all in one transaction. Answers the sum. */
export function purgeEnded(tree: RegistryTree, ended: readonly YarnEnd[]): Reply<number> {
  const most = LIMITS.registryPurgesPerTransactionMax;
  if (ended.length > most) {
    return fail("INVALID_ARGUMENT", `${ended.length} ends to purge at once; at most ${most}`);
  }
  return tree.atomically(() => {
    let purged = 0;
    for (const end of ended) {
      const reply = purgeWithin(tree, end, "PurgeAll");
      if (!reply.ok) return reply;
      purged += reply.value;
    }
    return ok(purged);
  });
}

function purgeWithin(tree: RegistryTree, boundTo: BoundTo, policy: PurgePolicy): Reply<number> {
  let purged = 0;
  for (const path of tree.findBoundTo(boundTo)) {
    const node = tree.get(path);
    if (node === undefined) continue;
    const isSystem = SYSTEM_PATHS.includes(path);
    if (policy !== "PurgeAll" && !isSystem && tree.countChildren(path) > 0) {
      if (policy === "FailOnChildren") return notEmpty(tree, path);
      continue;
    }
    purged += 1;
    // A record that somebody put on a system path goes; the path and the tree below it stay.
    if (isSystem) tree.put({ ...node, record: null, boundTo: null, version: 0 });
    else tree.deleteSubtree(path);
  }
  return ok(purged);
}

/** What every step of a change needs. */
type Work = {
  readonly tree: RegistryTree;
  readonly access: RegistryAccess;
  readonly nowMs: number;
  /** Called once in the transaction, after its last write. */
  readonly beforeCommit?: () => void;
};

function performAll<Record>(
  work: Work,
  writes: readonly (
    | Exclude<RegistryWrite, { readonly op: "bind" }>
    | (Omit<Extract<RegistryWrite, { readonly op: "bind" }>, "record"> & {
        readonly record: Record;
      })
  )[],
  check: (path: string, record: Record) => Reply<CheckedRecord>,
): Reply<readonly RegistryWriteResult[]> {
  const most = LIMITS.registryOperationsPerTransactionMax;
  if (writes.length > most) {
    const message = `a registry transaction has ${writes.length} operations; at most ${most}`;
    return fail("INVALID_ARGUMENT", message, { hint: "split it into several transactions" });
  }
  return work.tree.atomically(() => {
    const paths = writes.map(({ path }) => parsePath(path));
    work.tree.prepare(paths.flatMap((path) => (path.ok ? [path.value] : [])));
    const results: RegistryWriteResult[] = [];
    for (const [index, each] of writes.entries()) {
      const path = paths[index] ?? parsePath(each.path);
      const reply =
        each.op === "bind"
          ? performBind(work, path, () => check(each.path, each.record), each)
          : perform(work, path, each);
      if (!reply.ok) return reply;
      results.push(reply.value);
    }
    work.beforeCommit?.();
    return ok(results);
  });
}

function performBind(
  work: Work,
  path: Reply<RegistryPath>,
  check: () => Reply<CheckedRecord>,
  bind: BindFlags & { readonly path: string; readonly createParents: boolean },
): Reply<RegistryWriteResult> {
  const reply = bindWithin(work, path, check, bind);
  return reply.ok ? ok({ op: "bind", path: bind.path, version: reply.value.version }) : reply;
}

function perform(
  work: Work,
  parsed: Reply<RegistryPath>,
  operation: Exclude<RegistryWrite, { readonly op: "bind" }>,
): Reply<RegistryWriteResult> {
  const { op, path } = operation;
  switch (op) {
    case "mknode": {
      const reply = mknodeWithin(work, parsed, operation);
      return reply.ok ? ok({ op, path, created: reply.value }) : reply;
    }
    case "delete": {
      const reply = deleteWithin(work, parsed, operation);
      return reply.ok ? ok({ op, path, deleted: reply.value }) : reply;
    }
    case "set-acl": {
      const reply = setAcl(work.tree, path, operation, work.access);
      return reply.ok ? ok({ op, path, acl: reply.value }) : reply;
    }
  }
}

function mknodeWithin(
  work: Work,
  path: Reply<RegistryPath>,
  flags: { readonly createParents: boolean },
): Reply<boolean> {
  const parsed = requireWritable(path);
  if (!parsed.ok) return parsed;
  if (work.tree.get(parsed.value) !== undefined) return ok(false);
  const prepared = prepareCreation(work, parsed.value, flags.createParents);
  if (!prepared.ok) return prepared;
  work.tree.put(newNode(work, parsed.value));
  return ok(true);
}

function bindWithin(
  work: Work,
  path: Reply<RegistryPath>,
  check: () => Reply<CheckedRecord>,
  flags: BindFlags & { readonly createParents: boolean },
): Reply<BindResult> {
  const { tree, access, nowMs } = work;
  const parsed = requireWritable(path);
  if (!parsed.ok) return parsed;
  const record = check();
  if (!record.ok) return record;
  const there = tree.get(parsed.value);
  if (there === undefined) {
    const prepared = prepareCreation(work, parsed.value, flags.createParents);
    if (!prepared.ok) return prepared;
  }
  const before = there ?? newNode(work, parsed.value);
  const allowed = requirePermission(tree, before, access, "w");
  if (!allowed.ok) return allowed;
  const agreed = checkCondition(before, flags);
  if (!agreed.ok) return agreed;
  const { text, boundTo, terms } = record.value;
  // The same record again costs no row: publishers say it whenever they are not sure.
  if (before.record === text) return ok({ version: before.version });
  const version = tree.nextVersion(nowMs);
  tree.put({ ...before, record: text, boundTo, version }, terms);
  return ok({ version });
}

/** Below `/net` are other clusters' registries. What was stored there once can still be deleted. */
function requireWritable(path: Reply<RegistryPath>): Reply<RegistryPath> {
  if (!path.ok || !isAtOrBelow(path.value, NET)) return path;
  return fail("FAILED_PRECONDITION", `${path.value} can only be read`, {
    reason: "NetIsReadOnly",
    hint: `below ${NET} are the registries of other clusters: write to the cluster itself`,
  });
}

function checkCondition(before: RegistryNode, flags: BindFlags): Reply<undefined> {
  if (flags.ifVersion !== undefined) {
    const wanted = flags.ifVersion === "absent" ? 0 : flags.ifVersion;
    return wanted === before.version ? ok() : versionMismatch(before, flags.ifVersion);
  }
  if (before.record === null || flags.overwrite) return ok();
  return fail("ALREADY_EXISTS", `${before.path} has a service record already`, {
    reason: "FileAlreadyExistsException",
    hint: "bind with overwrite to replace it",
  });
}

function versionMismatch({ path, version }: RegistryNode, wanted: RecordCondition): Reply<never> {
  const found = version === 0 ? "has no record" : `has version ${version}`;
  const expected = wanted === "absent" || wanted === 0 ? "no record" : `version ${wanted}`;
  return fail("FAILED_PRECONDITION", `${path} ${found}, not ${expected}`, {
    reason: "VersionMismatch",
    hint: "somebody else was faster: read it again, and decide again",
  });
}

/** True if something was deleted, false if it was missing and may be. */
function deleteWithin(
  { tree, access }: Work,
  parsed: Reply<RegistryPath>,
  flags: { readonly recursive: boolean; readonly missingOk: boolean },
): Reply<boolean> {
  if (!parsed.ok) return parsed;
  if (SYSTEM_PATHS.includes(parsed.value)) {
    return fail("FAILED_PRECONDITION", `${parsed.value} cannot be deleted`, {
      hint: `${SYSTEM_PATHS.join(", ")} are part of every registry; delete what is below them`,
    });
  }
  if (tree.get(parsed.value) === undefined) {
    return flags.missingOk ? ok(false) : pathNotFound(tree, parsed.value);
  }
  const allowed = requireDeletion(tree, parsed.value, access, flags.recursive);
  if (!allowed.ok) return allowed;
  if (!flags.recursive && tree.countChildren(parsed.value) > 0) {
    return notEmpty(tree, parsed.value);
  }
  tree.deleteSubtree(parsed.value);
  return ok(true);
}

function notEmpty(tree: RegistryTree, path: RegistryPath): Reply<never> {
  const children = tree.countChildren(path);
  const noun = children === 1 ? "child" : "children";
  return fail("FAILED_PRECONDITION", `${path} has ${children} ${noun}`, {
    reason: "PathIsNotEmptyDirectoryException",
    hint: "delete recursively to delete them too",
  });
}

/** Afterwards the caller may make the path, and its parent exists; or the reply says what fails. */
function prepareCreation(work: Work, path: RegistryPath, createParents: boolean): Reply<undefined> {
  const { tree, access } = work;
  const allowed = requireCreation(tree, path, access);
  if (!allowed.ok) return allowed;
  const parent = parentOf(path);
  if (parent === null || tree.get(parent) !== undefined) return ok();
  if (!createParents) return pathNotFound(tree, parent);
  for (const above of lineage(parent)) {
    if (tree.get(above) === undefined) tree.put(newNode(work, above));
  }
  return ok();
}

function newNode({ tree, access, nowMs }: Work, path: RegistryPath): RegistryNode {
  return { ...bareNode(path, nowMs), ...rightsOfNewNode(tree, path, access) };
}

function nothing(reply: Reply<unknown>): Reply<undefined> {
  return reply.ok ? ok() : reply;
}
