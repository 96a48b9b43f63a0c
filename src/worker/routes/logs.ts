/**
 * Aggregated logs. A node announces a container while the ResourceManager knows that it is there,
 * and then writes its logs and no others. Reading is for the user who ran the application, for
 * administrators, and for whom the ACL lets in that the application had.
 */
import type { Context } from "hono";
import * as z from "zod";
import {
  aggregatedContainerSchema,
  aggregatedFileSchema,
  announceLogsSchema,
  containerIdSchema,
  type LogsAnnouncement,
  logFileNameSchema,
  NO_LOG_STORE,
} from "../../shared/aggregated-logs.ts";
import { fail, ok, type Reply } from "../../shared/errors.ts";
import { type ContainerId, isApplicationId } from "../../shared/ids.ts";
import { LIMITS } from "../../shared/limits.ts";
import { userNameSchema } from "../../shared/names.ts";
import { actAs, nodeOf, submitterOf } from "../auth.ts";
import { type Endpoint, endpoint, jsonBody } from "../endpoint.ts";
import { logSchema } from "../openapi-schemas.ts";
import { problem, SUCCESS } from "../problem.ts";
import type { AppEnv, Logs } from "../protocols.ts";
import { sinceParameter, userParameter, wholeNumber } from "../query.ts";

const TAG = "Logs";
const OFFSET_MAX = 2 ** 40;

const ofContainer = z.object({ container: containerIdSchema });
const ofFile = ofContainer.extend({ file: logFileNameSchema });
const offset = z
  .string()
  .regex(/^\d{1,13}$/, "an offset in bytes")
  .transform(Number);

/** The one kind of request whose body is a chunk of a log. */
export function isLogChunk(method: string, path: string): boolean {
  return method === "PUT" && /^\/ws\/v1\/node\/logs\/[^/]+\/[^/]+\/[^/]+$/.test(path);
}

export const logEndpoints: readonly Endpoint[] = [
  endpoint({
    method: "put",
    path: "/ws/v1/node/logs/:container",
    tag: TAG,
    summary: "Announces that the node will write the container's logs, or that it has written all",
    parameters: ofContainer,
    body: jsonBody(announceLogsSchema),
    answers: { [SUCCESS.NO_CONTENT]: { description: "It may" } },
    handle: async (c, { parameters: { container }, body }) => {
      const store = logsOf(c);
      if (!store.ok) return problem(c, store.error);
      const announcement = await announcementOf(c, store.value, container, body.user);
      if (!announcement.ok) return problem(c, announcement.error);
      await store.value.announce(container, announcement.value, body);
      return c.body(null, SUCCESS.NO_CONTENT);
    },
  }),
  endpoint({
    method: "get",
    path: "/ws/v1/node/logs/:container",
    tag: TAG,
    summary: "How far the container's logs are stored: where the node goes on",
    parameters: ofContainer,
    query: z.object({ user: userNameSchema }),
    answers: {
      [SUCCESS.OK]: {
        description: "The files",
        schema: z.object({ files: z.array(aggregatedFileSchema) }),
      },
    },
    handle: async (c, { parameters: { container }, query }) => {
      const store = await ownLogsOf(c, query.user, container);
      if (!store.ok) return problem(c, store.error);
      return c.json({ files: [...(await store.value.files(query.user, container))] });
    },
  }),
  endpoint({
    method: "put",
    path: "/ws/v1/node/logs/:container/:file/:start",
    tag: TAG,
    summary: "Stores a chunk, packed with gzip; again, it is stored once",
    parameters: ofFile.extend({ start: offset }),
    query: z.object({
      ...{ user: userNameSchema, end: offset },
      follows: offset.optional().describe("What lies between it and the start was dropped."),
    }),
    answers: { [SUCCESS.NO_CONTENT]: { description: "It is stored" } },
    handle: async (c, { parameters: { container, file, start }, query }) => {
      const { user, end, follows = start } = query;
      const store = await ownLogsOf(c, user, container);
      if (!store.ok) return problem(c, store.error);
      const { body } = c.req.raw;
      const length = end - start;
      if (body === null || c.req.header("content-length") === undefined) {
        const failure = fail("INVALID_ARGUMENT", "a chunk needs a body and a Content-Length");
        return problem(c, failure.error);
      }
      if (length <= 0 || length > LIMITS.aggregatedChunkBytesMax) {
        const max = LIMITS.aggregatedChunkBytesMax;
        const failure = fail("INVALID_ARGUMENT", `a chunk has 1 to ${max} bytes, not ${length}`);
        return problem(c, failure.error);
      }
      if (follows > start) {
        const failure = fail("INVALID_ARGUMENT", `a chunk at ${start} cannot follow ${follows}`);
        return problem(c, failure.error);
      }
      const place = { containerId: container, file, start, end, follows };
      await store.value.putChunk(user, place, body);
      return c.body(null, SUCCESS.NO_CONTENT);
    },
  }),
  endpoint({
    method: "get",
    path: "/ws/v1/logs/:application",
    tag: TAG,
    summary: "Containers of an application that have aggregated logs, running or long gone",
    parameters: z.object({
      application: z.string().refine(isApplicationId, "an application id"),
    }),
    query: z.object(userParameter),
    answers: {
      [SUCCESS.OK]: {
        description: "The containers",
        schema: z.object({ containers: z.array(aggregatedContainerSchema) }),
      },
    },
    handle: async (c, { parameters: { application }, query }) => {
      const store = logsOf(c);
      if (!store.ok) return problem(c, store.error);
      const user = actAs(c, query.user);
      if (user.ok) {
        const all = await store.value.containers(user.value, application);
        return c.json({ containers: [...all] });
      }
      const owner = query.user ?? "";
      const readable = await store.value.containers(owner, application, submitterOf(c));
      return readable.length > 0 ? c.json({ containers: [...readable] }) : problem(c, user.error);
    },
  }),
  endpoint({
    method: "get",
    path: "/ws/v1/logs/:container/files",
    tag: TAG,
    summary: "The files of a container in the store",
    parameters: ofContainer,
    query: z.object(userParameter),
    answers: {
      [SUCCESS.OK]: {
        description: "The files",
        schema: z.object({ files: z.array(aggregatedFileSchema) }),
      },
    },
    handle: async (c, { parameters: { container }, query }) => {
      const store = logsOf(c);
      if (!store.ok) return problem(c, store.error);
      const user = await checkReader(c, store.value, query.user, container);
      if (!user.ok) return problem(c, user.error);
      return c.json({ files: [...(await store.value.files(user.value, container))] });
    },
  }),
  endpoint({
    method: "get",
    path: "/ws/v1/logs/:container/files/:file",
    tag: TAG,
    summary: "Part of an aggregated log",
    parameters: ofFile,
    query: z.object({
      ...userParameter,
      ...sinceParameter,
      offset: wholeNumber(-OFFSET_MAX, OFFSET_MAX, 0),
      length: wholeNumber(1, LIMITS.logChunkBytesMax, LIMITS.logChunkBytesMax),
    }),
    answers: { [SUCCESS.OK]: { description: "The bytes read, as text", schema: logSchema } },
    handle: async (c, { parameters: { container, file }, query }) => {
      const store = logsOf(c);
      if (!store.ok) return problem(c, store.error);
      const user = await checkReader(c, store.value, query.user, container);
      if (!user.ok) return problem(c, user.error);
      const { offset: from, length, since: sinceMs } = query;
      const part = { file, offset: from, length, sinceMs };
      const reply = await store.value.read(user.value, container, part);
      return reply.ok ? c.json(reply.value) : problem(c, reply.error);
    },
  }),
];

