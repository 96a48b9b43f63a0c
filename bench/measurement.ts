/** What every benchmark says beside its figures, and how it sums up many of them. */
import { cpus, loadavg, release, totalmem } from "node:os";

/** What it ran on. `loadBefore` is `loadavg()` of the beginning; that of the end is read here. */
export function surroundings(loadBefore: readonly number[]) {
  const averages = (loads: readonly number[]) => loads.map((load) => load.toFixed(2)).join(" ");
  return {
    cpu: cpus()[0]?.model.trim() ?? "unknown",
    cores: cpus().length,
    memoryGb: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    nodeVersion: process.version,
    loadBefore: averages(loadBefore),
    loadAfter: averages(loadavg()),
  };
}

/** The value that the `fraction` of all does not exceed; 0 where there are none. */
export function percentile(values: readonly number[], fraction: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * fraction))] ?? 0;
}
