/**
 * What a ResourceManager has to say to whom, computed from its rows. Whatever is in the list goes on
 * being in it until the answer was stored.
 */
import type { ApplicationAttemptId, ApplicationId } from "../../shared/ids.ts";
import type { YarnEnd } from "../../shared/protocol/registry-operations.ts";
import type { CleanupOrder, ShutdownOrder } from "../../shared/protocol/resource-tracker.ts";
import type { Cluster } from "./cluster.ts";
import { shutdownOrders, unsentCleanups, untoldFinished } from "./node.ts";
import { endsToPurge, usersWithoutHome } from "./registry-duties.ts";

/** `key` names the peer and the matter: one of them is said once at a time. */
export type ClusterWork = { readonly key: string } & (
  | { readonly type: "wake"; readonly attemptId: ApplicationAttemptId }
  | {
      readonly type: "cleanup";
      readonly shard: string;
      readonly orders: readonly CleanupOrder[];
    }
  | {
      readonly type: "finish";
      readonly shard: string;
      readonly applicationIds: readonly ApplicationId[];
    }
  | {
      readonly type: "shutdown";
      readonly shard: string;
      readonly orders: readonly ShutdownOrder[];
    }
  | { readonly type: "purge"; readonly ended: readonly YarnEnd[] }
  | { readonly type: "homes"; readonly users: readonly string[] }
);

export function clusterWork(cluster: Cluster): readonly ClusterWork[] {
  const work: ClusterWork[] = [];
  for (const attemptId of cluster.attemptsWithNews()) {
    work.push({ key: `wake ${attemptId}`, type: "wake", attemptId });
  }
  for (const [shard, orders] of unsentCleanups(cluster)) {
    work.push({ key: `cleanup ${shard}`, type: "cleanup", shard, orders });
  }
  for (const [shard, applicationIds] of untoldFinished(cluster)) {
    work.push({ key: `finish ${shard}`, type: "finish", shard, applicationIds });
  }
  for (const [shard, orders] of shutdownOrders(cluster)) {
    work.push({ key: `shutdown ${shard}`, type: "shutdown", shard, orders });
  }
  const ended = endsToPurge(cluster);
  if (ended.length > 0) work.push({ key: "purge", type: "purge", ended });
  const users = usersWithoutHome(cluster);
  if (users.length > 0) work.push({ key: "homes", type: "homes", users });
  return work;
}
