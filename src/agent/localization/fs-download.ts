/**
 * FSDownload: makes one copy. It is fetched, checked and unpacked in a temporary directory beside its
 * place, and becomes visible by one rename: what is there is whole.
 */
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type { LocalResource } from "../../shared/container.ts";
import { unpack } from "./archive.ts";
import { isDurable, writeCopyRecord } from "./copy-record.ts";
import { type ByteBudget, type BytesListener, DownloadFile } from "./download-file.ts";
import { fileTransfer } from "./file-source.ts";
import { HttpSource } from "./http-source.ts";
import {
  type Modes,
  makeDirectory,
  type Place,
  setRights,
  syncDirectory,
  temporaryPath,
} from "./local-directories.ts";
import type { LocalResourceRequest } from "./local-resource-request.ts";
import { LocalizationFailure } from "./localization-failure.ts";
import type { LocalizationLimits } from "./localization-limits.ts";
import {
  type PackageFetcher,
  packageTransfer,
  type Retries,
  type SourceAllowances,
  type SourceFacts,
  type Transfer,
  transferWithRetries,
} from "./resource-source.ts";

/** Where an archive lies until it is unpacked. No unpacked entry is beside it. */
const ARCHIVE_NAME = ".archive";

export type FsDownloadOptions = {
  readonly allowances: SourceAllowances;
  readonly limits: LocalizationLimits;
  readonly backoffMs: Retries["backoffMs"];
  readonly fetchPackage: PackageFetcher | undefined;
  readonly bootId: string;
};

export type Download = {
  readonly request: LocalResourceRequest;
  readonly place: Place;
  readonly modes: Modes;
  readonly signal: AbortSignal;
  readonly received: BytesListener;
};

export class FsDownload {
  readonly #options: FsDownloadOptions;
  readonly #http: HttpSource;

  constructor(options: FsDownloadOptions) {
    this.#options = options;
    this.#http = new HttpSource(options.allowances, options.limits);
  }

  /** Nothing more is fetched. */
  close(): void {
    this.#http.close();
  }

  /** Answers with the path of the file or directory, and its size. Leaves nothing when it throws. */
  async run(download: Download): Promise<{ readonly path: string; readonly sizeBytes: number }> {
    const { request, place, modes } = download;
    const { key, fileName, displayUrl, resource } = request;
    const temporary = temporaryPath(place.cacheDirectory);
    try {
      await makeDirectory(temporary, { ...modes, directory: 0o700 }, "refuse");
      const sizeBytes =
        resource.type === "FILE"
          ? await this.#fetch(download, join(temporary, fileName))
          : await this.#fetchAndUnpack(download, temporary);
      const { type } = resource;
      const { bootId } = this.#options;
      const record = { key, displayUrl, fileName, type, sizeBytes, bootId };
      await writeCopyRecord(temporary, record);
      await setRights(temporary, modes);
      if (isDurable(record)) await syncDirectory(temporary);
      download.signal.throwIfAborted();
      const directory = join(place.cacheDirectory, key);
      await rename(temporary, directory);
      if (isDurable(record)) await syncDirectory(place.cacheDirectory);
      return { path: join(directory, fileName), sizeBytes };
    } catch (error) {
      // What cannot be removed now is removed at the next start; the error is what matters.
      await rm(temporary, { recursive: true, force: true }).catch(() => undefined);
      throw error;
    }
  }

