/**
 * The Worker's entry: binds the protocols that routes speak to Durable Object stubs, and exports
 * the objects' classes for the runtime. The only file of the edge that knows the platform.
 */
import {
  clusterNames,
  domainOf,
  type Env,
  isClusterOf,
  registryReaders,
  trackerShards,
} from "../durable/env.ts";
import { LogStore } from "../durable/log-store.ts";
import { nodeTunnelName, serviceMasterName, trackerName } from "../durable/names.ts";
import { joinRequest, openRequest } from "../durable/node-tunnel.ts";
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
import { parseNetSetting } from "./registry-net.ts";
import { keepRecent } from "./registry-recent.ts";

export { NodeTunnel } from "../durable/node-tunnel.ts";
export { Registry } from "../durable/registry.ts";
export { ResourceManager } from "../durable/resource-manager.ts";
export { ResourceTracker } from "../durable/resource-tracker.ts";
export { ServiceMaster } from "../durable/service-master.ts";

function connectTo(env: Env): Connect {
  return (cluster) => {
    const tracker = (nodeId: NodeId) =>
      env.RESOURCE_TRACKER.getByName(trackerName(cluster, shardOf(nodeId, trackerShards(env))));
    // Looked up when they are asked for: most requests need one object or none.
    return {
      get resourceManager() {
        return env.RESOURCE_MANAGER.getByName(cluster);
      },
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
      streams: {
        open: (nodeId, opening) => enterTunnel(env, cluster, nodeId, openRequest(opening)),
        join: (nodeId, streamId, secret) =>
          enterTunnel(env, cluster, nodeId, joinRequest(streamId, secret)),
      },
      get registry() {
        return env.REGISTRY.getByName(cluster);
      },
      registryWatch: {
        watch: (...watch) => watchRegistry(env.REGISTRY.getByName(cluster), ...watch),
      },
      packages: env.STORE === undefined ? null : new PackageStore(env.STORE, cluster),
      logs: env.STORE === undefined ? null : new LogStore(env.STORE, cluster),
    };
  };
}

/** The handshake's answer, or why there is no socket. */
async function enterTunnel(
  env: Env,
  cluster: string,
  nodeId: NodeId,
  request: Request,
): Promise<Reply<Response>> {
  const response = await env.NODE_TUNNEL.getByName(nodeTunnelName(cluster, nodeId)).fetch(request);
  return response.webSocket === null ? response.json() : ok(response);
}

/**
 * The socket of one watch, as the protocol has it. Watches do not share one: it would end with the
 * request that has opened it, and none of the others would be told.
 */
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
    listener.message(readWatchMessage(String(data)));
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

/** Watchers of one path hear the same, one after the other: it is read once. */
let lastMessage: { readonly text: string; readonly message: RegistryWatchMessage } | undefined;

function readWatchMessage(text: string): RegistryWatchMessage {
  if (lastMessage?.text !== text) {
    lastMessage = { text, message: JSON.parse(text) as RegistryWatchMessage };
  }
  return lastMessage.message;
}

function settingsOf(env: Env): Settings {
  return {
    isCluster: isClusterOf(env),
    domain: domainOf(env),
    development: env.SELVEDGE_DEVELOPMENT === "true",
    registryReaders: registryReaders(env),
    net: { clusters: clusterNames(env), remotes: parseNetSetting(env.SELVEDGE_NET) },
    command: { url: env.SELVEDGE_COMMAND_URL, sha256: env.SELVEDGE_COMMAND_SHA256 },
  };
}

/** One application for the isolate's life: bindings never change under it. */
let answer:
  | ((request: Request, later: ExecutionContext) => Response | Promise<Response>)
  | undefined;

function createAnswer(env: Env) {
  const settings = settingsOf(env);
  const { fetch } = createApp(connectTo(env), settings);
  const application = (request: Request) => fetch(request);
  if (settings.registryReaders !== "anybody") return application;
  return keepRecent(application, (cluster) =>
    settings.isCluster(cluster) ? env.REGISTRY.getByName(cluster) : null,
  );
}

export default {
  fetch(request, env, context) {
    answer ??= createAnswer(env);
    return answer(request, context);
  },
} satisfies ExportedHandler<Env>;
