/**
 * Which cluster a command speaks to, and as whom. From strong to weak: options, environment
 * (SELVEDGE_URL, SELVEDGE_TOKEN, SELVEDGE_TOKEN_FILE), the current context, the cluster that
 * `npm start` runs in this directory. A stored token is only ever sent to the URL it was stored for.
 */
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { clusterUrl } from "../client/http.ts";
import { type Context, getContext, readContexts } from "./contexts.ts";
import { cliError } from "./errors.ts";
import { EXIT_CODE } from "./exit-codes.ts";
import type { Io } from "./io.ts";

/** Options that every verb takes. */
export type ConnectionOptions = {
  readonly context?: string;
  readonly url?: string;
  readonly cluster?: string;
  readonly user?: string;
};

export type Connection = {
  readonly url: string;
  readonly cluster: string | undefined;
  readonly token: string | undefined;
  /** Whose services are meant; undefined: the caller's own. */
  readonly user: string | undefined;
  /** Where the URL comes from, in words. */
  readonly source: string;
};

export function resolveConnection(options: ConnectionOptions, io: Io): Connection {
  const target = resolveTarget(options, io);
  const cluster = options.cluster ?? target.context?.cluster;
  const user = options.user ?? target.context?.user;
  const token = tokenOfEnvironment(io) ?? storedToken(target.url, cluster, target.context, io);
  return { url: target.url, cluster, token, user, source: target.source };
}

type Target = {
  readonly url: string;
  readonly context: Context | undefined;
  readonly source: string;
};

function resolveTarget(options: ConnectionOptions, io: Io): Target {
  const contexts = readContexts(io);
  const named = options.context === undefined ? undefined : getContext(contexts, options.context);
  if (options.url !== undefined) return { url: options.url, context: named, source: "--url" };
  if (named !== undefined && options.context !== undefined) {
    return { url: named.url, context: named, source: `context ${options.context}` };
  }
  const environmentUrl = io.env["SELVEDGE_URL"];
  if (environmentUrl) return { url: environmentUrl, context: undefined, source: "SELVEDGE_URL" };
  if (contexts.current !== null) {
    const current = getContext(contexts, contexts.current);
    return { url: current.url, context: current, source: `context ${contexts.current}` };
  }
  if (existsSync(localTokenFile(io))) {
    return { url: localUrl(io), context: undefined, source: "the cluster of `npm start`" };
  }
  throw cliError(
    EXIT_CODE.USAGE,
    "INVALID_ARGUMENT",
    "no cluster is chosen",
    "start one here with `npm start`, or log in with `selvedge login --url URL`",
  );
}

function tokenOfEnvironment(io: Io): string | undefined {
  const token = io.env["SELVEDGE_TOKEN"];
  if (token) return token.trim();
  const file = io.env["SELVEDGE_TOKEN_FILE"];
  return file ? readSecretFile(file, io) : undefined;
}

/** A token stored for exactly this cluster: the chosen context's first, then any other's. */
function storedToken(
  url: string,
  cluster: string | undefined,
  chosen: Context | undefined,
  io: Io,
): string | undefined {
  const wanted = clusterUrl(url, cluster);
  const candidates = [chosen, ...Object.values(readContexts(io).contexts)];
  for (const context of candidates) {
    if (context?.token && clusterUrl(context.url, context.cluster) === wanted) return context.token;
  }
  const local = localTokenFile(io);
  const isLocal = wanted === clusterUrl(localUrl(io));
  return isLocal && existsSync(local) ? readSecretFile(local, io) : undefined;
}

function localTokenFile(io: Io): string {
  return join(resolve(io.cwd, io.env["SELVEDGE_HOME"] || ".selvedge"), "admin.token");
}

function localUrl(io: Io): string {
  return `http://127.0.0.1:${io.env["PORT"] || "8088"}`;
}

/** A file that holds one secret and nothing else. */
export function readSecretFile(file: string, io: Io): string {
  let secret: string;
  try {
    secret = readFileSync(resolve(io.cwd, file), "utf8").trim();
  } catch (error) {
    throw cliError(
      EXIT_CODE.NOT_FOUND,
      "NOT_FOUND",
      `cannot read the token file ${file}: ${(error as NodeJS.ErrnoException).code}`,
    );
  }
  if (secret === "" || /\s/.test(secret)) {
    throw cliError(
      EXIT_CODE.INVALID_ARGUMENT,
      "INVALID_ARGUMENT",
      `${file} does not hold a token`,
      "it must hold one token and nothing else",
    );
  }
  return secret;
}
