/**
 * The rows that one transaction of the registry writes, kept until they are needed: a statement for
 * each row costs several times what the row does. All rows of one table are written by one statement,
 * as JSON, in pieces far below the 2 MB that a bound value may have. Binding a row's values one by one
 * costs more than that, and jsonb_each, which costs less, is not promised in a Durable Object.
 */
import type { RegistryNode } from "../../core/registry/tree.ts";
import { lastElement, parentOf, type RegistryPath, ROOT } from "../../shared/registry-path.ts";

/** Characters of JSON in one statement; escapes and UTF-8 make at most some 1.5 MB of them. */
const STATEMENT_LENGTH_MAX = 262_144;

const INSERT_NODES = `INSERT INTO registry_node
    (parent, name, created_ms, record, yarn_id, persistence, version, owner, acl)
  SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
    value ->> 6, value ->> 7, value ->> 8
  FROM json_each(?) WHERE true
  ON CONFLICT (parent, name) DO UPDATE SET created_ms = excluded.created_ms,
    record = excluded.record, yarn_id = excluded.yarn_id, persistence = excluded.persistence,
    version = excluded.version, owner = excluded.owner, acl = excluded.acl`;

const INSERT_TERMS = `INSERT OR IGNORE INTO registry_term (term, parent, name)
  SELECT term.value, node.value ->> 0, node.value ->> 1
  FROM json_each(?) AS node, json_each(node.value, '$[2]') AS term`;

export function insertNodes(sql: SqlStorage, nodes: Iterable<RegistryNode>): void {
  insert(sql, INSERT_NODES, nodes, (node) => [
    parentKey(node.path),
    lastElement(node.path),
    node.createdMs,
    node.record,
    node.boundTo?.yarnId ?? null,
    node.boundTo?.persistence ?? null,
    node.version,
    node.owner,
    node.acl.length === 0 ? null : JSON.stringify(node.acl),
  ]);
}

/** A node's rows in the index. */
export type NodeTerms = readonly [path: RegistryPath, terms: Iterable<string>];

/** Rows that are there already stay as they are. */
export function insertTerms(sql: SqlStorage, nodes: Iterable<NodeTerms>): void {
  insert(sql, INSERT_TERMS, nodes, ([path, terms]) => [
    parentKey(path),
    lastElement(path),
    [...terms],
  ]);
}

function insert<Row>(
  sql: SqlStorage,
  statement: string,
  rows: Iterable<Row>,
  columnsOf: (row: Row) => readonly (string | number | readonly string[] | null)[],
): void {
  let texts: string[] = [];
  let length = 0;
  const write = () => {
    if (texts.length > 0) sql.exec(statement, `[${texts.join()}]`);
    texts = [];
    length = 0;
  };
  for (const row of rows) {
    const text = JSON.stringify(columnsOf(row));
    texts.push(text);
    length += text.length;
    if (length >= STATEMENT_LENGTH_MAX) write();
  }
  write();
}

/** The root has no parent; its key is one that no path has. */
export function parentKey(path: RegistryPath): string {
  return parentOf(path) ?? "";
}

/** The path of the row with this key. */
export function pathOf(parent: string, name: string): RegistryPath {
  return parent === ROOT || parent === "" ? `/${name}` : `${parent}/${name}`;
}
