/**
 * What administrators do to nodes (facts/yarn-rm-nm-scheduler.md §1.2, §5.2): labels and attributes,
 * another size, decommissioning, the lists of who may join. Paths and bodies are YARN's where YARN
 * has them; decommissioning and the lists, which are files and commands in Hadoop, are paths here.
 */
import type { Context } from "hono";
import * as z from "zod";
import { fail, type Reply } from "../../shared/errors.ts";
import { isNodeId } from "../../shared/ids.ts";
import { LIMITS } from "../../shared/limits.ts";
import { nodeLabelSchema } from "../../shared/node.ts";
import {
  DECOMMISSION_TIMEOUT_SECONDS,
  type NodeChange,
} from "../../shared/protocol/administration.ts";
import type { NodeInfo } from "../../shared/protocol/application-client.ts";
import { RESOURCE_NAME } from "../../shared/resource.ts";
import { type Endpoint, endpoint, jsonBody } from "../endpoint.ts";
import { problem, SUCCESS } from "../problem.ts";
import type { AppEnv } from "../protocols.ts";
import { listParameter } from "../query.ts";

const TAG = "Nodes";

const nodeId = z
  .string()
  .refine(isNodeId, "a node id is host:port, such as worker1.example.com:8041");
const ofNode = z.object({ node: nodeId });
/** One label at most, as in YARN: a node is in one partition. */
const labels = z.array(nodeLabelSchema).max(1, "a node has one label at most: its partition");
const amount = z.int().min(0).max(LIMITS.resourceAmountMax);
const done = { [SUCCESS.NO_CONTENT]: { description: "Done" } };

const nodeToLabels = z.object({
  nodeToLabels: z.object({
    entry: z.array(
      z.object({
        key: z.string(),
        value: z.object({ nodeLabelInfo: z.array(z.object({ name: z.string() })) }),
      }),
    ),
  }),
});

const resourceBody = z.strictObject({
  resource: z
    .strictObject({
      memory: amount.describe("MB"),
      vCores: amount,
      extra: z.record(z.string().regex(RESOURCE_NAME), amount).optional(),
    })
    .nullable()
    .describe("null: what the node says of itself."),
});

const nodesBody = z.strictObject({
  nodes: z.array(nodeId).min(1).max(LIMITS.nodesPerRequestMax),
});

const hostList = z.array(z.string().min(1).max(260)).max(LIMITS.nodesPerRequestMax);
const listsSchema = z.strictObject({
  include: hostList.describe("Hosts or node ids that may join; empty: everybody."),
  exclude: hostList.describe("Hosts or node ids that may not, and leave at once."),
});

