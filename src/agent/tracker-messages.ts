/**
 * The tracker's messages, checked where they enter the agent. Unknown fields are let through, so
 * that a newer tracker can say more than this agent understands.
 */
import * as z from "zod";
import type { ContainerLaunchContext } from "../shared/container.ts";
import { isContainerId } from "../shared/ids.ts";
import type { TrackerMessage, VerificationKey } from "../shared/protocol/resource-tracker.ts";

const containerId = z.string().refine(isContainerId, "a container id");
const millis = z.number().min(0).max(2_147_483_647);

const launchSchema: z.ZodType<ContainerLaunchContext> = z.object({
  commands: z.array(z.string()),
  environment: z.record(z.string(), z.string()),
  ports: z.array(z.string()),
  readinessCheck: z.object({
    type: z.enum(["DEFAULT", "HTTP", "PORT"]),
    url: z.string().optional(),
    port: z.string().optional(),
    minSuccess: z.number(),
    maxSuccess: z.number(),
    timeoutMs: millis,
    intervalMs: millis.min(1),
  }),
  user: z.string(),
  instance: z.string(),
  sigkillDelayMs: millis,
  registry: z.object({ path: z.string(), token: z.string() }).optional(),
});

const desiredSchema = z.discriminatedUnion("state", [
  z.object({
    containerId,
    state: z.literal("RUN"),
    token: z.string().optional(),
    launch: launchSchema.optional(),
  }),
  z.object({
    containerId,
    state: z.literal("STOP"),
    exitStatus: z.int(),
    diagnostics: z.string(),
  }),
]);

const keySchema: z.ZodType<VerificationKey> = z.object({
  kid: z.string(),
  kty: z.literal("OKP"),
  crv: z.literal("Ed25519"),
  x: z.string(),
});

export const trackerMessageSchema: z.ZodType<TrackerMessage> = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("registered"),
    generation: z.number(),
    desired: z.array(desiredSchema),
    acknowledged: z.array(containerId),
    keys: z.array(keySchema),
    pingIntervalMs: z.number().min(10).max(600_000),
  }),
  z.object({ type: z.literal("desired"), generation: z.number(), put: z.array(desiredSchema) }),
  z.object({ type: z.literal("acknowledge"), containerIds: z.array(containerId) }),
  z.object({ type: z.literal("keys"), keys: z.array(keySchema) }),
  z.object({
    type: z.literal("read-log"),
    requestId: z.string().max(64),
    containerId: z.string(),
    file: z.string(),
    offset: z.int(),
    lengthMax: z.int().min(0),
    waitMs: z.number().min(0),
  }),
  z.object({ type: z.literal("shutdown"), reason: z.string() }),
]);

/** Undefined when the text is no message of the tracker's. */
export function parseTrackerMessage(text: string): TrackerMessage | undefined {
  try {
    return trackerMessageSchema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}

export const heartbeatResponseSchema = z.object({ messages: z.array(trackerMessageSchema) });
