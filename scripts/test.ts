/**
 * `npm test`: everything, in the order in which a failure is cheapest to learn of; stops at the
 * first stage that fails. The last line is `N passed, N failed`, followed by `, N skipped` where
 * tests were skipped; a stage without tests that fails counts as one failure. A test file that fails is
 * run once more, and named as unsteady where it passes then. CI runs just this.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { installCommand, installPrerequisites } from "./prerequisites.ts";
import { ROOT, run } from "./run.ts";

type Counts = { passed: number; failed: number; skipped: number };
/** Of vitest's JSON report. */
type TestFile = {
  readonly name: string;
  readonly status: string;
  readonly assertionResults: readonly { readonly status: string }[];
};
type Stage = { readonly name: string; run(): Promise<boolean> };

const total: Counts = { passed: 0, failed: 0, skipped: 0 };
/** When more files fail, it is not the machine. */
const UNSTEADY_MAX = 3;
/** Files whose tests failed at first, and then did not. */
const unsteady: string[] = [];
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
for (const file of unsteady) console.log(`\nunsteady: ${file} failed, and then passed`);
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
  const options = projects.flatMap((project) => ["--project", project]);
  const report = join(folder, projects.join("-"));
  return {
    name,
    async run() {
      const first = await runVitest(options, `${report}.json`);
      const failed = first.files.filter(({ status }) => status === "failed");
      if (failed.length === 0 || failed.length > UNSTEADY_MAX) {
        count(first.files);
        return endedWith(first.code);
      }
      count(first.files.filter((file) => !failed.includes(file)));
      // A machine that others keep busy fails a test that depends on time; a fault fails it again.
      const names = failed.map((file) => relative(ROOT, file.name));
      console.log(`\n=== ${name}: once more, one after the other: ${names.join(", ")}`);
      const again = await runVitest(
        [...options, "--no-file-parallelism", ...names],
        `${report}-again.json`,
      );
      count(again.files);
      if (again.code === 0) unsteady.push(...names);
      return endedWith(again.code);
    },
  };
}

async function runVitest(options: readonly string[], report: string) {
  const reporters = ["--reporter", "default", "--reporter", "json", `--outputFile.json=${report}`];
  const { code } = await run("vitest", ["run", ...options, ...reporters]);
  return { code, files: readReport(report) };
}

/** A run that fails without a test that fails, as a file that cannot be loaded, is one failure. */
function endedWith(code: number | null): boolean {
  if (code !== 0) total.failed = Math.max(1, total.failed);
  return code === 0;
}

function count(files: readonly TestFile[]): void {
  for (const { status } of files.flatMap(({ assertionResults }) => assertionResults)) {
    if (status === "passed" || status === "failed") total[status] += 1;
    else total.skipped += 1;
  }
}

/** Nothing where vitest ended before it wrote a report. */
function readReport(file: string): readonly TestFile[] {
  try {
    const { testResults } = JSON.parse(readFileSync(file, "utf8")) as { testResults: TestFile[] };
    return testResults;
  } catch {
    return [];
  }
}
