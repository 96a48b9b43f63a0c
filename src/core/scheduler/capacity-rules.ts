/**
 * How the capacities of a parent and its children must fit together, in each partition by itself
 * (facts/yarn-rm-nm-scheduler.md §3.2, §3.13): one mode among siblings, percentages that come to 100,
 * resources within the parent's, and no maximum below a guarantee.
 */
import type { Finding } from "../../shared/errors.ts";
import { addResource, fitsIn, formatResource, NO_RESOURCE } from "../../shared/resource.ts";
import { formatCapacity } from "./capacity-values.ts";
import type { Capacity, QueueConfiguration } from "./configuration.ts";
import { CAPACITY_PREFIX } from "./queue-tree.ts";

/** YARN's: shares are fractions of single precision, and thirds never come to 100 exactly. */
const PERCENT_TOLERANCE = 0.05;
const NAMES_SHOWN_MAX = 10;

type Share = {
  readonly queue: QueueConfiguration;
  readonly capacity: Capacity;
  readonly maximum: Capacity;
  /** Of the partition. */
  readonly label: string;
};

/** `mayBeZero` says of a parent whether `allow-zero-capacity-sum` is set there. */
export function checkCapacities(
  root: QueueConfiguration,
  mayBeZero: (path: string) => boolean,
  findings: Finding[],
): void {
  const report = (path: string, message: string) => findings.push({ path, message });
  const waiting = [root];
  for (let parent = waiting.pop(); parent !== undefined; parent = waiting.pop()) {
    waiting.push(...parent.children);
    checkTemplate(parent, report);
    for (const label of ["", ...Object.keys(root.partitions)]) {
      const own = shareOf(parent, label);
      const shares = parent.children.flatMap((child) => shareOf(child, label) ?? []);
      for (const share of shares) checkMaximum(share, own, report);
      checkSiblings({ parent, label, own, mayBeZero: mayBeZero(parent.path) }, shares, report);
    }
  }
}

type Report = (path: string, message: string) => void;

function shareOf(queue: QueueConfiguration, label: string): Share | undefined {
  const partition = label === "" ? queue : queue.partitions[label];
  if (partition === undefined) return undefined;
  return { queue, capacity: partition.capacity, maximum: partition.maximumCapacity, label };
}

/** Full name of the property. */
function propertyOf({ queue, label }: Share, name: "capacity" | "maximum-capacity"): string {
  const place = label === "" ? "" : `accessible-node-labels.${label}.`;
  return `${CAPACITY_PREFIX}${queue.path}.${place}${name}`;
}

function checkMaximum(share: Share, parent: Share | undefined, report: Report): void {
  const wrong = whatIsWrong(share, parent);
  if (wrong !== undefined) report(propertyOf(share, "maximum-capacity"), wrong);
}

function whatIsWrong({ capacity, maximum }: Share, parent: Share | undefined): string | undefined {
  if (maximum.mode !== "absolute") {
    if (capacity.mode === "absolute" && !isAll(maximum)) {
      return "is in percent, but the capacity is in resources: use resources for both";
    }
    const isBelow =
      capacity.mode === "percentage" &&
      maximum.mode === "percentage" &&
      capacity.percent > maximum.percent;
    return isBelow ? `is ${maximum.percent}: below the capacity of ${capacity.percent}` : undefined;
  }
  if (capacity.mode !== "absolute") return "is in resources, so the capacity must be, too";
  if (!fitsIn(capacity.resource, maximum.resource)) {
    return `is below the capacity of ${formatResource(capacity.resource)}`;
  }
  const most = parent?.maximum;
  if (most?.mode !== "absolute" || fitsIn(maximum.resource, most.resource)) return undefined;
  return `is above the maximum of ${parent?.queue.path}`;
}

function isAll(capacity: Capacity): boolean {
  return capacity.mode === "percentage" && capacity.percent === 100;
}

function isZero(capacity: Capacity): boolean {
  return capacity.mode === "percentage" && capacity.percent === 0;
}

