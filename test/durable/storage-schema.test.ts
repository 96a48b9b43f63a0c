/** docs/storage-schema.md and the databases say the same: every table that is named, and no other. */
import { afterEach, describe, expect, it } from "vitest";
import documentation from "../../docs/storage-schema.md?raw";
import { EdgeCluster, OBJECTS, type ObjectName } from "./support/edge-cluster.ts";
import { liveThroughAll } from "./support/thread.ts";

let cluster: EdgeCluster;

afterEach(() => cluster.dispose());

/** The first code block of the document is the form of every table of rows. */
const FORM = /```sql\n(.*?)\n```/s.exec(documentation)?.[1] ?? "";
/** Every object notes the version of its schema. */
const SCHEMA_VERSION = "schema_version";

/** Names of tables by object, from the document's Markdown tables. */
function documentedTables(): Map<ObjectName, { rows: string[]; own: string[] }> {
  const tables = new Map(
    OBJECTS.map((object) => [object, { rows: [] as string[], own: [] as string[] }]),
  );
  for (const section of documentation.split(/^## /m)) {
    let object = OBJECTS.find((name) => section.startsWith(name));
    for (const [, first = "", second = ""] of section.matchAll(
      /^\| *([^|]*?) *\| *([^|]*?) *\|/gm,
    )) {
      object = OBJECTS.find((name) => name === first) ?? object;
      if (object === undefined) continue;
      const ownTable = /^`(\w+)`$/.exec(first)?.[1];
      const rowTable = /^`(\w+)`$/.exec(second)?.[1];
      if (ownTable !== undefined) tables.get(object)?.own.push(ownTable);
      else if (rowTable !== undefined) tables.get(object)?.rows.push(rowTable);
    }
  }
  return tables;
}

describe("what is stored", () => {
  it("[SS1] is in exactly the tables that docs/storage-schema.md names", async () => {
    cluster = new EdgeCluster();
    await liveThroughAll(cluster, async () => undefined);
    const documented = documentedTables();
    for (const object of OBJECTS) {
      const { rows = [], own = [] } = documented.get(object) ?? {};
      const named = [...rows, ...own, SCHEMA_VERSION].sort();
      const existing = (await cluster.tables(object)).map(({ name }) => name).sort();
      expect({ object, tables: existing }).toEqual({ object, tables: named });
      expect(named.length).toBeGreaterThan(1);
    }
  });

  it("[SS2] has the stated form, a key and a JSON body, in every table of rows", async () => {
    cluster = new EdgeCluster();
    await liveThroughAll(cluster, async () => undefined);
    expect(FORM).toContain('"{name}"');
    for (const [object, { rows }] of documentedTables()) {
      const tables = new Map((await cluster.tables(object)).map(({ name, sql }) => [name, sql]));
      for (const name of rows) {
        expect({ name, sql: tables.get(name) }).toEqual({
          name,
          sql: FORM.replace("{name}", name),
        });
      }
      const contents = await cluster.contents(object);
      for (const name of rows) {
        for (const { key, body } of contents[name] ?? []) {
          expect(typeof key).toBe("string");
          expect(() => JSON.parse(String(body))).not.toThrow();
        }
      }
    }
  });

  it("[SS2] has the stated indexes, each of which covers some of the rows only", async () => {
    cluster = new EdgeCluster();
    await liveThroughAll(cluster, async () => undefined);
    const indexes = await cluster.within("Registry", ({ storage }) =>
      storage.sql
        .exec<{ name: string; sql: string }>(
          "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL",
        )
        .toArray(),
    );
    for (const { name, sql } of indexes) {
      expect(documentation).toMatch(new RegExp(`\\b${name}\\b`));
      expect(sql).toMatch(/\sWHERE /);
    }
    expect(indexes.length).toBeGreaterThan(0);
  });

  it("[SS3] holds no secret but the cluster's keys", async () => {
    cluster = new EdgeCluster();
    const secrets: string[] = [];
    await liveThroughAll(cluster, async (step) => {
      if (step === "claim") secrets.push(cluster.token);
      if (step === "join") secrets.push(await cluster.join("other:8041"));
    });
    expect(secrets).toHaveLength(2);
    for (const object of OBJECTS) {
      const stored = JSON.stringify(await cluster.contents(object));
      for (const secret of secrets) expect(stored).not.toContain(secret);
      expect(stored).not.toContain("test-claim-code");
      expect(stored).not.toContain('"token\\":\\"ey');
    }
  });
});
