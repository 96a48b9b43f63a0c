import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { mapRegistry } from "../support/map-registry.ts";
import { outcomeOf } from "../support/registry-contract.ts";
import { naiveRegistry, operationList, perform } from "../support/registry-model.ts";

describe("the registry's rules", () => {
  it("agree with a naive model over any sequence of operations", async () => {
    await fc.assert(
      fc.asyncProperty(operationList, async (operations) => {
        const registry = mapRegistry();
        const model = naiveRegistry();
        for (const operation of operations) {
          expect(outcomeOf(await perform(registry, operation))).toBe(model.perform(operation));
          expect(await model.differences(registry)).toEqual([]);
        }
      }),
      { numRuns: 200 },
    );
  });
});