type Family = {
  readonly parent: QueueConfiguration;
  readonly label: string;
  /** The parent's. */
  readonly own: Share | undefined;
  readonly mayBeZero: boolean;
};

function checkSiblings(family: Family, all: readonly Share[], report: Report): void {
  // In a label's partition a queue that nothing is set for has 0 percent, whatever its siblings have.
  const shares = family.label === "" ? all : all.filter(({ capacity }) => !isZero(capacity));
  const [first = all[0]] = shares;
  if (first === undefined) return;
  const mode = first.capacity.mode;
  const stranger = shares.find(({ capacity }) => capacity.mode !== mode);
  if (stranger !== undefined) {
    report(
      propertyOf(stranger, "capacity"),
      `is ${formatCapacity(stranger.capacity)}, but ${first.queue.path} next to it has ` +
        `${formatCapacity(first.capacity)}: siblings use one of percent, weights and resources`,
    );
    return;
  }
  checkAgainstParent(family, first, report);
  if (mode === "percentage") checkSum(family, shares, report);
  if (mode === "absolute") checkGuarantees(family.own, shares, report);
}

function checkAgainstParent({ parent, own }: Family, child: Share, report: Report): void {
  if (parent.path === "root" || own === undefined) return;
  const isAbsolute = child.capacity.mode === "absolute";
  if (isAbsolute === (own.capacity.mode === "absolute") || isZero(child.capacity)) return;
  report(
    propertyOf(child, "capacity"),
    `is ${formatCapacity(child.capacity)}, but ${parent.path} above it has ` +
      `${formatCapacity(own.capacity)}: both in resources, or neither`,
  );
}

function checkSum(family: Family, shares: readonly Share[], report: Report): void {
  const { parent, label, own } = family;
  const sum = shares.reduce(
    (total, { capacity }) => total + (capacity.mode === "percentage" ? capacity.percent : 0),
    0,
  );
  if (Math.abs(sum - 100) <= PERCENT_TOLERANCE) return;
  const hasNothing = own === undefined || isZero(own.capacity) || own.capacity.mode === "weight";
  const isFree = label !== "" && parent.path === "root";
  if (sum <= PERCENT_TOLERANCE && (family.mayBeZero || hasNothing || isFree)) return;
  const names = shares
    .slice(0, NAMES_SHOWN_MAX)
    .map(({ queue, capacity }) => `${queue.name} ${formatCapacity(capacity)}`);
  if (shares.length > NAMES_SHOWN_MAX) names.push("…");
  const where = label === "" ? "" : ` of label ${label}`;
  report(
    `${CAPACITY_PREFIX}${parent.path}.queues`,
    `the capacities${where} come to ${shown(sum)} percent, not 100 (${names.join(", ") || "none"})`,
  );
}

/** 33.3 + 33.3 is 66.6 for people. */
function shown(sum: number): number {
  return Number(sum.toFixed(3));
}

function checkGuarantees(own: Share | undefined, shares: readonly Share[], report: Report): void {
  if (own?.capacity.mode !== "absolute") return;
  const sum = shares.reduce(
    (total, { capacity }) =>
      capacity.mode === "absolute" ? addResource(total, capacity.resource) : total,
    NO_RESOURCE,
  );
  if (fitsIn(sum, own.capacity.resource)) return;
  report(
    propertyOf(own, "capacity"),
    `is ${formatResource(own.capacity.resource)}: its children need ${formatResource(sum)}`,
  );
}

/** Leaves come and go below a template, which only weights allow. */
function checkTemplate(parent: QueueConfiguration, report: Report): void {
  if (parent.template === undefined) return;
  const prefix = `${CAPACITY_PREFIX}${parent.path}.auto-queue-creation-v2.`;
  if (parent.template.leaf.capacity.mode !== "weight") {
    report(`${prefix}leaf-template.capacity`, "expects a weight such as 1w");
  }
  const child = parent.children.find(({ capacity }) => capacity.mode !== "weight");
  if (child !== undefined) {
    report(
      `${prefix}enabled`,
      `needs weights below ${parent.path}, but ${child.path} has ${formatCapacity(child.capacity)}`,
    );
  }
}
