/**
 * The YARN Service API (seed 001; facts/yarn-services.md §1): create, list, look at, change and
 * destroy services, read their timeline and their containers' logs. Names are checked here before
 * they choose a ServiceMaster; what makes a valid service is decided by the master.
 */
import type { Context } from "hono";
import * as z from "zod";
import { fail, ok, type Reply } from "../../shared/errors.ts";
import { applicationOfContainer, isContainerId, type NodeId } from "../../shared/ids.ts";
import { LIMITS } from "../../shared/limits.ts";
import { componentNameSchema, DEFAULT_CLUSTER, serviceNameSchema } from "../../shared/names.ts";
import type { ServiceEntry, Submitter } from "../../shared/protocol/application-client.ts";
import type { ReadLogResponse } from "../../shared/protocol/container-management.ts";
import type { FlexResult, ServiceProtocol } from "../../shared/protocol/service.ts";
import { SERVICE_STATES, type ServiceState, type ServiceView } from "../../shared/service.ts";
import {
  flexComponentSchema,
  parseServiceUpdate,
  type ServiceUpdate,
  updateServiceSchema,
} from "../../shared/service-update.ts";
import { parseComponentUpdate } from "../../shared/service-upgrade.ts";
import { validate } from "../../shared/validation.ts";
import { SERVICE_API_VERSION } from "../../shared/version.ts";
import { parseYarnfile, serviceSchema, type Yarnfile } from "../../shared/yarnfile.ts";
import { actAs, submitterOf, userOf } from "../auth.ts";
import { type Endpoint, endpoint } from "../endpoint.ts";
import {
  logSchema,
  serviceEventSchema,
  servicePlanSchema,
  serviceStatusSchema,
  serviceSummarySchema,
} from "../openapi-schemas.ts";
import { problem, SUCCESS } from "../problem.ts";
import type { AppEnv } from "../protocols.ts";
import {
  listParameter,
  sinceParameter,
  userParameter,
  wholeNumber,
  wordsParameter,
} from "../query.ts";
import { masterOf, visibleMaster } from "./service-access.ts";
import { describeUpgrade, upgradeParts } from "./service-upgrade.ts";

const TAG = "Services";
/** Stays below the time that proxies on the way leave a request open. */
const LOG_WAIT_MS_MAX = 20_000;

const ofService = z.object({ service: serviceNameSchema });
const ofComponent = z.object({ service: serviceNameSchema, component: componentNameSchema });
const forUser = z.object(userParameter);
const listQuery = z.object({
  ...userParameter,
  state: wordsParameter<ServiceState>(SERVICE_STATES, { READY: "STABLE" }),
  version: listParameter(),
  component: listParameter(),
});
type ListQuery = z.output<typeof listQuery>;

const logQuery = z.object({
  ...userParameter,
  instance: z.string().max(LIMITS.nameLengthMax).optional(),
  containerId: z.string().refine(isContainerId, "expects a container id").optional(),
  file: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, "expects a file name such as stdout")
    .default("stdout"),
  ...sinceParameter,
  offset: wholeNumber(-(2 ** 40), 2 ** 40, 0),
  length: wholeNumber(1, LIMITS.logChunkBytesMax, LIMITS.logChunkBytesMax),
  wait: wholeNumber(0, LOG_WAIT_MS_MAX, 0),
});
type LogQuery = z.output<typeof logQuery>;

const statusAnswer = (description: string) => ({ description, schema: serviceStatusSchema });

