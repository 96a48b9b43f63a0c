/**
 * Streams into containers: a program run beside the container's own, and bytes to and from its ports.
 * Whoever may signal a container may do both; the node has the last word, by its operator's
 * allow-lists. As YARN's `yarn container -shell`, which goes to the NodeManager itself.
 */
import type { Context } from "hono";
import * as z from "zod";
import { containerIdSchema } from "../../shared/aggregated-logs.ts";
import { applicationOfContainer, type ContainerId } from "../../shared/ids.ts";
import {
  EXEC_HEADER,
  parseExecHeader,
  type StreamRequest,
  streamPortSchema,
} from "../../shared/protocol/node-stream.ts";
import { userOf } from "../auth.ts";
import { type Endpoint, endpoint } from "../endpoint.ts";
import { problem, SWITCHING_PROTOCOLS } from "../problem.ts";
import type { AppEnv } from "../protocols.ts";
import { passOn, refuseUpgrade } from "../web-socket.ts";
import { getApplication } from "./applications.ts";
import { hasEnded } from "./containers.ts";

const TAG = "ResourceManager";
const CONTAINER = "/ws/v1/cluster/containers/:container";
const answers = {
  [SWITCHING_PROTOCOLS]: {
    description: "The connection is a WebSocket; docs/wire-protocol.md says what goes over it",
  },
};

export const containerStreamEndpoints: readonly Endpoint[] = [
  endpoint({
    method: "get",
    path: `${CONTAINER}/exec`,
    tag: TAG,
    summary: `Runs a program beside a container's own; the header ${EXEC_HEADER} says which`,
    parameters: z.object({ container: containerIdSchema }),
    answers,
    handle: (c, { parameters: { container } }) => {
      const request = parseExecHeader(c.req.header(EXEC_HEADER));
      if (!request.ok) return problem(c, request.error);
      return open(c, container, { kind: "exec", ...request.value });
    },
  }),
  endpoint({
    method: "get",
    path: `${CONTAINER}/forward/:port`,
    tag: TAG,
    summary: "One connection to a TCP port that a container listens on",
    parameters: z.object({
      container: containerIdSchema,
      port: z.coerce.number().pipe(streamPortSchema),
    }),
    answers,
    handle: (c, { parameters: { container, port } }) =>
      open(c, container, { kind: "forward", port }),
  }),
];

async function open(
  c: Context<AppEnv>,
  containerId: ContainerId,
  request: StreamRequest,
): Promise<Response> {
  const refusal = refuseUpgrade(c, "use `selvedge container exec` or `forward`");
  if (refusal) return problem(c, refusal);
  // The program's words are as much a part of who did what as a path is; what it reads is not.
  c.set("audited", request.kind === "exec" ? { command: request.command } : {});
  const { resourceManager, streams } = c.var.protocols;
  const allowed = await getApplication(c, applicationOfContainer(containerId), "MODIFY_APP");
  if (!allowed.ok) return problem(c, allowed.error);
  const container = await resourceManager.getContainer(containerId);
  if (!container.ok) return problem(c, container.error);
  const { nodeId, state } = container.value;
  if (state === "COMPLETE") return problem(c, hasEnded(container.value));
  const opening = { containerId, user: userOf(c).user, request };
  const reply = await streams.open(nodeId, opening);
  return reply.ok ? passOn(reply.value) : problem(c, reply.error);
}
