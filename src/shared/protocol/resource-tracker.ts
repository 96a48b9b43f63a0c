/**
 * ResourceTracker: NodeManager ↔ tracker shard over one WebSocket (or, where no socket passes, the
 * same messages by HTTP heartbeat), and tracker shard ↔ ResourceManager by RPC.
 *
 * Between agent and tracker: one connection delivers in order until it breaks; after a break the
 * agent registers again, states the full truth, and gets the full desired set. So no message of
 * its own needs an answer, except a COMPLETE status, which the agent keeps until acknowledged.
 * Text `ping` is answered `pong` by the runtime, without waking the object.
 */
import * as z from "zod";
import {
  type ContainerLaunchContext,
  type ContainerStatus,
  containerStatusSchema,
} from "../container.ts";
import type { Reply } from "../errors.ts";
import {
  type ApplicationId,
  type ContainerId,
  isApplicationId,
  isContainerId,
  type NodeId,
} from "../ids.ts";
import { LIMITS } from "../limits.ts";
import { type NodeFacts, nodeFactsSchema } from "../node.ts";
import { type NodeQuery, nodeAnswerSchema } from "./node-query.ts";

export const NODE_PROTOCOL_VERSION = 1;
export const PING = "ping";
export const PONG = "pong";

const statuses = z.array(containerStatusSchema).max(LIMITS.containersPerNodeMax);
const applications = z
  .array(z.string().refine(isApplicationId, "an application id"))
  .max(LIMITS.containersPerNodeMax);

/** First message of every connection: who I am, what I have, and every container I know of. */
export const registerNodeManagerSchema = z.strictObject({
  type: z.literal("register"),
  protocolVersion: z.literal(NODE_PROTOCOL_VERSION),
  node: nodeFactsSchema,
  /** All containers on the node, finished but unacknowledged ones included. */
  containers: statuses,
  /** Applications that are not over on the node; absent from agents that do not keep them. */
  applications: applications.optional(),
});
export type RegisterNodeManager = z.infer<typeof registerNodeManagerSchema>;

/** Sent at once on every change: process started, readiness changed, process ended. */
export const containerStatusesSchema = z.strictObject({
  type: z.literal("statuses"),
  containers: statuses,
});

/** NodeHealthStatus, on change. */
export const nodeHealthSchema = z.strictObject({
  type: z.literal("health"),
  healthy: z.boolean(),
  healthReport: z.string().max(LIMITS.diagnosticsLengthMax),
});

/** Answer to `read-log`. */
export const logChunkSchema = z.strictObject({
  type: z.literal("log"),
  requestId: z.string().max(64),
  /** UTF-8 text of the bytes read, or null when there is no such container or file. */
  data: z
    .string()
    .max(LIMITS.logChunkBytesMax * 4)
    .nullable(),
  /** Byte offset after the last byte in `data`. */
  nextOffset: z.int().min(0),
  /** The container has ended and nothing follows. */
  end: z.boolean(),
  /** Rotation has dropped so many bytes from the offset that was asked for; `data` begins after. */
  droppedBytes: z.int().min(1).optional(),
});
export type LogChunk = z.infer<typeof logChunkSchema>;

/** Applications that are over on the node: nothing of them runs, and what was theirs is gone. */
export const applicationsFinishedSchema = z.strictObject({
  type: z.literal("applications-finished"),
  applicationIds: applications,
});

/** The node stops for good: its containers are gone, take it off the books at once (SHUTDOWN). */
export const unregisterNodeManagerSchema = z.strictObject({ type: z.literal("unregister") });

export const agentMessageSchema = z.discriminatedUnion("type", [
  registerNodeManagerSchema,
  containerStatusesSchema,
  nodeHealthSchema,
  logChunkSchema,
  nodeAnswerSchema,
  applicationsFinishedSchema,
  unregisterNodeManagerSchema,
]);
export type AgentMessage = z.infer<typeof agentMessageSchema>;

/**
 * What shall become of the latest replacement of a container's launch context. PENDING: the one
 * before is kept, and taken again if the new process fails. COMMITTED, and when absent: it is
 * dropped. ROLLED_BACK: it is taken again.
 */
export type ReInitialization = "PENDING" | "COMMITTED" | "ROLLED_BACK";

/**
 * One entry of a node's desired set. RUN: start it if it never was (token and launch are left out
 * when the agent has just reported that it knows the container). STOP: end it, and if it never ran,
 * report it COMPLETE with `exitStatus` all the same. An entry leaves the set only after the agent's
 * COMPLETE was acknowledged.
 */
export type DesiredContainer =
  | {
      readonly containerId: ContainerId;
      readonly state: "RUN";
      readonly token?: string;
      readonly launch?: ContainerLaunchContext;
      /**
       * Rises whenever `token`, `launch` or `reInitialization` changes after the start, from 0. An
       * agent that has not carried out this one has work to do: a token of a higher version resizes
       * the container, a launch of a higher version replaces its process in place.
       */
      readonly revision?: number;
      readonly reInitialization?: ReInitialization;
    }
  | {
      readonly containerId: ContainerId;
      readonly state: "STOP";
      readonly exitStatus: number;
      readonly diagnostics: string;
    };

