/**
 * Claiming a cluster, and making tokens for people, tools and nodes (design §7). Tokens appear in
 * answers only: they are never stored, never logged, and cannot be asked for a second time.
 */
import type { Context } from "hono";
import * as z from "zod";
import { fail, type Reply } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import { groupNameSchema, userNameSchema } from "../../shared/names.ts";
import type { Principal } from "../../shared/protocol/application-client.ts";
import {
  JOIN_TOKEN_LIFETIME_SECONDS,
  JOIN_TOKEN_USES_MAX,
  TOKEN_LIFETIME_SECONDS,
  TOKEN_LIFETIME_SECONDS_MAX,
} from "../../shared/protocol/application-client.ts";
import { CLAIM_PATH, userOf } from "../auth.ts";
import { type Endpoint, endpoint, jsonBody } from "../endpoint.ts";
import { problem, SUCCESS } from "../problem.ts";
import type { AppEnv } from "../protocols.ts";

const TAG = "Security";
const lifetimeSchema = z.int().min(1).max(TOKEN_LIFETIME_SECONDS_MAX);
const issuedSchema = z.object({ token: z.string(), expiresMs: z.int() });

const tokenSchema = z.strictObject({
  user: userNameSchema.optional(),
  role: z.enum(["admin", "user"]).optional(),
  groups: z.array(groupNameSchema).max(LIMITS.groupsPerUserMax).optional(),
  lifetimeSeconds: lifetimeSchema.optional(),
});
type TokenRequest = z.output<typeof tokenSchema>;

const joinTokenSchema = z.strictObject({
  uses: z.int().min(1).max(JOIN_TOKEN_USES_MAX).default(1),
  lifetimeSeconds: lifetimeSchema.default(JOIN_TOKEN_LIFETIME_SECONDS),
});

export const securityEndpoints: readonly Endpoint[] = [
  endpoint({
    method: "post",
    path: CLAIM_PATH,
    tag: TAG,
    summary: "Makes the first administrator of a cluster that belongs to nobody yet",
    body: jsonBody(
      z.strictObject({
        code: z.string().min(1).max(256),
        user: userNameSchema.default("admin"),
      }),
    ),
    answers: {
      [SUCCESS.OK]: {
        description: "The administrator's token",
        schema: z.object({ token: z.string() }),
      },
    },
    handle: async (c, { body }) => {
      const reply = await c.var.protocols.resourceManager.claim(body.code, body.user);
      return reply.ok ? c.json(reply.value) : problem(c, reply.error);
    },
  }),
  endpoint({
    method: "post",
    path: "/ws/v1/security/tokens",
    tag: TAG,
    summary: "Makes a token: for anybody by an administrator, for oneself by a user",
    body: jsonBody(tokenSchema),
    answers: { [SUCCESS.OK]: { description: "The token, shown this once", schema: issuedSchema } },
    handle: async (c, { body }) => {
      const granted = grantToken(c, body);
      if (!granted.ok) return problem(c, granted.error);
      const { principal, lifetimeSeconds } = granted.value;
      const reply = await c.var.protocols.resourceManager.createToken(principal, lifetimeSeconds);
      return reply.ok ? c.json(reply.value) : problem(c, reply.error);
    },
  }),
  endpoint({
    method: "post",
    path: "/ws/v1/security/join-tokens",
    tag: TAG,
    summary: "Makes a token with which machines join as nodes; administrators only",
    body: jsonBody(joinTokenSchema),
    answers: {
      [SUCCESS.OK]: { description: "The join token, shown this once", schema: issuedSchema },
    },
    handle: async (c, { body: { uses, lifetimeSeconds } }) => {
      const { resourceManager } = c.var.protocols;
      const reply = await resourceManager.createJoinToken(uses, lifetimeSeconds);
      return reply.ok ? c.json(reply.value) : problem(c, reply.error);
    },
  }),
  endpoint({
    method: "get",
    path: "/ws/v1/security/whoami",
    tag: TAG,
    summary: "Who the caller is",
    answers: {
      [SUCCESS.OK]: {
        description: "The principal of the token",
        schema: z.object({
          user: z.string(),
          role: z.enum(["admin", "user"]),
          groups: z.array(z.string()),
          cluster: z.string(),
          expiresMs: z.int().nullable(),
        }),
      },
    },
    handle: (c) => {
      const { user, role, groups, expiresMs } = userOf(c);
      return c.json({ user, role, groups, cluster: c.var.cluster, expiresMs });
    },
  }),
];

type Grant = { readonly principal: Principal; readonly lifetimeSeconds: number };

/** What the caller may have made: never more rights, and never a longer life, than it has itself. */
function grantToken(c: Context<AppEnv>, request: TokenRequest): Reply<Grant> {
  const caller = userOf(c);
  const isOwn = request.user === undefined || request.user === caller.user;
  const principal = {
    user: request.user ?? caller.user,
    role: request.role ?? "user",
    groups: request.groups ?? (isOwn ? caller.groups : []),
  };
  const asked = request.lifetimeSeconds;
  if (caller.role === "admin") {
    return { ok: true, value: { principal, lifetimeSeconds: asked ?? TOKEN_LIFETIME_SECONDS } };
  }
  if (caller.expiresMs === null) {
    return refuse(`user ${caller.user} may not make tokens`, "a token of its own");
  }
  if (principal.user !== caller.user || principal.role !== "user") {
    return refuse(
      `user ${caller.user} may not make a token with role ${principal.role} for ${principal.user}`,
      "role admin; without it a user makes tokens only for itself, with role user",
    );
  }
  const foreign = principal.groups.find((group) => !caller.groups.includes(group));
  if (foreign !== undefined) {
    return refuse(
      `user ${caller.user} is not in group ${foreign}`,
      "role admin; without it a token has at most the groups of the one it is made with",
    );
  }
  const ownSeconds = Math.floor((caller.expiresMs - Date.now()) / 1_000);
  if (ownSeconds < 1 || (asked ?? 0) > ownSeconds) {
    return refuse(
      `user ${caller.user} may not make a token that outlives its own, which has ${ownSeconds} s left`,
      "role admin; without it a token lives at most as long as the one it is made with",
    );
  }
  const lifetimeSeconds = asked ?? Math.min(ownSeconds, TOKEN_LIFETIME_SECONDS);
  return { ok: true, value: { principal, lifetimeSeconds } };
}

function refuse(message: string, right: string): Reply<never> {
  return fail("PERMISSION_DENIED", message, { hint: `the missing right: ${right}` });
}
