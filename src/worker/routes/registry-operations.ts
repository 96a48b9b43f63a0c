/**
 * RegistryOperations for writers over HTTP (seed 000 "Registry Operations"): one POST for each
 * operation, and `transact` for several at once. Records are checked here and go on to the registry as
 * it stores them; who may do what is decided there.
 */
import type { Context } from "hono";
import * as z from "zod";
import { fail, ok, type Reply } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import {
  PURGE_POLICIES,
  type RecordCondition,
  type RegistryWrite,
  type RegistryWriteResult,
} from "../../shared/protocol/registry-operations.ts";
import { checkRecord } from "../../shared/service-record.ts";
import { type Endpoint, endpoint, jsonBody } from "../endpoint.ts";
import { problem, SUCCESS } from "../problem.ts";
import type { AppEnv } from "../protocols.ts";
import { registrySessionOf } from "../registry-session.ts";

const TAG = "Registry";
const BASE = "/ws/v1/registry-operations";

const pathSchema = z.string().describe("Such as /users/joe/org-apache-hbase/demo1.");
const conditionSchema = z
  .union([z.int().min(0), z.literal("absent")])
  .describe('Version that the record must have; "absent" for no record. Implies overwrite.');

const mknodeSchema = z.strictObject({
  path: pathSchema,
  createParents: z.boolean().default(false),
});

const bindSchema = z.strictObject({
  path: pathSchema,
  record: z.looseObject({}).describe("A ServiceRecord."),
  overwrite: z.boolean().default(false),
  createParents: z.boolean().default(false),
  ifVersion: conditionSchema.optional(),
});

const deleteSchema = z.strictObject({
  path: pathSchema,
  recursive: z.boolean().default(false),
  missingOk: z.boolean().default(false),
});

const subjectShape = {
  scheme: z.enum(["user", "digest", "container"]),
  id: z.string().describe("User name, accessor id (of an X-Registry-Accessor), or container id."),
};
const setAclSchema = z.strictObject({
  path: pathSchema,
  add: z
    .array(z.strictObject({ ...subjectShape, permissions: z.string().describe("Of rwcda.") }))
    .max(LIMITS.aclEntriesPerNodeMax)
    .default([]),
  remove: z.array(z.strictObject(subjectShape)).max(LIMITS.aclEntriesPerNodeMax).default([]),
});

const operationSchema = z.discriminatedUnion("op", [
  mknodeSchema.extend({ op: z.literal("mknode") }),
  bindSchema.extend({ op: z.literal("bind") }),
  deleteSchema.extend({ op: z.literal("delete") }),
  setAclSchema.extend({ op: z.literal("set-acl") }),
]);

const transactSchema = z.strictObject({
  operations: z.array(operationSchema).max(LIMITS.registryOperationsPerTransactionMax),
});

const purgeSchema = z.strictObject({
  yarnId: z.string().min(1).max(LIMITS.addressValueLengthMax),
  persistence: z.enum(["application", "application-attempt", "container"]),
  policy: z.enum(PURGE_POLICIES).default("PurgeAll"),
});

const aclSchema = z.object({
  path: z.string(),
  entries: z.array(
    z.object({
      scheme: z.enum(["world", "system", "user", "digest", "container"]),
      id: z.string(),
      permissions: z.string(),
      implied: z.boolean().describe("Granted by the node's place; cannot be changed."),
    }),
  ),
});
const resultSchemas = {
  mknode: z.object({ path: z.string(), created: z.boolean() }),
  bind: z.object({ path: z.string(), version: z.int() }),
  delete: z.object({ path: z.string(), deleted: z.boolean() }),
};
const resultSchema = z.discriminatedUnion("op", [
  resultSchemas.mknode.extend({ op: z.literal("mknode") }),
  resultSchemas.bind.extend({ op: z.literal("bind") }),
  resultSchemas.delete.extend({ op: z.literal("delete") }),
  z.object({ op: z.literal("set-acl"), path: z.string(), acl: aclSchema }),
]);

