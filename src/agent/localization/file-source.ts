/**
 * `file:` resources, only below directories that the operator allows. The path is the user's and may
 * lead through links, so what counts is where the opened file really lies: nothing can change
 * between that look and the reading, because both are done on one descriptor.
 */
import { constants, type Stats } from "node:fs";
import { type FileHandle, open, readlink, realpath, stat } from "node:fs/promises";
import { dirname, sep } from "node:path";
import { codeOf, messageOf } from "../log.ts";
import { LocalizationFailure } from "./localization-failure.ts";
import type { Transfer } from "./resource-source.ts";

const OTHERS_MAY_READ = 0o004;
const OTHERS_MAY_ENTER = 0o001;

export type FileSourceOptions = {
  readonly directories: readonly string[];
  /** YARN: a PUBLIC resource is one that everybody on the machine may read. */
  readonly isPublic: boolean;
};

export function fileTransfer(path: string, options: FileSourceOptions): Transfer {
  return async (sink, signal) => {
    const file = await openAllowed(path, options);
    try {
      const before = await file.stat();
      if (!before.isFile()) throw new LocalizationFailure("INVALID_ARGUMENT", "is no regular file");
      if (options.isPublic) await checkPublic(path, before);
      await sink.restart();
      sink.expectBytes(before.size);
      for await (const chunk of file.createReadStream({ autoClose: false, signal })) {
        await sink.write(chunk);
      }
      if ((await file.stat()).mtimeMs !== before.mtimeMs) {
        throw new LocalizationFailure("UNAVAILABLE", "was written to while it was read", {
          isTransient: true,
        });
      }
      return { modifiedMs: Math.floor(before.mtimeMs), modifiedStepMs: 1 };
    } finally {
      await file.close();
    }
  };
}

async function openAllowed(path: string, { directories }: FileSourceOptions): Promise<FileHandle> {
  const roots = await Promise.all(directories.map((root) => realpath(root).catch(() => undefined)));
  const isBelow = (real: string) =>
    roots.some((root) => root !== undefined && real.startsWith(root === sep ? sep : root + sep));
  let file: FileHandle | undefined;
  try {
    // Looked at first, so that nothing outside is even opened; a FIFO must not block the opening.
    if (!isBelow(await realpath(path))) throw notAllowed();
    file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    if (!isBelow(await readlink(`/proc/self/fd/${file.fd}`))) throw notAllowed();
    return file;
  } catch (error) {
    await file?.close();
    // What is outside is not told apart from what does not exist there: paths are no oracle.
    const parent = await realpath(dirname(path)).catch(() => sep);
    const isInside = roots.includes(parent) || isBelow(parent);
    if (error instanceof LocalizationFailure || !isInside) throw notAllowed();
    const isMissing = codeOf(error) === "ENOENT";
    throw new LocalizationFailure(
      isMissing ? "NOT_FOUND" : "PERMISSION_DENIED",
      isMissing ? "does not exist on this node" : messageOf(error),
    );
  }
}

function notAllowed(): LocalizationFailure {
  return new LocalizationFailure(
    "PERMISSION_DENIED",
    "is not below a directory that this node allows file: resources from",
    { hint: "upload it as a package, or have the operator allow its directory" },
  );
}

/** Hadoop's rule: the file is readable, and each directory above it enterable, by everybody. */
async function checkPublic(path: string, file: Stats): Promise<void> {
  let isPublic = (file.mode & OTHERS_MAY_READ) !== 0;
  const real = await realpath(path);
  for (let directory = dirname(real); isPublic; directory = dirname(directory)) {
    isPublic = ((await stat(directory)).mode & OTHERS_MAY_ENTER) !== 0;
    if (directory === dirname(directory)) break;
  }
  if (isPublic) return;
  throw new LocalizationFailure("PERMISSION_DENIED", "is not readable by everybody on the node", {
    hint: "ask for it with visibility PRIVATE or APPLICATION, or make the file public",
  });
}
