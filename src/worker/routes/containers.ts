/**
 * Containers in the ResourceManager's REST (facts/yarn-rm-nm-scheduler.md §1): an application's
 * attempt, its containers, signals to their processes, and their restart in place.
 */
import type { Context } from "hono";
import * as z from "zod";
import { containerIdSchema } from "../../shared/aggregated-logs.ts";
import { type Failure, fail, type Reply } from "../../shared/errors.ts";
import { applicationOfContainer, isAttemptId } from "../../shared/ids.ts";
import type { ApplicationReport, ContainerInfo } from "../../shared/protocol/application-client.ts";
import {
  NODE_DID_NOT_ANSWER,
  SIGNAL_CONTAINER_COMMANDS,
  SIGNAL_LIFETIME_MS,
  type SignalContainerCommand,
} from "../../shared/protocol/node-query.ts";
import { type Endpoint, endpoint } from "../endpoint.ts";
import {
  appAttemptSchema,
  containerSchema,
  restartSchema,
  signalSchema,
} from "../openapi-schemas.ts";
import { problem, SUCCESS } from "../problem.ts";
import type { AppEnv } from "../protocols.ts";
import { applicationParameters } from "../query.ts";
import { getApplication } from "./applications.ts";

const TAG = "ResourceManager";
const ATTEMPTS = "/ws/v1/cluster/apps/:application/appattempts";

const attemptParameters = applicationParameters.extend({
  attempt: z
    .string()
    .refine(isAttemptId, "an attempt id is such as appattempt_1503963985568_0002_000001"),
});

/** As YARN reads it, in any case. */
const command = z
  .string()
  .transform((text) => text.toUpperCase())
  .pipe(z.enum(SIGNAL_CONTAINER_COMMANDS))
  .describe(`${SIGNAL_CONTAINER_COMMANDS.join(", ")}, in any case.`);

export const containerEndpoints: readonly Endpoint[] = [
  endpoint({
    method: "get",
    path: ATTEMPTS,
    tag: TAG,
    summary: "The attempts of an application: always one, for no attempt is made again",
    parameters: applicationParameters,
    answers: {
      [SUCCESS.OK]: {
        description: "appAttempts",
        schema: z.object({ appAttempts: z.object({ appAttempt: z.array(appAttemptSchema) }) }),
      },
    },
    handle: async (c, { parameters }) => {
      const reply = await getApplication(c, parameters.application, "VIEW_APP");
      if (!reply.ok) return problem(c, reply.error);
      return c.json({ appAttempts: { appAttempt: [attemptView(reply.value)] } });
    },
  }),
  endpoint({
    method: "get",
    path: `${ATTEMPTS}/:attempt/containers`,
    tag: TAG,
    summary: "The containers of an attempt; those that have ended are soon forgotten",
    parameters: attemptParameters,
    answers: {
      [SUCCESS.OK]: {
        description: "containers",
        schema: z.object({ containers: z.object({ container: z.array(containerSchema) }) }),
      },
    },
    handle: async (c, { parameters }) => {
      const reply = await getVisibleAttempt(c, parameters);
      if (!reply.ok) return problem(c, reply.error);
      const nowMs = Date.now();
      const containers = await c.var.protocols.resourceManager.getContainers(parameters.attempt);
      const container = containers.map((each) => containerView(each, nowMs));
      return c.json({ containers: { container } });
    },
  }),
  endpoint({
    method: "get",
    path: `${ATTEMPTS}/:attempt/containers/:container`,
    tag: TAG,
    summary: "One container",
    parameters: attemptParameters.extend({ container: containerIdSchema }),
    answers: {
      [SUCCESS.OK]: {
        description: "container",
        schema: z.object({ container: containerSchema }),
      },
    },
    handle: async (c, { parameters }) => {
      const visible = await getVisibleAttempt(c, parameters);
      if (!visible.ok) return problem(c, visible.error);
      const reply = await c.var.protocols.resourceManager.getContainer(parameters.container);
      if (!reply.ok) return problem(c, reply.error);
      if (reply.value.attemptId !== parameters.attempt) {
        return problem(c, foreign(parameters.container, parameters.attempt));
      }
      return c.json({ container: containerView(reply.value, Date.now()) });
    },
  }),
  endpoint({
    method: "post",
    path: "/ws/v1/cluster/containers/:container/signal/:command",
    tag: TAG,
    summary: "Signals a container's processes: at once and once, or not at all",
    parameters: z.object({ container: containerIdSchema, command }),
    answers: {
      [SUCCESS.OK]: { description: "Its node has sent the signal", schema: signalSchema },
    },
    handle: async (c, { parameters: { container, command } }) => {
      const allowed = await getApplication(c, applicationOfContainer(container), "MODIFY_APP");
      if (!allowed.ok) return problem(c, allowed.error);
      const reply = await c.var.protocols.resourceManager.getContainer(container);
      if (!reply.ok) return problem(c, reply.error);
      const { nodeId, state } = reply.value;
      if (state === "COMPLETE") return problem(c, hasEnded(reply.value));
      const expiresMs = Date.now() + SIGNAL_LIFETIME_MS;
      const query = { type: "signal", containerId: container, command, expiresMs } as const;
      const sent = await c.var.protocols.nodes.queryNode(nodeId, query);
      if (!sent.ok) return problem(c, notSent(sent.error, command, container));
      return c.json({ containerId: container, nodeId, command });
    },
  }),
  endpoint({
    method: "post",
    path: "/ws/v1/cluster/containers/:container/restart",
    tag: TAG,
    summary: "Restarts a container in place: same container, node, directory and ports",
    parameters: z.object({ container: containerIdSchema }),
    answers: {
      [SUCCESS.ACCEPTED]: { description: "It will be restarted", schema: restartSchema },
    },
    handle: (c, { parameters: { container } }) => restart(c, container),
  }),
];

