/** What readers ask of the registry, over real SQLite: the same answers as over a Map, by index. */
import { env, evictDurableObject, runInDurableObject } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { find } from "../../src/core/registry/find.ts";
import type { Registry } from "../../src/durable/registry.ts";
import { watchUrl } from "../../src/durable/registry-watch.ts";
import {
  migrateRegistryStore,
  SqliteRegistryTree,
} from "../../src/durable/store/registry-store.ts";
import { LIMITS } from "../../src/shared/limits.ts";
import type { RegistryOperation } from "../../src/shared/protocol/registry-operations.ts";
import type {
  RegistryCopiedNode,
  RegistryCopyPage,
  RegistryFindPage,
  RegistryQuery,
  RegistrySubtreePage,
  RegistryWatchMessage,
} from "../../src/shared/protocol/registry-reader.ts";
import type { ServiceRecord } from "../../src/shared/registry.ts";
import { viewOf } from "../../src/shared/registry-view.ts";
import { eventually } from "../support/eventually.ts";
import { mapRegistry } from "../support/map-registry.ts";
import { expectOk, outcomeOf, recordNamed } from "../support/registry-contract.ts";
import { operationList, perform } from "../support/registry-model.ts";

const registries = (env as unknown as { REGISTRY: DurableObjectNamespace<Registry> }).REGISTRY;
const worker = (exports as unknown as { default: { fetch: typeof fetch } }).default;
let count = 0;
const nextName = () => `readers-${++count}`;
const open = () => registries.getByName(nextName());

const ANY: RegistryQuery = { endpoint: {}, scope: "any", attributes: {}, text: null };
const byApi = (api: string): RegistryQuery => ({ ...ANY, endpoint: { api } });
const FIRST = { limit: 100, after: null };

function withApi(api: string, attributes: ServiceRecord["attributes"] = {}): ServiceRecord {
  const endpoint = { api, addressType: "uri", protocolType: "REST", addresses: [] };
  return { type: "JSONServiceRecord", external: [endpoint], internal: [], attributes };
}

function bind(path: string, record: ServiceRecord): RegistryOperation {
  return { op: "bind", path, record, overwrite: true, createParents: true };
}

/** Users with ten services each; every `everyNth` service has the API `wanted:api`. */
function manyServices(services: number, everyNth: number): RegistryOperation[] {
  return Array.from({ length: services }, (_, n) =>
    bind(
      `/users/u${Math.floor(n / 10)}/x/s${n}`,
      withApi(n % everyNth === 0 ? "wanted:api" : `other:a${n % 7}`),
    ),
  );
}

async function fill(registry: DurableObjectStub<Registry>, operations: RegistryOperation[]) {
  for (let from = 0; from < operations.length; from += 500) {
    expectOk(await registry.transact(operations.slice(from, from + 500)));
  }
}

/** The tree of an object, and how many rows SQLite has read for it so far. */
function countingTree(storage: DurableObjectStorage) {
  const cursors: SqlStorageCursor<Record<string, SqlStorageValue>>[] = [];
  const sql = {
    exec: (query: string, ...bindings: unknown[]) => {
      const cursor = storage.sql.exec(query, ...bindings);
      cursors.push(cursor);
      return cursor;
    },
  };
  const tree = new SqliteRegistryTree({ sql } as unknown as DurableObjectStorage);
  return { tree, rowsRead: () => cursors.reduce((sum, { rowsRead }) => sum + rowsRead, 0) };
}

