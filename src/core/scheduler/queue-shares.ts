/**
 * How much of its parent a queue has, in the default partition and in each partition whose label it
 * may use (facts/yarn-rm-nm-scheduler.md §3.2, §3.9). Labels are inherited; shares are not.
 */
import { didYouMeanClause } from "../../shared/did-you-mean.ts";
import { quote } from "../../shared/validation.ts";
import { parseCapacity, parseMaximumCapacity } from "./capacity-values.ts";
import type { ClusterSettings } from "./cluster-settings.ts";
import type { Capacity, PartitionCapacity, QueueConfiguration } from "./configuration.ts";
import { fraction, listOf, type PropertyGroup, recordOf } from "./property-values.ts";

export type QueueShares = Pick<
  QueueConfiguration,
  "capacity" | "maximumCapacity" | "partitions" | "accessibleNodeLabels" | "defaultNodeLabel"
>;

const HUNDRED: Capacity = { mode: "percentage", percent: 100 };
const NOTHING: Capacity = { mode: "percentage", percent: 0 };

/** `capacity` is what the queue has when nothing is set; undefined: it must be set. */
export function readQueueShares(
  properties: PropertyGroup,
  parent: QueueShares,
  cluster: ClusterSettings,
  defaults: { readonly capacity: Capacity | undefined; readonly masterFraction: number },
): QueueShares {
  const accessibleNodeLabels = readAccessibleLabels(properties, parent, cluster);
  const capacity = properties.read("capacity", parseCapacity, defaults.capacity);
  if (capacity === undefined && properties.text("capacity") === undefined) {
    properties.report("capacity", "is missing: expects percent (50), a weight (1w) or resources");
  }
  return {
    capacity: capacity ?? HUNDRED,
    maximumCapacity: properties.read("maximum-capacity", parseMaximumCapacity, HUNDRED),
    partitions: readPartitions(properties, accessibleNodeLabels, cluster, {
      capacity: NOTHING,
      masterFraction: defaults.masterFraction,
    }),
    accessibleNodeLabels,
    defaultNodeLabel: readDefaultLabel(
      properties,
      parent.defaultNodeLabel,
      accessibleNodeLabels,
      cluster,
    ),
  };
}

/** Root has all there is, of every label; saying so is allowed, saying anything else is not. */
export function readRootShares(
  properties: PropertyGroup,
  cluster: ClusterSettings,
  masterFraction: number,
): QueueShares {
  const partitions = readPartitions(properties, "*", cluster, {
    capacity: HUNDRED,
    masterFraction,
  });
  checkWhole(properties);
  for (const label of Object.keys(partitions)) checkWhole(properties.below(`${LABELS}.${label}.`));
  const root = { capacity: HUNDRED, maximumCapacity: HUNDRED, accessibleNodeLabels: "*" as const };
  const defaultNodeLabel = readDefaultLabel(properties, "", "*", cluster);
  return { ...root, partitions, defaultNodeLabel };
}

function checkWhole(properties: PropertyGroup): void {
  for (const name of ["capacity", "maximum-capacity"]) {
    const own = properties.read(name, parseMaximumCapacity, HUNDRED);
    if (own.mode === "percentage" && own.percent === 100) continue;
    properties.report(name, "root always has 100 percent: leave it out");
  }
}

const LABELS = "accessible-node-labels";

/** Set to blank: no label at all. Not set: the parent's. */
function readAccessibleLabels(
  properties: PropertyGroup,
  parent: QueueShares,
  cluster: ClusterSettings,
): QueueConfiguration["accessibleNodeLabels"] {
  const text = properties.raw(LABELS);
  if (text === undefined) return parent.accessibleNodeLabels;
  const labels = [...new Set(listOf(text))];
  const isAll = labels.includes("*");
  for (const label of isAll ? [] : labels) {
    const wrong = checkLabel(label, parent.accessibleNodeLabels, cluster);
    if (wrong) properties.report(LABELS, wrong);
  }
  if (isAll && parent.accessibleNodeLabels !== "*") {
    properties.report(LABELS, "cannot be *: the queue above it has access to some labels only");
    return parent.accessibleNodeLabels;
  }
  return isAll ? "*" : labels;
}

function readDefaultLabel(
  properties: PropertyGroup,
  inherited: string,
  accessible: QueueConfiguration["accessibleNodeLabels"],
  cluster: ClusterSettings,
): string {
  const name = "default-node-label-expression";
  const label = properties.raw(name)?.trim() ?? inherited;
  if (label === "") return label;
  const wrong = checkLabel(label, accessible, cluster);
  if (wrong) properties.report(name, wrong);
  return label;
}

function checkLabel(
  label: string,
  accessible: QueueConfiguration["accessibleNodeLabels"],
  cluster: ClusterSettings,
): string | undefined {
  const known = cluster.configuration.nodeLabels.map(nameOf);
  if (!known.includes(label)) {
    const guess = didYouMeanClause(label, known);
    return `there is no label ${quote(label)}: yarn.node-labels.cluster-node-labels does not name it${guess}`;
  }
  if (accessible === "*" || accessible.includes(label)) return undefined;
  return `label ${quote(label)} is not accessible here: accessible-node-labels does not name it`;
}

const PARTITION_PROPERTY = /^accessible-node-labels\.(.+)\.[a-z-]+$/;

/** A queue that says nothing of a label may use all of it, with nothing guaranteed. */
function readPartitions(
  properties: PropertyGroup,
  accessible: QueueConfiguration["accessibleNodeLabels"],
  cluster: ClusterSettings,
  defaults: { readonly capacity: Capacity; readonly masterFraction: number },
): Readonly<Record<string, PartitionCapacity>> {
  const unsaid: PartitionCapacity = {
    capacity: defaults.capacity,
    maximumCapacity: HUNDRED,
    maximumAmResourceFraction: defaults.masterFraction,
  };
  const labels = accessible === "*" ? cluster.configuration.nodeLabels.map(nameOf) : accessible;
  const partitions = new Map(labels.map((label) => [label, unsaid]));
  for (const name of properties.names()) {
    const label = PARTITION_PROPERTY.exec(name)?.[1];
    if (label === undefined) continue;
    const wrong = checkLabel(label, accessible, cluster);
    if (wrong !== undefined) properties.report(name, wrong);
    else if (partitions.get(label) === unsaid) {
      partitions.set(label, readPartition(properties.below(`${LABELS}.${label}.`), unsaid));
    }
  }
  return recordOf(partitions);
}

function readPartition(own: PropertyGroup, unsaid: PartitionCapacity): PartitionCapacity {
  return {
    capacity: own.read("capacity", parseCapacity, unsaid.capacity),
    maximumCapacity: own.read("maximum-capacity", parseMaximumCapacity, unsaid.maximumCapacity),
    maximumAmResourceFraction: own.read(
      "maximum-am-resource-percent",
      fraction,
      unsaid.maximumAmResourceFraction,
    ),
  };
}

function nameOf({ name }: { readonly name: string }): string {
  return name;
}
