/**
 * Aggregated logs (YARN's log aggregation; facts/yarn-rm-nm-scheduler.md §5.9): what containers wrote,
 * uploaded by their nodes chunk by chunk and kept in the cluster's store, so that it can be read when
 * the node is gone. A chunk is named by the offset where it begins: sent twice, it is there once.
 */
import * as z from "zod";
import { type ContainerId, isContainerId, type NodeId } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { userNameSchema } from "./names.ts";

/**
 * A pattern of `LogAggregationContext`: a regular expression for whole file names, of the kind that
 * no file name can make slow: literals, `.`, `|`, and at most three of `.*` and `.+`.
 */
export function isLogPattern(text: string): boolean {
  const quantifiers = text.match(/\.[*+]/g)?.length ?? 0;
  return (
    text.length <= 256 && quantifiers <= 3 && /^(?:[A-Za-z0-9_-]|\\[._-]|\.[*+]?|\|)*$/.test(text)
  );
}

const logPattern = z.string().refine(isLogPattern, "a pattern of file names");

export const logAggregationSchema = z.object({
  /** Uploaded when the container has ended, unless excluded. */
  includePattern: logPattern,
  excludePattern: logPattern,
  /** Uploaded also while it runs, unless excluded. */
  rolledIncludePattern: logPattern,
  rolledExcludePattern: logPattern,
});
export type LogAggregationContext = z.output<typeof logAggregationSchema>;

/** YARN's: everything at the end, nothing before. */
export const DEFAULT_LOG_AGGREGATION: LogAggregationContext = {
  includePattern: ".*",
  excludePattern: "",
  rolledIncludePattern: "",
  rolledExcludePattern: ".*",
};

export const logFileNameSchema = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, "a log file's name, such as stdout");
export const containerIdSchema = z.string().refine(isContainerId, "a container id");

/** What a node says of a container, once before its first chunk and once after its last. */
export const announceLogsSchema = z.strictObject({
  user: userNameSchema,
  /** Component instance name; empty for a container that has none. */
  instance: z.string().max(LIMITS.nameLengthMax),
  /** Nothing follows. */
  complete: z.boolean(),
});
export type AnnounceLogs = z.output<typeof announceLogsSchema>;

/** What the cluster itself notes with it. */
export type LogsAnnouncement = {
  /** The node that writes them. */
  readonly nodeId: NodeId;
  /** ACL of those who may read them beside the user, as its application had it; empty: nobody. */
  readonly viewAcl: string;
};

export const aggregatedFileSchema = z.object({
  name: z.string(),
  sizeBytes: z.int().describe("What is in the store; the container may have written more."),
});
export type AggregatedFile = z.output<typeof aggregatedFileSchema>;

export const aggregatedContainerSchema = z.object({
  containerId: z.string(),
  instance: z.string(),
  nodeId: z.string(),
  complete: z.boolean().describe("Everything that it wrote is in the store."),
  /** Epoch ms of the node's last announcement: its start, and then its end. */
  announcedMs: z.int(),
});
export type AggregatedContainer = z.output<typeof aggregatedContainerSchema>;

/** Where a chunk belongs: bytes `start` to `end` of a file. */
export type LogChunkPlace = {
  readonly containerId: ContainerId;
  readonly file: string;
  readonly start: number;
  readonly end: number;
  /** `start`; or less: bytes from here up to `start` were dropped by rotation, and never come. */
  readonly follows: number;
};

/** What is read of a file: `length` bytes from `offset` on; negative: before the end. */
export type LogPart = {
  readonly file: string;
  readonly offset: number;
  readonly length: number;
  /** Epoch ms: what was stored before it is left out. */
  readonly sinceMs?: number | undefined;
};

/** The answer of a deployment without R2; a node that reads it stops trying. */
export const NO_LOG_STORE = "NoLogStore";
