/**
 * Reading one container's log through the control plane: all of it, its last lines, or
 * whatever comes next. Offsets are bytes; a reply says where the next one begins.
 */
import { ProblemError } from "../client/problem-error.ts";
import { LIMITS } from "../shared/limits.ts";
import type { ReadLogResponse } from "../shared/protocol/container-management.ts";

export type LogSource = {
  /** Bytes from `offset` on; with nothing to read, the answer may wait for more. */
  read(offset: number, length: number, waitMs: number): Promise<ReadLogResponse>;
};

/** Takes a log as it is read. */
export type LogTaker = {
  text(text: string): void;
  /** What would have come here was dropped by rotation. */
  dropped(bytes: number): void;
};

/** A first guess at the length of a line; the guess is quadrupled until enough lines are found. */
const LINE_BYTES = 256;
const TAIL_BYTES_MAX = 16_777_216;

/** One reply, or null when there is no such log (yet). */
export async function readChunk(
  source: LogSource,
  offset: number,
  waitMs: number,
): Promise<ReadLogResponse | null> {
  try {
    return await source.read(offset, LIMITS.logChunkBytesMax, waitMs);
  } catch (error) {
    if (error instanceof ProblemError && error.failure.code === "NOT_FOUND") return null;
    throw error;
  }
}

/**
 * From `offset` (negative: before the end) to the present end, piece by piece. Answers where that
 * end is, or null when there is no such log (yet).
 */
export async function readToEnd(
  source: LogSource,
  offset: number,
  taker: LogTaker,
): Promise<number | null> {
  let next: number | null = null;
  for (;;) {
    const chunk = await readChunk(source, next ?? offset, 0);
    if (chunk === null) return next;
    if (chunk.droppedBytes) taker.dropped(chunk.droppedBytes);
    taker.text(chunk.data);
    const stands = next !== null && chunk.nextOffset <= next;
    next = chunk.nextOffset;
    if (chunk.end || chunk.data === "" || stands) return next;
  }
}

/** The last `count` lines, and the offset where they end. Null when there is no such log (yet). */
export async function readTail(
  source: LogSource,
  count: number,
): Promise<{ readonly text: string; readonly nextOffset: number } | null> {
  for (let window = LINE_BYTES * Math.max(1, count); ; window *= 4) {
    const windowBytes = Math.min(window, TAIL_BYTES_MAX);
    let text = "";
    let isWhole = false;
    const nextOffset = await readToEnd(source, -windowBytes, {
      text: (more) => {
        text += more;
      },
      dropped: () => {
        isWhole = true;
      },
    });
    if (nextOffset === null) return null;
    const lines = text.split("\n");
    const afterLast = text.endsWith("\n") ? 1 : 0;
    isWhole ||= nextOffset <= windowBytes;
    // One line more than wanted: the first of them may be the rest of a line.
    if (lines.length - afterLast > count || isWhole || windowBytes === TAIL_BYTES_MAX) {
      const kept = count === 0 ? [] : lines.slice(-(count + afterLast));
      return { text: kept.join("\n"), nextOffset };
    }
  }
}
