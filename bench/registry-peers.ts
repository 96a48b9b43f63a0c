/**
 * What the registry shares with its peers, measured on them: on etcd by its JSON gateway, with the
 * load generator that measures ours, on ZooKeeper by its own protocol and its own Java client, the
 * only one there is for it.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Connection, httpRequest, type LoadResult, runLoad } from "./http-load.ts";
import { HOST, type PeerServer, ZOOKEEPER_CLASSES } from "./registry-peer-servers.ts";
import { type Conditions, type Result, resultOf } from "./registry-report.ts";
import { CONNECTIONS, RUN_MAX_MS, SERIAL_REQUESTS_MAX } from "./registry-rows.ts";
import { pathOf, RARE_API, RARE_RECORDS, recordAt, recordOf, serviceAt } from "./registry-tree.ts";

const ZOOKEEPER_CLIENT = fileURLToPath(new URL("./ZooKeeperClient.java", import.meta.url));
/** Keys in one answer of etcd while it is walked. */
const ETCD_PAGE = 1_000;
/** Records that are deleted, if there are so many. */
const DELETED = 600;
/** A walk is repeated at least so often. */
const WALKS_MIN = 3;

/** Fills the peer with the tree that ours is measured with, and measures what the two share. */
export function measurePeer(
  server: PeerServer,
  records: number,
  msMax: number,
): Promise<readonly Result[]> {
  return server.name === "etcd"
    ? measureEtcd(server, records, msMax)
    : measureZooKeeper(server, records, msMax);
}

/** One row: what was done, between two looks at the server's process. */
async function row(
  server: PeerServer,
  name: string,
  conditions: Omit<Conditions, "server">,
  work: () => Promise<LoadResult>,
): Promise<Result> {
  const cpuSeconds = server.cpuSeconds();
  const load = await work();
  const usage = { cpuSeconds: server.cpuSeconds() - cpuSeconds, rssMb: server.rssMb() };
  return resultOf(name, { ...load, ...usage }, { ...conditions, server: server.name });
}

async function measureEtcd(
  server: PeerServer,
  records: number,
  msMax: number,
): Promise<readonly Result[]> {
  const { port } = server;
  const put = (index: number, description?: string) =>
    post("put", { key: base64(pathOf(index)), value: base64(textOf(index, description)) });
  const get = (index: number) => post("range", { key: base64(pathOf(recordAt(index, records))) });
  const list = (index: number) => {
    const prefix = `${pathOf(serviceAt(index, records))}/components/`;
    return post("range", {
      key: base64(prefix),
      range_end: base64(endOf(prefix)),
      keys_only: true,
    });
  };
  const change = (index: number) => put(recordAt(index, records), `changed ${index}`);
  const remove = (index: number) => post("deleterange", { key: base64(pathOf(index)) });
  const load = (
    name: string,
    request: (index: number) => Buffer,
    { connections = CONNECTIONS, requestsMax = Number.POSITIVE_INFINITY, ms = msMax } = {},
  ) =>
    row(server, name, { records, connections }, () =>
      runLoad({ port, request, connections, requestsMax, msMax: ms }),
    );
  await runLoad({ port, request: put, connections: CONNECTIONS, requestsMax: 500, msMax });
  const one = { connections: 1 };
  return [
    await load("bind.all", (index) => put(index), { requestsMax: records, ms: RUN_MAX_MS }),
    await load("resolve", get),
    await load("resolve.serial", get, { ...one, requestsMax: SERIAL_REQUESTS_MAX }),
    await load("list", list),
    await row(server, "find.api", { records, ...one }, () => walks(() => walkEtcd(port), msMax)),
    await load("bind", change),
    await load("delete", remove, { ...one, requestsMax: Math.min(DELETED, records) }),
  ];
}

