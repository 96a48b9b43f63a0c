/**
 * The CapacityScheduler beside an oracle that knows the rules and no shortcuts: after any history
 * both serve the same application and the same request next, on a node that the oracle allows.
 */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Assignment } from "../../src/core/scheduler/request.ts";
import { fitsIn } from "../../src/shared/resource.ts";
import { type Decision, decide } from "./scheduler-oracle.ts";
import {
  Books,
  configuration,
  history,
  uniformHistory,
  World,
} from "./scheduler-oracle-history.ts";

/** The same in every run, so that a failure is one for everybody; fast-check prints it. */
const SEED = 20_261_121;

describe("the oracle agrees", () => {
  it("[CS60] decision by decision through whole passes, when all requests are of one size", () => {
    fc.assert(
      fc.property(configuration, uniformHistory, (first, commands) => {
        const world = new World(first);
        for (const command of [...commands, { type: "schedule", max: 50 } as const]) {
          if (command.type === "schedule") comparePass(world, command.max);
          else world.run(command);
        }
      }),
      { seed: SEED, numRuns: 1_000 },
    );
  });

  it("[CS60] decision by decision, with nodes reserved for large requests among small ones", () => {
    fc.assert(
      fc.property(configuration, history, (first, commands) => {
        const world = new World(first);
        for (const command of commands) {
          if (command.type !== "schedule") world.run(command);
          else while (compareDecision(world));
        }
      }),
      { seed: SEED, numRuns: 1_000 },
    );
  });

  it("[CS60] whether there is anything to place", () => {
    fc.assert(
      fc.property(configuration, uniformHistory, (first, commands) => {
        const world = new World(first);
        for (const command of commands) {
          world.run(command);
          expect(world.scheduler.hasPending()).toBe(decide(world) !== undefined);
        }
      }),
      { seed: SEED, numRuns: 300 },
    );
  });
});

/** One pass beside as many single decisions. */
function comparePass(world: World, max: number): void {
  const before = new Books(world);
  const assignments = world.schedule(max);
  for (const assignment of assignments) {
    expectRight(assignment, decide(before));
    before.take(assignment);
  }
  if (assignments.length < max) expect(decide(before)).toBeUndefined();
}

/** One decision; false: neither has anything to place. */
function compareDecision(world: World): boolean {
  world.noteReservations();
  const before = new Books(world);
  const [assignment] = world.schedule(1);
  if (assignment === undefined) {
    expect(decide(before)).toBeUndefined();
    return false;
  }
  const { attemptId, nodeId, resource } = assignment;
  const reservation = [...before.reservations].find(([, one]) => one.nodeId === nodeId);
  if (reservation === undefined) {
    expectRight(assignment, decide(before));
  } else {
    // §3.6: a reserved node serves its reservation before anything else happens.
    expect({ attemptId, nodeId, resource }).toEqual({
      attemptId: reservation[0],
      ...reservation[1],
    });
    expect(fitsIn(resource, before.free(nodeId))).toBe(true);
  }
  return true;
}

function expectRight(assignment: Assignment, decision: Decision | undefined): void {
  const served = ({ attemptId, priority, allocationRequestId }: Omit<Decision, "nodes">) => ({
    attemptId,
    priority,
    allocationRequestId,
  });
  expect(served(assignment)).toEqual(decision && served(decision));
  expect(decision?.nodes).toContain(assignment.nodeId);
}
