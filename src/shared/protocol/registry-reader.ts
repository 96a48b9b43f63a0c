/**
 * What readers of the registry ask beyond one path: pages of children, subtrees, searches, and
 * changes as they happen (seed 000 "Lookup Use Cases" 8, "REST API for reading registry data").
 * Every answer is bounded; what does not fit is behind `next`.
 */
import type { Reply } from "../errors.ts";
import type { RegistryPathStatus, ServiceRecord } from "../registry.ts";
import type { StoredNode } from "../registry-view.ts";
import type { RegistryNodeView } from "./registry-operations.ts";

/**
 * Who asks, such as a client's address: rude ones are slowed down (seed 000 "Rate of Polling").
 * Null: unknown, or a part of the cluster, which nobody slows down.
 */
export type RegistryReaderId = string | null;

/** `after`: the `next` of the page before; null for the first page. */
export type RegistryPage = { readonly limit: number; readonly after: string | null };

export type RegistryChildStatus = RegistryPathStatus & { readonly hasRecord: boolean };

export type RegistryChildrenPage = {
  readonly path: string;
  readonly children: readonly RegistryChildStatus[];
  /** Short name of the last child here, when others follow. */
  readonly next?: string;
};

export type RegistrySubtreeNode = {
  readonly path: string;
  readonly stat: RegistryPathStatus;
  readonly record: ServiceRecord | null;
};

export type RegistrySubtreePage = {
  readonly path: string;
  /** The path itself, then depth first, children in order. */
  readonly nodes: readonly RegistrySubtreeNode[];
  /** Path of the last node here, when others follow. */
  readonly next?: string;
};

/** All conditions must hold; those of an endpoint must hold for one and the same endpoint. */
export type RegistryQuery = {
  readonly endpoint: {
    readonly api?: string | undefined;
    /** In any case. */
    readonly protocolType?: string | undefined;
    readonly addressType?: string | undefined;
  };
  /** Which list the endpoint stands in. */
  readonly scope: "any" | "external" | "internal";
  /** Name → text. Numbers and booleans are compared in their JSON form. */
  readonly attributes: Readonly<Record<string, string>>;
  /** Part of any text in the record, in any case. */
  readonly text: string | null;
};

export type RegistryMatch = { readonly path: string; readonly record: ServiceRecord };

export type RegistryFindPage = {
  readonly matches: readonly RegistryMatch[];
  /** Path that was looked at last, when others follow. There may be `next` without a match. */
  readonly next?: string;
};

export interface RegistryReader {
  /** Record, status and children, as `view` of RegistryOperations. */
  readNode(path: string, reader: RegistryReaderId): Promise<Reply<RegistryNodeView>>;
  readChildren(
    path: string,
    page: RegistryPage,
    reader: RegistryReaderId,
  ): Promise<Reply<RegistryChildrenPage>>;
  /** Nodes at most `depth` levels below the path. */
  readSubtree(
    path: string,
    depth: number,
    page: RegistryPage,
    reader: RegistryReaderId,
  ): Promise<Reply<RegistrySubtreePage>>;
  /** The path itself and everything below it. */
  find(
    path: string,
    query: RegistryQuery,
    page: RegistryPage,
    reader: RegistryReaderId,
  ): Promise<Reply<RegistryFindPage>>;
}

/**
 * `bound`: the path has a new record. `created`: the path is there and has no record (mknode, or a
 * record that went from a path which stays). `deleted`: the path is gone with everything below it.
 */
export type RegistryChangeType = "bound" | "created" | "deleted";

export type RegistryChange = {
  readonly type: RegistryChangeType;
  readonly path: string;
  /** Of the record that was bound, as in `stat`; 0 for every other change. */
  readonly version: number;
  /** Of `bound`: what the path holds when this is said, which may be newer than the change. */
  readonly record?: ServiceRecord;
};

/**
 * What has happened in the registry since a transaction, for whoever keeps answers of it and has to
 * know which of them still hold.
 */
export type RegistryNews = {
  /** Number of the registry's last transaction. */
  readonly sequence: number;
  /** In their order; null when that is more than the registry says at once, or still knows. */
  readonly changes: readonly Pick<RegistryChange, "type" | "path">[] | null;
};

/** A node with the names of all its children; most copies are never read. */
export type RegistryCopiedNode = StoredNode & { readonly children: readonly string[] };

/** A part of the registry, for whoever copies it. */
export type RegistryCopyPage = {
  readonly nodes: readonly RegistryCopiedNode[];
  /** Where the next part begins; null after the last. */
  readonly next: string | null;
};

/** What the edge asks beside what its readers ask: to keep answers, and to have some in advance. */
export interface RegistryEdge {
  /** What happened after transaction `sequence`; null asks for the number of the last one alone. */
  newsSince(sequence: number | null): Promise<RegistryNews>;
  /**
   * The nodes after a path, or the first ones, in the order of (path of the parent, name): as many
   * as are cheap, without those that have many children.
   */
  copy(after: string | null): Promise<RegistryCopyPage>;
}

/**
 * What a watcher hears. `sequence` numbers the registry's transactions; a watcher that comes back
 * with the last one it heard misses nothing. The first message of a watch that resumes nothing has
 * no changes: it says from where on it watches.
 */
export type RegistryWatchMessage =
  | { readonly sequence: number; readonly changes: readonly RegistryChange[] }
  /** Too much has happened since: read again what is watched, and go on from `sequence`. */
  | { readonly sequence: number; readonly reset: true };

export type RegistryWatchListener = {
  message(message: RegistryWatchMessage): void;
  /** The registry has ended the watch; not called after `close`. */
  closed(): void;
};

export interface RegistryWatch {
  /** Changes of the path and of everything below it, whether it exists or not. */
  watch(
    path: string,
    after: number | null,
    reader: RegistryReaderId,
    listener: RegistryWatchListener,
  ): Promise<Reply<{ close(): void }>>;
}
