/** From a node's configuration to the options of each module, one function for each. */
import { readFile } from "node:fs/promises";
import { fail, ok, type Reply } from "../shared/errors.ts";
import type { Resource } from "../shared/resource.ts";
import type { AuxiliaryServicesOptions } from "./auxiliary-services.ts";
import type { MonitorOptions } from "./containers-monitor.ts";
import type { DockerAllowList } from "./docker/allow-list.ts";
import type { DockerHardening } from "./docker/create-arguments.ts";
import type { DockerCliOptions } from "./docker/docker-cli.ts";
import type { PullPolicy } from "./docker/docker-images.ts";
import type { ExecutorsOptions } from "./executors.ts";
import type { NodeHealthCheckerOptions } from "./health/node-health-checker.ts";
import type { LocalizationLimits } from "./localization/localization-limits.ts";
import type { SourceAllowances } from "./localization/resource-source.ts";
import { messageOf } from "./log.ts";
import type { LogAggregationOptions } from "./log-aggregation.ts";
import type { LogRotationOptions } from "./log-rotation.ts";
import type { StartNodeManagerOptions } from "./main.ts";
import type { NodeConfiguration } from "./node-configuration.ts";
import { detectCapability } from "./node-resource.ts";
import type { NodeWebServerOptions } from "./node-web-server.ts";
import type { OsUsersOptions } from "./os-users.ts";
import { effectiveRlimits, type Rlimits } from "./rlimits.ts";
import { parsePortRange, type StreamAllowList } from "./streams/stream-allow-list.ts";

const DETECTED = -1;

