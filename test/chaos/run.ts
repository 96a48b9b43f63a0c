/**
 * `npm run chaos -- [--seed N] [--seconds S] [--steps N] [--no-cgroups] [--verbose]`: one storm after
 * the other, each with the next seed, until the time is over; the first that leaves something behind
 * ends it with exit code 1. Linux; control groups are used in every second storm where they can be.
 */
import { parseArgs } from "node:util";
import { runStorm } from "./storm.ts";

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    seconds: { type: "string", default: "60" },
    steps: { type: "string", default: "120" },
    "no-cgroups": { type: "boolean", default: false },
    verbose: { type: "boolean", default: false },
  },
});
const [first = 0, seconds = 0, steps = 0] = [values.seed, values.seconds, values.steps].map(Number);
if (![first, seconds, steps].every((number) => Number.isInteger(number) && number >= 0)) {
  console.error("--seed, --seconds and --steps are whole numbers");
  process.exit(2);
}

const print = values.verbose ? (line: string) => console.log(line) : undefined;
const untilMs = performance.now() + seconds * 1_000;
for (let seed = first; ; seed++) {
  const cgroups = !values["no-cgroups"] && seed % 2 === 0;
  const { containers, kills, findings } = await runStorm({ seed, steps, cgroups, print });
  const groups = cgroups ? "with control groups" : "without control groups";
  console.log(`seed ${seed}, ${groups}: ${containers} containers, ${kills} agents killed`);
  for (const finding of findings) console.error(`  ${finding}`);
  if (findings.length > 0) {
    const options = `--seed ${seed} --steps ${steps} --seconds 0${cgroups ? "" : " --no-cgroups"}`;
    console.error(`again: npm run chaos -- ${options} --verbose`);
    process.exit(1);
  }
  if (performance.now() >= untilMs) break;
}
