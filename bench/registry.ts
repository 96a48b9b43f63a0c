/**
 * The registry's operations by HTTP, at several sizes of its tree, each size on a fresh server:
 *
 *   npm run bench:registry [-- --records 1000,10000] [--servers workerd,miniflare]
 *                          [--watchers 300] [--seconds 2] [--json]
 *
 * Closed loop: so many connections, each with one request at a time; each row ends after its
 * requests or its seconds. Beside the wall time stands the CPU time of the server's process, which
 * other work on the machine distorts less.
 */
import { randomBytes } from "node:crypto";
import { connect, type Socket } from "node:net";
import { cpus, loadavg, release } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { DNS_TYPE } from "../src/shared/dns.ts";
import { encodeMessage } from "../src/shared/dns-message.ts";
import { queryMessage } from "../test/support/dns-client.ts";
import { Connection, httpRequest, percentile, runLoad } from "./http-load.ts";
import { type Server, type ServerKind, startServer } from "./registry-servers.ts";

const { values: options } = parseArgs({
  options: {
    records: { type: "string", default: "1000,10000" },
    servers: { type: "string", default: "workerd,miniflare" },
    watchers: { type: "string", default: "300" },
    seconds: { type: "string", default: "2" },
    json: { type: "boolean", default: false },
  },
});

/** Throughput is measured with so many connections, latency with one. */
const CONNECTIONS = 64;
const RECORDS_PER_SERVICE = 10;
const RECORDS_PER_TRANSACTION = 500;
/** How many records have the API that is searched for, whatever the size of the tree. */
const RARE_RECORDS = 10;
/** Below the 100 that one caller may write to one path at once. */
const WATCHED_CHANGES = 50;
const WARM_UP_CHANGES = 10;
const CHANGE_HEARD_MAX_MS = 30_000;
const SERIAL_REQUESTS_MAX = 300;
const RUN_MAX_MS = 15 * 60_000;

const CLASS = "/users/bench/yarn-service";
const WATCHED = `${CLASS}/watched`;
const OPERATIONS = "/ws/v1/registry-operations";
const RARE_API = "http://example.org/rare";

type Result = { readonly name: string; readonly value: number; readonly unit: string } & Readonly<
  Record<string, string | number>
>;
type Row = {
  readonly name: string;
  readonly request: (index: number) => Buffer;
  readonly connections: number;
  readonly requestsMax?: number;
  /** What one request does, such as records bound. */
  readonly operationsPerRequest?: number;
  readonly port?: number;
};

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

/** Of ten records one is the service's, the others its containers', as a ServiceMaster binds them. */
function pathOf(index: number): string {
  const service = `${CLASS}/service-${Math.floor(index / RECORDS_PER_SERVICE)}`;
  const number = index % RECORDS_PER_SERVICE;
  return number === 0 ? service : `${service}/components/worker-${number}`;
}

function containerIdOf(index: number): string {
  return `container_${index}`;
}

function recordOf(index: number, description = "a record of the benchmark") {
  const isService = index % RECORDS_PER_SERVICE === 0;
  const api = isService && index < RARE_RECORDS * RECORDS_PER_SERVICE ? RARE_API : "http";
  const address = { host: `10.${(index >> 16) & 255}.${(index >> 8) & 255}.${index & 255}` };
  return {
    type: "JSONServiceRecord",
    description,
    "yarn:id": isService ? `application_${index}` : containerIdOf(index),
    "yarn:persistence": isService ? "application" : "container",
    external: [
      {
        api,
        addressType: "host/port",
        protocolType: "tcp",
        addresses: [{ ...address, port: "8080" }],
      },
    ],
    internal: [],
  };
}

class Bench {
  readonly results: Result[] = [];
  readonly #server: Server;
  readonly #records: number;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #msMax: number;

  constructor(server: Server, records: number, token: string, msMax: number) {
    this.#server = server;
    this.#records = records;
    this.#headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
    this.#msMax = msMax;
  }

