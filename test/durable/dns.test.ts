import { env, runInDurableObject } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import type { Registry } from "../../src/durable/registry.ts";
import { SqliteNameIndex } from "../../src/durable/store/registry-names.ts";
import { SqliteRegistryTree } from "../../src/durable/store/registry-store.ts";
import { DNS_TYPE } from "../../src/shared/dns.ts";
import type { RegistryOperation } from "../../src/shared/protocol/registry-operations.ts";
import type { ServiceRecord } from "../../src/shared/registry.ts";
import { mapNames } from "../support/map-names.ts";
import { mapRegistry } from "../support/map-registry.ts";

const registries = (env as unknown as { REGISTRY: DurableObjectNamespace<Registry> }).REGISTRY;
let count = 0;
const open = () => registries.getByName(`dns-${++count}`);

function recordOf(external: ServiceRecord["external"], attributes: ServiceRecord["attributes"]) {
  return { type: "JSONServiceRecord", external, internal: [], attributes } as const;
}

function containerOf(number: number, component: string, ip: string): ServiceRecord {
  const attributes = {
    "yarn:id": `container_${number}`,
    "yarn:persistence": "container",
    "yarn:component": component,
    "yarn:ip": ip,
  };
  return { ...recordOf([], attributes), description: `${component}-${number}` };
}

function bind(path: string, record: ServiceRecord): RegistryOperation {
  return { op: "bind", path, record, overwrite: true, createParents: true };
}

const user = fc.constantFrom("joe", "joe-x", "joe0", "anonymous");
const service = fc.constantFrom("hello", "joe", "ctr-1");
const component = fc.constantFrom("web", "Web", "db");
const number = fc.nat(3);
const ip = fc.constantFrom("10.0.0.1", "10.0.0.2", "fd00::1", "none");

const operation = fc.oneof(
  fc
    .tuple(user, service, fc.constantFrom("/users/", "/services/"))
    .map(([u, s, place]) => bind(`${place}${u}/k/${s}`, recordOf([], {}))),
  fc
    .tuple(user, service, component, number, ip)
    .map(([u, s, c, n, at]) =>
      bind(`/users/${u}/k/${s}/components/ctr-${n}`, containerOf(n, c, at)),
    ),
  fc.tuple(user, service).map(
    ([u, s]): RegistryOperation => ({
      op: "delete",
      path: `/users/${u}/k/${s}`,
      recursive: true,
      missingOk: true,
    }),
  ),
);

const question = fc.record(
  {
    name: fc.oneof(
      fc.tuple(user).map(([u]) => `${u}.x.test`),
      fc.tuple(service, user).map((labels) => `${labels.join(".")}.x.test`),
      fc.tuple(component, service, user).map((labels) => `${labels.join(".")}.x.test`),
      fc
        .tuple(component, number, service, user)
        .map(([c, n, s, u]) => `${c}-${n}.${s}.${u}.x.test`),
      fc.tuple(number).map(([n]) => `ctr-${n}.x.test`),
      fc.tuple(number, service, user).map(([n, s, u]) => `ctr-${n}.${s}.${u}.x.test`),
      fc.constantFrom("1.0.0.10.in-addr.arpa", "2.0.0.10.in-addr.arpa"),
    ),
    type: fc.constantFrom(DNS_TYPE.A, DNS_TYPE.AAAA, DNS_TYPE.TXT, DNS_TYPE.PTR),
  },
  { noNullPrototype: true },
);

