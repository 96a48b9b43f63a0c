/**
 * Placements per CPU-second of the CapacityScheduler with churn:
 *
 *   node bench/scheduler.ts [--nodes 10000] [--queues 8] [--classes 16] [--fill saturated]
 *     [--features limits] [--rounds 100] [--seed 1] [--matrix] [--json]
 *
 * Applications of many users, in queues with maxima and user limits, ask for a skewed mix of sizes.
 * Once the cluster is as full as `--fill` says (empty 5 %, half, saturated: more asked for than there
 * is), each round releases 1,000 random containers, asks again for each of them, and schedules until
 * nothing more fits. Everything the scheduler does in a round is counted, also the asks and releases.
 * One process, one thread; persistence and messages are not part of it. `--features all` adds
 * partitions, locality, placement constraints, priorities and opportunistic containers. `--matrix`
 * measures the usual combinations, each in a process of its own.
 */
import { spawnSync } from "node:child_process";
import { cpus } from "node:os";
import { parseArgs } from "node:util";
import { CapacityScheduler } from "../src/core/scheduler/capacity-scheduler.ts";
import type { Ask } from "../src/core/scheduler/request.ts";
import { LIMITS } from "../src/shared/limits.ts";
import {
  applicationsOf,
  configurationOf,
  DEMAND,
  type Fill,
  nodesOf,
  randomNumbers,
  type Workload,
} from "./scheduler-workload.ts";

const RELEASES = 1_000;
const FILLS: readonly Fill[] = ["empty", "half", "saturated"];

const { values: options } = parseArgs({
  options: {
    nodes: { type: "string", default: "10000" },
    queues: { type: "string", default: "8" },
    classes: { type: "string", default: "16" },
    fill: { type: "string", default: "saturated" },
    features: { type: "string", default: "limits" },
    rounds: { type: "string", default: "100" },
    seed: { type: "string", default: "1" },
    matrix: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
  },
});

function wholeNumber(name: string, text: string): number {
  if (/^[1-9]\d*$/.test(text)) return Number(text);
  return refuse(`--${name} ${text}: a whole number above 0 is expected, such as --${name} 1000`);
}

function oneOf<Value extends string>(name: string, text: string, values: readonly Value[]): Value {
  const value = values.find((each) => each === text);
  return value ?? refuse(`--${name} ${text}: one of ${values.join(", ")} is expected`);
}

function refuse(message: string): never {
  console.error(message);
  process.exit(2);
}

/** The combinations that are watched: size, queues, classes, fill, features. */
function runMatrix(): void {
  const flags = [
    ...[1_000, 10_000, 100_000].map((nodes) => ["--nodes", String(nodes)]),
    ...[100, 1_000].map((queues) => ["--queues", String(queues)]),
    ...[1, 64].map((classes) => ["--classes", String(classes)]),
    ...["empty", "half"].map((fill) => ["--fill", fill]),
    ...[1_000, 10_000].map((nodes) => ["--features", "all", "--nodes", String(nodes)]),
  ];
  for (const flag of flags) {
    const rest = ["--rounds", options.rounds, "--seed", options.seed, ...flag];
    const script = process.argv[1] ?? "";
    const argv = [...process.execArgv, script, ...rest, ...(options.json ? ["--json"] : [])];
    const { status } = spawnSync(process.execPath, argv, { stdio: "inherit" });
    if (status !== 0) process.exit(status ?? 1);
  }
}

class Bench {
  readonly workload: Workload;
  readonly scheduler: CapacityScheduler;
  /** Ids, and beside them whose ask each container answers, as an ApplicationMaster would know. */
  readonly #running: string[] = [];
  readonly #asked: RunningAsk[] = [];
  /** Outstanding numbers of the asks, as an ApplicationMaster would keep them. */
  readonly #outstanding = new Map<string, RunningAsk[]>();
  readonly #random: () => number;
  #sequence = 0;
  #nowMs = 0;

