/**
 * One container's log files on their way to the cluster's store. How far each has come is asked of
 * the store, never remembered here, and a chunk is named by the offset where it begins: whatever is
 * lost, doubled or forgotten on the way, every byte ends up in the store exactly once.
 */
import { constants } from "node:fs";
import { type FileHandle, open, readdir } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import * as z from "zod";
import {
  type AnnounceLogs,
  aggregatedFileSchema,
  type LogAggregationContext,
  logFileNameSchema,
  NO_LOG_STORE,
} from "../shared/aggregated-logs.ts";
import type { ContainerId } from "../shared/ids.ts";
import { LIMITS } from "../shared/limits.ts";
import { wholeCharacters } from "../shared/utf8.ts";
import { codeOf } from "./log.ts";
import type { KeptFrom } from "./log-rotation.ts";

export type LogsOfContainer = {
  readonly containerId: ContainerId;
  readonly user: string;
  readonly instance: string;
  readonly directories: readonly string[];
  readonly context: LogAggregationContext;
};

/** The store refused, for a reason that no repetition changes. */
export class LogsRefused extends Error {
  /** There is no store at all: nobody's logs can be kept. */
  readonly isForAll: boolean;
  constructor(message: string, isForAll: boolean) {
    super(message);
    this.isForAll = isForAll;
  }
}

const REQUEST_TIMEOUT_MS = 60_000;
/** 429 and all from 500 on may pass; 401 as well, with a renewed credential. */
const PASSING_STATUSES = [401, 408, 429];

const packChunk = promisify(gzip);
const filesSchema = z.object({ files: z.array(aggregatedFileSchema) });
const problemSchema = z.object({ detail: z.string().optional(), reason: z.string().optional() });

export class LogUploader {
  readonly #base: string;
  readonly #credential: () => string;
  readonly #keptFrom: KeptFrom;

  /** `url` is the cluster's; `credential` is asked for each time. */
  constructor(url: string, credential: () => string, keptFrom: KeptFrom) {
    this.#base = `${url.replace(/\/+$/, "")}/ws/v1/node/logs`;
    this.#credential = credential;
    this.#keptFrom = keptFrom;
  }

