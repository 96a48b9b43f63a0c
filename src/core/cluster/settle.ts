/** What follows by itself when time passes, after every command and by the ResourceManager's alarm. */
import { expireApplications, nextApplicationExpiryMs } from "./application.ts";
import type { Cluster } from "./cluster.ts";
import { expireAllocations, nextExpiryMs, settleDecommissioning } from "./node.ts";
import { nextDecommissionMs } from "./node-administration.ts";

/** Does what is due by now. */
export function settleCluster(cluster: Cluster, nowMs: number): void {
  expireAllocations(cluster, nowMs);
  expireApplications(cluster, nowMs);
  settleDecommissioning(cluster, nowMs);
  cluster.tick(nowMs);
}

/** Epoch ms at which `settleCluster` next has something to do, or null. */
export function nextClusterDeadlineMs(cluster: Cluster): number | null {
  const deadlines = [
    nextExpiryMs(cluster),
    nextApplicationExpiryMs(cluster),
    nextDecommissionMs(cluster),
    cluster.nextTickMs(),
  ].filter((timeMs) => timeMs !== null);
  return deadlines.length === 0 ? null : Math.min(...deadlines);
}
