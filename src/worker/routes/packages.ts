/**
 * The package store (docs/packages.md). Every user of the cluster may see and run every package; a
 * user pushes and removes its own, administrators everybody's, the system's above all. Large files
 * come in parts, each a request of its own, because the platform bounds a request's body.
 */
import type { Context } from "hono";
import * as z from "zod";
import { fail, ok, type Reply } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import { userNameSchema } from "../../shared/names.ts";
import {
  formatPackage,
  newPackageVersionSchema,
  noPackageStore,
  type Package,
  packageContentSchema,
  packageNameSchema,
  packagePartSchema,
  packageSchema,
  packageUploadSchema,
  packageVersionSchema,
  sha256Schema,
} from "../../shared/package.ts";
import { actAs, userOf } from "../auth.ts";
import { type Endpoint, endpoint, jsonBody } from "../endpoint.ts";
import { problem, SUCCESS } from "../problem.ts";
import type { AppEnv, Packages } from "../protocols.ts";

const TAG = "Packages";
/** Services that are asked whether they use a package; each is a request to an object. */
const SERVICES_ASKED_MAX = 500;
const SERVICES_ASKED_AT_ONCE = 20;

const ofVersion = z.object({
  user: userNameSchema,
  name: packageNameSchema,
  version: packageVersionSchema,
});
const ofNewVersion = ofVersion.extend({ version: newPackageVersionSchema });
const uploadName = z.string().min(1).max(1_024);
const partNumber = z
  .string()
  .regex(/^[1-9]\d{0,2}$/, "a part's number, from 1")
  .transform(Number)
  .refine((number) => number <= LIMITS.packagePartsMax, `at most ${LIMITS.packagePartsMax}`);

/** The one kind of request whose body may be as large as a part. */
export function isPackagePart(method: string, path: string): boolean {
  return method === "PUT" && /^\/ws\/v1\/packages\/[^/]+\/[^/]+\/[^/]+\/parts\/[^/]+$/.test(path);
}

export const packageEndpoints: readonly Endpoint[] = [
  endpoint({
    method: "get",
    path: "/ws/v1/packages",
    tag: TAG,
    summary: "Everybody's packages, in order of user, name and version",
    query: z.object({
      user: userNameSchema.optional(),
      name: packageNameSchema.optional(),
      after: z.string().max(4_096).optional().describe("The next of the page before."),
    }),
    answers: {
      [SUCCESS.OK]: {
        description: "A page of them; next is null on the last one",
        schema: z.object({ packages: z.array(packageSchema), next: z.string().nullable() }),
      },
    },
    handle: async (c, { query: { after, ...filter } }) => {
      const store = storeOf(c);
      if (!store.ok) return problem(c, store.error);
      return c.json(await store.value.list(filter, after));
    },
  }),
  endpoint({
    method: "get",
    path: "/ws/v1/packages/:user/:name/:version",
    tag: TAG,
    summary: "A version of a package; latest is the one that was pushed last",
    parameters: ofVersion,
    answers: { [SUCCESS.OK]: { description: "The version", schema: packageSchema } },
    handle: async (c, { parameters }) => {
      const store = storeOf(c);
      if (!store.ok) return problem(c, store.error);
      const reply = await store.value.get(parameters);
      return reply.ok ? c.json(reply.value) : problem(c, reply.error);
    },
  }),
  endpoint({
    method: "post",
    path: "/ws/v1/packages/:user/:name/:version/uploads",
    tag: TAG,
    summary: "Begins to push a new version",
    parameters: ofNewVersion,
    body: jsonBody(packageContentSchema),
    answers: {
      [SUCCESS.OK]: {
        description: "The upload; null when the version is there with just these bytes",
        schema: packageUploadSchema,
      },
    },
    handle: async (c, { parameters, body }) => {
      const store = ownStoreOf(c, parameters.user);
      if (!store.ok) return problem(c, store.error);
      const reply = await store.value.begin(parameters, body);
      return reply.ok ? c.json(reply.value) : problem(c, reply.error);
    },
  }),
  endpoint({
    method: "put",
    path: "/ws/v1/packages/:user/:name/:version/parts/:part",
    tag: TAG,
    summary: "One part of an upload, as raw bytes with a Content-Length",
    parameters: ofNewVersion.extend({ part: partNumber }),
    query: z.object({ upload: uploadName }),
    answers: {
      [SUCCESS.OK]: { description: "What to name when completing", schema: packagePartSchema },
    },
    handle: async (c, { parameters, query }) => {
      const store = ownStoreOf(c, parameters.user);
      if (!store.ok) return problem(c, store.error);
      const { body } = c.req.raw;
      if (body === null || c.req.header("content-length") === undefined) {
        const failure = fail("INVALID_ARGUMENT", "a part needs a body and a Content-Length");
        return problem(c, failure.error);
      }
      const { user, part } = parameters;
      const reply = await store.value.putPart(user, query.upload, part, body);
      return reply.ok ? c.json(reply.value) : problem(c, reply.error);
    },
  }),
  endpoint({
    method: "post",
    path: "/ws/v1/packages/:user/:name/:version/complete",
    tag: TAG,
    summary: "Ends a push: checks the digest of all parts together and makes the version",
    parameters: ofNewVersion,
    body: jsonBody(
      packageContentSchema.extend({
        upload: uploadName,
        parts: z.array(packagePartSchema).min(1).max(LIMITS.packagePartsMax),
      }),
    ),
    answers: { [SUCCESS.OK]: { description: "The version", schema: packageSchema } },
    handle: async (c, { parameters, body }) => {
      const store = ownStoreOf(c, parameters.user);
      if (!store.ok) return problem(c, store.error);
      const { upload, parts, ...content } = body;
      const reply = await store.value.complete(parameters, upload, content, parts);
      return reply.ok ? c.json(reply.value) : problem(c, reply.error);
    },
  }),
  endpoint({
    method: "delete",
    path: "/ws/v1/packages/:user/:name/:version",
    tag: TAG,
    summary: "Removes a version that no service runs; with force=true one that is run as well",
    parameters: ofVersion,
    query: z.object({ force: z.enum(["true", "false"]).optional() }),
    answers: { [SUCCESS.OK]: { description: "What was removed", schema: packageSchema } },
    handle: async (c, { parameters, query }) => {
      const store = ownStoreOf(c, parameters.user);
      if (!store.ok) return problem(c, store.error);
      const found = await store.value.get(parameters);
      if (!found.ok) return problem(c, found.error);
      const unused = query.force === "true" ? ok() : await checkUnused(c, found.value);
      if (!unused.ok) return problem(c, unused.error);
      const reply = await store.value.remove(found.value);
      return reply.ok ? c.json(reply.value) : problem(c, reply.error);
    },
  }),
  endpoint({
    method: "get",
    path: "/ws/v1/node/packages/:sha256",
    tag: TAG,
    summary: "The bytes of a package, or those of a Range, for a node to localize",
    parameters: z.object({ sha256: sha256Schema }),
    answers: {
      [SUCCESS.OK]: { description: "All bytes" },
      [SUCCESS.PARTIAL_CONTENT]: { description: "The bytes of the range" },
    },
    handle: async (c, { parameters }) => {
      const store = storeOf(c);
      if (!store.ok) return problem(c, store.error);
      return answerBytes(c, store.value, parameters.sha256);
    },
  }),
];

