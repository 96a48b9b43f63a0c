/**
 * Bundles the Worker into the one ES module that Miniflare and bare workerd are given. Takes the
 * same entry as wrangler.toml's `main`; what the runtime itself provides stays an import.
 */
import { fileURLToPath } from "node:url";
import { build, stop } from "esbuild";

const ENTRY = fileURLToPath(new URL("../src/worker/index.ts", import.meta.url));

/**
 * The module's text. `minify` makes it smaller and its stack traces useless. Throws esbuild's
 * BuildFailure, whose message names file, line and cause.
 */
export async function bundleWorker({ minify = false } = {}): Promise<string> {
  const result = await build({
    entryPoints: [ENTRY],
    bundle: true,
    minify,
    write: false,
    format: "esm",
    target: "es2024",
    conditions: ["workerd", "worker", "browser"],
    external: ["cloudflare:*", "node:*"],
    logLevel: "silent",
  });
  // Otherwise esbuild's service process would live as long as the caller does.
  await stop();
  const [output] = result.outputFiles;
  if (output === undefined) throw new Error("esbuild wrote no output for src/worker/index.ts.");
  return output.text;
}
