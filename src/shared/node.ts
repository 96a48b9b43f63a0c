/** NodeManagers as the ResourceManager knows them. */
import * as z from "zod";
import { isNodeId } from "./ids.ts";
import { LIMITS } from "./limits.ts";
import { resourceSchema } from "./resource.ts";

/** NodeState (facts/yarn-rm-nm-scheduler.md §2.4); only the states that this system can be in. */
export const NODE_STATES = [
  "RUNNING",
  "UNHEALTHY",
  "LOST",
  "SHUTDOWN",
  "DECOMMISSIONING",
  "DECOMMISSIONED",
] as const;
export type NodeState = (typeof NODE_STATES)[number];

const word = z.string().min(1).max(253);

/** YARN's rule: letters, digits, `-` and `_`, at most 255 characters. */
export const nodeLabelSchema = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9_-]{0,254}$/, "a node label: letters, digits, - and _");

/** The facts a NodeManager states of itself when it registers. */
export const nodeFactsSchema = z.strictObject({
  nodeId: z.string().refine(isNodeId, "host:port, such as worker1.example.com:8041"),
  host: word,
  rack: z
    .string()
    .max(253)
    .regex(/^\/[A-Za-z0-9._/-]*$/, "a rack path such as /default-rack"),
  capability: resourceSchema,
  labels: z.array(word).max(32),
  attributes: z.record(word, z.string().max(253)),
  agentVersion: word,
  healthy: z.boolean(),
  healthReport: z.string().max(LIMITS.diagnosticsLengthMax),
});
export type NodeFacts = z.infer<typeof nodeFactsSchema>;
