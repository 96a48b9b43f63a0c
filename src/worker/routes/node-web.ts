/**
 * A NodeManager's own REST through the control plane, which reaches nodes that nobody else does.
 * Administrators see everything of a node; a user sees what is its own, as the node itself filters
 * by the `user` that is put into the question here, and what of one application or container its ACL
 * shows. The node validates the rest of the query.
 */
import type { Context } from "hono";
import * as z from "zod";
import { type Failure, fail, ok, type Reply } from "../../shared/errors.ts";
import {
  applicationOfContainer,
  isApplicationId,
  isContainerId,
  isNodeId,
} from "../../shared/ids.ts";
import { LIMITS } from "../../shared/limits.ts";
import { NODE_WEB_BASE, type NodeWebAnswer, nodeWebAnswerSchema } from "../../shared/node-web.ts";
import { actAs, requireAdmin, submitterOf, userOf } from "../auth.ts";
import { type Endpoint, endpoint } from "../endpoint.ts";
import { problem, SUCCESS } from "../problem.ts";
import type { AppEnv } from "../protocols.ts";
import { userParameter } from "../query.ts";

const TAG = "NodeManager";
const PREFIX = `/nodes/:node${NODE_WEB_BASE}`;

type Resource = {
  readonly path: string;
  readonly summary: string;
  /** Of the node as a whole, hence for administrators. */
  readonly isForAdmins?: boolean;
  /** The answer's root element; absent: the text of a log. */
  readonly root?: string;
  readonly query?: z.ZodRawShape;
};

const text = z.string().max(LIMITS.nameLengthMax).optional();
const LOG_QUERY = { size: text, offset: text };

const RESOURCES: readonly Resource[] = [
  { path: "", summary: "What a node is and how it is", isForAdmins: true, root: "nodeInfo" },
  { path: "/info", summary: "What a node is and how it is", isForAdmins: true, root: "nodeInfo" },
  {
    path: "/apps",
    summary: "Applications on a node",
    root: "apps",
    query: { ...userParameter, state: text },
  },
  { path: "/apps/:application", summary: "One application on a node", root: "app" },
  {
    path: "/containers",
    summary: "Containers on a node",
    root: "containers",
    query: userParameter,
  },
  { path: "/containers/:container", summary: "One container and its use", root: "container" },
  {
    path: "/containers/:container/logs",
    summary: "The log files of a container",
    root: "containerLogsInfo",
  },
  {
    path: "/containers/:container/logs/:file",
    summary: "Bytes of a log: the first or (negative) last `size`, from `offset`",
    query: LOG_QUERY,
  },
  {
    path: "/containerlogs/:container/:file",
    summary: "The same under its other name",
    query: LOG_QUERY,
  },
  {
    path: "/auxiliaryservices",
    summary: "The auxiliary services of a node",
    isForAdmins: true,
    root: "services",
  },
];

export const nodeWebEndpoints: readonly Endpoint[] = RESOURCES.map(
  ({ path, summary, isForAdmins = false, root, query = {} }) =>
    endpoint({
      method: "get",
      path: `${PREFIX}${path}`,
      tag: TAG,
      summary,
      parameters: z.looseObject({
        node: z.string().refine(isNodeId, "a node id is host:port, such as worker1:8041"),
      }),
      query: z.object(query),
      answers: { [SUCCESS.OK]: describeAnswer(root) },
      handle: async (c, { parameters, query: asked }) => {
        const user = isForAdmins ? adminOnly(c) : actingUser(c, asked["user"]);
        if (!user.ok) return problem(c, user.error);
        const askAs = (user: string | undefined) =>
          askNode(c, parameters.node, targetOf(c, asked, user));
        const own = await askAs(user.value);
        const isHidden = user.value !== undefined && !own.ok && own.error.code === "NOT_FOUND";
        const owner = isHidden ? await ownerWhoLetsIn(c, parameters) : undefined;
        const reply = owner === undefined ? own : await askAs(owner);
        if (!reply.ok) return problem(c, reply.error);
        const answer = parseAnswer(reply.value);
        if (!answer) return problem(c, notUnderstood(parameters.node));
        return present(c, answer);
      },
    }),
);

function describeAnswer(root: string | undefined) {
  return root === undefined
    ? {
        description:
          "text/plain; the header X-Next-Offset has the byte offset after it, and X-Dropped-Bytes what rotation dropped before",
      }
    : { description: root, schema: z.looseObject({ [root]: z.json() }) };
}

async function askNode(c: Context<AppEnv>, node: string, path: string): Promise<Reply<string>> {
  if (path.length > LIMITS.urlLengthMax) return tooLong();
  return c.var.protocols.nodes.queryNode(node, { type: "get", path });
}

/** Of the one application or container that is asked for; undefined where nobody else lets in. */
async function ownerWhoLetsIn(
  c: Context<AppEnv>,
  { application, container }: Readonly<Record<string, unknown>>,
): Promise<string | undefined> {
  const id = isText(container, isContainerId) ? applicationOfContainer(container) : application;
  if (!isText(id, isApplicationId)) return undefined;
  const who = submitterOf(c);
  const { resourceManager } = c.var.protocols;
  const owner = await resourceManager.checkApplicationAccess(id, who, "VIEW_APP");
  return owner === null || owner.user === who.user ? undefined : owner.user;
}

function isText(value: unknown, isOne: (text: string) => boolean): value is string {
  return typeof value === "string" && isOne(value);
}

function adminOnly(c: Context<AppEnv>): Reply<undefined> {
  return requireAdmin(c, c.req.path);
}

/** Undefined for an administrator who asks for nobody in particular. */
function actingUser(c: Context<AppEnv>, requested: unknown): Reply<string | undefined> {
  const user = typeof requested === "string" ? requested : undefined;
  if (user === undefined && userOf(c).role === "admin") return ok(undefined);
  return actAs(c, user);
}

/** The path as the node knows it, with the query that was validated and the user that was allowed. */
function targetOf(
  c: Context<AppEnv>,
  asked: Readonly<Record<string, unknown>>,
  user: string | undefined,
): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(asked)) {
    if (value !== undefined) query.set(name, String(value));
  }
  if (user !== undefined) query.set("user", user);
  const path = c.req.path.slice(c.req.path.indexOf(NODE_WEB_BASE));
  return query.size > 0 ? `${path}?${query}` : path;
}

function tooLong(): Reply<never> {
  return fail("INVALID_ARGUMENT", `the path is longer than ${LIMITS.urlLengthMax} characters`);
}

/** A node's words are not trusted to be what they should be. */
function parseAnswer(text: string): NodeWebAnswer | undefined {
  try {
    return nodeWebAnswerSchema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

function notUnderstood(nodeId: string): Failure {
  return fail("UNAVAILABLE", `what node ${nodeId} answered is not understood`, {
    hint: "its agent may be of another version",
  }).error;
}

function present(c: Context<AppEnv>, answer: NodeWebAnswer): Response {
  if ("json" in answer) return c.json(answer.json);
  c.header("Content-Type", "text/plain; charset=utf-8");
  c.header("X-Next-Offset", String(answer.nextOffset));
  if (answer.droppedBytes) c.header("X-Dropped-Bytes", String(answer.droppedBytes));
  return c.body(answer.text);
}
