/**
 * Builds what can be carried away into `dist/`: the Worker as one module, and the command (CLI and
 * agent) as one file that needs no node_modules, only Node.
 */
import { chmodSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { build } from "esbuild";
import { bundleWorker } from "./bundle-worker.ts";
import { ROOT } from "./run.ts";

/** CommonJS packages inside an ES module still ask for `require`. */
const BANNER = [
  "#!/usr/bin/env node",
  'import { createRequire as createRequireOfBundle } from "node:module";',
  "const require = createRequireOfBundle(import.meta.url);",
].join("\n");

const worker = join(ROOT, "dist", "worker", "index.js");
const command = join(ROOT, "dist", "selvedge.mjs");

mkdirSync(join(ROOT, "dist", "worker"), { recursive: true });
writeFileSync(worker, await bundleWorker());
await build({
  stdin: {
    contents: 'import { run } from "./process.ts"; await run(process.argv.slice(2));',
    resolveDir: join(ROOT, "src", "cli"),
  },
  outfile: command,
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node22",
  banner: { js: BANNER },
  // Native: speed-ups of `ws`, which does without where they are absent, and terminals for exec.
  external: ["bufferutil", "utf-8-validate", "@lydell/node-pty"],
  logLevel: "warning",
});
chmodSync(command, 0o755);
for (const file of [worker, command]) {
  console.log(`${file}  ${Math.round(statSync(file).size / 1_024)} KiB`);
}
