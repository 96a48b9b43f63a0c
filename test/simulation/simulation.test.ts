/**
 * A thousand histories of a whole cluster with everything that can go wrong (see simulation.ts).
 * A failure names its seed; `npm run simulate -- --seed 42 --verbose` shows that history again.
 */
import { describe, expect, it } from "vitest";
import { simulate } from "./simulation.ts";

const SEEDS_PER_TEST = 100;
const TIMEOUT_MS = 60_000;

function failuresIn(first: number, count: number): string[] {
  const failures: string[] = [];
  for (let seed = first; seed < first + count; seed += 1) {
    try {
      simulate(seed);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      failures.push(
        `seed ${seed}: ${reason}; replay: npm run simulate -- --seed ${seed} --verbose`,
      );
    }
  }
  return failures;
}

describe("a cluster among faults", () => {
  for (let first = 1; first <= 1_000; first += SEEDS_PER_TEST) {
    const last = first + SEEDS_PER_TEST - 1;
    it(
      `[SIM1] [SIM2] [SIM3] [SIM4] [SIM5] keeps its rules in the histories ${first} to ${last}`,
      () => {
        expect(failuresIn(first, SEEDS_PER_TEST)).toEqual([]);
      },
      TIMEOUT_MS,
    );
  }

  it("[SIM6] the same seed is the same history, event for event", () => {
    for (const seed of [1, 42, 4_711]) expect(simulate(seed)).toEqual(simulate(seed));
  });

  it("[SIM6] different seeds are different histories", () => {
    const hashes = [1, 2, 3, 4, 5].map((seed) => simulate(seed).hash);
    expect(new Set(hashes).size).toBe(5);
  });

  it("[SIM6] to watch a history does not change it", () => {
    const lines: string[] = [];
    const watched = simulate(42, undefined, (line) => lines.push(line));
    expect(watched).toEqual(simulate(42));
    expect(lines.length).toBeGreaterThan(watched.steps / 2);
  });
});
