/** Finds an earlier agent's copies again, and removes whatever of it cannot be used. */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { ApplicationId, ContainerId } from "../../shared/ids.ts";
import { findCopy, keyOfPath } from "./copy-record.ts";
import type { LocalDirectories } from "./local-directories.ts";
import { LocalizedResource } from "./localized-resource.ts";

export type LiveApplication = { readonly user: string; readonly applicationId: ApplicationId };

/** A container that was found again, with what `localize` once answered for it. */
export type InUse = LiveApplication & {
  readonly containerId: ContainerId;
  readonly localized: Readonly<Record<string, string>>;
};

/**
 * All copies that are whole, by path. Gone are half-made ones, those of applications that are
 * over, and second copies of one resource that nobody uses. What a container
 * uses is left alone, whatever it looks like.
 */
export async function recoverCopies(
  directories: LocalDirectories,
  inUse: readonly InUse[],
  liveApplications: ReadonlySet<ApplicationId>,
  bootId: string,
): Promise<Map<string, LocalizedResource>> {
  const usedPaths = new Set(inUse.flatMap(({ localized }) => Object.values(localized)));
  const usedDirectories = new Set([...usedPaths].map((path) => join(path, "..")));
  const keys = new Set([...usedPaths].map(keyOfPath));
  const found = new Map<string, LocalizedResource>();
  for (const { directory, scope } of await directories.cacheDirectories()) {
    if (scope.visibility === "APPLICATION" && !liveApplications.has(scope.applicationId)) {
      await directories.removeApplication(scope.user, scope.applicationId);
      continue;
    }
    for (const name of await readdir(directory).catch(() => [])) {
      const path = join(directory, name);
      const isUsed = usedDirectories.has(path);
      const copy = await findCopy(path, bootId);
      if (copy === undefined || (keys.has(copy.record.key) && !isUsed)) {
        if (!isUsed) await directories.remove(path);
        continue;
      }
      keys.add(copy.record.key);
      const { key, displayUrl, sizeBytes } = copy.record;
      const { path: localized, lastUsedMs } = copy;
      const identity = { key, displayUrl, scope };
      const usable = { path: localized, sizeBytes, lastUsedMs };
      found.set(localized, LocalizedResource.recovered(identity, usable));
    }
  }
  return found;
}