describe("the edge", () => {
  it("[RG75] hears what has happened since a transaction, and that it is too much to say", async () => {
    const registry = open();
    const { sequence, changes } = await registry.newsSince(null);
    expect(changes).toBeNull();
    expectOk(await registry.transact([bind("/users/joe/db", withApi("a:b"))]));
    expectOk(await registry.delete("/users/joe", true));
    expect(await registry.newsSince(sequence)).toEqual({
      sequence: sequence + 2,
      changes: [
        { type: "created", path: "/users/joe" },
        { type: "bound", path: "/users/joe/db" },
        { type: "deleted", path: "/users/joe" },
      ],
    });
    expect(await registry.newsSince(sequence + 2)).toEqual({ sequence: sequence + 2, changes: [] });
    const changed = Array.from({ length: LIMITS.registryNewsMax + 1 }, (_, n) =>
      bind(`/users/joe/s${n % 10}`, withApi(`version:v${n}`)),
    );
    await fill(registry, changed);
    expect((await registry.newsSince(sequence)).changes).toBeNull();
  });

  it("[RG75] copies every node once, as it is read, without those that have many children", async () => {
    const registry = open();
    await fill(registry, manyServices(1_500, 3));
    const nodes: RegistryCopiedNode[] = [];
    let pages = 0;
    let next: string | null = null;
    do {
      const page: RegistryCopyPage = await registry.copy(next);
      nodes.push(...page.nodes);
      pages += 1;
      next = page.next;
    } while (next !== null);
    const paths = nodes.map(({ path }) => path);
    // The services, each user's home and the node below it, and /services.
    expect([paths.length, new Set(paths).size]).toEqual([1_500 + 2 * 150 + 1, paths.length]);
    expect(pages).toBe(Math.ceil((paths.length + 1) / LIMITS.registryCopyNodesMax));
    expect(paths).not.toContain("/users");
    for (const path of ["/users/u7", "/users/u7/x", "/users/u149/x/s1499"]) {
      const read = await registry.readNode(path, null);
      const copied = nodes.find((node) => node.path === path);
      expect(copied && viewOf(copied, copied.children)).toEqual(read.ok ? read.value : null);
    }
  });
});

describe("pages and searches", () => {
  it("[RG21] [RG22] [RG23] are those of the same registry over a Map, after any changes", async () => {
    const queries = [ANY, { ...ANY, text: "c1" }, { ...ANY, attributes: { "yarn:id": "c1" } }];
    await fc.assert(
      fc.asyncProperty(operationList, fc.integer({ min: 1, max: 4 }), async (operations, limit) => {
        const [sqlite, map] = [open(), mapRegistry()];
        for (const operation of operations) {
          expect(outcomeOf(await perform(sqlite, operation))).toBe(
            outcomeOf(await perform(map, operation)),
          );
        }
        const answers = async (
          registry: Pick<Registry, "find" | "readChildren" | "readSubtree">,
        ) => {
          const said: string[] = [];
          for (const path of ["/", "/users", "/services"]) {
            for (const query of queries) {
              for (let after: string | null = null; ; ) {
                const page: RegistryFindPage = expectOk(
                  await registry.find(path, query, { limit, after }, null),
                );
                said.push(...page.matches.map((match) => match.path), page.next ?? "end");
                if (page.next === undefined) break;
                after = page.next;
              }
            }
            for (let after: string | null = null; ; ) {
              const page: RegistrySubtreePage = expectOk(
                await registry.readSubtree(path, 2, { limit, after }, null),
              );
              said.push(...page.nodes.map((node) => node.path), page.next ?? "end");
              if (page.next === undefined) break;
              after = page.next;
            }
            const { children } = expectOk(
              await registry.readChildren(path, { limit, after: null }, null),
            );
            said.push(...children.map((child) => `${child.path} ${child.hasRecord}`));
          }
          return said;
        };
        expect(await answers(sqlite as unknown as Registry)).toEqual(
          await answers(map as unknown as Registry),
        );
      }),
      { numRuns: 20 },
    );
  });
});