/** A search is a walk: the server cannot look into values. */
async function walkEtcd(port: number): Promise<number> {
  const connection = new Connection(port);
  const end = base64(endOf("/users/"));
  let found = 0;
  try {
    for (let key: string | null = base64("/users/"); key !== null; ) {
      const answer = await connection.send(
        post("range", { key, range_end: end, limit: ETCD_PAGE }),
      );
      const page = jsonOf(answer.body) as {
        readonly kvs?: readonly { readonly key: string; readonly value: string }[];
        readonly more?: boolean;
      };
      const pairs = page.kvs ?? [];
      for (const { value } of pairs) {
        const text = Buffer.from(value, "base64").toString();
        if ((JSON.parse(text) as ReturnType<typeof recordOf>).external[0]?.api === RARE_API)
          found++;
      }
      const last = pairs.at(-1)?.key;
      key =
        page.more && last !== undefined
          ? Buffer.concat([Buffer.from(last, "base64"), Buffer.of(0)]).toString("base64")
          : null;
    }
  } finally {
    connection.close();
  }
  return found;
}

/** One walk after the other until the time is over, and some. */
async function walks(walk: () => Promise<number>, msMax: number): Promise<LoadResult> {
  const latenciesMs: number[] = [];
  const startedMs = performance.now();
  while (latenciesMs.length < WALKS_MIN || performance.now() - startedMs < msMax) {
    const walkMs = performance.now();
    const found = await walk();
    if (found !== RARE_RECORDS) throw new Error(`a walk found ${found} records`);
    latenciesMs.push(performance.now() - walkMs);
  }
  return { requests: latenciesMs.length, wallMs: performance.now() - startedMs, latenciesMs };
}

function post(operation: string, body: object): Buffer {
  const type = { "Content-Type": "application/json" };
  return httpRequest("POST", `/v3/kv/${operation}`, type, JSON.stringify(body));
}

function base64(text: string): string {
  return Buffer.from(text).toString("base64");
}

/** The first key after all that begin with the prefix. */
function endOf(prefix: string): string {
  return prefix.slice(0, -1) + String.fromCharCode(prefix.charCodeAt(prefix.length - 1) + 1);
}

function textOf(index: number, description?: string): string {
  return JSON.stringify(recordOf(index, description));
}

/** Of an answer with a length, or in chunks, between which stand their lengths. */
function jsonOf(body: Buffer): unknown {
  const text = body.toString("latin1");
  return JSON.parse(text.startsWith("{") ? text : text.replaceAll(/(?:^|\r\n)[0-9a-f]+\r\n/g, ""));
}

/** The Java client reads one task a line, and answers its times in ms, one line each. */
async function measureZooKeeper(
  server: PeerServer,
  records: number,
  msMax: number,
): Promise<readonly Result[]> {
  const given = ["-cp", ZOOKEEPER_CLASSES, ZOOKEEPER_CLIENT, `${HOST}:${server.port}`];
  const client = spawn("java", [...given, String(records), RARE_API, String(RARE_RECORDS)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const exited = once(client, "exit");
  const lines = createInterface({ input: client.stdout })[Symbol.asyncIterator]();
  for (let index = 0; index < records; index++) {
    client.stdin.write(`${pathOf(index)}\t${textOf(index)}\n`);
  }
  const run = (name: string, task: string, connections: number, requestsMax: number) =>
    row(server, name, { records, connections }, async () => {
      client.stdin.write(`${task} ${connections} ${requestsMax} ${msMax}\n`);
      const { value, done } = await lines.next();
      if (done) throw new Error("ZooKeeper's client has ended");
      const [wallMs = 0, ...latenciesMs] = value.split(" ").map(Number);
      return { requests: latenciesMs.length, wallMs, latenciesMs };
    });
  try {
    return [
      await run("bind.all", "create", CONNECTIONS, records),
      await run("resolve", "get", CONNECTIONS, 0),
      await run("resolve.serial", "get", 1, SERIAL_REQUESTS_MAX),
      await run("list", "list", CONNECTIONS, 0),
      await run("find.api", "walk", 1, 0),
      await run("bind", "set", CONNECTIONS, 0),
      await run("delete", "delete", 1, Math.min(DELETED, Math.floor(records / 2))),
    ];
  } finally {
    client.kill("SIGKILL");
    await exited;
  }
}
