/**
 * Who may do what in the registry (seed 000 "Security Policy Summary"). Everybody reads. The place of
 * a node grants first: system accounts everything everywhere; a user everything below the home, and
 * on the home itself to create and delete children ("crd"), not to write it or to alter its ACL; a
 * container the same below its component's path. Then the node's ACL adds, entry by entry. Rights
 * are ZooKeeper's: c and d are about children, w about the record, a about the ACL.
 *
 * A home belongs to the user whose name it records, not to whoever's name makes the same element:
 * the path must go on proving who has written what is below it.
 */
import { assert, fail, ok, type Reply } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import type { RegistryCaller, RegistryWrite } from "../../shared/protocol/registry-operations.ts";
import {
  lastElement,
  lineage,
  parentOf,
  parsePath,
  type RegistryPath,
  USERS,
} from "../../shared/registry-path.ts";
import { userPathElement } from "../../shared/registry-user-name.ts";
import type { AclEntry, RegistryNode, RegistryTree } from "./tree.ts";

export const ALL_PERMISSIONS = "rwcda";
const HOME_PERMISSIONS = "rcd";
const READ = "r";

export type Permission = "r" | "w" | "c" | "d" | "a";

/** Who asks, with what it has proven by then. */
export type RegistryAccess = {
  readonly caller: RegistryCaller;
  /** Digest ids as they stand in ACLs, whose passwords the caller has shown. */
  readonly proven: ReadonlySet<string>;
  /** A digest id for each accessor that the caller holds: what the nodes it makes will carry. */
  readonly accessors: readonly string[];
};

/** The cluster's own objects. */
export const CLUSTER_ACCESS: RegistryAccess = {
  caller: { kind: "service" },
  proven: new Set(),
  accessors: [],
};

/** `/users/joe` of everything from there down; null elsewhere. */
export function homeOf(path: RegistryPath): RegistryPath | null {
  if (!path.startsWith(`${USERS}/`)) return null;
  const end = path.indexOf("/", USERS.length + 1);
  return end === -1 ? path : path.slice(0, end);
}

/** A home that records no owner belongs to the user whose name is its element, letter by letter. */
export function ownerOfHome(tree: RegistryTree, home: RegistryPath): string {
  return tree.get(home)?.owner ?? lastElement(home);
}

/** What the place of an existing path grants, as letters of "rwcda". */
export function permissionsByPlace(
  tree: RegistryTree,
  path: RegistryPath,
  { caller }: RegistryAccess,
): string {
  const home = homeOf(path);
  switch (caller.kind) {
    case "service": {
      const isForeign =
        caller.user !== undefined && home !== null && ownerOfHome(tree, home) !== caller.user;
      return isForeign ? READ : ALL_PERMISSIONS;
    }
    case "user":
      if (caller.admin) return ALL_PERMISSIONS;
      if (home === null || ownerOfHome(tree, home) !== caller.user) return READ;
      return path === home ? HOME_PERMISSIONS : ALL_PERMISSIONS;
    case "container":
      if (path === caller.path) return HOME_PERMISSIONS;
      return path.startsWith(`${caller.path}/`) ? ALL_PERMISSIONS : READ;
    case "anonymous":
      return READ;
  }
}

/** Whether the caller has the right on a node. */
export function may(
  tree: RegistryTree,
  { path, acl }: Pick<RegistryNode, "path" | "acl">,
  access: RegistryAccess,
  permission: Permission,
): boolean {
  if (permissionsByPlace(tree, path, access).includes(permission)) return true;
  return acl.some((entry) => entry.permissions.includes(permission) && isOf(entry, access));
}

function isOf(entry: AclEntry, { caller, proven }: RegistryAccess): boolean {
  switch (entry.scheme) {
    case "user":
      return caller.kind === "user" && caller.user === entry.id;
    case "container":
      return caller.kind === "container" && caller.containerId === entry.id;
    case "digest":
      return proven.has(entry.id);
  }
}

export function requirePermission(
  tree: RegistryTree,
  node: RegistryNode,
  access: RegistryAccess,
  permission: Permission,
): Reply<undefined> {
  return may(tree, node, access, permission) ? ok() : refuse(tree, node.path, access, permission);
}

/**
 * Whether the caller may make a path that is missing, with whatever is missing above it. Beside the
 * right c on the nearest path that exists, a user may make its own home, and a container its own
 * component's path in the home of its user.
 */
export function requireCreation(
  tree: RegistryTree,
  path: RegistryPath,
  access: RegistryAccess,
): Reply<undefined> {
  const line = lineage(path);
  const missing = line.findIndex((each) => tree.get(each) === undefined);
  const first = line[missing] ?? path;
  const nearest = line[missing - 1] ?? path;
  const { caller } = access;
  if (nearest === USERS && (caller.kind === "user" || caller.kind === "service")) {
    const isOwn = isHomeElement(first, caller.user);
    if (isOwn || (caller.kind === "service" && caller.user === undefined)) return ok();
    if (caller.kind === "service") return refuse(tree, nearest, access, "c");
  }
  const isOwnComponent =
    caller.kind === "container" &&
    homeOf(nearest) !== null &&
    (path === caller.path || path.startsWith(`${caller.path}/`));
  return isOwnComponent ? ok() : requirePermission(tree, existing(tree, nearest), access, "c");
}

