/**
 * The agent's front door: `startNodeManager` wires one NodeManager to its cluster. The process that
 * calls it (`selvedge node start`) decides when to close it. Stopping the agent leaves its
 * containers running unless it is told otherwise.
 */
import { join } from "node:path";
import packageJson from "../../package.json" with { type: "json" };
import { EXIT } from "../shared/container.ts";
import type { Failure, Reply } from "../shared/errors.ts";
import { isNodeId, type NodeId } from "../shared/ids.ts";
import type { NodeFacts } from "../shared/node.ts";
import type { NodeQuery } from "../shared/protocol/node-query.ts";
import type { Resource } from "../shared/resource.ts";
import { AgentHome, openHome } from "./agent-home.ts";
import type { ApplicationService } from "./applications.ts";
import { Cgroups } from "./cgroups.ts";
import { ContainerLauncher } from "./container-launcher.ts";
import { ContainerLogs } from "./container-logs.ts";
import type { ContainerExecutors } from "./container-runtime.ts";
import { ContainersMonitor, type MonitorOptions } from "./containers-monitor.ts";
import { DeviceService } from "./device-service.ts";
import { discoverDevices } from "./devices.ts";
import { NewerFormatError } from "./durable-records.ts";
import { type ExecutorsOptions, openExecutors } from "./executors.ts";
import { findCredential, joinCluster, mayJoinLater, type NodeCredential } from "./join.ts";
import {
  ResourceLocalizationService,
  type ResourceLocalizationServiceOptions,
} from "./localization/resource-localization-service.ts";
import { createLog, type Log, messageOf } from "./log.ts";
import { type LogAggregationOptions, LogAggregationService } from "./log-aggregation.ts";
import type { LogRotationOptions } from "./log-rotation.ts";
import { LogUploader } from "./log-uploader.ts";
import { type NodeConfiguration, parseNodeConfigurationText } from "./node-configuration.ts";
import { startOptionsOf } from "./node-configuration-options.ts";
import { NodeManager } from "./node-manager.ts";
import { detectCapability, detectIps, hostOf } from "./node-resource.ts";
import { NodeServices, type NodeServicesOptions } from "./node-services.ts";
import { NodeStatusUpdater, type UpdaterTimings } from "./node-status-updater.ts";
import type { OsUsers } from "./os-users.ts";
import { packageFetcher } from "./package-fetcher.ts";
import { PortAllocator } from "./port-allocator.ts";
import { readBootId } from "./process-table.ts";
import { useProxies } from "./proxy.ts";
import { StateStore } from "./state-store.ts";
import { ContainerStreams } from "./streams/container-streams.ts";
import { DEFAULT_ALLOWED, type StreamAllowList } from "./streams/stream-allow-list.ts";
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
  /** Pauses before it joins again, when the cluster was away. */
  readonly joinRetryDelaysMs?: readonly number[];
  /** `/default-rack` unless told otherwise. */
  readonly rack?: string;
  readonly labels?: readonly string[];
  readonly attributes?: Readonly<Record<string, string>>;
  /** Detected unless told otherwise: 80 % of the memory, all cores. */
  readonly capability?: Resource;
  /** False: no control groups; memory is watched instead. */
  readonly cgroups?: boolean;
  readonly stopContainersOnExit?: boolean;
  /** `yarn.nodemanager.local-dirs` and `…log-dirs`; directories of the home when left out. */
  readonly localDirectories?: readonly string[];
  readonly logDirectories?: readonly string[];
  readonly localization?: Pick<
    ResourceLocalizationServiceOptions,
    "limits" | "allowances" | "fetchPackage" | "readerGroup"
  >;
  /** Where containers run beside processes of the node. */
  readonly executors?: Omit<ContainerExecutors, "process">;
  /** False: processes of the node are not launched, only images. */
  readonly allowsProcesses?: boolean;
  /** As whom containers run, with which limits, in which images; left out: as the agent, in none. */
  readonly confinement?: Pick<ExecutorsOptions, "users" | "rlimits" | "docker">;
  /** Says which GPUs and other devices the machine has; without it NVIDIA's are looked for. */
  readonly deviceScript?: string;
  /** Auxiliary services, log aggregation and the like, beside the node's own. */
  readonly applicationServices?: readonly ApplicationService[];
  readonly logAggregation?: Pick<LogAggregationOptions, "rollIntervalMs">;
  readonly logRotation?: Pick<LogRotationOptions, "keptBytes">;
  /** What users may do in their containers from outside; exec, and ports from 1024 on, when left out. */
  readonly allowedStreams?: StreamAllowList;
  /** Limits of the disks, and the operator's scripts. */
  readonly health?: NodeServicesOptions["health"];
  readonly auxiliaryServices?: NodeServicesOptions["auxiliaryServices"];
  /** The NodeManager's REST on a port of the machine; none when left out. */
  readonly web?: NodeServicesOptions["web"];
  /** Answers what is asked of the node, such as `GET /ws/v1/node/info`, instead of its REST. */
  readonly onQuery?: (query: NodeQuery) => Promise<Reply<unknown>>;
  /** TCP port of the NodeManager's own web service; 0 when it has none. */
  readonly httpPort?: number;
  /** Tells the machine's present start from earlier ones; asked of the kernel when left out. */
  readonly bootId?: string;
  /** How long logs are kept after a container is forgotten (3 h). */
  readonly logRetentionMs?: number;
  readonly log?: Log;
  /** How often memory is looked at where no control group limits it (3 s). */
  readonly monitorIntervalMs?: number;
  readonly monitor?: Partial<MonitorOptions>;
  readonly timings?: UpdaterTimings;
  /** What is given besides it wins. */
  readonly configuration?: NodeConfiguration;
};

