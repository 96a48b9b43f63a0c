/** Reads zip and jar, by their central directory. */
import type { Readable } from "node:stream";
import { crc32 } from "node:zlib";
import { type Entry, openPromise, type ZipFile } from "yauzl";
import { type EntryKind, refusal } from "./archive-tree.ts";
import type { ArchiveEntry } from "./archive-writer.ts";
import { LocalizationFailure } from "./localization-failure.ts";
import { ARCHIVE } from "./localization-limits.ts";

/** In the upper byte of "version made by": the systems whose attributes hold a Unix mode. */
const UNIX_SYSTEMS = [3, 19];
const FILE_TYPE_MASK = 0o170000;
const KINDS: ReadonlyMap<number, EntryKind> = new Map([
  [0, "file"],
  [0o100000, "file"],
  [0o040000, "directory"],
  [0o120000, "symlink"],
]);

/** Calls `visit` for each entry and waits for it. Throws at the first thing that is wrong. */
export async function readZip(
  path: string,
  visit: (entry: ArchiveEntry) => Promise<void>,
): Promise<void> {
  const zip = await openPromise(path, { autoClose: false, strictFileNames: true });
  try {
    if (zip.entryCount > ARCHIVE.entriesMax) {
      throw new LocalizationFailure(
        "RESOURCE_EXHAUSTED",
        `the archive has more than ${ARCHIVE.entriesMax} entries`,
      );
    }
    for await (const entry of zip.eachEntry()) await visit(await entryOf(zip, entry));
  } finally {
    zip.close();
  }
}

async function entryOf(zip: ZipFile, entry: Entry): Promise<ArchiveEntry> {
  const name = entry.fileName;
  if (entry.isEncrypted()) throw refusal(name, "is encrypted");
  if (!entry.canDecodeFileData()) {
    throw refusal(name, `is packed with the unsupported method ${entry.compressionMethod}`);
  }
  const kind = kindOf(entry);
  const content = () => checkedContent(zip, entry);
  if (kind !== "symlink") return { name, kind, content: iterable(content) };
  const target = await readTarget(entry, iterable(content));
  return { name, kind, target, content: iterable(content) };
}

function kindOf(entry: Entry): EntryKind {
  const isUnix = UNIX_SYSTEMS.includes(entry.versionMadeBy >>> 8);
  const type = isUnix ? (entry.externalFileAttributes >>> 16) & FILE_TYPE_MASK : 0;
  const kind = KINDS.get(type);
  if (kind === undefined) throw refusal(entry.fileName, "is neither file, directory nor link");
  const saysDirectory = entry.fileName.endsWith("/");
  if (saysDirectory && kind === "file") return "directory";
  if (saysDirectory !== (kind === "directory")) {
    throw refusal(entry.fileName, `is a ${kind} by its mode and another thing by its name`);
  }
  return kind;
}

async function readTarget(entry: Entry, content: AsyncIterable<Uint8Array>): Promise<string> {
  if (entry.uncompressedSize > ARCHIVE.pathBytesMax) throw refusal(entry.fileName, "links too far");
  const parts: Uint8Array[] = [];
  for await (const chunk of content) parts.push(chunk);
  return Buffer.concat(parts).toString("utf8");
}

/** Opened when it is read, not before. */
function iterable(open: () => AsyncGenerator<Uint8Array>): AsyncIterable<Uint8Array> {
  return { [Symbol.asyncIterator]: open };
}

/** yauzl checks the size; the checksum is checked here. */
async function* checkedContent(zip: ZipFile, entry: Entry): AsyncGenerator<Uint8Array> {
  const stream: Readable = await zip.openReadStreamPromise(entry);
  let checksum = 0;
  try {
    for await (const chunk of stream) {
      checksum = crc32(chunk, checksum);
      yield chunk;
    }
  } finally {
    stream.destroy();
  }
  if (checksum !== entry.crc32) throw refusal(entry.fileName, "does not have its checksum");
}
