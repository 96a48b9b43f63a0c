/**
 * Who is calling, and what kind of caller a path is for (design §7). One middleware decides for
 * every request, closed by default: a path that nobody has declared public needs a user's token,
 * whether it exists or not. Tokens are verified here with the cluster's public keys alone.
 */
import type { Context, MiddlewareHandler } from "hono";
import { decodeJwt, decodeProtectedHeader, errors, type JWTPayload, jwtVerify } from "jose";
import * as z from "zod";
import { type Failure, fail, ok, type Reply } from "../shared/errors.ts";
import { isContainerId, isNodeId } from "../shared/ids.ts";
import { LIMITS } from "../shared/limits.ts";
import { DEFAULT_CLUSTER, groupNameSchema, isUserName, userNameSchema } from "../shared/names.ts";
import { type Submitter, tokenIssuer } from "../shared/protocol/application-client.ts";
import { ACCESSOR_HEADER } from "../shared/registry-accessor.ts";
import { LiveContainers } from "./live-containers.ts";
import { problem } from "./problem.ts";
import type { AppEnv, Caller, Settings } from "./protocols.ts";
import { VerificationKeys } from "./verification-keys.ts";

/**
 * Who may use a path. `registry` is for users and containers, and for whoever shows accessors of the
 * registry and no token.
 */
export type Access = "public" | "user" | "admin" | "node" | "node-join" | "registry";

/** Where a deployment has closed reading: for users, and for containers that have not ended. */
type NeededAccess = Access | "registry-reader";

type Audience = "user" | "node" | "node-join" | "registry";

/** Of the tokens that open it; the first is the one that is named to whoever has another. */
const AUDIENCES: Readonly<Record<Exclude<NeededAccess, "public">, readonly Audience[]>> = {
  user: ["user"],
  admin: ["user"],
  node: ["node"],
  "node-join": ["node-join"],
  registry: ["registry", "user"],
  "registry-reader": ["user", "registry"],
};

export const CLAIM_PATH = "/ws/v1/security/claim";

