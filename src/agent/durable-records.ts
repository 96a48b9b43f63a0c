/**
 * Small records that survive whatever happens to the agent or the machine: a journal to which each
 * change is appended (shared/journal.ts), one for each directory. A change resolves once it is on the
 * disk (fsync); those that come while the disk is busy go there together, with one sync for all.
 *
 *   {directory}/journal
 *
 * A journal is appended to only as long as everything before was written well. When it was not, when
 * the agent has just started, or when most of it is out of date, the records are written anew, beside
 * the old journal, which stands whole until the new one is on the disk.
 */
import { appendFile, copyFile, open, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { journalLine, parseJournal } from "../shared/journal.ts";
import { readFormerFiles, removeFormerFiles } from "./former-files.ts";
import { codeOf, type Log } from "./log.ts";

const NAME = "journal";
/** A journal below this size is never out of date; above it, at four times what is in it. */
const BYTES_MIN = 1_048_576;
const GROWTH = 4;

/** By name; undefined: it is gone. */
type Changes<Content> = Map<string, Content | undefined>;

export class DurableRecords<Content> {
  readonly #directory: string;
  readonly #path: string;
  readonly #parse: (json: unknown) => Content;
  readonly #log: Log;
  /** What is on the disk. Records are never changed, only replaced. */
  #records: Promise<Map<string, Content>> | undefined;
  /** Of the journal; what would take it above its maximum has it written anew. */
  #bytes = 0;
  #bytesMax = 0;
  /** What waits for the disk, and who waits for it. */
  #next: { readonly changes: Changes<Content>; readonly written: Promise<void> } | undefined;
  #last: Promise<void> = Promise.resolve();

  /** `parse` throws when the JSON is not what is kept here. */
  constructor(directory: string, parse: (json: unknown) => Content, log: Log) {
    this.#directory = directory;
    this.#path = join(directory, NAME);
    this.#parse = parse;
    this.#log = log;
  }

  /** Resolves when it is on the disk; rejects when it cannot be written. */
  write(name: string, content: Content): Promise<void> {
    return this.#change(name, content);
  }

  /** Resolves when that it is gone is on the disk. */
  remove(name: string): Promise<void> {
    return this.#change(name, undefined);
  }

  /** A record that cannot be understood is logged and left out; the journal is kept as `.corrupt`. */
  async readAll(): Promise<Content[]> {
    this.#records ??= this.#read();
    return [...(await this.#records).values()];
  }

  /** Resolves when nothing is being written any more. */
  async drain(): Promise<void> {
    await this.#last.catch(() => undefined);
  }

  #change(name: string, content: Content | undefined): Promise<void> {
    this.#next ??= this.#begin();
    this.#next.changes.set(name, content);
    return this.#next.written;
  }

  #begin() {
    const changes: Changes<Content> = new Map();
    const written = this.#last
      .catch(() => undefined)
      .then(() => nextTurn())
      .then(() => {
        this.#next = undefined;
        return this.#commit(changes);
      });
    this.#last = written;
    return { changes, written };
  }

  async #commit(changes: Changes<Content>): Promise<void> {
    this.#records ??= this.#read();
    const records = await this.#records;
    for (const [name, content] of changes) {
      if (content === undefined && !records.has(name)) changes.delete(name);
    }
    if (changes.size === 0) return;
    const lines = linesOf(changes);
    if (this.#bytes + lines.length <= this.#bytesMax) await this.#append(lines);
    else await this.#writeAnew(linesOf(new Map([...records, ...changes])));
    for (const [name, content] of changes) {
      if (content === undefined) records.delete(name);
      else records.set(name, content);
    }
  }

  async #append(lines: Buffer): Promise<void> {
    try {
      await appendFile(this.#path, lines, { flush: true });
      this.#bytes += lines.length;
    } catch (error) {
      // Nobody knows what of it is there.
      this.#bytesMax = 0;
      throw error;
    }
  }

  async #writeAnew(lines: Buffer): Promise<void> {
    const path = this.#path;
    this.#bytesMax = 0;
    try {
      await writeFile(`${path}.tmp`, lines, { flush: true, mode: 0o600 });
      await rename(`${path}.tmp`, path);
      await syncDirectory(this.#directory);
      await removeFormerFiles(this.#directory);
    } catch (error) {
      // On a full disk, even half a file is in the way of others.
      await rm(`${path}.tmp`, { force: true }).catch(() => undefined);
      throw error;
    }
    this.#bytes = lines.length;
    this.#bytesMax = Math.max(BYTES_MIN, lines.length * GROWTH);
  }

  async #read(): Promise<Map<string, Content>> {
    const path = this.#path;
    await rm(`${path}.tmp`, { force: true });
    const { records, broken } = parseJournal(await textOf(path));
    const contents = new Map<string, Content>();
    let lost = broken.length;
    for (const [name, json] of [...(await readFormerFiles(this.#directory)), ...records]) {
      try {
        contents.set(name, this.#parse(json));
      } catch (error) {
        if (error instanceof NewerFormatError) throw error;
        lost += 1;
      }
    }
    if (lost > 0) {
      this.#log({ event: "state.read", outcome: `${lost} records cannot be understood`, path });
      // There is none where they are all of a former agent.
      await copyFile(path, `${path}.corrupt`).catch(() => undefined);
    }
    return contents;
  }
}

/** Written by a later agent, in a form that this one does not know. */
export class NewerFormatError extends Error {}

function linesOf<Content>(changes: ReadonlyMap<string, Content | undefined>): Buffer {
  let text = "";
  for (const [name, content] of changes) text += journalLine(name, content);
  return Buffer.from(text);
}

async function textOf(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return "";
    throw error;
  }
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
