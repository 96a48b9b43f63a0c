import { env, evictDurableObject, runInDurableObject } from "cloudflare:test";
import fc from "fast-check";
import { beforeEach, describe, expect, it, vi } from "vitest";
import type { Registry } from "../../src/durable/registry.ts";
import { ResourceManager } from "../../src/durable/resource-manager.ts";
import { migrateRegistryStore } from "../../src/durable/store/registry-store.ts";
import {
  bind,
  CALLERS,
  describeRegistryAccess,
  grant,
  mknode,
  type WholeRegistry,
} from "../support/registry-access-contract.ts";
import {
  AccessModel,
  snapshot,
  snapshotOf,
  writeCommands,
} from "../support/registry-access-model.ts";
import { expectOk, outcomeOf } from "../support/registry-contract.ts";

const registries = (env as unknown as { REGISTRY: DurableObjectNamespace<Registry> }).REGISTRY;
let count = 0;
/** A registry of its own for each test: storage is shared within this file. */
const openObject = () => registries.getByName(`access-${++count}`);
const open = () => openObject() as unknown as WholeRegistry;

// The containers of these tests have no cluster, and are joe's.
beforeEach(() => {
  vi.spyOn(ResourceManager.prototype, "findLiveContainer").mockResolvedValue({ user: "joe" });
});

describeRegistryAccess("[RG5] [RG6] [RG7] [RG8] [RG9] the registry over SQLite", open);

describe("operations and ACLs together", () => {
  it("[RG10] agree with a plain model over any sequence of writes of anybody", async () => {
    await fc.assert(
      fc.asyncProperty(writeCommands(), async (commands) => {
        const real = open();
        const model = new AccessModel();
        await fc.asyncModelRun(() => ({ model, real }), commands);
        expect(await snapshot(real)).toEqual(snapshotOf(model));
      }),
      { numRuns: 25 },
    );
  });
});

describe("a registry that is evicted after it has acknowledged", () => {
  const APP = { id: "app", password: "s3cret-of-app" };
  const joe = { caller: CALLERS.joe, accessors: [APP] };
  const eve = { scheme: "user", id: "eve", permissions: "wc" } as const;

  it("[RG4] still has owner, ACL, digest and version", async () => {
    const registry = openObject();
    const path = "/users/joe/db";
    const reply = await registry.write(joe, [mknode("/users/joe"), bind(path), grant(path, eve)]);
    const [, bound] = expectOk(reply);
    const before = expectOk(await registry.getAcl(joe, path));
    await evictDurableObject(registry);
    expect(expectOk(await registry.getAcl(joe, path))).toEqual(before);
    expect(expectOk(await registry.stat(path)).version).toBe(
      bound?.op === "bind" ? bound.version : "not bound",
    );
    const nobody = { caller: CALLERS.nobody, accessors: [APP] };
    expect(outcomeOf(await registry.write(nobody, [bind(`${path}/below`)]))).toBe("ok");
    const strangers = { caller: { kind: "user", user: "j-oe", admin: false }, accessors: [] };
    expect(outcomeOf(await registry.write(strangers as typeof joe, [bind(path)]))).toContain(
      "NoPathPermissionsException",
    );
  });

  it("[RG2] gives higher versions than before", async () => {
    const registry = openObject();
    const first = expectOk(await registry.write(joe, [bind("/users/joe/db")]));
    await registry.delete("/users/joe", true);
    await evictDurableObject(registry);
    const second = expectOk(await registry.write(joe, [bind("/users/joe/db")]));
    expect(versionOf(second)).toBeGreaterThan(versionOf(first));
  });
});

function versionOf(results: readonly unknown[]): number {
  return (results[0] as { version: number }).version;
}

describe("a store that older code has made", () => {
  it("[RG4] keeps its records, which then have a version, and its users' homes", async () => {
    const registry = openObject();
    await runInDurableObject(registry, (_instance, { storage }) => {
      const tables = storage.sql
        .exec<{ name: string }>(
          "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB 'registry_*'",
        )
        .toArray();
      for (const { name } of tables) storage.sql.exec(`DROP TABLE ${name}`);
      storage.sql.exec(SCHEMA_1);
      storage.sql.exec("UPDATE schema_version SET version = 1");
      migrateRegistryStore(storage, 2_000);
    });
    await evictDurableObject(registry);
    expect(expectOk(await registry.view("/users/joe/db"))).toMatchObject({
      stat: { time: 1_000, version: 1_000 },
      record: { description: "old" },
    });
    expect(expectOk(await registry.stat("/users/joe")).version).toBe(0);
    const joe = { caller: CALLERS.joe, accessors: [] };
    const reply = expectOk(
      await registry.write(joe, [{ ...bind("/users/joe/db"), ifVersion: 1_000 } as never]),
    );
    expect(versionOf(reply)).toBeGreaterThan(1_000);
    expect(expectOk(await registry.purge("application_1_0001", "application"))).toBe(1);
  });
});

/** As it was before nodes had versions, owners and ACLs, with what a user had published. */
const SCHEMA_1 = `
  CREATE TABLE registry_node (
    parent TEXT NOT NULL, name TEXT NOT NULL, created_ms INTEGER NOT NULL, record TEXT,
    yarn_id TEXT, persistence TEXT, PRIMARY KEY (parent, name)
  ) WITHOUT ROWID;
  CREATE INDEX registry_node_bound_to ON registry_node (yarn_id, persistence)
    WHERE yarn_id IS NOT NULL;
  INSERT INTO registry_node VALUES
    ('', '', 1, NULL, NULL, NULL), ('/', 'users', 1, NULL, NULL, NULL),
    ('/', 'services', 1, NULL, NULL, NULL), ('/users', 'joe', 900, NULL, NULL, NULL),
    ('/users/joe', 'db', 1000,
     '{"type":"JSONServiceRecord","description":"old","external":[],"internal":[]}', NULL, NULL),
    ('/users/joe', 'app', 1000,
     '{"type":"JSONServiceRecord","external":[],"internal":[],"yarn:id":"application_1_0001","yarn:persistence":"application"}',
     'application_1_0001', 'application');`;

describe("the log", () => {
  it("[RG8] never holds a password", async () => {
    const registry = openObject();
    const log = vi.spyOn(console, "log");
    const accessors = [{ id: "app", password: "never-to-be-logged" }];
    await registry.write({ caller: CALLERS.joe, accessors }, [mknode("/users/joe/a")]);
    await registry.write({ caller: CALLERS.nobody, accessors }, [mknode("/users/eve/a")]);
    const text = JSON.stringify(log.mock.calls);
    log.mockRestore();
    expect(text).toContain("registry.write");
    expect(text).not.toContain("never-to-be-logged");
  });
});
