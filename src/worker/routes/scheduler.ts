/**
 * The CapacityScheduler's REST (facts/yarn-rm-nm-scheduler.md §1.2, §1.6, §1.7): its queues as they
 * stand, its configuration and its versions, its partitions. Changes are for administrators, who are
 * told every mistake at once; every one of them may be tried first (`?dryRun=true`, or `/validate`).
 */
import type { Context } from "hono";
import * as z from "zod";
import { fail, ok, type Reply } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import { userNameSchema } from "../../shared/names.ts";
import { nodeLabelSchema } from "../../shared/node.ts";
import type {
  SchedulerConf,
  SchedulerConfChange,
  SchedulerConfMutation,
} from "../../shared/protocol/administration.ts";
import { validate } from "../../shared/validation.ts";
import { submitterOf, userOf } from "../auth.ts";
import { type Endpoint, endpoint, jsonBody } from "../endpoint.ts";
import { problem, SUCCESS } from "../problem.ts";
import type { AppEnv } from "../protocols.ts";
import { listParameter } from "../query.ts";
import { schedulerSchema, schedulerView } from "../scheduler-view.ts";

const TAG = "Scheduler";
const CONF = "/ws/v1/cluster/scheduler-conf";

const propertySchema = z.object({ name: z.string(), value: z.string() });
const confSchema = z.object({ version: z.int(), property: z.array(propertySchema) });
const confAnswer = { [SUCCESS.OK]: { description: "What is in force", schema: confSchema } };

/** Hadoop writes maps as `{"entry": [{"key": …, "value": …}]}`; a plain object says the same. */
const text = z.union([z.string(), z.number(), z.boolean()]).transform(String);
const parametersSchema = z.union([
  z.strictObject({
    entry: z
      .union([z.array(z.strictObject({ key: z.string(), value: text.nullish() }))])
      .transform((entries) =>
        Object.fromEntries(entries.map(({ key, value }) => [key, value ?? ""])),
      ),
  }),
  z.record(z.string(), text).transform((entry) => ({ entry })),
]);
const queueSchema = z
  .strictObject({ "queue-name": z.string(), params: parametersSchema })
  .transform(({ "queue-name": queue, params }) => ({ queue, parameters: params.entry }));
/** One or several: JAXB writes a list of one without brackets. */
function oneOrSeveral<Schema extends z.ZodType>(schema: Schema) {
  return z
    .union([z.array(schema).max(LIMITS.queuesMax), schema.transform((one) => [one])])
    .default([]);
}
const mutationSchema = z
  .strictObject({
    "update-queue": oneOrSeveral(queueSchema),
    "add-queue": oneOrSeveral(queueSchema),
    "remove-queue": oneOrSeveral(z.string()),
    "global-updates": parametersSchema.default({ entry: {} }),
  })
  .transform(
    (mutation): SchedulerConfMutation => ({
      updateQueues: mutation["update-queue"],
      addQueues: mutation["add-queue"],
      removeQueues: mutation["remove-queue"],
      globalUpdates: mutation["global-updates"].entry,
    }),
  );
const mutationBody = jsonBody(mutationSchema);

const changeQuery = z.object({
  dryRun: z.enum(["true", "false"]).default("false"),
  comment: z.string().max(LIMITS.descriptionLengthMax).default(""),
});

const labelInfo = z.object({ name: z.string(), exclusivity: z.boolean() });
const labelsSchema = z.object({
  nodeLabelInfo: z.array(
    labelInfo.extend({
      partitionInfo: z.object({
        resourceAvailable: z.object({ memory: z.int(), vCores: z.int() }),
        nodes: z.int(),
      }),
    }),
  ),
});

