/**
 * Every property of a node's configuration file: YARN's name where YARN has one, container-executor.cfg's
 * where it stands there, and `selvedge.node.…` for what neither knows. docs/nodes.md shows this table.
 *
 * Defaults are YARN's, with one exception: what lets containers reach out of themselves is closed until
 * the operator opens it.
 */
import {
  decimal,
  type Kind,
  listLike,
  oneOf,
  path,
  paths,
  portRanges,
  textLike,
  trueOrFalse,
  wholeNumber,
} from "./node-configuration-kinds.ts";

export type Property<Value> = {
  readonly name: string;
  /** Other spellings that count, such as those of YARN's documentation. */
  readonly aliases?: readonly string[];
  readonly kind: Kind<Exclude<Value, undefined>>;
  /** Undefined: nothing, or what the machine has. */
  readonly default: Value;
  /** For people; units stand in the kind. */
  readonly meaning: string;
};

function property<Value>(
  name: string,
  kind: Kind<Value>,
  otherwise: NoInfer<Value>,
  meaning: string,
  aliases: readonly string[] = [],
): Property<Value> {
  return {
    name,
    kind: kind as Kind<Exclude<Value, undefined>>,
    default: otherwise,
    meaning,
    aliases,
  };
}

/** Without a default: left out, it is what the machine has, or nothing. */
function optional<Value>(
  name: string,
  kind: Kind<Value>,
  meaning: string,
): Property<Value | undefined> {
  return {
    name,
    kind: kind as Kind<Exclude<Value, undefined>>,
    default: undefined,
    meaning,
  };
}

const NM = "yarn.nodemanager";
const DISKS = `${NM}.disk-health-checker`;
const LCE = `${NM}.linux-container-executor`;
const DOCKER = `${NM}.runtime.linux.docker`;
const OURS = "selvedge.node";

const names = listLike(/^[A-Za-z0-9_.@-]{1,128}$/, "names");
const words = listLike(/^[^\s,]{1,256}$/, "words without blanks");
const addresses = listLike(/^[0-9A-Fa-f:.]+(?:\/\d{1,3})?$/, "IP addresses and CIDR ranges");
const hostAndPort = textLike(/^(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\]):\d{1,5}$/, "host:port");

