import { env, evictDurableObject, runInDurableObject } from "cloudflare:test";
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import type { Registry } from "../../src/durable/registry.ts";
import {
  migrateRegistryStore,
  SqliteRegistryTree,
} from "../../src/durable/store/registry-store.ts";
import {
  describeRegistry,
  expectOk,
  outcomeOf,
  recordBoundTo,
  recordNamed,
} from "../support/registry-contract.ts";
import { naiveRegistry, operationList, perform } from "../support/registry-model.ts";

const registries = (env as unknown as { REGISTRY: DurableObjectNamespace<Registry> }).REGISTRY;
let count = 0;
/** A registry of its own for each test: storage is shared within this file. */
const open = () => registries.getByName(`cluster-${++count}`);
const DEMO = "/users/joe/org-apache-hbase/demo1";

describeRegistry("[RG1] [RG2] [RG3] [RG11] the registry over SQLite", open);

describe("a registry that is evicted", () => {
  it("still has the record whose bind was acknowledged", async () => {
    const registry = open();
    expect(outcomeOf(await registry.mknode("/users/joe", false))).toBe("ok");
    const bound = await registry.bind("/users/joe/db", recordNamed("db"), { overwrite: false });
    expect(outcomeOf(bound)).toBe("ok");
    await evictDurableObject(registry);
    expect(expectOk(await registry.resolve("/users/joe/db"))).toEqual(recordNamed("db"));
  });

  it("does not make its first paths a second time", async () => {
    const registry = open();
    await registry.bind("/services", recordNamed("core"), { overwrite: false });
    const before = expectOk(await registry.view("/services"));
    await evictDurableObject(registry);
    expect(expectOk(await registry.view("/services"))).toEqual(before);
  });

  it("still knows which container a record is bound to", async () => {
    const registry = open();
    const id = "container_e01_1408631738011_0001_01_000002";
    await registry.bind("/services/a", recordBoundTo(id, "container"), { overwrite: false });
    await evictDurableObject(registry);
    expect(expectOk(await registry.purge(id, "container"))).toBe(1);
    await evictDurableObject(registry);
    expect(expectOk(await registry.list("/services"))).toEqual([]);
  });

  it("has none of a transaction that failed", async () => {
    const registry = open();
    const reply = await registry.transact([
      { op: "mknode", path: DEMO, createParents: true },
      { op: "delete", path: "/services/none", recursive: false, missingOk: false },
    ]);
    expect(outcomeOf(reply)).toBe("NOT_FOUND PathNotFoundException");
    await evictDurableObject(registry);
    expect(expectOk(await registry.exists("/users/joe"))).toBe(false);
  });
});

describe("the store", () => {
  it("agrees with a naive model over any sequence of operations", async () => {
    await fc.assert(
      fc.asyncProperty(operationList, async (operations) => {
        const registry = open();
        const model = naiveRegistry();
        for (const operation of operations) {
          expect(outcomeOf(await perform(registry, operation))).toBe(model.perform(operation));
        }
        expect(await model.differences(registry)).toEqual([]);
      }),
      { numRuns: 25 },
    );
  });

  it("answers every question by its key or its index, without a scan and without sorting", async () => {
    const plans = await runInDurableObject(open(), (_registry, { storage }) => {
      const asked: [string, unknown[]][] = [];
      const sql = {
        exec: (query: string, ...bindings: unknown[]) => {
          asked.push([query, bindings]);
          return storage.sql.exec(query, ...bindings);
        },
      };
      const tree = new SqliteRegistryTree({ sql } as unknown as DurableObjectStorage);
      tree.get("/a/b");
      tree.children("/a");
      tree.countChildren("/a");
      tree.findBoundTo({ yarnId: "container_1_0001_01_000001", persistence: "container" });
      tree.deleteSubtree("/a/b");
      return asked.flatMap(([query, bindings]) =>
        storage.sql
          .exec<{ detail: string }>(`EXPLAIN QUERY PLAN ${query}`, ...bindings)
          .toArray()
          .map(({ detail }) => detail),
      );
    });
    expect(plans).toContainEqual("SEARCH t USING PRIMARY KEY (term=?)");
    expect(plans.filter((detail) => /SCAN|TEMP B-TREE/.test(detail))).toEqual([]);
  });

  it("[RG26] writes one row for a node and one for its watchers, and none for a record that it has already", async () => {
    const registry = open();
    const rowsWritten = (work: (instance: Registry) => Promise<unknown>) =>
      runInDurableObject(registry, async (instance, { storage }) => {
        const before = storage.sql.exec<{ n: number }>("SELECT total_changes() AS n").one().n;
        await work(instance);
        return storage.sql.exec<{ n: number }>("SELECT total_changes() AS n").one().n - before;
      });
    const bind = (instance: Registry) =>
      instance.bind("/services/hdfs", recordNamed("hdfs"), { overwrite: true });
    expect(await rowsWritten(bind)).toBe(2);
    expect(await rowsWritten(bind)).toBe(0);
  });

  it("refuses to open what newer code has written", async () => {
    const registry = open();
    await runInDurableObject(registry, (_registry, { storage }) => {
      storage.sql.exec("UPDATE schema_version SET version = 99");
      expect(() => migrateRegistryStore(storage, 0)).toThrow("not 99");
      storage.sql.exec("UPDATE schema_version SET version = 1");
    });
  });
});

describe("the log", () => {
  it("has one line for each write, none for a read", async () => {
    const registry = open();
    await registry.exists("/");
    const log = vi.spyOn(console, "log");
    await registry.mknode("/users/joe", false);
    await registry.mknode("/users/joe/a/b", false);
    await registry.view("/users");
    await registry.purge("container_1_0001_01_000001", "container");
    const lines = log.mock.calls.map(([line]) => JSON.parse(String(line)));
    log.mockRestore();
    expect(lines).toEqual([
      { event: "registry.mknode", outcome: "ok", path: "/users/joe" },
      { event: "registry.mknode", outcome: "NOT_FOUND", path: "/users/joe/a/b" },
      {
        event: "registry.purge",
        outcome: "ok",
        path: "",
        yarnId: "container_1_0001_01_000001",
        persistence: "container",
        purged: 0,
      },
    ]);
  });
});
