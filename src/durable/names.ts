/**
 * Names of Durable Objects. A name says everything its object must know of itself: the cluster, and
 * for a service its user and name. Elements are registry path elements or lower-case labels, so `/`
 * separates them safely; a user name may hold anything else and is percent-encoded.
 */
import type { NodeId } from "../shared/ids.ts";
import type { MasterName } from "../shared/protocol/container-management.ts";

export function trackerName(cluster: string, shard: string): string {
  return `${cluster}/${shard}`;
}

export function serviceMasterName(cluster: string, user: string, service: string): MasterName {
  return `${cluster}/${encodeURIComponent(user)}/${service}`;
}

export function nodeTunnelName(cluster: string, nodeId: NodeId): string {
  return `${cluster}/${nodeId}`;
}

export function parseNodeTunnelName(name: string): { cluster: string; nodeId: NodeId } {
  const [cluster = "", nodeId = ""] = name.split("/");
  return { cluster, nodeId };
}

export function parseTrackerName(name: string): { cluster: string; shard: string } {
  const [cluster = "", shard = ""] = name.split("/");
  return { cluster, shard };
}

export function parseServiceMasterName(name: MasterName): {
  cluster: string;
  user: string;
  service: string;
} {
  const [cluster = "", user = "", service = ""] = name.split("/");
  return { cluster, user: decodeURIComponent(user), service };
}
