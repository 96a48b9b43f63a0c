/**
 * The Worker as a server to be measured, with nothing stored: on bare workerd, one process with a
 * second, empty Worker for comparison; or by Miniflare, as `npm start` runs it.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { bundleWorker } from "../scripts/bundle-worker.ts";
import { freePort, startWorker } from "../scripts/local-cluster.ts";
import { readWorkerSettings } from "../scripts/wrangler-config.ts";
import { cpuSecondsOf, rssMbOf } from "./process-usage.ts";

const HOST = "127.0.0.1";
const START_MAX_MS = 60_000;

export type ServerKind = "workerd" | "miniflare";

export type Server = {
  readonly kind: ServerKind;
  readonly port: number;
  /** Answers `hello` by the same process, with no code of ours; null where there is none. */
  readonly helloPort: number | null;
  readonly claimCode: string;
  /** CPU time of the server's process until now. */
  cpuSeconds(): number;
  /** Memory of the server's process now. */
  rssMb(): number;
  /** Ends the server and deletes all it has stored. */
  dispose(): Promise<void>;
};

export function startServer(kind: ServerKind, claimCode: string): Promise<Server> {
  return kind === "workerd" ? startBare(claimCode) : startMiniflare(claimCode);
}

async function startMiniflare(claimCode: string): Promise<Server> {
  const home = mkdtempSync(join(tmpdir(), "selvedge-bench-"));
  try {
    const port = await anyPort();
    const worker = await startWorker({ host: HOST, port, home, claimCode, development: false });
    return {
      kind: "miniflare",
      port,
      helloPort: null,
      claimCode,
      cpuSeconds: () => cpuSecondsOf(worker.workerdPid()),
      rssMb: () => rssMbOf(worker.workerdPid()),
      async dispose() {
        await worker.dispose();
        rmSync(home, { recursive: true, force: true });
      },
    };
  } catch (error) {
    rmSync(home, { recursive: true, force: true });
    throw error;
  }
}

async function startBare(claimCode: string): Promise<Server> {
  const home = mkdtempSync(join(tmpdir(), "selvedge-bench-"));
  const port = await anyPort();
  const helloPort = await anyPort();
  mkdirSync(join(home, "state"));
  writeFileSync(join(home, "worker.js"), await bundleWorker());
  writeFileSync(join(home, "config.capnp"), configOf(port, helloPort, claimCode));
  const workerd = createRequire(import.meta.url).resolve("workerd/bin/workerd");
  const child = spawn(workerd, ["serve", join(home, "config.capnp")], {
    cwd: home,
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  child.stderr.on("data", (chunk) => {
    said = `${said}${chunk}`.slice(-2_000);
  });
  const exited = once(child, "exit");
  const dispose = async () => {
    child.kill("SIGKILL");
    await exited;
    rmSync(home, { recursive: true, force: true });
  };
  const deadlineMs = performance.now() + START_MAX_MS;
  while (!(await isAnswering(port)) || !(await isAnswering(helloPort))) {
    if (child.exitCode === null && performance.now() < deadlineMs) {
      await delay(50);
      continue;
    }
    await dispose();
    throw new Error(`workerd did not start: ${said}`);
  }
  const pid = child.pid ?? 0;
  const usage = { cpuSeconds: () => cpuSecondsOf(pid), rssMb: () => rssMbOf(pid) };
  return { kind: "workerd", port, helloPort, claimCode, ...usage, dispose };
}

/** What scripts/worker-process.ts tells Miniflare, in workerd's own words. */
function configOf(port: number, helloPort: number, claimCode: string): string {
  const { compatibilityDate, compatibilityFlags, durableObjects } = readWorkerSettings();
  const quoted = (text: string) => JSON.stringify(text);
  const objects = Object.entries(durableObjects);
  const namespaces = objects.map(
    ([, name]) => `(className = ${quoted(name)}, uniqueKey = ${quoted(name)}, enableSql = true)`,
  );
  const bindings = objects.map(
    ([binding, name]) => `(name = ${quoted(binding)}, durableObjectNamespace = ${quoted(name)})`,
  );
  bindings.push(`(name = "SELVEDGE_CLAIM_CODE", text = ${quoted(claimCode)})`);
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .main),
    (name = "hello", worker = .hello),
    (name = "disk", disk = (path = "state", writable = true)),
  ],
  sockets = [
    (name = "main", address = "${HOST}:${port}", http = (), service = "main"),
    (name = "hello", address = "${HOST}:${helloPort}", http = (), service = "hello"),
  ],
);
const main :Workerd.Worker = (
  modules = [(name = "worker.js", esModule = embed "worker.js")],
  compatibilityDate = ${quoted(compatibilityDate)},
  compatibilityFlags = [${compatibilityFlags.map(quoted).join(", ")}],
  bindings = [${bindings.join(", ")}],
  durableObjectNamespaces = [${namespaces.join(", ")}],
  durableObjectStorage = (localDisk = "disk"),
);
const hello :Workerd.Worker = (
  modules = [(name = "hello.js",
    esModule = "export default { fetch: () => new Response('hello') };")],
  compatibilityDate = ${quoted(compatibilityDate)},
);
`;
}

async function isAnswering(port: number): Promise<boolean> {
  try {
    return (await fetch(`http://${HOST}:${port}/healthz`)).ok;
  } catch {
    return false;
  }
}

export async function anyPort(): Promise<number> {
  const port = await freePort(HOST);
  if (port === undefined) throw new Error(`${HOST} has no free port.`);
  return port;
}