describe("[RG24] a search by API", () => {
  it("[RG24] reads the rows of its matches, however large the tree is", async () => {
    const rowsReadAmong = async (services: number) => {
      const registry = open();
      await fill(registry, manyServices(services, services / 10));
      return runInDurableObject(registry, (_, { storage }) => {
        const { tree, rowsRead } = countingTree(storage);
        const page = expectOk(find(tree, "/users", byApi("wanted:api"), FIRST));
        expect(page.matches).toHaveLength(10);
        return rowsRead();
      });
    };
    const small = await rowsReadAmong(200);
    expect(await rowsReadAmong(2_000)).toBe(small);
    expect(small).toBeLessThanOrEqual(10 * 3 + 5);
  });

  it("[RG24] and by protocol or yarn:id, and every page, goes by a key: no scan, no sorting", async () => {
    const plans = await runInDurableObject(open(), (_, { storage }) => {
      const asked: [string, unknown[]][] = [];
      const sql = {
        exec: (query: string, ...bindings: unknown[]) => {
          asked.push([query, bindings]);
          return storage.sql.exec(query, ...bindings);
        },
      };
      const tree = new SqliteRegistryTree({ sql } as unknown as DurableObjectStorage);
      for (const path of ["/", "/users"]) {
        for (const after of [null, path, "/users/joe/x"]) {
          tree.nodesBelow(path, after, 10);
          tree.nodesWithTerm("api:x", path, after, 10);
        }
        tree.childrenAfter(path, "a", 10);
      }
      return asked.flatMap(([query, bindings]) =>
        storage.sql
          .exec<{ detail: string }>(`EXPLAIN QUERY PLAN ${query}`, ...bindings)
          .toArray()
          .map(({ detail }) => detail),
      );
    });
    expect(plans).toContainEqual(expect.stringMatching(/term=\? AND parent=\? AND name>/));
    expect(plans).toContainEqual(
      expect.stringMatching(/term=\? AND \(parent,name\)>|term=\? AND parent>/),
    );
    expect(plans.filter((detail) => /SCAN|TEMP B-TREE/.test(detail))).toEqual([]);
  });

  it("[RG24] finds only what is there after records were replaced and deleted", async () => {
    const registry = open();
    await fill(registry, [
      bind("/users/a/x", withApi("wanted:api", { "yarn:id": "one" })),
      bind("/users/b/x", withApi("wanted:api")),
      bind("/users/c", withApi("wanted:api")),
    ]);
    const found = async (query: RegistryQuery) =>
      expectOk(await registry.find("/", query, FIRST, null)).matches.map(({ path }) => path);
    expect(await found({ ...ANY, attributes: { "yarn:id": "one" } })).toEqual(["/users/a/x"]);
    await registry.delete("/users/b", true);
    await registry.transact([bind("/users/a/x", withApi("other:api"))]);
    expect(await found(byApi("wanted:api"))).toEqual(["/users/c"]);
    const failed = await registry.transact([
      bind("/users/c", withApi("other:api")),
      { op: "delete", path: "/users/none", recursive: false, missingOk: false },
    ]);
    expect(failed.ok).toBe(false);
    expect(await found(byApi("wanted:api"))).toEqual(["/users/c"]);
    const rows = await runInDurableObject(registry, (_, { storage }) =>
      storage.sql.exec("SELECT term FROM registry_term ORDER BY term").toArray(),
    );
    expect(rows.map(({ term }) => term)).toEqual([
      "api:other:api",
      "api:wanted:api",
      "protocol:rest",
      "protocol:rest",
    ]);
  });

  it("[RG24] finds what was bound before there was an index", async () => {
    const registry = open();
    await fill(registry, manyServices(1_200, 100));
    await runInDurableObject(registry, (_, { storage }) => {
      storage.sql.exec("DROP TABLE registry_term; DROP TABLE registry_change");
      storage.sql.exec("DROP TABLE registry_publisher");
      const later = storage.sql.exec<{ name: string }>(
        "SELECT name FROM sqlite_master WHERE type = 'index' AND name LIKE 'registry_node_by_%'",
      );
      for (const { name } of later.toArray()) storage.sql.exec(`DROP INDEX ${name}`);
      storage.sql.exec("UPDATE schema_version SET version = 2");
      migrateRegistryStore(storage, 0);
      const tree = new SqliteRegistryTree(storage);
      const page = expectOk(find(tree, "/", byApi("wanted:api"), FIRST));
      expect(page.matches).toHaveLength(12);
    });
  });

  it("[RG23] looks at a bounded number of nodes when there is no index, and says where it was", async () => {
    const registry = open();
    await fill(registry, manyServices(2_500, 2_500));
    const query = { ...ANY, text: "wanted:API" };
    const first = expectOk(await registry.find("/users", query, FIRST, null));
    const found = [...first.matches];
    let pages = 1;
    for (let next = first.next; next !== undefined; pages++) {
      const page = expectOk(await registry.find("/users", query, { ...FIRST, after: next }, null));
      found.push(...page.matches);
      next = page.next;
    }
    expect(found.map(({ path }) => path)).toEqual(["/users/u0/x/s0"]);
    expect(pages).toBe(Math.ceil((2_500 + 500) / LIMITS.registryFindScanMax));
  });
});

