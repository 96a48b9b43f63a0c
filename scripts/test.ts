/**
 * `npm test`: everything, in the order in which a failure is cheapest to learn of; stops at the
 * first stage that fails. The last line is `N passed, N failed`, followed by `, N skipped` where
 * tests were skipped; a stage without tests that fails counts as one failure. CI runs just this.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { installCommand, installPrerequisites } from "./prerequisites.ts";
import { run } from "./run.ts";

type Counts = { passed: number; failed: number; skipped: number };
type Stage = { readonly name: string; run(): Promise<boolean> };

const total: Counts = { passed: 0, failed: 0, skipped: 0 };
const folder = mkdtempSync(join(tmpdir(), "selvedge-test-"));

const stages: readonly Stage[] = [
  { name: "prerequisites", run: prerequisites },
  command("lint and format", "biome", ["check", "--error-on-warnings", "."]),
  command("types", process.execPath, ["scripts/types.ts"]),
  vitest("unit, architecture, integration in workerd", ["unit", "workers"]),
  vitest("end to end", ["e2e"]),
  command("deploy, dry run", "wrangler", ["deploy", "--dry-run", "--outdir", `${folder}/worker`]),
];

try {
  for (const stage of stages) {
    console.log(`\n=== ${stage.name}`);
    const startedMs = performance.now();
    const passed = await stage.run();
    const seconds = ((performance.now() - startedMs) / 1_000).toFixed(1);
    console.log(`=== ${stage.name}: ${passed ? "passed" : "FAILED"} in ${seconds} s`);
    if (passed) continue;
    process.exitCode = 1;
    break;
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
const skipped = total.skipped === 0 ? "" : `, ${total.skipped} skipped`;
console.log(`\n${total.passed} passed, ${total.failed} failed${skipped}`);

async function prerequisites(): Promise<boolean> {
  const missing = await installPrerequisites();
  if (missing.length === 0) return true;
  for (const { command, usedBy } of missing) console.log(`missing: ${command} (for ${usedBy})`);
  console.log(`the tests that need it are skipped; this installs it: ${installCommand(missing)}`);
  if (process.env["CI"] !== "true") return true;
  total.failed += 1;
  return false;
}

function command(name: string, program: string, args: readonly string[]): Stage {
  return {
    name,
    async run() {
      const passed = (await run(program, args)).code === 0;
      if (!passed) total.failed += 1;
      return passed;
    },
  };
}

function vitest(name: string, projects: readonly string[]): Stage {
  const report = join(folder, `${projects.join("-")}.json`);
  return {
    name,
    async run() {
      const { code } = await run("vitest", [
        "run",
        ...projects.flatMap((project) => ["--project", project]),
        ...["--reporter", "default", "--reporter", "json", `--outputFile.json=${report}`],
      ]);
      const counts = readReport(report);
      total.passed += counts.passed;
      total.skipped += counts.skipped;
      // A file that cannot even be loaded has no failed test, and is a failure all the same.
      total.failed += code === 0 ? 0 : Math.max(1, counts.failed);
      return code === 0;
    },
  };
}

/** Nothing counted where vitest ended before it wrote a report. */
function readReport(file: string): Counts {
  let report: Record<string, number>;
  try {
    report = JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return { passed: 0, failed: 0, skipped: 0 };
  }
  return {
    passed: report["numPassedTests"] ?? 0,
    failed: report["numFailedTests"] ?? 0,
    skipped: (report["numPendingTests"] ?? 0) + (report["numTodoTests"] ?? 0),
  };
}
