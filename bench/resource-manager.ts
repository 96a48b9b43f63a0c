/**
 * Durable placements in the real ResourceManager: its object and its SQLite in bare workerd, called
 * through a Worker of the benchmark's own.
 *
 *   node bench/resource-manager.ts [--nodes 10000] [--per-node 20] [--batch 1000] [--json]
 *
 * In batches: an application asks for containers that have no room (`ask`), nodes join that have room
 * for just these and the pass that follows is stored (`place`), the application is handed them with
 * their tokens (`hand-out`), and their nodes report them (`running`). Once all nodes are there and
 * full, workerd is killed and started again, and one more small container is asked for: the object
 * loads its rows, rebuilds the scheduler, places and answers (`evicted`); then `next`, the same again
 * while it is awake. Times are of calls, from outside, with HTTP and JSON of a batch in them; `cpuMs`
 * is workerd's CPU time of a call, which a busy machine changes less.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { build, stop } from "esbuild";
import { readWorkerSettings } from "../scripts/wrangler-config.ts";
import { percentile } from "./measurement.ts";
import { cpuSecondsOf, rssMbOf } from "./process-usage.ts";
import { anyPort } from "./registry-servers.ts";

const HOST = "127.0.0.1";
const START_MAX_MS = 60_000;
const CONTAINER_MB = 1_024;
/** Room on each node that no container of a batch has, for what is asked for after the restart. */
const SPARE_MB = 512;
/** Restarts, whose median counts. */
const RESTARTS = 3;
/** Placements a second; ms. */
const AIMS: Readonly<Record<string, string>> = {
  place: "≥ 100000/s, p99 ≤ 25 ms",
  evicted: "≤ 100 ms",
};

const { values: options } = parseArgs({
  options: {
    nodes: { type: "string", default: "10000" },
    "per-node": { type: "string", default: "20" },
    batch: { type: "string", default: "1000" },
    json: { type: "boolean", default: false },
  },
});
const PER_NODE = Number(options["per-node"]);
const BATCH = Number(options.batch);
const NODES_PER_BATCH = BATCH / PER_NODE;
const BATCHES = Math.ceil(Number(options.nodes) / NODES_PER_BATCH);

type Placed = { readonly containerId: string; readonly nodeId: string };
type Reply = {
  readonly ok: boolean;
  readonly value?: {
    readonly attemptId?: string;
    readonly responseId?: number;
    readonly allocated?: readonly Placed[];
  };
};

const home = mkdtempSync(join(tmpdir(), "selvedge-bench-"));
const port = await anyPort();
const url = `http://${HOST}:${port}`;
const times = new Map<string, number[]>();
/** Of workerd, by what was called. */
const cpuSecondsIn = new Map<string, number>();
let generation = 0;
let workerd: ChildProcess;

try {
  mkdirSync(join(home, "state"));
  writeFileSync(join(home, "worker.js"), await bundle());
  writeFileSync(join(home, "config.capnp"), configOf());
  workerd = await start();
  let attemptId = "";
  let answered = 0;
  for (let batch = 0; batch < BATCHES; batch += 1) ({ attemptId, answered } = await fill(batch));
  const rssMb = rssMbOf(workerd.pid ?? 0);
  for (let restart = 1; restart <= RESTARTS; restart += 1) {
    workerd.kill("SIGKILL");
    await once(workerd, "exit");
    workerd = await start();
    for (const name of ["evicted", "next"]) {
      const sequence = 1_000 * restart + (name === "next" ? 2 : 1);
      const ask = { priority: 1, allocationRequestId: sequence, count: 1 };
      const capability = { memoryMb: 128, vcores: 0 };
      const request = requestOf(answered, sequence, [{ ...ask, capability }]);
      const { value } = await call(name, "allocate", attemptId, request);
      if (value?.allocated?.length !== 1) throw new Error(`${name}: nothing was placed`);
      answered = value.responseId ?? answered;
    }
  }
  workerd.kill("SIGKILL");
  await once(workerd, "exit");
  report(rssMb);
} finally {
  rmSync(home, { recursive: true, force: true });
}

/** One application, its nodes and its containers, until these run. */
async function fill(batch: number): Promise<{ attemptId: string; answered: number }> {
  const capability = { memoryMb: CONTAINER_MB, vcores: 1 };
  const user = "ann";
  const submitted = await call("submit", "submitApplication", {
    name: `app-${batch}`,
    user,
    queue: "default",
    submitter: { user, groups: [], isAdmin: true },
    lifetimeSeconds: -1,
    applicationType: "yarn-service",
    master: `bench/ann/app-${batch}`,
    submissionId: `submission-${batch}`,
    largestRequests: [{ component: "web", resource: capability }],
  });
  const attemptId = submitted.value?.attemptId ?? "";
  await call("register", "registerApplicationMaster", attemptId, {});
  const ask = { priority: 0, allocationRequestId: 0, capability, count: BATCH };
  await call("ask", "allocate", attemptId, requestOf(0, 1, [ask]));
  const first = batch * NODES_PER_BATCH;
  const nodes = Array.from({ length: NODES_PER_BATCH }, (_, index) => nodeOf(first + index));
  await call("place", "reportNodes", reportOf(nodes, []));
  const { value } = await call("hand-out", "allocate", attemptId, requestOf(0, 2, []));
  const placed = value?.allocated ?? [];
  if (placed.length !== BATCH) throw new Error(`${placed.length} of ${BATCH} were placed`);
  const running = placed.map((container) => ({
    ...container,
    state: "RUNNING",
    exitStatus: -1_000,
    diagnostics: "",
  }));
  await call("running", "reportNodes", reportOf([], running));
  return { attemptId, answered: value?.responseId ?? 0 };
}

