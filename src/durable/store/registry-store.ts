/**
 * The registry tree in SQLite: rows ⇄ RegistryNode, and nothing else. One row is one node. The key
 * (parent, name) is the lookup by path, the list of children in their order, and, as a range over
 * parents, the subtree; so a node costs one row written, and a second one only when it is bound to
 * the life of an application, attempt or container.
 */

import { lastElement, parentOf, type RegistryPath, ROOT } from "../../core/registry/path.ts";
import { createSystemPaths } from "../../core/registry/registry.ts";
import type { BoundTo, RegistryNode, RegistryTree } from "../../core/registry/tree.ts";
import { assert, type Failure, type Reply } from "../../shared/errors.ts";
import type { PersistencePolicy } from "../../shared/protocol/registry-operations.ts";

/** Numbered from 1, forward only, never edited once released. */
const MIGRATIONS: readonly string[] = [
  `CREATE TABLE registry_node (
     parent      TEXT    NOT NULL, -- path of the parent; '' for the root
     name        TEXT    NOT NULL, -- last element; '' for the root
     created_ms  INTEGER NOT NULL,
     record      TEXT,             -- canonical JSON; NULL for a node without record
     yarn_id     TEXT,             -- both NULL, or both of a record that is purged
     persistence TEXT,
     PRIMARY KEY (parent, name)
   ) WITHOUT ROWID;
   CREATE INDEX registry_node_bound_to ON registry_node (yarn_id, persistence)
     WHERE yarn_id IS NOT NULL;`,
];

type NodeRow = {
  created_ms: number;
  record: string | null;
  yarn_id: string | null;
  persistence: string | null;
};

/** Undoes a transaction, whose work has failed in an expected way. */
class RollBack extends Error {
  readonly failure: Failure;
  constructor(failure: Failure) {
    super(failure.message);
    this.failure = failure;
  }
}

export class SqliteRegistryTree implements RegistryTree {
  readonly #storage: DurableObjectStorage;
  readonly #sql: SqlStorage;

  /** `storage` has been through `migrateRegistryStore`. */
  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    this.#sql = storage.sql;
  }

  get(path: RegistryPath): RegistryNode | undefined {
    const [row] = this.#sql.exec<NodeRow>(
      `SELECT created_ms, record, yarn_id, persistence FROM registry_node
       WHERE parent = ? AND name = ?`,
      parentKey(path),
      lastElement(path),
    );
    if (row === undefined) return undefined;
    const { yarn_id: yarnId, persistence } = row;
    return {
      path,
      createdMs: row.created_ms,
      record: row.record,
      boundTo:
        yarnId === null || persistence === null
          ? null
          : { yarnId, persistence: persistence as PersistencePolicy },
    };
  }

  put(node: RegistryNode): void {
    this.#sql.exec(
      `INSERT INTO registry_node (parent, name, created_ms, record, yarn_id, persistence)
       VALUES (?, ?, ?, ?, ?, ?)
       ON CONFLICT (parent, name) DO UPDATE SET created_ms = excluded.created_ms,
         record = excluded.record, yarn_id = excluded.yarn_id, persistence = excluded.persistence`,
      parentKey(node.path),
      lastElement(node.path),
      node.createdMs,
      node.record,
      node.boundTo?.yarnId ?? null,
      node.boundTo?.persistence ?? null,
    );
  }

  deleteSubtree(path: RegistryPath): void {
    assert(path !== ROOT, "the root of the registry is never deleted");
    // "0" follows "/": the range holds every parent that starts with `path/`, and no other.
    this.#sql.exec(
      `DELETE FROM registry_node
       WHERE (parent = ? AND name = ?) OR parent = ? OR (parent >= ? AND parent < ?)`,
      parentKey(path),
      lastElement(path),
      path,
      `${path}/`,
      `${path}0`,
    );
  }

  children(path: RegistryPath): readonly string[] {
    const rows = this.#sql.exec<{ name: string }>(
      "SELECT name FROM registry_node WHERE parent = ? ORDER BY name",
      path,
    );
    return Array.from(rows, (row) => row.name);
  }

  countChildren(path: RegistryPath): number {
    return this.#sql
      .exec<{ children: number }>(
        "SELECT count(*) AS children FROM registry_node WHERE parent = ?",
        path,
      )
      .one().children;
  }

  findBoundTo(boundTo: BoundTo): readonly RegistryPath[] {
    const rows = this.#sql.exec<{ parent: string; name: string }>(
      "SELECT parent, name FROM registry_node WHERE yarn_id = ? AND persistence = ?",
      boundTo.yarnId,
      boundTo.persistence,
    );
    return Array.from(rows, ({ parent, name }) =>
      parent === ROOT || parent === "" ? `/${name}` : `${parent}/${name}`,
    ).sort();
  }

  atomically<Value>(work: () => Reply<Value>): Reply<Value> {
    try {
      return this.#storage.transactionSync(() => {
        const reply = work();
        if (!reply.ok) throw new RollBack(reply.error);
        return reply;
      });
    } catch (error) {
      if (error instanceof RollBack) return { ok: false, error: error.failure };
      throw error;
    }
  }
}

/**
 * Brings the schema to the newest version, and a new store to the paths that every registry has, in
 * one transaction. A store that newer code has written is refused: this code would misread it.
 */
export function migrateRegistryStore(storage: DurableObjectStorage, nowMs: number): void {
  const { sql } = storage;
  sql.exec("CREATE TABLE IF NOT EXISTS schema_version (version INTEGER PRIMARY KEY)");
  const [row] = sql.exec<{ version: number }>("SELECT version FROM schema_version");
  const version = row?.version ?? 0;
  assert(
    version <= MIGRATIONS.length,
    `the registry's schema is at most version ${MIGRATIONS.length}, not ${version}`,
  );
  if (version === MIGRATIONS.length) return;
  storage.transactionSync(() => {
    for (const migration of MIGRATIONS.slice(version)) sql.exec(migration);
    sql.exec("DELETE FROM schema_version");
    sql.exec("INSERT INTO schema_version (version) VALUES (?)", MIGRATIONS.length);
    createSystemPaths(new SqliteRegistryTree(storage), nowMs);
  });
}

/** The root has no parent; its key is one that no path has. */
function parentKey(path: RegistryPath): string {
  return parentOf(path) ?? "";
}