function logsOf(c: Context<AppEnv>): Reply<Logs> {
  const { logs } = c.var.protocols;
  if (logs !== null) return ok(logs);
  return fail("UNAVAILABLE", "this deployment keeps no logs of containers that have ended", {
    reason: NO_LOG_STORE,
    hint: "its operator can add the R2 bucket STORE to wrangler.toml and deploy again",
  });
}

/** The store, for the node that has announced the container. */
async function ownLogsOf(
  c: Context<AppEnv>,
  user: string,
  containerId: ContainerId,
): Promise<Reply<Logs>> {
  const store = logsOf(c);
  if (!store.ok) return store;
  const { nodeId } = nodeOf(c);
  const announcement = await store.value.findAnnouncement(user, containerId);
  if (announcement?.nodeId === nodeId) return store;
  return fail("PERMISSION_DENIED", `node ${nodeId} has not announced the logs of ${containerId}`, {
    hint: `announce them while it runs: PUT /ws/v1/node/logs/${containerId}`,
  });
}

/**
 * Only the node where a container runs may write its logs, and only for the user who runs it. Who
 * may read them is what the ResourceManager says when it is asked for the first time, for later it
 * may have forgotten.
 */
async function announcementOf(
  c: Context<AppEnv>,
  store: Logs,
  containerId: ContainerId,
  user: string,
): Promise<Reply<LogsAnnouncement>> {
  const { nodeId } = nodeOf(c);
  const before = await store.findAnnouncement(user, containerId);
  if (before?.nodeId === nodeId) return ok(before);
  const owner = await c.var.protocols.resourceManager.getContainerOwner(containerId);
  if (owner.ok && owner.value.nodeId === nodeId && owner.value.user === user) {
    return ok({ nodeId, viewAcl: owner.value.acls.VIEW_APP ?? "" });
  }
  return fail("PERMISSION_DENIED", `${containerId} does not run on node ${nodeId} for ${user}`, {
    hint: "the missing right: the ResourceManager allocated it elsewhere, or has forgotten it",
  });
}

/** Whose log is read: the caller's own, for administrators anybody's, or of who lets the caller in. */
async function checkReader(
  c: Context<AppEnv>,
  store: Logs,
  requested: string | undefined,
  containerId: ContainerId,
): Promise<Reply<string>> {
  const user = actAs(c, requested);
  if (user.ok || requested === undefined) return user;
  const isReadable = await store.isReadable(requested, containerId, submitterOf(c));
  return isReadable ? ok(requested) : user;
}
