/**
 * The registry tree as a name server reads it. Three indexes lie over the rows that the tree writes
 * anyway, so that nothing here is ever out of step with them: a record costs one index entry more,
 * a container's record four. Every query reads at most `limit` rows.
 */
import type { NameIndex } from "../../core/registry/dns.ts";
import type { StoredRecord } from "../../core/registry/dns-group.ts";
import { lastElement, parentOf, type RegistryPath } from "../../shared/registry-path.ts";
import { pathOf } from "./registry-batch.ts";

/** Expressions must stand in queries exactly as they stand in the index. */
const INSTANCE = "lower(json_extract(record, '$.description'))";
const COMPONENT = `lower(json_extract(record, '$."yarn:component"'))`;
const ADDRESS = `json_extract(record, '$."yarn:ip"')`;

export const NAME_INDEX_MIGRATION = `
  CREATE INDEX registry_node_by_name ON registry_node (name, parent) WHERE record IS NOT NULL;
  CREATE INDEX registry_node_by_instance ON registry_node (parent, ${INSTANCE})
    WHERE persistence = 'container';
  CREATE INDEX registry_node_by_component ON registry_node (parent, ${COMPONENT})
    WHERE persistence = 'container';
  CREATE INDEX registry_node_by_address ON registry_node (${ADDRESS})
    WHERE persistence = 'container';`;

type RecordRow = { parent: string; name: string; record: string };

export class SqliteNameIndex implements NameIndex {
  readonly #sql: SqlStorage;

  /** `storage` has been through `migrateRegistryStore`. */
  constructor(storage: DurableObjectStorage) {
    this.#sql = storage.sql;
  }

  has(path: RegistryPath): boolean {
    const rows = this.#sql.exec(
      "SELECT 1 FROM registry_node WHERE parent = ? AND name = ?",
      parentOf(path) ?? "",
      lastElement(path),
    );
    return !rows.next().done;
  }

  servicesNamed(name: string, below: RegistryPath, limit: number): readonly StoredRecord[] {
    // "0" follows "/"; what stands between the path and its children belongs to its siblings.
    return this.#read(
      `SELECT parent, name, record FROM registry_node INDEXED BY registry_node_by_name
       WHERE name = ? AND record IS NOT NULL AND parent >= ? AND parent < ?
         AND (parent = ? OR parent >= ?) AND (persistence IS NULL OR persistence <> 'container')
       ORDER BY parent LIMIT ?`,
      name,
      below,
      `${below}0`,
      below,
      `${below}/`,
      limit,
    );
  }

  containerAt(path: RegistryPath): StoredRecord | null {
    const [found] = this.#read(
      `SELECT parent, name, record FROM registry_node
       WHERE parent = ? AND name = ? AND persistence = 'container'`,
      parentOf(path) ?? "",
      lastElement(path),
    );
    return found ?? null;
  }

  containersNamed(name: string, limit: number): readonly StoredRecord[] {
    return this.#read(
      `SELECT parent, name, record FROM registry_node INDEXED BY registry_node_by_name
       WHERE name = ? AND record IS NOT NULL AND persistence = 'container'
       ORDER BY parent LIMIT ?`,
      name,
      limit,
    );
  }

  containersBelow(
    parent: RegistryPath,
    which: Parameters<NameIndex["containersBelow"]>[1],
    limit: number,
  ): readonly StoredRecord[] {
    const select = (index: string) =>
      `SELECT parent, name, record FROM registry_node INDEXED BY ${index}
       WHERE parent = ? AND persistence = 'container'`;
    const component = select("registry_node_by_component");
    if (which === "all") {
      return this.#read(`${component} ORDER BY ${COMPONENT}, name LIMIT ?`, parent, limit);
    }
    if ("component" in which) {
      const statement = `${component} AND ${COMPONENT} = ? ORDER BY name LIMIT ?`;
      return this.#read(statement, parent, which.component, limit);
    }
    const instance = select("registry_node_by_instance");
    const statement = `${instance} AND ${INSTANCE} = ? ORDER BY name LIMIT ?`;
    return this.#read(statement, parent, which.instance, limit);
  }

  containersAt(ip: string, limit: number): readonly StoredRecord[] {
    return this.#read(
      `SELECT parent, name, record FROM registry_node INDEXED BY registry_node_by_address
       WHERE ${ADDRESS} = ? AND persistence = 'container' ORDER BY parent, name LIMIT ?`,
      ip,
      limit,
    );
  }

  #read(statement: string, ...bindings: (string | number)[]): readonly StoredRecord[] {
    const rows = this.#sql.exec<RecordRow>(statement, ...bindings);
    return Array.from(rows, ({ parent, name, record }) => ({
      path: pathOf(parent, name),
      record,
    }));
  }
}
