/** The records that an agent keeps in a directory, as they lie on the disk. */
import { appendFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { journalLine, parseJournal } from "../../src/shared/journal.ts";

export type StoredRecord = Readonly<Record<string, unknown>>;

/** By name; empty where there is no journal. */
export function storedRecords(directory: string): ReadonlyMap<string, StoredRecord> {
  try {
    const { records } = parseJournal(readFileSync(join(directory, "journal"), "utf8"));
    return records as ReadonlyMap<string, StoredRecord>;
  } catch {
    return new Map();
  }
}

/** Throws when there is none of that name. */
export function storedRecord(directory: string, name: string): StoredRecord {
  const record = storedRecords(directory).get(name);
  if (record === undefined) throw new Error(`${directory} has no record ${name}`);
  return record;
}

/** Puts another record in its place, while no agent is there. */
export function storeRecord(directory: string, name: string, content: unknown): void {
  appendFileSync(join(directory, "journal"), journalLine(name, content));
}
