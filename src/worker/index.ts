/**
 * The Worker's entry: binds the protocols that routes speak to Durable Object stubs, and exports
 * the objects' classes for the runtime. The only file of the edge that knows the platform.
 */
import { domainOf, type Env, isClusterOf, registryReaders, trackerShards } from "../durable/env.ts";
import { LogStore } from "../durable/log-store.ts";
import { serviceMasterName, trackerName } from "../durable/names.ts";
import { PackageStore } from "../durable/package-store.ts";
import type { Registry } from "../durable/registry.ts";
import { watchUrl } from "../durable/registry-watch.ts";
import { NODE_ID_HEADER } from "../durable/resource-tracker.ts";
import { ok, type Reply } from "../shared/errors.ts";
import type { NodeId } from "../shared/ids.ts";
import type {
  RegistryReaderId,
  RegistryWatchListener,
  RegistryWatchMessage,
} from "../shared/protocol/registry-reader.ts";
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
        queryNode: (nodeId, query) => tracker(nodeId).queryNode(nodeId, query),
      },
      registry: env.REGISTRY.getByName(cluster),
      registryWatch: {
        watch: (...watch) => watchRegistry(env.REGISTRY.getByName(cluster), ...watch),
      },
      packages: env.STORE === undefined ? null : new PackageStore(env.STORE, cluster),
      logs: env.STORE === undefined ? null : new LogStore(env.STORE, cluster),
    };
  };
}

/** The socket of one watch, as the protocol has it. */
async function watchRegistry(
  registry: DurableObjectStub<Registry>,
  path: string,
  after: number | null,
  reader: RegistryReaderId,
  listener: RegistryWatchListener,
): Promise<Reply<{ close(): void }>> {
  const headers = { upgrade: "websocket" };
  const response = await registry.fetch(watchUrl(path, after, reader), { headers });
  const { webSocket } = response;
  if (webSocket === null) return response.json();
  webSocket.addEventListener("message", ({ data }) => {
    listener.message(JSON.parse(String(data)) as RegistryWatchMessage);
  });
  let isOpen = true;
  const ended = () => {
    if (isOpen) listener.closed();
    isOpen = false;
  };
  webSocket.addEventListener("close", ended);
  webSocket.addEventListener("error", ended);
  webSocket.accept();
  return ok({
    close() {
      isOpen = false;
      webSocket.close();
    },
  });
}

function settingsOf(env: Env): Settings {
  return {
    isCluster: isClusterOf(env),
    domain: domainOf(env),
    development: env.SELVEDGE_DEVELOPMENT === "true",
    registryReaders: registryReaders(env),
  };
}

/** One app for the isolate's life: bindings never change under it. */
let app: ReturnType<typeof createApp> | undefined;

export default {
  fetch(request, env) {
    app ??= createApp(connectTo(env), settingsOf(env));
    return app.fetch(request);
  },
} satisfies ExportedHandler<Env>;
