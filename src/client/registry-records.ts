/**
 * What Java has in RegistryUtils beside the paths (those are in shared/registry-path.ts, and
 * `encodeYarnId` in shared/ids.ts): many records at once, and whose they are.
 */

import type { RegistryPathStatus, ServiceRecordDocument } from "../shared/registry.ts";
import { homePathForUser } from "../shared/registry-path.ts";
import type { Http } from "./http.ts";
import { ProblemError } from "./problem-error.ts";
import type { RegistryClient } from "./registry.ts";
import { securityClient } from "./security.ts";

type Reader = Pick<RegistryClient, "list" | "resolve" | "stat">;

/** Requests under way at a time: a directory may have thousands of children. */
const CONCURRENCY = 8;

/** Short name → status of every child; one that goes meanwhile is left out. */
export async function statChildren(
  registry: Reader,
  path: string,
): Promise<ReadonlyMap<string, RegistryPathStatus>> {
  const names = await registry.list(path);
  const statuses = await unlessGone(names, (name) => registry.stat(below(path, name)));
  return new Map(statuses);
}

/** Full path → record of the named children that have one. */
export async function extractServiceRecords(
  registry: Reader,
  path: string,
  names: Iterable<string>,
): Promise<ReadonlyMap<string, ServiceRecordDocument>> {
  const paths = Array.from(names, (name) => below(path, name));
  return new Map(await unlessGone(paths, (each) => registry.resolve(each)));
}

/** Full path → record of all direct children that have one. */
export async function listServiceRecords(
  registry: Reader,
  path: string,
): Promise<ReadonlyMap<string, ServiceRecordDocument>> {
  return extractServiceRecords(registry, path, await registry.list(path));
}

/** The YARN user whose token the connection has. */
export async function currentUser(http: Http): Promise<string> {
  return (await securityClient(http).whoami()).user;
}

/** `/users/{user}` of the user whose token the connection has. */
export async function homePathForCurrentUser(http: Http): Promise<string> {
  const home = homePathForUser(await currentUser(http));
  if (home.ok) return home.value;
  throw new ProblemError(home.error, { origin: "answer" });
}

function below(path: string, name: string): string {
  return `${path.replace(/\/$/, "")}/${name}`;
}

/** In the order of `keys`; what is missing, or has no record, is left out. */
async function unlessGone<Value>(
  keys: readonly string[],
  read: (key: string) => Promise<Value>,
): Promise<readonly (readonly [string, Value])[]> {
  const found = new Map<string, Value>();
  const waiting = keys.values();
  const work = async () => {
    for (const key of waiting) {
      try {
        found.set(key, await read(key));
      } catch (error) {
        if (!(error instanceof ProblemError) || error.failure.code !== "NOT_FOUND") throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, work));
  return keys.flatMap((key) => {
    const value = found.get(key);
    return value === undefined ? [] : [[key, value] as const];
  });
}
