/** The registry's reads for docs/openapi.json; their routes are not made of endpoints. */
import * as z from "zod";
import { LIMITS } from "../shared/limits.ts";

const endpointSchema = z.object({
  api: z.string(),
  addressType: z.string(),
  protocolType: z.string(),
  protocol: z.string().optional().describe("The same, under its older name."),
  addresses: z.array(z.record(z.string(), z.string())),
});

export const serviceRecordSchema = z
  .looseObject({
    type: z.literal("JSONServiceRecord"),
    description: z.string().optional(),
    external: z.array(endpointSchema),
    internal: z.array(endpointSchema),
  })
  .meta({ id: "ServiceRecord", description: "Attributes stand beside the fixed fields." });

const statSchema = z
  .object({
    path: z.string().describe("Short name; empty for the root."),
    time: z.int().describe("When it was created, epoch ms."),
    size: z.int().describe("Bytes of the record; 0 without one."),
    children: z.int(),
    version: z.int().describe("Of the record; 0 without one."),
  })
  .meta({ id: "RegistryPathStatus" });

const path = z.string();
const next = z.string().optional().describe("`after` of the next page; absent on the last.");
const record = serviceRecordSchema.optional();

const nodeSchema = z
  .object({ path, stat: statSchema, record, children: z.array(z.string()) })
  .meta({ id: "RegistryNode" });
const listSchema = z
  .object({
    path,
    children: z.array(z.object({ ...statSchema.shape, hasRecord: z.boolean() })),
    next,
  })
  .meta({ id: "RegistryChildren" });
const subtreeSchema = z
  .object({
    path,
    depth: z.int(),
    nodes: z.array(z.object({ path, stat: statSchema, record })),
    truncated: z.boolean(),
    next,
  })
  .meta({ id: "RegistrySubtree" });
const findSchema = z
  .object({ matches: z.array(z.object({ path, record: serviceRecordSchema })), next })
  .meta({ id: "RegistryMatches" });
const pollSchema = z
  .object({
    events: z.array(
      z.object({ type: z.enum(["bound", "created", "deleted"]), path, version: z.int(), record }),
    ),
    reset: z.literal(true).optional().describe("Events were lost: read again."),
    next: z.int().describe("`after` of the next poll."),
  })
  .meta({ id: "RegistryEvents" });

/** By the view that each is the answer of. */
export const REGISTRY_ANSWERS = [nodeSchema, listSchema, subtreeSchema, findSchema, pollSchema];

const whole = (minimum: number, maximum: number) => ({ type: "integer", minimum, maximum });
const text = { type: "string" };
const flag = { type: "string", enum: ["", "true"] };

/** Name, JSON schema, description. */
const PARAMETERS: readonly (readonly [string, object, string])[] = [
  ["strict", { type: "string", enum: ["hadoop"] }, "Records as Hadoop's own class reads them."],
  ["list", flag, "The children with their status, in pages."],
  ["depth", whole(0, LIMITS.registryPathDepthMax), "The subtree to this depth, in pages."],
  ["find", flag, "Records at and below the path for which all conditions hold, in pages."],
  ["endpointField.api", text, "With find: of an endpoint."],
  ["endpointField.protocolType", text, "With find: of the same endpoint, in any case."],
  ["endpointField.protocol", text, "The older name of endpointField.protocolType."],
  ["endpointField.addressType", text, "With find: of the same endpoint."],
  ["external", flag, "With find: only endpoints of this list."],
  ["internal", flag, "With find: only endpoints of this list."],
  [
    "text",
    { type: "string", maxLength: LIMITS.registryFindTextLengthMax },
    "With find: part of any text in the record, in any case. Attributes: attribute.NAME=VALUE.",
  ],
  ["limit", whole(1, LIMITS.registryPageMax), "Of a page; 100 when not said."],
  ["after", text, "`next` of the page before; of a watch, the last event's id."],
  [
    "watch",
    { type: "string", enum: ["", "true", "poll"] },
    "Changes at and below the path: server-sent events, or one long poll.",
  ],
  ["wait", whole(0, LIMITS.registryPollWaitMsMax), "With watch=poll: ms; 20,000 when not said."],
];

/** The operation, given the references to REGISTRY_ANSWERS and to the answer of a failure. */
export function registryOperation(answers: readonly object[], problem: object, ok: number) {
  return {
    tags: ["Registry"],
    summary: "A node of the registry, its children, its subtree, a search below it, or its changes",
    security: [],
    parameters: [
      {
        name: "path",
        in: "path",
        required: true,
        description:
          "Path elements, separated by slashes; empty for the root. Below net/{cluster}: of that cluster, `stale` where it could not be asked.",
        schema: { type: "string" },
      },
      { name: "If-None-Match", in: "header", required: false, schema: text },
      {
        name: "Cache-Control",
        in: "header",
        required: false,
        description: "no-cache: read anew what the edge may have kept.",
        schema: text,
      },
      {
        name: "Last-Event-ID",
        in: "header",
        required: false,
        description: "With watch: go on after this event.",
        schema: text,
      },
      ...PARAMETERS.map(([name, schema, description]) => ({
        name,
        in: "query",
        required: false,
        description,
        schema,
      })),
    ],
    responses: {
      [ok]: {
        description: "What was asked for",
        content: {
          "application/json": { schema: { anyOf: answers } },
          "text/event-stream": { schema: text },
          "text/html": { schema: text },
        },
      },
      default: problem,
    },
  };
}