export const registryOperationEndpoints: readonly Endpoint[] = [
  endpoint({
    method: "post",
    path: `${BASE}/mknode`,
    tag: TAG,
    summary: "Makes a path without a record",
    body: jsonBody(mknodeSchema),
    answers: done("Whether it was made; false: it existed", resultSchemas.mknode),
    handle: (c, { body }) => writeOne(c, { op: "mknode", ...body }),
  }),
  endpoint({
    method: "post",
    path: `${BASE}/bind`,
    tag: TAG,
    summary: 'Sets the record of a path; with If-Match: "version" only in place of that version',
    body: jsonBody(bindSchema),
    answers: done("The record's version now, also as ETag", resultSchemas.bind),
    handle: (c, { body }) => bindOne(c, body),
  }),
  endpoint({
    method: "post",
    path: `${BASE}/delete`,
    tag: TAG,
    summary: "Deletes a path; one with children only recursively",
    body: jsonBody(deleteSchema),
    answers: done("Whether it was deleted; false: it was missing", resultSchemas.delete),
    handle: (c, { body }) => writeOne(c, { op: "delete", ...body }),
  }),
  endpoint({
    method: "post",
    path: `${BASE}/transact`,
    tag: TAG,
    summary: "Does several operations in their order, all of them or none",
    body: jsonBody(transactSchema),
    answers: done("What each has done", z.object({ results: z.array(resultSchema) })),
    handle: async (c, { body }) => {
      const writes = writesOf(body.operations);
      const results = writes.ok ? await write(c, writes.value) : writes;
      return results.ok ? c.json({ results: results.value }) : problem(c, results.error);
    },
  }),
  endpoint({
    method: "post",
    path: `${BASE}/set-acl`,
    tag: TAG,
    summary: "Adds entries to a path's ACL, and removes some",
    body: jsonBody(setAclSchema),
    answers: done("The ACL now", aclSchema),
    handle: async (c, { body }) => {
      const results = await write(c, [{ op: "set-acl", ...body }]);
      if (!results.ok) return problem(c, results.error);
      const [result] = results.value;
      return c.json(result?.op === "set-acl" ? result.acl : null);
    },
  }),
  endpoint({
    method: "post",
    path: `${BASE}/get-acl`,
    tag: TAG,
    summary: "A path's ACL, for those who may change it and the owner of its home",
    body: jsonBody(z.strictObject({ path: pathSchema })),
    answers: done("The ACL", aclSchema),
    handle: async (c, { body }) => {
      const session = registrySessionOf(c);
      if (!session.ok) return problem(c, session.error);
      const acl = await c.var.protocols.registry.getAcl(session.value, body.path);
      return acl.ok ? c.json(acl.value) : problem(c, acl.error);
    },
  }),
  endpoint({
    method: "post",
    path: `${BASE}/purge`,
    tag: TAG,
    summary: "Deletes all records bound to what has ended; administrators only",
    body: jsonBody(purgeSchema),
    answers: done("How many", z.object({ purged: z.int() })),
    handle: async (c, { body: { yarnId, persistence, policy } }) => {
      const purged = await c.var.protocols.registry.purge(yarnId, persistence, policy);
      return purged.ok ? c.json({ purged: purged.value }) : problem(c, purged.error);
    },
  }),
];

function done(description: string, schema: z.ZodType) {
  return { [SUCCESS.OK]: { description, schema } };
}

/** The writes of a transaction, or what is wrong with the first record that is none. */
function writesOf(
  operations: readonly z.output<typeof operationSchema>[],
): Reply<readonly RegistryWrite[]> {
  const writes: RegistryWrite[] = [];
  for (const operation of operations) {
    const write = operation.op === "bind" ? bindOf(operation) : ok(operation);
    if (!write.ok) return write;
    writes.push(write.value);
  }
  return ok(writes);
}

function bindOf(bind: z.output<typeof bindSchema>): Reply<RegistryWrite> {
  const { path, overwrite, createParents, ifVersion } = bind;
  const record = checkRecord(path, bind.record);
  if (!record.ok) return record;
  const write = { op: "bind", path, record: record.value, overwrite, createParents } as const;
  return ok(ifVersion === undefined ? write : { ...write, ifVersion });
}

async function bindOne(c: Context<AppEnv>, body: z.output<typeof bindSchema>): Promise<Response> {
  const condition = conditionOf(c, body.ifVersion);
  if (!condition.ok) return problem(c, condition.error);
  const bind = bindOf({ ...body, ifVersion: condition.value });
  return bind.ok ? writeOne(c, bind.value) : problem(c, bind.error);
}

/** The condition in the body, or in HTTP's own words. */
function conditionOf(
  c: Context<AppEnv>,
  said: RecordCondition | undefined,
): Reply<RecordCondition | undefined> {
  const match = c.req.header("if-match");
  const noneMatch = c.req.header("if-none-match");
  if (match === undefined && noneMatch === undefined) return ok(said);
  const version = /^"(\d{1,15})"$/.exec(match ?? "")?.[1];
  const isReadable = match === undefined ? noneMatch === "*" : version !== undefined;
  const isOnly = said === undefined && (match === undefined || noneMatch === undefined);
  if (isReadable && isOnly) return ok(version === undefined ? "absent" : Number(version));
  return fail("INVALID_ARGUMENT", "the condition of bind cannot be read", {
    hint: 'say one of If-Match: "version" (stat.version of the path), If-None-Match: *, and ifVersion',
  });
}

async function write(
  c: Context<AppEnv>,
  writes: readonly RegistryWrite[],
): Promise<Reply<readonly RegistryWriteResult[]>> {
  const session = registrySessionOf(c);
  return session.ok ? c.var.protocols.registry.write(session.value, writes) : session;
}

async function writeOne(c: Context<AppEnv>, operation: RegistryWrite): Promise<Response> {
  const results = await write(c, [operation]);
  if (!results.ok) return problem(c, results.error);
  const [first] = results.value;
  const { op: _, ...result } = first ?? { op: "none" };
  if (first?.op === "bind") c.header("ETag", `"${first.version}"`);
  return c.json(result);
}
