/**
 * Questions to one NodeManager, put through its connection: what YARN's clients ask a NodeManager
 * directly. The answer is JSON text, which nobody on the way looks into.
 */
import * as z from "zod";
import type { Reply } from "../errors.ts";
import { ERROR_CODES } from "../errors.ts";
import { isContainerId, type NodeId } from "../ids.ts";
import { LIMITS } from "../limits.ts";

/** SignalContainerCommand: SIGQUIT, SIGTERM and SIGKILL. */
export const SIGNAL_CONTAINER_COMMANDS = [
  "OUTPUT_THREAD_DUMP",
  "GRACEFUL_SHUTDOWN",
  "FORCEFUL_SHUTDOWN",
] as const;
export type SignalContainerCommand = (typeof SIGNAL_CONTAINER_COMMANDS)[number];

const containerId = z.string().refine(isContainerId, "a container id");

export const nodeQuerySchema = z.discriminatedUnion("type", [
  /** signalToContainer; a container that has no process at the moment fails it. */
  z.object({
    type: z.literal("signal"),
    containerId,
    command: z.enum(SIGNAL_CONTAINER_COMMANDS),
  }),
  /** What one container, or each of them, uses at this moment. */
  z.object({ type: z.literal("usage"), containerId: containerId.optional() }),
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
   * does not answer within 10 s; any other failure is the node's own.
   */
  queryNode(nodeId: NodeId, query: NodeQuery): Promise<Reply<string>>;
}
