/**
 * ResourceLocalizationService (seed 004, "NodeManager components"): brings the files and archives
 * that containers need onto the node, shares them as far as their visibility allows, and removes
 * them when their time is over:
 *
 *   PUBLIC, PRIVATE   stay until the cache is above its target size, or a disk is full
 *   APPLICATION       until the application has finished on this node
 *
 * What a container uses is never removed. The service starts no process and keeps no timer.
 */
import type { LocalResource } from "../../shared/container.ts";
import { fail, ok, type Reply } from "../../shared/errors.ts";
import type { ApplicationId, ContainerId } from "../../shared/ids.ts";
import { isPathElement } from "../agent-home.ts";
import { codeOf, type Log, messageOf } from "../log.ts";
import { readBootId } from "../process-table.ts";
import { touchCopy } from "./copy-record.ts";
import { FsDownload } from "./fs-download.ts";
import { LocalDirectories, type LocalDirectoriesOptions } from "./local-directories.ts";
import { type LocalResourceRequest, parseRequest } from "./local-resource-request.ts";
import { LocalResourcesTracker } from "./local-resources-tracker.ts";
import { LocalizationFailure } from "./localization-failure.ts";
import {
  DEFAULT_LOCALIZATION_LIMITS,
  LOCALIZATION,
  type LocalizationLimits,
} from "./localization-limits.ts";
import { type LocalizationProgress, progressOf } from "./localization-progress.ts";
import { type InUse, type LiveApplication, recoverCopies } from "./localization-recovery.ts";
import type { LocalizedResource } from "./localized-resource.ts";
import { LocalizerRunner } from "./localizer-runner.ts";
import {
  fullJitterBackoffMs,
  NO_ALLOWANCES,
  type PackageFetcher,
  type Retries,
  type SourceAllowances,
} from "./resource-source.ts";

export type ResourceLocalizationServiceOptions = {
  /** `yarn.nodemanager.local-dirs`: absolute paths, at least one. */
  readonly localDirectories: readonly string[];
  readonly log: Log;
  readonly nowMs: () => number;
  readonly limits?: Partial<LocalizationLimits>;
  readonly allowances?: Partial<SourceAllowances>;
  /** Without it, `package:` resources are refused. */
  readonly fetchPackage?: PackageFetcher;
  readonly backoffMs?: Retries["backoffMs"];
  readonly freeBytes?: LocalDirectoriesOptions["freeBytes"];
  readonly readerGroup?: LocalDirectoriesOptions["readerGroup"];
};

export type LocalizationRequest = {
  readonly user: string;
  readonly applicationId: ApplicationId;
  readonly containerId: ContainerId;
  /** By the path under which the container shall find it. */
  readonly resources: Readonly<Record<string, LocalResource>>;
};

/** Absolute paths of the localized files and directories, by link. */
export type LocalizedPaths = Readonly<Record<string, string>>;

type Container = {
  /** What its latest launch context asked for. */
  readonly links: Map<string, LocalizedResource>;
  /** What it has references to, those of earlier launch contexts included. */
  readonly held: Set<LocalizedResource>;
  onProgress: () => void;
};

type Wanted = readonly [link: string, request: LocalResourceRequest];

const BYTES_PER_MB = 2 ** 20;

export class ResourceLocalizationService {
  readonly #options: ResourceLocalizationServiceOptions;
  readonly #limits: LocalizationLimits;
  readonly #bootId = readBootId();
  readonly #directories: LocalDirectories;
  readonly #download: FsDownload;
  readonly #runner: LocalizerRunner;
  readonly #tracker = new LocalResourcesTracker();
  readonly #containers = new Map<ContainerId, Container>();
  /** Applications that localized something here, with their user. */
  readonly #applications = new Map<ApplicationId, string>();
  #isClosed = false;

