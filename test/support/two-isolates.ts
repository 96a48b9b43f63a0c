/**
 * An application as two isolates of the edge serve it, each with answers that it keeps: one takes
 * the reads, the other the writes, so that neither sees by itself what the other has done.
 */
import { keepRecent } from "../../src/worker/registry-recent.ts";

type Fetch = (request: Request) => Response | Promise<Response>;

export function inTwoIsolates(app: { readonly fetch: Fetch }): { readonly fetch: Fetch } {
  const [reads, writes] = [keepRecent(app.fetch), keepRecent(app.fetch)];
  return { fetch: (request) => (request.method === "GET" ? reads(request) : writes(request)) };
}
