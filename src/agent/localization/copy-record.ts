/**
 * What a localized copy says of itself, in a file beside it: written last, so that a copy without it
 * was never finished. Its time of change is when the copy was last used.
 */
import { readFile, stat, utimes } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import * as z from "zod";
import { isPathElement } from "../agent-home.ts";
import { createExclusively } from "./download-file.ts";

/** No localized file begins with a dot. */
const RECORD_NAME = ".localized";
const DURABLE_BYTES_MIN = 1_048_576;

const copyRecordSchema = z.object({
  key: z.string(),
  /** Without its secrets. */
  displayUrl: z.string(),
  fileName: z.string().refine(isPathElement),
  type: z.enum(["FILE", "ARCHIVE"]),
  sizeBytes: z.number(),
  /** The boot in which it was made. */
  bootId: z.string(),
});
export type CopyRecord = Readonly<z.infer<typeof copyRecordSchema>>;

/**
 * Whether the copy is to be there still when the power has gone: a FILE that takes longer to fetch
 * than to put on the disk. Others are fetched again.
 */
export function isDurable({ type, sizeBytes }: Pick<CopyRecord, "type" | "sizeBytes">): boolean {
  return type === "FILE" && sizeBytes >= DURABLE_BYTES_MIN;
}

export async function writeCopyRecord(directory: string, record: CopyRecord): Promise<void> {
  const file = await createExclusively(join(directory, RECORD_NAME));
  try {
    await file.writeFile(JSON.stringify(record));
    if (isDurable(record)) await file.sync();
  } finally {
    await file.close();
  }
}

/** Remembers over a restart when a copy was last used. `path` is that of the localized file. */
export async function touchCopy(path: string, nowMs: number): Promise<void> {
  await utimes(join(dirname(path), RECORD_NAME), nowMs / 1_000, nowMs / 1_000);
}

/** The key of the copy that a container's localized path belongs to. */
export function keyOfPath(path: string): string {
  return basename(dirname(path));
}

export type FoundCopy = {
  readonly record: CopyRecord;
  readonly path: string;
  readonly lastUsedMs: number;
};

/**
 * The copy in a directory; undefined for what cannot be trusted: one of an earlier boot that nobody
 * has waited for the disk to have, and that may have holes where the power went.
 */
export async function findCopy(directory: string, bootId: string): Promise<FoundCopy | undefined> {
  try {
    const recordPath = join(directory, RECORD_NAME);
    const record = copyRecordSchema.parse(JSON.parse(await readFile(recordPath, "utf8")));
    if (record.key !== basename(directory)) return undefined;
    if (record.bootId !== bootId && !isDurable(record)) return undefined;
    const path = join(directory, record.fileName);
    const copy = await stat(path);
    const isWhole = record.type === "ARCHIVE" ? copy.isDirectory() : copy.size === record.sizeBytes;
    const { mtimeMs } = await stat(recordPath);
    return isWhole ? { record, path, lastUsedMs: Math.floor(mtimeMs) } : undefined;
  } catch {
    return undefined;
  }
}
