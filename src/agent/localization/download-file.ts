/** The file that a transfer is written to, measured and digested on the way. */
import { createHash, type Hash } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { messageOf } from "../log.ts";
import type { Modes } from "./local-directories.ts";
import { LocalizationFailure } from "./localization-failure.ts";
import type { Sink } from "./resource-source.ts";

/** What may still be written, and the sentence to say when it is not enough. */
export type ByteBudget = { readonly bytes: number; readonly reason: string };

/** A new file for writing; fails when there is one, and never goes through a link. */
export function createExclusively(path: string): Promise<FileHandle> {
  const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants;
  return open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
}

export type BytesListener = (done: number, total: number | undefined) => void;

export class DownloadFile implements Sink {
  readonly #file: FileHandle;
  readonly #budget: ByteBudget;
  readonly #changed: BytesListener;
  #hash: Hash = createHash("sha256");
  #bytes = 0;
  #total: number | undefined;

  private constructor(file: FileHandle, budget: ByteBudget, changed: BytesListener) {
    this.#file = file;
    this.#budget = budget;
    this.#changed = changed;
  }

  static async create(
    path: string,
    budget: ByteBudget,
    changed: BytesListener,
  ): Promise<DownloadFile> {
    return new DownloadFile(await createExclusively(path), budget, changed);
  }

  get bytes(): number {
    return this.#bytes;
  }

  expectBytes(total: number): void {
    this.#total = total;
    this.#check(total);
    this.#changed(this.#bytes, total);
  }

  async write(chunk: Uint8Array): Promise<void> {
    this.#check(this.#bytes + chunk.length);
    await writeWhole(this.#file, chunk, this.#bytes);
    this.#hash.update(chunk);
    this.#bytes += chunk.length;
    this.#changed(this.#bytes, this.#total);
  }

  async restart(): Promise<void> {
    if (this.#bytes === 0) return;
    await this.#file.truncate(0);
    this.#hash = createHash("sha256");
    this.#bytes = 0;
    this.#total = undefined;
    this.#changed(0, undefined);
  }

  /** Gives the file its rights, and puts it on the disk if it is to be durable. Called once, at the end. */
  async finish(modes: Modes, isDurable: boolean): Promise<{ readonly sha256: string }> {
    await giveRights(this.#file, modes);
    if (isDurable) await this.#file.sync();
    return { sha256: this.#hash.digest("hex") };
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  #check(bytes: number): void {
    const { bytes: bytesMax, reason } = this.#budget;
    if (bytes > bytesMax) throw new LocalizationFailure("RESOURCE_EXHAUSTED", reason);
  }
}

/** The mode, and the group that reads it, whatever the umask. */
export async function giveRights(file: FileHandle, { file: mode, group }: Modes): Promise<void> {
  if (group !== undefined) await file.chown(process.getuid?.() ?? 0, group);
  await file.chmod(mode);
}

/** Writes all of the chunk. A full or broken disk is no failure of the network: it is final. */
export async function writeWhole(
  file: FileHandle,
  chunk: Uint8Array,
  position: number,
): Promise<void> {
  try {
    for (let at = 0; at < chunk.length; ) {
      const { bytesWritten } = await file.write(chunk, at, chunk.length - at, position + at);
      at += bytesWritten;
    }
  } catch (error) {
    throw new LocalizationFailure("RESOURCE_EXHAUSTED", `cannot be written: ${messageOf(error)}`);
  }
}
