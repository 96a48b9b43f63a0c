/** What is set for the whole cluster: sizes, application counts, locality, labels, preemption. */
import { LIMITS } from "../../shared/limits.ts";
import type { Resource } from "../../shared/resource.ts";
import { quote } from "../../shared/validation.ts";
import {
  DEFAULT_CONFIGURATION,
  DEFAULT_PREEMPTION,
  type PreemptionConfiguration,
  type SchedulerConfiguration,
} from "./configuration.ts";
import {
  decimal,
  flag,
  fraction,
  listOf,
  oneOf,
  type Parsed,
  type PropertyGroup,
  parseDecimal,
  recordOf,
  type ValueParser,
  wholeNumber,
} from "./property-values.ts";

export type ClusterSettings = {
  readonly configuration: Omit<SchedulerConfiguration, "root" | "mappingRules" | "mappingOverride">;
  /** For queues that say nothing themselves. */
  readonly defaults: {
    readonly maximumAmResourceFraction: number;
    readonly maxParallelApplications: number;
    readonly minimumUserLimit: number;
    readonly userLimitFactor: number;
    /** Seconds that a dynamic leaf stays empty before it is removed. */
    readonly queueExpirationSeconds: number;
  };
};

const INT_MAX = 2_147_483_647;
const count = wholeNumber(0, INT_MAX);
const amount = wholeNumber(1, LIMITS.resourceAmountMax);
const DEFAULTS = DEFAULT_CONFIGURATION;
export const percentage = decimal(0, 100, "percent");

/** For the amounts of a maximum that names only others. */
export const UNLIMITED: Resource = {
  memoryMb: LIMITS.resourceAmountMax,
  vcores: LIMITS.resourceAmountMax,
};

export const userLimitFactor: ValueParser<number> = (text) =>
  parseDecimal(text) === -1
    ? { value: -1 }
    : decimal(0, INT_MAX, "-1 (no limit) or a factor")(text);

/** `cluster` holds what stands below `yarn.scheduler.capacity.`, `elsewhere` all other properties. */
export function readClusterSettings(
  cluster: PropertyGroup,
  elsewhere: PropertyGroup,
): ClusterSettings {
  const minimumAllocation = readMinimumAllocation(elsewhere);
  return {
    configuration: {
      minimumAllocation,
      maximumAllocation: readMaximumAllocation(elsewhere, minimumAllocation),
      ...readApplicationLimits(cluster, elsewhere),
      ...readLocality(cluster),
      nodeLabels: readNodeLabels(elsewhere),
      preemption: readPreemption(elsewhere),
    },
    defaults: {
      maximumAmResourceFraction: cluster.read("maximum-am-resource-percent", fraction, 0.1),
      maxParallelApplications: cluster.read("max-parallel-apps", count, INT_MAX),
      minimumUserLimit: cluster.read("minimum-user-limit-percent", percentage, 100) / 100,
      userLimitFactor: cluster.read("user-limit-factor", userLimitFactor, 1),
      queueExpirationSeconds: cluster.read(
        "auto-queue-creation-v2.queue-expiration-time",
        wholeNumber(1, LIMITS.lifetimeSecondsMax, "seconds"),
        300,
      ),
    },
  };
}

function readMinimumAllocation(elsewhere: PropertyGroup) {
  const { memoryMb, vcores } = DEFAULTS.minimumAllocation;
  return {
    memoryMb: elsewhere.read("yarn.scheduler.minimum-allocation-mb", amount, memoryMb),
    vcores: elsewhere.read("yarn.scheduler.minimum-allocation-vcores", amount, vcores),
  };
}

function readApplicationLimits(cluster: PropertyGroup, elsewhere: PropertyGroup) {
  return {
    maximumApplications: cluster.read("maximum-applications", count, DEFAULTS.maximumApplications),
    queueMaximumApplications: cluster.read("global-queue-max-application", count, undefined),
    userMaxParallelApplications: cluster.read("user.max-parallel-apps", count, INT_MAX),
    maxParallelApplicationsOf: readParallelPerUser(cluster),
    maximumApplicationPriority: elsewhere.read("yarn.cluster.max-application-priority", count, 0),
  };
}

const opportunities = wholeNumber(-1, INT_MAX, "missed opportunities");

function readLocality(cluster: PropertyGroup) {
  return {
    nodeLocalityDelay: cluster.read(
      "node-locality-delay",
      opportunities,
      DEFAULTS.nodeLocalityDelay,
    ),
    rackLocalityAdditionalDelay: cluster.read(
      "rack-locality-additional-delay",
      opportunities,
      DEFAULTS.rackLocalityAdditionalDelay,
    ),
    rackLocalityFullReset: cluster.read(
      "rack-locality-full-reset",
      flag,
      DEFAULTS.rackLocalityFullReset,
    ),
    reservationsContinueLook: cluster.read(
      "reservations-continue-look-all-nodes",
      flag,
      DEFAULTS.reservationsContinueLook,
    ),
  };
}

