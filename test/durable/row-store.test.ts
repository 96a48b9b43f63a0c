/** Rows come back from SQLite exactly as they were put, whatever stands in them. */
import { runInDurableObject } from "cloudflare:test";
import fc from "fast-check";
import { expect, it } from "vitest";
import { Table } from "../../src/core/table.ts";
import { RowStore } from "../../src/durable/store/row-store.ts";
import { env } from "./support/edge-cluster.ts";

type Row = { readonly key: string; readonly value: unknown };

const keyOf = (row: Row) => row.key;
const text = fc.string({ unit: "binary", maxLength: 12 });
const aRow = fc.record({
  key: text,
  value: fc.oneof(fc.jsonValue({ noUnicodeString: false }), text, fc.double({ noNaN: true })),
});

it("[SS2] rows with any text and any number are loaded as they were saved", async () => {
  const stub = env.RESOURCE_MANAGER.getByName("row-store");
  await runInDurableObject(stub, (_, { storage: { sql } }) => {
    let number = 0;
    fc.assert(
      fc.property(fc.uniqueArray(aRow, { selector: keyOf, maxLength: 20 }), (rows) => {
        number += 1;
        const name = `rows_${number}`;
        const table = new Table<Row>(name, keyOf);
        for (const row of rows) table.put(row);
        for (const row of rows.slice(0, 2)) table.put({ ...row, value: "changed" });
        const gone = rows.at(-1);
        const store = new RowStore(sql, [table]);
        store.load();
        store.save(table.drain());
        if (gone !== undefined) table.delete(gone.key);
        store.save(table.drain());
        const again = new Table<Row>(name, keyOf);
        new RowStore(sql, [again]).load();
        const sorted = (some: Table<Row>) =>
          [...some.values()].map((row) => JSON.stringify(row)).sort();
        expect(sorted(again)).toEqual(sorted(table));
        for (const { key } of table.values()) expect(again.get(key)).toBeDefined();
      }),
      { numRuns: 200 },
    );
  });
});