export const PROPERTIES = {
  memoryMb: property(
    `${NM}.resource.memory-mb`,
    wholeNumber(-1, "MB"),
    -1,
    "memory for containers; -1: 80 % of the machine's",
  ),
  vcores: property(
    `${NM}.resource.cpu-vcores`,
    wholeNumber(-1),
    -1,
    "virtual cores for containers; -1: the machine's CPUs",
  ),
  rack: optional(
    `${OURS}.rack`,
    textLike(/^\/[A-Za-z0-9_./-]{1,255}$/, "a rack such as /rack1"),
    "the node's rack; /default-rack when left out",
  ),
  labels: property(
    `${NM}.node-labels.provider.configured-node-partition`,
    names,
    [],
    "node labels",
  ),
  localDirectories: property(
    `${NM}.local-dirs`,
    paths,
    [],
    "where containers work, one for each disk; {home}/local when left out",
  ),
  logDirectories: property(
    `${NM}.log-dirs`,
    paths,
    [],
    "where their logs lie, one for each disk; {home}/logs when left out",
  ),
  webAddress: optional(
    `${NM}.webapp.address`,
    hostAndPort,
    "NodeManager REST on this machine, with a token; off when left out",
  ),
  monitorIntervalMs: property(
    `${NM}.container-monitor.interval-ms`,
    wholeNumber(100, "ms"),
    3_000,
    "how often containers are looked at",
    [`${NM}.resource-monitor.interval-ms`],
  ),
  pmemCheckEnabled: property(
    `${NM}.pmem-check-enabled`,
    trueOrFalse,
    true,
    "end containers beyond their memory",
  ),
  vmemCheckEnabled: property(
    `${NM}.vmem-check-enabled`,
    trueOrFalse,
    false,
    "end containers beyond their virtual memory (YARN: true; see below)",
  ),
  vmemPmemRatio: property(
    `${NM}.vmem-pmem-ratio`,
    decimal(0.1),
    2.1,
    "virtual memory allowed for each unit of memory",
  ),
  processesMax: property(
    `${OURS}.container.processes-max`,
    wholeNumber(1),
    8_192,
    "processes of one container",
  ),
  diskIntervalMs: property(
    `${NM}.container-log-monitor.interval-ms`,
    wholeNumber(1_000, "ms"),
    60_000,
    "how often the disk use of containers is measured",
  ),
  logMonitorEnabled: property(
    `${NM}.container-log-monitor.enable`,
    trueOrFalse,
    false,
    "end containers whose logs grow too large",
  ),
  logDirectoryBytesMax: property(
    `${NM}.container-log-monitor.dir-size-limit-bytes`,
    wholeNumber(1, "bytes"),
    1_000_000_000,
    "log directory that is too large",
  ),
  logTotalBytesMax: property(
    `${NM}.container-log-monitor.total-size-limit-bytes`,
    wholeNumber(1, "bytes"),
    10_000_000_000,
    "all logs of one container that are too large",
  ),
  logKeptBytes: property(
    `${OURS}.log-rotation.kept-bytes`,
    wholeNumber(-1, "bytes"),
    200_000_000,
    "newest bytes of stdout, and of stderr, that stay while a container runs; -1: all",
  ),
  logRetainSeconds: property(
    `${NM}.log.retain-seconds`,
    wholeNumber(0, "seconds"),
    10_800,
    "how long logs stay after a container is forgotten",
  ),
  logRollSeconds: property(
    `${NM}.log-aggregation.roll-monitoring-interval-seconds`,
    wholeNumber(-1, "seconds"),
    -1,
    "how often logs of running containers are uploaded; -1: only when they end",
  ),
  fetchThreadCount: property(
    `${NM}.localizer.fetch.thread-count`,
    wholeNumber(1, "", 256),
    4,
    "resources that are fetched at a time",
    [`${NM}.localizer.fetch.threadcount`],
  ),
  cacheTargetSizeMb: property(
    `${NM}.localizer.cache.target-size-mb`,
    wholeNumber(0, "MB"),
    10_240,
    "what stays of PUBLIC and PRIVATE resources that nobody uses",
  ),
  localizerFreeDiskMbMin: property(
    `${OURS}.localizer.free-disk-mb-min`,
    wholeNumber(0, "MB"),
    1_024,
    "what localization leaves free on each disk",
  ),
  localizerDownloadMbMax: property(
    `${OURS}.localizer.download-mb-max`,
    wholeNumber(1, "MB"),
    10_240,
    "largest resource",
  ),
  localizerAnswerTimeoutMs: property(
    `${OURS}.localizer.answer-timeout-ms`,
    wholeNumber(100, "ms"),
    60_000,
    "how long a server may take to answer",
  ),
  localizerIdleTimeoutMs: property(
    `${OURS}.localizer.idle-timeout-ms`,
    wholeNumber(100, "ms"),
    60_000,
    "how long a transfer may be silent",
  ),
  localizerResourceTimeoutMs: property(
    `${OURS}.localizer.resource-timeout-ms`,
    wholeNumber(1_000, "ms"),
    3_600_000,
    "how long one resource may take, with all attempts",
  ),
  localizerAttemptsMax: property(
    `${OURS}.localizer.attempts-max`,
    wholeNumber(1, "", 100),
    5,
    "attempts for one resource",
  ),
  allowedHttp: property(
    `${OURS}.allowed.http-resources`,
    trueOrFalse,
    false,
    "users may fetch http: resources",
  ),
  allowedAddresses: property(
    `${OURS}.allowed.resource-addresses`,
    addresses,
    [],
    "users may fetch from these although they are not public",
  ),
  allowedDirectories: property(
    `${OURS}.allowed.resource-directories`,
    paths,
    [],
    "users may read file: resources below these",
  ),
  resourcesUseProxy: property(
    `${OURS}.allowed.resource-proxy`,
    trueOrFalse,
    false,
    "resources come through the agent's HTTP proxy, which then keeps users from your network",
  ),
  allowedExec: property(
    `${OURS}.allowed.exec`,
    trueOrFalse,
    true,
    "users may run programs in their containers: as the container's user, within its limits",
  ),
  allowedForwardPorts: property(
    `${OURS}.allowed.forward-ports`,
    portRanges,
    ["1024-65535"],
    "ports of their containers that users may connect to through the cluster; empty: none",
  ),
  certificateAuthorityFiles: property(
    `${OURS}.localizer.certificate-authority-files`,
    paths,
    [],
    "PEM files of authorities that resources may come from, besides Node's own",
  ),
  healthScripts: property(
    `${NM}.health-checker.scripts`,
    listLike(/^[A-Za-z0-9_-]{1,64}$/, "at most four names"),
    ["script"],
    "names of health scripts; one without a path is not run",
  ),
  healthIntervalMs: property(
    `${NM}.health-checker.interval-ms`,
    wholeNumber(1_000, "ms"),
    600_000,
    "pause between two runs of a health script",
  ),
  healthTimeoutMs: property(
    `${NM}.health-checker.timeout-ms`,
    wholeNumber(1_000, "ms"),
    1_200_000,
    "a health script that takes longer makes the node unhealthy",
  ),
  diskCheckIntervalMs: property(
    `${DISKS}.interval-ms`,
    wholeNumber(1_000, "ms"),
    120_000,
    "how often the disks are looked at",
  ),
  diskUsedPercentMax: property(
    `${DISKS}.max-disk-utilization-per-disk-percentage`,
    decimal(0, "per cent", 100),
    90,
    "a fuller disk is bad",
  ),
  diskUsedPercentLow: optional(
    `${DISKS}.disk-utilization-watermark-low-per-disk-percentage`,
    decimal(0, "per cent", 100),
    "a full disk is good again below it; the maximum when left out",
  ),
  diskFreeMbMin: property(
    `${DISKS}.min-free-space-per-disk-mb`,
    wholeNumber(0, "MB"),
    0,
    "a disk with less is bad",
  ),
  diskHealthyFractionMin: property(
    `${DISKS}.min-healthy-disks`,
    decimal(0, "", 1),
    0.25,
    "with a smaller fraction of good disks the node is unhealthy",
  ),
  deviceScript: optional(
    `${OURS}.devices.script`,
    path,
    "script that names GPUs and other devices; NVIDIA's are looked for when left out",
  ),
  auxiliaryServices: property(
    `${NM}.aux-services`,
    listLike(/^[A-Za-z][A-Za-z0-9_]{0,63}$/, "names of letters, digits and _"),
    [],
    "auxiliary services to run",
  ),
  auxiliaryServicesDirectory: optional(
    `${OURS}.aux-services.directory`,
    path,
    "directory of their modules; root's or the agent's, and nobody else's to write",
  ),
  executor: property(
    `${NM}.container-executor.class`,
    oneOf("DefaultContainerExecutor", "LinuxContainerExecutor"),
    "DefaultContainerExecutor",
    "Linux…: containers run as users of the machine (the agent is root); Default…: as the agent",
  ),
  localUser: property(
    `${LCE}.nonsecure-mode.local-user`,
    textLike(
      /^(?:[a-z_][a-z0-9_.-]{0,31}\$?|\d{1,10}:\d{1,10})$/,
      "a user of the machine, or uid:gid",
    ),
    "nobody",
    "who runs containers of users that are not mapped; below min.user.id it runs none",
  ),
  limitUsers: property(
    `${LCE}.nonsecure-mode.limit-users`,
    trueOrFalse,
    true,
    "false: users that are not mapped run under their own names",
  ),
  minimumUid: property("min.user.id", wholeNumber(1), 1_000, "lowest uid that runs containers"),
  bannedUsers: property(
    "banned.users",
    names,
    ["root", "bin", "daemon", "sys", "hdfs", "yarn", "mapred"],
    "users that run no containers",
  ),
  runtimes: property(
    `${NM}.runtime.linux.allowed-runtimes`,
    listLike(/^(?:default|docker)$/, "default, docker"),
    ["default"],
    "default: processes; docker: images, by docker, podman or nerdctl",
  ),
  dockerCommand: optional(
    `${OURS}.docker.command`,
    textLike(/^[A-Za-z0-9_./-]+$/, "a command"),
    "the client; the first that works of docker, podman, nerdctl when left out",
  ),
  dockerImages: property(
    `${OURS}.docker.allowed-images`,
    words,
    [],
    "patterns of images that users may run; * is any text",
  ),
  dockerNetworks: property(
    `${DOCKER}.allowed-container-networks`,
    words,
    [],
    "networks that users may choose (YARN: host,none,bridge)",
  ),
  dockerReadOnlyMounts: property(
    "docker.allowed.ro-mounts",
    paths,
    [],
    "directories that users may mount for reading",
  ),
  dockerReadWriteMounts: property(
    "docker.allowed.rw-mounts",
    paths,
    [],
    "directories that users may mount for writing",
  ),
  dockerPrivilegedAllowed: property(
    `${DOCKER}.privileged-containers.allowed`,
    trueOrFalse,
    false,
    "privileged containers may be run at all",
  ),
  dockerPrivilegedUsers: property(
    `${DOCKER}.privileged-containers.acl`,
    names,
    [],
    "who may run them",
  ),
  dockerCapabilities: property(
    `${DOCKER}.capabilities`,
    listLike(/^[A-Z_]+$/, "capabilities such as NET_BIND_SERVICE"),
    [],
    "capabilities that containers get; YARN's default is none here",
  ),
  dockerPullAlways: property(
    `${DOCKER}.image-update`,
    trueOrFalse,
    false,
    "pull an image before each launch, not only when it is missing",
  ),
  dockerReadOnlyRoot: property(
    `${OURS}.docker.read-only-root`,
    trueOrFalse,
    false,
    "images cannot be written to",
  ),
  dockerInit: property(`${OURS}.docker.init`, trueOrFalse, false, "a small init reaps zombies"),
  strictCpu: property(
    `${LCE}.cgroups.strict-resource-usage`,
    trueOrFalse,
    false,
    "vcores are a hard quota of docker containers",
  ),
  rlimitNofile: optional(
    `${OURS}.rlimit.nofile`,
    wholeNumber(64),
    "open files of a process; the agent's own limit when left out",
  ),
  rlimitNproc: property(
    `${OURS}.rlimit.nproc`,
    wholeNumber(64),
    16_384,
    "processes of one user of the machine",
  ),
  rlimitCore: property(`${OURS}.rlimit.core`, wholeNumber(0, "bytes"), 0, "core dumps"),
} as const;

