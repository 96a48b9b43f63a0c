/**
 * The registry tree in SQLite: rows ⇄ RegistryNode, and nothing else. One row is one node. The key
 * (parent, name) is the lookup by path, the list of children in their order, and, as a range over
 * parents, the subtree. A node costs one row written, and those of the terms by which its record is
 * found; what a transaction changed is one row together (registry-journal.ts).
 */

import type { RegistryIndex } from "../../core/registry/find.ts";
import { createSystemPaths } from "../../core/registry/registry.ts";
import type { AclEntry, RegistryNode, RegistryTree } from "../../core/registry/tree.ts";
import { assert, type Failure, type Reply } from "../../shared/errors.ts";
import type {
  BoundTo,
  ListPage,
  PersistencePolicy,
} from "../../shared/protocol/registry-operations.ts";
import { lastElement, parentOf, type RegistryPath, ROOT } from "../../shared/registry-path.ts";
import { yarnIdTerm } from "../../shared/registry-terms.ts";
import { insertNodes, parentKey, pathOf } from "./registry-batch.ts";
import { createJournal, type FoundNode, RegistryJournal } from "./registry-journal.ts";
import { NAME_INDEX_MIGRATION } from "./registry-names.ts";
import { SqliteRegistryIndex } from "./registry-pages.ts";
import { PUBLISHER_MIGRATION } from "./registry-publishers.ts";

/** Numbered from 1, forward only, never edited once released. */
const MIGRATIONS: readonly (string | ((sql: SqlStorage) => void))[] = [
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
  // Versions come from the clock, so that those of a later bind are higher in any case.
  `ALTER TABLE registry_node ADD COLUMN version INTEGER NOT NULL DEFAULT 0; -- 0 without record
   ALTER TABLE registry_node ADD COLUMN owner   TEXT; -- of a home; NULL for all other nodes
   ALTER TABLE registry_node ADD COLUMN acl     TEXT; -- JSON; NULL for a node without entries
   UPDATE registry_node SET version = created_ms WHERE record IS NOT NULL;`,
  NAME_INDEX_MIGRATION,
  createJournal,
  PUBLISHER_MIGRATION,
  // Terms lead also to what is bound to an id: one row less for each.
  `INSERT OR IGNORE INTO registry_term (term, parent, name)
     SELECT 'id:' || yarn_id, parent, name FROM registry_node WHERE yarn_id IS NOT NULL;
   DROP INDEX IF EXISTS registry_node_bound_to;`,
];

type NodeRow = {
  created_ms: number;
  record: string | null;
  yarn_id: string | null;
  persistence: string | null;
  version: number;
  owner: string | null;
  acl: string | null;
};

const COLUMNS = "created_ms, record, yarn_id, persistence, version, owner, acl";

function nodeOf(path: RegistryPath, row: NodeRow): RegistryNode {
  const { yarn_id: yarnId, persistence } = row;
  return {
    path,
    createdMs: row.created_ms,
    record: row.record,
    boundTo:
      yarnId === null || persistence === null
        ? null
        : { yarnId, persistence: persistence as PersistencePolicy },
    version: row.version,
    owner: row.owner,
    acl: row.acl === null ? [] : (JSON.parse(row.acl) as AclEntry[]),
  };
}

/** Undoes a transaction, whose work has failed in an expected way. */
class RollBack extends Error {
  readonly failure: Failure;
  constructor(failure: Failure) {
    super(failure.message);
    this.failure = failure;
  }
}

export class SqliteRegistryTree implements RegistryTree, RegistryIndex {
  readonly #storage: DurableObjectStorage;
  readonly #sql: SqlStorage;
  readonly #index: SqliteRegistryIndex;
  /** Hears of every write; tells of every transaction. */
  readonly journal: RegistryJournal;
  #isInTransaction = false;
  /** Nodes that the transaction under way has read or put: each is read once. */
  readonly #known = new Map<RegistryPath, RegistryNode | undefined>();
  readonly #unwritten = new Map<RegistryPath, RegistryNode>();
  /** The highest given out since the object was loaded; the clock is above those given before. */
  #version = 0;

