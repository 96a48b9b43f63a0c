/**
 * From the POST of a Yarnfile to its container's process running, on a warm cluster of two nodes:
 *
 *   npm run bench:launch [-- --launches 500] [--warmup 30] [--breakdown] [--json]
 *
 * Closed loop, one launch after the other: services of one container with readiness DEFAULT, each
 * destroyed, and its resources free again, before the next; that is outside the timed window. The
 * launched command's first act is to write its name into a FIFO, which this process reads, so that
 * both ends of the window are read from one monotonic clock and the window holds everything: HTTP,
 * scheduling, the agent, three shells. Beside it the same command, run by `/bin/sh -c` alone and
 * measured in the same way: what remains when there is no cluster.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { constants, mkdtempSync, openSync, realpathSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { Socket } from "node:net";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface, type Interface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { startCluster, type TestCluster } from "../test/support/cluster.ts";
import { percentile, surroundings } from "./measurement.ts";

const { values: options } = parseArgs({
  options: {
    launches: { type: "string", default: "500" },
    warmup: { type: "string", default: "30" },
    breakdown: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
  },
});
const launches = wholeNumber("launches", options.launches);
const warmup = wholeNumber("warmup", options.warmup);

const NODES = 2;
const SHELL = "/bin/sh";
const GOALS = { p50Ms: 40, p99Ms: 150 };
/** A launch that takes longer has failed. */
const LAUNCH_MAX_MS = 30_000;
/** How often it is asked, outside the timed window, whether the last launch is cleared away. */
const CLEARED_POLL_MS = 5;

type Phases = Readonly<Record<string, number>>;
type Launch = { readonly ms: number; readonly phases: Phases };

function wholeNumber(name: string, text: string): number {
  if (/^[1-9]\d*$/.test(text)) return Number(text);
  console.error(`--${name} ${text}: a whole number above 0 is expected, such as --${name} 500`);
  process.exit(2);
}

/** Where the launched commands say that they run. */
class Doorbell {
  readonly path: string;
  readonly #directory = mkdtempSync(join(tmpdir(), "selvedge-bench-"));
  readonly #socket: Socket;
  readonly #lines: Interface;

