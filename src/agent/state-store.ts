/**
 * The NodeManager's state store: one small JSON file for each container, so that a restarted agent
 * finds its containers again. A record is on the disk before the process is spawned, before it is
 * signalled by order, and before its end is reported. Tokens, commands and environments are
 * not stored.
 */
import { open, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { containerStatusSchema } from "../shared/container.ts";
import type { ContainerId } from "../shared/ids.ts";
import type { Log } from "./log.ts";

const readinessCheckSchema = z.object({
  type: z.enum(["DEFAULT", "HTTP", "PORT"]),
  url: z.string().optional(),
  port: z.string().optional(),
  minSuccess: z.number(),
  maxSuccess: z.number(),
  timeoutMs: z.number(),
  intervalMs: z.number(),
});

const cgroupSchema = z.object({
  version: z.union([z.literal(1), z.literal(2)]),
  directories: z.array(z.string()),
  /** The directory whose memory limit is enforced; absent: memory has to be watched. */
  memory: z.string().optional(),
});
export type ContainerCgroup = z.infer<typeof cgroupSchema>;

const recordSchema = z.object({
  phase: z.enum(["NEW", "RUNNING", "STOPPING", "COMPLETE", "FORGOTTEN"]),
  status: containerStatusSchema,
  /** Empty when it never got as far as a work directory. */
  user: z.string(),
  memoryMb: z.number(),
  /** Epoch ms until when a doubled order must still be recognised. */
  tokenExpiresMs: z.number(),
  sigkillDelayMs: z.number(),
  readinessCheck: readinessCheckSchema.optional(),
  cgroup: cgroupSchema.optional(),
  /** The boot in which it was launched. */
  bootId: z.string(),
  /** The order to stop it, once there is one. */
  stop: z.object({ exitStatus: z.number(), diagnostics: z.string() }).optional(),
});
export type ContainerRecord = Readonly<z.infer<typeof recordSchema>>;

export class StateStore {
  readonly #directory: string;
  readonly #log: Log;
  /** The last write of each container, so that two never overtake each other. */
  readonly #tails = new Map<ContainerId, Promise<void>>();

  constructor(directory: string, log: Log) {
    this.#directory = directory;
    this.#log = log;
  }

  /** Resolves when the record is on the disk; rejects when it cannot be written. */
  write(record: ContainerRecord): Promise<void> {
    const { containerId } = record.status;
    const path = join(this.#directory, `${containerId}.json`);
    return this.#enqueue(containerId, async () => {
      const file = await open(`${path}.tmp`, "w", 0o600);
      try {
        await file.writeFile(JSON.stringify(record));
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(`${path}.tmp`, path);
    });
  }

  /** Forgets everything about the container, its pid and exit code files included. */
  remove(containerId: ContainerId): Promise<void> {
    return this.#enqueue(containerId, async () => {
      for (const extension of ["json", "pid", "exitcode"]) {
        await rm(join(this.#directory, `${containerId}.${extension}`), { force: true });
      }
    });
  }

  /** A file that cannot be understood is logged, set aside as `.corrupt`, and left out. */
  async readAll(): Promise<ContainerRecord[]> {
    const records: ContainerRecord[] = [];
    for (const name of await readdir(this.#directory)) {
      if (!name.endsWith(".json")) continue;
      const path = join(this.#directory, name);
      const record = parseRecord(await readFile(path, "utf8"));
      if (record) {
        records.push(record);
      } else {
        this.#log({ event: "state.read", outcome: "not a container record", path });
        await rename(path, `${path}.corrupt`);
      }
    }
    return records;
  }

  /** Resolves when nothing is being written any more. */
  async drain(): Promise<void> {
    await Promise.allSettled(this.#tails.values());
  }

  #enqueue(containerId: ContainerId, work: () => Promise<void>): Promise<void> {
    const before = this.#tails.get(containerId) ?? Promise.resolve();
    const tail = before.catch(() => undefined).then(work);
    this.#tails.set(containerId, tail);
    const release = () => {
      if (this.#tails.get(containerId) === tail) this.#tails.delete(containerId);
    };
    tail.then(release, release);
    return tail;
  }
}

function parseRecord(text: string): ContainerRecord | undefined {
  try {
    return recordSchema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}