const ACCESS: readonly (readonly [methods: string, path: RegExp, access: Access])[] = [
  ["GET HEAD", /^\/healthz$/, "public"],
  ["GET HEAD", /^\/openapi\.json$/, "public"],
  ["GET HEAD", /^\/install\.sh$/, "public"],
  ["GET HEAD OPTIONS", /^\/registry\/v1(?:\/|$)/, "public"],
  ["GET HEAD POST OPTIONS", /^\/dns-query$/, "public"],
  ["POST", /^\/ws\/v1\/security\/claim$/, "public"],
  ["POST", /^\/ws\/v1\/security\/join-tokens$/, "admin"],
  ["POST", /^\/ws\/v1\/registry-operations\/purge$/, "admin"],
  ["GET HEAD", /^\/nodes\/[^/]+\/ws\/v1\/node(?:\/info|\/auxiliaryservices)?$/, "admin"],
  ["POST PUT DELETE", /^\/ws\/v1\/cluster\/(?!apps\/|containers\/)/, "admin"],
  ["GET HEAD", /^\/ws\/v1\/cluster\/scheduler-conf(?:\/|$)/, "admin"],
  ["POST", /^\/ws\/v1\/registry-operations\//, "registry"],
  ["POST", /^\/ws\/v1\/node\/join$/, "node-join"],
  ["GET POST PUT", /^\/ws\/v1\/node\//, "node"],
];

/** The one table of what is open; everything it does not name is for users. */
export function accessOf(method: string, path: string): Access {
  const rule = ACCESS.find(([methods, at]) => methods.split(" ").includes(method) && at.test(path));
  return rule?.[2] ?? "user";
}

/** The table, and what this deployment has closed beyond it. A preflight never has a token. */
function accessUnder(settings: Settings, method: string, path: string): NeededAccess {
  const isReading = /^\/(?:registry\/v1(?:\/|$)|dns-query$)/.test(path) && method !== "OPTIONS";
  const isClosed = isReading && settings.registryReaders === "authenticated";
  return isClosed ? "registry-reader" : accessOf(method, path);
}

export function isWrite(method: string): boolean {
  return !["GET", "HEAD", "OPTIONS"].includes(method);
}

const TOKEN_LENGTH_MAX = 8_192;
const BEARER = /^Bearer +([A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+) *$/i;

/** Lets a request pass with `caller` set, or answers 401, 403, or 503 for an unclaimed cluster. */
export function authenticate(settings: Settings): MiddlewareHandler<AppEnv> {
  const keys = new VerificationKeys();
  const claimed = new Set<string>();
  const containers = new LiveContainers();

  return async (c, next) => {
    const access = accessUnder(settings, c.req.method, c.req.path);
    if (access === "public") {
      await next();
      if (c.req.path === CLAIM_PATH && c.res.ok) keys.forget(c.var.cluster);
      return;
    }
    if (isWrite(c.req.method) && !(await isClaimed(c, claimed))) return problem(c, unclaimed(c));
    const caller = await identify(c, access, keys, settings);
    if (!caller.ok) return problem(c, caller.error);
    c.set("caller", caller.value);
    if (access === "admin") {
      const admin = requireAdmin(c, `${c.req.method} ${c.req.path}`);
      if (!admin.ok) return problem(c, admin.error);
    }
    if (access === "registry-reader" && caller.value.kind === "container") {
      const { containerId } = caller.value;
      const isLive = await containers.has(c.var.cluster, containerId, () =>
        c.var.protocols.resourceManager.findLiveContainer(containerId),
      );
      if (!isLive) return problem(c, containerEnded(containerId));
    }
    await next();
  };
}

/** The user who calls; only for handlers below paths that are for users. */
export function userOf(c: Context<AppEnv>): Extract<Caller, { kind: "user" }> {
  const { caller } = c.var;
  if (caller?.kind !== "user") throw new Error(`${c.req.path} was reached without a user`);
  return caller;
}

/** As whom a service is submitted. */
export function submitterOf(c: Context<AppEnv>): Submitter {
  const { user, groups, role } = userOf(c);
  return { user, groups, isAdmin: role === "admin" };
}

/** The node that calls; only for handlers below paths that are for nodes. */
export function nodeOf(c: Context<AppEnv>): Extract<Caller, { kind: "node" }> {
  const { caller } = c.var;
  if (caller?.kind !== "node") throw new Error(`${c.req.path} was reached without a node`);
  return caller;
}

/** The user whose things are meant: `requested` (`?user=joe`) for administrators, else the caller. */
export function actAs(c: Context<AppEnv>, requested: string | undefined): Reply<string> {
  const { user, role } = userOf(c);
  if (requested === undefined || requested === user) return ok(user);
  if (role === "admin") return ok(requested);
  return fail("PERMISSION_DENIED", `user ${user} may not act for user ${requested}`, {
    hint: "the missing right: role admin; or, to look at it, VIEW_APP (yarn.service.acl.view-app)",
  });
}

export function requireAdmin(c: Context<AppEnv>, what: string): Reply<undefined> {
  const { user, role } = userOf(c);
  if (role === "admin") return ok();
  return fail("PERMISSION_DENIED", `user ${user} may not use ${what}`, {
    hint: "the missing right: role admin",
  });
}

async function isClaimed(c: Context<AppEnv>, claimed: Set<string>): Promise<boolean> {
  const { cluster, protocols } = c.var;
  if (claimed.has(cluster)) return true;
  if (!(await protocols.resourceManager.isClaimed())) return false;
  if (claimed.size >= CLAIMED_MAX) claimed.clear();
  claimed.add(cluster);
  return true;
}

/** A cluster never becomes unclaimed, so that yes may be remembered; this bounds the memory. */
const CLAIMED_MAX = 1_024;

function unclaimed(c: Context<AppEnv>): Failure {
  return {
    code: "UNAVAILABLE",
    message: `cluster ${c.var.cluster} belongs to nobody yet and changes nothing until it is claimed`,
    reason: "ClusterNotClaimed",
    hint: `claim it with: ${loginCommand(c)} --claim CODE (the code is in the deployment's own log)`,
  };
}

function loginCommand(c: Context<AppEnv>): string {
  const { cluster } = c.var;
  const which = cluster === DEFAULT_CLUSTER ? "" : ` --cluster ${cluster}`;
  return `selvedge login --url ${new URL(c.req.url).origin}${which}`;
}

async function identify(
  c: Context<AppEnv>,
  access: Exclude<NeededAccess, "public">,
  keys: VerificationKeys,
  settings: Settings,
): Promise<Reply<Caller>> {
  const audiences = AUDIENCES[access];
  const header = c.req.header("authorization");
  if (header === undefined) {
    const developer = audiences.includes("user") ? pseudoAuthenticated(c, settings) : null;
    if (developer) return ok(developer);
    const hasAccessor = c.req.header(ACCESSOR_HEADER) !== undefined;
    if (access === "registry" && hasAccessor) return ok({ kind: "registry-accessor" });
    return unauthenticated(c, "this request needs a token");
  }
  const token = header.length <= TOKEN_LENGTH_MAX ? BEARER.exec(header)?.[1] : undefined;
  if (token === undefined) return unauthenticated(c, "the Authorization header holds no token");
  const claims = await verify(c, token, keys);
  if (!claims.ok) return claims;
  const audience = audiences.find((each) => each === claims.value.aud);
  if (audience === undefined) {
    return unauthenticated(
      c,
      `the token is not one for this request, which needs a ${audiences[0]} token`,
    );
  }
  return callerOf(c, audience, claims.value);
}

/** The claims of a token that this cluster signed and that has not ended. */
async function verify(
  c: Context<AppEnv>,
  token: string,
  keys: VerificationKeys,
): Promise<Reply<JWTPayload>> {
  const { cluster, protocols } = c.var;
  const said = readUnverified(token);
  if (said === null) return unauthenticated(c, "the token cannot be read");
  if (said.issuer !== tokenIssuer(cluster)) {
    return unauthenticated(c, `the token is not of cluster ${cluster}`);
  }
  const key = await keys.find(cluster, said.kid, () =>
    protocols.resourceManager.getVerificationKeys(),
  );
  if (key === null) return unauthenticated(c, "the token is not signed by a key of this cluster");
  try {
    const verified = await jwtVerify(token, key, {
      algorithms: ["EdDSA"],
      issuer: tokenIssuer(cluster),
      requiredClaims: ["exp", "aud"],
    });
    return ok(verified.payload);
  } catch (error) {
    const isExpired = error instanceof errors.JWTExpired;
    return unauthenticated(c, isExpired ? "the token has expired" : "the token is not genuine");
  }
}

/** What a token says of itself, only to find the key that may prove it. */
function readUnverified(token: string): { readonly kid: string; readonly issuer: string } | null {
  try {
    const { kid } = decodeProtectedHeader(token);
    const { iss } = decodeJwt(token);
    return typeof kid === "string" && typeof iss === "string" ? { kid, issuer: iss } : null;
  } catch {
    return null;
  }
}

const expiry = z.number().transform((seconds) => seconds * 1_000);
const userClaims = z.object({
  sub: userNameSchema,
  role: z.enum(["admin", "user"]),
  groups: z.array(groupNameSchema).max(LIMITS.groupsPerUserMax).default([]),
  exp: expiry,
});
const nodeClaims = z.object({ sub: z.string().refine(isNodeId) });
/** `RegistryTokenClaims`, beside `aud`. */
const registryClaims = z.object({
  sub: z.string().refine(isContainerId),
  path: z.string().min(1).max(LIMITS.registryPathLengthMax),
});
const joinClaims = z.object({ jti: z.string().min(1).max(64) });

function callerOf(c: Context<AppEnv>, audience: Audience, claims: JWTPayload): Reply<Caller> {
  if (audience === "user") {
    const { success, data } = userClaims.safeParse(claims);
    if (success) {
      const { sub: user, role, groups, exp: expiresMs } = data;
      return ok({ kind: "user", user, role, groups, expiresMs });
    }
  } else if (audience === "node") {
    const { success, data } = nodeClaims.safeParse(claims);
    if (success) return ok({ kind: "node", nodeId: data.sub });
  } else if (audience === "registry") {
    const { success, data } = registryClaims.safeParse(claims);
    if (success) return ok({ kind: "container", containerId: data.sub, path: data.path });
  } else {
    const { success, data } = joinClaims.safeParse(claims);
    if (success) return ok({ kind: "node-join", jti: data.jti });
  }
  return unauthenticated(c, `the token does not say what a ${audience} token must say`);
}

/**
 * Hadoop's pseudo-authentication, `?user.name=joe`, which proves nothing: believed only where
 * nobody but the developer of this machine can be calling, and never with the role admin.
 */
function pseudoAuthenticated(c: Context<AppEnv>, settings: Settings): Caller | null {
  const user = c.req.query("user.name");
  if (!settings.development || user === undefined || !isUserName(user)) return null;
  const url = new URL(c.req.url);
  if (!isLoopback(url.hostname) || isFromAnotherSite(c, url.origin)) return null;
  return { kind: "user", user, role: "user", groups: [], expiresMs: null };
}

/** Also stops a name that an attacker has pointed at this machine (DNS rebinding). */
function isLoopback(hostname: string): boolean {
  return hostname === "localhost" || hostname === "[::1]" || /^127(?:\.\d+){3}$/.test(hostname);
}

/** A page of another site, open in the developer's browser, can send requests here as well. */
function isFromAnotherSite(c: Context<AppEnv>, ownOrigin: string): boolean {
  const origin = c.req.header("origin");
  const site = c.req.header("sec-fetch-site");
  return (
    (origin !== undefined && origin !== ownOrigin) ||
    (site !== undefined && site !== "same-origin" && site !== "none")
  );
}

function containerEnded(containerId: string): Failure {
  return {
    code: "UNAUTHENTICATED",
    message: `container ${containerId} has ended, and its credential with it`,
  };
}

function unauthenticated(c: Context<AppEnv>, message: string): Reply<never> {
  const ignored =
    c.req.query("user.name") === undefined ? "" : "; user.name proves nothing and is ignored here";
  return fail("UNAUTHENTICATED", message, {
    hint: `get a token with: ${loginCommand(c)} and send it as Authorization: Bearer TOKEN${ignored}`,
  });
}
