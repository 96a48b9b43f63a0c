/** Reads tar, one entry after the other, from a stream. */
import { once } from "node:events";
import { Parser, type ReadEntry } from "tar";
import { type EntryKind, refusal } from "./archive-tree.ts";
import type { ArchiveEntry } from "./archive-writer.ts";

const KINDS: Readonly<Record<string, EntryKind>> = {
  File: "file",
  OldFile: "file",
  ContiguousFile: "file",
  Directory: "directory",
  SymbolicLink: "symlink",
  Link: "hardlink",
};

/** Calls `visit` for each entry and waits for it. Throws at the first thing that is wrong. */
export async function readTar(
  chunks: AsyncIterable<Uint8Array>,
  visit: (entry: ArchiveEntry) => Promise<void>,
): Promise<void> {
  // Strict: whatever the parser finds odd is an error. `zstd: false`: nothing is packed twice.
  const parser = new Parser({ strict: true, zstd: false });
  let visiting = Promise.resolve();
  let current: ReadEntry | undefined;
  const broken = new AbortController();
  const ended = once(parser, "end", { signal: broken.signal });
  ended.catch(() => undefined);
  const stop = (error: unknown) => broken.abort(error);
  parser.on("error", stop);
  parser.on("ignoredEntry", (entry: ReadEntry) =>
    stop(refusal(String(entry.path), `has the unsupported type ${entry.type}`)),
  );
  // The parser gives the next entry only after this one's content was taken.
  parser.on("entry", (entry: ReadEntry) => {
    current = entry;
    entry.on("error", () => undefined);
    visiting = visiting.then(() => visit(entryOf(entry)).then(() => void entry.resume()));
    visiting.catch(stop);
  });
  try {
    await feed(parser, chunks, broken.signal);
    await ended;
  } catch (error) {
    // Whoever still waits for an entry's content is told that no more comes.
    current?.destroy(error);
    await visiting.catch(() => undefined);
    throw broken.signal.reason ?? error;
  }
  await visiting;
}

async function feed(
  parser: Parser,
  chunks: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): Promise<void> {
  for await (const chunk of chunks) {
    if (!parser.write(chunk)) await once(parser, "drain", { signal });
    signal.throwIfAborted();
  }
  parser.end();
}

function entryOf(entry: ReadEntry): ArchiveEntry {
  const name = String(entry.path);
  const kind = KINDS[entry.type];
  if (kind === undefined) throw refusal(name, `is neither file, directory nor link: ${entry.type}`);
  const isLink = kind === "symlink" || kind === "hardlink";
  return {
    name,
    kind,
    content: entry,
    ...(isLink ? { target: String(entry.linkpath ?? "") } : {}),
  };
}
