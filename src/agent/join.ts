/**
 * How an agent comes by its node credential: a join token is exchanged once, and the credential is
 * kept in the agent's home for its owner's eyes only.
 */
import { readFileSync } from "node:fs";
import { rename, writeFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import * as z from "zod";
import { createHttp } from "../client/http.ts";
import { ProblemError } from "../client/problem-error.ts";
import type { ErrorCode } from "../shared/errors.ts";
import { isNodeId, type NodeId } from "../shared/ids.ts";
import type { AgentHome } from "./agent-home.ts";
import { type Log, messageOf } from "./log.ts";

const JOIN = "/ws/v1/node/join";
/** A restart of the control plane is over by then; a unit of systemd goes on after that. */
const RETRY_DELAYS_MS = [500, 1_000, 2_000, 4_000];
const LATER = "try again in a while; a node that systemd starts does so by itself";
const NEW_TOKEN = "join tokens are short-lived and of limited use; ask for a new one";
const HINTS: Partial<Record<ErrorCode, string>> = {
  UNAUTHENTICATED: NEW_TOKEN,
  PERMISSION_DENIED: NEW_TOKEN,
  NOT_FOUND: "is it a cluster's URL, with /clusters/NAME where it has a name?",
  RESOURCE_EXHAUSTED: LATER,
  UNAVAILABLE: LATER,
  INTERNAL: LATER,
};

const joinResponseSchema = z.object({
  credential: z.string().min(1),
  nodeId: z.string().refine(isNodeId),
  expiresMs: z.number(),
});
type JoinResponse = z.infer<typeof joinResponseSchema>;
const storedSchema = joinResponseSchema.extend({ url: z.string() });
export type NodeCredential = z.infer<typeof storedSchema>;

export type JoinOptions = {
  readonly log: Log;
  /** Pauses in ms; as many as there may be repetitions. */
  readonly retryDelaysMs?: readonly number[] | undefined;
};

/** The stored credential for this node at this cluster, unless it has expired. */
export function findCredential(
  home: AgentHome,
  url: string,
  nodeId: NodeId,
  nowMs: number,
): NodeCredential | undefined {
  try {
    const stored = storedSchema.parse(JSON.parse(readFileSync(home.credentialFile, "utf8")));
    const isOurs = stored.url === url && stored.nodeId === nodeId && stored.expiresMs > nowMs;
    return isOurs ? stored : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Exchanges a join token and stores the credential. What may pass (the cluster cannot be reached, or
 * cannot do it now) is tried again after each of the pauses. Throws a ProblemError.
 */
export async function joinCluster(
  home: AgentHome,
  url: string,
  nodeId: NodeId,
  joinToken: string,
  { log, retryDelaysMs = RETRY_DELAYS_MS }: JoinOptions,
): Promise<NodeCredential> {
  for (let attempt = 0; ; attempt++) {
    try {
      const credential = { ...(await exchange(url, nodeId, joinToken)), url };
      const temporary = `${home.credentialFile}.tmp`;
      await writeFile(temporary, JSON.stringify(credential), { mode: 0o600 });
      await rename(temporary, home.credentialFile);
      return credential;
    } catch (error) {
      const delayMs = retryDelaysMs[attempt];
      if (!mayJoinLater(error) || delayMs === undefined) throw error;
      log({ event: "join", outcome: messageOf(error), again: true });
      // Machines that were started in one moment do not ask again in one.
      await delay(delayMs * (0.5 + Math.random()));
    }
  }
}

/** Whether the same token may be accepted later. */
export function mayJoinLater(error: unknown): boolean {
  if (!(error instanceof ProblemError)) return false;
  const { failure, origin } = error;
  const isOverload = failure.code === "RESOURCE_EXHAUSTED";
  const isFault = failure.code === "INTERNAL" && origin === "answer";
  return failure.code === "UNAVAILABLE" || isOverload || isFault;
}

async function exchange(url: string, nodeId: NodeId, joinToken: string): Promise<JoinResponse> {
  try {
    const answer = await createHttp({ url, token: joinToken }).request("POST", JOIN, { nodeId });
    const joined = joinResponseSchema.safeParse(answer);
    if (joined.success) return joined.data;
    const message = `${url} did not answer with a credential`;
    throw new ProblemError({ code: "INTERNAL", message }, { origin: "not-a-cluster" });
  } catch (error) {
    throw error instanceof ProblemError ? problemOf(error, url) : error;
  }
}

/** In the words of somebody who wants to join; the cluster's own hint is the better one. */
function problemOf(error: ProblemError, url: string): ProblemError {
  const { failure, origin, status, requestId } = error;
  const hint = failure.hint ?? HINTS[failure.code];
  const message = `cannot join ${url}: ${failure.message}`;
  const from = { origin, requestId, cause: error, ...(status === null ? {} : { status }) };
  return new ProblemError({ ...failure, message, ...(hint === undefined ? {} : { hint }) }, from);
}
