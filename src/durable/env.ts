/** The bindings and settings of a deployment (wrangler.toml, secrets), as the objects see them. */
import type { Registry } from "./registry.ts";
import type { ResourceManager } from "./resource-manager.ts";
import type { ResourceTracker } from "./resource-tracker.ts";
import type { ServiceMaster } from "./service-master.ts";

export type Env = {
  readonly RESOURCE_MANAGER: DurableObjectNamespace<ResourceManager>;
  readonly RESOURCE_TRACKER: DurableObjectNamespace<ResourceTracker>;
  readonly SERVICE_MASTER: DurableObjectNamespace<ServiceMaster>;
  readonly REGISTRY: DurableObjectNamespace<Registry>;
  /** Lets a deployer choose the claim code; without it the cluster makes one and logs it once. */
  readonly SELVEDGE_CLAIM_CODE?: string;
  /** "true" only where the Worker is bound to loopback (`npm start`). */
  readonly SELVEDGE_DEVELOPMENT?: string;
  /** Tracker shards of a cluster; "1" when not set. May not be changed while nodes are connected. */
  readonly SELVEDGE_TRACKER_SHARDS?: string;
  /** The deployment's clusters, separated by commas; "default" when not set. "*" is any: then
   * whoever can reach the Worker can make it create objects, which cost. */
  readonly SELVEDGE_CLUSTERS?: string;
  /** DNS domain of the registry's names; "selvedge.internal" when not set. */
  readonly SELVEDGE_DOMAIN?: string;
};

export function trackerShards(env: Env): number {
  const shards = Number(env.SELVEDGE_TRACKER_SHARDS ?? "1");
  return Number.isInteger(shards) && shards >= 1 ? shards : 1;
}

export function isClusterOf(env: Env): (name: string) => boolean {
  const names = (env.SELVEDGE_CLUSTERS ?? "default").split(",").map((name) => name.trim());
  const clusters = new Set(names);
  return (name) => clusters.has(name) || clusters.has("*");
}

export function domainOf(env: Env): string {
  return env.SELVEDGE_DOMAIN ?? "selvedge.internal";
}
