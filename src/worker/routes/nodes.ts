/**
 * Where NodeManagers connect (design §5, §6). A node is who its credential says it is; no message
 * and no URL can make it another one.
 */
import * as z from "zod";
import { type Failure, fail } from "../../shared/errors.ts";
import { isNodeId } from "../../shared/ids.ts";
import { STREAM_SECRET_HEADER } from "../../shared/protocol/node-stream.ts";
import { type AgentMessage, nodeHeartbeatSchema } from "../../shared/protocol/resource-tracker.ts";
import { nodeOf } from "../auth.ts";
import { type Endpoint, endpoint, jsonBody } from "../endpoint.ts";
import { problem, SUCCESS, SWITCHING_PROTOCOLS } from "../problem.ts";
import { passOn, refuseUpgrade } from "../web-socket.ts";

const TAG = "NodeManager";

const joinSchema = z.strictObject({
  nodeId: z.string().refine(isNodeId, "a node id is host:port, such as worker1.example.com:8041"),
});

export const nodeEndpoints: readonly Endpoint[] = [
  endpoint({
    method: "get",
    path: "/ws/v1/node/connect",
    tag: TAG,
    summary: "A node's WebSocket; docs/wire-protocol.md says what goes over it",
    answers: { [SWITCHING_PROTOCOLS]: { description: "The connection is a WebSocket" } },
    handle: async (c) => {
      const refusal = refuseUpgrade(c, "use POST /ws/v1/node/heartbeat");
      if (refusal) return problem(c, refusal);
      return passOn(await c.var.protocols.nodes.connect(nodeOf(c).nodeId, c.req.raw));
    },
  }),
  endpoint({
    method: "get",
    path: "/ws/v1/node/streams/:stream",
    tag: TAG,
    summary: "A node's end of a stream into one of its containers, which it was asked to open",
    parameters: z.object({ stream: z.uuid() }),
    answers: { [SWITCHING_PROTOCOLS]: { description: "The connection is a WebSocket" } },
    handle: async (c, { parameters: { stream } }) => {
      const refusal = refuseUpgrade(c);
      if (refusal) return problem(c, refusal);
      const secret = c.req.header(STREAM_SECRET_HEADER) ?? "";
      const reply = await c.var.protocols.streams.join(nodeOf(c).nodeId, stream, secret);
      return reply.ok ? passOn(reply.value) : problem(c, reply.error);
    },
  }),
  endpoint({
    method: "post",
    path: "/ws/v1/node/heartbeat",
    tag: TAG,
    summary: "The WebSocket's messages by HTTP, for nodes that no WebSocket reaches",
    body: jsonBody(nodeHeartbeatSchema),
    answers: {
      [SUCCESS.OK]: {
        description: "The cluster's messages for the node",
        schema: z.object({ messages: z.array(z.looseObject({ type: z.string() })) }),
      },
    },
    handle: async (c, { body: { messages } }) => {
      const { nodeId } = nodeOf(c);
      const refusal = refuseMessages(nodeId, messages);
      if (refusal) return problem(c, refusal);
      const reply = await c.var.protocols.nodes.heartbeat(nodeId, messages);
      return reply.ok ? c.json(reply.value) : problem(c, reply.error);
    },
  }),
  endpoint({
    method: "post",
    path: "/ws/v1/node/join",
    tag: TAG,
    summary: "Exchanges one use of a join token for the credential of one node",
    body: jsonBody(joinSchema),
    answers: {
      [SUCCESS.OK]: {
        description: "The node's credential, shown this once",
        schema: z.object({ nodeId: z.string(), credential: z.string(), expiresMs: z.int() }),
      },
    },
    handle: async (c, { body }) => {
      const { caller, protocols } = c.var;
      if (caller?.kind !== "node-join") throw new Error("join was reached without a join token");
      const reply = await protocols.resourceManager.joinNode(caller.jti, body.nodeId);
      return reply.ok ? c.json({ nodeId: body.nodeId, ...reply.value }) : problem(c, reply.error);
    },
  }),
];

function refuseMessages(nodeId: string, messages: readonly AgentMessage[]): Failure | null {
  for (const message of messages) {
    if (message.type !== "register" || message.node.nodeId === nodeId) continue;
    return fail("PERMISSION_DENIED", `node ${nodeId} may not register as ${message.node.nodeId}`, {
      hint: "the missing right: a credential of that node; join with a join token to get one",
    }).error;
  }
  return null;
}