export type TrackerMessage =
  /** The answer to `register`: the whole desired set. Any container not in it is to be killed. */
  | {
      readonly type: "registered";
      readonly generation: number;
      readonly desired: readonly DesiredContainer[];
      readonly acknowledged: readonly ContainerId[];
      readonly keys: readonly VerificationKey[];
      /** Applications that are finished, until the agent has said so too. */
      readonly finishedApplications?: readonly ApplicationId[];
      /** How often the agent sends `ping`. */
      readonly pingIntervalMs: number;
    }
  /** Changed entries. Refused by the agent when `generation` is not above the one it holds. */
  | {
      readonly type: "desired";
      readonly generation: number;
      readonly put: readonly DesiredContainer[];
    }
  /** These COMPLETE statuses are stored; forget the containers. */
  | { readonly type: "acknowledge"; readonly containerIds: readonly ContainerId[] }
  | { readonly type: "keys"; readonly keys: readonly VerificationKey[] }
  | {
      readonly type: "read-log";
      readonly requestId: string;
      readonly containerId: ContainerId;
      /** A name such as `stdout`, never a path. */
      readonly file: string;
      /** Byte offset; negative: that many bytes before the end. */
      readonly offset: number;
      /** Epoch ms: what the node knows to be older is left out. */
      readonly sinceMs?: number | undefined;
      readonly lengthMax: number;
      /** With nothing to read yet, wait this long for more before answering (ms). */
      readonly waitMs: number;
    }
  /** To be answered with a `node-answer`. */
  | { readonly type: "node-query"; readonly requestId: string; readonly query: NodeQuery }
  /** No container of these is to start any more. Answered, once nothing is left of them. */
  | { readonly type: "finish-applications"; readonly applicationIds: readonly ApplicationId[] }
  /** The node is not wanted (excluded, replaced by another session, wrong version). */
  | { readonly type: "shutdown"; readonly reason: string };

/** A public Ed25519 key (JWK) that signs ContainerTokens. */
export type VerificationKey = {
  readonly kid: string;
  readonly kty: "OKP";
  readonly crv: "Ed25519";
  readonly x: string;
};

/** What a ContainerToken says (seed 004; YARN's ContainerTokenIdentifier), as JWT claims. */
export const containerTokenClaimsSchema = z.object({
  aud: z.literal("container"),
  containerId: z.string().refine(isContainerId),
  nodeId: z.string(),
  user: z.string(),
  /** Of the container's updates; 0 as allocated. */
  version: z.number().default(0),
  resource: z.object({
    memoryMb: z.number(),
    vcores: z.number(),
    extra: z.record(z.string(), z.number()).optional(),
  }),
  exp: z.number(),
});
export type ContainerTokenClaims = z.infer<typeof containerTokenClaimsSchema>;

/** HTTP fallback: one POST carries the agent's messages up and brings the whole desired set down. */
export const nodeHeartbeatSchema = z.strictObject({
  messages: z.array(agentMessageSchema).max(64),
});
export type NodeHeartbeatResponse = { readonly messages: readonly TrackerMessage[] };

// --- tracker shard → ResourceManager ---------------------------------------------------------

/** A node as the tracker sees it: connected (within its grace) or gone. */
export type NodeReport = {
  readonly node: NodeFacts;
  readonly presence: "PRESENT" | "LOST" | "SHUTDOWN";
  /** Which stay of the node in the cluster this is: a new number after it was LOST or SHUTDOWN. */
  readonly incarnation: number;
  readonly reason: string;
};

/**
 * Everything that changed in the shard since the generation that the ResourceManager acknowledged
 * last. Latest values only, so that hearing it twice, or a newer one first, changes nothing.
 */
export type TrackerReport = {
  readonly shard: string;
  readonly generation: number;
  readonly nodes: readonly NodeReport[];
  readonly containers: readonly ContainerReport[];
};
export type ContainerReport = {
  readonly nodeId: NodeId;
  readonly containerId: ContainerId;
  readonly state: ContainerStatus["state"];
  readonly exitStatus: number;
  readonly diagnostics: string;
};

export type TrackerReportReply = {
  /** The highest generation heard; above the report's: it came late and was ignored. */
  readonly acknowledged: number;
  /** Containers of the report that nobody owns any more. */
  readonly cleanup: readonly CleanupOrder[];
  readonly keys: readonly VerificationKey[];
};

/** The ResourceManager wants this container ended; monotonic, so repeating it is harmless. */
export type CleanupOrder = {
  readonly nodeId: NodeId;
  readonly containerId: ContainerId;
  readonly exitStatus: number;
  readonly diagnostics: string;
};

/** The node is not to take part (any more); said again until it is gone. */
export type ShutdownOrder = { readonly nodeId: NodeId; readonly reason: string };

export interface ResourceTracker {
  /** Stands in for nodeHeartbeat: the tracker speaks for all its nodes, when something changed. */
  reportNodes(report: TrackerReport): Promise<Reply<TrackerReportReply>>;
}