  /**
   * Says that this node will write the container's logs. Everything here throws a LogsRefused when
   * it is of no use to try again, and any other error when it may be.
   */
  async announce(logs: LogsOfContainer, complete: boolean, signal: AbortSignal): Promise<void> {
    const { containerId, user, instance } = logs;
    const said: AnnounceLogs = { user, instance, complete };
    await this.#send("PUT", `/${containerId}`, signal, {
      type: "application/json",
      bytes: new TextEncoder().encode(JSON.stringify(said)),
    });
  }

  /**
   * Uploads what is new in the files that are wanted; all of it when the container has ended. Answers
   * how far each is stored, in bytes.
   */
  async upload(
    logs: LogsOfContainer,
    { isWanted, hasEnded }: { isWanted: LogFilter; hasEnded: boolean },
    signal: AbortSignal,
  ): Promise<ReadonlyMap<string, number>> {
    const names = await fileNames(logs.directories, isWanted);
    if (names.size === 0) return new Map();
    const query = new URLSearchParams({ user: logs.user });
    const answer = await this.#send("GET", `/${logs.containerId}?${query}`, signal);
    const stored = new Map(
      filesSchema.parse(await answer.json()).files.map(({ name, sizeBytes }) => [name, sizeBytes]),
    );
    for (const [name, path] of names) {
      const file = await openLog(path);
      if (file === undefined) continue;
      try {
        const from = stored.get(name) ?? 0;
        stored.set(name, await this.#uploadFile(logs, { name, file, from, hasEnded }, signal));
      } finally {
        await file.close();
      }
    }
    return stored;
  }

  async #uploadFile(
    { containerId, user }: LogsOfContainer,
    {
      name,
      file,
      from,
      hasEnded,
    }: { name: string; file: FileHandle; from: number; hasEnded: boolean },
    signal: AbortSignal,
  ): Promise<number> {
    const buffer = Buffer.alloc(LIMITS.aggregatedChunkBytesMax);
    const keptFrom = async () => this.#keptFrom(containerId, name, (await file.stat()).size);
    // Who writes faster than this shall not keep the others from their turn.
    const { size } = await file.stat();
    let next = from;
    while (hasEnded || next < size) {
      const start = Math.max(next, await keptFrom());
      const { bytesRead } = await file.read(buffer, 0, buffer.length, start);
      // Dropped while it was read: then it may be anything.
      if ((await keptFrom()) > start) continue;
      const isRest = hasEnded && bytesRead < buffer.length;
      const length = isRest ? bytesRead : wholeCharacters(buffer, bytesRead);
      if (length <= 0) break;
      const query = new URLSearchParams({ user, end: String(start + length) });
      if (start > next) query.set("follows", String(next));
      await this.#send("PUT", `/${containerId}/${name}/${start}?${query}`, signal, {
        type: "application/gzip",
        bytes: new Uint8Array(await packChunk(buffer.subarray(0, length))),
      });
      next = start + length;
    }
    return next;
  }

  async #send(
    method: string,
    path: string,
    signal: AbortSignal,
    body?: { readonly type: string; readonly bytes: Uint8Array<ArrayBuffer> },
  ): Promise<Response> {
    const response = await fetch(this.#base + path, {
      method,
      headers: {
        authorization: `Bearer ${this.#credential()}`,
        ...(body === undefined ? {} : { "content-type": body.type }),
      },
      body: body?.bytes ?? null,
      redirect: "error",
      signal: AbortSignal.any([signal, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]),
    });
    if (response.ok) return response;
    const problem = problemSchema.safeParse(await response.json().catch(() => undefined));
    const { detail, reason } = problem.data ?? {};
    const message = detail ?? `the cluster answered ${response.status}`;
    const mayPass = response.status >= 500 || PASSING_STATUSES.includes(response.status);
    const isForAll = reason === NO_LOG_STORE;
    throw mayPass && !isForAll ? new Error(message) : new LogsRefused(message, isForAll);
  }
}

export type LogFilter = (file: string) => boolean;

/** Which files are uploaded in the end, and which are while they are written. */
export function logFilters(context: LogAggregationContext): {
  readonly kept: LogFilter;
  readonly rolled: LogFilter;
} {
  const include = wholeName(context.includePattern);
  const exclude = wholeName(context.excludePattern);
  const rolledInclude = wholeName(context.rolledIncludePattern);
  const rolledExclude = wholeName(context.rolledExcludePattern);
  return {
    // What was rolled is uploaded to its end.
    kept: (file) => (include.test(file) || rolledInclude.test(file)) && !exclude.test(file),
    rolled: (file) => rolledInclude.test(file) && !rolledExclude.test(file),
  };
}

/** Paths of the files to upload, by name; of two with the same name, the first. */
async function fileNames(
  directories: readonly string[],
  isWanted: LogFilter,
): Promise<Map<string, string>> {
  const names = new Map<string, string>();
  for (const directory of directories) {
    for (const name of await namesIn(directory)) {
      if (!isWanted(name) || names.has(name)) continue;
      if (!logFileNameSchema.safeParse(name).success) continue;
      if (names.size === LIMITS.aggregatedFilesMax) return names;
      names.set(name, join(directory, name));
    }
  }
  return names;
}

function wholeName(pattern: string): RegExp {
  return new RegExp(`^(?:${pattern})$`);
}

async function namesIn(directory: string): Promise<readonly string[]> {
  try {
    const entries = await readdir(directory, { withFileTypes: true });
    return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
  } catch (error) {
    if (codeOf(error) === "ENOENT") return [];
    throw error;
  }
}

/** Undefined for what is no file of the container's own: a link could lead to anybody's. */
async function openLog(path: string): Promise<FileHandle | undefined> {
  try {
    const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
    const file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if ((await file.stat()).isFile()) return file;
    await file.close();
    return undefined;
  } catch (error) {
    if (["ENOENT", "ELOOP", "ENXIO"].includes(codeOf(error) ?? "")) return undefined;
    throw error;
  }
}
