/**
 * LogAggregationService (facts/yarn-rm-nm-scheduler.md §5.9): uploads what containers wrote, at the
 * end of each container, and of files that ask for it also while they are written. YARN waits for
 * the application's end; here a node that goes away early takes only running containers' logs along.
 *
 * A container is on the disk from its launch until its last byte is in the store, so that an agent
 * that dies in between goes on after its restart.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import * as z from "zod";
import {
  containerIdSchema,
  DEFAULT_LOG_AGGREGATION,
  logAggregationSchema,
} from "../shared/aggregated-logs.ts";
import type { ContainerLaunchContext } from "../shared/container.ts";
import type { ContainerId } from "../shared/ids.ts";
import type { ApplicationContainer, ApplicationService } from "./applications.ts";
import { DurableRecords } from "./durable-records.ts";
import { type Log, messageOf } from "./log.ts";
import { type LogFilter, LogsRefused, type LogUploader, logFilters } from "./log-uploader.ts";

export type LogAggregationOptions = {
  /** The agent's home: what is not uploaded yet is noted in `log-aggregation` below it. */
  readonly home: string;
  readonly uploader: LogUploader;
  readonly log: Log;
  readonly nowMs: () => number;
  /**
   * `yarn.nodemanager.log-aggregation.roll-monitoring-interval-seconds`, in ms: how often running
   * containers' files are uploaded; undefined, as in YARN: not before they end.
   */
  readonly rollIntervalMs?: number;
  /** How long `close` waits for the last logs (5 s). */
  readonly closeTimeoutMs?: number;
  /** Before attempt number `failures` + 1; full jitter up to a minute when left out. */
  readonly backoffMs?: (failures: number) => number;
};

const recordSchema = z.object({
  containerId: containerIdSchema,
  user: z.string(),
  instance: z.string(),
  directories: z.array(z.string()),
  context: logAggregationSchema,
  /** The store knows that this node writes the logs. */
  isAnnounced: z.boolean(),
  hasEnded: z.boolean(),
});
type LogRecord = z.output<typeof recordSchema>;

type Container = {
  record: LogRecord;
  /** Epoch ms; Infinity: when it has ended. */
  dueMs: number;
  failures: number;
  /** How far each file is known to be in the store, in bytes. */
  stored: ReadonlyMap<string, number>;
  /** Files that are to be uploaded before the node drops what is oldest in them. */
  readonly pressing: Set<string>;
};

const CLOSE_TIMEOUT_MS = 5_000;
const BACKOFF_MAX_MS = 60_000;

export class LogAggregationService implements ApplicationService {
  readonly name = "log-aggregation";
  readonly #options: LogAggregationOptions;
  readonly #files: DurableRecords<LogRecord>;
  readonly #containers = new Map<ContainerId, Container>();
  readonly #recovered = new Set<ContainerId>();
  readonly #closed = new AbortController();
  #running: Promise<void> | undefined;
  #wake: () => void = () => undefined;
  #isDisabled = false;

  constructor(options: LogAggregationOptions) {
    this.#options = options;
    const directory = join(options.home, "log-aggregation");
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    this.#files = new DurableRecords(directory, (json) => recordSchema.parse(json), options.log);
  }

