/**
 * Containers as everybody sees them: what shall be launched, and what became of it.
 * Names and codes are YARN's (facts/yarn-rm-nm-scheduler.md §2.5–2.7, §6.8).
 */
import * as z from "zod";
import type { LogAggregationContext } from "./aggregated-logs.ts";
import type { ApplicationAttemptId, ContainerId, NodeId } from "./ids.ts";
import { isContainerId } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import type { ExecutionType } from "./protocol/application-master.ts";
import type { Resource } from "./resource.ts";

/** ContainerExitStatus: YARN's negative codes, and the two made of signals (128 + signal). */
export const EXIT = {
  SUCCESS: 0,
  /** Not finished, or never started. */
  INVALID: -1000,
  /** Released, lost with its node, or expired unused. */
  ABORTED: -100,
  DISKS_FAILED: -101,
  PREEMPTED: -102,
  KILLED_EXCEEDED_VMEM: -103,
  KILLED_EXCEEDED_PMEM: -104,
  KILLED_BY_APPMASTER: -105,
  KILLED_BY_RESOURCEMANAGER: -106,
  KILLED_AFTER_APP_COMPLETION: -107,
  KILLED_BY_CONTAINER_SCHEDULER: -108,
  KILLED_FOR_EXCESS_LOGS: -109,
  FORCE_KILLED: 137,
  TERMINATED: 143,
  /** The NodeManager was restarted and could not find the exit code. */
  LOST: 154,
} as const;

/** ContainerState of the NodeManager's reports. NEW covers everything before the process runs. */
export const CONTAINER_STATES = ["NEW", "RUNNING", "COMPLETE"] as const;
export type ContainerState = (typeof CONTAINER_STATES)[number];

/**
 * Where exactly a container stands on its node (the NodeManager's own ContainerState). For people:
 * those that last a moment only (SCHEDULED, KILLING) are told along with the next change.
 */
export const CONTAINER_SUB_STATES = [
  "LOCALIZING",
  "SCHEDULED",
  "RUNNING",
  "RELAUNCHING",
  "REINITIALIZING",
  "KILLING",
  "DONE",
] as const;
export type ContainerSubState = (typeof CONTAINER_SUB_STATES)[number];

/** What a NodeManager says of one container. The last word said replaces all earlier ones. */
export const containerStatusSchema = z.strictObject({
  containerId: z.string().refine(isContainerId, "a container id"),
  state: z.enum(CONTAINER_STATES),
  /** EXIT.INVALID until COMPLETE. */
  exitStatus: z.int(),
  diagnostics: z.string().max(LIMITS.diagnosticsLengthMax),
  /** The readiness check's present result; with no check, true once the process runs. */
  ready: z.boolean(),
  /** Why it is not ready, in words ("HTTP GET http://… answered 503"). */
  readiness: z.string().max(1_000).optional(),
  /** The container's host name and addresses. */
  host: z.string().max(253).optional(),
  ips: z.array(z.string().max(64)).max(16).optional(),
  /** Dynamic ports by name, as allocated on the node. */
  ports: z.record(z.string(), z.int().min(1).max(65_535)).optional(),
  /** Epoch ms. */
  startedMs: z.int().optional(),
  finishedMs: z.int().optional(),
  /** Absent before the node has begun, and from agents that do not tell it. */
  subState: z.enum(CONTAINER_SUB_STATES).optional(),
  /** How far the container's LocalResources are, while it waits for them. */
  localization: z
    .strictObject({
      resources: z.int().min(0),
      localized: z.int().min(0),
      bytesDone: z.int().min(0),
      /** Absent while a source has not said it. */
      bytesTotal: z.int().min(0).optional(),
    })
    .optional(),
  /** How often the node has started the process again by itself (ContainerRetry); absent: never. */
  relaunches: z.int().min(0).optional(),
  /** `version` of the launch context that the container runs with; absent: 1. */
  launchVersion: z.int().min(1).optional(),
  /** Of the desired set's entry: the latest that the node has carried out, or refused. */
  revision: z.int().min(0).optional(),
  /** allServicesMetaData when its process started: base64 by name of the auxiliary service. */
  auxiliaryServices: z.record(z.string().max(64), z.string().max(1_024)).optional(),
});
export type ContainerStatus = z.infer<typeof containerStatusSchema>;

/** Tokens in these are already resolved, except those only the node knows (see `ports`). */
export type ReadinessCheck = {
  readonly type: "DEFAULT" | "HTTP" | "PORT";
  /** HTTP. May hold `${THIS_HOST}` (the container's first IP) and `${PORT.name}`. */
  readonly url?: string;
  /** PORT: a number, or `${PORT.name}`. */
  readonly port?: string;
  /** Inclusive range of HTTP statuses that count as ready. */
  readonly minSuccess: number;
  readonly maxSuccess: number;
  readonly timeoutMs: number;
  readonly intervalMs: number;
};

/** LocalResourceVisibility: who on the node shares the localized copy, and how long it lives. */
export const LOCAL_RESOURCE_VISIBILITIES = ["PUBLIC", "PRIVATE", "APPLICATION"] as const;
export type LocalResourceVisibility = (typeof LOCAL_RESOURCE_VISIBILITIES)[number];

/**
 * LocalResource (seed 004, "LocalResource Visibilities"): a file or archive that is fetched before
 * the container starts and shows up in its work directory under a name of its own.
 */