async function answerBytes(c: Context, store: Packages, sha256: string): Promise<Response> {
  const range = rangeOf(c.req.header("range"));
  const found = await store.open(sha256, range?.offset, range?.length);
  if (!found.ok) return problem(c, found.error);
  const { body, offset, lengthBytes, sizeBytes } = found.value;
  const headers = new Headers({
    "Accept-Ranges": "bytes",
    "Content-Length": String(lengthBytes),
    "Content-Type": "application/octet-stream",
    ETag: `"${sha256}"`,
  });
  if (range === undefined) return new Response(body, { status: SUCCESS.OK, headers });
  headers.set("Content-Range", `bytes ${offset}-${offset + lengthBytes - 1}/${sizeBytes}`);
  return new Response(body, { status: SUCCESS.PARTIAL_CONTENT, headers });
}

/** `bytes=5-` and `bytes=5-9`; other ranges may be answered with the whole (RFC 9110 §14.2). */
function rangeOf(header: string | undefined) {
  const [matched, first, last = ""] = /^bytes=(\d{1,15})-(\d{0,15})$/.exec(header ?? "") ?? [];
  if (matched === undefined || (last !== "" && Number(last) < Number(first))) return undefined;
  const offset = Number(first);
  return { offset, length: last === "" ? undefined : Number(last) - offset + 1 };
}

function storeOf(c: Context<AppEnv>): Reply<Packages> {
  const { packages } = c.var.protocols;
  return packages === null ? noPackageStore() : ok(packages);
}

/** The store, for somebody who may change the packages of `user`. */
function ownStoreOf(c: Context<AppEnv>, user: string): Reply<Packages> {
  const actor = actAs(c, user);
  return actor.ok ? storeOf(c) : actor;
}

/** Refuses while a service that is not destroyed has the package: it could not be started again. */
async function checkUnused(c: Context<AppEnv>, stored: Package): Promise<Reply<undefined>> {
  const { protocols } = c.var;
  const hint = "with force it is removed all the same; its containers then start on no new node";
  const entries = await protocols.resourceManager.listServices();
  if (entries.length > SERVICES_ASKED_MAX) {
    const message = `there are too many services to ask whether they use ${formatPackage(stored)}`;
    return fail("FAILED_PRECONDITION", message, { hint });
  }
  const url = `package:sha256:${stored.sha256}`;
  for (let at = 0; at < entries.length; at += SERVICES_ASKED_AT_ONCE) {
    const asked = entries.slice(at, at + SERVICES_ASKED_AT_ONCE);
    const views = await Promise.all(
      asked.map(({ user, name }) => protocols.serviceMaster(user, name).get()),
    );
    for (const view of views) {
      if (!view.ok || !view.value.components.some(({ artifact }) => artifact?.uri === url))
        continue;
      const { user, role } = userOf(c);
      const isShown = role === "admin" || view.value.user === user;
      const who = isShown
        ? `service ${view.value.name} of ${view.value.user}`
        : "another user's service";
      return fail("FAILED_PRECONDITION", `${formatPackage(stored)} is used by ${who}`, { hint });
    }
  }
  return ok();
}
