/**
 * `npm run linearizability -- [--seconds 120] [--clients 16] [--kills 20] [--seed 1]`: clients of a
 * real registry, workerd killed again and again, and the whole history judged. Ends with 1 and the
 * smallest part that cannot be ordered when there is one.
 */
import { parseArgs } from "node:util";
import { startCluster } from "../support/cluster.ts";
import { checkLinearizability } from "./checker.ts";
import { explainViolation } from "./explain.ts";
import { REGISTRY } from "./registry-model.ts";
import { runWorkload } from "./workload.ts";

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "120" },
    clients: { type: "string", default: "16" },
    kills: { type: "string", default: "20" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
  },
});
const [seconds = 0, clients = 0, kills = 0, seed = 0] = [
  values.seconds,
  values.clients,
  values.kills,
  values.seed,
].map(Number);
if (![seconds, clients, kills, seed].every((number) => Number.isInteger(number) && number >= 0)) {
  console.error("--seconds, --clients, --kills and --seed are whole numbers");
  process.exit(2);
}

const cluster = await startCluster({ nodes: 0 });
try {
  const registry = { url: cluster.url, token: cluster.token, kill: () => cluster.killWorkerd() };
  const options = { seed, clients, kills, durationMs: seconds * 1_000 };
  const outcome = await runWorkload(registry, options);
  const { history, refusals } = outcome;
  const unknown = history.filter(({ returned }) => returned === null).length;
  const parts = new Set(history.map(({ input }) => input.directory)).size;
  console.log(
    `seed ${seed}: ${history.length} operations in ${parts} directories, ${outcome.kills} kills, ` +
      `${unknown} operations without an answer`,
  );
  for (const [status, count] of refusals) console.log(`${count} answers with status ${status}`);
  const startedMs = performance.now();
  const verdict = checkLinearizability(REGISTRY, history);
  if (verdict.isLinearizable) {
    const ms = (performance.now() - startedMs).toFixed(0);
    console.log(`linearizable: ${verdict.configurations} configurations, ${ms} ms`);
  } else {
    console.error(explainViolation(REGISTRY, history));
    process.exitCode = 1;
  }
} finally {
  await cluster.dispose();
}