export const nodeAdministrationEndpoints: readonly Endpoint[] = [
  endpoint({
    method: "get",
    path: "/ws/v1/cluster/get-node-to-labels",
    tag: TAG,
    summary: "The label of each node that has one",
    answers: {
      [SUCCESS.OK]: {
        description: "nodeToLabelsInfo",
        schema: z.object({ nodeToLabelsInfo: nodeToLabels }),
      },
    },
    handle: async (c) => {
      const nodes = await c.var.protocols.resourceManager.getClusterNodes();
      const entry = nodes.filter((node) => node.labels.length > 0).map(labelsOf);
      return c.json({ nodeToLabelsInfo: { nodeToLabels: { entry } } });
    },
  }),
  endpoint({
    method: "post",
    path: "/ws/v1/cluster/replace-node-to-labels",
    tag: TAG,
    summary: "Sets the labels of several nodes",
    body: jsonBody(
      z.strictObject({
        nodeToLabels: z
          .array(z.strictObject({ nodeId, labels: labels.nullable() }))
          .min(1)
          .max(LIMITS.nodesPerRequestMax),
      }),
    ),
    answers: done,
    handle: (c, { body }) => update(c, body.nodeToLabels),
  }),
  endpoint({
    method: "post",
    path: "/ws/v1/cluster/nodes/:node/replace-labels",
    tag: TAG,
    summary: "Sets the label of one node; without ?labels= it has none",
    parameters: ofNode,
    query: z.object({ labels: listParameter().pipe(labels.optional()) }),
    answers: done,
    handle: (c, { parameters, query }) =>
      update(c, [{ nodeId: parameters.node, labels: query.labels ?? [] }]),
  }),
  endpoint({
    method: "put",
    path: "/ws/v1/cluster/nodes/:node/attributes",
    tag: TAG,
    summary: "Sets the attributes of a node; null: those that it says itself",
    parameters: ofNode,
    body: jsonBody(
      z.strictObject({
        attributes: z.record(z.string().min(1).max(253), z.string().max(253)).nullable(),
      }),
    ),
    answers: done,
    handle: (c, { parameters, body: { attributes } }) =>
      update(c, [{ nodeId: parameters.node, attributes }]),
  }),
  endpoint({
    method: "post",
    path: "/ws/v1/cluster/nodes/:node/resource",
    tag: TAG,
    summary: "Changes the size of a live node; its containers stay",
    parameters: ofNode,
    body: jsonBody(resourceBody),
    answers: done,
    handle: (c, { parameters, body: { resource } }) => {
      const changed = resource && {
        memoryMb: resource.memory,
        vcores: resource.vCores,
        ...(resource.extra ? { extra: resource.extra } : {}),
      };
      return update(c, [{ nodeId: parameters.node, resource: changed }]);
    },
  }),
  endpoint({
    method: "post",
    path: "/ws/v1/cluster/nodes/decommission",
    tag: TAG,
    summary: "Lets nodes run empty and sends them away, at the latest when the time is over",
    body: jsonBody(
      nodesBody.extend({
        timeoutSeconds: z
          .int()
          .min(0)
          .max(LIMITS.lifetimeSecondsMax)
          .nullable()
          .default(DECOMMISSION_TIMEOUT_SECONDS)
          .describe("0: at once; null: no limit."),
      }),
    ),
    answers: { [SUCCESS.ACCEPTED]: { description: "They are on their way out" } },
    handle: async (c, { body: { nodes, timeoutSeconds } }) => {
      const { resourceManager } = c.var.protocols;
      const reply = await resourceManager.decommissionNodes(nodes, timeoutSeconds);
      return reply.ok ? c.body(null, SUCCESS.ACCEPTED) : problem(c, reply.error);
    },
  }),
  endpoint({
    method: "post",
    path: "/ws/v1/cluster/nodes/recommission",
    tag: TAG,
    summary: "Takes nodes back that were, or are being, decommissioned",
    body: jsonBody(nodesBody),
    answers: done,
    handle: async (c, { body: { nodes } }) =>
      answer(c, await c.var.protocols.resourceManager.recommissionNodes(nodes)),
  }),
  endpoint({
    method: "get",
    path: "/ws/v1/cluster/node-lists",
    tag: TAG,
    summary: "Who may join the cluster and who may not",
    answers: { [SUCCESS.OK]: { description: "The two lists", schema: listsSchema } },
    handle: async (c) => c.json(await c.var.protocols.resourceManager.getNodeLists()),
  }),
  endpoint({
    method: "put",
    path: "/ws/v1/cluster/node-lists",
    tag: TAG,
    summary: "Replaces both lists; a node that may not be here any more leaves at once",
    body: jsonBody(listsSchema),
    answers: done,
    handle: async (c, { body }) =>
      answer(c, await c.var.protocols.resourceManager.setNodeLists(body)),
  }),
];

function labelsOf({ nodeId: key, labels: names }: NodeInfo) {
  return { key, value: { nodeLabelInfo: names.map((name) => ({ name })) } };
}

/** A label that no queue and no request can mean is most likely mistyped. */
async function update(c: Context<AppEnv>, changes: readonly NodeChange[]): Promise<Response> {
  const { resourceManager } = c.var.protocols;
  const known = (await resourceManager.getNodeLabels()).map(({ name }) => name);
  const unknown = changes
    .flatMap((change) => change.labels ?? [])
    .find((label) => !known.includes(label));
  if (unknown !== undefined) {
    const failure = fail("FAILED_PRECONDITION", `the cluster has no node label ${unknown}`, {
      hint: `it has ${known.join(", ") || "none"}; add one with: selvedge queue label add ${unknown}`,
    });
    return problem(c, failure.error);
  }
  return answer(c, await resourceManager.updateNodes(changes));
}

function answer(c: Context<AppEnv>, reply: Reply<undefined>): Response {
  return reply.ok ? c.body(null, SUCCESS.NO_CONTENT) : problem(c, reply.error);
}
