/**
 * The registry's tree read in pages (core/registry/find.ts, pages.ts): every statement is a range of
 * a primary key in its own order, with a limit.
 */
import type { RegistryIndex } from "../../core/registry/find.ts";
import { lastElement, parentOf, type RegistryPath, ROOT } from "../../shared/registry-path.ts";
import type { StoredNode } from "../../shared/registry-view.ts";
import { pathOf } from "./registry-batch.ts";

type NodeRow = {
  parent: string;
  name: string;
  created_ms: number;
  record: string | null;
  version: number;
};

const NODE = "n.parent, n.name, n.created_ms, n.record, n.version";

export class SqliteRegistryIndex implements RegistryIndex {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  childrenAfter(path: RegistryPath, after: string, limit: number): readonly StoredNode[] {
    return this.#read(
      `SELECT ${NODE} FROM registry_node n
       WHERE n.parent = ? AND n.name > ? ORDER BY n.name LIMIT ?`,
      [path, after, limit],
    );
  }

  /** One statement for all of them: a statement costs more than a node's children. */
  childrenOfEach(paths: readonly RegistryPath[], limit: number): readonly (readonly string[])[] {
    const rows = this.#sql.exec<{ names: string }>(
      `SELECT (SELECT json_group_array(name) FROM (
         SELECT name FROM registry_node WHERE parent = path.value ORDER BY name LIMIT ?
       )) AS names
       FROM json_each(?) AS path ORDER BY path.key`,
      limit,
      JSON.stringify(paths),
    );
    return Array.from(rows, ({ names }) => (names === "[]" ? [] : (JSON.parse(names) as string[])));
  }

  nodesBelow(path: RegistryPath, after: RegistryPath | null, limit: number) {
    const select = `SELECT ${NODE} FROM registry_node n`;
    const order = "ORDER BY n.parent, n.name LIMIT ?";
    return this.#below(
      { select, order, keys: "n.parent, n.name", bindings: [] },
      path,
      after,
      limit,
    );
  }

  nodesWithTerm(term: string, path: RegistryPath, after: RegistryPath | null, limit: number) {
    // CROSS JOIN keeps this order: the term's rows first, each with its one node.
    const select = `SELECT ${NODE} FROM registry_term t CROSS JOIN registry_node n
       ON n.parent = t.parent AND n.name = t.name`;
    const order = "ORDER BY t.parent, t.name LIMIT ?";
    const query = { select, order, keys: "t.parent, t.name", bindings: [term] };
    return this.#below(query, path, after, limit);
  }

  /** Children of the path first, then what is below them: two ranges, so that neither is sorted. */
  #below(
    query: { select: string; order: string; keys: string; bindings: readonly string[] },
    path: RegistryPath,
    after: RegistryPath | null,
    limit: number,
  ): readonly StoredNode[] {
    const { select, order, keys, bindings } = query;
    const [parentKey = "", nameKey = ""] = keys.split(", ");
    const where = bindings.length === 0 ? "WHERE" : "WHERE t.term = ? AND";
    const isInside = after !== null && after !== path;
    const afterParent = isInside ? (parentOf(after) ?? "") : path;
    const afterName = isInside ? lastElement(after) : "";
    const found: StoredNode[] = [];
    if (afterParent === path) {
      const sql = `${select} ${where} ${parentKey} = ? AND ${nameKey} > ? ${order}`;
      found.push(...this.#read(sql, [...bindings, path, afterName, limit]));
    }
    if (found.length >= limit) return found;
    // "0" follows "/": the range holds every parent that starts with `path/`, and no other.
    const prefix = path === ROOT ? "" : path;
    const [low, name] = afterParent === path ? [`${prefix}/`, ""] : [afterParent, afterName];
    // Below the root, the children are in the range as well; they came first, and come once.
    const floor = path === ROOT && low === "/" ? "/!" : low;
    const sql = `${select} ${where} (${keys}) > (?, ?) AND ${parentKey} < ? ${order}`;
    const rest = [...bindings, floor, name, `${prefix}0`, limit - found.length];
    return [...found, ...this.#read(sql, rest)];
  }

  #read(sql: string, bindings: readonly (string | number)[]): readonly StoredNode[] {
    return Array.from(this.#sql.exec<NodeRow>(sql, ...bindings), (row) => ({
      path: pathOf(row.parent, row.name),
      createdMs: row.created_ms,
      record: row.record,
      version: row.version,
    }));
  }
}
