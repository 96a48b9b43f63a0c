/**
 * Reads a container's log files for the tracker: one bounded piece for each request, by name
 * inside the container's own log directory and nowhere else. The bytes are handed out as text, cut
 * where a UTF-8 character ends.
 */
import { constants, watch } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { type ContainerId, isContainerId } from "../shared/ids.ts";
import { LIMITS } from "../shared/limits.ts";
import type { LogChunk, TrackerMessage } from "../shared/protocol/resource-tracker.ts";
import { isContinuation, wholeCharacters } from "../shared/utf8.ts";
import { isPathElement } from "./agent-home.ts";
import type { ContainerLogs } from "./container-logs.ts";
import { lineStart } from "./line-start.ts";

export type ReadLogMessage = Extract<TrackerMessage, { type: "read-log" }>;

/** The longest UTF-8 character: a shorter piece could never move on. */
const LENGTH_MIN = 4;
const WAIT_MAX_MS = 60_000;

/** Where logs lie, and what is known of them. */
export type NodeLogs = Pick<ContainerLogs, "home" | "keptFrom" | "writtenBefore">;

/**
 * Answers one request. `isComplete` says, whenever asked, that the container writes no more (true
 * also for one that is already forgotten). Never rejects; ends early when `stopped` fires.
 */
export async function readLog(
  logs: NodeLogs,
  request: ReadLogMessage,
  isComplete: (containerId: ContainerId) => boolean,
  stopped: AbortSignal,
): Promise<LogChunk> {
  const { requestId, containerId, file: name } = request;
  const nothing: LogChunk = { type: "log", requestId, data: null, nextOffset: 0, end: true };
  if (!isContainerId(containerId) || !isPathElement(name)) return nothing;
  const path = logs.home.logFile(containerId, name);
  let file: FileHandle | undefined;
  try {
    file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    if (!(await file.stat()).isFile()) return nothing;
    const wanted = await startOf(file, request.offset);
    const offset = Math.max(wanted, await sinceStart(file, request, logs));
    // Whether it was complete is asked before reading: what it wrote last is then in the file.
    let complete = isComplete(containerId);
    if (!complete && request.waitMs > 0 && (await file.stat()).size <= offset) {
      await growth(file, path, offset, Math.min(request.waitMs, WAIT_MAX_MS), stopped, () =>
        isComplete(containerId),
      );
      complete = isComplete(containerId);
    }
    const kept = (size: number) => logs.keptFrom(containerId, name, size);
    const piece = await readKept(file, offset, kept, request.lengthMax, complete);
    return { type: "log", requestId, ...piece };
  } catch {
    return nothing;
  } finally {
    await file?.close();
  }
}

async function startOf(file: FileHandle, offset: number): Promise<number> {
  if (offset >= 0) return offset;
  const { size } = await file.stat();
  const start = Math.max(0, size + offset);
  if (start === 0) return 0;
  const { buffer, bytesRead } = await file.read(Buffer.alloc(3), 0, 3, start);
  let skipped = 0;
  while (skipped < bytesRead && isContinuation(buffer[skipped])) skipped++;
  return start + skipped;
}

/** Where the first line begins that is not known to be older than what is wanted. */
async function sinceStart(
  file: FileHandle,
  { containerId, file: name, sinceMs }: ReadLogMessage,
  logs: NodeLogs,
): Promise<number> {
  if (sinceMs === undefined) return 0;
  const { size, mtimeMs } = await file.stat();
  if (mtimeMs < sinceMs) return size;
  return lineStart(file, Math.min(size, logs.writtenBefore(containerId, name, sinceMs)));
}

/** From `offset`, or from where what is kept begins; that may move while it is read. */
async function readKept(
  file: FileHandle,
  offset: number,
  keptFrom: (size: number) => number,
  lengthMax: number,
  complete: boolean,
) {
  for (;;) {
    const from = Math.max(offset, keptFrom((await file.stat()).size));
    const piece = await readPiece(file, from, lengthMax, complete);
    // Dropped while it was read: then it may be anything.
    if (keptFrom((await file.stat()).size) > from) continue;
    return from > offset ? { ...piece, droppedBytes: from - offset } : piece;
  }
}

async function readPiece(file: FileHandle, offset: number, lengthMax: number, complete: boolean) {
  const length = Math.min(LIMITS.logChunkBytesMax, Math.max(LENGTH_MIN, lengthMax));
  const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, offset);
  const { size } = await file.stat();
  const isLast = complete && offset + bytesRead >= size;
  const used = isLast ? bytesRead : wholeCharacters(buffer, bytesRead);
  return {
    data: buffer.toString("utf8", 0, used),
    nextOffset: offset + used,
    end: isLast,
  };
}

/** Resolves when the file is longer than `offset`, the container is complete, or time is up. */
function growth(
  file: FileHandle,
  path: string,
  offset: number,
  waitMs: number,
  stopped: AbortSignal,
  isComplete: () => boolean,
): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      watcher.close();
      clearTimeout(timer);
      clearInterval(poll);
      stopped.removeEventListener("abort", done);
      resolve();
    };
    const look = async () => {
      const { size } = await file.stat();
      if (size > offset || isComplete()) done();
    };
    const watcher = watch(path, () => void look().catch(done));
    // The end of a container changes no file, so it is looked for besides.
    const poll = setInterval(() => void look().catch(done), 200);
    const timer = setTimeout(done, waitMs);
    stopped.addEventListener("abort", done);
    void look().catch(done);
  });
}
