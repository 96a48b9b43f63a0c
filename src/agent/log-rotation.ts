/**
 * Keeps the newest bytes of what running containers write to stdout and stderr. The oldest are given
 * back to the disk as a hole in the file: the container goes on appending to the same file, nothing is
 * copied, no line is lost on the way, and a byte keeps its offset for ever. Where the hole ends is noted
 * on the disk before it is made; whoever reads a log begins there:
 *
 *   {home}/log-rotation/journal
 *
 * What the cluster's store is to have goes there first. Only a file that is twice as long as it may be
 * (the store is away, or slower than the container) loses what is nowhere else.
 */
import { existsSync } from "node:fs";
import { constants, type FileHandle, lstat, mkdir, open } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { containerIdSchema } from "../shared/aggregated-logs.ts";
import type { ContainerId } from "../shared/ids.ts";
import type { AgentHome } from "./agent-home.ts";
import { DurableRecords } from "./durable-records.ts";
import { lineStart } from "./line-start.ts";
import { codeOf, type Log, messageOf } from "./log.ts";
import { punchHole } from "./punch-hole.ts";

/** What the launcher opens. Other files of a log directory are their program's own affair. */
const FILES = ["stdout", "stderr"];
/** Less than this part of what is kept is not worth a hole. */
const WORTHWHILE = 1 / 16;
/** Stays in any case: a container's end is explained by the last of its stderr. */
const KEPT_BYTES_MIN = 4_096;

export type LogRotationOptions = {
  readonly home: AgentHome;
  /** `selvedge.node.log-rotation.kept-bytes`, of each file; undefined: all. */
  readonly keptBytes: number | undefined;
  /**
   * Up to where the cluster's store has the file, which is uploaded up to `offset` if it has less.
   * Infinity for what shall not be there.
   */
  readonly storedTo: (containerId: ContainerId, file: string, offset: number) => number;
  readonly log: Log;
};

/** Where what is kept of a log begins, in bytes; `size` is the file's now. */
export type KeptFrom = (containerId: ContainerId, file: string, size: number) => number;

const recordSchema = z.object({
  containerId: containerIdSchema,
  keptFrom: z.record(z.string(), z.int().min(0)),
});
type RotationRecord = z.output<typeof recordSchema>;

export class LogRotation {
  readonly #options: LogRotationOptions;
  readonly #files: DurableRecords<RotationRecord>;
  readonly #records = new Map<ContainerId, RotationRecord>();

  private constructor(options: LogRotationOptions, directory: string) {
    this.#options = options;
    this.#files = new DurableRecords(directory, (json) => recordSchema.parse(json), options.log);
  }

  /** Takes up what earlier agents have dropped. */
  static async open(options: LogRotationOptions): Promise<LogRotation> {
    const directory = join(options.home.directory, "log-rotation");
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const rotation = new LogRotation(options, directory);
    for (const record of await rotation.#files.readAll()) {
      rotation.#records.set(record.containerId, record);
    }
    return rotation;
  }

  /** 0 as well for a file that its program has begun anew. */
  readonly keptFrom: KeptFrom = (containerId, file, size) => {
    const offset = this.#records.get(containerId)?.keptFrom[file] ?? 0;
    return offset <= size ? offset : 0;
  };

  /** One round for a running container; a file that cannot be rotated is logged. Never rejects. */
  async rotate(containerId: ContainerId): Promise<void> {
    const { keptBytes, log } = this.#options;
    if (keptBytes === undefined) return;
    for (const file of FILES) {
      try {
        await this.#rotateFile(containerId, file, Math.max(keptBytes, KEPT_BYTES_MIN));
      } catch (error) {
        log({ event: "logs.rotate", outcome: messageOf(error), containerId, file });
      }
    }
  }

  /** Forgets logs that are gone. */
  async forgetRemoved(): Promise<void> {
    for (const { containerId, keptFrom } of [...this.#records.values()]) {
      const paths = Object.keys(keptFrom).map((file) =>
        this.#options.home.logFile(containerId, file),
      );
      if (paths.some((path) => existsSync(path))) continue;
      this.#records.delete(containerId);
      await this.#files.remove(containerId);
    }
  }

  /** Resolves when nothing is being written any more. */
  close(): Promise<void> {
    return this.#files.drain();
  }

  async #rotateFile(containerId: ContainerId, file: string, keptBytes: number): Promise<void> {
    const path = this.#options.home.logFile(containerId, file);
    const facts = await lstat(path).catch(() => undefined);
    if (facts === undefined) return;
    const { size } = facts;
    const from = this.keptFrom(containerId, file, size);
    if (size - keptBytes - from < Math.max(1, keptBytes * WORTHWHILE)) return;
    const opened = await openOwnFile(path);
    if (opened === undefined) return;
    try {
      const wanted = await lineStart(opened, size - keptBytes);
      const stored = this.#options.storedTo(containerId, file, wanted);
      const most = size - 2 * keptBytes;
      const least = most > from ? await lineStart(opened, most) : from;
      const to = Math.max(Math.min(wanted, stored), least);
      if (to > from) await this.#drop(opened, { containerId, file, from, to, stored });
    } finally {
      await opened.close();
    }
  }

  async #drop(opened: FileHandle, dropped: Dropped): Promise<void> {
    const { containerId, file, from, to, stored } = dropped;
    const before = this.#records.get(containerId) ?? { containerId, keptFrom: {} };
    const record = { containerId, keptFrom: { ...before.keptFrom, [file]: to } };
    this.#records.set(containerId, record);
    try {
      // On a full disk not even the note can be written before there is room.
      const isNoted = await this.#note(record);
      await punchHole(opened, to);
      if (!isNoted) await this.#files.write(containerId, record);
    } catch (error) {
      // It is all still there.
      this.#records.set(containerId, before);
      await this.#note(before);
      throw error;
    }
    const lostBytes = Math.max(0, to - Math.max(from, stored));
    const outcome = Number.isFinite(stored) && lostBytes > 0 ? "lost: not stored in time" : "ok";
    this.#options.log({ event: "logs.rotated", outcome, containerId, file, bytes: to - from });
  }

  /** False when the disk is full. */
  async #note(record: RotationRecord): Promise<boolean> {
    try {
      await this.#files.write(record.containerId, record);
      return true;
    } catch (error) {
      if (codeOf(error) !== "ENOSPC") throw error;
      return false;
    }
  }
}

type Dropped = {
  readonly containerId: ContainerId;
  readonly file: string;
  readonly from: number;
  readonly to: number;
  readonly stored: number;
};

/** Undefined for what may be somebody else's: a link, or a file that has another name besides. */
async function openOwnFile(path: string): Promise<FileHandle | undefined> {
  const { O_RDWR, O_NOFOLLOW, O_NONBLOCK } = constants;
  const file = await open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  const facts = await file.stat();
  if (facts.isFile() && facts.nlink === 1) return file;
  await file.close();
  return undefined;
}
