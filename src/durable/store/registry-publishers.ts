/** The last publication of each publisher, in the SQLite of the registry: one row each. */
import type { PublisherLog } from "../../core/registry/publishers.ts";
import type { PublicationNumber } from "../../shared/protocol/registry-operations.ts";

export const PUBLISHER_MIGRATION = `CREATE TABLE registry_publisher (
     publisher TEXT    PRIMARY KEY, -- Durable Object name of a ServiceMaster
     life      INTEGER NOT NULL,
     count     INTEGER NOT NULL,
     heard_ms  INTEGER NOT NULL
   ) WITHOUT ROWID;`;

export class SqlitePublisherLog implements PublisherLog {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  last(publisher: string): PublicationNumber | undefined {
    const [row] = this.#sql.exec<PublicationNumber>(
      "SELECT life, count FROM registry_publisher WHERE publisher = ?",
      publisher,
    );
    return row;
  }

  note(publisher: string, { life, count }: PublicationNumber, nowMs: number): void {
    this.#sql.exec(
      `INSERT INTO registry_publisher (publisher, life, count, heard_ms) VALUES (?, ?, ?, ?)
       ON CONFLICT (publisher) DO UPDATE SET life = excluded.life, count = excluded.count,
         heard_ms = excluded.heard_ms`,
      publisher,
      life,
      count,
      nowMs,
    );
  }

  /** Looks at all rows, which are those of one hour, when a publisher is heard for the first time. */
  forgetBefore(timeMs: number): void {
    this.#sql.exec("DELETE FROM registry_publisher WHERE heard_ms < ?", timeMs);
  }
}
