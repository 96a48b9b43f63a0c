/**
 * What is kept beside the registry's tree: the terms by which records are found, and the changes of
 * the last transactions for watchers that come back. The tree tells every write; both are stored in
 * the transaction that changed the tree. A term costs one row written, a transaction's changes one
 * row together: that row takes the place of one about 4,000 transactions older, so that nothing has
 * to be deleted.
 */
import { changeOf, type StoredChange } from "../../core/registry/changes.ts";
import type { RegistryNode } from "../../core/registry/tree.ts";
import { LIMITS } from "../../shared/limits.ts";
import { readStoredRecord } from "../../shared/registry.ts";
import { lastElement, type RegistryPath } from "../../shared/registry-path.ts";
import { termsOf, yarnIdTerm } from "../../shared/registry-terms.ts";
import { insertTerms, type NodeTerms, parentKey, pathOf } from "./registry-batch.ts";

const JOURNAL_SCHEMA = `
  CREATE TABLE registry_term (
    term   TEXT NOT NULL, -- shared/registry-terms.ts: 'api:…', 'protocol:…', 'id:…'
    parent TEXT NOT NULL,
    name   TEXT NOT NULL,
    PRIMARY KEY (term, parent, name)
  ) WITHOUT ROWID;
  CREATE TABLE registry_change (
    slot     INTEGER PRIMARY KEY, -- sequence modulo the number of slots
    sequence INTEGER NOT NULL,    -- number of the transaction
    changes  TEXT    NOT NULL     -- JSON: [[type, path, version], …]
  );`;

/** Changes of one transaction, in their order. */
export type ChangeBatch = { readonly sequence: number; readonly changes: readonly StoredChange[] };

const SLOTS = LIMITS.registryChangesKept;

export class RegistryJournal {
  readonly #sql: SqlStorage;
  /** Called after a transaction is whole, once for each batch of its changes. */
  onChange: (batch: ChangeBatch) => void = () => undefined;
  #sequence: number | null = null;
  #changes: StoredChange[] = [];
  #stored: ChangeBatch[] = [];
  /** What the transaction under way adds to the index. */
  readonly #terms = new Map<RegistryPath, Set<string>>();

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Number of the last transaction that changed something; 0 before the first. */
  get sequence(): number {
    this.#sequence ??= this.#sql
      .exec<{ last: number | null }>("SELECT max(sequence) AS last FROM registry_change")
      .one().last;
    this.#sequence ??= 0;
    return this.#sequence;
  }

  /** Before the tree puts the node; `terms` are its terms, where somebody has them at hand. */
  put(before: RegistryNode | undefined, after: RegistryNode, terms?: readonly string[]): void {
    const change = changeOf(before, after);
    if (change === null) return;
    this.#changes.push(change);
    const old = before ? termsOfNode(before.record, before.boundTo?.yarnId ?? null) : [];
    const now = terms ?? termsOfNode(after.record, after.boundTo?.yarnId ?? null);
    for (const term of old) if (!now.includes(term)) this.#removeTerm(after.path, term);
    const added = old.length === 0 ? now : now.filter((term) => !old.includes(term));
    if (added.length === 0) return;
    const pending = this.#terms.get(after.path) ?? [];
    this.#terms.set(after.path, new Set([...pending, ...added]));
  }

  /** Before the tree deletes `path` and all below it; `nodes` are those of them that have terms. */
  deleteSubtree(path: RegistryPath, nodes: Iterable<FoundNode>): void {
    this.#changes.push({ type: "deleted", path, version: 0 });
    // All of them are read before anything is written: a cursor ends at the first write.
    const gone = Array.from(nodes, ({ parent, name, record, yarnId }) => ({
      path: pathOf(parent, name),
      terms: termsOfNode(record, yarnId),
    }));
    for (const { path, terms } of gone) for (const term of terms) this.#removeTerm(path, term);
  }

