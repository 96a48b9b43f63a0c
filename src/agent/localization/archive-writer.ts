/**
 * Writes an archive's entries into a fresh directory of the agent's own. `ArchiveTree` has decided
 * what may be written; here it is written without following anything: files are created exclusively,
 * links come last. Modes are ours, never the archive's, so no setuid bit survives.
 */
import { link, symlink } from "node:fs/promises";
import { join } from "node:path";
import { messageOf } from "../log.ts";
import { ArchiveTree, type EntryKind, refusal } from "./archive-tree.ts";
import { type ByteBudget, createExclusively, giveRights, writeWhole } from "./download-file.ts";
import { type Modes, makeDirectory } from "./local-directories.ts";
import { LocalizationFailure } from "./localization-failure.ts";

export type ArchiveEntry = {
  /** As the archive has it. */
  readonly name: string;
  readonly kind: EntryKind;
  /** Of links. */
  readonly target?: string;
  /** Of files. */
  readonly content: AsyncIterable<Uint8Array>;
};

export type ArchiveWriterOptions = {
  /** An empty directory of the agent's own. */
  readonly root: string;
  readonly modes: Modes;
  readonly budget: ByteBudget;
  readonly signal: AbortSignal;
};

export class ArchiveWriter {
  readonly #options: ArchiveWriterOptions;
  readonly #tree = new ArchiveTree();
  readonly #directories = new Set<string>();
  #bytes = 0;

  constructor(options: ArchiveWriterOptions) {
    this.#options = options;
  }

  /** Bytes of all files written. */
  get bytes(): number {
    return this.#bytes;
  }

  async write({ name, kind, target, content }: ArchiveEntry): Promise<void> {
    this.#options.signal.throwIfAborted();
    const path = this.#tree.admit(name, kind, target);
    if (path === undefined) return;
    const elements = path.split("/");
    await this.#makeDirectories(kind === "directory" ? elements : elements.slice(0, -1));
    if (kind === "file") {
      await this.#writeFile(path, content);
    } else if (kind === "hardlink") {
      const existing = this.#tree.fileBehind(name, target ?? "");
      await link(this.#absolute(existing), this.#absolute(path));
    }
  }

  /** Makes the links. Throws if one leads outside; until then there is none. */
  async finish(): Promise<void> {
    for (const { path, target } of this.#tree.links()) {
      await symlink(target, this.#absolute(path));
    }
  }

  async #makeDirectories(elements: readonly string[]): Promise<void> {
    for (let depth = 1; depth <= elements.length; depth++) {
      const path = elements.slice(0, depth).join("/");
      if (this.#directories.has(path)) continue;
      await this.#exclusively(path, () =>
        makeDirectory(this.#absolute(path), this.#options.modes, "refuse"),
      );
      this.#directories.add(path);
    }
  }

  async #writeFile(path: string, content: AsyncIterable<Uint8Array>): Promise<void> {
    const file = await this.#exclusively(path, () => createExclusively(this.#absolute(path)));
    const { budget, modes, signal } = this.#options;
    try {
      let position = 0;
      for await (const chunk of content) {
        signal.throwIfAborted();
        this.#bytes += chunk.length;
        if (this.#bytes > budget.bytes) {
          throw new LocalizationFailure("RESOURCE_EXHAUSTED", budget.reason);
        }
        await writeWhole(file, chunk, position);
        position += chunk.length;
      }
      await giveRights(file, modes);
    } finally {
      await file.close();
    }
  }

  #absolute(path: string): string {
    return join(this.#options.root, path);
  }

  /** The file system has the last word: on one that ignores case, two names may be one. */
  async #exclusively<Made>(path: string, make: () => Promise<Made>): Promise<Made> {
    try {
      return await make();
    } catch (error) {
      throw refusal(path, `cannot be made: ${messageOf(error)}`);
    }
  }
}
