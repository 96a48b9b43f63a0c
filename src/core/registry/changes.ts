/**
 * What watchers of the registry hear about: one change per path that a transaction touched, numbered
 * by the transaction's sequence. The store keeps them for a while (durable/store/registry-journal);
 * here is what counts as a change, and whom it concerns.
 */
import type { RegistryChangeType, RegistryNews } from "../../shared/protocol/registry-reader.ts";
import type { RegistryPath } from "../../shared/registry-path.ts";
import type { StoredNode } from "../../shared/registry-view.ts";
import { isAtOrBelow } from "./find.ts";

/** As it is kept: without the record, which is in the tree. */
export type StoredChange = {
  readonly type: RegistryChangeType;
  readonly path: RegistryPath;
  /** Of the record that was bound; 0 for every other change. */
  readonly version: number;
};

type Node = Omit<StoredNode, "createdMs">;

/** The change from `before` to `after`; null when readers would see no difference. */
export function changeOf(before: Node | undefined, after: Node): StoredChange | null {
  if (before !== undefined && before.record === after.record) return null;
  return {
    type: after.record === null ? "created" : "bound",
    path: after.path,
    version: after.version,
  };
}

/** What has happened up to `sequence`, from the batches of changes; null when that is too much. */
export function newsOf(
  sequence: number,
  batches: readonly { readonly changes: readonly StoredChange[] }[] | null,
): RegistryNews {
  if (batches === null) return { sequence, changes: null };
  const changes = batches.flatMap((batch) => batch.changes);
  return { sequence, changes: changes.map(({ type, path }) => ({ type, path })) };
}

/** A path that goes takes everything below it along, and so also what is watched there. */
export function concerns(change: StoredChange, watched: RegistryPath): boolean {
  return (
    isAtOrBelow(change.path, watched) ||
    (change.type === "deleted" && isAtOrBelow(watched, change.path))
  );
}
