/**
 * Many clients change and read the same few paths, while workerd is killed in the middle of it. What
 * they have seen is one order of operations, and nothing that was acknowledged is lost. For longer
 * runs: `npm run linearizability`.
 */
import { afterAll, beforeAll, expect, it } from "vitest";
import { explainViolation } from "../linearizability/explain.ts";
import { REGISTRY } from "../linearizability/registry-model.ts";
import { type Outcome, type RegistryHistory, runWorkload } from "../linearizability/workload.ts";
import { startCluster, type TestCluster } from "../support/cluster.ts";
import { measured } from "../support/measured.ts";

const KILLS = 5;
const WORKLOAD = { clients: 8, kills: KILLS, durationMs: 20_000 };

let cluster: TestCluster;
let outcome: Outcome;
/** Another one every time: a failure names it. */
const seed = Date.now() % 1_000_000;

beforeAll(async () => {
  cluster = await startCluster({ nodes: 0 });
  const registry = { url: cluster.url, token: cluster.token, kill: () => cluster.killWorkerd() };
  outcome = await runWorkload(registry, { ...WORKLOAD, seed });
});

afterAll(async () => {
  await cluster.dispose();
});

function count(isCounted: (operation: RegistryHistory[number]) => boolean): number {
  return outcome.history.filter(isCounted).length;
}

it("[RG70] the registry is linearizable, and keeps what it acknowledged, however often it is killed", () => {
  const violation = explainViolation(REGISTRY, outcome.history);
  expect(violation && `seed ${seed}: ${violation}`).toBeNull();
});

it("[RG70] the clients have met each other, and the kills have met them", () => {
  const unanswered = count(({ returned }) => returned === null);
  const refused = count(({ returned }) => returned?.output.kind === "mismatch");
  const conditional = count(
    ({ input, returned }) =>
      input.op === "write" &&
      returned?.output.kind === "done" &&
      input.changes.some(({ condition }) => typeof condition === "number"),
  );
  measured(`seed ${seed}: ${outcome.history.length} operations, ${unanswered} without an answer`);
  expect(outcome.kills).toBe(KILLS);
  expect(unanswered).toBeGreaterThan(0);
  expect(refused).toBeGreaterThan(10);
  expect(conditional).toBeGreaterThan(10);
});

it("[RG70] nothing but a kill kept the registry from answering", () => {
  expect([...outcome.refusals]).toEqual([]);
});