export const serviceEndpoints: readonly Endpoint[] = [
  endpoint({
    method: "get",
    path: "/app/v1/services/version",
    tag: TAG,
    summary: "Version of the Service API",
    answers: {
      [SUCCESS.OK]: { description: "The version", schema: z.object({ version: z.string() }) },
    },
    handle: (c) => c.json({ version: SERVICE_API_VERSION }),
  }),
  endpoint({
    method: "post",
    path: "/app/v1/services",
    tag: TAG,
    summary: "Creates a service and starts it; with state STOPPED it is only saved",
    query: forUser,
    body: { format: "json or yaml", schema: serviceSchema, parse: parseNewService },
    answers: { [SUCCESS.ACCEPTED]: statusAnswer("The service is accepted") },
    handle: (c, { query, body }) => createService(c, query.user, body),
  }),
  endpoint({
    method: "post",
    path: "/app/v1/services/plan",
    tag: TAG,
    summary: "A dry run: where its containers would go, what would wait, what would be preempted",
    query: forUser,
    body: { format: "json or yaml", schema: serviceSchema, parse: parseNewService },
    answers: { [SUCCESS.OK]: { description: "Nothing was changed", schema: servicePlanSchema } },
    handle: async (c, { query, body }) => {
      const user = actAs(c, query.user);
      if (!user.ok) return problem(c, user.error);
      const master = c.var.protocols.serviceMaster(user.value, body.name);
      const reply = await master.plan(user.value, body, submitterOf(c));
      return reply.ok ? c.json(reply.value) : problem(c, reply.error);
    },
  }),
  endpoint({
    method: "get",
    path: "/app/v1/services",
    tag: TAG,
    summary:
      "The caller's services; of ?user= those that let the caller in; an administrator's are all",
    query: listQuery,
    answers: {
      [SUCCESS.OK]: {
        description: "A minimal projection of each service that passes all filters",
        schema: z.array(serviceSummarySchema),
      },
    },
    handle: async (c, { query }) => {
      const user = listedUser(c, query.user);
      const wanted = user.ok ? user.value : (query.user ?? null);
      const entries = await c.var.protocols.resourceManager.listServices(submitterOf(c));
      const listed = entries.filter((entry) => isListed(entry, wanted, query));
      return user.ok || listed.length > 0 ? c.json(listed.map(summaryOf)) : problem(c, user.error);
    },
  }),
  endpoint({
    method: "get",
    path: "/app/v1/services/:service",
    tag: TAG,
    summary: "A service with its components and containers",
    parameters: ofService,
    query: forUser,
    answers: { [SUCCESS.OK]: { description: "The service", schema: serviceSchema } },
    handle: async (c, { parameters, query }) => {
      const master = await visibleMaster(c, query.user, parameters.service);
      if (!master.ok) return problem(c, master.error);
      const reply = await master.value.get();
      return reply.ok ? c.json(reply.value) : problem(c, reply.error);
    },
  }),
  endpoint({
    method: "put",
    path: "/app/v1/services/:service",
    tag: TAG,
    summary: "Starts, stops, flexes or upgrades a service, or changes its lifetime",
    parameters: ofService,
    query: forUser,
    body: {
      format: "json or yaml",
      schema: updateServiceSchema,
      parse: (input, { service }) => parseServiceUpdate(service, input),
    },
    answers: {
      [SUCCESS.ACCEPTED]: statusAnswer("FLEX, or a state that upgrades: accepted"),
      [SUCCESS.NO_CONTENT]: { description: "STARTED (finalize), STOPPED, lifetime: done" },
    },
    handle: async (c, { parameters, query, body }) => {
      const user = actAs(c, query.user);
      if (!user.ok) return problem(c, user.error);
      const master = c.var.protocols.serviceMaster(user.value, parameters.service);
      const reply = await updateService(master, body, { user: user.value, by: submitterOf(c) });
      if (!reply.ok) return problem(c, reply.error);
      const diagnostics = reply.value;
      if (diagnostics === undefined) return c.body(null, SUCCESS.NO_CONTENT);
      return c.json({ diagnostics, state: "ACCEPTED" }, SUCCESS.ACCEPTED);
    },
  }),
  endpoint({
    method: "delete",
    path: "/app/v1/services/:service",
    tag: TAG,
    summary: "Stops a service and removes everything of it",
    parameters: ofService,
    query: forUser,
    answers: { [SUCCESS.NO_CONTENT]: { description: "The service is gone" } },
    handle: async (c, { parameters, query }) => {
      const master = masterOf(c, query.user, parameters.service);
      if (!master.ok) return problem(c, master.error);
      const reply = await master.value.destroy();
      return reply.ok ? c.body(null, SUCCESS.NO_CONTENT) : problem(c, reply.error);
    },
  }),
  endpoint({
    method: "put",
    path: "/app/v1/services/:service/components/:component",
    tag: TAG,
    summary: "Flexes a component; with state UPGRADING, upgrades all its instances",
    parameters: ofComponent,
    query: forUser,
    body: {
      format: "json or yaml",
      schema: flexComponentSchema,
      parse: (input, { component }) => parseComponentUpdate(component, input),
    },
    answers: {
      [SUCCESS.OK]: statusAnswer("The new number of containers is accepted"),
      [SUCCESS.ACCEPTED]: statusAnswer("The upgrade of its instances is accepted"),
    },
    handle: async (c, { parameters, query, body }) => {
      if ("upgrade" in body) return upgradeParts(c, query.user, parameters.service, body.upgrade);
      const master = masterOf(c, query.user, parameters.service);
      if (!master.ok) return problem(c, master.error);
      const reply = await master.value.flex([body.flex]);
      if (!reply.ok) return problem(c, reply.error);
      return c.json({ diagnostics: reply.value.map(describeFlex).join("\n") });
    },
  }),
  endpoint({
    method: "get",
    path: "/app/v1/services/:service/events",
    tag: TAG,
    summary: "What happened to a service, oldest first",
    parameters: ofService,
    query: forUser,
    answers: { [SUCCESS.OK]: { description: "The timeline", schema: z.array(serviceEventSchema) } },
    handle: async (c, { parameters, query }) => {
      const master = await visibleMaster(c, query.user, parameters.service);
      if (!master.ok) return problem(c, master.error);
      const reply = await master.value.events();
      return reply.ok ? c.json(reply.value) : problem(c, reply.error);
    },
  }),
  endpoint({
    method: "get",
    path: "/app/v1/services/:service/logs",
    tag: TAG,
    summary: "Part of a container's log: of an instance's newest container, or of containerId",
    parameters: ofService,
    query: logQuery,
    answers: { [SUCCESS.OK]: { description: "The bytes read, as text", schema: logSchema } },
    handle: async (c, { parameters, query }) => {
      const master = await visibleMaster(c, query.user, parameters.service);
      if (!master.ok) return problem(c, master.error);
      const view = await master.value.get();
      if (!view.ok) return problem(c, view.error);
      const container = await findContainer(c, view.value, query);
      if (!container.ok) return problem(c, container.error);
      const reply = await readLog(c, view.value.user, container.value, query);
      return reply.ok ? c.json(reply.value) : problem(c, reply.error);
    },
  }),
];

