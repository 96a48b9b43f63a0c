/**
 * How much room a directory takes on its disk. Looked at seldom and with bounds: a container may
 * have millions of files, and whoever counts them all the time is the load.
 */
import { lstat, opendir } from "node:fs/promises";
import { join } from "node:path";

const BLOCK_BYTES = 512;

export type DirectorySize = {
  readonly bytes: number;
  /** False: there is more, which was not counted. */
  readonly isWhole: boolean;
};

/**
 * Bytes of all files below `path`, as blocks on the disk; links are not followed. Counts at most
 * `entriesMax` entries. What vanishes meanwhile, or may not be read, counts nothing.
 */
export async function measureDirectory(
  path: string,
  entriesMax: number,
  stopped: AbortSignal,
): Promise<DirectorySize> {
  const waiting = [path];
  let bytes = 0;
  let entries = 0;
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const directory = await opendir(next).catch(() => undefined);
    if (!directory) continue;
    for await (const entry of directory) {
      if (++entries > entriesMax || stopped.aborted) return { bytes, isWhole: false };
      const child = join(next, entry.name);
      const facts = await lstat(child).catch(() => undefined);
      if (facts) bytes += facts.blocks * BLOCK_BYTES;
      if (facts?.isDirectory()) waiting.push(child);
    }
  }
  return { bytes, isWhole: true };
}
