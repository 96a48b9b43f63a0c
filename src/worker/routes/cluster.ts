/**
 * The ResourceManager's REST (seed 004; facts/yarn-rm-nm-scheduler.md §1), as far as this system has
 * something true to say: YARN's field names, and only the fields whose values are known here.
 */
import type { Context } from "hono";
import * as z from "zod";
import { fail } from "../../shared/errors.ts";
import { isNodeId } from "../../shared/ids.ts";
import { NODE_STATES } from "../../shared/node.ts";
import type {
  ApplicationReport,
  ClusterInfo,
  NodeInfo,
  YarnApplicationState,
} from "../../shared/protocol/application-client.ts";
import { VERSION } from "../../shared/version.ts";
import { submitterOf } from "../auth.ts";
import { type Endpoint, endpoint } from "../endpoint.ts";
import {
  appSchema,
  clusterInfoSchema,
  clusterMetricsSchema,
  nodeSchema,
} from "../openapi-schemas.ts";
import { problem, SUCCESS } from "../problem.ts";
import type { AppEnv } from "../protocols.ts";
import {
  applicationParameters,
  listParameter,
  userParameter,
  wholeNumber,
  wordsParameter,
} from "../query.ts";
import { getApplication } from "./applications.ts";

const TAG = "ResourceManager";
const APPLICATION_STATES = ["ACCEPTED", "RUNNING", "FINISHED", "FAILED", "KILLED"] as const;

const applicationFilter = z.object({
  states: wordsParameter<YarnApplicationState>(APPLICATION_STATES),
  ...userParameter,
  queue: z.string().optional(),
  applicationTypes: listParameter(),
  limit: wholeNumber(1, 1_000_000, 1_000_000),
});

export const clusterEndpoints: readonly Endpoint[] = [
  ...["/ws/v1/cluster", "/ws/v1/cluster/info"].map((path) =>
    endpoint({
      method: "get",
      path,
      tag: TAG,
      summary: "What the cluster is",
      answers: {
        [SUCCESS.OK]: {
          description: "clusterInfo",
          schema: z.object({ clusterInfo: clusterInfoSchema }),
        },
      },
      handle: async (c) => {
        const info = await c.var.protocols.resourceManager.getClusterInfo();
        return c.json({ clusterInfo: clusterInfoView(info) });
      },
    }),
  ),
  endpoint({
    method: "get",
    path: "/ws/v1/cluster/metrics",
    tag: TAG,
    summary: "What the cluster has, uses and runs",
    answers: {
      [SUCCESS.OK]: {
        description: "clusterMetrics",
        schema: z.object({ clusterMetrics: clusterMetricsSchema }),
      },
    },
    handle: async (c) => {
      const { resourceManager } = c.var.protocols;
      const [info, applications] = await Promise.all([
        resourceManager.getClusterInfo(),
        resourceManager.getApplications(),
      ]);
      return c.json({ clusterMetrics: clusterMetricsView(info, applications) });
    },
  }),
  endpoint({
    method: "get",
    path: "/ws/v1/cluster/nodes",
    tag: TAG,
    summary: "The nodes, by state",
    query: z.object({ states: wordsParameter(NODE_STATES) }),
    answers: {
      [SUCCESS.OK]: {
        description: "Every node, or those in one of the states",
        schema: z.object({ nodes: z.object({ node: z.array(nodeSchema) }) }),
      },
    },
    handle: async (c, { query: { states } }) => {
      const nodes = await c.var.protocols.resourceManager.getClusterNodes();
      const wanted = states ? nodes.filter(({ state }) => states.includes(state)) : nodes;
      return c.json({ nodes: { node: wanted.map(nodeView) } });
    },
  }),
  endpoint({
    method: "get",
    path: "/ws/v1/cluster/nodes/:node",
    tag: TAG,
    summary: "One node",
    parameters: z.object({
      node: z.string().refine(isNodeId, "a node id is host:port, such as worker1.example.com:8041"),
    }),
    answers: { [SUCCESS.OK]: { description: "node", schema: z.object({ node: nodeSchema }) } },
    handle: async (c, { parameters }) => {
      const nodes = await c.var.protocols.resourceManager.getClusterNodes();
      const found = nodes.find(({ nodeId }) => nodeId === parameters.node);
      if (found) return c.json({ node: nodeView(found) });
      return problem(c, fail("NOT_FOUND", `the cluster knows no node ${parameters.node}`).error);
    },
  }),
  endpoint({
    method: "get",
    path: "/ws/v1/cluster/apps",
    tag: TAG,
    summary: "The applications that the caller may see: its own, and those that let it in",
    query: applicationFilter,
    answers: {
      [SUCCESS.OK]: {
        description: "Every application that passes all filters",
        schema: z.object({ apps: z.object({ app: z.array(appSchema) }) }),
      },
    },
    handle: async (c, { query }) => {
      const { states, applicationTypes } = query;
      const visible = await c.var.protocols.resourceManager.getApplications(submitterOf(c));
      const applications = visible.filter(
        (each) =>
          (query.user === undefined || each.user === query.user) &&
          (query.queue === undefined || isQueue(each.queue, query.queue)) &&
          (states === undefined || states.includes(each.state)) &&
          (applicationTypes === undefined || applicationTypes.includes(each.applicationType)),
      );
      const nowMs = Date.now();
      const shown = applications.slice(0, query.limit).map((each) => applicationView(each, nowMs));
      return c.json({ apps: { app: shown } });
    },
  }),
  endpoint({
    method: "get",
    path: "/ws/v1/cluster/apps/:application",
    tag: TAG,
    summary: "One application",
    parameters: applicationParameters,
    answers: { [SUCCESS.OK]: { description: "app", schema: z.object({ app: appSchema }) } },
    handle: async (c, { parameters }) => {
      const id = parameters.application;
      const reply = await getApplication(c, id, "VIEW_APP");
      if (!reply.ok) return problem(c, reply.error);
      return c.json({ app: applicationView(reply.value, Date.now()) });
    },
  }),
];