  async run(watchers: number): Promise<void> {
    // What the first requests cost is the compiler's affair: they go to another part of the tree.
    await runLoad(this.#load(this.#transactions("warm-up", "/users/warm-up", 2_000)));
    await this.#measure(this.#transactions("bind.batched", "", this.#records));
    await this.#baselines();
    await this.#reads();
    await this.#writes();
    await this.#watch(watchers);
  }

  async #baselines(): Promise<void> {
    const { helloPort } = this.#server;
    const request = () => httpRequest("GET", "/healthz");
    const throughput = { request, connections: CONNECTIONS };
    if (helloPort !== null) await this.#warmed({ name: "hello", ...throughput, port: helloPort });
    await this.#warmed({ name: "healthz", ...throughput });
  }

  async #reads(): Promise<void> {
    const get = (path: string) => httpRequest("GET", path);
    const node = (index: number) => pathOf((index * 7_919) % this.#records);
    const resolve = (index: number) => get(`/registry/v1${node(index)}`);
    const list = (index: number) =>
      get(`/registry/v1${pathOf(this.#serviceAt(index))}/components?list`);
    const stat = (index: number) => get(`/registry/v1${pathOf(this.#serviceAt(index))}`);
    const find = (api: string) => () =>
      get(`/registry/v1/users?find&endpointField.api=${encodeURIComponent(api)}`);
    const type = { Accept: "application/dns-message", "Content-Type": "application/dns-message" };
    const doh = (services: number) => (index: number) => {
      const name = `service-${index % services}.bench.selvedge.internal`;
      const query = encodeMessage(queryMessage(name, DNS_TYPE.A));
      return httpRequest("POST", "/dns-query", type, Buffer.from(query));
    };
    const one = { connections: 1, requestsMax: SERIAL_REQUESTS_MAX };
    await this.#check("GET", find(RARE_API)(), `"path":"${pathOf(0)}"`);
    await this.#warmed({ name: "resolve", request: resolve, connections: CONNECTIONS });
    await this.#warmed({ name: "resolve.serial", request: resolve, ...one });
    await this.#warmed({ name: "list", request: list, connections: CONNECTIONS });
    await this.#warmed({ name: "stat", request: stat, connections: CONNECTIONS });
    await this.#warmed({ name: "find.api", request: find(RARE_API), ...one });
    await this.#warmed({ name: "find.none", request: find("http://example.org/none"), ...one });
    const services = Math.floor(this.#records / RECORDS_PER_SERVICE);
    await this.#check("DNS", doh(1)(0), "\x0a\x00\x00\x00");
    await this.#warmed({ name: "doh.one-name", request: doh(1), connections: CONNECTIONS });
    await this.#warmed({ name: "doh.all-names", request: doh(services), connections: CONNECTIONS });
  }

  async #writes(): Promise<void> {
    const bind = (index: number) => {
      const at = index % this.#records;
      const record = recordOf(at, `changed ${index}`);
      return this.#post("bind", { path: pathOf(at), record, overwrite: true });
    };
    const isContainer = (index: number) => index % RECORDS_PER_SERVICE !== 0;
    const indexes = Array.from({ length: Math.min(this.#records, 1_000) }, (_, index) => index);
    const containers = indexes.filter(isContainer);
    const [purged, deleted] = [containers.slice(0, 300), containers.slice(300, 900)];
    await this.#warmed({ name: "bind", request: bind, connections: CONNECTIONS });
    await this.#measure({
      name: "purge.container",
      request: (index) => {
        const yarnId = containerIdOf(purged[index] ?? 0);
        return this.#post("purge", { yarnId, persistence: "container" });
      },
      connections: 1,
      requestsMax: purged.length,
    });
    await this.#measure({
      name: "delete",
      request: (index) => this.#post("delete", { path: pathOf(deleted[index] ?? 0) }),
      connections: 1,
      requestsMax: deleted.length,
    });
  }

  /** One record changes, again and again; every watcher hears it over a connection of its own. */
  async #watch(count: number): Promise<void> {
    const bind = (index: number) =>
      this.#post("bind", {
        path: WATCHED,
        record: recordOf(0, `change ${index}`),
        overwrite: true,
      });
    const writer = new Connection(this.#server.port);
    const watchers = new Watchers();
    try {
      expectSuccess(await writer.send(bind(0)));
      // A few at a time: the server's queue for new connections is short.
      for (let open = 0; open < count; open += 50) {
        await watchers.open(this.#server.port, Math.min(50, count - open));
      }
      let version = 0;
      const change = async () => {
        const heard = watchers.heardByAll();
        const sentMs = performance.now();
        expectSuccess(await writer.send(bind(++version)));
        return (await heard).map((heardMs) => heardMs - sentMs);
      };
      for (let times = 0; times < WARM_UP_CHANGES; times++) await change();
      const latenciesMs: number[] = [];
      const cpuSeconds = this.#server.cpuSeconds();
      const startedMs = performance.now();
      for (let times = 0; times < WATCHED_CHANGES; times++) latenciesMs.push(...(await change()));
      const wallMs = performance.now() - startedMs;
      const cpu = this.#server.cpuSeconds() - cpuSeconds;
      const more = { connections: count, operationsPerRequest: 1 };
      this.#add("watch.change", { requests: latenciesMs.length, wallMs, latenciesMs }, cpu, more);
    } finally {
      watchers.close();
      writer.close();
    }
  }

  #serviceAt(index: number): number {
    const services = Math.floor(this.#records / RECORDS_PER_SERVICE);
    return ((index * 7_919) % services) * RECORDS_PER_SERVICE;
  }

  #transactions(name: string, root: string, records: number): Row {
    const request = (transaction: number) => {
      const first = transaction * RECORDS_PER_TRANSACTION;
      const length = Math.min(RECORDS_PER_TRANSACTION, records - first);
      const operations = Array.from({ length }, (_, at) => ({
        op: "bind",
        path: root === "" ? pathOf(first + at) : `${root}/record-${first + at}`,
        record: root === "" ? recordOf(first + at) : { type: "JSONServiceRecord" },
        createParents: true,
      }));
      return this.#post("transact", { operations });
    };
    const requestsMax = Math.ceil(records / RECORDS_PER_TRANSACTION);
    const operationsPerRequest = Math.min(records, RECORDS_PER_TRANSACTION);
    return { name, request, connections: 1, requestsMax, operationsPerRequest };
  }

  #post(operation: string, body: object): Buffer {
    return httpRequest("POST", `${OPERATIONS}/${operation}`, this.#headers, JSON.stringify(body));
  }

  #load(row: Row) {
    const { request, connections, requestsMax = Number.POSITIVE_INFINITY } = row;
    // What must be complete, such as filling the tree, is bounded by its number alone.
    const msMax = row.operationsPerRequest === undefined ? this.#msMax : RUN_MAX_MS;
    return { port: row.port ?? this.#server.port, request, connections, requestsMax, msMax };
  }

  /** A benchmark of wrong answers is worth nothing. */
  async #check(what: string, request: Buffer, expected: string): Promise<void> {
    const connection = new Connection(this.#server.port);
    const { status, body } = await connection.send(request);
    connection.close();
    if (status === 200 && body.includes(Buffer.from(expected, "latin1"))) return;
    throw new Error(`${what} was answered ${status}: ${body.toString("utf8", 0, 500)}`);
  }

  async #warmed(row: Row): Promise<void> {
    await runLoad({ ...this.#load(row), msMax: this.#msMax / 4 });
    await this.#measure(row);
  }

  async #measure(row: Row): Promise<void> {
    const cpuSeconds = this.#server.cpuSeconds();
    const result = await runLoad(this.#load(row));
    this.#add(row.name, result, this.#server.cpuSeconds() - cpuSeconds, row);
  }

  #add(
    name: string,
    { requests, wallMs, latenciesMs }: Awaited<ReturnType<typeof runLoad>>,
    cpuSeconds: number,
    { connections, operationsPerRequest = 1 }: Pick<Row, "connections" | "operationsPerRequest">,
  ): void {
    const operations = requests * operationsPerRequest;
    const result = {
      name,
      value: round((operations / wallMs) * 1_000),
      unit: "1/s",
      p50Ms: round(percentile(latenciesMs, 0.5)),
      p99Ms: round(percentile(latenciesMs, 0.99)),
      cpuMsEach: round((cpuSeconds * 1_000) / operations),
      cpuSeconds: round(cpuSeconds),
      wallSeconds: round(wallMs / 1_000),
      operations,
      connections,
      records: this.#records,
      server: this.#server.kind,
    };
    this.results.push(result);
  }
}