export const schedulerEndpoints: readonly Endpoint[] = [
  endpoint({
    method: "get",
    path: "/ws/v1/cluster/scheduler",
    tag: TAG,
    summary: "The queues: what each may have, has and waits for",
    answers: {
      [SUCCESS.OK]: { description: "scheduler", schema: z.object({ scheduler: schedulerSchema }) },
    },
    handle: async (c) => {
      const view = await c.var.protocols.resourceManager.getQueues();
      return c.json({ scheduler: { schedulerInfo: schedulerView(view) } });
    },
  }),
  endpoint({
    method: "get",
    path: CONF,
    tag: TAG,
    summary: "The scheduler's configuration, in Hadoop's properties",
    answers: confAnswer,
    handle: async (c) => {
      return c.json(confView(await c.var.protocols.resourceManager.getSchedulerConf()));
    },
  }),
  endpoint({
    method: "put",
    path: CONF,
    tag: TAG,
    summary: "Adds, changes and removes queues and properties, all together or not at all",
    query: changeQuery,
    body: mutationBody,
    answers: confAnswer,
    handle: (c, { query, body: mutation }) => change(c, { type: "mutation", mutation }, query),
  }),
  endpoint({
    method: "post",
    path: `${CONF}/validate`,
    tag: TAG,
    summary: "Says whether a mutation would be accepted, and what would then be in force",
    body: mutationBody,
    answers: confAnswer,
    handle: (c, { body: mutation }) =>
      change(c, { type: "mutation", mutation }, { dryRun: "true", comment: "" }),
  }),
  endpoint({
    method: "put",
    path: `${CONF}/document`,
    tag: TAG,
    summary: "Replaces the whole configuration: capacity-scheduler.xml, or queues in JSON or YAML",
    query: changeQuery,
    body: { format: "json, yaml or xml", schema: z.unknown(), parse: parseDocument },
    answers: confAnswer,
    handle: (c, { query, body }) => change(c, body, query),
  }),
  endpoint({
    method: "get",
    path: `${CONF}/version`,
    tag: TAG,
    summary: "The number of the version in force",
    answers: {
      [SUCCESS.OK]: {
        description: "configversion",
        schema: z.object({ configversion: z.object({ versionID: z.int() }) }),
      },
    },
    handle: async (c) => {
      const { version } = await c.var.protocols.resourceManager.getSchedulerConf();
      return c.json({ configversion: { versionID: version } });
    },
  }),
  endpoint({
    method: "get",
    path: `${CONF}/versions`,
    tag: TAG,
    summary: "The versions kept, newest first",
    answers: {
      [SUCCESS.OK]: {
        description: "Who made which, and when",
        schema: z.object({
          versions: z.array(
            z.object({
              version: z.int(),
              savedMs: z.int(),
              user: z.string(),
              comment: z.string(),
            }),
          ),
        }),
      },
    },
    handle: async (c) => {
      const versions = await c.var.protocols.resourceManager.getSchedulerConfVersions();
      return c.json({ versions: [...versions] });
    },
  }),
  endpoint({
    method: "post",
    path: `${CONF}/rollback`,
    tag: TAG,
    summary: "Makes an earlier version the newest one",
    body: jsonBody(z.strictObject({ version: z.int().min(1) })),
    answers: confAnswer,
    handle: async (c, { body: { version } }) => {
      const { user } = userOf(c);
      const reply = await c.var.protocols.resourceManager.rollBackSchedulerConf(version, user);
      return answer(c, reply);
    },
  }),
  endpoint({
    method: "get",
    path: "/ws/v1/cluster/queues/:queue/access",
    tag: TAG,
    summary: "Whether a user may submit to a queue, or administer it",
    parameters: z.object({ queue: z.string().max(LIMITS.queuePathLengthMax) }),
    query: z.object({
      user: userNameSchema.optional(),
      groups: listParameter(),
      "queue-acl-type": z
        .enum(["SUBMIT_APPLICATIONS", "SUBMIT_APP", "ADMINISTER_QUEUE"])
        .default("SUBMIT_APPLICATIONS"),
    }),
    answers: {
      [SUCCESS.OK]: {
        description: "Also 200 for a refusal, as in YARN",
        schema: z.object({ allowed: z.boolean(), user: z.string(), diagnostics: z.string() }),
      },
    },
    handle: async (c, { parameters: { queue }, query }) => {
      const right = query["queue-acl-type"] === "ADMINISTER_QUEUE" ? "administer" : "submit";
      const self = submitterOf(c);
      const isOther = query.user !== undefined && query.user !== self.user;
      const { resourceManager } = c.var.protocols;
      if (isOther) {
        const allowed = await resourceManager.checkQueueAccess(queue, "administer", self);
        if (!allowed.ok) return problem(c, allowed.error);
      }
      const groups = query.groups ?? [];
      const who = isOther ? { user: query.user ?? "", groups, isAdmin: false } : self;
      const reply = await resourceManager.checkQueueAccess(queue, right, who);
      if (!reply.ok && reply.error.code !== "PERMISSION_DENIED") return problem(c, reply.error);
      const diagnostics = reply.ok ? "" : reply.error.message;
      return c.json({ allowed: reply.ok, user: who.user, diagnostics });
    },
  }),
  endpoint({
    method: "get",
    path: "/ws/v1/cluster/get-node-labels",
    tag: TAG,
    summary: "The cluster's node labels, which are its partitions",
    answers: {
      [SUCCESS.OK]: {
        description: "nodeLabelsInfo",
        schema: z.object({ nodeLabelsInfo: labelsSchema }),
      },
    },
    handle: async (c) => {
      const labels = await c.var.protocols.resourceManager.getNodeLabels();
      const nodeLabelInfo = labels.map(({ name, exclusive, nodes, total }) => ({
        name,
        exclusivity: exclusive,
        partitionInfo: {
          resourceAvailable: { memory: total.memoryMb, vCores: total.vcores },
          nodes,
        },
      }));
      return c.json({ nodeLabelsInfo: { nodeLabelInfo } });
    },
  }),
  endpoint({
    method: "post",
    path: "/ws/v1/cluster/add-node-labels",
    tag: TAG,
    summary: "Adds node labels, or changes whether they are exclusive",
    body: jsonBody(
      z.strictObject({
        nodeLabelInfo: oneOrSeveral(
          z.strictObject({ name: nodeLabelSchema, exclusivity: z.boolean().default(true) }),
        ),
      }),
    ),
    answers: confAnswer,
    handle: async (c, { body: { nodeLabelInfo } }) => {
      const known = await c.var.protocols.resourceManager.getNodeLabels();
      const labels = new Map(known.map(({ name, exclusive }) => [name, exclusive]));
      for (const { name, exclusivity } of nodeLabelInfo) labels.set(name, exclusivity);
      return changeLabels(c, labels);
    },
  }),
  endpoint({
    method: "post",
    path: "/ws/v1/cluster/remove-node-labels",
    tag: TAG,
    summary: "Removes node labels that no queue names any more",
    query: z.object({ labels: listParameter().pipe(z.array(nodeLabelSchema).min(1)) }),
    answers: confAnswer,
    handle: async (c, { query }) => {
      const known = await c.var.protocols.resourceManager.getNodeLabels();
      const labels = new Map(known.map(({ name, exclusive }) => [name, exclusive]));
      const unknown = query.labels.find((label) => !labels.has(label));
      if (unknown !== undefined) {
        return problem(c, fail("NOT_FOUND", `there is no node label ${unknown}`).error);
      }
      for (const label of query.labels) labels.delete(label);
      return changeLabels(c, labels);
    },
  }),
];

