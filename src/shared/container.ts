/**
 * Containers as everybody sees them: what shall be launched, and what became of it.
 * Names and codes are YARN's (facts/yarn-rm-nm-scheduler.md §2.5–2.7, §6.8).
 */
import * as z from "zod";
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