function expectSuccess({ status, body }: { readonly status: number; readonly body: Buffer }) {
  if (status !== 200) throw new Error(`a change was answered ${status}: ${body}`);
}

function round(value: number): number {
  return Number(value.toPrecision(4));
}

/** Event streams of one path, each on a connection of its own. */
class Watchers {
  readonly #sockets: Socket[] = [];
  readonly #tails = new Map<Socket, string>();
  #heard: (() => void) | null = null;

  async open(port: number, count: number): Promise<void> {
    const ready = this.#eventOfEach(count);
    for (let index = 0; index < count; index++) {
      const socket = connect({ port, host: "127.0.0.1", noDelay: true });
      this.#sockets.push(socket);
      // A stream that breaks is noticed: its event never comes.
      socket.on("error", () => undefined);
      socket.on("data", (chunk) => this.#receive(socket, chunk));
      socket.write(httpRequest("GET", `/registry/v1${WATCHED}?watch`));
    }
    await ready;
  }

  /** When each of them heard the next event. */
  heardByAll(): Promise<readonly number[]> {
    return this.#eventOfEach(this.#sockets.length);
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async #eventOfEach(count: number): Promise<readonly number[]> {
    const timesMs: number[] = [];
    const { promise, resolve } = Promise.withResolvers<"heard">();
    this.#heard = () => {
      if (timesMs.push(performance.now()) === count) resolve("heard");
    };
    const late = delay(CHANGE_HEARD_MAX_MS, "late" as const, { ref: false });
    const outcome = await Promise.race([promise, late]);
    if (outcome === "late")
      throw new Error(`${timesMs.length} of ${count} watchers heard a change`);
    return timesMs;
  }

