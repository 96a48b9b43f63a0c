/** What a simulated run was worth: the statistics of facts/performance-and-reliability.md §A7. */
import { CapacityScheduler } from "../src/core/scheduler/capacity-scheduler.ts";
import type { QueueInfo } from "../src/shared/queue.ts";
import type { Resource } from "../src/shared/resource.ts";
import type { Outcome, Sample, Standing, Start } from "./quality-simulator.ts";
import { type Aim, dominantShare, type Job, totalOf, type Workload } from "./quality-workload.ts";

export type Measure = {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly aim?: { readonly atLeast: number } | { readonly atMost: number };
};

export function isMet({ value, aim }: Measure): boolean {
  if (aim === undefined) return true;
  return "atLeast" in aim ? value >= aim.atLeast : value <= aim.atMost;
}

/** The limit, when the workload is there to judge this. */
export function aimOf(
  workload: Workload,
  aim: Aim,
  limit: NonNullable<Measure["aim"]>,
): Pick<Measure, "aim"> {
  return workload.aims.includes(aim) ? { aim: limit } : {};
}

/** Large is a quarter of the largest machine and more; small is less than a sixteenth. */
export function sizeClass(resource: Resource, workload: Workload): "small" | "medium" | "large" {
  const least = Math.min(
    ...workload.nodes.map(({ capability }) => dominantShare(resource, capability)),
  );
  if (least >= 1 / 4) return "large";
  return least < 1 / 16 ? "small" : "medium";
}

export function measure(workload: Workload, outcome: Outcome): Measure[] {
  return [
    ...utilisation(workload, outcome),
    ...completion(workload, outcome),
    ...waiting(workload, outcome),
    ...fairness(workload, outcome),
    ...preemption(workload, outcome),
    ...locality(outcome),
    {
      name: "decisions",
      value: outcome.starts.length / outcome.schedulingCpuSeconds,
      unit: "placements/CPU-s",
    },
  ];
}

type Span = { readonly sample: Sample; readonly ms: number };

/** Each state with how long it lasted. */
export function spansOf({ samples }: Outcome): Span[] {
  return samples.slice(0, -1).map((sample, index) => {
    const next = samples[index + 1] ?? sample;
    return { sample, ms: next.atMs - sample.atMs };
  });
}

/** Demand is at least what the cluster has of some resource. */
function isSaturated({ used, pending }: Standing, total: Resource): boolean {
  return (
    used.memoryMb + pending.memoryMb >= total.memoryMb ||
    used.vcores + pending.vcores >= total.vcores
  );
}

/** Over time; 0 when no time passed. */
function mean(values: readonly { readonly value: number; readonly ms: number }[]): number {
  const ms = values.reduce((sum, one) => sum + one.ms, 0);
  return ms === 0 ? 0 : values.reduce((sum, one) => sum + one.value * one.ms, 0) / ms;
}

function utilisation(workload: Workload, outcome: Outcome): Measure[] {
  const total = totalOf(workload.nodes);
  const spans = spansOf(outcome);
  const saturated = spans.filter(({ sample }) => isSaturated(sample, total));
  const percent = (from: readonly Span[], share: (used: Resource) => number) =>
    100 * mean(from.map(({ sample, ms }) => ({ value: share(sample.used), ms })));
  const memory = (used: Resource) => used.memoryMb / total.memoryMb;
  const vcores = (used: Resource) => used.vcores / total.vcores;
  const measures = [
    { name: "utilisation.memory", value: percent(spans, memory), unit: "%" },
    { name: "utilisation.vcores", value: percent(spans, vcores), unit: "%" },
    {
      name: "saturated.time",
      value: saturated.reduce((sum, { ms }) => sum + ms, 0) / 1_000,
      unit: "s",
    },
  ];
  if (saturated.length === 0) return measures;
  return [
    ...measures,
    { name: "saturated.memory", value: percent(saturated, memory), unit: "%" },
    { name: "saturated.vcores", value: percent(saturated, vcores), unit: "%" },
    {
      name: "saturated.dominant",
      value: percent(saturated, (used) => dominantShare(used, total)),
      unit: "%",
      ...aimOf(workload, "saturation", { atLeast: 97 }),
    },
  ];
}

/** Of the stages one after the other, each as long as its longest task. */
function criticalPathMs({ stages }: Job): number {
  return stages.reduce(
    (sum, stage) =>
      sum + Math.max(...stage.flatMap(({ tasks }) => tasks.map(({ durationMs }) => durationMs))),
    0,
  );
}

