/**
 * Changing an application (facts/yarn-rm-nm-scheduler.md §1.2, §1.4): ending it, its priority, its
 * queue. Who may see and change it, the ResourceManager decides (core/cluster/application-access.ts).
 */
import type { Context } from "hono";
import * as z from "zod";
import type { Reply } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import type {
  ApplicationAccessType,
  ApplicationActivity,
  ApplicationReport,
} from "../../shared/protocol/application-client.ts";
import { submitterOf, userOf } from "../auth.ts";
import { type Endpoint, endpoint, jsonBody } from "../endpoint.ts";
import { problem, SUCCESS } from "../problem.ts";
import type { AppEnv } from "../protocols.ts";
import { applicationParameters } from "../query.ts";

const TAG = "ResourceManager";
const APP = "/ws/v1/cluster/apps/:application";

const stateSchema = z.object({ state: z.string() });
const prioritySchema = z.object({ priority: z.int() });
const queueSchema = z.object({ queue: z.string() });
const appActivitiesSchema = z.object({
  applicationId: z.string(),
  name: z.string().optional(),
  user: z.string().optional(),
  diagnostic: z.string(),
  timestamp: z.int(),
  dateTime: z.string(),
  allocations: z.array(
    z.object({
      queueName: z.string(),
      appPriority: z.string(),
      requestPriority: z.string(),
      allocationRequestId: z.string(),
      allocationState: z.literal("SKIPPED"),
      count: z.int(),
      diagnostic: z.string(),
    }),
  ),
});
const answers = <Schema extends z.ZodType>(description: string, schema: Schema) => ({
  [SUCCESS.OK]: { description, schema },
});

export const applicationEndpoints: readonly Endpoint[] = [
  endpoint({
    method: "get",
    path: `${APP}/state`,
    tag: TAG,
    summary: "The state of an application",
    parameters: applicationParameters,
    answers: answers("The state", stateSchema),
    handle: (c, { parameters }) =>
      show(c, parameters.application, ({ state }) => c.json({ state })),
  }),
  endpoint({
    method: "put",
    path: `${APP}/state`,
    tag: TAG,
    summary: "Ends an application; the one state that can be asked for is KILLED",
    parameters: applicationParameters,
    body: jsonBody(
      z.strictObject({
        state: z.literal("KILLED", { error: "KILLED is the one state that can be asked for" }),
        diagnostics: z.string().max(LIMITS.diagnosticsLengthMax).optional(),
      }),
    ),
    answers: answers("It is ended", stateSchema),
    handle: async (c, { parameters: { application }, body }) => {
      const allowed = await getApplication(c, application, "MODIFY_APP");
      if (!allowed.ok) return problem(c, allowed.error);
      const { resourceManager } = c.var.protocols;
      const diagnostics = body.diagnostics ?? `Application killed by user ${userOf(c).user}`;
      const reply = await resourceManager.forceKillApplication(application, diagnostics);
      if (!reply.ok) return problem(c, reply.error);
      const killed = await getApplication(c, application, "MODIFY_APP");
      return killed.ok ? c.json({ state: killed.value.state }) : problem(c, killed.error);
    },
  }),
  endpoint({
    method: "get",
    path: "/ws/v1/cluster/scheduler/app-activities/:application",
    tag: "Scheduler",
    summary: "Why what an application asked for is not there yet",
    parameters: applicationParameters,
    answers: answers("appActivities", z.object({ appActivities: appActivitiesSchema })),
    handle: async (c, { parameters: { application } }) => {
      const allowed = await getApplication(c, application, "VIEW_APP");
      if (!allowed.ok) return problem(c, allowed.error);
      const { resourceManager } = c.var.protocols;
      const [activity] = await resourceManager.getActivities(submitterOf(c), application);
      const nothing = { applicationId: application, waiting: [] };
      return c.json({ appActivities: activityView(activity ?? nothing, Date.now()) });
    },
  }),
  endpoint({
    method: "get",
    path: "/ws/v1/cluster/scheduler/activities",
    tag: "Scheduler",
    summary: "Which applications wait, and for what: those that the caller may see",
    query: z.object({ queue: z.string().max(LIMITS.queuePathLengthMax).optional() }),
    answers: answers(
      "activities",
      z.object({ activities: z.object({ applications: z.array(appActivitiesSchema) }) }),
    ),
    handle: async (c, { query: { queue } }) => {
      const all = await c.var.protocols.resourceManager.getActivities(submitterOf(c));
      const waiting = all.filter(
        (each) => each.waiting.length > 0 && (queue === undefined || isBelow(each.queue, queue)),
      );
      const nowMs = Date.now();
      const applications = waiting.map((each) => activityView(each, nowMs));
      return c.json({ activities: { applications } });
    },
  }),
  endpoint({
    method: "get",
    path: `${APP}/priority`,
    tag: TAG,
    summary: "The priority of an application: larger is served first",
    parameters: applicationParameters,
    answers: answers("The priority", prioritySchema),
    handle: (c, { parameters }) =>
      show(c, parameters.application, ({ priority }) => c.json({ priority })),
  }),
  endpoint({
    method: "put",
    path: `${APP}/priority`,
    tag: TAG,
    summary: "Changes the priority of an application, up to the cluster's maximum",
    parameters: applicationParameters,
    body: jsonBody(z.strictObject({ priority: z.int().min(0).max(LIMITS.priorityMax) })),
    answers: answers("The priority that counts", prioritySchema),
    handle: async (c, { parameters: { application }, body: { priority } }) => {
      const allowed = await getApplication(c, application, "MODIFY_APP");
      if (!allowed.ok) return problem(c, allowed.error);
      const { resourceManager } = c.var.protocols;
      const reply = await resourceManager.setApplicationPriority(application, priority);
      return reply.ok ? c.json(reply.value) : problem(c, reply.error);
    },
  }),
  endpoint({
    method: "get",
    path: `${APP}/queue`,
    tag: TAG,
    summary: "The queue of an application",
    parameters: applicationParameters,
    answers: answers("The queue's full path", queueSchema),
    handle: (c, { parameters }) =>
      show(c, parameters.application, ({ queue }) => c.json({ queue })),
  }),
  endpoint({
    method: "put",
    path: `${APP}/queue`,
    tag: TAG,
    summary: "Moves an application to another queue; its containers stay where they are",
    parameters: applicationParameters,
    body: jsonBody(z.strictObject({ queue: z.string().min(1).max(LIMITS.queuePathLengthMax) })),
    answers: answers("The queue's full path", queueSchema),
    handle: async (c, { parameters: { application }, body: { queue } }) => {
      const allowed = await getApplication(c, application, "MODIFY_APP");
      if (!allowed.ok) return problem(c, allowed.error);
      const { resourceManager } = c.var.protocols;
      const reply = await resourceManager.moveApplication(application, queue, submitterOf(c));
      return reply.ok ? c.json(reply.value) : problem(c, reply.error);
    },
  }),
];

