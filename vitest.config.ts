/**
 * Three projects: `unit` in plain Node, `workers` inside workerd with real Durable Objects and
 * SQLite, `e2e` with a real Worker and real agents as processes. See CONTRIBUTING.md.
 */
import { availableParallelism } from "node:os";
import { cloudflareTest } from "@cloudflare/vitest-plugin";
import { defineConfig } from "vitest/config";
import { OFFLINE_ENVIRONMENT } from "./scripts/offline-environment.ts";

// Read by the plug-in when it starts workerd, hence set before anything else happens.
Object.assign(process.env, OFFLINE_ENVIRONMENT);

/** Vitest would leave one core idle. A file in workerd, or with agents as processes, takes one while it runs. */
const CORES = availableParallelism();
/** Property tests need a second or two; a machine that is shared with others makes that many. */
const BUSY_MACHINE_TIMEOUT_MS = 30_000;
/** A busy two-core machine needs seconds to start a cluster; a test that hangs still ends. */
const E2E_TIMEOUT_MS = 120_000;

export default defineConfig({
  test: {
    // What a test prints is shown where the test fails.
    silent: "passed-only",
    // An object that logs while its workerd is being closed has no one to log to, and did no wrong.
    onUnhandledError: (error) =>
      !(error.name === "EnvironmentTeardownError" && error.message.includes("onUserConsoleLog")),
    projects: [
      {
        test: {
          name: "unit",
          environment: "node",
          maxWorkers: CORES,
          testTimeout: BUSY_MACHINE_TIMEOUT_MS,
          include: [
            "test/{core,worker,client,agent,cli,architecture,simulation,linearizability,chaos}/**/*.test.ts",
          ],
        },
      },
      {
        plugins: [
          cloudflareTest({
            wrangler: { configPath: "./wrangler.toml" },
            miniflare: {
              bindings: { SELVEDGE_CLAIM_CODE: "test-claim-code", SELVEDGE_CLUSTERS: "*" },
            },
          }),
        ],
        test: {
          name: "workers",
          testTimeout: BUSY_MACHINE_TIMEOUT_MS,
          include: ["test/durable/**/*.test.ts"],
          maxWorkers: CORES,
        },
      },
      {
        test: {
          name: "e2e",
          environment: "node",
          include: ["test/e2e/**/*.test.ts"],
          // Each file starts whole clusters: side by side they would only wait for each other.
          fileParallelism: false,
          testTimeout: E2E_TIMEOUT_MS,
          hookTimeout: E2E_TIMEOUT_MS,
        },
      },
    ],
  },
});
