/**
 * Placements per CPU-second of the CapacityScheduler with churn:
 *
 *   node bench/scheduler.ts [--nodes 10000] [--queues 8] [--classes 16] [--fill saturated]
 *     [--features limits] [--density 1] [--rounds 100] [--repetitions 5] [--seed 1] [--matrix] [--json]
 *
 * Applications of many users, in queues with maxima and user limits, ask for a skewed mix of sizes.
 * Once the cluster is as full as `--fill` says (empty 5 %, half, saturated: more asked for than there
 * is), each round releases 1,000 random containers, asks again for each of them, and schedules until
 * nothing more fits. `--features all` adds partitions, locality, placement constraints, priorities and
 * opportunistic containers; `--density 4` makes nodes four times as large. `--matrix` measures the
 * usual combinations, each in a process of its own.
 *
 * Counted is the CPU time of the process, collection of garbage included, while calls to the scheduler
 * are made: releases, asks, passes. What the driver does between them (choosing what ends, making ids
 * and asks, writing down assignments) is not. Making the ids of new containers is, since the scheduler
 * calls for them; `driver_ns` says how long one takes. After as many rounds to warm up, the figure is
 * the median of the repetitions. One process, one thread; persistence and messages are not part of it.
 */
import { spawnSync } from "node:child_process";
import { cpus, loadavg } from "node:os";
import { parseArgs } from "node:util";
import { CapacityScheduler } from "../src/core/scheduler/capacity-scheduler.ts";
import type { Ask, Assignment } from "../src/core/scheduler/request.ts";
import { LIMITS } from "../src/shared/limits.ts";
import { percentile } from "./measurement.ts";
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
    density: { type: "string", default: "1" },
    rounds: { type: "string", default: "100" },
    repetitions: { type: "string", default: "5" },
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
    const { rounds, repetitions, seed } = options;
    const rest = ["--rounds", rounds, "--repetitions", repetitions, "--seed", seed, ...flag];
    const script = process.argv[1] ?? "";
    const argv = [...process.execArgv, script, ...rest, ...(options.json ? ["--json"] : [])];
    const { status } = spawnSync(process.execPath, argv, { stdio: "inherit" });
    if (status !== 0) process.exit(status ?? 1);
  }
}

/** One ask of one application, as its ApplicationMaster knows it. */
type RunningAsk = {
  readonly attemptId: string;
  readonly ask: Ask;
  count: number;
};

/** What one round tells the scheduler. */
type Churn = {
  readonly released: readonly string[];
  readonly asks: readonly { readonly attemptId: string; readonly ask: Ask }[];
};

class Bench {
  readonly scheduler: CapacityScheduler;
  readonly #asks: RunningAsk[] = [];
  readonly #firstAskOf = new Map<string, number>();
  /** Of each running container the index of its ask, and the number at the end of its id. */
  readonly #askOf = new Int32List();
  readonly #numberOf = new Int32List();
  readonly #random: () => number;
  #sequence = 0;
  #nowMs = 0;
  /** Of all decisions in their order: the same for the same seed, unless a rule has changed. */
  checksum = 0;

  constructor(workload: Workload, seed: number) {
    this.scheduler = new CapacityScheduler(configurationOf(workload));
    this.#random = randomNumbers(seed);
    for (const node of nodesOf(workload)) this.scheduler.addNode(node);
    for (const { application, asks } of applicationsOf(workload)) {
      const { attemptId } = application;
      this.scheduler.addApplication(application);
      this.#firstAskOf.set(attemptId, this.#asks.length);
      for (const ask of asks) {
        this.scheduler.setAsk(attemptId, ask);
        this.#asks.push({ attemptId, ask, count: ask.count });
      }
    }
  }

