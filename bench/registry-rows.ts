/**
 * The rows: each operation of the registry by HTTP, on a server of its own with a tree of so many
 * records. Any answer but 200 ends the benchmark: one of wrong answers is worth nothing.
 */
import { DNS_TYPE } from "../src/shared/dns.ts";
import { encodeMessage } from "../src/shared/dns-message.ts";
import { queryMessage } from "../test/support/dns-query.ts";
import { Connection, httpRequest, runLoad } from "./http-load.ts";
import { type Conditions, type Result, resultOf } from "./registry-report.ts";
import type { Server } from "./registry-servers.ts";
import {
  CLASS,
  containerIdOf,
  pathOf,
  RARE_API,
  RECORDS_PER_SERVICE,
  recordAt,
  recordOf,
  serviceAt,
} from "./registry-tree.ts";
import { Watchers } from "./registry-watchers.ts";

/** Throughput is measured with so many connections, latency with one. */
export const CONNECTIONS = 64;
export const SERIAL_REQUESTS_MAX = 300;
/** Longer, and something has gone wrong. */
export const RUN_MAX_MS = 15 * 60_000;
const RECORDS_PER_TRANSACTION = 500;
/** Below the 100 that one caller may write to one path at once. */
const WATCHED_CHANGES = 50;
const WARM_UP_CHANGES = 10;
const WATCHED = `${CLASS}/watched`;
const OPERATIONS = "/ws/v1/registry-operations";

type Row = {
  readonly name: string;
  readonly request: (index: number) => Buffer;
  readonly connections: number;
  readonly requestsMax?: number;
  /** What one request does, such as records bound. */
  readonly operationsPerRequest?: number;
  readonly port?: number;
};

export class RegistryBench {
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
    // Answers may be a second old; in the rows called anew, and those of searches, they may not.
    const anew = (path: string) => httpRequest("GET", path, { "Cache-Control": "no-cache" });
    const get = (path: string) => httpRequest("GET", path);
    const crowd = () => httpRequest("GET", `/registry/v1${pathOf(0)}`);
    const popular = (index: number) =>
      httpRequest("GET", `/registry/v1${pathOf(zipf(index, this.#records))}`);
    const node = (index: number) => pathOf(recordAt(index, this.#records));
    const resolve = (index: number) => get(`/registry/v1${node(index)}`);
    const resolveAnew = (index: number) => anew(`/registry/v1${node(index)}`);
    const list = (index: number) =>
      get(`/registry/v1${pathOf(serviceAt(index, this.#records))}/components?list`);
    const stat = (index: number) => get(`/registry/v1${pathOf(serviceAt(index, this.#records))}`);
    const find = (api: string) => () =>
      anew(`/registry/v1/users?find&endpointField.api=${encodeURIComponent(api)}`);
    const type = { Accept: "application/dns-message", "Content-Type": "application/dns-message" };
    const doh = (services: number) => (index: number) => {
      const name = `service-${index % services}.bench.selvedge.internal`;
      const query = encodeMessage(queryMessage(name, DNS_TYPE.A));
      return httpRequest("POST", "/dns-query", type, Buffer.from(query));
    };
    const one = { connections: 1, requestsMax: SERIAL_REQUESTS_MAX };
    await this.#check("GET", find(RARE_API)(), `"path":"${pathOf(0)}"`);
    await this.#warmed({ name: "resolve", request: resolve, connections: CONNECTIONS });
    await this.#warmed({ name: "resolve.anew", request: resolveAnew, connections: CONNECTIONS });
    await this.#warmed({ name: "resolve.anew.serial", request: resolveAnew, ...one });
    await this.#warmed({ name: "resolve.one-path", request: crowd, connections: CONNECTIONS });
    await this.#warmed({ name: "resolve.zipf", request: popular, connections: CONNECTIONS });
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
    const watchers = new Watchers(WATCHED);
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
    load: Awaited<ReturnType<typeof runLoad>>,
    cpuSeconds: number,
    row: Pick<Conditions, "connections" | "operationsPerRequest">,
  ): void {
    const measured = { ...load, cpuSeconds, rssMb: this.#server.rssMb() };
    const conditions = { server: this.#server.kind, records: this.#records };
    this.results.push(resultOf(name, measured, { ...row, ...conditions }));
  }
}

/** Asked for about as often as its rank is low, as services are: Zipf's law with exponent 1. */
function zipf(index: number, count: number): number {
  const uniform = (Math.imul(index + 1, 0x9e3779b1) >>> 0) / 2 ** 32;
  return Math.min(count - 1, Math.floor(count ** uniform) - 1);
}

export function expectSuccess({
  status,
  body,
}: {
  readonly status: number;
  readonly body: Buffer;
}) {
  if (status !== 200) throw new Error(`a change was answered ${status}: ${body}`);
}
