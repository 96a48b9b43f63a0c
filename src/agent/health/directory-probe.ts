/** Looks at one directory's disk: can it be written, and how full is it? */
import { mkdtemp, readFile, rm, statfs, writeFile } from "node:fs/promises";
import { join } from "node:path";

const MEGABYTE = 1_048_576;

export type DiskSpace = {
  /** 0–100, as `df` says it: of what is not reserved for root. */
  readonly usedPercent: number;
  readonly freeMb: number;
};

/** Rejects, with words for people, when the directory cannot be used. */
export type DirectoryProbe = (path: string) => Promise<DiskSpace>;

/** Writes a directory and a file, reads it again, and removes both. */
export const probeDirectory: DirectoryProbe = async (path) => {
  const { blocks, bfree, bavail, bsize } = await statfs(path);
  const used = blocks - bfree;
  const test = await mkdtemp(join(path, ".health-"));
  try {
    const file = join(test, "test");
    // A full disk is told by its figures, with the room that the operator wants to be left.
    if (bavail > 0) await writeFile(file, test, { flush: true });
    if (bavail > 0 && (await readFile(file, "utf8")) !== test) {
      throw new Error("what was written was not read again");
    }
  } finally {
    await rm(test, { recursive: true, force: true });
  }
  return {
    usedPercent: used > 0 ? (100 * used) / (used + bavail) : 0,
    freeMb: Math.floor((bavail * bsize) / MEGABYTE),
  };
};
