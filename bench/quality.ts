/**
 * How good the CapacityScheduler's decisions are, by simulation (bench/README.md):
 *
 *   node bench/quality.ts [--workload balanced,diurnal] [--trace FILE] [--json] [--svg DIR]
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { parseArgs } from "node:util";
import type { Resource } from "../src/shared/resource.ts";
import { type Chart, renderChart, type Series } from "./quality-chart.ts";
import { GENERATORS } from "./quality-generators.ts";
import { guaranteesOf, isMet, type Measure, measure, spansOf } from "./quality-measures.ts";
import { measurePacking } from "./quality-packing.ts";
import { type Outcome, type Standing, simulate } from "./quality-simulator.ts";
import { readTrace, TraceError } from "./quality-traces.ts";
import { dominantShare, totalOf, type Workload } from "./quality-workload.ts";

const NAMES = Object.keys(GENERATORS);
const USAGE = `node bench/quality.ts [--workload NAME,NAME…] [--trace FILE] [options]

  --workload NAME,…    ${NAMES.join(", ")}; all of them when left out
  --trace FILE         instead: a SYNTH or SLS file of Hadoop's Scheduler Load Simulator
  --topology FILE      the trace's machines (SLS nodes file); left out: as the trace says
  --node-memory-mb N   of each machine of a trace; default 10240, with --node-vcores 10
  --container-memory-mb N   of each container of an SLS trace; default 1024, with --container-vcores 1
  --nodes N            machines of a generated workload; default 100
  --waves N            its work, in mean tasks of the whole cluster; default 40
  --seed N             default 1
  --no-preemption      over-demand and diurnal without inter-queue preemption
  --json               one measure a line
  --svg DIR            charts of utilisation and of queues' shares over time`;

/** Points of a line, however many events there were. */
const CHART_POINTS = 240;

const { values: options } = parseArgs({
  allowNegative: true,
  options: {
    workload: { type: "string", default: NAMES.join(",") },
    trace: { type: "string" },
    topology: { type: "string" },
    "node-memory-mb": { type: "string", default: "10240" },
    "node-vcores": { type: "string", default: "10" },
    "container-memory-mb": { type: "string", default: "1024" },
    "container-vcores": { type: "string", default: "1" },
    nodes: { type: "string", default: "100" },
    waves: { type: "string", default: "40" },
    seed: { type: "string", default: "1" },
    preemption: { type: "boolean", default: true },
    json: { type: "boolean", default: false },
    svg: { type: "string" },
    help: { type: "boolean", default: false },
  },
});

function refuse(message: string): never {
  console.error(`${message}\n\n${USAGE}`);
  process.exit(2);
}

function wholeNumber(name: keyof typeof options): number {
  const text = String(options[name]);
  if (/^[1-9]\d*$/.test(text)) return Number(text);
  return refuse(`--${name} ${text}: a whole number above 0 is expected`);
}

function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    return refuse(`${path} cannot be read: ${String(cause)}`);
  }
}

function tracedWorkload(path: string): Workload {
  const size = (what: "node" | "container"): Resource => ({
    memoryMb: wholeNumber(`${what}-memory-mb`),
    vcores: wholeNumber(`${what}-vcores`),
  });
  const topology = options.topology === undefined ? {} : { topology: readText(options.topology) };
  const traceOptions = { node: size("node"), container: size("container"), ...topology };
  try {
    return readTrace(basename(path), readText(path), traceOptions);
  } catch (error) {
    if (error instanceof TraceError) return refuse(error.message);
    throw error;
  }
}

function generatedWorkload(name: string): Workload {
  const generate = GENERATORS[name];
  if (generate === undefined) return refuse(`--workload ${name}: there is ${NAMES.join(", ")}`);
  return generate({
    nodes: wholeNumber("nodes"),
    seed: wholeNumber("seed"),
    waves: wholeNumber("waves"),
    preemption: options.preemption,
  });
}

function surroundings({ name, nodes, jobs }: Workload) {
  return { workload: name, nodes: nodes.length, jobs: jobs.length, seed: wholeNumber("seed") };
}

function print(workload: Workload, outcome: Outcome, measures: readonly Measure[]): void {
  const parameters = { ...surroundings(workload), containers: outcome.starts.length };
  if (options.json) {
    for (const { name, value, unit, aim } of measures) {
      const judged = aim === undefined ? {} : { aim, met: isMet({ name, value, unit, aim }) };
      console.log(JSON.stringify({ name: `quality.${name}`, value, unit, ...judged, parameters }));
    }
    return;
  }
  console.log(`\n${workload.name}`);
  console.table(parameters);
  console.table(
    measures.map(({ name, value, unit, aim }) => ({
      measure: name,
      value: Number(value.toPrecision(5)),
      unit,
      aim: aim === undefined ? "" : aimText(aim),
      met: aim === undefined ? "" : isMet({ name, value, unit, aim }) ? "yes" : "NO",
    })),
  );
  for (const reason of outcome.stuck.slice(0, 5)) console.log(`never ended: ${reason}`);
}