/** No scheduler ends earlier: what comes after any moment has to be worked off after it. */
function makespanBoundMs({ jobs, nodes }: Workload): number {
  const total = totalOf(nodes);
  let bound = 0;
  let memory = 0;
  let vcores = 0;
  for (const job of [...jobs].sort((a, b) => b.submitMs - a.submitMs)) {
    for (const { resource, tasks } of job.stages.flat()) {
      const ms = tasks.reduce((sum, { durationMs }) => sum + durationMs, 0);
      memory += resource.memoryMb * ms;
      vcores += resource.vcores * ms;
    }
    const work = Math.max(memory / total.memoryMb, vcores / total.vcores);
    bound = Math.max(bound, job.submitMs + work, job.submitMs + criticalPathMs(job));
  }
  return bound;
}

function completion(workload: Workload, outcome: Outcome): Measure[] {
  const bound = makespanBoundMs(workload);
  const slowdowns = sorted(
    outcome.finished
      .filter(({ job }) => job.stages.length > 0)
      .map(({ job, finishMs }) => (finishMs - job.submitMs) / criticalPathMs(job)),
  );
  const times = sorted(
    outcome.finished.map(({ job, finishMs }) => (finishMs - job.submitMs) / 1_000),
  );
  return [
    { name: "makespan", value: outcome.makespanMs / 1_000, unit: "s" },
    { name: "makespan.bound", value: bound / 1_000, unit: "s" },
    {
      name: "makespan.ratio",
      value: outcome.makespanMs / bound,
      unit: "× bound",
      ...aimOf(workload, "makespan", { atMost: 1.05 }),
    },
    ...percentiles("job.time", times, "s"),
    ...percentiles("job.slowdown", slowdowns, "×"),
    { name: "job.stuck", value: outcome.stuck.length, unit: "jobs", aim: { atMost: 0 } },
  ];
}

function waiting(workload: Workload, { starts, queues }: Outcome): Measure[] {
  const of = (label: string, isOne: (start: Start) => boolean) => {
    const waits = sorted(starts.filter(isOne).map(({ waitMs }) => waitMs / 1_000));
    return waits.length === 0 ? [] : percentiles(`wait.${label}`, waits, "s");
  };
  return [
    ...queues.flatMap((queue) => of(queue, (start) => start.queue === queue)),
    ...(["small", "medium", "large"] as const).flatMap((size) =>
      of(size, ({ resource }) => sizeClass(resource, workload) === size),
    ),
  ];
}

/** What each leaf is guaranteed of the cluster, 0 to 1, as the scheduler itself says. */
export function guaranteesOf(workload: Workload): ReadonlyMap<string, number> {
  const scheduler = new CapacityScheduler(workload.configuration);
  for (const node of workload.nodes) scheduler.addNode(node);
  const shares = new Map<string, number>();
  const visit = ({ path, partitions, children }: QueueInfo) => {
    const everywhere = partitions.find(({ partition }) => partition === "");
    shares.set(path, everywhere?.absoluteCapacity ?? 0);
    children.forEach(visit);
  };
  visit(scheduler.queueInfo());
  return shares;
}

function fairness(workload: Workload, outcome: Outcome): Measure[] {
  const total = totalOf(workload.nodes);
  const guarantees = guaranteesOf(workload);
  const weights = outcome.queues.map((queue) => guarantees.get(queue) ?? 0);
  const spans = spansOf(outcome).filter(({ sample }) => isSaturated(sample, total));
  const errors = spans.map(({ sample, ms }) => ({
    value: 100 * shareError(sample.queues, weights, total),
    ms,
  }));
  const jain = (name: string, standings: (sample: Sample) => readonly Standing[], by: number[]) => {
    const values = spans.flatMap(({ sample, ms }) => {
      const value = jainIndex(standings(sample), by, total);
      return value === undefined ? [] : [{ value, ms }];
    });
    if (values.length === 0) return [];
    const aim = aimOf(workload, "fairness", { atLeast: 0.999 });
    return [{ name, value: mean(values), unit: "Jain", ...aim }];
  };
  const equally = outcome.users.map(() => 1);
  return [
    { name: "share.error.mean", value: mean(errors), unit: "% of cluster" },
    { name: "share.error.p99", value: percentileOverTime(errors, 0.99), unit: "% of cluster" },
    ...jain("fairness.queues", ({ queues }) => queues, weights),
    // Users share a queue; of several queues their shares say nothing.
    ...(outcome.queues.length === 1 ? jain("fairness.users", ({ users }) => users, equally) : []),
    ...violations(workload, outcome, weights),
  ];
}

/** The part of the cluster that is with another queue than weighted max-min fairness would say. */
function shareError(
  standings: readonly Standing[],
  weights: readonly number[],
  total: Resource,
): number {
  const shares = standings.map(({ used }) => dominantShare(used, total));
  const wants = standings.map(
    ({ pending }, index) => (shares[index] ?? 0) + dominantShare(pending, total),
  );
  const dealt = shares.reduce((sum, share) => sum + share, 0);
  const ideal = fairShares(wants, weights, dealt);
  return shares.reduce((sum, share, index) => sum + Math.abs(share - (ideal[index] ?? 0)), 0) / 2;
}