/** The name chooses the master, so it is checked before anything is asked of one. */
function parseNewService(input: unknown): Reply<Yarnfile> {
  const parsed = parseYarnfile(input);
  if (!parsed.ok) return parsed;
  const name = validate(z.object({ name: serviceNameSchema }), { name: parsed.value.name });
  return name.ok ? parsed : name;
}

async function createService(
  c: Context<AppEnv>,
  requestedUser: string | undefined,
  yarnfile: Yarnfile,
): Promise<Response> {
  const user = actAs(c, requestedUser);
  if (!user.ok) return problem(c, user.error);
  const master = c.var.protocols.serviceMaster(user.value, yarnfile.name);
  const reply = await master.create(user.value, yarnfile, submitterOf(c));
  if (!reply.ok) return problem(c, reply.error);
  const { applicationId } = reply.value;
  const { cluster } = c.var;
  const prefix = cluster === DEFAULT_CLUSTER ? "" : `/clusters/${cluster}`;
  c.header("Location", `${prefix}/app/v1/services/${yarnfile.name}`);
  return c.json(
    {
      uri: `/v1/services/${yarnfile.name}`,
      diagnostics:
        applicationId === null
          ? `Service ${yarnfile.name} version ${yarnfile.version} saved`
          : `Application ID: ${applicationId}`,
      state: "ACCEPTED",
      ...(applicationId === null ? {} : { id: applicationId }),
    },
    SUCCESS.ACCEPTED,
  );
}

/**
 * Hadoop obeys the first of these that it finds and drops the others silently; here all count.
 * Answers what was accepted, in words; undefined: what was asked for is done.
 */
async function updateService(
  master: ServiceProtocol,
  { state, upgrade, lifetime, flex }: ServiceUpdate,
  caller: { readonly user: string; readonly by: Submitter },
): Promise<Reply<string | undefined>> {
  if (upgrade) {
    const reply = await master.upgrade(caller.user, upgrade.mode, upgrade.yarnfile);
    return reply.ok ? ok(describeUpgrade(reply.value)) : reply;
  }
  let accepted: string | undefined;
  if (state === undefined && lifetime === undefined) {
    const exists = await master.get();
    if (!exists.ok) return exists;
  } else if (state === "FLEX") {
    const reply = await master.flex(flex);
    if (!reply.ok) return reply;
    accepted = reply.value.map(describeFlex).join("\n");
  } else if (state === "CANCEL_UPGRADING") {
    const reply = await master.cancelUpgrade();
    if (!reply.ok) return reply;
    accepted = "The upgrade is being taken back";
  } else if (state !== undefined) {
    const reply = await (state === "STARTED" ? master.start(caller.by) : master.stop());
    if (!reply.ok) return reply;
  }
  const reply = lifetime === undefined ? ok() : await master.setLifetime(lifetime);
  return reply.ok ? ok(accepted) : reply;
}

