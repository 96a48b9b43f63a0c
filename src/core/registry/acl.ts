/** A node's ACL as its owner sees and changes it (seed 000 "Security"). */
import { fail, ok, type Reply } from "../../shared/errors.ts";
import { isContainerId } from "../../shared/ids.ts";
import { LIMITS } from "../../shared/limits.ts";
import { isUserName } from "../../shared/names.ts";
import type {
  AclGrant,
  AclSubject,
  RegistryAcl,
} from "../../shared/protocol/registry-operations.ts";
import { quote } from "../../shared/registry-path-element.ts";
import {
  ALL_PERMISSIONS,
  homeOf,
  may,
  ownerOfHome,
  type RegistryAccess,
  refuse,
  requirePermission,
} from "./access-control.ts";
import { getNode } from "./registry.ts";
import type { AclEntry, RegistryNode, RegistryTree } from "./tree.ts";

/** For whoever may change it, and for the owner of the home it is in. Fails with NoPathPermissions. */
export function getAcl(
  tree: RegistryTree,
  path: string,
  access: RegistryAccess,
): Reply<RegistryAcl> {
  const node = getNode(tree, path);
  if (!node.ok) return node;
  const home = homeOf(node.value.path);
  const { caller } = access;
  const isOwner =
    home !== null && caller.kind === "user" && ownerOfHome(tree, home) === caller.user;
  if (!isOwner && !may(tree, node.value, access, "a")) {
    return refuse(tree, node.value.path, access, "a");
  }
  return ok(shownAcl(tree, node.value));
}

/**
 * Removes and adds entries of an existing node's ACL; an added one replaces that of the same
 * subject. Needs the right a. Fails with InvalidAclException for what is not an entry.
 */
export function setAcl(
  tree: RegistryTree,
  path: string,
  change: { readonly add: readonly AclGrant[]; readonly remove: readonly AclSubject[] },
  access: RegistryAccess,
): Reply<RegistryAcl> {
  const found = getNode(tree, path);
  if (!found.ok) return found;
  const node = found.value;
  const allowed = requirePermission(tree, node, access, "a");
  if (!allowed.ok) return allowed;
  const gone = new Set([...change.remove, ...change.add].map(subjectKey));
  const acl = node.acl.filter((entry) => !gone.has(subjectKey(shownEntry(entry))));
  for (const grant of change.add) {
    const entry = entryOf(grant, access);
    if (!entry.ok) return entry;
    acl.push(entry.value);
  }
  if (acl.length > LIMITS.aclEntriesPerNodeMax) {
    const most = LIMITS.aclEntriesPerNodeMax;
    return invalidAcl(node.path, `has ${acl.length} entries; at most ${most}`);
  }
  const changed: RegistryNode = { ...node, acl };
  tree.put(changed);
  return ok(shownAcl(tree, changed));
}

function subjectKey({ scheme, id }: AclSubject): string {
  return `${scheme}:${id}`;
}

/** Without the hash of a digest, which nobody needs to see. */
function shownEntry({ scheme, id, permissions }: AclEntry): AclGrant {
  return { scheme, id: scheme === "digest" ? id.slice(0, id.indexOf(":")) : id, permissions };
}

function shownAcl(tree: RegistryTree, { path, acl }: RegistryNode): RegistryAcl {
  const home = homeOf(path);
  const owner = home === null ? [] : [implied("user", ownerOfHome(tree, home), home === path)];
  return {
    path,
    entries: [
      { scheme: "world", id: "anyone", permissions: "r", implied: true },
      { scheme: "system", id: "accounts", permissions: ALL_PERMISSIONS, implied: true },
      ...owner,
      ...acl.map((entry) => ({ ...shownEntry(entry), implied: false })),
    ],
  };
}

function implied(scheme: "user", id: string, isHome: boolean) {
  return { scheme, id, permissions: isHome ? "rcd" : ALL_PERMISSIONS, implied: true };
}

function entryOf(grant: AclGrant, access: RegistryAccess): Reply<AclEntry> {
  const { scheme, id } = grant;
  const letters = [...ALL_PERMISSIONS].filter((letter) => grant.permissions.includes(letter));
  const permissions = letters.join("");
  if (letters.length === 0 || letters.length !== grant.permissions.length) {
    return invalidAcl(
      `${scheme}:${id}`,
      `grants ${quote(grant.permissions)}, not letters of rwcda`,
    );
  }
  switch (scheme) {
    case "user":
      return isUserName(id) ? ok({ scheme, id, permissions }) : invalidAcl(quote(id), "is no user");
    case "container":
      return isContainerId(id)
        ? ok({ scheme, id, permissions })
        : invalidAcl(quote(id), "is no container id");
    case "digest": {
      const held = access.accessors.find((digest) => digest.startsWith(`${id}:`));
      if (held !== undefined) return ok({ scheme, id: held, permissions });
      return invalidAcl(quote(id), "is not among the accessors of this request");
    }
  }
}

function invalidAcl(what: string, message: string): Reply<never> {
  return fail("INVALID_ARGUMENT", `the ACL entry ${what} ${message}`, {
    reason: "InvalidAclException",
    hint: "an entry is user:NAME:PERMISSIONS, container:ID:PERMISSIONS or digest:ACCESSOR:PERMISSIONS",
  });
}
