/**
 * The Worker's entry: binds the protocols that routes speak to Durable Object stubs, and exports
 * the objects' classes for the runtime. The only file of the edge that knows the platform.
 */
import { type Env, isClusterOf, trackerShards } from "../durable/env.ts";
import { serviceMasterName, trackerName } from "../durable/names.ts";
import { NODE_ID_HEADER } from "../durable/resource-tracker.ts";
import type { NodeId } from "../shared/ids.ts";
import { shardOf } from "../shared/shard.ts";
import { createApp } from "./app.ts";
import type { Connect, Settings } from "./protocols.ts";

export { Registry } from "../durable/registry.ts";
export { ResourceManager } from "../durable/resource-manager.ts";
export { ResourceTracker } from "../durable/resource-tracker.ts";
export { ServiceMaster } from "../durable/service-master.ts";

function connectTo(env: Env): Connect {
  return (cluster) => {
    const tracker = (nodeId: NodeId) =>
      env.RESOURCE_TRACKER.getByName(trackerName(cluster, shardOf(nodeId, trackerShards(env))));
    return {
      resourceManager: env.RESOURCE_MANAGER.getByName(cluster),
      serviceMaster: (user, service) =>
        env.SERVICE_MASTER.getByName(serviceMasterName(cluster, user, service)),
      nodes: {
        connect(nodeId, request) {
          const headers = new Headers({ upgrade: "websocket", [NODE_ID_HEADER]: nodeId });
          return tracker(nodeId).fetch(request.url, { headers });
        },
        heartbeat: (nodeId, messages) => tracker(nodeId).heartbeat(nodeId, messages),
        readLog: (request) => tracker(request.nodeId).readLog(request),
      },
      registry: env.REGISTRY.getByName(cluster),
    };
  };
}

function settingsOf(env: Env): Settings {
  return { isCluster: isClusterOf(env), development: env.SELVEDGE_DEVELOPMENT === "true" };
}

/** One app for the isolate's life: bindings never change under it. */
let app: ReturnType<typeof createApp> | undefined;

export default {
  fetch(request, env) {
    app ??= createApp(connectTo(env), settingsOf(env));
    return app.fetch(request);
  },
} satisfies ExportedHandler<Env>;
