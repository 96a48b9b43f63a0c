/**
 * Rows in the SQLite of a Durable Object: one table per kind of row, key and JSON body, one
 * statement per table and batch (rows written dominate the bill). The schema is made at the first
 * write, so that asking for something that does not exist leaves nothing behind.
 */
import type { Change, Table } from "../../core/table.ts";

/** Stays well below SQLite's 2 MB for a bound value in a Durable Object. */
const BATCH_CHARACTERS_MAX = 500_000;

/** Raised when a body's shape changes; `upgrade` steps then go here, forward only. */
const SCHEMA_VERSION = 1;

// biome-ignore lint/suspicious/noExplicitAny: the tables of one object hold different rows
type AnyTable = Table<any>;

export class RowStore {
  readonly #sql: SqlStorage;
  readonly #tables: readonly AnyTable[];
  #ready = false;

  constructor(sql: SqlStorage, tables: readonly AnyTable[]) {
    this.#sql = sql;
    this.#tables = tables;
  }

  /** Fills the tables with all stored rows. */
  load(): void {
    const known = this.#sql
      .exec<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'table'")
      .toArray()
      .map(({ name }) => name);
    if (!known.includes("schema_version")) return;
    this.#ready = true;
    for (const table of this.#tables) {
      // One that this object's code did not have when it made its schema.
      if (!known.includes(table.name)) this.#createTable(table.name);
      for (const row of this.#sql.exec<{ body: string }>(`SELECT body FROM "${table.name}"`)) {
        table.load(row.body);
      }
    }
  }

  /** Stores changes. The caller wraps it into one transaction. */
  save(changes: readonly Change[]): void {
    if (changes.length === 0) return;
    if (!this.#ready) this.#createSchema();
    for (const [table, ofTable] of groupByTable(changes)) {
      const puts = ofTable.filter((change) => change.body !== null);
      const deletes = ofTable.filter((change) => change.body === null);
      // Bodies are JSON already and stand there as they are: quoting them once more would cost as
      // much as making them did.
      for (const batch of batches(puts.map(({ key, body }) => `${JSON.stringify(key)}:${body}`))) {
        this.#sql.exec(
          `INSERT INTO "${table}" (key, body)
           SELECT key, value FROM json_each(?) WHERE true
           ON CONFLICT (key) DO UPDATE SET body = excluded.body`,
          `{${batch}}`,
        );
      }
      for (const batch of batches(deletes.map(({ key }) => JSON.stringify(key)))) {
        this.#sql.exec(
          `DELETE FROM "${table}" WHERE key IN (SELECT value FROM json_each(?))`,
          `[${batch}]`,
        );
      }
    }
  }

  #createSchema(): void {
    this.#sql.exec("CREATE TABLE schema_version (version INTEGER PRIMARY KEY) STRICT");
    this.#sql.exec("INSERT INTO schema_version VALUES (?)", SCHEMA_VERSION);
    for (const { name } of this.#tables) this.#createTable(name);
    this.#ready = true;
  }

  #createTable(name: string): void {
    this.#sql.exec(
      `CREATE TABLE "${name}" (key TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT, WITHOUT ROWID`,
    );
  }
}

function groupByTable(changes: readonly Change[]): Map<string, Change[]> {
  return Map.groupBy(changes, (change) => change.table);
}

/** Joined with commas, as many items as fit into one bound value. */
function* batches(items: readonly string[]): Generator<string> {
  let batch: string[] = [];
  let size = 0;
  for (const item of items) {
    if (size + item.length > BATCH_CHARACTERS_MAX && batch.length > 0) {
      yield batch.join(",");
      batch = [];
      size = 0;
    }
    batch.push(item);
    size += item.length;
  }
  if (batch.length > 0) yield batch.join(",");
}
