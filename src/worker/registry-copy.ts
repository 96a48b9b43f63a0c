/**
 * While many paths are asked for that the memory has not, the isolate copies the registry, part by
 * part, as far as the memory goes. A tree that a crowd goes through costs the cluster's one object a
 * call for some hundred nodes instead of one for each, and in the end none but those for news.
 */
import type { RegistryCopyPage, RegistryEdge } from "../shared/protocol/registry-reader.ts";
import type { RegistryPath } from "../shared/registry-path.ts";
import { viewOf } from "../shared/registry-view.ts";
import { contentTag } from "./content-tag.ts";
import { nodeDocument } from "./registry-answer.ts";
import type { Answer, RegistryMemory } from "./registry-memory.ts";

/** So many paths within a second are a crowd. */
const CROWD = 32;
const CROWD_MS = 1_000;
/** About what a view has beside the record. */
const VIEW_BYTES = 256;
/** A request that was cut off never says that its part has not come. */
const PART_MS_MAX = 1_000;

export class RegistryCopy {
  readonly #registry: () => RegistryEdge | null;
  readonly #memory: RegistryMemory;
  readonly #now: () => number;
  #crowd = { sinceMs: 0, paths: 0 };
  /** After which path to go on; undefined while nothing is being copied. */
  #cursor: RegistryPath | null | undefined;
  #partSinceMs: number | null = null;

  constructor(registry: () => RegistryEdge | null, memory: RegistryMemory, now: () => number) {
    this.#registry = registry;
    this.#memory = memory;
    this.#now = now;
  }

  /** To be asked for each path that had to be read. */
  isDue(): boolean {
    const nowMs = this.#now();
    if (nowMs - this.#crowd.sinceMs >= CROWD_MS) this.#crowd = { sinceMs: nowMs, paths: 0 };
    this.#crowd.paths += 1;
    const isReading = this.#partSinceMs !== null && nowMs - this.#partSinceMs < PART_MS_MAX;
    return this.#crowd.paths > CROWD && !isReading && !this.#memory.isFull;
  }

  /**
   * Copies the next part, at first what follows `path`. Its JSON is kept like `answer`, which is that
   * of the path, by the keys that `keyOf` gives. The copy ends where everything is there already.
   */
  async continue(
    path: RegistryPath,
    answer: Answer,
    keyOf: (path: RegistryPath) => string | null,
  ): Promise<void> {
    this.#partSinceMs = this.#now();
    await this.#memory.follow();
    const reading = this.#memory.begin();
    const page = await this.#part(this.#cursor === undefined ? path : this.#cursor);
    this.#partSinceMs = null;
    let isNews = false;
    for (const node of page?.nodes ?? []) {
      const key = keyOf(node.path);
      if (key === null || this.#memory.has(key)) continue;
      isNews = true;
      const bytes = (node.record?.length ?? 0) + VIEW_BYTES;
      const make = () => {
        const body = JSON.stringify(nodeDocument(viewOf(node, node.children)));
        return { ...answer, tag: contentTag(body), body };
      };
      this.#memory.keep(key, reading, node.path, { bytes, maxAgeMs: answer.maxAgeMs, make });
    }
    this.#cursor = page !== null && isNews ? page.next : undefined;
  }

  /** Null when the registry is too busy, which is no time to copy it. */
  async #part(after: RegistryPath | null): Promise<RegistryCopyPage | null> {
    try {
      return (await this.#registry()?.copy(after)) ?? null;
    } catch (error) {
      console.warn(JSON.stringify({ event: "registry.copy", outcome: String(error) }));
      return null;
    }
  }
}