  /** Ids as long and as distinct as real ones, and cheaply made: making them is the caller's cost. */
  readonly #mint = (attemptId: string): string => {
    this.#sequence += 1;
    return `${attemptId}_${this.#sequence}`;
  };

  /** CPU time of making one id, ns. */
  mintNs(): number {
    const attemptIds = [...this.#firstAskOf.keys()];
    const times = 1_000_000;
    let length = 0;
    const sequence = this.#sequence;
    const { cpuSeconds } = measured(() => {
      for (let time = 0; time < times; time += 1) {
        length += this.#mint(attemptIds[time % attemptIds.length] ?? "").length;
      }
    });
    this.#sequence = sequence;
    return length > 0 ? (cpuSeconds * 1e9) / times : 0;
  }

  /** Schedules until nothing more can be placed. */
  fillUp(): Measured & { readonly placed: number } {
    let [placed, cpuSeconds, wallMs] = [0, 0, 0];
    this.#nowMs += 1_000;
    for (let isMore = true; isMore; ) {
      let assignments: readonly Assignment[] = [];
      const pass = measured(() => {
        const max = LIMITS.assignmentsPerPassMax;
        assignments = this.scheduler.schedule(this.#nowMs, max, this.#mint);
        isMore = this.scheduler.hasPending();
      });
      this.#note(assignments);
      placed += assignments.length;
      cpuSeconds += pass.cpuSeconds;
      wallMs += pass.wallMs;
    }
    return { placed, cpuSeconds, wallMs };
  }

  /** Writes down what runs now. */
  #note(assignments: readonly Assignment[]): void {
    for (const { containerId, attemptId, nodeId, allocationRequestId } of assignments) {
      const index = (this.#firstAskOf.get(attemptId) ?? 0) + allocationRequestId;
      const asked = this.#asks[index] as RunningAsk;
      asked.count -= 1;
      this.#askOf.push(index);
      this.#numberOf.push(Number(containerId.slice(attemptId.length + 1)));
      this.checksum = checksumOf(nodeId, (this.checksum * 31 + index) | 0);
    }
  }

  /** What ends next, and is asked for again: by the same application, in the same way. */
  churn(): Churn {
    const changed = new Set<RunningAsk>();
    const released: string[] = [];
    const number = Math.min(RELEASES, this.#askOf.size);
    for (let count = 0; count < number; count += 1) {
      const index = Math.floor(this.#random() * this.#askOf.size);
      const asked = this.#asks[this.#askOf.take(index)] as RunningAsk;
      // Joined, an id is one piece, as one that came in a message is.
      released.push([asked.attemptId, this.#numberOf.take(index)].join("_"));
      asked.count += 1;
      changed.add(asked);
    }
    const asks = [...changed].map(({ attemptId, ask, count }) => ({
      attemptId,
      ask: { ...ask, count },
    }));
    return { released, asks };
  }

  release({ released }: Churn): void {
    for (const containerId of released) this.scheduler.release(containerId);
  }

  ask({ asks }: Churn): void {
    for (const { attemptId, ask } of asks) this.scheduler.setAsk(attemptId, ask);
  }
}

/** Whole numbers, 4 bytes each, since there may be a million of them beside the scheduler's memory. */
class Int32List {
  #numbers = new Int32Array(1_024);
  size = 0;

  push(number: number): void {
    if (this.size === this.#numbers.length) {
      const larger = new Int32Array(this.size + (this.size >> 2));
      larger.set(this.#numbers);
      this.#numbers = larger;
    }
    this.#numbers[this.size] = number;
    this.size += 1;
  }

  /** Takes one out, and puts the last into its place. */
  take(index: number): number {
    const number = this.#numbers[index] as number;
    this.size -= 1;
    this.#numbers[index] = this.#numbers[this.size] as number;
    return number;
  }
}

function checksumOf(text: string, before: number): number {
  let sum = before;
  for (let index = 0; index < text.length; index += 1) {
    sum = (Math.imul(sum, 31) + text.charCodeAt(index)) | 0;
  }
  return sum;
}

type Measured = { readonly cpuSeconds: number; readonly wallMs: number };

function measured(run: () => void): Measured {
  const startedMs = performance.now();
  const before = process.cpuUsage();
  run();
  const { user, system } = process.cpuUsage(before);
  return { cpuSeconds: (user + system) / 1e6, wallMs: performance.now() - startedMs };
}

type Repetition = {
  placed: number;
  released: number;
  /** Of all, and the parts of it. */
  cpuSeconds: number;
  releaseSeconds: number;
  askSeconds: number;
  passSeconds: number;
  readonly wallMs: number[];
};

function repetition(bench: Bench, rounds: number): Repetition {
  const result: Repetition = {
    placed: 0,
    released: 0,
    cpuSeconds: 0,
    releaseSeconds: 0,
    askSeconds: 0,
    passSeconds: 0,
    wallMs: [],
  };
  for (let round = 0; round < rounds; round += 1) {
    const churn = bench.churn();
    const releasing = measured(() => bench.release(churn));
    const asking = measured(() => bench.ask(churn));
    const filling = bench.fillUp();
    result.placed += filling.placed;
    result.released += churn.released.length;
    result.releaseSeconds += releasing.cpuSeconds;
    result.askSeconds += asking.cpuSeconds;
    result.passSeconds += filling.cpuSeconds;
    result.cpuSeconds += releasing.cpuSeconds + asking.cpuSeconds + filling.cpuSeconds;
    result.wallMs.push(releasing.wallMs + asking.wallMs + filling.wallMs);
  }
  return result;
}

function main(): void {
  const nodes = wholeNumber("nodes", options.nodes);
  const queues = wholeNumber("queues", options.queues);
  const classes = wholeNumber("classes", options.classes);
  const density = wholeNumber("density", options.density);
  const rounds = wholeNumber("rounds", options.rounds);
  const repetitions = wholeNumber("repetitions", options.repetitions);
  const seed = wholeNumber("seed", options.seed);
  const fill = oneOf("fill", options.fill, FILLS);
  const features = oneOf("features", options.features, ["limits", "all"]);
  const rssBefore = process.memoryUsage.rss();
  const workload = { nodes, queues, classes, density, features, demand: DEMAND[fill], asks: [] };
  const bench = new Bench(workload, seed);
  const filling = bench.fillUp();
  const { used, total } = bench.scheduler.usage();
  repetition(bench, rounds);
  const runs = Array.from({ length: repetitions }, () => repetition(bench, rounds));
  globalThis.gc?.();
  const { rss, heapUsed, arrayBuffers } = process.memoryUsage();
  const wallMs = runs.flatMap((run) => run.wallMs);
  const perCpuSecond = (count: (run: Repetition) => number, fraction: number) =>
    percentile(
      runs.map((run) => count(run) / run.cpuSeconds),
      fraction,
    );
  /** CPU time for each container that was placed. */
  const perPlacement = (seconds: (run: Repetition) => number) =>
    percentile(
      runs.map((run) => (1e9 * seconds(run)) / run.placed),
      0.5,
    );
  const both = ({ placed, released }: Repetition) => placed + released;
  const results = [
    { name: "placements_per_cpu_s", value: perCpuSecond(({ placed }) => placed, 0.5), unit: "1/s" },
    { name: "placements_and_releases_per_cpu_s", value: perCpuSecond(both, 0.5), unit: "1/s" },
    { name: "placements_and_releases_least", value: perCpuSecond(both, 0), unit: "1/s" },
    { name: "placements_and_releases_most", value: perCpuSecond(both, 1), unit: "1/s" },
    { name: "release_ns", value: perPlacement((run) => run.releaseSeconds), unit: "ns" },
    { name: "asks_ns", value: perPlacement((run) => run.askSeconds), unit: "ns" },
    { name: "passes_ns", value: perPlacement((run) => run.passSeconds), unit: "ns" },
    { name: "fill_placements_per_cpu_s", value: filling.placed / filling.cpuSeconds, unit: "1/s" },
    { name: "driver_ns", value: bench.mintNs(), unit: "ns" },
    { name: "round_wall_p50", value: percentile(wallMs, 0.5), unit: "ms" },
    { name: "round_wall_p99", value: percentile(wallMs, 0.99), unit: "ms" },
    { name: "vcores_used", value: (100 * used.vcores) / total.vcores, unit: "%" },
    { name: "memory_used", value: (100 * used.memoryMb) / total.memoryMb, unit: "%" },
    { name: "rss", value: rss / 2 ** 20, unit: "MiB" },
    { name: "rss_added", value: (rss - rssBefore) / 2 ** 20, unit: "MiB" },
    { name: "heap", value: heapUsed / 2 ** 20, unit: "MiB" },
    { name: "array_buffers", value: arrayBuffers / 2 ** 20, unit: "MiB" },
  ];
  const parameters = {
    nodes,
    queues,
    classes,
    density,
    fill,
    features,
    containers: bench.scheduler.usage().containers,
    rounds,
    repetitions,
    placed: runs.reduce((sum, { placed }) => sum + placed, 0),
    checksum: bench.checksum,
    seed,
    load: loadavg()[0],
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