/** `yarn.node-labels.cluster-node-labels` is where labels stand: `gpu(exclusive=false),ssd`. */
function changeLabels(c: Context<AppEnv>, labels: ReadonlyMap<string, boolean>): Promise<Response> {
  const value = [...labels].map(([name, exclusive]) => `${name}(exclusive=${exclusive})`).join(",");
  const mutation = {
    updateQueues: [],
    addQueues: [],
    removeQueues: [],
    globalUpdates: { "yarn.node-labels.cluster-node-labels": value },
  };
  return change(c, { type: "mutation", mutation }, { dryRun: "false", comment: "node labels" });
}

/** XML comes as text; everything else is looked at by the ResourceManager. */
function parseDocument(input: unknown): Reply<SchedulerConfChange> {
  if (typeof input === "string") return ok({ type: "xml", text: input });
  const value = validate(z.record(z.string(), z.unknown()), input);
  return value.ok ? ok({ type: "document", value: value.value }) : value;
}

async function change(
  c: Context<AppEnv>,
  what: SchedulerConfChange,
  { dryRun, comment }: z.output<typeof changeQuery>,
): Promise<Response> {
  const by = { user: userOf(c).user, comment, isDryRun: dryRun === "true" };
  return answer(c, await c.var.protocols.resourceManager.changeSchedulerConf(what, by));
}

function answer(c: Context<AppEnv>, reply: Reply<SchedulerConf>): Response {
  return reply.ok ? c.json(confView(reply.value)) : problem(c, reply.error);
}

function confView({ version, properties }: SchedulerConf): z.input<typeof confSchema> {
  const property = Object.entries(properties).map(([name, value]) => ({ name, value }));
  return { version, property };
}