/** Answers authenticated callers of what the ResourceManager's REST has in YARN and not here. */
export function clusterNotFound(c: Context<AppEnv>): Response {
  const failure = fail("NOT_FOUND", `${c.req.method} ${c.req.path} is not part of this cluster`, {
    hint: "applications are submitted as services, with POST /app/v1/services; see /openapi.json",
  });
  return problem(c, failure.error);
}

/** A filter may name the queue's full path or its last part. */
function isQueue(path: string, wanted: string): boolean {
  return path === wanted || path.endsWith(`.${wanted}`);
}

function clusterInfoView(info: ClusterInfo): z.input<typeof clusterInfoSchema> {
  return {
    id: info.startedMs,
    startedOn: info.startedMs,
    state: "STARTED",
    haState: "ACTIVE",
    resourceManagerVersion: VERSION,
    clusterName: info.cluster,
  };
}

function clusterMetricsView(
  { nodes, total, used, containersAllocated }: ClusterInfo,
  applications: readonly ApplicationReport[],
): z.input<typeof clusterMetricsSchema> {
  const inState = (state: YarnApplicationState) =>
    applications.filter((each) => each.state === state).length;
  return {
    appsSubmitted: applications.length,
    appsCompleted: inState("FINISHED"),
    appsPending: inState("ACCEPTED"),
    appsRunning: inState("RUNNING"),
    appsFailed: inState("FAILED"),
    appsKilled: inState("KILLED"),
    totalMB: total.memoryMb,
    allocatedMB: used.memoryMb,
    availableMB: Math.max(0, total.memoryMb - used.memoryMb),
    totalVirtualCores: total.vcores,
    allocatedVirtualCores: used.vcores,
    availableVirtualCores: Math.max(0, total.vcores - used.vcores),
    containersAllocated,
    totalNodes: Object.values(nodes).reduce((sum, count) => sum + count, 0),
    activeNodes: nodes.RUNNING,
    lostNodes: nodes.LOST,
    unhealthyNodes: nodes.UNHEALTHY,
    decommissioningNodes: nodes.DECOMMISSIONING,
    decommissionedNodes: nodes.DECOMMISSIONED,
    shutdownNodes: nodes.SHUTDOWN,
  };
}

function nodeView(node: NodeInfo): z.input<typeof nodeSchema> {
  const available = {
    memory: Math.max(0, node.total.memoryMb - node.used.memoryMb),
    vCores: Math.max(0, node.total.vcores - node.used.vcores),
  };
  return {
    id: node.nodeId,
    nodeHostName: node.host,
    rack: node.rack,
    state: node.state,
    version: node.agentVersion,
    healthReport: node.healthReport,
    lastHealthUpdate: node.lastChangeMs,
    numContainers: node.containers,
    usedMemoryMB: node.used.memoryMb,
    availMemoryMB: available.memory,
    usedVirtualCores: node.used.vcores,
    availableVirtualCores: available.vCores,
    reservedMemoryMB: node.reserved.memoryMb,
    reservedVirtualCores: node.reserved.vcores,
    nodeLabels: [...node.labels],
    nodeAttributesInfo: {
      nodeAttributeInfo: Object.entries(node.attributes).map(([name, value]) => ({ name, value })),
    },
    ...(node.decommissionDeadlineMs === null
      ? {}
      : { decommissionDeadline: node.decommissionDeadlineMs }),
    usedResource: { memory: node.used.memoryMb, vCores: node.used.vcores },
    availableResource: available,
    totalResource: { memory: node.total.memoryMb, vCores: node.total.vcores },
  };
}

/** YARN says -1 for what only a running application has. */
function applicationView(report: ApplicationReport, nowMs: number): z.input<typeof appSchema> {
  const isRunning = report.state === "RUNNING";
  return {
    id: report.applicationId,
    user: report.user,
    name: report.name,
    queue: report.queue,
    priority: report.priority,
    state: report.state,
    finalStatus: report.finalStatus,
    diagnostics: report.diagnostics,
    applicationType: report.applicationType,
    unmanagedApplication: true,
    startedTime: report.startedMs,
    finishedTime: report.finishedMs ?? 0,
    elapsedTime: Math.max(0, (report.finishedMs ?? nowMs) - report.startedMs),
    allocatedMB: isRunning ? report.allocated.memoryMb : -1,
    allocatedVCores: isRunning ? report.allocated.vcores : -1,
    runningContainers: isRunning ? report.runningContainers : -1,
  };
}
