/** Where a log can be begun to be read. */
import type { FileHandle } from "node:fs/promises";
import { isContinuation } from "../shared/utf8.ts";

/** A line that is longer is cut. */
const LINE_BYTES_MAX = 65_536;
const LINE_FEED = 0x0a;

/** Where the first line begins that begins at `offset` or later; a character, if no line is near. */
export async function lineStart(file: FileHandle, offset: number): Promise<number> {
  if (offset === 0) return 0;
  const bytes = Buffer.alloc(LINE_BYTES_MAX);
  // The byte before it tells whether a line begins right here.
  const { bytesRead } = await file.read(bytes, 0, bytes.length, offset - 1);
  const end = bytes.subarray(0, bytesRead).indexOf(LINE_FEED);
  if (end >= 0) return offset + end;
  let skipped = 1;
  while (skipped < bytesRead && isContinuation(bytes[skipped])) skipped++;
  return offset - 1 + skipped;
}
