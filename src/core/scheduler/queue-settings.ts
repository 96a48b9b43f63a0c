/**
 * From the properties of one queue to its configuration, with what it inherits filled in. What is
 * inherited from whom is YARN's (facts/yarn-rm-nm-scheduler.md §3.1): most come from the cluster or
 * have a default; state, labels, users' weights, preemption, lifetimes and the maximum allocation
 * come from the parent. How capacities fit together is capacity-rules.ts.
 */
import { LIMITS } from "../../shared/limits.ts";
import { formatResource, type Resource } from "../../shared/resource.ts";
import { quote } from "../../shared/validation.ts";
import {
  type AccessControlList,
  EVERYBODY,
  NOBODY,
  parseAccessControlList,
} from "../access-control-list.ts";
import { parseAmounts } from "./capacity-values.ts";
import {
  type ClusterSettings,
  percentage,
  UNLIMITED,
  userLimitFactor,
} from "./cluster-settings.ts";
import { defaultQueue, type QueueConfiguration } from "./configuration.ts";
import {
  decimal,
  flag,
  fraction,
  oneOf,
  type PropertyGroup,
  recordOf,
  wholeNumber,
} from "./property-values.ts";

/** Everything of a queue but its place in the tree and its shares. */
export type QueueSettings = Omit<
  QueueConfiguration,
  | "path"
  | "name"
  | "children"
  | "template"
  | "capacity"
  | "maximumCapacity"
  | "partitions"
  | "accessibleNodeLabels"
  | "defaultNodeLabel"
>;

export type QueueKind = "parent" | "leaf" | "dynamic leaf";

const ROOT = defaultQueue("root");
const INT_MAX = 2_147_483_647;
const count = wholeNumber(0, INT_MAX);
const priority = wholeNumber(-INT_MAX, INT_MAX);
const seconds = wholeNumber(-1, LIMITS.lifetimeSecondsMax, "seconds, or -1 for no limit,");

/** `parent` is undefined for root. */
export function readQueueSettings(
  properties: PropertyGroup,
  kind: QueueKind,
  parent: QueueSettings | undefined,
  cluster: ClusterSettings,
): QueueSettings {
  const above = parent ?? ROOT;
  const minimumUserLimit = readMinimumUserLimit(properties, cluster);
  return {
    state: readState(properties, parent),
    minimumUserLimit,
    userLimitFactor: properties.read(
      "user-limit-factor",
      userLimitFactor,
      // YARN's, for leaves whose guarantee shrinks with every further leaf.
      kind === "dynamic leaf" ? -1 : cluster.defaults.userLimitFactor,
    ),
    userWeights: readUserWeights(properties, above, minimumUserLimit),
    ordering: readOrdering(properties, kind),
    priority: properties.read("priority", priority, ROOT.priority),
    maximumApplications: properties.read("maximum-applications", count, undefined),
    maximumAmResourceFraction: properties.read(
      "maximum-am-resource-percent",
      fraction,
      cluster.defaults.maximumAmResourceFraction,
    ),
    maxParallelApplications: properties.read(
      "max-parallel-apps",
      count,
      cluster.defaults.maxParallelApplications,
    ),
    maximumAllocation: readMaximumAllocation(properties, above, cluster),
    submitAcl: readAcl(properties, "acl_submit_applications", parent === undefined),
    administerAcl: readAcl(properties, "acl_administer_queue", false),
    defaultApplicationPriority: properties.read("default-application-priority", count, 0),
    ...readLifetimes(properties, above),
    preemptionDisabled: properties.read("disable_preemption", flag, above.preemptionDisabled),
    intraQueuePreemptionDisabled: properties.read(
      "intra-queue-preemption.disable_preemption",
      flag,
      above.intraQueuePreemptionDisabled,
    ),
  };
}

function readMinimumUserLimit(properties: PropertyGroup, cluster: ClusterSettings): number {
  const percent = properties.read("minimum-user-limit-percent", percentage, null);
  return percent === null ? cluster.defaults.minimumUserLimit : percent / 100;
}

const STATES = ["RUNNING", "STOPPED"] as const;

function readState(
  properties: PropertyGroup,
  parent: QueueSettings | undefined,
): QueueSettings["state"] {
  const inherited = parent?.state ?? "RUNNING";
  const state = properties.read("state", oneOf(STATES), inherited);
  if (state === "RUNNING" && inherited === "STOPPED") {
    properties.report("state", "cannot be RUNNING: the queue above it is STOPPED");
  }
  return state;
}

