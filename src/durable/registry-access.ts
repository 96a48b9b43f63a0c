/**
 * From who says to ask (RegistrySession) to what has been proven (RegistryAccess): the part of the
 * registry's access control that needs cryptography, and so time. Digests are read from the tree
 * before the wait and named by their hashes after it: an ACL that changes meanwhile decides.
 */
import { digestsToProve, type RegistryAccess } from "../core/registry/access-control.ts";
import type { RegistryTree } from "../core/registry/tree.ts";
import { fail, ok, type Reply } from "../shared/errors.ts";
import { LIMITS } from "../shared/limits.ts";
import type {
  RegistryAccessor,
  RegistryCaller,
  RegistrySession,
  RegistryWrite,
} from "../shared/protocol/registry-operations.ts";
import { parsePath } from "../shared/registry-path.ts";
import { isDigestOf, makeDigest } from "./digest.ts";

/**
 * What the session may call its own for these writes. Fails when they would make the registry check
 * more digests than one request may, and for a container whose path is none.
 */
export async function proveAccess(
  tree: RegistryTree,
  { caller, accessors }: RegistrySession,
  writes: readonly RegistryWrite[],
  systemAccounts: ReadonlySet<string>,
): Promise<Reply<RegistryAccess>> {
  const known = knownCaller(caller, systemAccounts);
  if (!known.ok) return known;
  const ids = accessors.map(({ id }) => id);
  const digests = ids.length === 0 ? [] : digestsToProve(tree, writes, ids);
  const most = LIMITS.registryDigestChecksPerRequestMax;
  if (digests.length > most) {
    return fail("INVALID_ARGUMENT", `the request needs more than ${most} digests to be checked`, {
      hint: "write to paths of one publisher at a time",
    });
  }
  const proven = new Set<string>();
  for (const digest of digests) {
    for (const { id, password } of accessors) {
      if (!digest.startsWith(`${id}:`)) continue;
      if (await isDigestOf(digest, password)) proven.add(digest);
    }
  }
  const grants = (write: RegistryWrite) =>
    write.op === "mknode" ||
    write.op === "bind" ||
    (write.op === "set-acl" && write.add.length > 0);
  // Who has proven nothing at all makes nothing: a stranger must not cost the time of a new digest.
  const isStranger = caller.kind === "anonymous" && proven.size === 0;
  const isGranting = !isStranger && writes.some(grants);
  const held = isGranting ? await digestsOf(accessors, proven) : [];
  return ok({ caller: known.value, proven: new Set([...proven, ...held]), accessors: held });
}

/** Administrators, and the accounts that the deployment names, are the system accounts. */
export function systemAccountsOf(setting: string | undefined): ReadonlySet<string> {
  const names = (setting ?? "").split(",").map((name) => name.trim());
  return new Set(names.filter((name) => name !== ""));
}

function knownCaller(
  caller: RegistryCaller,
  systemAccounts: ReadonlySet<string>,
): Reply<RegistryCaller> {
  switch (caller.kind) {
    case "user":
      return ok({ ...caller, admin: caller.admin || systemAccounts.has(caller.user) });
    case "container": {
      const path = parsePath(caller.path);
      return path.ok ? ok({ ...caller, path: path.value }) : path;
    }
    case "service":
    case "anonymous":
      return ok(caller);
  }
}

/** For each accessor a digest that its holder has proven, or else a new one. */
async function digestsOf(
  accessors: readonly RegistryAccessor[],
  proven: ReadonlySet<string>,
): Promise<readonly string[]> {
  const digests: string[] = [];
  for (const { id, password } of accessors) {
    const known = [...proven].find((digest) => digest.startsWith(`${id}:`));
    digests.push(known ?? (await makeDigest(id, password)));
  }
  return digests;
}
