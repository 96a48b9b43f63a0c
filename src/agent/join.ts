/**
 * How an agent comes by its node credential: a join token is exchanged once, and the credential is
 * kept in the agent's home for its owner's eyes only.
 */
import { readFileSync } from "node:fs";
import { rename, writeFile } from "node:fs/promises";
import * as z from "zod";
import { fail, ok, type Reply } from "../shared/errors.ts";
import { isNodeId, type NodeId } from "../shared/ids.ts";
import type { AgentHome } from "./agent-home.ts";
import { messageOf } from "./log.ts";

const JOIN_TIMEOUT_MS = 10_000;

const joinResponseSchema = z.object({
  credential: z.string().min(1),
  nodeId: z.string().refine(isNodeId),
  expiresMs: z.number(),
});
const storedSchema = joinResponseSchema.extend({ url: z.string() });
export type NodeCredential = z.infer<typeof storedSchema>;

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

/** Exchanges a join token and stores the credential. */
export async function joinCluster(
  home: AgentHome,
  url: string,
  nodeId: NodeId,
  joinToken: string,
): Promise<Reply<NodeCredential>> {
  try {
    const response = await fetch(`${url}/ws/v1/node/join`, {
      method: "POST",
      headers: { authorization: `Bearer ${joinToken}`, "content-type": "application/json" },
      body: JSON.stringify({ nodeId }),
      signal: AbortSignal.timeout(JOIN_TIMEOUT_MS),
    });
    if (!response.ok) return refusal(response, url);
    const joined = joinResponseSchema.safeParse(await response.json());
    if (!joined.success) return fail("UNAVAILABLE", `${url} did not answer with a credential`);
    const credential = { ...joined.data, url };
    const temporary = `${home.credentialFile}.tmp`;
    await writeFile(temporary, JSON.stringify(credential), { mode: 0o600 });
    await rename(temporary, home.credentialFile);
    return ok(credential);
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    return fail("UNAVAILABLE", `cannot join ${url}: ${messageOf(cause)}`);
  }
}

async function refusal(response: Response, url: string): Promise<Reply<NodeCredential>> {
  const problem = z
    .object({ detail: z.string().optional(), title: z.string().optional() })
    .safeParse(await response.json().catch(() => ({})));
  const said = problem.success ? (problem.data.detail ?? problem.data.title) : undefined;
  const why = said ?? `it answered ${response.status}`;
  return fail("UNAUTHENTICATED", `cannot join ${url}: ${why}`, {
    hint: "join tokens are short-lived and of limited use; ask for a new one",
  });
}
