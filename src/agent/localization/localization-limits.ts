/** Every bound of localization, with YARN's property name where it has one. */

/** What the operator may set. */
export type LocalizationLimits = {
  /** `yarn.nodemanager.localizer.fetch.threadcount`: downloads at a time. */
  readonly fetchThreadCount: number;
  /** `yarn.nodemanager.localizer.cache.target-size-mb`, of PUBLIC and PRIVATE together. */
  readonly cacheTargetSizeMb: number;
  /** What stays free on each local directory's disk, in MB. */
  readonly freeDiskMbMin: number;
  /** The largest file that is fetched, in MB. */
  readonly downloadMbMax: number;
  /** From connecting until the head of the server's answer is there. */
  readonly answerTimeoutMs: number;
  /** A transfer that brings nothing for so long is broken. */
  readonly idleTimeoutMs: number;
  /** One resource, all attempts and the unpacking together: a slow server cannot keep a slot. */
  readonly resourceTimeoutMs: number;
  /** Attempts for one resource; only what may pass by itself is tried again. */
  readonly attemptsMax: number;
};

export const DEFAULT_LOCALIZATION_LIMITS: LocalizationLimits = {
  fetchThreadCount: 4,
  cacheTargetSizeMb: 10_240,
  freeDiskMbMin: 1_024,
  downloadMbMax: 10_240,
  answerTimeoutMs: 60_000,
  idleTimeoutMs: 60_000,
  resourceTimeoutMs: 3_600_000,
  attemptsMax: 5,
};

/** Bounds that no operator needs to move. */
export const LOCALIZATION = {
  /** Release pages take two redirects, mirrors one more. */
  redirectsMax: 5,
  /** One container; Hadoop knows no maximum, its largest jobs ship some hundred. */
  resourcesPerContainerMax: 1_000,
  /** A progress callback per so many bytes: some tens a second on a fast network. */
  progressStepBytes: 4_194_304,
} as const;

/** What an archive may make of itself. Each bound is far above what people ship. */
export const ARCHIVE = {
  /** The largest trees shipped (a browser's sources, a node_modules) have some hundred thousand. */
  entriesMax: 250_000,
  /** 32 GiB; a CUDA tool chain has 15. */
  unpackedBytesMax: 32 * 2 ** 30,
  /** Text packs 20:1 and logs 50:1; bombs begin where deflate ends, at 1,000:1. */
  ratioMax: 200,
  /** Below this the ratio does not matter: a small file of zeros harms nobody. */
  ratioFreeBytes: 64 * 2 ** 20,
  /** NAME_MAX of Linux file systems. */
  nameBytesMax: 255,
  /** A quarter of PATH_MAX, because the local directory comes before it. */
  pathBytesMax: 1_024,
  depthMax: 64,
  /** All paths together, implied directories too, since they are kept in memory: 64 MB. */
  pathsLengthMax: 64 * 2 ** 20,
  /** What Linux follows before it says ELOOP. */
  linksFollowedMax: 40,
  /** Steps to find out where all links lead: about a second. 10,000 links need some 50,000. */
  linkStepsMax: 200_000,
} as const;