/** A watch as the Worker opens it, and what it has heard. */
async function watch(registry: DurableObjectStub<Registry>, path: string, after: number | null) {
  const headers = { upgrade: "websocket" };
  const response = await registry.fetch(watchUrl(path, after, null), { headers });
  const heard: RegistryWatchMessage[] = [];
  response.webSocket?.addEventListener("message", ({ data }) => {
    heard.push(JSON.parse(String(data)));
  });
  response.webSocket?.accept();
  const hears = (messages: number) =>
    eventually(() => expect(heard.length).toBeGreaterThanOrEqual(messages));
  return { heard, hears, close: () => response.webSocket?.close() };
}

describe("[RG26] a watch", () => {
  it("[RG26] outlives the object's sleep, and hears each change once", async () => {
    const registry = open();
    const watcher = await watch(registry, "/users/joe", null);
    const other = await watch(registry, "/users/ann", null);
    await watcher.hears(1);
    await registry.transact([bind("/users/joe/a", recordNamed("one"))]);
    await watcher.hears(2);
    await evictDurableObject(registry, { webSockets: "hibernate" });
    await registry.transact([bind("/users/joe/a", recordNamed("two"))]);
    await registry.delete("/users/joe", true);
    await watcher.hears(4);
    const said = watcher.heard.map((message) =>
      "reset" in message ? "reset" : message.changes.map(({ type, path }) => `${type} ${path}`),
    );
    expect(said).toEqual([
      [],
      ["created /users/joe", "bound /users/joe/a"],
      ["bound /users/joe/a"],
      ["deleted /users/joe"],
    ]);
    expect(watcher.heard.map(({ sequence }) => sequence)).toEqual([0, 1, 2, 3]);
    expect(other.heard).toEqual([{ sequence: 0, changes: [] }]);
    watcher.close();
    other.close();
  });

  it("[RG26] that opens after changes hears the next one, and one that closed costs nothing", async () => {
    const registry = open();
    const early = await watch(registry, "/users", null);
    await registry.mknode("/users/ann", false);
    await early.hears(2);
    const late = await watch(registry, "/users", null);
    await registry.mknode("/users/joe", false);
    await late.hears(2);
    expect(late.heard).toMatchObject([{ sequence: 1 }, { changes: [{ path: "/users/joe" }] }]);
    early.close();
    late.close();
    await eventually(async () => {
      const open = await runInDurableObject(registry, (_, state) => state.getWebSockets().length);
      expect(open).toBe(0);
    });
  });

  it("[RG26] catches up after the object was lost, and is told when it is too late for that", async () => {
    const registry = open();
    await registry.transact([bind("/users/joe/a", recordNamed("a"))]);
    await registry.transact([bind("/users/ann/b", recordNamed("b"))]);
    await registry.transact([bind("/users/joe/c", recordNamed("c"))]);
    await evictDurableObject(registry);
    const resumed = await watch(registry, "/users/joe", 1);
    await resumed.hears(2);
    expect(resumed.heard).toEqual([
      {
        sequence: 3,
        changes: [
          {
            type: "bound",
            path: "/users/joe/c",
            version: expect.any(Number),
            record: recordNamed("c"),
          },
        ],
      },
      { sequence: 3, changes: [] },
    ]);
    await runInDurableObject(registry, (_, { storage }) => {
      storage.sql.exec("DELETE FROM registry_change WHERE sequence = 2");
    });
    const late = await watch(registry, "/users/joe", 1);
    await late.hears(1);
    expect(late.heard).toEqual([{ sequence: 3, reset: true }]);
    resumed.close();
    late.close();
  });

  it("[RG26] is written as one row for each transaction, in the place of the oldest", async () => {
    const registry = open();
    const slots = LIMITS.registryChangesKept;
    await registry.transact([bind("/users/joe/a", recordNamed("a"))]);
    await runInDurableObject(registry, async (instance, { storage }) => {
      storage.sql.exec("UPDATE registry_change SET sequence = ?, slot = ?", slots - 1, slots - 1);
      storage.sql.exec(
        "INSERT INTO registry_change (slot, sequence, changes) VALUES (0, ?, '[]')",
        slots,
      );
      expect(instance).toBeDefined();
    });
    await evictDurableObject(registry);
    await registry.transact([
      bind("/users/joe/b", recordNamed("b")),
      bind("/users/joe/c", recordNamed("c")),
    ]);
    const kept = await runInDurableObject(registry, (_, { storage }) =>
      storage.sql.exec("SELECT slot, sequence FROM registry_change ORDER BY sequence").toArray(),
    );
    expect(kept).toEqual([
      { slot: slots - 1, sequence: slots - 1 },
      { slot: 0, sequence: slots },
      { slot: 1, sequence: slots + 1 },
    ]);
    const resumed = await watch(registry, "/users", slots - 1);
    await resumed.hears(2);
    expect(resumed.heard).toMatchObject([
      { sequence: slots + 1, changes: [{ path: "/users/joe/b" }, { path: "/users/joe/c" }] },
      { sequence: slots + 1, changes: [] },
    ]);
    resumed.close();
  });

  it("[RG26] reaches a client of the Worker as server-sent events, across a restart", async () => {
    const name = nextName();
    const registry = registries.getByName(name);
    const url = `https://selvedge.test/clusters/${name}/registry/v1/users?watch`;
    const listen = async (lastEventId?: string) => {
      const headers: Record<string, string> = lastEventId ? { "Last-Event-ID": lastEventId } : {};
      const response = await worker.fetch(url, { headers });
      const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      const until = async (part: string) => {
        while (!text.includes(part)) {
          const chunk = await reader?.read();
          if (chunk?.value === undefined) throw new Error(`the stream ended with ${text}`);
          text += chunk.value;
        }
        return text;
      };
      return { until, close: () => reader?.cancel() };
    };
    const first = await listen();
    await first.until("id: 0\nevent: ready");
    await registry.mknode("/users/joe", false);
    await first.until("id: 1\nevent: created");
    await first.close();
    await registry.mknode("/users/ann", false);
    await evictDurableObject(registry);
    const second = await listen("1");
    const text = await second.until("event: ready");
    expect(text).toContain('id: 2\nevent: created\ndata: {"type":"created","path":"/users/ann"');
    expect(text).not.toContain("/users/joe");
    await second.close();
  });
});

