/**
 * The agent's front door: `startNodeManager` wires one NodeManager to its cluster. The process that
 * calls it (`selvedge node start`) decides when to close it. Stopping the agent leaves its
 * containers running unless it is told otherwise.
 */
import packageJson from "../../package.json" with { type: "json" };
import { EXIT } from "../shared/container.ts";
import type { Failure, Reply } from "../shared/errors.ts";
import { isNodeId, type NodeId } from "../shared/ids.ts";
import type { NodeFacts } from "../shared/node.ts";
import type { Resource } from "../shared/resource.ts";
import { type AgentHome, agentHome, openHome } from "./agent-home.ts";
import { Cgroups } from "./cgroups.ts";
import { ContainerLauncher } from "./container-launcher.ts";
import { ContainersMonitor } from "./containers-monitor.ts";
import { findCredential, joinCluster } from "./join.ts";
import { createLog, type Log } from "./log.ts";
import { NodeManager } from "./node-manager.ts";
import { detectCapability, detectIps, hostOf } from "./node-resource.ts";
import { NodeStatusUpdater, type UpdaterTimings } from "./node-status-updater.ts";
import { PortAllocator } from "./port-allocator.ts";
import { StateStore } from "./state-store.ts";
import { TokenVerifier } from "./token-verifier.ts";

export type StartNodeManagerOptions = {
  /** The cluster, such as `https://selvedge.example.com` or `…/clusters/blue`. */
  readonly url: string;
  /** A directory of this agent's own. */
  readonly home: string;
  /** `host:port`; the port only tells several agents of one host apart. */
  readonly nodeId: NodeId;
  /** A node credential. Without one, the stored one is used, or `joinToken` exchanged. */
  readonly credential?: string;
  readonly joinToken?: string;
  /** `/default-rack` unless told otherwise. */
  readonly rack?: string;
  readonly labels?: readonly string[];
  readonly attributes?: Readonly<Record<string, string>>;
  /** Detected unless told otherwise: 80 % of the memory, all cores. */
  readonly capability?: Resource;
  /** False: no control groups; memory is watched instead. */
  readonly cgroups?: boolean;
  readonly stopContainersOnExit?: boolean;
  /** How long logs are kept after a container is forgotten (3 h). */
  readonly logRetentionMs?: number;
  readonly log?: Log;
  /** How often memory is looked at where no control group limits it (3 s). */
  readonly monitorIntervalMs?: number;
  readonly timings?: UpdaterTimings;
};

export type RunningNodeManager = {
  readonly nodeId: NodeId;
  /** Stops the agent; its containers run on unless `stopContainersOnExit`. May be called twice. */
  close(): Promise<void>;
  /** Resolves when the agent has ended, with the tracker's reason when it ordered that. */
  readonly closed: Promise<string | undefined>;
};

/** An expected failure, for the CLI to show: `failure` has the hint. */
export class NodeManagerError extends Error {
  readonly failure: Failure;
  constructor(failure: Failure) {
    super(failure.hint === undefined ? failure.message : `${failure.message} (${failure.hint})`);
    this.name = "NodeManagerError";
    this.failure = failure;
  }
}

/** Resolves as soon as the agent runs, connected or not. Rejects with a NodeManagerError. */
export async function startNodeManager(
  options: StartNodeManagerOptions,
): Promise<RunningNodeManager> {
  if (!isNodeId(options.nodeId)) {
    const message = `"${options.nodeId}" is no node id`;
    const hint = "write host:port, such as worker1.example.com:8041";
    throw new NodeManagerError({ code: "INVALID_ARGUMENT", message, hint });
  }
  if (!/^https?:$/.test(URL.parse(options.url)?.protocol ?? "")) {
    const message = `"${options.url}" is no cluster URL`;
    const hint = "write it with its scheme, such as https://selvedge.example.com";
    throw new NodeManagerError({ code: "INVALID_ARGUMENT", message, hint });
  }
  const home = agentHome(options.home);
  const unlock = unwrap(openHome(home));
  try {
    return await start({ ...options, url: options.url.replace(/\/+$/, "") }, home, unlock);
  } catch (error) {
    unlock();
    throw error;
  }
}

