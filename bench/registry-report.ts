/** What was measured, as tables with the aims or as one object a line. */
import { percentile, surroundings } from "./measurement.ts";

/** One row; the other fields say what it was measured with. */
export type Result = {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly server: string;
  readonly records: number;
} & Readonly<Record<string, string | number>>;

export type Measured = {
  readonly requests: number;
  readonly wallMs: number;
  readonly latenciesMs: readonly number[];
  /** CPU time of the server's process meanwhile. */
  readonly cpuSeconds: number;
  /** Of the server's process at the end. */
  readonly rssMb: number;
};

export type Conditions = {
  readonly server: string;
  readonly records: number;
  readonly connections: number;
  /** What one request does, such as records bound. */
  readonly operationsPerRequest?: number;
};

/** A peer's resolve, times this, is the aim for ours. */
const RESOLVE_FACTOR = 1.5;
/** What etcd's JSON gateway answered on another day, for runs without it; 1/s. */
const ETCD_RESOLVE = 7_000;

export function resultOf(name: string, measured: Measured, conditions: Conditions): Result {
  const { requests, wallMs, latenciesMs, cpuSeconds, rssMb } = measured;
  const { server, records, connections, operationsPerRequest = 1 } = conditions;
  const operations = requests * operationsPerRequest;
  return {
    name,
    value: round((operations / wallMs) * 1_000),
    unit: "1/s",
    p50Ms: round(percentile(latenciesMs, 0.5)),
    p99Ms: round(percentile(latenciesMs, 0.99)),
    cpuMsEach: round((cpuSeconds * 1_000) / operations),
    cpuSeconds: round(cpuSeconds),
    wallSeconds: round(wallMs / 1_000),
    rssMb: round(rssMb),
    operations,
    connections,
    records,
    server,
  };
}

function round(value: number): number {
  return Number(value.toPrecision(4));
}

/** The aims, each with what was measured for it; left out where nothing was. */
function aims(results: readonly Result[]): string[] {
  const at = (name: string, records?: number, server = "workerd") =>
    results.find(
      (result) =>
        result.name === name &&
        result.server === server &&
        (records === undefined || result.records === records),
    );
  const lines: string[] = [];
  const judge = (what: string, value: number | undefined, limit: number, isMaximum: boolean) => {
    if (value === undefined || !Number.isFinite(value)) return;
    const isMet = isMaximum ? value <= limit : value >= limit;
    const relation = isMaximum ? "≤" : "≥";
    lines.push(`${isMet ? "met    " : "not met"} ${what}: ${round(value)} (${relation} ${limit})`);
  };
  const sizes = [...new Set(results.map((result) => result.records))].sort((a, b) => a - b);
  for (const size of sizes) {
    const number = (name: string, field: string) => Number(at(name, size)?.[field] ?? Number.NaN);
    const shown = (what: string) => `${what}, ${size} records`;
    judge(shown("find by api, CPU ms"), number("find.api", "cpuMsEach"), 5, true);
    const peer = at("resolve", size, "etcd")?.value ?? ETCD_RESOLVE;
    judge(shown("resolve, 1/s"), number("resolve", "value"), round(RESOLVE_FACTOR * peer), false);
    judge(shown("batched binds, records/s"), number("bind.batched", "value"), 20_000, false);
    const hello = number("hello", "value");
    judge(shown("DoH of one name / hello"), number("doh.one-name", "value") / hello, 0.8, false);
    judge(shown("DoH of all names / hello"), number("doh.all-names", "value") / hello, 0.8, false);
    const watchers = number("watch.change", "connections");
    judge(shown(`${watchers} watchers, p99 ms`), number("watch.change", "p99Ms"), 100, true);
  }
  const [smallest, largest] = [sizes[0], sizes.at(-1)];
  if (smallest === largest) return lines;
  for (const name of ["purge.container", "find.api"]) {
    const growth =
      Number(at(name, largest)?.["cpuMsEach"]) / Number(at(name, smallest)?.["cpuMsEach"]);
    judge(`${name}, CPU of ${largest} / of ${smallest} records`, growth, 1.5, true);
  }
  return lines;
}

/** `isJson`: one object a line, each with the surroundings. */
export function report(
  results: readonly Result[],
  loadBefore: readonly number[],
  isJson: boolean,
): void {
  const ranOn = surroundings(loadBefore);
  if (isJson) {
    for (const result of results) console.log(JSON.stringify({ ...result, ...ranOn }));
    return;
  }
  console.table(ranOn);
  console.table(results.map(({ unit: _, value, ...rest }) => ({ "1/s": value, ...rest })));
  const etcd = results.some(({ server }) => server === "etcd") ? "this run" : "another day";
  console.log(`Aims, on bare workerd (resolve: 1.5 × that of etcd's JSON gateway, ${etcd}):`);
  for (const line of aims(results)) console.log(`  ${line}`);
}
