/**
 * Unpacks an ARCHIVE into a fresh directory: tar, tar.gz, tar.zst, zip and jar, told apart by name
 * as in YARN, or by their first bytes where the name does not say (packages have none).
 */
import { createReadStream } from "node:fs";
import { open, stat } from "node:fs/promises";
import { pipeline, type Transform } from "node:stream";
import { createGunzip, createZstdDecompress } from "node:zlib";
import { messageOf } from "../log.ts";
import { type ArchiveEntry, ArchiveWriter } from "./archive-writer.ts";
import type { ByteBudget } from "./download-file.ts";
import type { Modes } from "./local-directories.ts";
import { LocalizationFailure } from "./localization-failure.ts";
import { ARCHIVE } from "./localization-limits.ts";
import { readTar } from "./tar-archive.ts";
import { readZip } from "./zip-archive.ts";

type Format = "tar" | "tar.gz" | "tar.zst" | "zip";

const NAMES: readonly (readonly [RegExp, Format])[] = [
  [/\.tar$/i, "tar"],
  [/\.(?:tar\.gz|tgz)$/i, "tar.gz"],
  [/\.(?:tar\.zst|tzst)$/i, "tar.zst"],
  [/\.(?:zip|jar)$/i, "zip"],
];
const TAR_MAGIC_OFFSET = 257;
const MAGICS: readonly (readonly [number, Buffer, Format])[] = [
  [0, Buffer.from([0x1f, 0x8b]), "tar.gz"],
  [0, Buffer.from([0x28, 0xb5, 0x2f, 0xfd]), "tar.zst"],
  [0, Buffer.from("PK"), "zip"],
  [TAR_MAGIC_OFFSET, Buffer.from("ustar"), "tar"],
];

export type Unpacking = {
  /** The archive's file. */
  readonly archive: string;
  /** What the archive is called where it comes from. */
  readonly name: string;
  /** An empty directory of the agent's own. */
  readonly root: string;
  readonly modes: Modes;
  /** What the disk has room for. */
  readonly room: ByteBudget;
  readonly signal: AbortSignal;
};

/** Answers with the bytes unpacked. Throws at the first entry that is refused. */
export async function unpack(unpacking: Unpacking): Promise<number> {
  const { archive, name, root, modes, room, signal } = unpacking;
  const format = NAMES.find(([pattern]) => pattern.test(name))?.[1] ?? (await sniff(archive));
  if (format === undefined) {
    throw new LocalizationFailure("INVALID_ARGUMENT", "is no archive that a node can unpack", {
      hint: "use tar, tar.gz, tgz, tar.zst, zip or jar; or type FILE",
    });
  }
  const budget = smaller(await budgetOf(archive), room);
  const writer = new ArchiveWriter({ root, modes, budget, signal });
  const visit = (entry: ArchiveEntry) => writer.write(entry);
  try {
    if (format === "zip") await readZip(archive, visit);
    else await readTar(bounded(plainTar(archive, format, signal), budget), visit);
    await writer.finish();
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof LocalizationFailure) throw error;
    const message = `cannot be unpacked as ${format}: ${messageOf(error)}`;
    throw new LocalizationFailure("INVALID_ARGUMENT", message);
  }
  return writer.bytes;
}

async function sniff(path: string): Promise<Format | undefined> {
  const file = await open(path, "r");
  try {
    const { buffer } = await file.read(Buffer.alloc(512), 0, 512, 0);
    return MAGICS.find(([offset, magic]) =>
      buffer.subarray(offset, offset + magic.length).equals(magic),
    )?.[2];
  } finally {
    await file.close();
  }
}

/** How much an archive of this size may become: a bomb is told by its ratio. */
async function budgetOf(path: string): Promise<ByteBudget> {
  const { size } = await stat(path);
  const byRatio = Math.max(ARCHIVE.ratioFreeBytes, size * ARCHIVE.ratioMax);
  if (byRatio < ARCHIVE.unpackedBytesMax) {
    return {
      bytes: byRatio,
      reason: `the archive unpacks to more than ${ARCHIVE.ratioMax} times its size`,
    };
  }
  const gb = ARCHIVE.unpackedBytesMax / 2 ** 30;
  return { bytes: ARCHIVE.unpackedBytesMax, reason: `the archive unpacks to more than ${gb} GB` };
}

function smaller(a: ByteBudget, b: ByteBudget): ByteBudget {
  return a.bytes < b.bytes ? a : b;
}

function plainTar(path: string, format: Format, signal: AbortSignal): AsyncIterable<Uint8Array> {
  const file = createReadStream(path, { signal });
  // The last stream is destroyed with the error of any, and whoever iterates over it is told.
  const through = (decompress: Transform) => pipeline(file, decompress, () => undefined);
  if (format === "tar.gz") return through(createGunzip());
  if (format === "tar.zst") return through(createZstdDecompress());
  return file;
}

/** Headers count too: a stream of nothing but headers writes no file and still never ends. */
async function* bounded(
  chunks: AsyncIterable<Uint8Array>,
  { bytes, reason }: ByteBudget,
): AsyncGenerator<Uint8Array> {
  let seen = 0;
  for await (const chunk of chunks) {
    seen += chunk.length;
    if (seen > bytes) throw new LocalizationFailure("RESOURCE_EXHAUSTED", reason);
    yield chunk;
  }
}
