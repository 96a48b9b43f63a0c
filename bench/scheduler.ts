/**
 * Placements per CPU-second of the CapacityScheduler on a full cluster with churn:
 *
 *   node bench/scheduler.ts [--nodes 10000] [--rounds 100] [--seed 1] [--json]
 *
 * 100 applications ask for a skewed mix of 16 sizes, together more than the cluster holds. Once it
 * is full, each round releases 1,000 random containers, asks again for each of them, and schedules
 * until nothing more fits. Everything the scheduler does in a round is counted, also the asks and
 * releases. One process, one thread; persistence and messages are not part of it.
 */
import { cpus } from "node:os";
import { parseArgs } from "node:util";
import { type Assignment, CapacityScheduler } from "../src/core/scheduler/capacity-scheduler.ts";
import { formatApplicationId, formatAttemptId } from "../src/shared/ids.ts";
import { LIMITS } from "../src/shared/limits.ts";
import type { Resource } from "../src/shared/resource.ts";

const { values: options } = parseArgs({
  options: {
    nodes: { type: "string", default: "10000" },
    rounds: { type: "string", default: "100" },
    seed: { type: "string", default: "1" },
    json: { type: "boolean", default: false },
  },
});
const nodeCount = wholeNumber("nodes", options.nodes);
const rounds = wholeNumber("rounds", options.rounds);
const seed = wholeNumber("seed", options.seed);

const NODE: Resource = { memoryMb: 262_144, vcores: 64 };
const RELEASES = 1_000;
const APPLICATIONS = 100;
const DEMAND = 1.2;
/** Sixteen sizes, from 1 vcore with 512 MB to 16 vcores with 64 GB; small ones are common. */
const SIZES = [1, 2, 4, 16].flatMap((vcores, step) =>
  [512, 1_024, 2_048, 4_096].map((perVcoreMb) => ({
    capability: { memoryMb: vcores * perVcoreMb, vcores },
    weight: 2 ** (4 - step),
  })),
);

type Measured = { readonly cpuSeconds: number; readonly wallMs: readonly number[] };

function wholeNumber(name: string, text: string): number {
  if (/^[1-9]\d*$/.test(text)) return Number(text);
  console.error(`--${name} ${text}: a whole number above 0 is expected, such as --${name} 1000`);
  process.exit(2);
}

/** Mulberry32: the same numbers for the same seed, 0 ≤ number < 1. */
function randomNumbers(start: number): () => number {
  let state = start;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const random = randomNumbers(seed);
const scheduler = new CapacityScheduler();
const running: Assignment[] = [];
let sequence = 0;

/** As long and as distinct as real ones, and cheaply made: making ids is the caller's cost. */
function mint(attemptId: string): string {
  sequence += 1;
  return `${attemptId}_${sequence}`;
}

function fillUp(): number {
  const before = running.length;
  do {
    for (const assignment of scheduler.schedule(LIMITS.assignmentsPerPassMax, mint)) {
      running.push(assignment);
    }
  } while (scheduler.hasPending());
  return running.length - before;
}

function setUp(): void {
  for (let number = 0; number < nodeCount; number += 1) {
    const nodeId = `worker${number}.example.com:8041`;
    scheduler.addNode({ nodeId, rack: "/default-rack", labels: [], capability: NODE });
  }
  const weights = SIZES.reduce((total, { weight }) => total + weight, 0);
  const vcores = SIZES.reduce((total, size) => total + size.weight * size.capability.vcores, 0);
  const containers = (DEMAND * nodeCount * NODE.vcores * weights) / vcores;
  for (let number = 0; number < APPLICATIONS; number += 1) {
    const attemptId = formatAttemptId(formatApplicationId(1, number), 1);
    const application = { attemptId, queue: "root.default", user: "bench", order: number };
    scheduler.addApplication(application);
    for (const [index, { capability, weight }] of SIZES.entries()) {
      const count = Math.ceil((containers * weight) / weights / APPLICATIONS);
      scheduler.setAsk(attemptId, { priority: 0, allocationRequestId: index, capability, count });
    }
  }
}

/** What is gone is asked for again: by the same application, in the same size. */
function release(): void {
  const again = new Map<string, { assignment: Assignment; count: number }>();
  for (let number = 0; number < RELEASES && running.length > 0; number += 1) {
    const index = Math.floor(random() * running.length);
    const assignment = running[index] as Assignment;
    running[index] = running.at(-1) as Assignment;
    running.pop();
    scheduler.release(assignment.containerId);
    const key = `${assignment.attemptId} ${assignment.allocationRequestId}`;
    const count = (again.get(key)?.count ?? 0) + 1;
    again.set(key, { assignment, count });
  }
  for (const { assignment, count } of again.values()) {
    const { attemptId, priority, allocationRequestId, resource } = assignment;
    const outstanding = scheduler
      .asks(attemptId)
      .find((ask) => ask.allocationRequestId === allocationRequestId);
    scheduler.setAsk(attemptId, {
      priority,
      allocationRequestId,
      capability: resource,
      count: (outstanding?.count ?? 0) + count,
    });
  }
}

function measure(times: number, run: () => void): Measured {
  const wallMs: number[] = [];
  const cpuBefore = process.cpuUsage();
  for (let time = 0; time < times; time += 1) {
    const startedMs = performance.now();
    run();
    wallMs.push(performance.now() - startedMs);
  }
  const { user, system } = process.cpuUsage(cpuBefore);
  return { cpuSeconds: (user + system) / 1e6, wallMs: wallMs.sort((a, b) => a - b) };
}

function percentile(sorted: readonly number[], fraction: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * fraction))] ?? 0;
}

setUp();
let filled = 0;
const fill = measure(1, () => {
  filled = fillUp();
});
const used = scheduler.usage();
let placed = 0;
const churn = measure(rounds, () => {
  release();
  placed += fillUp();
});

const results = [
  { name: "scheduler.fill", value: filled / fill.cpuSeconds, unit: "placements/CPU-s" },
  { name: "scheduler.churn", value: placed / churn.cpuSeconds, unit: "placements/CPU-s" },
  { name: "scheduler.churn.round.p50", value: percentile(churn.wallMs, 0.5), unit: "ms" },
  { name: "scheduler.churn.round.p99", value: percentile(churn.wallMs, 0.99), unit: "ms" },
  {
    name: "scheduler.vcores.used",
    value: (100 * used.used.vcores) / used.total.vcores,
    unit: "%",
  },
  { name: "process.rss", value: process.memoryUsage.rss() / 2 ** 20, unit: "MiB" },
];
const parameters = {
  nodes: nodeCount,
  containers: scheduler.usage().containers,
  applications: APPLICATIONS,
  sizes: SIZES.length,
  releasesPerRound: RELEASES,
  rounds,
  placed,
  seed,
  node: process.version,
  cpu: cpus()[0]?.model.trim() ?? "unknown",
};
if (options.json) {
  for (const result of results) console.log(JSON.stringify({ ...result, ...parameters }));
} else {
  console.table(parameters);
  console.table(results.map((result) => ({ ...result, value: Number(result.value.toFixed(2)) })));
}
