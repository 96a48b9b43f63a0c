/** How the parts of a simulated cluster find each other. */
import type { SimulatedRegistry } from "./registry.ts";
import type { SimulatedResourceManager } from "./resource-manager.ts";
import type { SimulatedServiceMaster } from "./service-master.ts";
import type { SimulatedTracker } from "./tracker.ts";

export type Peers = {
  readonly resourceManager: SimulatedResourceManager;
  readonly registry: SimulatedRegistry;
  readonly shards: number;
  tracker(shard: string): SimulatedTracker | undefined;
  master(name: string): SimulatedServiceMaster | undefined;
};