/** For the command, which loads the agent only through this file. */
export { type NodeConfiguration, parseNodeConfigurationText };

export type RunningNodeManager = {
  readonly nodeId: NodeId;
  /**
   * Stops the agent; its containers run on unless `stopContainersOnExit`. With `drainTimeoutMs`,
   * nothing new is taken, and the agent goes when all containers have ended, or when the time is
   * over. May be called twice.
   */
  close(more?: { readonly drainTimeoutMs?: number }): Promise<void>;
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

/**
 * Resolves as soon as the agent runs, connected or not. Rejects with a NodeManagerError; with a
 * ProblemError when it cannot join.
 */
export async function startNodeManager(
  given: StartNodeManagerOptions,
): Promise<RunningNodeManager> {
  useProxies(process.env);
  const configured =
    given.configuration && (await startOptionsOf(given.configuration, process.env));
  const options = { ...(configured && unwrap(configured)), ...given };
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
  const home = new AgentHome(options.home, {
    local: options.localDirectories,
    logs: options.logDirectories,
  });
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
  const credential = await obtainCredential(options, home, log);
  const cgroups = options.cgroups === false ? undefined : Cgroups.detect(nodeId);
  const devices = await DeviceService.open({
    devices: unwrap(await discoverDevices(options.deviceScript)),
    directory: join(home.state, "devices"),
    resourceOf: (containerId) => nodeManager.find(containerId)?.record.resource,
    log,
  });
  const facts = nodeFacts(options, devices.counts);
  const bootId = options.bootId ?? readBootId();
  const confined =
    options.confinement &&
    unwrap(
      await openExecutors({
        ...options.confinement,
        ...{ nodeId, home, bootId, log },
        devicesOf: (containerId) => devices.pathsOf(containerId),
      }),
    );
  let presentCredential = credential;
  const localization = new ResourceLocalizationService({
    readerGroup: confined?.users && groupOf(confined.users),
    fetchPackage: packageFetcher(url, () => presentCredential),
    ...options.localization,
    localDirectories: home.localDirectories,
    log,
    nowMs: Date.now,
  });
  const logs = await ContainerLogs.open({
    keptBytes: options.logRotation?.keptBytes,
    home,
    storedTo: (...file) => logAggregation.storedTo(...file),
    log,
    nowMs: Date.now,
  });
  const logAggregation: LogAggregationService = new LogAggregationService({
    ...options.logAggregation,
    home: home.directory,
    uploader: new LogUploader(url, () => presentCredential, logs.keptFrom),
    log,
    nowMs: Date.now,
  });
  const monitor = new ContainersMonitor(log, {
    ...options.monitor,
    ...(options.monitorIntervalMs === undefined ? {} : { intervalMs: options.monitorIntervalMs }),
    lookAtLogs: (containerId) => logs.look(containerId),
  });
  const nodeServices: NodeServices = new NodeServices({
    ...{ facts, home, logs, monitor, log },
    ...{ health: options.health, auxiliaryServices: options.auxiliaryServices, web: options.web },
    node: () => nodeManager,
    healthChanged: (health) => nodeManager.setHealth(health),
  });
  const streams = new ContainerStreams({
    ...{ nodeId, clusterUrl: url, credential: () => presentCredential, monitor, log },
    allowed: options.allowedStreams ?? DEFAULT_ALLOWED,
    find: (containerId) => nodeManager.find(containerId),
  });
  const nodeManager = new NodeManager({
    facts,
    applicationServices: [
      devices,
      streams,
      ...nodeServices.applicationServices,
      ...(options.applicationServices ?? []),
      logAggregation,
    ],
    areLogsNeeded: (containerId) => logAggregation.isPending(containerId),
    onQuery:
      options.onQuery ??
      ((query) =>
        query.type === "open-stream" ? streams.open(query) : nodeServices.answer(query)),
    services: {
      nodeId,
      clusterUrl: url,
      host: facts.host,
      ips: detectIps(nodeId),
      home,
      store: new StateStore(home.state, log),
      verifier: new TokenVerifier(nodeId, Date.now),
      executors: {
        ...(confined?.executors ?? { process: new ContainerLauncher(home.state, bootId) }),
        ...options.executors,
      },
      allowsProcesses: options.allowsProcesses ?? true,
      localization,
      bootId,
      httpPort: options.httpPort ?? options.web?.port ?? 0,
      ...{ monitor, logs },
      metaData: () => nodeServices.metaData(),
      environment: { ...process.env },
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
        try {
          presentCredential = (await joinWith(options, home, joinToken, log)).credential;
          joinToken = undefined;
          return presentCredential;
        } catch (error) {
          log({ event: "join", outcome: messageOf(error), again: mayJoinLater(error) });
          if (!mayJoinLater(error)) joinToken = undefined;
          return undefined;
        }
      },
    },
    log,
    options.timings,
  );

  let closing: Promise<void> | undefined;
  const { promise: closed, resolve: resolveClosed } = Promise.withResolvers<string | undefined>();
  const end = async (drainTimeoutMs: number | undefined) => {
    if (drainTimeoutMs !== undefined) {
      const isEmpty = await nodeManager.drain(drainTimeoutMs);
      log({ event: "agent.drained", outcome: isEmpty ? "ok" : "time is over", nodeId });
    }
    if (options.stopContainersOnExit) {
      const diagnostics = `Container killed: the agent of node ${nodeId} was stopped.`;
      await nodeManager.stopContainers(EXIT.ABORTED, diagnostics);
    }
    await streams.close();
    await updater.close(options.stopContainersOnExit ? { type: "unregister" } : undefined);
    await nodeManager.close();
    await nodeServices.close();
    await logAggregation.close();
    await logs.close();
    cgroups?.close();
    unlock();
    log({ event: "agent.stopped", outcome: "ok", nodeId });
  };
  const close = (reason?: string, drainTimeoutMs?: number) => {
    closing ??= end(drainTimeoutMs).then(() => resolveClosed(reason));
    return closing;
  };

  try {
    unwrap(await nodeServices.start());
    await recover(nodeManager);
  } catch (error) {
    await nodeServices.close();
    throw error;
  }
  await logAggregation.start();
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
  return { nodeId, close: (more) => close(undefined, more?.drainTimeoutMs), closed };
}

async function recover(nodeManager: NodeManager): Promise<void> {
  try {
    await nodeManager.recover();
  } catch (error) {
    if (!(error instanceof NewerFormatError)) throw error;
    const { message } = error;
    const hint = "run that agent again, or a later one";
    throw new NodeManagerError({ code: "FAILED_PRECONDITION", message, hint });
  }
}

async function obtainCredential(
  options: StartNodeManagerOptions,
  home: AgentHome,
  log: Log,
): Promise<string> {
  const { credential, joinToken, url, nodeId } = options;
  if (credential !== undefined) return credential;
  const stored = findCredential(home, url, nodeId, Date.now());
  if (stored) return stored.credential;
  if (joinToken !== undefined) {
    return (await joinWith(options, home, joinToken, log)).credential;
  }
  throw new NodeManagerError({
    code: "UNAUTHENTICATED",
    message: `node ${nodeId} has no credential for ${url}`,
    hint: "give it a join token of that cluster",
  });
}

function joinWith(
  { url, nodeId, joinRetryDelaysMs }: StartNodeManagerOptions,
  home: AgentHome,
  joinToken: string,
  log: Log,
): Promise<NodeCredential> {
  return joinCluster(home, url, nodeId, joinToken, { log, retryDelaysMs: joinRetryDelaysMs });
}

/** Resources are readable by the user's own group, where containers run as their users. */
function groupOf(users: OsUsers): (user: string) => number | undefined {
  return (user) => {
    const found = users.resolve(user);
    return found.ok ? found.value.gid : undefined;
  };
}

function nodeFacts(
  options: StartNodeManagerOptions,
  devices: Readonly<Record<string, number>>,
): NodeFacts {
  const capability = options.capability ?? detectCapability();
  const extra = { ...devices, ...capability.extra };
  return {
    nodeId: options.nodeId,
    host: hostOf(options.nodeId),
    rack: options.rack ?? "/default-rack",
    capability: Object.keys(extra).length > 0 ? { ...capability, extra } : capability,
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
