/**
 * Which changes of a running scheduler's configuration may not be made now
 * (facts/yarn-rm-nm-scheduler.md §3.13). Both configurations are valid by themselves. All reasons are
 * told at once, and no change that passes takes a queue away from an application or ends a container.
 */
import type { Finding } from "../../shared/errors.ts";
import { formatResource, type Resource } from "../../shared/resource.ts";
import { quote } from "../../shared/validation.ts";
import type { QueueConfiguration, SchedulerConfiguration } from "./configuration.ts";
import { isLeaf, QueueLookup } from "./queue-lookup.ts";
import { parentQueue } from "./queue-name.ts";
import { CAPACITY_PREFIX } from "./queue-tree.ts";

export type RefreshFacts = {
  /** Live applications in the queue and below it. */
  applicationsIn(path: string): number;
  /** Nobody has configured anything yet: the queue that every cluster has need not be stopped. */
  readonly isFirst: boolean;
};

export function checkRefresh(
  current: SchedulerConfiguration,
  next: SchedulerConfiguration,
  facts: RefreshFacts,
): Finding[] {
  const findings: Finding[] = [];
  const report: Report = (path, message) => findings.push({ path, message });
  const lookup = new QueueLookup(next.root);
  const waiting = [current.root];
  for (let before = waiting.pop(); before !== undefined; before = waiting.pop()) {
    const after = lookup.queue(before.path);
    if (after === undefined) {
      checkRemoval(before, lookup, facts, report);
      continue;
    }
    waiting.push(...before.children);
    checkKind(before, after, facts, report);
    if (isLeaf(before) && isLeaf(after))
      checkMaximumAllocation(before, after, current, next, report);
  }
  checkLabels(current, next, report);
  return findings;
}

type Report = (path: string, message: string) => void;

function applications(count: number): string {
  return count === 1 ? "1 application runs" : `${count} applications run`;
}

/** With everything below it. */
function checkRemoval(
  queue: QueueConfiguration,
  lookup: QueueLookup,
  facts: RefreshFacts,
  report: Report,
): void {
  const property = `${CAPACITY_PREFIX}${parentQueue(queue.path)}.queues`;
  const count = facts.applicationsIn(queue.path);
  if (queue.state !== "STOPPED" && !facts.isFirst) {
    const moved = [...lookup.paths()].find((path) => path.endsWith(`.${queue.name}`));
    const hint = moved === undefined ? "" : ` (${moved} is another queue: queues are not moved)`;
    report(
      property,
      `cannot remove ${queue.path} while it is RUNNING: set its state to STOPPED first${hint}`,
    );
  }
  if (count > 0) {
    report(
      property,
      `cannot remove ${queue.path}: ${applications(count)} there; wait for their end, or move them`,
    );
  }
}

function checkKind(
  before: QueueConfiguration,
  after: QueueConfiguration,
  facts: RefreshFacts,
  report: Report,
): void {
  const count = facts.applicationsIn(before.path);
  if (isLeaf(before) && !isLeaf(after)) {
    const needs = `cannot make the leaf ${before.path} a parent queue`;
    const property = `${CAPACITY_PREFIX}${before.path}.${after.template ? "auto-queue-creation-v2.enabled" : "queues"}`;
    const isStopped = before.state === "STOPPED" || facts.isFirst;
    if (!isStopped) report(property, `${needs}: set its state to STOPPED first`);
    if (count > 0) report(property, `${needs}: ${applications(count)} there`);
  }
  if (before.template !== undefined && after.template === undefined) {
    const elsewhere = before.children.map(({ path }) => facts.applicationsIn(path));
    const dynamic = elsewhere.reduce((left, each) => left - each, count);
    if (dynamic <= 0) return;
    report(
      `${CAPACITY_PREFIX}${before.path}.auto-queue-creation-v2.enabled`,
      `cannot be switched off: ${applications(dynamic)} in queues that were made from the template`,
    );
  }
}

/** Lowering it would leave requests that were accepted, and can never be served. */
function checkMaximumAllocation(
  before: QueueConfiguration,
  after: QueueConfiguration,
  current: SchedulerConfiguration,
  next: SchedulerConfiguration,
  report: Report,
): void {
  const was = before.maximumAllocation ?? current.maximumAllocation;
  const is = after.maximumAllocation ?? next.maximumAllocation;
  if (was === undefined || is === undefined || !isLower(is, was)) return;
  const property = after.maximumAllocation
    ? `${CAPACITY_PREFIX}${after.path}.maximum-allocation-mb`
    : "yarn.scheduler.maximum-allocation-mb";
  report(
    property,
    `cannot lower the maximum allocation of ${after.path} from ${formatResource(was)} to ` +
      `${formatResource(is)}: applications may be waiting for it`,
  );
}

function isLower(a: Resource, b: Resource): boolean {
  if (a.memoryMb < b.memoryMb || a.vcores < b.vcores) return true;
  return Object.entries(a.extra ?? {}).some(
    ([name, amount]) => amount < (b.extra?.[name] ?? Number.POSITIVE_INFINITY),
  );
}

/** As in YARN exclusivity is for a label's whole life. */
function checkLabels(
  current: SchedulerConfiguration,
  next: SchedulerConfiguration,
  report: Report,
): void {
  for (const { name, exclusive } of current.nodeLabels) {
    const label = next.nodeLabels.find((each) => each.name === name);
    if (label === undefined || label.exclusive === exclusive) continue;
    report(
      "yarn.node-labels.cluster-node-labels",
      `cannot change the exclusivity of label ${quote(name)}: remove it, then add it anew`,
    );
  }
}
