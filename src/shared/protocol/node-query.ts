/**
 * Questions to one NodeManager, put through its connection: what YARN's clients ask a NodeManager
 * directly. The answer is JSON text, which nobody on the way looks into.
 */
import * as z from "zod";
import type { Reply } from "../errors.ts";
import { ERROR_CODES } from "../errors.ts";
import { isContainerId, type NodeId } from "../ids.ts";
import { LIMITS } from "../limits.ts";
import { streamOpeningSchema } from "./node-stream.ts";

/** SignalContainerCommand: SIGQUIT, SIGTERM and SIGKILL. */
export const SIGNAL_CONTAINER_COMMANDS = [
  "OUTPUT_THREAD_DUMP",
  "GRACEFUL_SHUTDOWN",
  "FORCEFUL_SHUTDOWN",
] as const;
export type SignalContainerCommand = (typeof SIGNAL_CONTAINER_COMMANDS)[number];

/**
 * How long a signal may be on its way to a process. Also by how much the clocks of a node and of the
 * cluster may differ, hence not shorter.
 */
export const SIGNAL_LIFETIME_MS = 60_000;
/** `reason` of a failure: whether the node has carried out what it was asked is not known. */
export const NODE_DID_NOT_ANSWER = "NodeDidNotAnswer";

const containerId = z.string().refine(isContainerId, "a container id");

export const nodeQuerySchema = z.discriminatedUnion("type", [
  /**
   * signalToContainer; a container that has no process at the moment fails it. Said again with the
   * same request id it is answered as before, and sent to no process again.
   */
  z.object({
    type: z.literal("signal"),
    containerId,
    command: z.enum(SIGNAL_CONTAINER_COMMANDS),
    /** Epoch ms after which it must not be sent to a process any more. */
    expiresMs: z.int(),
  }),
  /** What one container, or each of them, uses at this moment. */
  z.object({ type: z.literal("usage"), containerId: containerId.optional() }),
  /**
   * A user wants a stream into a container. The node answers once it could be, or why it cannot, and
   * then connects its end of it: `GET /ws/v1/node/streams/{streamId}` with the secret.
   */
  streamOpeningSchema.extend({
    type: z.literal("open-stream"),
    streamId: z.uuid(),
    secret: z.string().regex(/^[0-9a-f]{64}$/),
  }),
  /** The NodeManager's own REST API: a path such as `/ws/v1/node/containers`. */
  z.object({
    type: z.literal("get"),
    path: z
      .string()
      .max(LIMITS.urlLengthMax)
      .regex(/^\/ws\/v1\/node(?:[/?]|$)/, "a path below /ws/v1/node"),
  }),
]);
export type NodeQuery = z.infer<typeof nodeQuerySchema>;

/** Answer to `node-query`. */
export const nodeAnswerSchema = z.strictObject({
  type: z.literal("node-answer"),
  requestId: z.string().max(64),
  /** JSON; absent when it failed. */
  body: z.string().max(LIMITS.nodeAnswerLengthMax).optional(),
  error: z
    .object({
      code: z.enum(ERROR_CODES),
      message: z.string().max(LIMITS.diagnosticsLengthMax),
      hint: z.string().max(LIMITS.diagnosticsLengthMax).optional(),
    })
    .optional(),
});
export type NodeAnswer = z.infer<typeof nodeAnswerSchema>;

export interface NodeQueries {
  /**
   * Asks a connected node. The value is JSON text. UNAVAILABLE when the node is not connected, or
   * does not answer within 10 s (`NODE_DID_NOT_ANSWER`); any other failure is the node's own.
   */
  queryNode(nodeId: NodeId, query: NodeQuery): Promise<Reply<string>>;
}
