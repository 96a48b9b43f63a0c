/**
 * `npm run simulate -- --seed 42 [--seeds 1000 [--keep-going]] [--verbose]`: runs one seed, or so
 * many from it on, until the first failure unless it shall keep going.
 * The same seed is the same history, event for event, and prints the same hash.
 */
import { parseArgs } from "node:util";
import { simulate } from "./simulation.ts";
import { Violation } from "./world.ts";

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: "1" },
    seeds: { type: "string", default: "1" },
    verbose: { type: "boolean", default: false },
    "keep-going": { type: "boolean", default: false },
  },
});
const first = Number(values.seed);
const count = Number(values.seeds);
if (!Number.isInteger(first) || !Number.isInteger(count) || count < 1) {
  throw new Error("--seed and --seeds are whole numbers");
}

const print = values.verbose ? (line: string) => console.log(line) : undefined;
const failures = new Map<string, number[]>();
const startedMs = performance.now();
let steps = 0;
let virtualMs = 0;
for (let seed = first; seed < first + count; seed += 1) {
  try {
    const outcome = simulate(seed, undefined, print);
    steps += outcome.steps;
    virtualMs += outcome.elapsedMs;
    if (count === 1) console.log(`seed ${seed}: ${outcome.steps} events, hash ${outcome.hash}`);
  } catch (error) {
    const rule = error instanceof Violation ? error.rule : "THROWN";
    failures.set(rule, [...(failures.get(rule) ?? []), seed]);
    if (count === 1 || !values["keep-going"]) {
      console.error(
        `seed ${seed} fails: ${error instanceof Violation ? error.message : (error as Error).stack}`,
      );
      console.error(`replay: npm run simulate -- --seed ${seed} --verbose`);
      process.exitCode = 1;
      break;
    }
  }
}
const seconds = (performance.now() - startedMs) / 1_000;
if (count > 1) {
  const hours = (virtualMs / 3_600_000).toFixed(0);
  console.log(
    `${count} seeds in ${seconds.toFixed(1)} s (${(count / seconds).toFixed(0)} a second): ` +
      `${steps} events, ${hours} virtual hours`,
  );
}
for (const [rule, seeds] of failures) {
  process.exitCode = 1;
  console.error(`${rule}: ${seeds.length} seeds, such as ${seeds.slice(0, 8).join(", ")}`);
}