/** Weighted max-min: `amount` dealt in proportion to weights, nobody more than he wants. */
function fairShares(
  wants: readonly number[],
  weights: readonly number[],
  amount: number,
): readonly number[] {
  const order = wants
    .map((want, index) => ({ want, index, weight: Math.max(weights[index] ?? 0, 1e-9) }))
    .sort((a, b) => a.want / a.weight - b.want / b.weight);
  const shares = wants.map(() => 0);
  let left = amount;
  let weightLeft = order.reduce((sum, { weight }) => sum + weight, 0);
  for (const { want, index, weight } of order) {
    const share = Math.min(want, (left * weight) / weightLeft);
    shares[index] = share;
    left -= share;
    weightLeft -= weight;
  }
  return shares;
}

/** Jain's index of share by weight over those who want more; undefined when fewer than two do. */
function jainIndex(
  standings: readonly Standing[],
  weights: readonly number[],
  total: Resource,
): number | undefined {
  const levels = standings.flatMap(({ used, pending }, index) => {
    const weight = weights[index] ?? 0;
    return pending.memoryMb > 0 && weight > 0 ? [dominantShare(used, total) / weight] : [];
  });
  const sum = levels.reduce((all, level) => all + level, 0);
  if (levels.length < 2 || sum === 0) return undefined;
  return sum ** 2 / (levels.length * levels.reduce((all, level) => all + level ** 2, 0));
}

/**
 * Time in which a queue waits below its guarantee while another has more than its own. One container
 * more or less is no violation.
 */
function violations(
  workload: Workload,
  outcome: Outcome,
  guarantees: readonly number[],
): Measure[] {
  const total = totalOf(workload.nodes);
  const largest = outcome.queues.map(() => 0);
  for (const { queue, resource } of outcome.starts) {
    const index = outcome.queues.indexOf(queue);
    largest[index] = Math.max(largest[index] ?? 0, dominantShare(resource, total));
  }
  const shareOf = (sample: Sample, index: number) => {
    const standing = sample.queues[index];
    return standing === undefined ? 0 : dominantShare(standing.used, total);
  };
  return outcome.queues.map((queue, index) => {
    const room = (guarantees[index] ?? 0) - (largest[index] ?? 0);
    const isViolated = ({ sample }: Span) =>
      (sample.queues[index]?.pending.memoryMb ?? 0) > 0 &&
      shareOf(sample, index) <= room &&
      guarantees.some(
        (guarantee, other) => shareOf(sample, other) > guarantee + (largest[other] ?? 0),
      );
    const ms = spansOf(outcome)
      .filter(isViolated)
      .reduce((sum, span) => sum + span.ms, 0);
    return { name: `guarantee.violated.${queue}`, value: ms / 1_000, unit: "s" };
  });
}

function preemption(workload: Workload, { preemptions, starts }: Outcome): Measure[] {
  if (!workload.configuration.preemption.enabled) return [];
  const total = totalOf(workload.nodes);
  const wasted = preemptions.reduce(
    (sum, { resource, ranMs }) => sum + dominantShare(resource, total) * ranMs,
    0,
  );
  return [
    { name: "preempted", value: preemptions.length, unit: "containers" },
    { name: "preempted.share", value: (100 * preemptions.length) / starts.length, unit: "%" },
    { name: "preempted.wasted", value: wasted / 1_000, unit: "s of the whole cluster" },
  ];
}

function locality({ starts }: Outcome): Measure[] {
  const minded = starts.filter((start) => start.locality !== undefined);
  if (minded.length === 0) return [];
  return (["NODE_LOCAL", "RACK_LOCAL", "OFF_SWITCH"] as const).map((kind) => ({
    name: `locality.${kind}`,
    value: (100 * minded.filter((start) => start.locality === kind).length) / minded.length,
    unit: "%",
  }));
}

function sorted(values: readonly number[]): number[] {
  return [...values].sort((a, b) => a - b);
}

function percentiles(name: string, ascending: readonly number[], unit: string): Measure[] {
  return [50, 95, 99].map((percent) => ({
    name: `${name}.p${percent}`,
    value: ascending[Math.min(ascending.length - 1, (ascending.length * percent) / 100) | 0] ?? 0,
    unit,
  }));
}

/** The value that is not exceeded for that fraction of the time. */
function percentileOverTime(
  values: readonly { readonly value: number; readonly ms: number }[],
  fraction: number,
): number {
  const ascending = [...values].sort((a, b) => a.value - b.value);
  let left = fraction * ascending.reduce((sum, { ms }) => sum + ms, 0);
  for (const { value, ms } of ascending) {
    left -= ms;
    if (left <= 0) return value;
  }
  return ascending.at(-1)?.value ?? 0;
}