function aimText(aim: NonNullable<Measure["aim"]>): string {
  return "atLeast" in aim ? `≥ ${aim.atLeast}` : `≤ ${aim.atMost}`;
}

/** Means over equal steps of time. */
function overTime(outcome: Outcome, amountOf: (index: number) => number): Series["points"] {
  const spans = spansOf(outcome);
  const endMs = outcome.samples.at(-1)?.atMs ?? 0;
  const stepMs = Math.max(1, endMs / CHART_POINTS);
  const sums = new Float64Array(CHART_POINTS);
  for (const [index, { sample, ms }] of spans.entries()) {
    const value = amountOf(index);
    for (let from = sample.atMs; from < sample.atMs + ms; ) {
      const bucket = Math.min(CHART_POINTS - 1, Math.floor(from / stepMs));
      const to = Math.min(
        sample.atMs + ms,
        bucket === CHART_POINTS - 1 ? endMs : (bucket + 1) * stepMs,
      );
      if (to <= from) break;
      sums[bucket] = (sums[bucket] ?? 0) + value * (to - from);
      from = to;
    }
  }
  return [...sums].map((sum, bucket) => [((bucket + 0.5) * stepMs) / 1_000, sum / stepMs] as const);
}

function chartsOf(workload: Workload, outcome: Outcome): ReadonlyMap<string, Chart> {
  const total = totalOf(workload.nodes);
  const { samples, queues } = outcome;
  const subtitle = `${workload.name}: ${workload.nodes.length} machines, ${outcome.starts.length} containers`;
  const percent = (amountOf: (standing: Standing) => number) =>
    overTime(outcome, (index) => {
      const sample = samples[index];
      return sample === undefined ? 0 : 100 * amountOf(sample);
    });
  const wanted = ({ used, pending }: Standing) =>
    Math.min(1, dominantShare(used, total) + dominantShare(pending, total));
  const guarantees = guaranteesOf(workload);
  const endSeconds = (samples.at(-1)?.atMs ?? 0) / 1_000;
  return new Map([
    [
      "utilisation",
      {
        title: "Allocated share of the cluster",
        subtitle,
        yLabel: "allocated (%)",
        series: [
          { name: "demand (to 100 %)", points: percent(wanted), isDashed: true, color: 6 },
          {
            name: "memory",
            points: percent(({ used }) => used.memoryMb / total.memoryMb),
            color: 0,
          },
          { name: "vcores", points: percent(({ used }) => used.vcores / total.vcores), color: 1 },
        ],
      },
    ],
    [
      "queues",
      {
        title: "Dominant share of each queue",
        subtitle: `${subtitle}; dashed: its guarantee`,
        yLabel: "dominant share (%)",
        series: queues.flatMap((name, queue): Series[] => {
          const points = overTime(outcome, (index) => {
            const standing = samples[index]?.queues[queue];
            return standing === undefined ? 0 : 100 * dominantShare(standing.used, total);
          });
          const guarantee = 100 * (guarantees.get(name) ?? 0);
          const flat = [[0, guarantee] as const, [endSeconds, guarantee] as const];
          return [
            { name, points, color: queue },
            { points: flat, isDashed: true, color: queue },
          ];
        }),
      },
    ],
  ]);
}

function writeCharts(directory: string, workload: Workload, outcome: Outcome): void {
  mkdirSync(directory, { recursive: true });
  for (const [name, chart] of chartsOf(workload, outcome)) {
    const file = `${workload.name.replace(/[^\w-]+/g, "-")}-${name}.svg`;
    writeFileSync(join(directory, file), renderChart(chart));
  }
}

if (options.help) {
  console.log(USAGE);
} else {
  const workloads =
    options.trace === undefined
      ? options.workload.split(",").map(generatedWorkload)
      : [tracedWorkload(options.trace)];
  for (const workload of workloads) {
    const outcome = simulate(workload);
    const packing = measurePacking(workload, wholeNumber("seed"));
    print(workload, outcome, [...measure(workload, outcome), ...packing]);
    if (options.svg !== undefined) writeCharts(options.svg, workload, outcome);
  }
}