function requestOf(responseId: number, sequence: number, asks: readonly object[]) {
  return { responseId, sequence, progress: 0, asks, releases: [] };
}

function nodeOf(number: number) {
  const host = `worker${number}`;
  const node = {
    nodeId: `${host}:8041`,
    host,
    rack: `/rack${number % 50}`,
    capability: { memoryMb: PER_NODE * CONTAINER_MB + SPARE_MB, vcores: PER_NODE * 2 },
    labels: [],
    attributes: {},
    agentVersion: "1",
    healthy: true,
    healthReport: "",
  };
  return { node, presence: "PRESENT", incarnation: 1, reason: "" };
}

function reportOf(nodes: readonly object[], containers: readonly object[]) {
  generation += 1;
  return { shard: "0", generation, nodes, containers };
}

async function call(name: string, method: string, ...args: readonly unknown[]): Promise<Reply> {
  const body = JSON.stringify({ method, args });
  const pid = workerd.pid ?? 0;
  const cpuBefore = cpuSecondsOf(pid);
  const beganMs = performance.now();
  const response = await fetch(url, { method: "POST", body });
  const text = await response.text();
  const tookMs = performance.now() - beganMs;
  if (!response.ok) throw new Error(`${method} answered ${response.status}: ${text}`);
  const reply = JSON.parse(text) as Reply;
  if (!reply.ok) throw new Error(`${method}: ${text}`);
  const known = times.get(name) ?? [];
  known.push(tookMs);
  times.set(name, known);
  const cpuSeconds = cpuSecondsOf(pid) - cpuBefore;
  cpuSecondsIn.set(name, (cpuSecondsIn.get(name) ?? 0) + cpuSeconds);
  return reply;
}

function report(rssMb: number): void {
  const containers = BATCHES * BATCH;
  const surroundings = { nodes: BATCHES * NODES_PER_BATCH, containers, batch: BATCH };
  const cpu = cpus()[0]?.model ?? "";
  const rows = ["ask", "place", "hand-out", "running", "evicted", "next"].map((name) => {
    const all = times.get(name) ?? [];
    const p50Ms = Number(percentile(all, 0.5).toFixed(1));
    const p99Ms = Number(percentile(all, 0.99).toFixed(1));
    const total = all.reduce((sum, each) => sum + each, 0);
    const each = name === "evicted" || name === "next" ? 1 : BATCH;
    const perSecond = Math.round((all.length * each * 1_000) / total);
    const cpuMs = Math.round(((cpuSecondsIn.get(name) ?? 0) * 1_000) / all.length);
    const calls = all.length;
    return { name, value: perSecond, unit: "containers/s", p50Ms, p99Ms, cpuMs, calls };
  });
  if (options.json) {
    const load = loadavg()[0];
    for (const row of rows) {
      console.log(JSON.stringify({ ...row, ...surroundings, rssMb, cpu, load }));
    }
    return;
  }
  const { nodes } = surroundings;
  console.log(`${nodes} nodes, ${containers} containers, ${BATCH} in a batch; workerd on ${cpu}`);
  console.table(
    Object.fromEntries(
      rows.map(({ name, value, p50Ms, p99Ms, cpuMs }) => [
        name,
        { "containers/s": value, p50Ms, p99Ms, cpuMs, aim: AIMS[name] ?? "" },
      ]),
    ),
  );
  const load = loadavg().map((each) => each.toFixed(1));
  console.log(`workerd: ${Math.round(rssMb)} MB; load averages ${load.join(" ")}`);
}

async function bundle(): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL("./resource-manager-worker.mjs", import.meta.url))],
    bundle: true,
    write: false,
    format: "esm",
    target: "es2024",
    conditions: ["workerd", "worker", "browser"],
    external: ["cloudflare:*", "node:*"],
    logLevel: "silent",
  });
  await stop();
  return outputFiles[0]?.text ?? "";
}

function configOf(): string {
  const { compatibilityDate, compatibilityFlags, durableObjects } = readWorkerSettings();
  const quoted = (text: string) => JSON.stringify(text);
  const objects = Object.entries(durableObjects);
  const namespaces = objects.map(
    ([, name]) => `(className = ${quoted(name)}, uniqueKey = ${quoted(name)}, enableSql = true)`,
  );
  const bindings = objects.map(
    ([binding, name]) => `(name = ${quoted(binding)}, durableObjectNamespace = ${quoted(name)})`,
  );
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .main),
    (name = "disk", disk = (path = "state", writable = true)),
  ],
  sockets = [(name = "main", address = "${HOST}:${port}", http = (), service = "main")],
);
const main :Workerd.Worker = (
  modules = [(name = "worker.js", esModule = embed "worker.js")],
  compatibilityDate = ${quoted(compatibilityDate)},
  compatibilityFlags = [${compatibilityFlags.map(quoted).join(", ")}],
  bindings = [${bindings.join(", ")}],
  durableObjectNamespaces = [${namespaces.join(", ")}],
  durableObjectStorage = (localDisk = "disk"),
);
`;
}

async function start(): Promise<ChildProcess> {
  const command = createRequire(import.meta.url).resolve("workerd/bin/workerd");
  const child = spawn(command, ["serve", join(home, "config.capnp")], {
    cwd: home,
    stdio: ["ignore", "ignore", "inherit"],
  });
  const deadlineMs = performance.now() + START_MAX_MS;
  for (;;) {
    const isUp = await fetch(url).then(
      (response) => response.ok,
      () => false,
    );
    if (isUp) return child;
    if (child.exitCode !== null || performance.now() > deadlineMs) {
      child.kill("SIGKILL");
      throw new Error("workerd did not start");
    }
    await delay(20);
  }
}
