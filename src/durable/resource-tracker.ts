/**
 * A shard of the ResourceTracker: the agents' hibernating WebSockets end here. Between changes the
 * object sleeps; the runtime answers the agents' pings, and one alarm looks at when they last came.
 */
import { DurableObject } from "cloudflare:workers";
import { Tracker } from "../core/cluster/tracker.ts";
import { applicationsFinished, finishApplications } from "../core/cluster/tracker-applications.ts";
import {
  containerStatuses,
  expireNodes,
  NODE_EXPIRY_MS,
  nextNodeDeadlineMs,
  nodeDisconnected,
  nodeHealth,
  nodeSilent,
  nodeUnregistered,
  registerNodeManager,
  resendDesired,
} from "../core/cluster/tracker-node.ts";
import type { ContainerStatus } from "../shared/container.ts";
import { fail, ok, type Reply } from "../shared/errors.ts";
import type { ApplicationId, ContainerId, NodeId } from "../shared/ids.ts";
import { LIMITS } from "../shared/limits.ts";
import type {
  ContainerManagementProtocol,
  LogReader,
  MasterName,
  ReadLogRequest,
  ReadLogResponse,
  StartContainerRequest,
  UpdateContainerRequest,
} from "../shared/protocol/container-management.ts";
import {
  NODE_DID_NOT_ANSWER,
  type NodeAnswer,
  type NodeQueries,
  type NodeQuery,
} from "../shared/protocol/node-query.ts";
import {
  type AgentMessage,
  agentMessageSchema,
  type CleanupOrder,
  type LogChunk,
  type NodeHeartbeatResponse,
  PING,
  PONG,
  type ShutdownOrder,
  type TrackerMessage,
  type TrackerReport,
  type VerificationKey,
} from "../shared/protocol/resource-tracker.ts";
import type { Env } from "./env.ts";
import { parseTrackerName } from "./names.ts";
import { Shell } from "./shell.ts";

/** Set by the Worker after it has verified the node's credential; never taken from outside. */
export const NODE_ID_HEADER = "x-selvedge-node-id";

/** A node that comes by plain HTTP has this long until its next heartbeat. */
const HTTP_HEARTBEAT_EXPIRY_MS = 30_000;
/** In place of a connection's number, for a node that comes by plain HTTP. */
const HTTP_SESSION = 0;
/** How often silent connections are looked for; YARN's monitors also look thrice per expiry. */
const LIVENESS_INTERVAL_MS = NODE_EXPIRY_MS / 3;
/** How long an agent may take to answer, on top of what a log reader asked to wait. */
const ANSWER_MS = 10_000;
/** WebSocket close codes: private for "another connection took over", standard for bad frames. */
const CLOSE_REPLACED = 4000;
const CLOSE_POLICY = 1008;

type Attachment = {
  readonly nodeId: NodeId;
  readonly session: number;
  readonly openedMs: number;
  /** What is still under way on it is late: the node has said it again on the newer connection. */
  readonly isReplaced?: boolean;
};

type Work =
  | { readonly key: "report"; readonly report: TrackerReport }
  | { readonly key: string; readonly master: MasterName; readonly generation: number };

