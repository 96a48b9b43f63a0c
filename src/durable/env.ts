/** The bindings and settings of a deployment (wrangler.toml, secrets), as the objects see them. */
import { DEFAULT_DOMAIN } from "../shared/dns.ts";
import type { NodeTunnel } from "./node-tunnel.ts";
import type { Registry } from "./registry.ts";
import type { ResourceManager } from "./resource-manager.ts";
import type { ResourceTracker } from "./resource-tracker.ts";
import type { ServiceMaster } from "./service-master.ts";

export type Env = {
  readonly RESOURCE_MANAGER: DurableObjectNamespace<ResourceManager>;
  readonly RESOURCE_TRACKER: DurableObjectNamespace<ResourceTracker>;
  readonly NODE_TUNNEL: DurableObjectNamespace<NodeTunnel>;
  readonly SERVICE_MASTER: DurableObjectNamespace<ServiceMaster>;
  readonly REGISTRY: DurableObjectNamespace<Registry>;
  /** Packages and aggregated logs; absent in a deployment without R2. */
  readonly STORE?: R2Bucket;
  /** Lets a deployer choose the claim code; without it the cluster makes one and logs it once. */
  readonly SELVEDGE_CLAIM_CODE?: string;
  /** "true" only where the Worker is bound to loopback (`npm start`). */
  readonly SELVEDGE_DEVELOPMENT?: string;
  /** Tracker shards of a cluster; "1" when not set. May not be changed while nodes are connected. */
  readonly SELVEDGE_TRACKER_SHARDS?: string;
  /** The deployment's clusters, separated by commas; "default" when not set. "*" is any: then
   * whoever can reach the Worker can make it create objects, which cost. */
  readonly SELVEDGE_CLUSTERS?: string;
  /** Users who may write anywhere in the registry, separated by commas, beside administrators. */
  readonly SELVEDGE_SYSTEM_ACCOUNTS?: string;
  /** "authenticated": reading the registry over HTTP needs a user's token; else anybody reads. */
  readonly SELVEDGE_REGISTRY_READERS?: string;
  /** "false": the ResourceManager does nothing for the registry (`hadoop.registry.rm.enabled`): no
   * record is purged at an end, no home is made, no container gets a credential. */
  readonly SELVEDGE_REGISTRY_RM_ENABLED?: string;
  /** Registries of other deployments, shown below `/net`: `name=URL`, separated by commas. */
  readonly SELVEDGE_NET?: string;
  /** Where `install.sh` gets the command, and what its SHA-256 is. */
  readonly SELVEDGE_COMMAND_URL?: string;
  readonly SELVEDGE_COMMAND_SHA256?: string;
  /** DNS domain of the registry's names; "selvedge.internal" when not set. */
  readonly SELVEDGE_DOMAIN?: string;
};

export function trackerShards(env: Env): number {
  const shards = Number(env.SELVEDGE_TRACKER_SHARDS ?? "1");
  return Number.isInteger(shards) && shards >= 1 ? shards : 1;
}

export function isClusterOf(env: Env): (name: string) => boolean {
  const clusters = new Set(settingOfClusters(env));
  return (name) => clusters.has(name) || clusters.has("*");
}

/** Those that are named, without "*". */
export function clusterNames(env: Env): readonly string[] {
  return settingOfClusters(env).filter((name) => name !== "*" && name !== "");
}

function settingOfClusters(env: Env): readonly string[] {
  return (env.SELVEDGE_CLUSTERS ?? "default").split(",").map((name) => name.trim());
}

export function domainOf(env: Env): string {
  const domain = (env.SELVEDGE_DOMAIN ?? "").trim().toLowerCase().replace(/\.$/, "");
  return domain === "" ? DEFAULT_DOMAIN : domain;
}

/** Anything but "anybody" and nothing at all is taken for a wish to close, and closes. */
export function registryReaders(env: Env): "anybody" | "authenticated" {
  const setting = env.SELVEDGE_REGISTRY_READERS ?? "anybody";
  return setting === "anybody" ? "anybody" : "authenticated";
}

/** `hadoop.registry.rm.enabled`; on unless it is said to be "false". */
export function servesRegistry(env: Env): boolean {
  return env.SELVEDGE_REGISTRY_RM_ENABLED !== "false";
}