type Activity = Pick<ApplicationActivity, "applicationId" | "waiting"> &
  Partial<ApplicationActivity>;

function activityView(
  { applicationId, name, user, queue, priority, waiting }: Activity,
  nowMs: number,
): z.input<typeof appActivitiesSchema> {
  return {
    applicationId,
    diagnostic: waiting.length === 0 ? "nothing waits" : "",
    timestamp: nowMs,
    dateTime: new Date(nowMs).toISOString(),
    ...(name === undefined ? {} : { name }),
    ...(user === undefined ? {} : { user }),
    allocations: waiting.map((request) => ({
      queueName: queue ?? "",
      appPriority: String(priority ?? 0),
      requestPriority: String(request.priority),
      allocationRequestId: String(request.allocationRequestId),
      allocationState: "SKIPPED" as const,
      count: request.count,
      diagnostic: request.reason,
    })),
  };
}

/** A queue may be named by its full path or by its last part; what is below it counts too. */
function isBelow(path: string, queue: string): boolean {
  return path === queue || path.startsWith(`${queue}.`) || `${path}.`.includes(`.${queue}.`);
}

async function show(
  c: Context<AppEnv>,
  application: string,
  view: (report: ApplicationReport) => Response,
): Promise<Response> {
  const reply = await getApplication(c, application, "VIEW_APP");
  return reply.ok ? view(reply.value) : problem(c, reply.error);
}

/** The application, for a caller who has the right to it. */
export function getApplication(
  c: Context<AppEnv>,
  application: string,
  right: ApplicationAccessType,
): Promise<Reply<ApplicationReport>> {
  return c.var.protocols.resourceManager.getApplicationReport(application, submitterOf(c), right);
}