/** Started anew by the master that launched it, which knows how. */
async function restart(c: Context<AppEnv>, containerId: string): Promise<Response> {
  const allowed = await getApplication(c, applicationOfContainer(containerId), "MODIFY_APP");
  if (!allowed.ok) return problem(c, allowed.error);
  const { user, name } = allowed.value;
  const reply = await c.var.protocols.serviceMaster(user, name).restartContainer(containerId);
  if (!reply.ok) return problem(c, reply.error);
  return c.json({ containerId, ...reply.value }, SUCCESS.ACCEPTED);
}

/** NOT_FOUND also for the attempt of another application. */
async function getVisibleAttempt(
  c: Context<AppEnv>,
  { application, attempt }: { readonly application: string; readonly attempt: string },
): Promise<Reply<ApplicationReport>> {
  const reply = await getApplication(c, application, "VIEW_APP");
  if (!reply.ok || reply.value.attemptId === attempt) return reply;
  return fail("NOT_FOUND", `${application} has no attempt ${attempt}`, {
    hint: `it has ${reply.value.attemptId}`,
  });
}

function foreign(containerId: string, attemptId: string): Failure {
  return fail("NOT_FOUND", `${attemptId} has no container ${containerId}`).error;
}

export function hasEnded({ containerId, exitStatus }: ContainerInfo): Failure {
  const message = `${containerId} has ended with exit status ${exitStatus}`;
  return fail("FAILED_PRECONDITION", message).error;
}

/** Who signals has to know whether it may have happened, for the next one is another signal. */
function notSent(failure: Failure, command: SignalContainerCommand, containerId: string): Failure {
  if (failure.code !== "UNAVAILABLE") return failure;
  const seconds = SIGNAL_LIFETIME_MS / 1_000;
  const hint =
    failure.reason === NODE_DID_NOT_ANSWER
      ? `whether ${containerId} got ${command} is not known; after ${seconds} s it will not any more`
      : `${containerId} did not get ${command}, and will not get it later: signal it again`;
  return { ...failure, hint };
}

function attemptView({ attemptId, startedMs, finishedMs }: ApplicationReport) {
  return {
    id: Number(attemptId.slice(attemptId.lastIndexOf("_") + 1)),
    appAttemptId: attemptId,
    startTime: startedMs,
    finishedTime: finishedMs ?? 0,
  } satisfies z.input<typeof appAttemptSchema>;
}

function containerView(info: ContainerInfo, nowMs: number): z.input<typeof containerSchema> {
  const isOver = info.state === "COMPLETE";
  return {
    containerId: info.containerId,
    containerState: info.state,
    nodeId: info.nodeId,
    assignedNodeId: info.nodeId,
    allocatedMB: info.resource.memoryMb,
    allocatedVCores: info.resource.vcores,
    priority: info.priority,
    executionType: info.executionType,
    startedTime: info.allocatedMs,
    ...(isOver ? {} : { elapsedTime: Math.max(0, nowMs - info.allocatedMs) }),
    ...(info.exitStatus === null ? {} : { containerExitStatus: info.exitStatus }),
    diagnosticsInfo: info.diagnostics,
  };
}
