/** What was measured on one node, as tables or as one object a line. */
import { cpus, loadavg, release, totalmem } from "node:os";

/** One row; the other fields say what it was measured with. */
export type Result = {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
} & Readonly<Record<string, string | number>>;

export type Report = (...results: Result[]) => void;

export function round(value: number): number {
  return Number(value.toPrecision(4));
}

export function percentile(values: readonly number[], fraction: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * fraction))] ?? Number.NaN;
}

/** `isJson`: one object a line, each with the surroundings. */
export function print(
  results: readonly Result[],
  loadBefore: readonly number[],
  isJson: boolean,
): void {
  const averages = (loads: readonly number[]) => loads.map((load) => load.toFixed(2)).join(" ");
  const surroundings = {
    cpu: cpus()[0]?.model.trim() ?? "unknown",
    cores: cpus().length,
    memoryGb: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    nodeVersion: process.version,
    loadBefore: averages(loadBefore),
    loadAfter: averages(loadavg()),
  };
  if (isJson) {
    for (const result of results) console.log(JSON.stringify({ ...result, ...surroundings }));
    return;
  }
  console.table(surroundings);
  // One table for each group of rows, which have the same columns.
  const groups = Map.groupBy(results, ({ name }) => name.split(".")[0]);
  for (const rows of groups.values()) {
    console.table(rows.map(({ name, value, unit, ...rest }) => ({ name, value, unit, ...rest })));
  }
}