  #receive(socket: Socket, chunk: Buffer): void {
    const text = `${this.#tails.get(socket) ?? ""}${chunk.toString("latin1")}`;
    const parts = text.split("\nevent: ");
    for (let index = 1; index < parts.length; index++) this.#heard?.();
    this.#tails.set(socket, (parts.at(-1) ?? "").slice(-"\nevent: ".length + 1));
  }
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

/** The aims, each with what was measured for it; left out where nothing was. */
function aims(results: readonly Result[]): string[] {
  const at = (name: string, records?: number) =>
    results.find(
      (result) =>
        result.name === name &&
        result["server"] === "workerd" &&
        (records === undefined || result["records"] === records),
    );
  const lines: string[] = [];
  const judge = (what: string, value: number | undefined, limit: number, isMaximum: boolean) => {
    if (value === undefined || !Number.isFinite(value)) return;
    const isMet = isMaximum ? value <= limit : value >= limit;
    const relation = isMaximum ? "≤" : "≥";
    lines.push(`${isMet ? "met    " : "not met"} ${what}: ${round(value)} (${relation} ${limit})`);
  };
  const sizes = [...new Set(results.map((result) => Number(result["records"])))].sort(
    (a, b) => a - b,
  );
  for (const size of sizes) {
    const number = (name: string, field: string) => Number(at(name, size)?.[field] ?? Number.NaN);
    const shown = (what: string) => `${what}, ${size} records`;
    judge(shown("find by api, CPU ms"), number("find.api", "cpuMsEach"), 5, true);
    judge(shown("resolve, 1/s"), number("resolve", "value"), 10_500, false);
    judge(shown("batched binds, records/s"), number("bind.batched", "value"), 20_000, false);
    const hello = number("hello", "value");
    judge(shown("DoH of one name / hello"), number("doh.one-name", "value") / hello, 0.8, false);
    judge(shown("DoH of all names / hello"), number("doh.all-names", "value") / hello, 0.8, false);
    const watchers = number("watch.change", "connections");
    judge(shown(`${watchers} watchers, p99 ms`), number("watch.change", "p99Ms"), 100, true);
  }
  const [smallest, largest] = [sizes[0], sizes.at(-1)];
  if (smallest === largest) return lines;
  for (const name of ["purge.container", "find.api"]) {
    const growth =
      Number(at(name, largest)?.["cpuMsEach"]) / Number(at(name, smallest)?.["cpuMsEach"]);
    judge(`${name}, CPU of ${largest} / of ${smallest} records`, growth, 1.5, true);
  }
  return lines;
}