async function start(
  options: StartNodeManagerOptions,
  home: AgentHome,
  unlock: () => void,
): Promise<RunningNodeManager> {
  const { url, nodeId } = options;
  const log = options.log ?? createLog();
  const credential = await obtainCredential(options, home);
  const cgroups = options.cgroups === false ? undefined : Cgroups.detect(nodeId);
  const facts = nodeFacts(options);
  const nodeManager = new NodeManager({
    facts,
    services: {
      nodeId,
      clusterUrl: url,
      host: facts.host,
      ips: detectIps(nodeId),
      home,
      store: new StateStore(home.state, log),
      verifier: new TokenVerifier(nodeId, Date.now),
      launcher: new ContainerLauncher(home.state),
      monitor: new ContainersMonitor(options.monitorIntervalMs),
      ports: new PortAllocator(),
      cgroups,
      log,
      nowMs: Date.now,
    },
    send: (message) => updater.send(message),
    shutdown: (reason) => {
      log({ event: "agent.shutdown", outcome: "ordered by the tracker", reason });
      void close(reason);
    },
    ...(options.logRetentionMs === undefined ? {} : { logRetentionMs: options.logRetentionMs }),
  });
  let joinToken = options.joinToken;
  const updater = new NodeStatusUpdater(
    url,
    credential,
    {
      registration: () => nodeManager.registration(),
      receive: (message, connection) => nodeManager.receive(message, connection),
      isBusy: () => nodeManager.isBusy(),
      renewCredential: async () => {
        // Once for each start: a stored credential may be of a cluster that was made anew.
        if (joinToken === undefined) return undefined;
        const joined = await joinCluster(home, url, nodeId, joinToken);
        joinToken = undefined;
        return joined.ok ? joined.value.credential : undefined;
      },
    },
    log,
    options.timings,
  );

  let closing: Promise<void> | undefined;
  const { promise: closed, resolve: resolveClosed } = Promise.withResolvers<string | undefined>();
  const end = async () => {
    if (options.stopContainersOnExit) {
      const diagnostics = `Container killed: the agent of node ${nodeId} was stopped.`;
      await nodeManager.stopContainers(EXIT.ABORTED, diagnostics);
    }
    await updater.close(options.stopContainersOnExit ? { type: "unregister" } : undefined);
    await nodeManager.close();
    cgroups?.close();
    unlock();
    log({ event: "agent.stopped", outcome: "ok", nodeId });
  };
  const close = (reason?: string) => {
    closing ??= end().then(() => resolveClosed(reason));
    return closing;
  };

  await nodeManager.recover();
  updater.start();
  log({
    event: "agent.started",
    outcome: "ok",
    nodeId,
    url,
    memoryMb: facts.capability.memoryMb,
    vcores: facts.capability.vcores,
    cgroups: cgroups?.description ?? "none",
  });
  return { nodeId, close: () => close(), closed };
}

async function obtainCredential(
  { credential, joinToken, url, nodeId }: StartNodeManagerOptions,
  home: AgentHome,
): Promise<string> {
  if (credential !== undefined) return credential;
  const stored = findCredential(home, url, nodeId, Date.now());
  if (stored) return stored.credential;
  if (joinToken !== undefined) {
    return unwrap(await joinCluster(home, url, nodeId, joinToken)).credential;
  }
  throw new NodeManagerError({
    code: "UNAUTHENTICATED",
    message: `node ${nodeId} has no credential for ${url}`,
    hint: "give it a join token of that cluster",
  });
}

function nodeFacts(options: StartNodeManagerOptions): NodeFacts {
  return {
    nodeId: options.nodeId,
    host: hostOf(options.nodeId),
    rack: options.rack ?? "/default-rack",
    capability: options.capability ?? detectCapability(),
    labels: [...(options.labels ?? [])],
    attributes: { ...options.attributes },
    agentVersion: packageJson.version,
    healthy: true,
    healthReport: "",
  };
}

function unwrap<Value>(reply: Reply<Value>): Value {
  if (!reply.ok) throw new NodeManagerError(reply.error);
  return reply.value;
}