export class ResourceTracker
  extends DurableObject<Env>
  implements ContainerManagementProtocol, LogReader, NodeQueries
{
  readonly #tracker = new Tracker();
  readonly #cluster: string;
  readonly #shard: string;
  readonly #shell: Shell<Work>;
  #keys: readonly VerificationKey[] | null = null;
  #livenessDueMs = Date.now() + LIVENESS_INTERVAL_MS;
  /** When nodes without a socket were heard last, and what is to be told to them. */
  readonly #heartbeats = new Map<NodeId, { atMs: number; messages: TrackerMessage[] }>();
  /** Who waits for an agent's answer, by request. */
  readonly #requests = new Map<string, (answer: LogChunk | NodeAnswer) => void>();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const { cluster, shard } = parseTrackerName(ctx.id.name ?? "default/0");
    this.#cluster = cluster;
    this.#shard = shard;
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(PING, PONG));
    const tracker = this.#tracker;
    this.#shell = new Shell<Work>(ctx, {
      tables: tracker.tables,
      drain: () => tracker.drain(),
      restore: () => undefined,
      settle: (nowMs) => this.#settle(nowMs),
      nextDeadlineMs: () => this.#nextDeadlineMs(),
      work: () => this.#work(),
      perform: (work) => this.#perform(work),
      afterSave: () => this.#sendMessages(),
    });
    ctx.blockConcurrencyWhile(async () => this.#noticeLostSockets());
  }

  // --- the agents' side ------------------------------------------------------------------------

  /** A node opens its connection. The Worker has authenticated it and set NODE_ID_HEADER. */
  override async fetch(request: Request): Promise<Response> {
    const nodeId = request.headers.get(NODE_ID_HEADER) ?? "";
    await this.#verificationKeys();
    const { 0: client, 1: server } = new WebSocketPair();
    for (const older of this.ctx.getWebSockets(nodeId)) {
      const before = older.deserializeAttachment() as Attachment;
      older.serializeAttachment({ ...before, isReplaced: true } satisfies Attachment);
      older.close(CLOSE_REPLACED, "another connection of this node took over");
    }
    const session = crypto.getRandomValues(new Uint32Array(1))[0] ?? 0;
    const attachment: Attachment = { nodeId, session, openedMs: Date.now() };
    this.ctx.acceptWebSocket(server, [nodeId]);
    server.serializeAttachment(attachment);
    return new Response(null, { status: 101, webSocket: client });
  }

  override async webSocketMessage(socket: WebSocket, data: string | ArrayBuffer): Promise<void> {
    const { nodeId, session, isReplaced } = socket.deserializeAttachment() as Attachment;
    if (isReplaced) return;
    const message = typeof data === "string" ? parseAgentMessage(data) : undefined;
    if (!message) return socket.close(CLOSE_POLICY, "not a message of the node protocol");
    if (message.type === "register" && message.node.nodeId !== nodeId) {
      return socket.close(CLOSE_POLICY, `the credential is for ${nodeId}`);
    }
    const registered = this.#tracker.nodes.get(nodeId)?.session === session;
    if (message.type !== "register" && !registered) {
      return socket.close(CLOSE_POLICY, "register first");
    }
    const keys = this.#keys ?? (await this.#verificationKeys());
    this.#hear(nodeId, session, message, keys);
  }

  override async webSocketClose(socket: WebSocket): Promise<void> {
    this.#disconnected(socket);
  }

  override async webSocketError(socket: WebSocket): Promise<void> {
    this.#disconnected(socket);
  }

  /** The plain-HTTP fallback: the same messages, and each time the whole desired set. */
  async heartbeat(
    nodeId: NodeId,
    messages: readonly AgentMessage[],
  ): Promise<Reply<NodeHeartbeatResponse>> {
    const keys = await this.#verificationKeys();
    const foreign = messages.some(
      (message) => message.type === "register" && message.node.nodeId !== nodeId,
    );
    if (foreign) return fail("PERMISSION_DENIED", `the credential is for ${nodeId}`);
    const registers = messages.some((message) => message.type === "register");
    const known = this.#tracker.nodes.get(nodeId);
    if (!registers && (known?.presence !== "CONNECTED" || known.session !== HTTP_SESSION)) {
      return fail("FAILED_PRECONDITION", `${nodeId} is not registered`, { reason: "RESYNC" });
    }
    const heard = { atMs: Date.now(), messages: [] as TrackerMessage[] };
    this.#heartbeats.set(nodeId, heard);
    for (const message of messages) this.#hear(nodeId, HTTP_SESSION, message, keys);
    if (!registers) {
      this.#shell.run("resendDesired", () => resendDesired(this.#tracker, nodeId, keys));
    }
    return ok({ messages: heard.messages });
  }

  #hear(
    nodeId: NodeId,
    session: number,
    message: AgentMessage,
    keys: readonly VerificationKey[],
  ): void {
    const tracker = this.#tracker;
    if (message.type === "log" || message.type === "node-answer") {
      this.#requests.get(message.requestId)?.(message);
      return;
    }
    this.#shell.run(`node.${message.type}`, () => {
      switch (message.type) {
        case "register":
          return registerNodeManager(tracker, message, session, keys);
        case "statuses":
          return containerStatuses(tracker, nodeId, message.containers);
        case "health":
          return nodeHealth(tracker, nodeId, message);
        case "applications-finished":
          return applicationsFinished(tracker, nodeId, message.applicationIds);
        case "unregister":
          return nodeUnregistered(tracker, nodeId);
      }
    });
  }

  #disconnected(socket: WebSocket): void {
    const { nodeId, session } = socket.deserializeAttachment() as Attachment;
    this.#shell.run("node.disconnected", (nowMs) =>
      nodeDisconnected(this.#tracker, nodeId, session, nowMs),
    );
  }

  /**
   * After a restart of the whole machine nobody tells that the sockets are gone. When a node without
   * a socket came last is not known any more either: its next heartbeat may still be on its way.
   */
  #noticeLostSockets(): void {
    const lost = [...this.#tracker.nodes.values()].filter(
      ({ facts: { nodeId }, presence }) =>
        presence === "CONNECTED" &&
        !this.#heartbeats.has(nodeId) &&
        this.ctx.getWebSockets(nodeId).length === 0,
    );
    if (lost.length === 0) return;
    this.#shell.run("socketsLost", (nowMs) => {
      for (const { facts, session } of lost) {
        const heardMs = session === HTTP_SESSION ? nowMs + HTTP_HEARTBEAT_EXPIRY_MS : nowMs;
        nodeDisconnected(this.#tracker, facts.nodeId, session, heardMs);
      }
    });
  }

  #sendMessages(): void {
    for (const { nodeId, message } of this.#tracker.drainMessages()) {
      const sockets = this.ctx.getWebSockets(nodeId);
      const text = JSON.stringify(message);
      for (const socket of sockets) this.#send(socket, text);
      if (sockets.length === 0) this.#heartbeats.get(nodeId)?.messages.push(message);
    }
  }

  /** A socket that just broke is noticed by its close event; the node registers again anyway. */
  #send(socket: WebSocket, text: string): void {
    try {
      socket.send(text);
    } catch (error) {
      console.warn(JSON.stringify({ event: "node.send", outcome: "failed", error: String(error) }));
    }
  }

  // --- ContainerManagementProtocol, orders of the ResourceManager, logs ---------------------------

  async startContainers(master: MasterName, requests: readonly StartContainerRequest[]) {
    return this.#shell.run("startContainers", () => {
      this.#tracker.startContainers(master, requests);
      return ok();
    });
  }

  /** Answers the containers which this shard does not have. */
  async cleanupContainers(orders: readonly CleanupOrder[]): Promise<readonly ContainerId[]> {
    return this.#shell.run("cleanupContainers", () => this.#tracker.cleanupContainers(orders));
  }

  async updateContainers(master: MasterName, requests: readonly UpdateContainerRequest[]) {
    return this.#shell.run("updateContainers", () =>
      ok(this.#tracker.updateContainers(master, requests)),
    );
  }

  /** Durable once it returns: the nodes of this shard clean up after the applications. */
  async finishApplications(applicationIds: readonly ApplicationId[]): Promise<void> {
    this.#shell.run("finishApplications", () => finishApplications(this.#tracker, applicationIds));
  }

  /** Tells nodes to shut down; those that are not there any more need not be told. */
  async shutdownNodes(orders: readonly ShutdownOrder[]): Promise<void> {
    this.#shell.run("shutdownNodes", () => {
      for (const { nodeId, reason } of orders) {
        this.#tracker.send(nodeId, { type: "shutdown", reason });
      }
    });
  }

  async readLog(request: ReadLogRequest): Promise<Reply<ReadLogResponse>> {
    const { nodeId, containerId, file, offset, sinceMs, waitMs } = request;
    const lengthMax = Math.min(request.lengthMax, LIMITS.logChunkBytesMax);
    const hint = "its logs can be read again when it is back";
    const reply = await this.#ask(nodeId, waitMs, hint, (requestId) => ({
      ...{ type: "read-log", requestId, containerId, file, offset, lengthMax, waitMs },
      ...(sinceMs === undefined ? {} : { sinceMs }),
    }));
    if (!reply.ok) return reply;
    const chunk = reply.value;
    if (chunk.type !== "log" || chunk.data === null) {
      return fail("NOT_FOUND", `${containerId} has no log file ${file}`);
    }
    const { data, nextOffset, end, droppedBytes } = chunk;
    return ok({ data, nextOffset, end, ...(droppedBytes ? { droppedBytes } : {}) });
  }

  async queryNode(nodeId: NodeId, query: NodeQuery): Promise<Reply<string>> {
    const hint = "ask again when it is back";
    const reply = await this.#ask(nodeId, 0, hint, (requestId) => ({
      ...{ type: "node-query", requestId, query },
    }));
    if (!reply.ok) return reply;
    const answer = reply.value;
    if (answer.type === "node-answer" && answer.body !== undefined) return ok(answer.body);
    const error = answer.type === "node-answer" ? answer.error : undefined;
    if (!error) return fail("INTERNAL", `node ${nodeId} answered something else`);
    const { code, message, hint: help } = error;
    return fail(code, message, help === undefined ? {} : { hint: help });
  }

  /** Puts a request through to a connected agent and waits for its answer, `waitMs` and 10 s. */
  async #ask(
    nodeId: NodeId,
    waitMs: number,
    hint: string,
    messageOf: (requestId: string) => TrackerMessage,
  ): Promise<Reply<LogChunk | NodeAnswer>> {
    const [socket] = this.ctx.getWebSockets(nodeId);
    if (!socket) return this.#unreachable(nodeId, hint);
    if (this.#requests.size >= LIMITS.nodeRequestsMax) {
      const message = `${LIMITS.nodeRequestsMax} requests to nodes wait for answers already`;
      return fail("RESOURCE_EXHAUSTED", message, { retryAfterMs: ANSWER_MS });
    }
    const requestId = crypto.randomUUID();
    const { promise, resolve } = Promise.withResolvers<LogChunk | NodeAnswer | null>();
    this.#requests.set(requestId, resolve);
    const timer = setTimeout(() => resolve(null), waitMs + ANSWER_MS);
    this.#send(socket, JSON.stringify(messageOf(requestId)));
    const answer = await promise;
    clearTimeout(timer);
    this.#requests.delete(requestId);
    if (answer) return ok(answer);
    const message = `node ${nodeId} did not answer in time`;
    return fail("UNAVAILABLE", message, { reason: NODE_DID_NOT_ANSWER });
  }

  #unreachable(nodeId: NodeId, hint: string): Reply<never> {
    if (!this.#heartbeats.has(nodeId)) {
      return fail("UNAVAILABLE", `node ${nodeId} is not connected`, { hint });
    }
    return fail("UNAVAILABLE", `node ${nodeId} is not connected but by plain HTTP heartbeats`, {
      hint: "it cannot be asked anything until a proxy or firewall on its way lets its WebSocket pass",
    });
  }

  // --- what is to be said to others ------------------------------------------------------------

  override async alarm(): Promise<void> {
    this.#checkLiveness();
    this.#shell.alarm();
  }

  #settle(nowMs: number): void {
    for (const [nodeId, { atMs }] of this.#heartbeats) {
      if (atMs + HTTP_HEARTBEAT_EXPIRY_MS > nowMs) continue;
      this.#heartbeats.delete(nodeId);
      if (this.ctx.getWebSockets(nodeId).length === 0) {
        nodeDisconnected(this.#tracker, nodeId, HTTP_SESSION, nowMs);
      }
    }
    expireNodes(this.#tracker, nowMs);
  }

  #nextDeadlineMs(): number | null {
    const deadlines: number[] = [];
    const grace = nextNodeDeadlineMs(this.#tracker);
    if (grace !== null) deadlines.push(grace);
    for (const { atMs } of this.#heartbeats.values()) {
      deadlines.push(atMs + HTTP_HEARTBEAT_EXPIRY_MS);
    }
    if (this.#tracker.nodes.size > 0) deadlines.push(this.#livenessDueMs);
    return deadlines.length === 0 ? null : Math.min(...deadlines);
  }

  /**
   * Connections that are open but say nothing: the machine behind them is gone. Looked for at every
   * alarm, because an object that slept does not know when it looked last.
   */
  #checkLiveness(): void {
    const nowMs = Date.now();
    this.#livenessDueMs = nowMs + LIVENESS_INTERVAL_MS;
    for (const socket of this.ctx.getWebSockets()) {
      const { nodeId, session, openedMs } = socket.deserializeAttachment() as Attachment;
      const answered = this.ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? openedMs;
      if (answered + NODE_EXPIRY_MS > nowMs) continue;
      socket.close(CLOSE_POLICY, "silent for too long");
      // An older connection of a node may linger after a newer one has taken over.
      if (this.#tracker.nodes.get(nodeId)?.session !== session) continue;
      this.#shell.run("node.silent", () => nodeSilent(this.#tracker, nodeId));
    }
    this.#noticeLostSockets();
  }

  #work(): readonly Work[] {
    const report = this.#tracker.report(this.#shard);
    const work: Work[] = report ? [{ key: "report", report }] : [];
    for (const master of this.#tracker.unheardMasters()) {
      work.push({ key: `statuses ${master}`, master, generation: this.#tracker.clock });
    }
    return work;
  }

  async #perform(work: Work): Promise<number> {
    if ("report" in work) {
      await this.#report(work.report);
      return 0;
    }
    const { generation, statuses } = this.#tracker.statusesFor(work.master);
    const heard = await this.#master(work.master).onContainerStatuses(
      this.#shard,
      generation,
      statuses as ContainerStatus[],
    );
    this.#shell.run("statusesAcknowledged", () => {
      if (heard > generation) this.#tracker.fastForward(heard);
      else this.#tracker.statusesAcknowledged(work.master, generation);
    });
    return 0;
  }

  async #report(report: TrackerReport): Promise<void> {
    const reply = await this.#resourceManager().reportNodes(report);
    if (!reply.ok) throw new Error(reply.error.message);
    const { acknowledged, cleanup, keys } = reply.value;
    this.#shell.run("reportAcknowledged", () => {
      if (acknowledged > report.generation) this.#tracker.fastForward(acknowledged);
      else this.#tracker.reportAcknowledged(report.generation, cleanup);
    });
    if (this.#keys !== null && JSON.stringify(keys) !== JSON.stringify(this.#keys)) {
      const text = JSON.stringify({ type: "keys", keys } satisfies TrackerMessage);
      for (const socket of this.ctx.getWebSockets()) this.#send(socket, text);
    }
    this.#keys = keys;
  }

  async #verificationKeys(): Promise<readonly VerificationKey[]> {
    const keys = this.#keys ?? (await this.#resourceManager().getVerificationKeys());
    this.#keys = keys;
    return keys;
  }

  #resourceManager() {
    return this.env.RESOURCE_MANAGER.getByName(this.#cluster);
  }

  #master(name: MasterName) {
    return this.env.SERVICE_MASTER.getByName(name);
  }
}

function parseAgentMessage(text: string): AgentMessage | undefined {
  if (text.length > LIMITS.nodeMessageBytesMax) return undefined;
  try {
    return agentMessageSchema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}