function readMaximumAllocation(
  elsewhere: PropertyGroup,
  minimum: SchedulerConfiguration["minimumAllocation"],
): Resource | undefined {
  const mb = "yarn.scheduler.maximum-allocation-mb";
  const cores = "yarn.scheduler.maximum-allocation-vcores";
  const memoryMb = elsewhere.read(mb, amount, undefined);
  const vcores = elsewhere.read(cores, amount, undefined);
  if (memoryMb !== undefined && memoryMb < minimum.memoryMb) {
    elsewhere.report(mb, `is ${memoryMb}: below the minimum allocation of ${minimum.memoryMb} MB`);
  }
  if (vcores !== undefined && vcores < minimum.vcores) {
    elsewhere.report(cores, `is ${vcores}: below the minimum allocation of ${minimum.vcores}`);
  }
  const extra = readExtraMaxima(elsewhere);
  if (memoryMb === undefined && vcores === undefined && extra === undefined) return undefined;
  return {
    memoryMb: memoryMb ?? UNLIMITED.memoryMb,
    vcores: vcores ?? UNLIMITED.vcores,
    ...(extra ? { extra } : {}),
  };
}

function readExtraMaxima(elsewhere: PropertyGroup): Resource["extra"] {
  const maxima: [string, number][] = [];
  for (const name of elsewhere.names()) {
    const type = /^yarn\.resource-types\.(.+)\.maximum-allocation$/.exec(name)?.[1];
    if (type === undefined) continue;
    const max = elsewhere.read(name, wholeNumber(0, LIMITS.resourceAmountMax), undefined);
    if (max !== undefined) maxima.push([type, max]);
  }
  return maxima.length > 0 ? recordOf(maxima) : undefined;
}

function readParallelPerUser(cluster: PropertyGroup): Readonly<Record<string, number>> {
  const limits: [string, number][] = [];
  for (const name of cluster.names()) {
    const user = /^user\.(.+)\.max-parallel-apps$/.exec(name)?.[1];
    if (user === undefined) continue;
    const limit = cluster.read(name, count, undefined);
    if (limit !== undefined) limits.push([user, limit]);
  }
  return recordOf(limits);
}

const LABELS = "yarn.node-labels.cluster-node-labels";

/** YARN keeps these outside of its configuration; the words are `addToClusterNodeLabels`'s. */
function readNodeLabels(elsewhere: PropertyGroup): SchedulerConfiguration["nodeLabels"] {
  const labels = elsewhere.read(LABELS, parseNodeLabels, []);
  const isEnabled = elsewhere.read("yarn.node-labels.enabled", flag, true);
  if (!isEnabled && labels.length > 0) {
    elsewhere.report("yarn.node-labels.enabled", `cannot be false while ${LABELS} names labels`);
  }
  return labels;
}

const NODE_LABEL =
  /^([A-Za-z0-9][A-Za-z0-9_-]{0,254})\s*(?:\(\s*(?:exclusive\s*=\s*)?(true|false)\s*\))?$/;

function parseNodeLabels(text: string): Parsed<SchedulerConfiguration["nodeLabels"]> {
  const labels: { name: string; exclusive: boolean }[] = [];
  for (const part of listOf(text)) {
    const [, name, exclusive] = NODE_LABEL.exec(part) ?? [];
    if (name === undefined) {
      return { expects: `labels such as gpu or ssd(exclusive=false) instead of ${quote(part)}` };
    }
    if (labels.some((label) => label.name === name)) return { expects: `${name} only once` };
    labels.push({ name, exclusive: exclusive !== "false" });
    if (labels.length > LIMITS.nodeLabelsMax) {
      return { expects: `at most ${LIMITS.nodeLabelsMax} labels` };
    }
  }
  return { value: labels };
}

/** As `parseNodeLabels` reads it. */
export function formatNodeLabels(labels: SchedulerConfiguration["nodeLabels"]): string {
  return labels.map(({ name, exclusive }) => `${name}(exclusive=${exclusive})`).join(",");
}

const ms = wholeNumber(0, INT_MAX, "milliseconds");

function readPreemption(elsewhere: PropertyGroup): PreemptionConfiguration {
  const group = elsewhere.below("yarn.resourcemanager.monitor.capacity.preemption.");
  const intraQueue = group.below("intra-queue-preemption.");
  const defaults = DEFAULT_PREEMPTION;
  return {
    enabled: elsewhere.read(
      "yarn.resourcemanager.scheduler.monitor.enable",
      flag,
      defaults.enabled,
    ),
    observeOnly: group.read("observe_only", flag, defaults.observeOnly),
    monitoringIntervalMs: group.read(
      "monitoring_interval",
      wholeNumber(1, INT_MAX, "milliseconds"),
      defaults.monitoringIntervalMs,
    ),
    maxWaitBeforeKillMs: group.read("max_wait_before_kill", ms, defaults.maxWaitBeforeKillMs),
    totalPreemptionPerRound: group.read(
      "total_preemption_per_round",
      fraction,
      defaults.totalPreemptionPerRound,
    ),
    maxIgnoredOverCapacity: group.read(
      "max_ignored_over_capacity",
      decimal(0, INT_MAX, "a fraction (0.1 is 10 %)"),
      defaults.maxIgnoredOverCapacity,
    ),
    naturalTerminationFactor: group.read(
      "natural_termination_factor",
      fraction,
      defaults.naturalTerminationFactor,
    ),
    intraQueueEnabled: intraQueue.read("enabled", flag, defaults.intraQueueEnabled),
    intraQueueMinimumThreshold: intraQueue.read(
      "minimum-threshold",
      fraction,
      defaults.intraQueueMinimumThreshold,
    ),
    intraQueueMaxAllowableLimit: intraQueue.read(
      "max-allowable-limit",
      fraction,
      defaults.intraQueueMaxAllowableLimit,
    ),
    intraQueueOrder: intraQueue.read(
      "preemption-order-policy",
      oneOf(["userlimit_first", "priority_first"]),
      defaults.intraQueueOrder,
    ),
  };
}
