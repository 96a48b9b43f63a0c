/**
 * A cluster on this machine: the Worker on workerd, and NodeManager agents, each a process of its
 * own. `npm start`, the end-to-end tests and the benchmarks start clusters with it; none of them
 * knows Miniflare or the agent's command line.
 *
 * Everything a cluster keeps lies below its home: `state/` (Durable Objects, R2), `nodes/{number}/`
 * (one agent each), `logs/` and `tmp/`. The same home on the same port is the same cluster again.
 */
import { type ChildProcess, fork, spawn } from "node:child_process";
import { once } from "node:events";
import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { AgentHome } from "../src/agent/agent-home.ts";
import { findCredential } from "../src/agent/join.ts";
import { OFFLINE_ENVIRONMENT } from "./offline-environment.ts";
import { clusterMark, isAlive, signal } from "./processes.ts";
import type { WorkerAnswer, WorkerCommand } from "./worker-process.ts";

const WORKER_PROCESS = fileURLToPath(new URL("./worker-process.ts", import.meta.url));
const COMMAND = fileURLToPath(new URL("../bin/selvedge.mjs", import.meta.url));

/** Miniflare needs well under a second; a busy two-core machine has been seen to need ten. */
const WORKER_START_MAX_MS = 60_000;
const WORKER_STOP_MAX_MS = 5_000;
/** Longer than an agent waits between a container's SIGTERM and SIGKILL. */
export const AGENT_STOP_MAX_MS = 15_000;
/** A log is moved aside when it has grown beyond this, at the next start. */
const LOG_BYTES_MAX = 16 * 1024 * 1024;

export type WorkerOptions = {
  readonly host: string;
  readonly port: number;
  /** Absolute path. */
  readonly home: string;
  /** What a person must show to become the cluster's first administrator. */
  readonly claimCode: string;
  /** Hadoop's `?user.name=` is believed. Refused unless `host` is loopback. */
  readonly development: boolean;
};

export type RunningWorker = {
  readonly url: string;
  /** Ends workerd and waits until it is gone. State stays. */
  dispose(): Promise<void>;
  /** The process that executes the Worker; another one after it was killed and came back. */
  workerdPid(): number;
  /** Settles when the Worker's process has ended, however. */
  readonly exited: Promise<void>;
  readonly logFile: string;
};

/** Starts the Worker and waits until it answers. Rejects with what is wrong, leaving nothing behind. */
export async function startWorker(options: WorkerOptions): Promise<RunningWorker> {
  const { host, port, home } = options;
  if (options.development && !isLoopback(host)) {
    throw new Error(`Development mode is only for this machine; ${host} can be reached by others.`);
  }
  const bindings: Record<string, string> = { SELVEDGE_CLAIM_CODE: options.claimCode };
  if (options.development) bindings["SELVEDGE_DEVELOPMENT"] = "true";
  const log = openLog(home, "worker");
  const child = fork(WORKER_PROCESS, [], {
    detached: true,
    execArgv: [],
    env: {
      ...process.env,
      ...OFFLINE_ENVIRONMENT,
      ...clusterMark(home),
      TMPDIR: emptyFolder(join(home, "tmp")),
    },
    stdio: ["ignore", log, log, "ipc"],
  });
  closeSync(log);
  const exited = ended(child).then(() => undefined);
  const dispose = () => disposeWorker(child, exited);
  try {
    send(child, { type: "start", options: { host, port, home, bindings } });
    await ready(child, exited, home);
  } catch (error) {
    await dispose();
    throw error;
  }
  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${port}`,
    dispose,
    workerdPid: () => workerdBelow(child.pid ?? 0),
    exited,
    logFile: logFile(home, "worker"),
  };
}

async function ready(child: ChildProcess, exited: Promise<void>, home: string): Promise<void> {
  const answer = await Promise.race([
    once(child, "message").then(([message]) => message as WorkerAnswer),
    exited.then(() => failed(`The Worker's process ended. Its log: ${home}/logs/worker.log`)),
    delay(WORKER_START_MAX_MS, undefined, { ref: false }).then(() =>
      failed(`The Worker did not answer within ${WORKER_START_MAX_MS / 1_000} s.`),
    ),
  ]);
  if (answer.type === "failed") throw new Error(`The Worker did not start: ${answer.message}`);
}

function failed(message: string): WorkerAnswer {
  return { type: "failed", message };
}

async function disposeWorker(child: ChildProcess, exited: Promise<void>): Promise<void> {
  if (child.connected) send(child, { type: "stop" });
  await Promise.race([exited, delay(WORKER_STOP_MAX_MS, undefined, { ref: false })]);
  // The group holds workerd too, which does not end with a parent that was killed.
  if (child.pid !== undefined) signal(-child.pid, "SIGKILL");
  await exited;
}

function send(child: ChildProcess, command: WorkerCommand): void {
  // A process that has just ended is noticed through `exited`.
  child.send(command, () => {});
}