  constructor() {
    this.path = join(this.#directory, "running");
    execFileSync("mkfifo", [this.path]);
    // Open for writing too, or the first writer that leaves would end the stream.
    const fd = openSync(this.path, constants.O_RDWR | constants.O_NONBLOCK);
    this.#socket = new Socket({ fd, readable: true, writable: false });
    this.#lines = createInterface({ input: this.#socket });
  }

  /** A command that rings with its name at once, and then stays. */
  command(name: string): string {
    return `echo ${name} > ${this.path}; exec sleep 1000`;
  }

  /** Resolves with the moment at which that name was heard. */
  async heard(name: string): Promise<number> {
    const signal = AbortSignal.timeout(LAUNCH_MAX_MS);
    const [line] = (await once(this.#lines, "line", { signal })) as [string];
    const now = performance.now();
    if (line !== name) throw new Error(`${line} rang, where ${name} should have`);
    return now;
  }

  close(): void {
    this.#lines.close();
    this.#socket.destroy();
    rmSync(this.#directory, { recursive: true });
  }
}

/** Fork and exec through the shell, as the launched command would be run without a cluster. */
async function launchByShell(doorbell: Doorbell, name: string): Promise<Launch> {
  const heard = doorbell.heard(name);
  const startedMs = performance.now();
  const child: ChildProcess = spawn(SHELL, ["-c", doorbell.command(name)], { stdio: "ignore" });
  const ms = (await heard) - startedMs;
  child.kill("SIGKILL");
  await once(child, "exit");
  return { ms, phases: {} };
}

async function launchByCluster(
  cluster: TestCluster,
  doorbell: Doorbell,
  name: string,
): Promise<Launch> {
  const component = {
    name: "main",
    number_of_containers: 1,
    launch_command: doorbell.command(name),
    resource: { cpus: 1, memory: "32" },
  };
  const yarnfile = { name, version: "1", components: [component] };
  const logged = [1, 2].map((number) => logOf(cluster, number).length);
  const heard = doorbell.heard(name);
  const startedMs = performance.now();
  const answered = cluster.launch(yarnfile).then(() => performance.now() - startedMs);
  const ms = (await heard) - startedMs;
  const answeredMs = await answered;
  const phases = options.breakdown
    ? await phasesOf(cluster, name, { startedMs, ms, answeredMs, logged })
    : {};
  await cluster.services.destroy(name);
  while ((await cluster.cluster.metrics()).containersAllocated > 0) await delay(CLEARED_POLL_MS);
  return { ms, phases };
}

type Window = {
  readonly startedMs: number;
  readonly ms: number;
  readonly answeredMs: number;
  readonly logged: readonly number[];
};

/** By the clocks of the Worker and of the agent, to the millisecond. */
async function phasesOf(cluster: TestCluster, name: string, window: Window): Promise<Phases> {
  const events = await cluster.services.events(name);
  const postedMs = performance.timeOrigin + window.startedMs;
  const at = (type: string) => events.find((event) => event.type === type)?.timeMs ?? Number.NaN;
  const submittedMs = at("SERVICE_SUBMITTED");
  const allocatedMs = at("CONTAINER_ALLOCATED");
  const spawnedMs = spawnTime(cluster, window.logged);
  return {
    "answered 202": window.answeredMs,
    "1 POST to stored": submittedMs - postedMs,
    "2 stored to allocated": allocatedMs - submittedMs,
    "3 allocated to spawned": spawnedMs - allocatedMs,
    "4 spawned to running": postedMs + window.ms - spawnedMs,
  };
}

/** When an agent says it has spawned the container, in what it logged since then. */
function spawnTime(cluster: TestCluster, logged: readonly number[]): number {
  for (const [index, start] of logged.entries()) {
    const fresh = logOf(cluster, index + 1).slice(start);
    const [, time] = /"time":"([^"]+)","event":"container\.started"/.exec(fresh) ?? [];
    if (time !== undefined) return Date.parse(time);
  }
  return Number.NaN;
}

function logOf(cluster: TestCluster, number: number): string {
  return options.breakdown ? cluster.log(number) : "";
}

async function repeat(times: number, launch: (index: number) => Promise<Launch>) {
  const all: Launch[] = [];
  for (let index = 0; index < times; index++) all.push(await launch(index));
  return all;
}

function summarize(name: string, all: readonly Launch[]) {
  const values = all.map(({ ms }) => ms);
  return [
    { name: `${name}.p50`, value: percentile(values, 0.5), unit: "ms" },
    { name: `${name}.p90`, value: percentile(values, 0.9), unit: "ms" },
    { name: `${name}.p99`, value: percentile(values, 0.99), unit: "ms" },
    { name: `${name}.max`, value: Math.max(...values), unit: "ms" },
  ];
}

function medianPhases(all: readonly Launch[]) {
  return Object.keys(all[0]?.phases ?? {}).map((phase) => ({
    name: `launch.phase.${phase.replaceAll(" ", "-")}.p50`,
    value: percentile(
      all.map(({ phases }) => phases[phase] ?? Number.NaN),
      0.5,
    ),
    unit: "ms",
  }));
}

function parameters(before: readonly number[]) {
  const require = createRequire(import.meta.url);
  const versionOf = (name: string) =>
    (require(`${name}/package.json`) as { readonly version: string }).version;
  return {
    launches,
    nodes: NODES,
    ...surroundings(before),
    workerd: versionOf("workerd"),
    miniflare: versionOf("miniflare"),
    shell: realpathSync(SHELL),
  };
}

async function main(): Promise<void> {
  const before = loadavg();
  const doorbell = new Doorbell();
  const cluster = await startCluster({ nodes: NODES });
  try {
    const byCluster = (index: number) => launchByCluster(cluster, doorbell, `launch-${index}`);
    const byShell = (index: number) => launchByShell(doorbell, `shell-${index}`);
    await repeat(warmup, byCluster);
    const launched = await repeat(launches, byCluster);
    await repeat(warmup, byShell);
    const alone = await repeat(launches, byShell);
    const results = [
      ...summarize("launch", launched),
      ...summarize("shell", alone),
      ...medianPhases(launched),
    ];
    report(results, parameters(before));
  } finally {
    await cluster.dispose();
    doorbell.close();
  }
}

type Result = { readonly name: string; readonly value: number; readonly unit: string };

function report(results: readonly Result[], parameters: Readonly<Record<string, unknown>>): void {
  if (options.json) {
    for (const result of results) console.log(JSON.stringify({ ...result, ...parameters }));
    return;
  }
  console.table(parameters);
  console.table(results.map((result) => ({ ...result, value: Number(result.value.toFixed(2)) })));
  const measured = (name: string) => results.find((result) => result.name === name)?.value ?? 0;
  const { p50Ms, p99Ms } = GOALS;
  const isMet = measured("launch.p50") <= p50Ms && measured("launch.p99") <= p99Ms;
  console.log(`goal: p50 ≤ ${p50Ms} ms, p99 ≤ ${p99Ms} ms: ${isMet ? "met" : "not met"}`);
}

await main();
