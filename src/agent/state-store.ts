/**
 * NMStateStoreService: what a restarted agent needs to find its containers and applications again.
 *
 *   {state}/journal                          the containers' records (durable-records.ts)
 *   {state}/format.json                      says that it is there to agents that know none
 *   {state}/{containerId}.launch-{version}   a container's launch contexts (0600), until it has ended
 *   {state}/applications/journal             the applications' records
 *
 * A record is on the disk before a process is spawned, before it is signalled by order, and before
 * its end is reported. Exit codes are written by the supervising shell (container-launcher.ts) and
 * not synced: they survive the agent, and a machine that goes down takes its containers with it.
 * Tokens are not stored.
 */
import { mkdirSync } from "node:fs";
import { readdir, readFile, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { type ContainerLaunchContext, containerStatusSchema } from "../shared/container.ts";
import type { ContainerId } from "../shared/ids.ts";
import { DurableRecords, NewerFormatError } from "./durable-records.ts";
import { readFormat, writeFormat } from "./former-files.ts";
import { codeOf, type Log } from "./log.ts";

/** Raised when an older agent would misread a record, or where it is. */
const FORMAT = 3;

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

const retrySchema = z.object({
  policy: z.enum(["NEVER_RETRY", "RETRY_ON_ALL_ERRORS", "RETRY_ON_SPECIFIC_ERROR_CODES"]),
  errorCodes: z.array(z.number()).optional(),
  maxRetries: z.number(),
  retryIntervalMs: z.number(),
  failuresValidityIntervalMs: z.number(),
});

/** What the agent keeps in mind of a launch context, as resolved for this container. */
const launchFactsSchema = z.object({
  version: z.number(),
  sigkillDelayMs: z.number(),
  readinessCheck: readinessCheckSchema.optional(),
  retry: retrySchema.optional(),
  runtime: z.enum(["process", "docker"]),
  /** Paths of the localized resources, by link. */
  localized: z.record(z.string(), z.string()),
});
export type LaunchFacts = Readonly<z.infer<typeof launchFactsSchema>>;

const recordSchema = z.object({
  format: z.literal(FORMAT),
  phase: z.enum(["NEW", "RUNNING", "STOPPING", "COMPLETE", "FORGOTTEN"]),
  status: containerStatusSchema,
  /** Empty when it never got as far as a work directory. */
  user: z.string(),
  resource: z.object({
    memoryMb: z.number(),
    vcores: z.number(),
    extra: z.record(z.string(), z.number()).optional(),
  }),
  /** Version of the ContainerToken that the resource is from. */
  tokenVersion: z.number(),
  /** Epoch ms until when a doubled order must still be recognised. */
  tokenExpiresMs: z.number(),
  cgroup: cgroupSchema.optional(),
  /** The boot in which it was launched. */
  bootId: z.string(),
  /** Absent in records of format 1: where they always lay. */
  workDirectory: z.string().optional(),
  logDirectories: z.array(z.string()).optional(),
  /** Of the launch that may have happened last, from 1; 0 before the first. */
  run: z.number(),
  /** What it runs with, once it was prepared. */
  launch: launchFactsSchema.optional(),
  /** What replaces it as soon as the present process is gone. */
  next: launchFactsSchema.optional(),
  /** What is taken again when the launch is rolled back. */
  previous: launchFactsSchema.optional(),
  /** Epoch ms of the failures after which the node started it again. */
  failures: z.array(z.number()),
  /** The process has failed, and is started again at this time (epoch ms). */
  relaunchAtMs: z.number().optional(),
  /** The order to stop it, once there is one. */
  stop: z.object({ exitStatus: z.number(), diagnostics: z.string() }).optional(),
});
export type ContainerRecord = Readonly<Omit<z.infer<typeof recordSchema>, "format">>;

/** As agents up to 0.1 wrote them. */
const format1Schema = z.object({
  phase: recordSchema.shape.phase,
  status: containerStatusSchema,
  user: z.string(),
  memoryMb: z.number(),
  tokenExpiresMs: z.number(),
  sigkillDelayMs: z.number(),
  readinessCheck: readinessCheckSchema.optional(),
  cgroup: cgroupSchema.optional(),
  bootId: z.string(),
  stop: recordSchema.shape.stop,
});

const applicationSchema = z.object({
  applicationId: z.string(),
  user: z.string(),
  /** Ordered to finish. */
  finishing: z.boolean(),
});
export type ApplicationRecord = Readonly<z.infer<typeof applicationSchema>>;

export class StateStore {
  readonly #directory: string;
  readonly #records: DurableRecords<z.infer<typeof recordSchema>>;
  /** Versions of the launch contexts that are kept of each container. */
  readonly #launches = new Map<ContainerId, Set<number>>();
  /** By application id. */
  readonly applications: DurableRecords<ApplicationRecord>;

  constructor(directory: string, log: Log) {
    this.#directory = directory;
    this.#records = new DurableRecords(directory, parseRecord, log);
    const applications = join(directory, "applications");
    mkdirSync(applications, { recursive: true, mode: 0o700 });
    this.applications = new DurableRecords(
      applications,
      (json) => applicationSchema.parse(json),
      log,
    );
  }

  /** Resolves when the record is on the disk; rejects when it cannot be written. */
  write(record: ContainerRecord): Promise<void> {
    return this.#records.write(record.status.containerId, { format: FORMAT, ...record });
  }

  /**
   * Rejects with a NewerFormatError when a later agent wrote one: to go on without it would be to
   * lose the container.
   */
  async readAll(): Promise<ContainerRecord[]> {
    const format = await readFormat(this.#directory);
    checkFormat(format ?? FORMAT);
    for (const name of await readdir(this.#directory)) {
      const [, containerId, version] = /^(.*)\.launch-(\d+)$/.exec(name) ?? [];
      if (containerId !== undefined) this.#versionsOf(containerId).add(Number(version));
    }
    const records = await this.#records.readAll();
    // Before the first change, since an earlier agent would not see it.
    if (format !== FORMAT) await writeFormat(this.#directory, FORMAT);
    return records;
  }

  remove(containerId: ContainerId): Promise<void> {
    return this.#records.remove(containerId);
  }

  /** Kept for as long as the process may have to be started with it again. */
  async writeLaunch(containerId: ContainerId, launch: ContainerLaunchContext): Promise<void> {
    const { version = 1 } = launch;
    const path = this.#launchPath(containerId, version);
    this.#versionsOf(containerId).add(version);
    await writeFile(path, JSON.stringify(launch), { mode: 0o600 });
  }

  /** Rejects when it is not there, as for a container of an older agent. */
  async readLaunch(containerId: ContainerId, version: number): Promise<ContainerLaunchContext> {
    return JSON.parse(await readFile(this.#launchPath(containerId, version), "utf8"));
  }

  /** Removes its launch contexts but those of the versions in `keep`. */
  async removeLaunches(containerId: ContainerId, keep: readonly number[] = []): Promise<void> {
    const versions = this.#versionsOf(containerId);
    for (const version of versions) {
      if (keep.includes(version)) continue;
      await unlinkIfThere(this.#launchPath(containerId, version));
      versions.delete(version);
    }
    if (versions.size === 0) this.#launches.delete(containerId);
  }

  /** Resolves when nothing is being written any more. */
  async drain(): Promise<void> {
    await Promise.all([this.#records.drain(), this.applications.drain()]);
  }

  #versionsOf(containerId: ContainerId): Set<number> {
    const versions = this.#launches.get(containerId) ?? new Set();
    this.#launches.set(containerId, versions);
    return versions;
  }

  #launchPath(containerId: ContainerId, version: number): string {
    return join(this.#directory, `${containerId}.launch-${version}`);
  }
}

async function unlinkIfThere(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error;
  }
}

function parseRecord(json: unknown): z.infer<typeof recordSchema> {
  const record = z.looseObject({ format: z.number().default(1) }).parse(json);
  checkFormat(record.format);
  // Format 2 had the same records in files of their own.
  return record.format === 1
    ? fromFormat1(json)
    : recordSchema.parse({ ...record, format: FORMAT });
}

function checkFormat(format: number): void {
  if (format <= FORMAT) return;
  throw new NewerFormatError(
    `the node's state was written by a newer agent (format ${format}; this one knows ${FORMAT})`,
  );
}

function fromFormat1(json: unknown): z.infer<typeof recordSchema> {
  const { memoryMb, sigkillDelayMs, readinessCheck, ...record } = format1Schema.parse(json);
  return {
    ...record,
    format: FORMAT,
    resource: { memoryMb, vcores: 1 },
    tokenVersion: 0,
    run: 1,
    launch: { version: 1, sigkillDelayMs, readinessCheck, runtime: "process", localized: {} },
    failures: [],
  };
}