  #removeTerm(path: RegistryPath, term: string): void {
    if (this.#terms.get(path)?.delete(term)) return;
    this.#sql.exec(
      "DELETE FROM registry_term WHERE term = ? AND parent = ? AND name = ?",
      term,
      parentKey(path),
      lastElement(path),
    );
  }

  /** Writes the terms that are known here and not yet there, before the index is read. */
  settle(): void {
    insertTerms(this.#sql, this.#terms);
    this.#terms.clear();
  }

  /** Inside the transaction, after its last write. */
  store(): void {
    const most = LIMITS.registryChangesPerSequenceMax;
    this.settle();
    let sequence = this.sequence;
    for (let from = 0; from < this.#changes.length; from += most) {
      const changes = this.#changes.slice(from, from + most);
      sequence += 1;
      this.#sql.exec(
        "INSERT OR REPLACE INTO registry_change (slot, sequence, changes) VALUES (?, ?, ?)",
        sequence % SLOTS,
        sequence,
        JSON.stringify(changes.map((each) => [each.type, each.path, each.version])),
      );
      this.#stored.push({ sequence, changes });
    }
  }

  /** After the transaction: tells what it changed, or forgets it all when it was undone. */
  finish(committed: boolean): void {
    const stored = this.#stored;
    this.#stored = [];
    this.#changes = [];
    this.#terms.clear();
    if (!committed) return;
    this.#sequence = stored.at(-1)?.sequence ?? this.#sequence;
    for (const batch of stored) this.onChange(batch);
  }

  /**
   * Every batch after `sequence`, in order; null when some of them are no longer kept, or when they
   * have more than `changesMax` changes in all. No more than that is read.
   */
  since(sequence: number, changesMax = Number.POSITIVE_INFINITY): readonly ChangeBatch[] | null {
    const missed = this.sequence - sequence;
    if (missed < 0 || missed > SLOTS) return null;
    if (missed === 0) return [];
    const [first, last] = [(sequence + 1) % SLOTS, this.sequence % SLOTS];
    const ranges =
      first <= last
        ? [[first, last]]
        : [
            [first, SLOTS - 1],
            [0, last],
          ];
    const batches: ChangeBatch[] = [];
    let changes = 0;
    for (const [from = 0, to = 0] of ranges) {
      const rows = this.#sql.exec<{ sequence: number; changes: string }>(
        "SELECT sequence, changes FROM registry_change WHERE slot BETWEEN ? AND ? ORDER BY slot",
        from,
        to,
      );
      for (const row of rows) {
        const batch = readBatch(row);
        changes += batch.changes.length;
        if (changes > changesMax) return null;
        batches.push(batch);
      }
    }
    return batches.length === missed ? batches : null;
  }
}

/** A node that is found by its record, or by what it is bound to. */
export type FoundNode = {
  readonly parent: string;
  readonly name: string;
  readonly record: string | null;
  readonly yarnId: string | null;
};

/** A container's own component path has no record at first, and goes with the container. */
function termsOfNode(record: string | null, yarnId: string | null): readonly string[] {
  if (record !== null) return termsOf(readStoredRecord(record));
  return yarnId === null ? [] : [yarnIdTerm(yarnId)];
}

/** Adds the journal to a store that may hold records already: they get their terms. */
export function createJournal(sql: SqlStorage): void {
  sql.exec(JOURNAL_SCHEMA);
  for (let at: readonly [parent: string, name: string] = ["", ""]; ; ) {
    const rows = sql
      .exec<{ parent: string; name: string; record: string }>(
        `SELECT parent, name, record FROM registry_node
         WHERE (parent, name) > (?, ?) AND record IS NOT NULL ORDER BY parent, name LIMIT 1000`,
        ...at,
      )
      .toArray();
    const terms = rows.map(
      ({ parent, name, record }): NodeTerms => [
        pathOf(parent, name),
        termsOf(readStoredRecord(record)),
      ],
    );
    insertTerms(sql, terms);
    const last = rows.at(-1);
    if (last === undefined) return;
    at = [last.parent, last.name];
  }
}

function readBatch(row: { sequence: number; changes: string }): ChangeBatch {
  const changes = JSON.parse(row.changes) as [StoredChange["type"], RegistryPath, number][];
  return {
    sequence: row.sequence,
    changes: changes.map(([type, path, version]) => ({ type, path, version })),
  };
}
