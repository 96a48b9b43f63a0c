/**
 * What the ResourceManager does for the registry (Hadoop's RMRegistryOperationsService): records go
 * with what they are bound to, and a user who submits has a home. All of it may be said twice.
 */
import { type ContainerId, encodeYarnId } from "../../shared/ids.ts";
import type { YarnEnd } from "../../shared/protocol/registry-operations.ts";
import { componentPath, type RegistryPath } from "../../shared/registry-path.ts";
import type { Cluster } from "./cluster.ts";

/** The oldest ends that the registry has not purged yet, as many as go into one call. */
export function endsToPurge(cluster: Cluster): readonly YarnEnd[] {
  const [oldest] = [...cluster.purges.values()].sort((a, b) => a.page - b.page);
  return oldest?.ended ?? [];
}

/** The registry has purged these; what has ended since then stays to be said. */
export function endsPurged(cluster: Cluster, purged: readonly YarnEnd[]): void {
  const ids = new Set(purged.map(({ yarnId }) => yarnId));
  for (const { page, ended } of [...cluster.purges.values()]) {
    const left = ended.filter(({ yarnId }) => !ids.has(yarnId));
    if (left.length === 0) cluster.purges.delete(String(page));
    else if (left.length < ended.length) cluster.purges.put({ page, ended: left });
  }
}

export function usersWithoutHome(cluster: Cluster): readonly string[] {
  return cluster.usersWithoutHome.of("homeless");
}

/** The registry has made these homes, or has decided that they cannot be theirs. */
export function homesMade(cluster: Cluster, users: readonly string[]): void {
  for (const user of users) cluster.users.put({ user, hasHome: true });
}

/** Below which path a container may write; null where it gets no credential. */
export function registryPathOf(cluster: Cluster, containerId: ContainerId): RegistryPath | null {
  const container = cluster.containers.get(containerId);
  const application = container && cluster.applicationOf(container.attemptId);
  if (!application || !cluster.servesRegistry) return null;
  const { user, applicationType, name } = application;
  const path = componentPath(user, applicationType, name, encodeYarnId(containerId));
  return path.ok ? path.value : null;
}

/** Whose container it is, as long as it has not ended. */
export function findLiveContainer(
  cluster: Cluster,
  containerId: ContainerId,
): { readonly user: string } | null {
  const container = cluster.containers.get(containerId);
  if (container === undefined || container.state === "COMPLETED") return null;
  const user = cluster.applicationOf(container.attemptId)?.user;
  return user === undefined ? null : { user };
}