  /** `storage` has been through `migrateRegistryStore`. */
  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
    this.#sql = storage.sql;
    this.journal = new RegistryJournal(storage.sql);
    this.#index = new SqliteRegistryIndex(storage.sql);
  }

  childrenAfter(path: RegistryPath, after: string, limit: number) {
    return this.#index.childrenAfter(path, after, limit);
  }

  childrenOfEach(paths: readonly RegistryPath[], limit: number) {
    return this.#index.childrenOfEach(paths, limit);
  }

  nodesBelow(path: RegistryPath, after: RegistryPath | null, limit: number) {
    return this.#index.nodesBelow(path, after, limit);
  }

  nodesWithTerm(term: string, path: RegistryPath, after: RegistryPath | null, limit: number) {
    return this.#index.nodesWithTerm(term, path, after, limit);
  }

  get(path: RegistryPath): RegistryNode | undefined {
    if (this.#known.has(path)) return this.#known.get(path);
    const node = this.#read(path);
    if (this.#isInTransaction) this.#known.set(path, node);
    return node;
  }

  #read(path: RegistryPath): RegistryNode | undefined {
    const [row] = this.#sql.exec<NodeRow>(
      `SELECT ${COLUMNS} FROM registry_node WHERE parent = ? AND name = ?`,
      parentKey(path),
      lastElement(path),
    );
    return row === undefined ? undefined : nodeOf(path, row);
  }

  /** One statement for all of them: a statement costs several times what a row does. */
  prepare(paths: readonly RegistryPath[]): void {
    const wanted = new Set<RegistryPath>();
    for (const path of paths) {
      for (let at: RegistryPath | null = path; at !== null && !wanted.has(at); at = parentOf(at)) {
        wanted.add(at);
      }
    }
    for (const path of wanted) if (!this.#known.has(path)) this.#known.set(path, undefined);
    const keys = Array.from(wanted, (path) => [path, parentKey(path), lastElement(path)]);
    const rows = this.#sql.exec<NodeRow & { path: RegistryPath }>(
      `SELECT wanted.value ->> 0 AS path, ${COLUMNS}
       FROM json_each(?) AS wanted CROSS JOIN registry_node AS node
         ON node.parent = wanted.value ->> 1 AND node.name = wanted.value ->> 2`,
      JSON.stringify(keys),
    );
    for (const row of rows) this.#known.set(row.path, nodeOf(row.path, row));
  }

  put(node: RegistryNode, terms?: readonly string[]): void {
    this.journal.put(this.get(node.path), node, terms);
    this.#known.set(node.path, node);
    this.#unwritten.set(node.path, node);
    if (!this.#isInTransaction) this.#settle();
  }

  /** Writes what is known here and not yet there, before rows are read other than by their path. */
  #settle(): void {
    if (this.#unwritten.size === 0) return;
    insertNodes(this.#sql, this.#unwritten.values());
    this.#unwritten.clear();
    if (!this.#isInTransaction) this.#known.clear();
  }

  deleteSubtree(path: RegistryPath): void {
    assert(path !== ROOT, "the root of the registry is never deleted");
    this.#settle();
    this.#known.clear();
    // "0" follows "/": the range holds every parent that starts with `path/`, and no other.
    const subtree = "((parent = ? AND name = ?) OR parent = ? OR (parent >= ? AND parent < ?))";
    const keys = [parentKey(path), lastElement(path), path, `${path}/`, `${path}0`];
    const nodes = this.#sql.exec<FoundNode>(
      `SELECT parent, name, record, yarn_id AS yarnId FROM registry_node
       WHERE ${subtree} AND (record IS NOT NULL OR yarn_id IS NOT NULL)`,
      ...keys,
    );
    this.journal.deleteSubtree(path, nodes);
    this.#sql.exec(`DELETE FROM registry_node WHERE ${subtree}`, ...keys);
  }

  children(path: RegistryPath, { after = "", limit = -1 }: ListPage = {}): readonly string[] {
    this.#settle();
    const rows = this.#sql.exec<{ name: string }>(
      "SELECT name FROM registry_node WHERE parent = ? AND name > ? ORDER BY name LIMIT ?",
      path,
      after,
      limit,
    );
    return Array.from(rows, (row) => row.name);
  }

  countChildren(path: RegistryPath): number {
    this.#settle();
    return this.#sql
      .exec<{ children: number }>(
        "SELECT count(*) AS children FROM registry_node WHERE parent = ?",
        path,
      )
      .one().children;
  }

  findBoundTo(boundTo: BoundTo): readonly RegistryPath[] {
    this.#settle();
    this.journal.settle();
    const rows = this.#sql.exec<{ parent: string; name: string }>(
      `SELECT n.parent, n.name FROM registry_term t CROSS JOIN registry_node n
         ON n.parent = t.parent AND n.name = t.name
       WHERE t.term = ? AND n.yarn_id = ? AND n.persistence = ?`,
      yarnIdTerm(boundTo.yarnId),
      boundTo.yarnId,
      boundTo.persistence,
    );
    return Array.from(rows, ({ parent, name }) => pathOf(parent, name)).sort();
  }

  nextVersion(nowMs: number): number {
    this.#version = Math.max(this.#version + 1, nowMs);
    return this.#version;
  }

  atomically<Value>(work: () => Reply<Value>): Reply<Value> {
    this.#isInTransaction = true;
    try {
      const done = this.#storage.transactionSync(() => {
        const reply = work();
        if (!reply.ok) throw new RollBack(reply.error);
        this.#settle();
        this.journal.store();
        return reply;
      });
      this.journal.finish(true);
      return done;
    } catch (error) {
      this.journal.finish(false);
      if (error instanceof RollBack) return { ok: false, error: error.failure };
      throw error;
    } finally {
      this.#isInTransaction = false;
      this.#known.clear();
      this.#unwritten.clear();
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
    for (const migration of MIGRATIONS.slice(version)) {
      if (typeof migration === "string") sql.exec(migration);
      else migration(sql);
    }
    sql.exec("DELETE FROM schema_version");
    sql.exec("INSERT INTO schema_version (version) VALUES (?)", MIGRATIONS.length);
    createSystemPaths(new SqliteRegistryTree(storage), nowMs);
  });
}