function workerdBelow(parent: number): number {
  for (const entry of readdirSync("/proc")) {
    if (!/^\d+$/.test(entry)) continue;
    const [, name, state, parentId] = /^\d+ \((.*)\) (\S) (\d+)/.exec(readStat(entry)) ?? [];
    if (name === "workerd" && state !== "Z" && Number(parentId) === parent) return Number(entry);
  }
  throw new Error(`Process ${parent} has no workerd at the moment.`);
}

function readStat(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch {
    return "";
  }
}

export type AgentOptions = {
  readonly url: string;
  /** The cluster's home; absolute path. */
  readonly home: string;
  /** 1, 2, …: gives the agent its node id and its own home. */
  readonly number: number;
  /** For a node that has no credential yet. Handed over by environment, never by argument. */
  readonly joinToken?: string | undefined;
  readonly memoryMb: number;
  readonly vcores: number;
  /** Absolute path of the node's configuration; without one it has every default. */
  readonly configFile?: string;
};

export type RunningAgent = {
  readonly nodeId: string;
  readonly pid: number;
  readonly logFile: string;
  /** Settles with `exit code 1` or `SIGKILL` when the agent has ended. */
  readonly exited: Promise<string>;
  /** SIGTERM: the agent stops its containers and ends; after AGENT_STOP_MAX_MS it is killed. */
  stop(): Promise<void>;
  /** SIGKILL, at once; its containers live on. */
  kill(): Promise<void>;
};

/** The NodeManager `number` of a local cluster. */
export function nodeId(number: number): string {
  return `127.0.0.1:${8040 + number}`;
}

export function nodeHome(home: string, number: number): string {
  return join(home, "nodes", String(number));
}

/** Whether the node holds a credential for the cluster at `url`; then it needs no join token. */
export function hasCredential(home: string, number: number, url: string): boolean {
  const own = new AgentHome(nodeHome(home, number));
  return findCredential(own, url, nodeId(number), Date.now()) !== undefined;
}

/** Starts an agent and returns at once; the cluster tells when its node is RUNNING. */
export function startAgent(options: AgentOptions): RunningAgent {
  const { home, number } = options;
  const log = openLog(home, `node-${number}`);
  const child = spawn(process.execPath, [COMMAND, ...agentArguments(options)], {
    detached: true,
    env: { ...agentEnvironment(options.joinToken), ...clusterMark(home) },
    stdio: ["ignore", log, log],
  });
  closeSync(log);
  const exited = ended(child);
  const pid = child.pid ?? 0;
  return {
    nodeId: nodeId(number),
    pid,
    logFile: logFile(home, `node-${number}`),
    exited,
    async stop() {
      if (isAlive(pid)) signal(pid, "SIGTERM");
      await Promise.race([exited, delay(AGENT_STOP_MAX_MS, undefined, { ref: false })]);
      signal(-pid, "SIGKILL");
      await exited;
    },
    async kill() {
      signal(pid, "SIGKILL");
      await exited;
    },
  };
}

function agentArguments(options: AgentOptions): string[] {
  return [
    ...["node", "start"],
    ...["--url", options.url],
    ...["--node-id", nodeId(options.number)],
    ...["--home", nodeHome(options.home, options.number)],
    ...["--memory", String(options.memoryMb)],
    ...["--vcores", String(options.vcores)],
    ...(options.configFile === undefined ? [] : ["--config", options.configFile]),
    "--stop-containers-on-exit",
  ];
}

/** Only what an agent needs: the rest of this process's environment is none of its business. */
function agentEnvironment(joinToken: string | undefined): Record<string, string> {
  const environment: Record<string, string> = {};
  for (const name of ["PATH", "HOME", "USER", "LANG", "TMPDIR"]) {
    const value = process.env[name];
    if (value !== undefined) environment[name] = value;
  }
  if (joinToken !== undefined) environment["SELVEDGE_JOIN_TOKEN"] = joinToken;
  return environment;
}

async function ended(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once("exit", (code, signalName) => resolve(signalName ?? `exit code ${code}`));
    child.once("error", (error) => resolve(error.message));
  });
}

/** `127.0.0.1`, any other address of 127.0.0.0/8, `::1` or `localhost`. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127(?:\.\d{1,3}){3}$/.test(host);
}

/** A port that is free now; `wanted` 0 takes any. Answers undefined where `wanted` is taken. */
export async function freePort(host: string, wanted = 0): Promise<number | undefined> {
  const server = createServer();
  try {
    server.listen(wanted, host);
    await once(server, "listening");
    const address = server.address();
    return typeof address === "object" && address !== null ? address.port : undefined;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EADDRINUSE") return undefined;
    throw error;
  } finally {
    server.close();
  }
}

/** Miniflare that is killed leaves temporary files: here they are found again and go. */
function emptyFolder(folder: string): string {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return folder;
}

function logFile(home: string, name: string): string {
  return join(home, "logs", `${name}.log`);
}

function openLog(home: string, name: string): number {
  const file = logFile(home, name);
  mkdirSync(join(home, "logs"), { recursive: true, mode: 0o700 });
  const size = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  if (size > LOG_BYTES_MAX) renameSync(file, `${file}.1`);
  return openSync(file, "a", 0o600);
}
