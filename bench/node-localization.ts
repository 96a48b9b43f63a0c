/** How fast one node localizes resources from a server on loopback, beside curl and sha256sum. */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { LocalResource } from "../src/shared/container.ts";
import { launchContext } from "../test/agent/test-tracker.ts";
import type { BenchNode } from "./node-agent.ts";
import { runOrders } from "./node-launches.ts";
import { type Result, round } from "./node-report.ts";
import { childrenCpuSecondsOf } from "./process-usage.ts";

const BYTES_PER_MB = 2 ** 20;
/** What large resources repeat. */
const CHUNK = Buffer.alloc(BYTES_PER_MB, "The quick brown fox jumps over the lazy dog. ");

export type Resources = {
  /** For the rows, such as `small`. */
  readonly name: string;
  readonly count: number;
  /** Of each. */
  readonly bytes: number;
};

/** Serves `/{number}/{bytes}`: resources that differ from each other in their first bytes. */
export class ResourceServer {
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
    server.on("request", ({ url = "" }, response) => void serve(url, response));
  }

  static async start(): Promise<ResourceServer> {
    const server = createServer();
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return new ResourceServer(server);
  }

  url(number: number, bytes: number): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/${number}/${bytes}`;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

async function serve(path: string, response: ServerResponse): Promise<void> {
  const [, number, bytes] = path.split("/").map(Number);
  response.writeHead(200, { "content-length": bytes });
  for (const part of contentOf(number ?? 0, bytes ?? 0)) {
    if (!response.write(part)) await once(response, "drain");
  }
  response.end();
}

function* contentOf(number: number, bytes: number): Generator<Buffer> {
  const head = Buffer.from(`${number}\n`);
  yield head;
  for (let left = bytes - head.length; left > 0; left -= CHUNK.length) {
    yield CHUNK.subarray(0, Math.min(left, CHUNK.length));
  }
}

/** One container with all of them, each with its sha256: from the order to its reported end. */
export async function localizeByAgent(
  node: BenchNode,
  server: ResourceServer,
  resources: Resources,
): Promise<Result> {
  const localResources: Record<string, LocalResource> = {};
  for (let number = 0; number < resources.count; number++) {
    const hash = createHash("sha256");
    for (const part of contentOf(number, resources.bytes)) hash.update(part);
    localResources[`resource-${number}`] = {
      ...{ type: "FILE", visibility: "APPLICATION" },
      ...{ url: server.url(number, resources.bytes), sha256: hash.digest("hex") },
      sizeBytes: resources.bytes,
    };
  }
  const orders = await node.orders(1, launchContext("true", { localResources }));
  const before = node.cpu().agentSeconds;
  const [ms = Number.NaN] = await runOrders(node, orders, 1);
  const cpuSeconds = node.cpu().agentSeconds - before;
  return resultOf("agent", resources, ms, cpuSeconds);
}

/** The floor: curl, four at a time as the agent does, and then sha256sum. */
export async function localizeByCurl(
  server: ResourceServer,
  resources: Resources,
): Promise<Result> {
  const directory = mkdtempSync(join(tmpdir(), "selvedge-bench-curl-"));
  const numbers = Array.from({ length: resources.count }, (_, number) => number);
  const lines = numbers.map(
    (number) => `url = "${server.url(number, resources.bytes)}"\noutput = "${number}"\n`,
  );
  writeFileSync(join(directory, "urls"), lines.join(""));
  const command = "curl -sS --fail -Z --parallel-max 4 -K urls && sha256sum [0-9]* > sums";
  try {
    const cpuBefore = childrenCpuSecondsOf(process.pid);
    const startedMs = performance.now();
    const shell = spawn("/bin/sh", ["-c", command], { cwd: directory, stdio: "ignore" });
    const [code] = await once(shell, "exit");
    if (code !== 0) throw new Error(`${command} ended with ${code}`);
    const ms = performance.now() - startedMs;
    return resultOf("curl", resources, ms, childrenCpuSecondsOf(process.pid) - cpuBefore);
  } finally {
    rmSync(directory, { recursive: true });
  }
}

function resultOf(
  by: string,
  { name, count, bytes }: Resources,
  ms: number,
  cpuSeconds: number,
): Result {
  return {
    name: `localization.${name}.${by}`,
    value: round(((count * bytes) / BYTES_PER_MB / ms) * 1_000),
    unit: "MB/s",
    resourcesPerSecond: round((count / ms) * 1_000),
    wallSeconds: round(ms / 1_000),
    cpuSeconds: round(cpuSeconds),
    ...{ resources: count, bytes },
  };
}
