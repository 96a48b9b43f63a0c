/**
 * One node alone: the real agent as a process of its own, driven by a tracker in this process.
 *
 *   npm run bench:node [-- --only launches,podman,running,localization] [--launches 2000]
 *                      [--concurrency 32] [--sizes 100,1000] [--idle-seconds 15]
 *                      [--large-mb 1024] [--no-cgroups] [--json]
 *
 * What each row is, and what it is compared with: README.md.
 */
import { loadavg } from "node:os";
import { parseArgs } from "node:util";
import type { StartNodeManagerOptions } from "../src/agent/main.ts";
import { effectiveRlimits, ulimitArguments } from "../src/agent/rlimits.ts";
import { ALLOWED, HARDENING, missingForPodman, TestEngine } from "../test/agent/docker-engine.ts";
import { launchContext } from "../test/agent/test-tracker.ts";
import { BenchNode } from "./node-agent.ts";
import { launchesByAgent, launchesByNode, launchesByShell } from "./node-launches.ts";
import { localizeByAgent, localizeByCurl, ResourceServer } from "./node-localization.ts";
import { print, type Result } from "./node-report.ts";
import { measureRunning } from "./node-running.ts";

const SECTIONS = { launches, podman, running, localization } as const;
/** A container of an engine takes a second of a core. */
const PODMAN_LOAD = { launches: 40, concurrency: 4 };
const WARMUP = 200;

const { values: options } = parseArgs({
  options: {
    only: { type: "string", default: Object.keys(SECTIONS).join(",") },
    launches: { type: "string", default: "2000" },
    concurrency: { type: "string", default: "32" },
    sizes: { type: "string", default: "100,1000" },
    "idle-seconds": { type: "string", default: "15" },
    "large-mb": { type: "string", default: "1024" },
    "no-cgroups": { type: "boolean", default: false },
    json: { type: "boolean", default: false },
  },
});
const load = {
  launches: wholeNumber("launches", options.launches),
  concurrency: wholeNumber("concurrency", options.concurrency),
};

function wholeNumber(name: string, text: string): number {
  if (/^[1-9]\d*$/.test(text)) return Number(text);
  console.error(`--${name} ${text}: whole numbers above 0 are expected, such as --${name} 500`);
  process.exit(2);
}

/** Runs the work on a node of its own, and clears it away. */
async function onNode<Value>(
  work: (node: BenchNode) => Promise<Value>,
  more: Partial<StartNodeManagerOptions> = {},
): Promise<Value> {
  const cgroups = options["no-cgroups"] ? { cgroups: false } : {};
  const node = await BenchNode.start({ ...cgroups, ...more });
  try {
    return await work(node);
  } finally {
    await node.close();
  }
}

async function launches(): Promise<Result[]> {
  const byAgent = await onNode(async (node) => {
    const launch = launchContext("true");
    await launchesByAgent("launch.warm-up", node, launch, { ...load, launches: WARMUP });
    return launchesByAgent("launch.agent", node, launch, load);
  });
  return [
    byAgent,
    await launchesByNode("launch.node-spawn", ["/bin/sh", "-c", ":"], load),
    launchesByShell("launch.shell-loop", load.launches),
  ];
}

/** The image is made of the machine's busybox; nothing is downloaded. */
async function podman(): Promise<Result[]> {
  const missing = missingForPodman();
  if (missing !== undefined) {
    console.error(`podman is left out: ${missing}`);
    return [];
  }
  const engine = await TestEngine.create();
  const { command, globalArguments } = engine.cli;
  const runtime = engine.image();
  const cli = { command, globalArguments: [...globalArguments] };
  const docker = { cli, allowed: ALLOWED, hardening: HARDENING, pullPolicy: "missing" } as const;
  try {
    const run = [command, ...globalArguments, "run", "--rm", "--network", "host"];
    const words = [...run, ...ulimitArguments(HARDENING.rlimits), runtime.image];
    const alone = await launchesByNode("podman.run", [...words, "/bin/sh", "-c", ":"], PODMAN_LOAD);
    const byAgent = await onNode(
      (node) => launchesByAgent("podman.agent", node, launchContext(":", { runtime }), PODMAN_LOAD),
      { confinement: { rlimits: effectiveRlimits(), docker } },
    );
    return [byAgent, alone];
  } finally {
    await engine.removeContainers();
    await engine.close();
  }
}

function running(): Promise<Result[]> {
  const sizes = options.sizes.split(",").map((text) => wholeNumber("sizes", text));
  const idleSeconds = wholeNumber("idle-seconds", options["idle-seconds"]);
  return onNode((node) => measureRunning(node, { sizes, idleSeconds, concurrency: 32 }));
}

async function localization(): Promise<Result[]> {
  const server = await ResourceServer.start();
  const largeBytes = wholeNumber("large-mb", options["large-mb"]) * 2 ** 20;
  const kinds = [
    { name: "small", count: 1_000, bytes: 4_096 },
    { name: "large", count: 1, bytes: largeBytes },
  ];
  const allowances = { http: true, addresses: ["127.0.0.1"] };
  try {
    const results: Result[] = [];
    for (const resources of kinds) {
      results.push(
        await onNode((node) => localizeByAgent(node, server, resources), {
          localization: { allowances },
        }),
        await localizeByCurl(server, resources),
      );
    }
    return results;
  } finally {
    server.close();
  }
}

// What was started is ended also when the benchmark is.
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));
const loadBefore = loadavg();
const wanted = options.only.split(",");
const results: Result[] = [];
for (const [name, measure] of Object.entries(SECTIONS)) {
  if (wanted.includes(name)) results.push(...(await measure()));
}
print(results, loadBefore, options.json);