describe("[RG28] slowing down", () => {
  it("[RG28] concerns one address and path, and never the cluster's own objects", async () => {
    const name = nextName();
    const read = (path: string, address?: string) =>
      worker.fetch(`https://selvedge.test/clusters/${name}/registry/v1${path}`, {
        headers: {
          "Cache-Control": "no-cache",
          ...(address ? { "CF-Connecting-IP": address } : {}),
        },
      });
    let refused: Response | undefined;
    for (let asked = 0; asked < 400 && refused === undefined; asked++) {
      const response = await read("/users", "192.0.2.1");
      if (response.status !== 200) refused = response;
      else await response.body?.cancel();
    }
    expect(refused?.status).toBe(429);
    expect(Number(refused?.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
    expect(await refused?.json()).toMatchObject({
      reason: "RateOfPolling",
      hint: expect.stringContaining("?watch"),
    });
    expect((await read("/services", "192.0.2.1")).status).toBe(200);
    expect((await read("/users", "192.0.2.2")).status).toBe(200);
    expect((await read("/users")).status).toBe(200);
  });
});

describe("[RG63] [RG64] /net", () => {
  it("[RG63] [RG64] shows another cluster of the deployment, which cannot be written through it", async () => {
    const [east, west] = [nextName(), nextName()];
    const read = (cluster: string, path: string) =>
      worker.fetch(`https://selvedge.test/clusters/${cluster}/registry/v1${path}`);
    const record = withApi("org.apache.hadoop.webhdfs");
    expectOk(await registries.getByName(west).bind("/services/hdfs", record, { overwrite: false }));
    const seen = await read(east, `/net/${west}/services/hdfs`);
    expect([seen.status, await seen.json()]).toMatchObject([
      200,
      { path: `/net/${west}/services/hdfs`, record: { external: record.external } },
    ]);
    expect((await read(east, "/services/hdfs")).status).toBe(404);
    const bind = { op: "bind", createParents: true, overwrite: true } as const;
    const path = `/net/${west}/services/hive`;
    const written = await registries.getByName(east).transact([{ ...bind, path, record }]);
    expect(outcomeOf(written)).toContain("FAILED_PRECONDITION");
  });
});