function report(results: readonly Result[], loadBefore: readonly number[]): void {
  const averages = (loads: readonly number[]) => loads.map((load) => load.toFixed(2)).join(" ");
  const surroundings = {
    cpu: cpus()[0]?.model.trim() ?? "unknown",
    cores: cpus().length,
    kernel: release(),
    nodeVersion: process.version,
    loadBefore: averages(loadBefore),
    loadAfter: averages(loadavg()),
  };
  if (options.json) {
    for (const result of results) console.log(JSON.stringify({ ...result, ...surroundings }));
    return;
  }
  console.table(surroundings);
  console.table(results.map(({ unit: _, value, ...rest }) => ({ "1/s": value, ...rest })));
  console.log("Aims, on bare workerd (resolve: 1.5 × the 7,000/s of etcd's JSON gateway):");
  for (const line of aims(results)) console.log(`  ${line}`);
  console.log("No peer was measured: etcd and ZooKeeper are not started here.");
}

async function main(): Promise<void> {
  const sizes = wholeNumbers("records", options.records);
  const [watchers = 0] = wholeNumbers("watchers", options.watchers);
  const [seconds = 0] = wholeNumbers("seconds", options.seconds);
  const kinds = options.servers.split(",");
  if (!kinds.every(isServerKind)) {
    fail(`--servers ${options.servers}: workerd, miniflare or both are expected`);
  }
  if (sizes.some((size) => size > 100_000 || size % 1_000 !== 0)) {
    fail(`--records ${options.records}: thousands are expected, up to 100000`);
  }
  if (watchers > 5_000) fail(`--watchers ${watchers}: at most 5000 are expected`);
  const loadBefore = loadavg();
  const results: Result[] = [];
  let running: Promise<Server> | null = null;
  let isStopping = false;
  const stop = async (code: number, why: string) => {
    console.error(why);
    isStopping = true;
    try {
      await (await running)?.dispose();
    } finally {
      process.exit(code);
    }
  };
  process.once("SIGINT", () => void stop(130, "interrupted"));
  process.once("SIGTERM", () => void stop(143, "interrupted"));
  setTimeout(() => void stop(1, "the benchmark took too long"), RUN_MAX_MS).unref();
  for (const kind of kinds) {
    for (const records of sizes) {
      running = startServer(kind, randomBytes(24).toString("base64url"));
      const server: Server = await running;
      try {
        const bench = new Bench(server, records, await claim(server), seconds * 1_000);
        await bench.run(watchers);
        results.push(...bench.results);
      } catch (error) {
        if (!isStopping) throw error;
      } finally {
        await server.dispose();
      }
      if (isStopping) return;
    }
  }
  report(results, loadBefore);
}

await main();
