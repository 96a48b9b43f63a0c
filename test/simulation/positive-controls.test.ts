/** The auditor can fail: faults put into the core on purpose are found, each by a rule that fits. */
import { describe, expect, it } from "vitest";
import { MUTANTS } from "./mutants.ts";
import { simulate } from "./simulation.ts";
import { Violation } from "./world.ts";

/** The subtlest needs a late message and a lost node in one history. */
const SEEDS_MAX = 600;
const TIMEOUT_MS = 60_000;

describe("the simulation finds out when", () => {
  for (const mutant of MUTANTS) {
    it(
      `[SIM7] ${mutant.name}`,
      () => {
        const found = firstViolation(mutant);
        expect(found).toBeDefined();
        expect(mutant.foundBy).toContain(found?.rule);
      },
      TIMEOUT_MS,
    );
  }
});

function firstViolation(mutant: (typeof MUTANTS)[number]): Violation | undefined {
  for (let seed = 1; seed <= SEEDS_MAX; seed += 1) {
    try {
      simulate(seed, mutant);
    } catch (error) {
      if (error instanceof Violation) return error;
      throw error;
    }
  }
  return undefined;
}