function readAcl(properties: PropertyGroup, name: string, isOpenRoot: boolean): AccessControlList {
  const fallback = isOpenRoot ? EVERYBODY : NOBODY;
  const text = properties.raw(name);
  if (text === undefined) return fallback;
  const parsed = parseAccessControlList(text);
  if ("value" in parsed) return parsed.value;
  properties.report(name, `expects ${parsed.expects}, not ${quote(text)}`);
  return fallback;
}

const USER_WEIGHT = /^user-settings\.(.+)\.weight$/;

/** Above 0, and never more than the whole queue: weight × minimum-user-limit-percent ≤ 100. */
function readUserWeights(
  properties: PropertyGroup,
  above: Pick<QueueSettings, "userWeights">,
  minimumUserLimit: number,
): QueueSettings["userWeights"] {
  const weights = new Map(Object.entries(above.userWeights));
  const max = minimumUserLimit > 0 ? 1 / minimumUserLimit : Number.POSITIVE_INFINITY;
  for (const name of properties.names()) {
    const user = USER_WEIGHT.exec(name)?.[1];
    if (user === undefined) continue;
    const weight = properties.read(name, decimal(0, max, "a weight"), undefined);
    if (weight === undefined) continue;
    if (weight === 0) properties.report(name, "expects a weight above 0, or the user never runs");
    weights.set(user, weight);
  }
  return recordOf(weights);
}

const LEAF_POLICIES = ["fifo", "fair"] as const;
const PARENT_POLICIES = ["utilization", "priority-utilization"] as const;

function readOrdering(properties: PropertyGroup, kind: QueueKind): QueueConfiguration["ordering"] {
  if (kind === "parent") {
    return { policy: properties.read("ordering-policy", oneOf(PARENT_POLICIES), "utilization") };
  }
  const policy = properties.read("ordering-policy", oneOf(LEAF_POLICIES), "fifo");
  const sizeBasedWeight = properties.read(
    "ordering-policy.fair.enable-size-based-weight",
    flag,
    false,
  );
  return policy === "fair" ? { policy, sizeBasedWeight } : { policy };
}

const amount = wholeNumber(1, LIMITS.resourceAmountMax);

function readMaximumAllocation(
  properties: PropertyGroup,
  above: Pick<QueueSettings, "maximumAllocation">,
  cluster: ClusterSettings,
): Resource | undefined {
  const whole = properties.read("maximum-allocation", parseAmounts, undefined);
  const memoryMb = properties.read("maximum-allocation-mb", amount, undefined);
  const vcores = properties.read("maximum-allocation-vcores", amount, undefined);
  if (whole === undefined && memoryMb === undefined && vcores === undefined) {
    return above.maximumAllocation;
  }
  const most = cluster.configuration.maximumAllocation;
  const base = whole ?? above.maximumAllocation ?? most ?? UNLIMITED;
  const own = {
    ...base,
    memoryMb: memoryMb ?? base.memoryMb,
    vcores: vcores ?? base.vcores,
  };
  if (most && (own.memoryMb > most.memoryMb || own.vcores > most.vcores)) {
    const name = whole
      ? "maximum-allocation"
      : memoryMb
        ? "maximum-allocation-mb"
        : "maximum-allocation-vcores";
    properties.report(
      name,
      `is ${formatResource(own)}: above the cluster's maximum of ${formatResource(most)}`,
    );
  }
  return own;
}

/** Without a default of its own an application gets the queue's maximum, as in YARN. */
function readLifetimes(
  properties: PropertyGroup,
  above: Pick<QueueSettings, "maximumLifetimeSeconds" | "defaultLifetimeSeconds">,
) {
  const max = unlimitedBelowOne(
    properties.read("maximum-application-lifetime", seconds, above.maximumLifetimeSeconds),
  );
  const own = properties.read("default-application-lifetime", seconds, undefined);
  const lifetime = unlimitedBelowOne(own ?? above.defaultLifetimeSeconds);
  const isTooLong = max !== -1 && (lifetime === -1 || lifetime > max);
  if (isTooLong && own !== undefined) {
    const wrong = lifetime === -1 ? "is unlimited" : `is ${lifetime} s`;
    properties.report("default-application-lifetime", `${wrong}: the maximum is ${max} s`);
  }
  return {
    maximumLifetimeSeconds: max,
    defaultLifetimeSeconds: isTooLong ? max : lifetime,
  };
}

function unlimitedBelowOne(lifetime: number): number {
  return lifetime > 0 ? lifetime : -1;
}
