/**
 * Type-checks the project. Each runtime has its own tsconfig, because each knows other ambient
 * types; they are checked side by side.
 */
import { run } from "./run.ts";

const PROJECTS = ["tsconfig.core.json", "tsconfig.worker.json", "tsconfig.node.json"];

const results = await Promise.all(
  PROJECTS.map((project) => run("tsc", ["-p", project, "--pretty", "false"], { capture: true })),
);
for (const [index, { code, output }] of results.entries()) {
  if (code === 0) continue;
  console.error(`${PROJECTS[index]}:\n${output}`);
  process.exitCode = 1;
}
