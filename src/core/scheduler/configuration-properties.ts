/**
 * From properties with YARN's names to a SchedulerConfiguration: defaults and inheritance filled in,
 * every rule checked, and all mistakes told at once, each under the full name of its property. What
 * each property means, and what differs from YARN, is docs/scheduler-properties.md.
 *
 * Properties of no queue at all mean YARN's shipped file: one queue, root.default.
 */
import { type Finding, ok, type Reply } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import { invalid } from "../../shared/validation.ts";
import { checkCapacities } from "./capacity-rules.ts";
import { type ClusterSettings, readClusterSettings } from "./cluster-settings.ts";
import type { QueueConfiguration, QueueTemplate, SchedulerConfiguration } from "./configuration.ts";
import { DEFAULT_PROPERTIES } from "./configuration-mutation.ts";
import { readMappingRules } from "./mapping-rules.ts";
import { checkProperty } from "./property-catalog.ts";
import { flag, PropertyGroup, wholeNumber } from "./property-values.ts";
import { queueName } from "./queue-name.ts";
import { type QueueSettings, readQueueSettings } from "./queue-settings.ts";
import { type QueueShares, readQueueShares, readRootShares } from "./queue-shares.ts";
import { CAPACITY_PREFIX, type QueueProperties, readQueueTree } from "./queue-tree.ts";

/** Fails with INVALID_ARGUMENT and a finding for each mistake. Never throws. */
export function parseSchedulerProperties(
  properties: ReadonlyMap<string, string>,
): Reply<SchedulerConfiguration> {
  const findings = checkSizes(properties);
  if (findings.length > 0) return invalid(findings);

  const { queues, cluster, elsewhere } = sort(properties, findings);
  const settings = readClusterSettings(cluster, elsewhere);
  const tree = readQueueTree(queues, findings);
  const root = readQueue(tree, undefined, settings);
  // Sums over queues that were misread would only repeat the mistakes.
  if (findings.length === 0) checkCapacities(root, zeroSumsOf(tree), findings);
  const mapping = readMappingRules(cluster, elsewhere, root);
  if (findings.length > 0) return invalid(findings);

  return ok({ root, ...settings.configuration, ...mapping });
}

function checkSizes(properties: ReadonlyMap<string, string>): Finding[] {
  if (properties.size > LIMITS.schedulerPropertiesMax) {
    const message = `are ${properties.size}: expects at most ${LIMITS.schedulerPropertiesMax}`;
    return [{ path: "properties", message }];
  }
  const findings: Finding[] = [];
  let length = 0;
  for (const [name, value] of properties) {
    length += name.length + value.length;
    if (name.length > LIMITS.schedulerPropertyNameLengthMax) {
      const message = `a name has at most ${LIMITS.schedulerPropertyNameLengthMax} characters`;
      findings.push({ path: `${name.slice(0, 60)}…`, message });
    } else if (value.length > LIMITS.schedulerPropertyLengthMax) {
      const message = `has ${value.length} characters: expects at most ${LIMITS.schedulerPropertyLengthMax}`;
      findings.push({ path: name, message });
    }
  }
  if (length > LIMITS.schedulerPropertiesLengthMax) {
    const message = `have ${length} characters: expects at most ${LIMITS.schedulerPropertiesLengthMax}`;
    findings.push({ path: "properties", message });
  }
  return findings;
}

/** By place; names that nobody knows, and those that are refused, become findings. */
function sort(properties: ReadonlyMap<string, string>, findings: Finding[]) {
  const queues = new Map<string, string>();
  const cluster = new Map<string, string>();
  const elsewhere = new Map<string, string>();
  for (const [name, value] of properties) {
    if (name.startsWith(`${CAPACITY_PREFIX}root.`)) {
      queues.set(name.slice(CAPACITY_PREFIX.length), value);
      continue;
    }
    const isOfCluster = name.startsWith(CAPACITY_PREFIX);
    const short = isOfCluster ? name.slice(CAPACITY_PREFIX.length) : name;
    const message = checkProperty(
      isOfCluster ? "cluster" : "elsewhere",
      short,
      value,
      findings.length,
    );
    if (message !== undefined) findings.push({ path: name, message });
    else (isOfCluster ? cluster : elsewhere).set(short, value);
  }
  if (queues.size === 0) {
    for (const [name, value] of DEFAULT_PROPERTIES)
      queues.set(name.slice(CAPACITY_PREFIX.length), value);
  }
  return {
    queues,
    cluster: new PropertyGroup(CAPACITY_PREFIX, cluster, findings),
    elsewhere: new PropertyGroup("", elsewhere, findings),
  };
}

/** A queue and everything below it. */
function readQueue(
  tree: QueueProperties,
  parent: (QueueSettings & QueueShares) | undefined,
  cluster: ClusterSettings,
): QueueConfiguration {
  const { path, properties } = tree;
  const isTemplated = properties.read("auto-queue-creation-v2.enabled", flag, false);
  const kind = tree.children.length > 0 || isTemplated || parent === undefined ? "parent" : "leaf";
  const settings = readQueueSettings(properties, kind, parent, cluster);
  const masterFraction = settings.maximumAmResourceFraction;
  const shares =
    parent === undefined
      ? readRootShares(properties, cluster, masterFraction)
      : readQueueShares(properties, parent, cluster, { capacity: undefined, masterFraction });
  const own = { ...settings, ...shares };
  return {
    path,
    name: queueName(path),
    ...own,
    children: tree.children.map((child) => readQueue(child, own, cluster)),
    template: isTemplated ? readTemplate(properties, own, cluster) : undefined,
  };
}

/** What `template.` and, stronger, `leaf-template.` say; weight 1 where they say nothing. */
function readTemplate(
  properties: PropertyGroup,
  parent: QueueSettings & QueueShares,
  cluster: ClusterSettings,
): QueueTemplate {
  const group = properties.below("auto-queue-creation-v2.");
  const leaf = group.below("leaf-template.").over(group.below("template."));
  for (const name of leaf.names()) {
    const isOfParents = name === "queues" || name.startsWith("auto-queue-creation-v2.");
    if (isOfParents) leaf.report(name, "makes a parent, and a template makes leaves only");
    const message = checkProperty("queue", name, leaf.raw(name) ?? "", 0);
    if (message !== undefined) leaf.report(name, message);
  }
  const settings = readQueueSettings(leaf, "dynamic leaf", parent, cluster);
  const shares = readQueueShares(leaf, parent, cluster, {
    capacity: { mode: "weight", weight: 1 },
    masterFraction: settings.maximumAmResourceFraction,
  });
  const isRemoved = group.read("queue-auto-removal.enable", flag, true);
  return {
    maxQueues: group.read("max-queues", wholeNumber(1, LIMITS.queuesMax), LIMITS.queuesMax),
    leaf: { ...settings, ...shares },
    expirySeconds: isRemoved ? cluster.defaults.queueExpirationSeconds : LIMITS.lifetimeSecondsMax,
  };
}

function zeroSumsOf(tree: QueueProperties): (path: string) => boolean {
  const paths = new Set<string>();
  const waiting = [tree];
  for (let queue = waiting.pop(); queue !== undefined; queue = waiting.pop()) {
    waiting.push(...queue.children);
    if (queue.properties.read("allow-zero-capacity-sum", flag, false)) paths.add(queue.path);
  }
  return (path) => paths.has(path);
}
