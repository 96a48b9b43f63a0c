/**
 * The NodeManager's own REST on its way through the control plane: what a node answers to the
 * `get` of a node query (protocol/node-query.ts).
 */
import * as z from "zod";
import { LIMITS } from "./limits.ts";

/** Below it are all paths of the NodeManager's REST. */
export const NODE_WEB_BASE = "/ws/v1/node";

export const nodeWebAnswerSchema = z.union([
  z.object({ json: z.json() }),
  /** A piece of a log, and the byte offset after it. */
  z.object({
    text: z.string().max(LIMITS.logChunkBytesMax * 4),
    nextOffset: z.int().min(0),
    /** Rotation has dropped so many bytes from the offset that was asked for. */
    droppedBytes: z.int().min(1).optional(),
  }),
]);
export type NodeWebAnswer = z.infer<typeof nodeWebAnswerSchema>;
