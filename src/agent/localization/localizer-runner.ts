/**
 * LocalizerRunner: runs the downloads, each resource once, some at a time. Here is also who makes
 * room: a disk that is too full for the next resource first loses what nobody uses.
 */
import { dirname, sep } from "node:path";
import { type Log, messageOf } from "../log.ts";
import type { FsDownload } from "./fs-download.ts";
import type { LocalDirectories } from "./local-directories.ts";
import type { LocalResourceRequest } from "./local-resource-request.ts";
import type { LocalResourcesTracker } from "./local-resources-tracker.ts";
import { LocalizationFailure } from "./localization-failure.ts";
import { LOCALIZATION, type LocalizationLimits } from "./localization-limits.ts";
import type { LocalizedResource, ResourceIdentity } from "./localized-resource.ts";
import { Slots } from "./slots.ts";

export type LocalizerRunnerOptions = {
  readonly tracker: LocalResourcesTracker;
  readonly directories: LocalDirectories;
  readonly download: FsDownload;
  readonly limits: LocalizationLimits;
  readonly log: Log;
  readonly nowMs: () => number;
  /** Something about the resource is other than before. */
  readonly changed: (resource: LocalizedResource) => void;
};

export class LocalizerRunner {
  readonly #options: LocalizerRunnerOptions;
  readonly #slots: Slots;
  readonly #running = new Map<LocalizedResource, Promise<void>>();

  constructor(options: LocalizerRunnerOptions) {
    this.#options = options;
    this.#slots = new Slots(options.limits.fetchThreadCount);
  }

  /** Localizes a resource in INIT; how it ends is told by the resource itself. */
  start(resource: LocalizedResource, request: LocalResourceRequest): void {
    const ended = this.#run(resource, request).finally(() => this.#running.delete(resource));
    this.#running.set(resource, ended);
  }

  /** Stops those that match; resolves when they write nothing any more. */
  async stop(reason: string, matches: (identity: ResourceIdentity) => boolean): Promise<void> {
    const chosen = [...this.#running].filter(([{ identity }]) => matches(identity));
    for (const [resource] of chosen) resource.stop(new Error(reason));
    await Promise.all(chosen.map(([, ended]) => ended));
  }

  /** Removes unused copies, the longest unused first, until `bytes` are freed below `directory`. */
  async evict(bytes: number, directory?: string): Promise<void> {
    const { tracker, directories, log } = this.#options;
    const below = directory === undefined ? "" : directory + sep;
    const removals = tracker.evict(bytes, below).map(({ path, identity, sizeBytes }) => {
      log({ event: "localization.evicted", outcome: "ok", url: identity.displayUrl, sizeBytes });
      return path === undefined ? undefined : directories.remove(dirname(path));
    });
    await Promise.all(removals);
  }

  async #run(resource: LocalizedResource, request: LocalResourceRequest): Promise<void> {
    const { tracker, log, nowMs, changed } = this.#options;
    const { displayUrl } = request;
    const startedMs = nowMs();
    try {
      const { path, sizeBytes } = await this.#slots.run(resource.signal, () =>
        this.#localize(resource, request),
      );
      resource.usedAt(nowMs());
      resource.localized(path, sizeBytes);
      const durationMs = nowMs() - startedMs;
      const event = "localization.localized";
      log({ event, outcome: "ok", url: displayUrl, sizeBytes, durationMs });
    } catch (error) {
      const failure = named(error, displayUrl);
      tracker.forget(resource);
      resource.failed(failure);
      log({ event: "localization.failed", outcome: failure.message });
    }
    changed(resource);
  }

  async #localize(resource: LocalizedResource, request: LocalResourceRequest) {
    const { directories, download, limits, changed } = this.#options;
    const { resourceTimeoutMs } = limits;
    const late = new AbortController();
    const timer = setTimeout(
      () => late.abort(new Error(`was not there within ${resourceTimeoutMs} ms`)),
      resourceTimeoutMs,
    );
    const signal = AbortSignal.any([resource.signal, late.signal]);
    try {
      resource.downloading();
      changed(resource);
      const { scope, resource: wanted } = request;
      const place = await directories.choose(scope, wanted.sizeBytes ?? 0, (directory, bytes) =>
        this.evict(bytes, directory),
      );
      const modes = directories.modes(scope);
      const received = this.#listener(resource);
      return await download.run({ request, place, modes, signal, received });
    } catch (error) {
      // An aborted stream says only that it was; the reason says why.
      signal.throwIfAborted();
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  #listener(resource: LocalizedResource) {
    let toldBytes = 0;
    return (done: number, total: number | undefined) => {
      resource.received(done, total);
      if (Math.abs(done - toldBytes) < LOCALIZATION.progressStepBytes) return;
      toldBytes = done;
      this.#options.changed(resource);
    };
  }
}

/** With the URL in front: it is all that a person reads in the container's diagnostics. */
function named(error: unknown, displayUrl: string): LocalizationFailure {
  const message = `cannot localize ${displayUrl}: ${messageOf(error)}`;
  if (!(error instanceof LocalizationFailure)) {
    return new LocalizationFailure("UNAVAILABLE", message);
  }
  const { code, hint } = error;
  return new LocalizationFailure(code, message, hint === undefined ? {} : { hint });
}