  constructor(options: ResourceLocalizationServiceOptions) {
    this.#options = options;
    const { localDirectories, allowances, backoffMs, fetchPackage, log, nowMs } = options;
    const limits = { ...DEFAULT_LOCALIZATION_LIMITS, ...options.limits };
    this.#limits = limits;
    this.#directories = new LocalDirectories({
      directories: localDirectories,
      freeDiskMbMin: limits.freeDiskMbMin,
      log,
      freeBytes: options.freeBytes,
      readerGroup: options.readerGroup,
    });
    this.#download = new FsDownload({
      allowances: { ...NO_ALLOWANCES, ...allowances },
      limits,
      backoffMs: backoffMs ?? fullJitterBackoffMs,
      fetchPackage,
      bootId: this.#bootId,
    });
    this.#runner = new LocalizerRunner({
      tracker: this.#tracker,
      directories: this.#directories,
      download: this.#download,
      limits,
      log,
      nowMs,
      changed: (resource) => this.#tell(resource),
    });
  }

  /**
   * Called once, before anything else: makes the local directories, removes what an earlier agent
   * left half-made, and finds its copies again with the containers that use them. `applications`
   * are those that go on here, though they may have no container at present; others are over.
   */
  async recover(
    inUse: readonly InUse[],
    applications: readonly LiveApplication[] = [],
  ): Promise<void> {
    await this.#directories.open();
    for (const { applicationId, user } of [...applications, ...inUse]) {
      this.#applications.set(applicationId, user);
    }
    const live = new Set(this.#applications.keys());
    const found = await recoverCopies(this.#directories, inUse, live, this.#bootId);
    for (const resource of found.values()) this.#tracker.add(resource);
    for (const { containerId, localized } of inUse) {
      const container = this.#container(containerId);
      for (const [link, path] of Object.entries(localized)) {
        const resource = found.get(path);
        if (resource === undefined) {
          const event = "localization.recover";
          this.#options.log({ event, outcome: "missing", containerId, path });
          continue;
        }
        resource.references.add(containerId);
        container.held.add(resource);
        container.links.set(link, resource);
      }
    }
  }

  /**
   * Resolves with the paths when everything is there. Otherwise with a failure that names the URL
   * and the reason; then the container has no references of this request, and those of earlier ones
   * still. `onProgress` is called on every change of a state and every 4 MB: `progress` then says
   * the whole truth.
   */
  async localize(
    request: LocalizationRequest,
    onProgress: () => void = () => undefined,
  ): Promise<Reply<LocalizedPaths>> {
    if (this.#isClosed) return fail("UNAVAILABLE", "the agent stops");
    const parsed = parseAll(request);
    if (!parsed.ok) return parsed;
    const { containerId, applicationId, user } = request;
    this.#applications.set(applicationId, user);
    const container = this.#container(containerId);
    container.onProgress = onProgress;
    container.links.clear();
    const before = new Set(container.held);
    for (const [link, wanted] of parsed.value) this.#reference(containerId, link, wanted);
    const links = new Map(container.links);
    try {
      const paths = await Promise.all(
        [...links].map(async ([link, { done }]) => [link, await done] as const),
      );
      if (this.#containers.get(containerId) === container) return ok(Object.fromEntries(paths));
      return fail("FAILED_PRECONDITION", `${containerId} was released meanwhile`);
    } catch (error) {
      for (const resource of links.values()) {
        if (before.has(resource)) continue;
        container.held.delete(resource);
        this.#tracker.release(resource, containerId, this.#options.nowMs());
      }
      return failureOf(error);
    }
  }

  /** The container is over: it uses nothing any more, and waits for nothing. May be said twice. */
  release(containerId: ContainerId): void {
    const container = this.#containers.get(containerId);
    if (container === undefined) return;
    this.#containers.delete(containerId);
    const nowMs = this.#options.nowMs();
    for (const resource of container.held) {
      this.#tracker.release(resource, containerId, nowMs);
      if (resource.path !== undefined) void this.#touch(resource.path, nowMs);
    }
  }

  /** The application is over on this node: its APPLICATION resources go now. May be said twice. */
  async applicationFinished(applicationId: ApplicationId): Promise<void> {
    const user = this.#applications.get(applicationId);
    if (user === undefined) return;
    this.#applications.delete(applicationId);
    for (const resource of this.#tracker.ofApplication(applicationId)) {
      this.#tracker.forget(resource);
    }
    await this.#runner.stop(
      "the application has finished",
      ({ scope }) => scope.visibility === "APPLICATION" && scope.applicationId === applicationId,
    );
    await this.#directories.removeApplication(user, applicationId);
  }

  /**
   * Evicts the longest unused PUBLIC and PRIVATE copies until the cache is at its target size. For
   * the caller to call every `yarn.nodemanager.localizer.cache.cleanup.interval-ms` (600,000).
   */
  async cleanUp(): Promise<void> {
    const excess = this.#tracker.cacheBytes() - this.#limits.cacheTargetSizeMb * BYTES_PER_MB;
    if (excess > 0) await this.#runner.evict(excess);
  }

  /** What the container waits for and has; undefined for one that localized nothing. */
  progress(containerId: ContainerId): LocalizationProgress | undefined {
    const container = this.#containers.get(containerId);
    return container && progressOf(container.links);
  }

  /** Stops everything that is on its way, and resolves when nothing is written any more. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#runner.stop("the agent stops", () => true);
    this.#download.close();
  }

  /** The container waits for the resource now; the first who does has it fetched. */
  #reference(containerId: ContainerId, link: string, wanted: LocalResourceRequest): void {
    const isKnown = this.#tracker.find(wanted.key) !== undefined;
    const resource = this.#tracker.request(wanted, containerId);
    const container = this.#container(containerId);
    container.links.set(link, resource);
    container.held.add(resource);
    if (!isKnown) this.#runner.start(resource, wanted);
  }

  #tell({ references }: LocalizedResource): void {
    for (const containerId of references) this.#containers.get(containerId)?.onProgress();
  }

  async #touch(path: string, nowMs: number): Promise<void> {
    try {
      await touchCopy(path, nowMs);
    } catch (error) {
      // Gone already: its application has finished, or it was evicted.
      if (codeOf(error) === "ENOENT") return;
      this.#options.log({ event: "localization.touch", outcome: messageOf(error), path });
    }
  }

  #container(containerId: ContainerId): Container {
    const known = this.#containers.get(containerId);
    if (known !== undefined) return known;
    const container = {
      links: new Map(),
      held: new Set<LocalizedResource>(),
      onProgress: () => {},
    };
    this.#containers.set(containerId, container);
    return container;
  }
}

function parseAll({ user, applicationId, resources }: LocalizationRequest): Reply<Wanted[]> {
  if (!isPathElement(user) || !isPathElement(applicationId)) {
    return fail("INVALID_ARGUMENT", `"${user}" or "${applicationId}" cannot name a directory`);
  }
  const entries = Object.entries(resources);
  const { resourcesPerContainerMax } = LOCALIZATION;
  if (entries.length > resourcesPerContainerMax) {
    const message = `a container may have ${resourcesPerContainerMax} resources at most`;
    return fail("INVALID_ARGUMENT", message, { hint: "put them into one ARCHIVE" });
  }
  const requests: Wanted[] = [];
  for (const [link, resource] of entries) {
    const { visibility } = resource;
    const parsed = parseRequest({ visibility, user, applicationId }, resource);
    if (!parsed.ok) return parsed;
    requests.push([link, parsed.value]);
  }
  return ok(requests);
}

function failureOf(error: unknown): Reply<never> {
  if (!(error instanceof LocalizationFailure)) return fail("INTERNAL", messageOf(error));
  const { code, message, hint } = error;
  return fail(code, message, hint === undefined ? {} : { hint });
}