describe("names over SQLite", () => {
  it("[RG43] are those of the registry without a runtime, after any history", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(operation, { minLength: 1, maxLength: 25 }),
        fc.array(question, { minLength: 1, maxLength: 10 }),
        async (operations, questions) => {
          const real = open();
          const model = mapRegistry();
          for (const each of operations) {
            await real.transact([each]);
            await model.transact([each]);
          }
          for (const each of questions) {
            const { authority: _, ...told } = await real.resolveName(each, "x.test");
            const { authority: __, ...wanted } = await model.resolveName(each, "x.test");
            expect([each, told]).toEqual([each, wanted]);
          }
        },
      ),
      { numRuns: 60 },
    );
  });

  it("[RG43] are found by index alone, however large the tree", async () => {
    const plans = await runInDurableObject(open(), (_, { storage }) => {
      // What the planner is given is what the index asks, word by word.
      const statements: [string, unknown[]][] = [];
      const sql = {
        exec: (statement: string, ...bindings: unknown[]) => {
          statements.push([statement, bindings]);
          return storage.sql.exec(statement, ...bindings);
        },
      };
      const index = new SqliteNameIndex({ sql } as unknown as DurableObjectStorage);
      index.has("/users/joe");
      index.servicesNamed("hello", "/users/joe", 8);
      index.containerAt("/users/joe/k/hello/components/ctr-1");
      index.containersNamed("ctr-1", 8);
      index.containersBelow("/users/joe/k/hello/components", "all", 8);
      index.containersBelow("/users/joe/k/hello/components", { component: "web" }, 8);
      index.containersBelow("/users/joe/k/hello/components", { instance: "web-1" }, 8);
      index.containersAt("10.0.0.1", 8);
      return statements.map(([statement, bindings]) =>
        storage.sql
          .exec<{ detail: string }>(`EXPLAIN QUERY PLAN ${statement}`, ...bindings)
          .toArray()
          .map(({ detail }) => detail)
          .filter((detail) => !detail.startsWith("USE TEMP B-TREE"))
          .join("; "),
      );
    });
    expect(plans).toEqual([
      expect.stringContaining("PRIMARY KEY (parent=? AND name=?)"),
      expect.stringContaining("registry_node_by_name (name=? AND parent>? AND parent<?)"),
      expect.stringContaining("PRIMARY KEY (parent=? AND name=?)"),
      expect.stringContaining("registry_node_by_name (name=?)"),
      expect.stringContaining("registry_node_by_component (parent=?)"),
      expect.stringContaining("registry_node_by_component (parent=? AND <expr>=?)"),
      expect.stringContaining("registry_node_by_instance (parent=? AND <expr>=?)"),
      expect.stringContaining("registry_node_by_address (<expr>=?)"),
    ]);
  });

  it("[RG43] follow a purge at once", async () => {
    const registry = open();
    const path = "/users/joe/k/hello";
    await registry.transact([
      bind(path, recordOf([], {})),
      bind(`${path}/components/ctr-1`, containerOf(1, "web", "10.0.0.1")),
    ]);
    const ask = async () => {
      const asked = { name: "web-1.hello.joe.x.test", type: DNS_TYPE.A };
      return (await registry.resolveName(asked, "x.test")).answers.length;
    };
    expect(await ask()).toBe(1);
    await registry.purge("container_1", "container");
    expect(await ask()).toBe(0);
  });

  it("[RG43] agree with a walk of the same tree", async () => {
    await runInDurableObject(open(), async (registry, { storage }) => {
      const path = "/users/joe/k/hello";
      await registry.transact([
        bind(path, recordOf([], {})),
        bind(`${path}/components/ctr-1`, containerOf(1, "web", "10.0.0.1")),
        bind(`${path}/components/ctr-2`, containerOf(2, "WEB", "10.0.0.1")),
      ]);
      const walked = mapNames(new SqliteRegistryTree(storage));
      const indexed = new SqliteNameIndex(storage);
      const below = `${path}/components`;
      for (const ask of [
        (index: typeof walked) => index.containersBelow(below, { component: "web" }, 1),
        (index: typeof walked) => index.containersBelow(below, "all", 9),
        (index: typeof walked) => index.containersAt("10.0.0.1", 9),
        (index: typeof walked) => index.servicesNamed("hello", "/users/joe", 9),
      ]) {
        expect(ask(walked).length).toBeGreaterThan(0);
        expect(ask(indexed)).toEqual(ask(walked));
      }
    });
  });
});

describe("the whole Worker", () => {
  it("[RG45] answers /dns-query to anybody, and logs no query as a write", async () => {
    const logged = vi.spyOn(console, "log");
    const registry = registries.getByName("default");
    await registry.transact([
      bind("/users/joe/k/hello", recordOf([], {})),
      bind("/users/joe/k/hello/components/ctr-1", containerOf(1, "web", "10.0.0.1")),
    ]);
    const url = "http://cluster/dns-query?name=web-1.hello.joe.selvedge.internal";
    const worker = (exports as unknown as { default: Fetcher }).default;
    const response = await worker.fetch(url);
    expect(response.headers.get("cache-control")).toBe("public, max-age=5");
    expect(await response.json()).toMatchObject({ Answer: [{ data: "10.0.0.1" }] });
    const bytes = await worker.fetch("http://cluster/clusters/other/dns-query", {
      method: "POST",
      headers: { "content-type": "application/dns-message" },
      body: Uint8Array.from([0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 120, 0, 0, 1, 0, 1]),
    });
    expect(bytes.headers.get("content-length")).toBe("19");
    expect(new Uint8Array(await bytes.arrayBuffer())[3]).toBe(5);
    const lines = logged.mock.calls.map(([line]) => String(line));
    expect(lines.filter((line) => line.includes("dns-query"))).toEqual([]);
  });
});