  /** Resolves when the container is noted on the disk; the store is told of it meanwhile. */
  async initializeContainer(
    container: ApplicationContainer,
    launch: ContainerLaunchContext,
  ): Promise<undefined> {
    const { containerId, user, logDirectories } = container;
    if (this.#isDisabled) return;
    const known = this.#containers.get(containerId)?.record;
    const record: LogRecord = {
      containerId,
      user,
      instance: launch.instance,
      directories: [...logDirectories],
      context: launch.logAggregation ?? DEFAULT_LOG_AGGREGATION,
      isAnnounced: known?.isAnnounced ?? false,
      hasEnded: false,
    };
    await this.#files.write(containerId, record);
    this.#track(record);
  }

  /** Its end will be told. */
  async recoverContainer({ containerId }: ApplicationContainer): Promise<void> {
    this.#recovered.add(containerId);
  }

  /** Resolves when it is noted that everything is there to be uploaded. */
  async stopContainer({ containerId }: ApplicationContainer): Promise<void> {
    const container = this.#containers.get(containerId);
    if (container === undefined) {
      // Told before `start` has read what is on the disk.
      this.#recovered.delete(containerId);
      return;
    }
    await this.#end(container);
  }

  /** Called once, when the node's containers are known again: goes on with what is not uploaded. */
  async start(): Promise<void> {
    for (const record of await this.#files.readAll()) {
      if (this.#containers.has(record.containerId)) continue;
      const container = this.#track(record);
      if (!this.#recovered.has(record.containerId)) await this.#end(container);
    }
    this.#running = this.#run();
  }

  /** Whether the container's log files are still needed. */
  isPending(containerId: ContainerId): boolean {
    return this.#containers.has(containerId);
  }

  /**
   * Up to where the store is known to have a file; Infinity when it shall never have it. A file of
   * which it has less than `offset` is uploaded at once, also while its container runs.
   */
  storedTo(containerId: ContainerId, file: string, offset: number): number {
    // Before `start` nobody knows what is still to be uploaded.
    if (this.#running === undefined) return 0;
    const container = this.#containers.get(containerId);
    if (!container || !logFilters(container.record.context).kept(file)) return Infinity;
    const stored = container.stored.get(file) ?? 0;
    if (stored < offset) {
      container.pressing.add(file);
      if (container.failures === 0) container.dueMs = this.#options.nowMs();
      this.#wake();
    }
    return stored;
  }

  /** Uploads what goes at once within the time limit; what remains is done by the next agent. */
  async close(): Promise<void> {
    const { closeTimeoutMs = CLOSE_TIMEOUT_MS, nowMs } = this.#options;
    const untilMs = nowMs() + closeTimeoutMs;
    const isLeft = () =>
      [...this.#containers.values()].some(
        ({ record, failures }) => record.hasEnded && failures === 0,
      );
    while (this.#running !== undefined && isLeft() && nowMs() < untilMs) await delay(20);
    this.#closed.abort();
    await this.#running;
    await this.#files.drain();
  }

  #track(record: LogRecord): Container {
    const container = {
      ...{ record, dueMs: this.#options.nowMs(), failures: 0 },
      ...{ stored: new Map(), pressing: new Set<string>() },
    };
    this.#containers.set(record.containerId, container);
    this.#wake();
    return container;
  }

  async #end(container: Container): Promise<void> {
    container.record = { ...container.record, hasEnded: true };
    await this.#files.write(container.record.containerId, container.record);
    container.dueMs = this.#options.nowMs();
    container.failures = 0;
    this.#wake();
  }

  /** One container after the other: logs shall not crowd out what the containers themselves send. */
  async #run(): Promise<void> {
    const { signal } = this.#closed;
    while (!signal.aborted) {
      const nowMs = this.#options.nowMs();
      const due = [...this.#containers.values()].filter(({ dueMs }) => dueMs <= nowMs);
      for (const container of due) {
        if (!signal.aborted) await this.#upload(container);
      }
      if (due.length === 0) await this.#nextDue(nowMs);
    }
  }

  async #nextDue(nowMs: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const { signal } = this.#closed;
    this.#wake = resolve;
    const times = [...this.#containers.values()].map(({ dueMs }) => dueMs);
    const nextMs = Math.min(...times, nowMs + BACKOFF_MAX_MS);
    const timer = setTimeout(resolve, Math.max(0, nextMs - nowMs));
    signal.addEventListener("abort", () => resolve(), { once: true });
    // Something may have become due since it was looked at.
    if (signal.aborted || times.some((dueMs) => dueMs <= this.#options.nowMs())) resolve();
    await promise;
    clearTimeout(timer);
  }

  async #upload(container: Container): Promise<void> {
    const { uploader, log } = this.#options;
    const { signal } = this.#closed;
    const { record } = container;
    const { containerId, hasEnded } = record;
    try {
      if (!record.isAnnounced) await this.#announce(container);
      const pressing = new Set(container.pressing);
      if (hasEnded || pressing.size > 0 || this.#options.rollIntervalMs !== undefined) {
        const isWanted = this.#filterOf(record, pressing);
        const stored = await uploader.upload(record, { isWanted, hasEnded }, signal);
        container.stored = stored;
        for (const file of pressing) container.pressing.delete(file);
      }
      container.failures = 0;
      if (container.record.hasEnded !== hasEnded) return;
      if (!hasEnded) {
        const pauseMs = this.#options.rollIntervalMs ?? Infinity;
        container.dueMs = this.#options.nowMs() + (container.pressing.size > 0 ? 0 : pauseMs);
        return;
      }
      await uploader.announce(record, true, signal);
      await this.#forget(containerId);
      log({ event: "logs.aggregated", outcome: "ok", containerId });
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof LogsRefused) return this.#refused(containerId, error);
      container.failures += 1;
      const backoffMs = this.#options.backoffMs ?? fullJitter;
      container.dueMs = this.#options.nowMs() + backoffMs(container.failures);
      log({ event: "logs.upload", outcome: messageOf(error), containerId, again: true });
    }
  }

  #filterOf({ hasEnded, context }: LogRecord, pressing: ReadonlySet<string>): LogFilter {
    const { kept, rolled } = logFilters(context);
    if (hasEnded) return kept;
    const isRolling = this.#options.rollIntervalMs !== undefined;
    return (file) => pressing.has(file) || (isRolling && rolled(file));
  }

  async #announce(container: Container): Promise<void> {
    await this.#options.uploader.announce(container.record, false, this.#closed.signal);
    container.record = { ...container.record, isAnnounced: true };
    await this.#files.write(container.record.containerId, container.record);
  }

  /** They stay on the node until their retention is over. */
  async #refused(containerId: ContainerId, error: LogsRefused): Promise<void> {
    this.#options.log({ event: "logs.upload", outcome: error.message, containerId, again: false });
    this.#isDisabled = error.isForAll;
    const given = error.isForAll ? [...this.#containers.keys()] : [containerId];
    for (const each of given) await this.#forget(each);
  }

  async #forget(containerId: ContainerId): Promise<void> {
    this.#containers.delete(containerId);
    await this.#files.remove(containerId);
  }
}

function fullJitter(failures: number): number {
  return Math.random() * Math.min(BACKOFF_MAX_MS, 1_000 * 2 ** Math.min(failures, 10));
}