export type LocalResource = {
  /**
   * `https://…`; `http://…` only where the operator allows it; `package:sha256:<64 hex>` from the
   * cluster's package store; `file:///…` below a directory that the operator allows.
   */
  readonly url: string;
  /** ARCHIVE is unpacked (by name: tar, tar.gz, tgz, tar.zst, zip, jar) into a directory. */
  readonly type: "FILE" | "ARCHIVE";
  readonly visibility: LocalResourceVisibility;
  /** Lower-case hex. What is fetched must have it. */
  readonly sha256?: string;
  /** Bytes; what is fetched must have as many. */
  readonly sizeBytes?: number;
  /** Epoch ms of the source's last change, which must still be so; for what has no sha256. */
  readonly timestampMs?: number;
};

/** A small file that comes with the launch itself, such as a rendered configuration file. */
export type LaunchFile = {
  readonly content: string;
  /** Owner's rights only; YARN localizes configuration read-only. */
  readonly executable?: boolean;
};

/** ContainerRetryContext: the node itself starts the process again (YARN's RELAUNCHING). */
export type ContainerRetry = {
  readonly policy: "NEVER_RETRY" | "RETRY_ON_ALL_ERRORS" | "RETRY_ON_SPECIFIC_ERROR_CODES";
  readonly errorCodes?: readonly number[];
  /** -1 is without limit. Exit codes 0, 137 and 143 are never retried. */
  readonly maxRetries: number;
  /** From 1,000. */
  readonly retryIntervalMs: number;
  /** Failures longer ago do not count; -1: all count. */
  readonly failuresValidityIntervalMs: number;
};

/** How the container is isolated: as a process of the node, or by docker, podman or nerdctl. */
export type ContainerRuntime =
  | { readonly type: "process" }
  | {
      readonly type: "docker";
      /** Image by name, tag or digest. */
      readonly image: string;
      /** True: the image's entry point is kept, and commands are its arguments. */
      readonly useEntryPoint: boolean;
      /** `host`, `none` or `bridge`; the operator's allow-list decides. */
      readonly network: string;
      readonly hostname?: string;
      /** Only where the operator's allow-list says so. */
      readonly privileged: boolean;
      /** The operator's allow-list decides about each source. */
      readonly mounts: readonly {
        readonly source: string;
        readonly destination: string;
        readonly readOnly: boolean;
      }[];
      /** Name of the local resource that holds a docker config.json for the registry's login. */
      readonly clientConfig?: string;
    };

/** Lets a container write to the registry below `path`, its component's, for as long as it lives. */
export type RegistryCredential = {
  readonly path: string;
  /** `RegistryTokenClaims`, signed by the cluster. */
  readonly token: string;
};

/** ContainerLaunchContext: all a NodeManager needs to start the process. */
export type ContainerLaunchContext = {
  /** Run by `/bin/bash -c` (or `/bin/sh`), joined by `&&`. */
  readonly commands: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /**
   * Names of TCP ports which the node picks free numbers for. Shown to the process as `PORT_{NAME}`
   * (upper case, `-` as `_`), and as `${PORT.name}` in commands, environment and readiness check.
   */
  readonly ports: readonly string[];
  readonly readinessCheck: ReadinessCheck;
  /** The user the application belongs to. */
  readonly user: string;
  /** Component instance name such as `hello-0`; empty for a foreign ApplicationMaster's container. */
  readonly instance: string;
  /** `yarn.nodemanager.sleep-delay-before-sigkill.ms`: SIGTERM, this many ms, SIGKILL. */
  readonly sigkillDelayMs: number;
  /** By the relative path under which the container finds it, such as `lib` or `conf/app.yaml`. */
  readonly localResources?: Readonly<Record<string, LocalResource>>;
  /** By relative path, like local resources. */
  readonly files?: Readonly<Record<string, LaunchFile>>;
  /** Base64 by name of the auxiliary service it is for. */
  readonly serviceData?: Readonly<Record<string, string>>;
  /** Secrets by name, written to the credentials file that HADOOP_TOKEN_FILE_LOCATION names. */
  readonly credentials?: Readonly<Record<string, string>>;
  /** Which of its log files are kept when it has ended, or already while it runs; YARN's defaults when left out. */
  readonly logAggregation?: LogAggregationContext;
  /** ContainerRetry; NEVER_RETRY when left out. */
  readonly retry?: ContainerRetry;
  /** A process of the node when left out. */
  readonly runtime?: ContainerRuntime;
  /**
   * Number of the launch context, from 1, when left out 1. A higher one than the container runs
   * with replaces it in place (YARN's reInitializeContainer).
   */
  readonly version?: number;
  /** Not part of `environment`, so that nothing can write it into a command. */
  readonly registry?: RegistryCredential;
};

/** An allocation as told to the ApplicationMaster (YARN's `Container`). */
export type Container = {
  readonly containerId: ContainerId;
  readonly attemptId: ApplicationAttemptId;
  readonly nodeId: NodeId;
  /** The node's stay in the cluster that it was allocated in; in another one it cannot be started. */
  readonly nodeIncarnation: number;
  readonly resource: Resource;
  /** Rises with every update of the container; a NodeManager takes no older one. */
  readonly version: number;
  readonly executionType: ExecutionType;
  /** Priority and allocationRequestId echo the ask: the only link between ask and grant. */
  readonly priority: number;
  readonly allocationRequestId: number;
  /** ContainerToken: signed by the ResourceManager, checked by the NodeManager. */
  readonly token: string;
  /** Absent where the ResourceManager does nothing for the registry. */
  readonly registry?: RegistryCredential;
};