/** Properties with a name of the operator's inside; `*` stands for it. */
export const FAMILIES = {
  resourceTypes: `${NM}.resource-type.*`,
  attributes: `${OURS}.attribute.*`,
  healthScriptPath: `${NM}.health-checker.*.path`,
  healthScriptArguments: `${NM}.health-checker.*.opts`,
  healthScriptIntervalMs: `${NM}.health-checker.*.interval-ms`,
  healthScriptTimeoutMs: `${NM}.health-checker.*.timeout-ms`,
  auxiliaryServicePath: `${NM}.aux-services.*.path`,
  auxiliaryServiceConfiguration: `${NM}.aux-services.*.configuration.*`,
  userMapping: `${OURS}.user-mapping.*`,
} as const;

/** YARN's properties that people bring along and that change nothing here, and why. */
export const WITHOUT_EFFECT: Readonly<Record<string, string>> = {
  [`${NM}.address`]: "a node's name is given by --node-id, and it listens on no port",
  [`${NM}.hostname`]: "a node's name is given by --node-id",
  [`${NM}.localizer.address`]: "localization needs no port here",
  [`${DISKS}.enable`]: "disks are always watched",
  [`${NM}.recovery.enabled`]: "containers always survive the agent",
  [`${NM}.recovery.dir`]: "the state lies in the node's home (--home)",
  [`${NM}.recovery.supervised`]: "containers always survive the agent",
  [`${NM}.sleep-delay-before-sigkill.ms`]: "each application says it with its launch",
  [`${NM}.env-whitelist`]: "the list is fixed; see docs/nodes.md",
  [`${NM}.delete.debug-delay-sec`]: "directories go when the container is forgotten",
  [`${NM}.localizer.cache.cleanup.interval-ms`]: "fixed: every 10 minutes",
  [`${NM}.resource-plugins`]:
    "devices are named by selvedge.node.devices.script; NVIDIA's are found",
  [`${NM}.pluggable-device-framework.enabled`]: "selvedge.node.devices.script alone decides",
  [`${NM}.pluggable-device-framework.device-classes`]:
    "Java classes do not run; a script names devices: selvedge.node.devices.script",
  [`${NM}.resource.detect-hardware-capabilities`]: "what is not configured is always detected",
  [`${NM}.linux-container-executor.group`]: "there is no setuid binary",
  [`${NM}.linux-container-executor.path`]: "there is no setuid binary",
};