  async #fetchAndUnpack(download: Download, temporary: string): Promise<number> {
    const { request, place, modes, signal } = download;
    const archive = join(temporary, ARCHIVE_NAME);
    const root = join(temporary, request.fileName);
    const archiveBytes = await this.#fetch(download, archive);
    await makeDirectory(root, modes, "refuse");
    const room = roomOf(place, place.roomBytes - archiveBytes);
    const unpacked = { archive, name: nameOf(request), root, modes, room, signal };
    const sizeBytes = await unpack(unpacked);
    await rm(archive);
    return sizeBytes;
  }

  /** Fetches into a new file, checks what came, and answers with its size. */
  async #fetch({ request, place, modes, signal, received }: Download, path: string) {
    const { limits, backoffMs } = this.#options;
    const { resource } = request;
    const file = await DownloadFile.create(path, fetchBudget(place, limits, resource), received);
    try {
      const retries = { attemptsMax: limits.attemptsMax, backoffMs };
      const facts = await transferWithRetries(this.#transfer(request), file, retries, signal);
      checkSize(resource, file.bytes);
      const { type } = resource;
      const { sha256 } = await file.finish(modes, isDurable({ type, sizeBytes: file.bytes }));
      checkDigest(request, sha256);
      checkTimestamp(request, facts);
      return file.bytes;
    } finally {
      await file.close();
    }
  }

  #transfer({ location, scope }: LocalResourceRequest): Transfer {
    const { allowances, fetchPackage } = this.#options;
    switch (location.scheme) {
      case "package":
        return packageTransfer(location.sha256, fetchPackage);
      case "file":
        return fileTransfer(location.path, {
          directories: allowances.directories,
          isPublic: scope.visibility === "PUBLIC",
        });
      default:
        return this.#http.transfer(location.url);
    }
  }
}

/** The smallest of what was declared, what the operator lets be fetched, and what has room. */
function fetchBudget(
  place: Place,
  { downloadMbMax }: LocalizationLimits,
  { sizeBytes }: LocalResource,
): ByteBudget {
  const budgets: ByteBudget[] = [
    roomOf(place, place.roomBytes),
    {
      bytes: downloadMbMax * 2 ** 20,
      reason: `is larger than the ${downloadMbMax} MB that this node fetches`,
    },
  ];
  if (sizeBytes !== undefined) {
    budgets.push({ bytes: sizeBytes, reason: `is larger than the ${sizeBytes} bytes declared` });
  }
  return budgets.reduce((least, budget) => (budget.bytes < least.bytes ? budget : least));
}

function roomOf({ cacheDirectory }: Place, bytes: number): ByteBudget {
  return { bytes, reason: `does not fit on the node's disk below ${cacheDirectory}` };
}

/** The archive's name where it comes from; it says the format. */
function nameOf({ location }: LocalResourceRequest): string {
  if (location.scheme === "package") return "";
  return location.scheme === "file" ? location.path : location.url.pathname;
}

function checkSize({ sizeBytes }: LocalResource, bytes: number): void {
  if (sizeBytes === undefined || bytes === sizeBytes) return;
  throw new LocalizationFailure(
    "FAILED_PRECONDITION",
    `has ${bytes} bytes, and ${sizeBytes} were declared`,
  );
}

function checkDigest({ resource, location }: LocalResourceRequest, sha256: string): void {
  const expected = location.scheme === "package" ? location.sha256 : resource.sha256;
  if (expected === undefined || expected === sha256) return;
  throw new LocalizationFailure(
    "FAILED_PRECONDITION",
    `has the sha256 ${sha256}, and ${expected} was declared`,
  );
}

/** YARN's check, in YARN's words. With a sha256 it would say nothing more. */
function checkTimestamp({ resource, location }: LocalResourceRequest, facts: SourceFacts): void {
  const { timestampMs: expected, sha256 } = resource;
  if (expected === undefined || sha256 !== undefined || location.scheme === "package") return;
  const { modifiedMs: was, modifiedStepMs = 1 } = facts;
  if (was === undefined) {
    throw new LocalizationFailure("FAILED_PRECONDITION", "does not say when it was last changed", {
      hint: "declare its sha256 instead of a timestamp",
    });
  }
  if (Math.floor(expected / modifiedStepMs) === Math.floor(was / modifiedStepMs)) return;
  throw new LocalizationFailure(
    "FAILED_PRECONDITION",
    `changed on src filesystem - expected: "${isoTime(expected)}", was: "${isoTime(was)}"`,
  );
}

/** Any number that a request may hold. */
function isoTime(epochMs: number): string {
  const date = new Date(epochMs);
  return Number.isNaN(date.getTime()) ? String(epochMs) : date.toISOString();
}