/** Whether a path may be deleted: d on its parent and, recursively, on all that have children. */
export function requireDeletion(
  tree: RegistryTree,
  path: RegistryPath,
  access: RegistryAccess,
  recursive: boolean,
): Reply<undefined> {
  const parent = existing(tree, parentOf(path) ?? path);
  const allowed = requirePermission(tree, parent, access, "d");
  // What the place grants, it grants to everything below as well.
  const isByPlace = permissionsByPlace(tree, path, access) === ALL_PERMISSIONS;
  if (!allowed.ok || !recursive || isByPlace) return allowed;
  const subtree = boundedSubtree(tree, path);
  if (subtree === null) {
    const most = LIMITS.registryRecursiveDeleteNodesMax;
    return fail("INVALID_ARGUMENT", `${path} has more than ${most} paths below it`, {
      hint: "delete what is below it in parts",
    });
  }
  for (const each of subtree) {
    if (tree.countChildren(each) === 0 || may(tree, existing(tree, each), access, "d")) continue;
    return refuse(tree, each, access, "d");
  }
  return ok();
}

function existing(tree: RegistryTree, path: RegistryPath): RegistryNode {
  const node = tree.get(path);
  assert(node !== undefined, `${path} exists`);
  return node;
}

/** The path and all below it; null when that is more than the limit. */
function boundedSubtree(tree: RegistryTree, path: RegistryPath): readonly RegistryPath[] | null {
  const found = [path];
  for (const at of found) {
    const room = LIMITS.registryRecursiveDeleteNodesMax - found.length;
    const names = tree.children(at, { limit: room + 1 });
    if (names.length > room) return null;
    found.push(...names.map((name) => `${at}/${name}`));
  }
  return found;
}

/**
 * Owner, ACL and life of a node that the caller makes: its accessors, and itself where the place
 * does not grant everything anyway. No node is ever writable by everybody.
 */
export function rightsOfNewNode(
  tree: RegistryTree,
  path: RegistryPath,
  access: RegistryAccess,
): Pick<RegistryNode, "owner" | "acl" | "boundTo"> {
  const { caller, accessors } = access;
  const nobody = { owner: null, acl: [], boundTo: null };
  if (homeOf(path) === path) {
    const user = caller.kind === "user" || caller.kind === "service" ? caller.user : undefined;
    return user !== undefined && isHomeElement(path, user) ? { ...nobody, owner: user } : nobody;
  }
  if (caller.kind === "container" && path === caller.path) {
    // It ends with the container, whoever publishes the container's record there later.
    return { ...nobody, boundTo: { yarnId: caller.containerId, persistence: "container" } };
  }
  if (caller.kind === "container" && caller.path.startsWith(`${path}/`)) return nobody;
  const acl = accessors.map((id) => grantAll("digest", id));
  const hasAll = permissionsByPlace(tree, path, access) === ALL_PERMISSIONS;
  if (!hasAll && caller.kind === "user") acl.push(grantAll("user", caller.user));
  if (!hasAll && caller.kind === "container") {
    acl.push(grantAll("container", caller.containerId));
  }
  return { ...nobody, acl };
}

function grantAll(scheme: AclEntry["scheme"], id: string): AclEntry {
  return { scheme, id, permissions: ALL_PERMISSIONS };
}

function isHomeElement(home: RegistryPath, user: string | undefined): boolean {
  if (user === undefined) return false;
  const element = userPathElement(user);
  return element.ok && element.value === lastElement(home);
}

/**
 * The digest ids in the ACLs that decide about these writes, of accessors with these ids. At most
 * one more than the limit of checks is answered.
 */
export function digestsToProve(
  tree: RegistryTree,
  writes: readonly RegistryWrite[],
  accessorIds: readonly string[],
): readonly string[] {
  const found = new Set<string>();
  const seen = new Set<RegistryPath>();
  const look = (path: RegistryPath) => {
    if (seen.has(path)) return;
    seen.add(path);
    for (const entry of tree.get(path)?.acl ?? []) {
      const isHeld = accessorIds.includes(entry.id.slice(0, entry.id.indexOf(":")));
      if (entry.scheme === "digest" && isHeld) found.add(entry.id);
    }
  };
  for (const write of writes) {
    const path = parsePath(write.path);
    if (!path.ok) continue;
    for (const each of lineage(path.value)) look(each);
    if (write.op === "delete" && write.recursive) {
      for (const each of boundedSubtree(tree, path.value) ?? []) look(each);
    }
    if (found.size > LIMITS.registryDigestChecksPerRequestMax) break;
  }
  return [...found].slice(0, LIMITS.registryDigestChecksPerRequestMax + 1);
}

const DOING: Readonly<Record<Permission, string>> = {
  r: "read",
  w: "change the record of",
  c: "create paths below",
  d: "delete paths below",
  a: "see or change the ACL of",
};

export function refuse(
  tree: RegistryTree,
  path: RegistryPath,
  { caller }: RegistryAccess,
  permission: Permission,
): Reply<never> {
  const home = homeOf(path);
  const whose =
    home === null
      ? `${path} belongs to the system accounts`
      : `${home} is the home of user ${ownerOfHome(tree, home)}`;
  const message = `${nameOf(caller)} may not ${DOING[permission]} ${path}`;
  return fail("PERMISSION_DENIED", message, {
    reason: "NoPathPermissionsException",
    hint: `the missing right: ${permission} on ${path}; ${whose}`,
  });
}

function nameOf(caller: RegistryCaller): string {
  switch (caller.kind) {
    case "service":
      return caller.user === undefined ? "the cluster" : `a service of user ${caller.user}`;
    case "user":
      return `user ${caller.user}`;
    case "container":
      return `container ${caller.containerId}`;
    case "anonymous":
      return "the holder of these accessors";
  }
}