/** What an agent is started with; options that are given besides win. */
export async function startOptionsOf(
  configuration: NodeConfiguration,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<Reply<Partial<StartNodeManagerOptions>>> {
  const allowances = await sourceAllowancesOf(configuration, environment);
  if (!allowances.ok) return allowances;
  const { rack, labels, attributes, localDirectories, logDirectories, deviceScript } =
    configuration;
  const auxiliaryServices = auxiliaryServicesOptionsOf(configuration);
  const web = webServerOptionsOf(configuration);
  return ok({
    ...(rack === undefined ? {} : { rack }),
    ...(deviceScript === undefined ? {} : { deviceScript }),
    labels,
    attributes,
    capability: capabilityOf(configuration),
    localDirectories,
    logDirectories,
    localization: { limits: localizationLimitsOf(configuration), allowances: allowances.value },
    monitor: monitorOptionsOf(configuration),
    health: healthOptionsOf(configuration),
    ...(auxiliaryServices ? { auxiliaryServices } : {}),
    ...(web ? { web } : {}),
    confinement: confinementOf(configuration),
    allowsProcesses: configuration.runtimes.includes("default"),
    logRetentionMs: configuration.logRetainSeconds * 1_000,
    logAggregation: logAggregationOptionsOf(configuration),
    logRotation: logRotationOptionsOf(configuration),
    allowedStreams: allowedStreamsOf(configuration),
  });
}

export function allowedStreamsOf({
  allowedExec,
  allowedForwardPorts,
}: NodeConfiguration): StreamAllowList {
  return {
    exec: allowedExec,
    forwardPorts: allowedForwardPorts.flatMap((range) => parsePortRange(range) ?? []),
  };
}

/** What is not configured is detected. */
export function capabilityOf(configuration: NodeConfiguration): Resource {
  const { memoryMb, vcores, resourceTypes } = configuration;
  const detected = detectCapability();
  return {
    memoryMb: memoryMb === DETECTED ? detected.memoryMb : memoryMb,
    vcores: vcores === DETECTED ? detected.vcores : vcores,
    ...(Object.keys(resourceTypes).length > 0 ? { extra: resourceTypes } : {}),
  };
}

export function monitorOptionsOf(configuration: NodeConfiguration): Partial<MonitorOptions> {
  const { logMonitorEnabled, logDirectoryBytesMax, logTotalBytesMax } = configuration;
  return {
    intervalMs: configuration.monitorIntervalMs,
    pmemCheckEnabled: configuration.pmemCheckEnabled,
    vmemCheckEnabled: configuration.vmemCheckEnabled,
    vmemPmemRatio: configuration.vmemPmemRatio,
    processesMax: configuration.processesMax,
    diskIntervalMs: configuration.diskIntervalMs,
    ...(logMonitorEnabled
      ? { logLimits: { directoryBytesMax: logDirectoryBytesMax, totalBytesMax: logTotalBytesMax } }
      : {}),
  };
}

export function localizationLimitsOf(configuration: NodeConfiguration): LocalizationLimits {
  return {
    fetchThreadCount: configuration.fetchThreadCount,
    cacheTargetSizeMb: configuration.cacheTargetSizeMb,
    freeDiskMbMin: configuration.localizerFreeDiskMbMin,
    downloadMbMax: configuration.localizerDownloadMbMax,
    answerTimeoutMs: configuration.localizerAnswerTimeoutMs,
    idleTimeoutMs: configuration.localizerIdleTimeoutMs,
    resourceTimeoutMs: configuration.localizerResourceTimeoutMs,
    attemptsMax: configuration.localizerAttemptsMax,
  };
}

/** Fails when a file of certificates cannot be read. `environment` is the agent's own. */
export async function sourceAllowancesOf(
  configuration: NodeConfiguration,
  environment: Readonly<Record<string, string | undefined>>,
): Promise<Reply<SourceAllowances>> {
  const certificateAuthorities: string[] = [];
  for (const file of configuration.certificateAuthorityFiles) {
    const certificates = await readCertificates(file);
    if (!certificates.ok) return certificates;
    certificateAuthorities.push(certificates.value);
  }
  return ok({
    http: configuration.allowedHttp,
    addresses: configuration.allowedAddresses,
    directories: configuration.allowedDirectories,
    certificateAuthorities,
    proxyEnvironment: configuration.resourcesUseProxy ? environment : undefined,
  });
}

async function readCertificates(file: string): Promise<Reply<string>> {
  try {
    const text = await readFile(file, "utf8");
    if (text.includes("-----BEGIN CERTIFICATE-----")) return ok(text);
    return fail("INVALID_ARGUMENT", `${file} holds no certificate in PEM form`);
  } catch (error) {
    return fail("INVALID_ARGUMENT", `cannot read certificates: ${messageOf(error)}`);
  }
}

export function logAggregationOptionsOf({
  logRollSeconds,
}: NodeConfiguration): Pick<LogAggregationOptions, "rollIntervalMs"> {
  return logRollSeconds > 0 ? { rollIntervalMs: logRollSeconds * 1_000 } : {};
}

export function logRotationOptionsOf({
  logKeptBytes,
}: NodeConfiguration): Pick<LogRotationOptions, "keptBytes"> {
  return { keptBytes: logKeptBytes < 0 ? undefined : logKeptBytes };
}

/** Disks and scripts. */
export function healthOptionsOf(
  configuration: NodeConfiguration,
): Pick<NodeHealthCheckerOptions, "disks" | "diskIntervalMs" | "scripts"> {
  const { diskUsedPercentMax, diskUsedPercentLow } = configuration;
  return {
    disks: {
      usedPercentMax: diskUsedPercentMax,
      usedPercentLow: Math.min(diskUsedPercentLow ?? diskUsedPercentMax, diskUsedPercentMax),
      freeMbMin: configuration.diskFreeMbMin,
      healthyFractionMin: configuration.diskHealthyFractionMin,
    },
    diskIntervalMs: configuration.diskCheckIntervalMs,
    scripts: configuration.healthScripts,
  };
}

/** Undefined when there are none. */
export function auxiliaryServicesOptionsOf(
  configuration: NodeConfiguration,
): Pick<AuxiliaryServicesOptions, "directory" | "services"> | undefined {
  const { auxiliaryServices: services, auxiliaryServicesDirectory: directory } = configuration;
  return services.length > 0 && directory !== undefined ? { directory, services } : undefined;
}

export function confinementOf(
  configuration: NodeConfiguration,
): Pick<ExecutorsOptions, "users" | "rlimits" | "docker"> {
  const users = osUsersOptionsOf(configuration);
  const docker = dockerSettingsOf(configuration);
  const rlimits = rlimitsOf(configuration);
  return { rlimits, ...(users ? { users } : {}), ...(docker ? { docker } : {}) };
}

/** Undefined when containers run as the agent's own user. */
export function osUsersOptionsOf(
  configuration: NodeConfiguration,
): Omit<OsUsersOptions, "roots" | "passwd"> | undefined {
  if (configuration.executor !== "LinuxContainerExecutor") return undefined;
  return {
    mapping: configuration.userMapping,
    localUser: configuration.localUser,
    byOwnName: !configuration.limitUsers,
    minimumUid: configuration.minimumUid,
    banned: configuration.bannedUsers,
  };
}

export function rlimitsOf({ rlimitNofile, rlimitNproc, rlimitCore }: NodeConfiguration): Rlimits {
  return effectiveRlimits({
    ...(rlimitNofile === undefined ? {} : { nofile: rlimitNofile }),
    nproc: rlimitNproc,
    core: rlimitCore,
  });
}

export type DockerSettings = {
  readonly cli: DockerCliOptions;
  readonly allowed: DockerAllowList;
  readonly hardening: DockerHardening;
  readonly pullPolicy: PullPolicy;
};

/** Undefined when this node runs no images. */
export function dockerSettingsOf(configuration: NodeConfiguration): DockerSettings | undefined {
  if (!configuration.runtimes.includes("docker")) return undefined;
  const { dockerCommand, dockerPrivilegedAllowed, dockerPrivilegedUsers } = configuration;
  return {
    cli: dockerCommand === undefined ? {} : { command: dockerCommand },
    allowed: {
      images: configuration.dockerImages,
      networks: configuration.dockerNetworks,
      readOnlyMounts: configuration.dockerReadOnlyMounts,
      readWriteMounts: configuration.dockerReadWriteMounts,
      privilegedUsers: dockerPrivilegedAllowed ? dockerPrivilegedUsers : [],
    },
    hardening: {
      capabilities: configuration.dockerCapabilities,
      readOnlyRoot: configuration.dockerReadOnlyRoot,
      init: configuration.dockerInit,
      pidsMax: configuration.processesMax,
      strictCpu: configuration.strictCpu,
      rlimits: rlimitsOf(configuration),
    },
    pullPolicy: configuration.dockerPullAlways ? "always" : "missing",
  };
}

/** Undefined when the node has no web service of its own. */
export function webServerOptionsOf({
  webAddress,
}: NodeConfiguration): Omit<NodeWebServerOptions, "tokenFile"> | undefined {
  if (webAddress === undefined) return undefined;
  const at = webAddress.lastIndexOf(":");
  return {
    address: webAddress.slice(0, at).replace(/^\[|\]$/g, ""),
    port: Number(webAddress.slice(at + 1)),
  };
}
