/** A container's log files, as the NodeManager's REST lists and reads them. */
import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";
import { applicationOfContainer, type ContainerId } from "../shared/ids.ts";
import { type NodeLogs, readLog } from "./log-reader.ts";

/** More is a program's output, not logs that a person looks through. */
const FILES_MAX = 256;

export type LogFile = {
  readonly name: string;
  /** Where it ends: what was dropped of it counts. */
  readonly sizeBytes: number;
  /** What rotation has dropped at its beginning. */
  readonly droppedBytes: number;
  /** Epoch ms. */
  readonly modifiedMs: number;
};

/** A piece of a log, and the byte offset after it. */
export type LogText = {
  readonly text: string;
  readonly nextOffset: number;
  /** Rotation has dropped so many bytes from the offset that was asked for; `text` begins after. */
  readonly droppedBytes?: number;
};

/** In all log directories, by name; links and what is no plain file are left out. */
export async function listLogFiles(
  { home, keptFrom }: NodeLogs,
  containerId: ContainerId,
): Promise<LogFile[]> {
  const files = new Map<string, LogFile>();
  for (const directory of home.logDirectories) {
    const own = join(directory, applicationOfContainer(containerId), containerId);
    const names = await readdir(own).catch(() => []);
    for (const name of names.slice(0, FILES_MAX)) {
      const facts = await lstat(join(own, name)).catch(() => undefined);
      if (!facts?.isFile() || files.has(name)) continue;
      const { size: sizeBytes, mtimeMs: modifiedMs } = facts;
      const droppedBytes = keptFrom(containerId, name, sizeBytes);
      files.set(name, { name, sizeBytes, droppedBytes, modifiedMs });
    }
  }
  return [...files.values()].toSorted((one, other) => (one.name < other.name ? -1 : 1));
}

/** Undefined when there is no such file. `offset` below 0: that many bytes before the end. */
export async function readLogText(
  logs: NodeLogs,
  containerId: ContainerId,
  file: string,
  range: { readonly offset: number; readonly lengthMax: number },
): Promise<LogText | undefined> {
  const request = {
    type: "read-log",
    requestId: "",
    containerId,
    file,
    ...range,
    waitMs: 0,
  } as const;
  const { data, nextOffset, droppedBytes } = await readLog(
    logs,
    request,
    // A character that is only half there is left for the next piece.
    () => false,
    new AbortController().signal,
  );
  if (data === null) return undefined;
  return { text: data, nextOffset, ...(droppedBytes ? { droppedBytes } : {}) };
}
