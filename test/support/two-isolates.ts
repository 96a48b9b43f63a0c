/**
 * An application as two isolates of the edge serve it, each with answers that it keeps: one takes
 * the reads, the other the writes, so that neither sees by itself what the other has done.
 */
import type { RegistryEdge } from "../../src/shared/protocol/registry-reader.ts";
import { keepRecent } from "../../src/worker/registry-recent.ts";

type Application = {
  readonly app: { fetch(request: Request): Response | Promise<Response> };
  readonly registry: RegistryEdge;
};

/** The part of a request's context that the edge uses: what it begins ends by itself. */
export const LATER = { waitUntil: (work: Promise<unknown>) => void work };

export function inTwoIsolates({ app, registry }: Application) {
  const isolate = () =>
    keepRecent(
      (request) => app.fetch(request),
      () => registry,
    );
  const [reads, writes] = [isolate(), isolate()];
  const fetch = (request: Request) =>
    request.method === "GET" ? reads(request, LATER) : writes(request, LATER);
  return { fetch };
}