  constructor(workload: Workload, seed: number) {
    this.workload = workload;
    this.scheduler = new CapacityScheduler(configurationOf(workload));
    this.#random = randomNumbers(seed);
    for (const node of nodesOf(workload)) this.scheduler.addNode(node);
    for (const { application, asks } of applicationsOf(workload)) {
      this.scheduler.addApplication(application);
      const { attemptId } = application;
      this.#outstanding.set(
        attemptId,
        asks.map((ask) => ({ attemptId, ask, count: ask.count, isChanged: false })),
      );
      for (const ask of asks) {
        this.scheduler.setAsk(application.attemptId, ask);
      }
    }
  }

  /** Ids as long and as distinct as real ones, and cheaply made: making them is the caller's cost. */
  readonly #mint = (attemptId: string): string => {
    this.#sequence += 1;
    return `${attemptId}_${this.#sequence}`;
  };

  fillUp(): number {
    let placed = 0;
    this.#nowMs += 1_000;
    do {
      const max = LIMITS.assignmentsPerPassMax;
      for (const assignment of this.scheduler.schedule(this.#nowMs, max, this.#mint)) {
        const { containerId, attemptId, allocationRequestId } = assignment;
        const asked = this.#outstanding.get(attemptId)?.[allocationRequestId] as RunningAsk;
        asked.count -= 1;
        this.#running.push(containerId);
        this.#asked.push(asked);
        placed += 1;
      }
    } while (this.scheduler.hasPending());
    return placed;
  }

  /** What is gone is asked for again: by the same application, in the same way. */
  release(): number {
    const running = this.#running;
    const changed: RunningAsk[] = [];
    const number = Math.min(RELEASES, running.length);
    for (let count = 0; count < number; count += 1) {
      const index = Math.floor(this.#random() * running.length);
      const asked = this.#asked[index] as RunningAsk;
      this.scheduler.release(running[index] as string);
      running[index] = running.at(-1) as string;
      this.#asked[index] = this.#asked.at(-1) as RunningAsk;
      running.pop();
      this.#asked.pop();
      asked.count += 1;
      if (!asked.isChanged) changed.push(asked);
      asked.isChanged = true;
    }
    for (const asked of changed) {
      asked.isChanged = false;
      this.scheduler.setAsk(asked.attemptId, { ...asked.ask, count: asked.count });
    }
    return number;
  }
}

type RunningAsk = {
  readonly attemptId: string;
  readonly ask: Ask;
  count: number;
  isChanged: boolean;
};

type Measured = { readonly cpuSeconds: number; readonly wallMs: readonly number[] };

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

function main(): void {
  const nodes = wholeNumber("nodes", options.nodes);
  const queues = wholeNumber("queues", options.queues);
  const classes = wholeNumber("classes", options.classes);
  const rounds = wholeNumber("rounds", options.rounds);
  const seed = wholeNumber("seed", options.seed);
  const fill = oneOf("fill", options.fill, FILLS);
  const features = oneOf("features", options.features, ["limits", "all"]);
  const bench = new Bench(
    { nodes, queues, classes, features, demand: DEMAND[fill], asks: [] },
    seed,
  );
  let filled = 0;
  const filling = measure(1, () => {
    filled = bench.fillUp();
  });
  const { used, total } = bench.scheduler.usage();
  let placed = 0;
  let released = 0;
  const churn = measure(rounds, () => {
    released += bench.release();
    placed += bench.fillUp();
  });
  const { rss, heapUsed, arrayBuffers } = process.memoryUsage();
  const results = [
    { name: "placements_per_cpu_s", value: placed / churn.cpuSeconds, unit: "1/s" },
    { name: "operations_per_cpu_s", value: (placed + released) / churn.cpuSeconds, unit: "1/s" },
    { name: "fill_placements_per_cpu_s", value: filled / filling.cpuSeconds, unit: "1/s" },
    { name: "round_wall_p50", value: percentile(churn.wallMs, 0.5), unit: "ms" },
    { name: "round_wall_p99", value: percentile(churn.wallMs, 0.99), unit: "ms" },
    { name: "vcores_used", value: (100 * used.vcores) / total.vcores, unit: "%" },
    { name: "memory_used", value: (100 * used.memoryMb) / total.memoryMb, unit: "%" },
    { name: "rss", value: rss / 2 ** 20, unit: "MiB" },
    { name: "heap", value: heapUsed / 2 ** 20, unit: "MiB" },
    { name: "array_buffers", value: arrayBuffers / 2 ** 20, unit: "MiB" },
  ];
  const parameters = {
    nodes,
    queues,
    classes,
    fill,
    features,
    containers: bench.scheduler.usage().containers,
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
}

if (options.matrix) runMatrix();
else main();
