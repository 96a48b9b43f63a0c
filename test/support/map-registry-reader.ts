/** What readers ask of the registry without a runtime: pages, searches, and watches over a Map. */
import { concerns, newsOf, type StoredChange } from "../../src/core/registry/changes.ts";
import { find } from "../../src/core/registry/find.ts";
import { copyPage, readChildren, readSubtree } from "../../src/core/registry/pages.ts";
import { view } from "../../src/core/registry/registry.ts";
import { ok } from "../../src/shared/errors.ts";
import type {
  RegistryChange,
  RegistryEdge,
  RegistryReader,
  RegistryWatch,
  RegistryWatchListener,
} from "../../src/shared/protocol/registry-reader.ts";
import { readStoredRecord } from "../../src/shared/registry.ts";
import { parsePath } from "../../src/shared/registry-path.ts";
import type { MapRegistryTree } from "./map-registry.ts";

export function mapReader(tree: MapRegistryTree): RegistryReader & RegistryWatch & RegistryEdge {
  const batches: (readonly StoredChange[])[] = [];
  const watchers = new Set<{ path: string; listener: RegistryWatchListener }>();
  const changeOf = ({ type, path, version }: StoredChange): RegistryChange => {
    const record = type === "bound" ? tree.get(path)?.record : null;
    const change = { type, path, version };
    return record ? { ...change, record: readStoredRecord(record) } : change;
  };
  const say = (listener: RegistryWatchListener, path: string, sequence: number) => {
    const changes = batches[sequence - 1]?.filter((change) => concerns(change, path)) ?? [];
    if (changes.length > 0) listener.message({ sequence, changes: changes.map(changeOf) });
  };
  tree.onChanges = (changes) => {
    batches.push(changes);
    for (const { path, listener } of watchers) say(listener, path, batches.length);
  };
  return {
    readNode: async (path) => view(tree, path),
    readChildren: async (path, page) => readChildren(tree, path, page),
    readSubtree: async (path, depth, page) => readSubtree(tree, path, depth, page),
    find: async (path, query, page) => find(tree, path, query, page),
    newsSince: async (sequence) => {
      const since = sequence === null ? null : batches.slice(sequence);
      const changes = since?.map((batch) => ({ changes: batch })) ?? null;
      return newsOf(batches.length, changes);
    },
    copy: async (after) => copyPage(tree, after),
    async watch(path, after, _reader, listener) {
      const parsed = parsePath(path);
      if (!parsed.ok) return parsed;
      const watcher = { path: parsed.value, listener };
      watchers.add(watcher);
      if (after !== null && after > batches.length) {
        listener.message({ sequence: batches.length, reset: true });
      } else {
        for (let sequence = (after ?? batches.length) + 1; sequence <= batches.length; sequence++) {
          say(listener, parsed.value, sequence);
        }
        listener.message({ sequence: batches.length, changes: [] });
      }
      return ok({ close: () => void watchers.delete(watcher) });
    },
  };
}
