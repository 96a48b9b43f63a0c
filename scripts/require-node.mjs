/**
 * Runs a script of this project, `node scripts/require-node.mjs scripts/start.ts …`, if this Node
 * can: the scripts are TypeScript and are run as they are. Plain JavaScript that an old Node still
 * parses, so that the old Node answers with a sentence rather than with a syntax error.
 */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const NODE_MAJOR_MIN = 24;

const [script, ...rest] = process.argv.slice(2);
const root = fileURLToPath(new URL("..", import.meta.url));

if (script === undefined) {
  refuse("Say which script to run, such as: node scripts/require-node.mjs scripts/start.ts");
} else if (Number(process.versions.node.split(".")[0]) < NODE_MAJOR_MIN) {
  refuse(
    `Selvedge's scripts need Node ${NODE_MAJOR_MIN} or newer, and this is ${process.versions.node}: ` +
      "run `npm ci` (without --ignore-scripts), which installs the right one inside the project.",
  );
} else if (!existsSync(resolve(root, "node_modules", "miniflare"))) {
  refuse("The project's packages are not installed: run `npm ci` first.");
} else {
  const file = resolve(root, script);
  process.argv = [process.execPath, file, ...rest];
  await import(pathToFileURL(file).href);
}

/** @param {string} sentence */
function refuse(sentence) {
  console.error(sentence);
  process.exitCode = 1;
}
