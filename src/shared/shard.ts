/** Which tracker shard a node belongs to: a stable hash, so that it never depends on who asks. */
import type { NodeId } from "./ids.ts";

/** FNV-1a over the id's characters. `shards` is a cluster setting, 1 by default. */
export function shardOf(nodeId: NodeId, shards: number): string {
  let hash = 0x811c9dc5;
  for (let index = 0; index < nodeId.length; index += 1) {
    hash = Math.imul(hash ^ nodeId.charCodeAt(index), 0x01000193) >>> 0;
  }
  return String(hash % Math.max(1, shards));
}
