/**
 * The tracker's messages, checked where they enter the agent. Unknown fields are let through, so
 * that a newer tracker can say more than this agent understands.
 */
import * as z from "zod";
import { logAggregationSchema } from "../shared/aggregated-logs.ts";
import {
  type ContainerLaunchContext,
  type ContainerRetry,
  type ContainerRuntime,
  LOCAL_RESOURCE_VISIBILITIES,
  type LocalResource,
} from "../shared/container.ts";
import { isApplicationId, isContainerId } from "../shared/ids.ts";
import { nodeQuerySchema } from "../shared/protocol/node-query.ts";
import type { TrackerMessage, VerificationKey } from "../shared/protocol/resource-tracker.ts";

const containerId = z.string().refine(isContainerId, "a container id");
const applicationId = z.string().refine(isApplicationId, "an application id");
const millis = z.number().min(0).max(2_147_483_647);

const localResourceSchema: z.ZodType<LocalResource> = z.object({
  url: z.string(),
  type: z.enum(["FILE", "ARCHIVE"]),
  visibility: z.enum(LOCAL_RESOURCE_VISIBILITIES),
  sha256: z.string().optional(),
  sizeBytes: z.number().optional(),
  timestampMs: z.number().optional(),
});

const retrySchema: z.ZodType<ContainerRetry> = z.object({
  policy: z.enum(["NEVER_RETRY", "RETRY_ON_ALL_ERRORS", "RETRY_ON_SPECIFIC_ERROR_CODES"]),
  errorCodes: z.array(z.number()).optional(),
  maxRetries: z.int().min(-1),
  retryIntervalMs: millis,
  failuresValidityIntervalMs: z.number(),
});

const runtimeSchema: z.ZodType<ContainerRuntime> = z.discriminatedUnion("type", [
  z.object({ type: z.literal("process") }),
  z.object({
    type: z.literal("docker"),
    image: z.string(),
    useEntryPoint: z.boolean(),
    network: z.string(),
    hostname: z.string().optional(),
    privileged: z.boolean(),
    mounts: z.array(
      z.object({ source: z.string(), destination: z.string(), readOnly: z.boolean() }),
    ),
    clientConfig: z.string().optional(),
  }),
]);

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
  localResources: z.record(z.string(), localResourceSchema).optional(),
  files: z
    .record(z.string(), z.object({ content: z.string(), executable: z.boolean().optional() }))
    .optional(),
  serviceData: z.record(z.string(), z.string()).optional(),
  credentials: z.record(z.string(), z.string()).optional(),
  logAggregation: logAggregationSchema.optional(),
  retry: retrySchema.optional(),
  runtime: runtimeSchema.optional(),
  version: z.int().min(1).optional(),
  registry: z.object({ path: z.string(), token: z.string() }).optional(),
});

const desiredSchema = z.discriminatedUnion("state", [
  z.object({
    containerId,
    state: z.literal("RUN"),
    token: z.string().optional(),
    launch: launchSchema.optional(),
    revision: z.int().min(0).optional(),
    reInitialization: z.enum(["PENDING", "COMMITTED", "ROLLED_BACK"]).optional(),
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
    finishedApplications: z.array(applicationId).optional(),
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
  z.object({
    type: z.literal("node-query"),
    requestId: z.string().max(64),
    query: nodeQuerySchema,
  }),
  z.object({
    type: z.literal("finish-applications"),
    applicationIds: z.array(applicationId),
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
