/**
 * Small JSON files that survive whatever happens to the agent or the machine. A write resolves once
 * the file and its name are on the disk (fsync of both); until then the earlier content stands whole.
 * What was half-written when the agent died is removed when everything is read.
 */
import { open, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Log } from "./log.ts";

const EXTENSION = ".json";
const UNFINISHED = ".json.tmp";

export class DurableFiles<Content> {
  readonly #directory: string;
  readonly #parse: (json: unknown) => Content;
  readonly #log: Log;
  /** The last write of each file, so that two never overtake each other. */
  readonly #tails = new Map<string, Promise<void>>();
  #sync: Promise<void> = Promise.resolve();
  #nextSync: Promise<void> | undefined;

  /** `parse` throws when the JSON is not what is kept here. */
  constructor(directory: string, parse: (json: unknown) => Content, log: Log) {
    this.#directory = directory;
    this.#parse = parse;
    this.#log = log;
  }

  /** Resolves when it is on the disk; rejects when it cannot be written. */
  write(name: string, content: Content): Promise<void> {
    const path = join(this.#directory, `${name}${EXTENSION}`);
    return this.#enqueue(name, async () => {
      try {
        await writeSynced(`${path}.tmp`, JSON.stringify(content));
        await rename(`${path}.tmp`, path);
      } catch (error) {
        // On a full disk, even half a file is in the way of others.
        await rm(`${path}.tmp`, { force: true }).catch(() => undefined);
        throw error;
      }
      await this.#syncNames();
    });
  }

  remove(name: string): Promise<void> {
    return this.#enqueue(name, () =>
      rm(join(this.#directory, `${name}${EXTENSION}`), { force: true }),
    );
  }

  /** A file that cannot be understood is logged, set aside as `.corrupt`, and left out. */
  async readAll(): Promise<Content[]> {
    const contents: Content[] = [];
    for (const name of await readdir(this.#directory)) {
      const path = join(this.#directory, name);
      if (name.endsWith(UNFINISHED)) await rm(path, { force: true });
      if (!name.endsWith(EXTENSION)) continue;
      const text = await readFile(path, "utf8");
      try {
        contents.push(this.#parse(JSON.parse(text)));
      } catch (error) {
        if (error instanceof NewerFormatError) throw error;
        this.#log({ event: "state.read", outcome: "cannot be understood", path });
        await rename(path, `${path}.corrupt`);
      }
    }
    return contents;
  }

  /** Resolves when nothing is being written any more. */
  async drain(): Promise<void> {
    await Promise.allSettled(this.#tails.values());
  }

  /** What was renamed until now is on the disk. One sync serves all who wait for the one before. */
  #syncNames(): Promise<void> {
    this.#nextSync ??= this.#sync
      .catch(() => undefined)
      .then(() => {
        this.#nextSync = undefined;
        this.#sync = syncDirectory(this.#directory);
        return this.#sync;
      });
    return this.#nextSync;
  }

  #enqueue(name: string, work: () => Promise<void>): Promise<void> {
    const before = this.#tails.get(name) ?? Promise.resolve();
    const tail = before.catch(() => undefined).then(work);
    this.#tails.set(name, tail);
    const release = () => {
      if (this.#tails.get(name) === tail) this.#tails.delete(name);
    };
    tail.then(release, release);
    return tail;
  }
}

/** Written by a later agent, in a form that this one does not know. */
export class NewerFormatError extends Error {}

async function writeSynced(path: string, text: string): Promise<void> {
  const file = await open(path, "w", 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
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
