/** What this machine has to give: 80 % of its memory and all of its cores, and its addresses. */
import { availableParallelism, networkInterfaces, totalmem } from "node:os";
import type { NodeId } from "../shared/ids.ts";
import type { Resource } from "../shared/resource.ts";

/** The rest is for the operating system and the agent (YARN's share with detected hardware). */
const MEMORY_SHARE = 0.8;

/** Takes a control group's memory limit on the agent for the whole machine, if there is one. */
export function detectCapability(): Resource {
  const constrained = process.constrainedMemory();
  const total = totalmem();
  const bytes = constrained > 0 && constrained < total ? constrained : total;
  return {
    memoryMb: Math.floor((bytes / 1_048_576) * MEMORY_SHARE),
    vcores: availableParallelism(),
  };
}

export function hostOf(nodeId: NodeId): string {
  return nodeId.slice(0, nodeId.lastIndexOf(":"));
}

/** The addresses of the node's containers, best one first; never empty. */
export function detectIps(nodeId: NodeId): string[] {
  const host = hostOf(nodeId);
  if (/^\d+(?:\.\d+){3}$/.test(host)) return [host];
  if (host === "localhost") return ["127.0.0.1"];
  const addresses = Object.values(networkInterfaces()).flatMap((entries) => entries ?? []);
  const reachable = addresses.filter(({ internal, scopeid }) => !internal && !scopeid);
  const byFamily = (family: string) =>
    reachable.filter((entry) => entry.family === family).map(({ address }) => address);
  const ips = [...byFamily("IPv4"), ...byFamily("IPv6")].slice(0, 16);
  return ips.length ? ips : ["127.0.0.1"];
}
