/**
 * The registry's operations by HTTP, at several sizes of its tree, each size on a fresh server, and
 * when asked for the same of its peers, etcd and ZooKeeper, on this machine in this run:
 *
 *   npm run bench:registry [-- --records 1000,10000] [--servers workerd,miniflare]
 *                          [--peers etcd,zookeeper] [--watchers 1000] [--seconds 2] [--json]
 *
 * Closed loop: so many connections, each with one request at a time; each row ends after its
 * requests or its seconds. Beside the wall time stands the CPU time of the server's process, which
 * other work on the machine distorts less.
 */
import { randomBytes } from "node:crypto";
import { loadavg } from "node:os";
import { parseArgs } from "node:util";
import { Connection, httpRequest } from "./http-load.ts";
import {
  isPeerName,
  type PeerName,
  type PeerServer,
  startPeer,
  whatIsMissing,
} from "./registry-peer-servers.ts";
import { measurePeer } from "./registry-peers.ts";
import { type Result, report } from "./registry-report.ts";
import { expectSuccess, RegistryBench, RUN_MAX_MS } from "./registry-rows.ts";
import { type Server, type ServerKind, startServer } from "./registry-servers.ts";

const { values: options } = parseArgs({
  options: {
    records: { type: "string", default: "1000,10000" },
    servers: { type: "string", default: "workerd,miniflare" },
    peers: { type: "string", default: "" },
    watchers: { type: "string", default: "1000" },
    seconds: { type: "string", default: "2" },
    json: { type: "boolean", default: false },
  },
});

function fail(message: string): never {
  console.error(message);
  process.exit(2);
}

function wholeNumbers(name: string, text: string): number[] {
  const parts = text.split(",");
  if (parts.every((part) => /^[1-9]\d{0,6}$/.test(part))) return parts.map(Number);
  return fail(`--${name} ${text}: whole numbers above 0 are expected, such as --${name} 1000`);
}

function isServerKind(name: string): name is ServerKind {
  return name === "workerd" || name === "miniflare";
}

async function claim(server: Server): Promise<string> {
  const connection = new Connection(server.port);
  const body = JSON.stringify({ code: server.claimCode });
  const type = { "Content-Type": "application/json" };
  const answer = await connection.send(httpRequest("POST", "/ws/v1/security/claim", type, body));
  connection.close();
  expectSuccess(answer);
  return (JSON.parse(answer.body.toString()) as { readonly token: string }).token;
}

/** Says what is missing where something is. */
function isInstalled(peer: PeerName): boolean {
  const missing = whatIsMissing(peer);
  if (missing !== null) console.error(missing);
  return missing === null;
}

/** What is running now, and has to be ended when somebody interrupts. */
let running: Promise<Server | PeerServer> | null = null;
let isStopping = false;

async function stop(code: number, why: string): Promise<void> {
  console.error(why);
  isStopping = true;
  try {
    await (await running)?.dispose();
  } finally {
    process.exit(code);
  }
}

/** Starts a server, measures it, and ends it; nothing when the benchmark was interrupted. */
async function measured<Started extends Server | PeerServer>(
  started: Promise<Started>,
  measure: (server: Started) => Promise<readonly Result[]>,
): Promise<readonly Result[]> {
  running = started;
  const server = await started;
  try {
    return await measure(server);
  } catch (error) {
    if (!isStopping) throw error;
    return [];
  } finally {
    await server.dispose();
  }
}

async function main(): Promise<void> {
  const sizes = wholeNumbers("records", options.records);
  const [watchers = 0] = wholeNumbers("watchers", options.watchers);
  const [seconds = 0] = wholeNumbers("seconds", options.seconds);
  const msMax = seconds * 1_000;
  const kinds = options.servers.split(",");
  const wanted = options.peers === "" ? [] : options.peers.split(",");
  if (!kinds.every(isServerKind)) {
    fail(`--servers ${options.servers}: workerd, miniflare or both are expected`);
  }
  if (!wanted.every(isPeerName)) {
    fail(`--peers ${options.peers}: etcd, zookeeper or both are expected`);
  }
  if (sizes.some((size) => size > 100_000 || size % 1_000 !== 0)) {
    fail(`--records ${options.records}: thousands are expected, up to 100000`);
  }
  if (watchers > 5_000) fail(`--watchers ${watchers}: at most 5000 are expected`);
  const peers = wanted.filter(isInstalled);
  const loadBefore = loadavg();
  const results: Result[] = [];
  process.once("SIGINT", () => void stop(130, "interrupted"));
  process.once("SIGTERM", () => void stop(143, "interrupted"));
  setTimeout(() => void stop(1, "the benchmark took too long"), RUN_MAX_MS).unref();
  for (const records of sizes) {
    for (const kind of kinds) {
      const started = startServer(kind, randomBytes(24).toString("base64url"));
      const rows = await measured(started, async (server) => {
        const bench = new RegistryBench(server, records, await claim(server), msMax);
        await bench.run(watchers);
        return bench.results;
      });
      results.push(...rows);
      if (isStopping) return;
    }
    for (const peer of peers) {
      const measure = (server: PeerServer) => measurePeer(server, records, msMax);
      results.push(...(await measured(startPeer(peer), measure)));
      if (isStopping) return;
    }
  }
  report(results, loadBefore, options.json);
}

await main();