/** Whose services are listed; null: everybody's. */
function listedUser(c: Context<AppEnv>, requested: string | undefined): Reply<string | null> {
  if (requested === undefined && userOf(c).role === "admin") return ok(null);
  return actAs(c, requested);
}

function isListed(entry: ServiceEntry, user: string | null, query: ListQuery): boolean {
  const { state, version, component } = query;
  return (
    (user === null || entry.user === user) &&
    (state === undefined || state.some((wanted) => wanted === entry.state)) &&
    (version === undefined || version.includes(entry.version)) &&
    (component === undefined || entry.components.some((name) => component.includes(name)))
  );
}

function summaryOf(entry: ServiceEntry): z.input<typeof serviceSummarySchema> {
  return {
    name: entry.name,
    version: entry.version,
    user: entry.user,
    id: entry.applicationId,
    state: entry.state,
    components: entry.components.map((name) => ({ name })),
  };
}

function describeFlex({ component, from, to }: FlexResult): string {
  return `Updating component (${component}) size from ${from} to ${to}`;
}

/** `nodeId` is null where only the store may still know the container. */
type Located = { readonly containerId: string; readonly nodeId: NodeId | null };

/** Where a container of the service runs or ran; never one of another service. */
async function findContainer(
  c: Context<AppEnv>,
  view: ServiceView,
  { instance, containerId }: LogQuery,
): Promise<Reply<Located>> {
  if ((instance === undefined) === (containerId === undefined)) {
    return fail("INVALID_ARGUMENT", "a log is read of one container", {
      hint: "give either instance, such as ?instance=hello-0, or containerId",
    });
  }
  const containers = view.components.flatMap((component) => component.containers);
  const found = containers.findLast(({ id, component_instance_name }) =>
    containerId === undefined ? component_instance_name === instance : id === containerId,
  );
  if (found) return ok({ containerId: found.id, nodeId: found.node_id });
  if (containerId !== undefined) return findEarlierContainer(c, view, containerId);
  const names = [...new Set(containers.map((each) => each.component_instance_name))];
  return fail("NOT_FOUND", `service ${view.name} has no container for instance ${instance}`, {
    hint: names.length > 0 ? `it has ${names.slice(0, 20).join(", ")}` : "none has started yet",
  });
}

/** From the node where the container is or was; if that is away or has dropped it, from the store. */
async function readLog(
  c: Context<AppEnv>,
  user: string,
  { containerId, nodeId }: Located,
  { file, offset, since: sinceMs, length, wait }: LogQuery,
): Promise<Reply<ReadLogResponse>> {
  const { nodes, logs } = c.var.protocols;
  const live =
    nodeId === null
      ? fail("NOT_FOUND", `no node knows ${containerId}`)
      : await nodes.readLog({
          ...{ nodeId, containerId, file, offset, sinceMs },
          lengthMax: length,
          waitMs: wait,
        });
  const isGone = !live.ok && ["UNAVAILABLE", "NOT_FOUND"].includes(live.error.code);
  const droppedBytes = live.ok ? (live.value.droppedBytes ?? 0) : 0;
  // An offset from the end is the node's only: the store's end is another one.
  const isDropped = droppedBytes > 0 && offset >= 0;
  if (!(isGone || isDropped) || logs === null) return live;
  const kept = await logs.read(user, containerId, { file, offset, length, sinceMs });
  if (!kept.ok) return live;
  const isStored = kept.value.data !== "" && (kept.value.droppedBytes ?? 0) < droppedBytes;
  return isGone || isStored ? kept : live;
}

/** A container that has been replaced is no longer shown, but its log may still be on its node. */
async function findEarlierContainer(
  c: Context<AppEnv>,
  view: ServiceView,
  containerId: string,
): Promise<Reply<Located>> {
  if (applicationOfContainer(containerId) === view.id) {
    const owner = await c.var.protocols.resourceManager.getContainerOwner(containerId);
    if (owner.ok) return ok({ containerId, nodeId: owner.value.nodeId });
  }
  return fail("NOT_FOUND", `service ${view.name} has no container ${containerId}`);
}
