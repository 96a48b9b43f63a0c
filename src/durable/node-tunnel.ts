/**
 * Where streams into the containers of one node meet their users: for each stream one WebSocket of
 * the user's and one of the node's, and every frame of one goes out by the other. Nothing is stored,
 * and nothing is kept back: the ends hold each other to their windows (stream-flow.ts), and whoever
 * does not keep to his is cut off. A stream on which nothing is said does not keep the object awake;
 * one alarm looks for ends that have gone without a word.
 */
import { DurableObject } from "cloudflare:workers";
import { type Failure, fail, type Reply } from "../shared/errors.ts";
import type { NodeId } from "../shared/ids.ts";
import { LIMITS } from "../shared/limits.ts";
import { NODE_DID_NOT_ANSWER } from "../shared/protocol/node-query.ts";
import type { StreamOpening } from "../shared/protocol/node-stream.ts";
import { PING, PONG } from "../shared/protocol/resource-tracker.ts";
import { shardOf } from "../shared/shard.ts";
import { relayed } from "../shared/stream-flow.ts";
import { type Env, trackerShards } from "./env.ts";
import { parseNodeTunnelName, trackerName } from "./names.ts";

const OPEN_URL = "https://node-tunnel/open";
const JOIN_URL = "https://node-tunnel/join";
const SAID_HEADER = "x-selvedge-said";
const SWITCHING_PROTOCOLS = 101;
const SECRET_BYTES = 32;
/** WebSocket close codes: the standard's for what is not allowed, a private one for an end that has gone. */
const CLOSE_POLICY = 1008;
const CLOSE_GONE = 4001;
/** What an end may say, and the other one hears; all else is the runtime's word for its being gone. */
const CLOSE_NORMAL = 1000;
const CLOSE_OWN_MIN = 3000;
const CLOSE_OWN_MAX = 4999;

type Side = "user" | "node";
type Attachment = {
  readonly streamId: string;
  readonly side: Side;
  readonly openedMs: number;
  readonly underWay: number;
};

/** A user who waits for the node to connect. */
type Waiting = { readonly secret: string; readonly answer: (response: Response) => void };

/** A user's wish; the Worker has authenticated and authorised him. */
export function openRequest(opening: StreamOpening): Request {
  return upgrade(OPEN_URL, opening);
}

/** A node that connects its end, authenticated by the Worker. */
export function joinRequest(streamId: string, secret: string): Request {
  return upgrade(JOIN_URL, { streamId, secret });
}

/** A handshake has no body, and a URL is no place for secrets. */
function upgrade(url: string, said: unknown): Request {
  const headers = { upgrade: "websocket", [SAID_HEADER]: encodeURIComponent(JSON.stringify(said)) };
  return new Request(url, { headers });
}

export class NodeTunnel extends DurableObject<Env> {
  readonly #cluster: string;
  readonly #nodeId: NodeId;
  /** Users whose request is being answered, by stream. */
  readonly #waiting = new Map<string, Waiting>();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const { cluster, nodeId } = parseNodeTunnelName(ctx.id.name ?? "");
    this.#cluster = cluster;
    this.#nodeId = nodeId;
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair(PING, PONG));
  }

  /** One end of a stream; the Worker makes these requests, and nobody else can. */
  override async fetch(request: Request): Promise<Response> {
    const said: unknown = JSON.parse(decodeURIComponent(request.headers.get(SAID_HEADER) ?? ""));
    if (request.url === OPEN_URL) return this.#open(said as StreamOpening);
    return this.#join(said as { readonly streamId: string; readonly secret: string });
  }

  override webSocketMessage(socket: WebSocket, data: string | ArrayBuffer): void {
    const peer = this.#peerOf(socket);
    if (peer) this.#relay(data, socket, peer);
    else close(socket, CLOSE_GONE, "the other side is gone");
  }

  override webSocketClose(socket: WebSocket, code: number, reason: string): void {
    const isSaid = code === CLOSE_NORMAL || (code >= CLOSE_OWN_MIN && code <= CLOSE_OWN_MAX);
    close(socket, isSaid ? code : CLOSE_NORMAL, reason);
    const peer = this.#peerOf(socket);
    if (!peer) return;
    if (isSaid) close(peer, code, reason);
    else close(peer, CLOSE_GONE, "the other side is gone");
  }

  override webSocketError(socket: WebSocket): void {
    const peer = this.#peerOf(socket);
    if (peer) close(peer, CLOSE_GONE, "the other side is gone");
  }

  /** Ends that do not ping any more are gone, though nobody has told. */
  override async alarm(): Promise<void> {
    const deadlineMs = Date.now() - LIMITS.streamSilenceMsMax;
    for (const socket of this.ctx.getWebSockets()) {
      const { openedMs } = attachmentOf(socket);
      const heardMs = this.ctx.getWebSocketAutoResponseTimestamp(socket)?.getTime() ?? openedMs;
      if (heardMs > deadlineMs) continue;
      const peer = this.#peerOf(socket);
      close(socket, CLOSE_GONE, "silent for too long");
      if (peer) close(peer, CLOSE_GONE, "the other side is gone");
    }
    if (this.ctx.getWebSockets().length > 0) await this.#lookLater();
  }

  #relay(data: string | ArrayBuffer, socket: WebSocket, peer: WebSocket): void {
    const from = attachmentOf(socket);
    const to = attachmentOf(peer);
    const underWay = { own: from.underWay, other: to.underWay };
    const books = typeof data === "string" ? null : relayed(new Uint8Array(data), underWay);
    if (books) {
      socket.serializeAttachment({ ...from, underWay: books.own } satisfies Attachment);
      peer.serializeAttachment({ ...to, underWay: books.other } satisfies Attachment);
      send(peer, data);
    } else {
      close(socket, CLOSE_POLICY, "no frame of a stream, or more than its window");
      close(peer, CLOSE_POLICY, "the other side did not keep to the protocol");
    }
  }

  async #open(opening: StreamOpening): Promise<Response> {
    const streams = this.ctx.getWebSockets().length / 2 + this.#waiting.size;
    if (streams >= LIMITS.streamsPerNodeMax) return refusal(tooMany(this.#nodeId));
    const streamId = crypto.randomUUID();
    const secret = randomSecret();
    const { promise, resolve } = Promise.withResolvers<Response>();
    this.#waiting.set(streamId, { secret, answer: resolve });
    const timer = setTimeout(() => resolve(refusal(late(this.#nodeId))), LIMITS.streamPairingMsMax);
    this.#askNode(opening, streamId, secret).then(
      (reply) => {
        if (!reply.ok) resolve(refusal(withHint(reply.error)));
      },
      () => resolve(refusal(fail("UNAVAILABLE", "the cluster is restarting; try again").error)),
    );
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(streamId);
    }
  }

  /** Both ends come to be in one turn, so that no frame of either finds nobody. */
  async #join({ streamId, secret }: { streamId: string; secret: string }): Promise<Response> {
    const waiting = this.#waiting.get(streamId);
    if (!waiting || !isSame(waiting.secret, secret)) return refusal(notExpected(streamId));
    this.#waiting.delete(streamId);
    const node = this.#accept(streamId, "node");
    waiting.answer(this.#accept(streamId, "user"));
    await this.#lookLater();
    return node;
  }

  #accept(streamId: string, side: Side): Response {
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server, [tagOf(streamId, side)]);
    const attachment: Attachment = { streamId, side, openedMs: Date.now(), underWay: 0 };
    server.serializeAttachment(attachment);
    return new Response(null, { status: SWITCHING_PROTOCOLS, webSocket: client });
  }

  #askNode(opening: StreamOpening, streamId: string, secret: string): Promise<Reply<string>> {
    const shard = shardOf(this.#nodeId, trackerShards(this.env));
    const tracker = this.env.RESOURCE_TRACKER.getByName(trackerName(this.#cluster, shard));
    return tracker.queryNode(this.#nodeId, { type: "open-stream", streamId, secret, ...opening });
  }

  #peerOf(socket: WebSocket): WebSocket | undefined {
    const { streamId, side } = attachmentOf(socket);
    return this.ctx.getWebSockets(tagOf(streamId, side === "user" ? "node" : "user"))[0];
  }

  async #lookLater(): Promise<void> {
    if ((await this.ctx.storage.getAlarm()) !== null) return;
    await this.ctx.storage.setAlarm(Date.now() + LIMITS.streamSilenceMsMax);
  }
}

function attachmentOf(socket: WebSocket): Attachment {
  return socket.deserializeAttachment() as Attachment;
}

function tagOf(streamId: string, side: Side): string {
  return `${streamId} ${side}`;
}

/** A socket that is closing already hears nothing more; its close event follows. */
function send(socket: WebSocket, data: string | ArrayBuffer): void {
  try {
    socket.send(data);
  } catch (error) {
    console.warn(JSON.stringify({ event: "stream.send", outcome: "failed", error: String(error) }));
  }
}

/** Does nothing to one that is closed already. */
function close(socket: WebSocket, code: number, reason: string): void {
  try {
    socket.close(code, reason);
  } catch (error) {
    console.warn(
      JSON.stringify({ event: "stream.close", outcome: "failed", error: String(error) }),
    );
  }
}

/** The Worker knows it by its not being a socket. */
function refusal(error: Failure): Response {
  return Response.json({ ok: false, error });
}

/** A node of an earlier version understands no word of it. */
function withHint(error: Failure): Failure {
  if (error.reason !== NODE_DID_NOT_ANSWER) return error;
  return { ...error, hint: "try again; an agent of an earlier version knows no streams" };
}

function tooMany(nodeId: NodeId): Failure {
  const max = LIMITS.streamsPerNodeMax;
  return fail("RESOURCE_EXHAUSTED", `node ${nodeId} has ${max} streams already, the maximum`, {
    retryAfterMs: 10_000,
  }).error;
}

function late(nodeId: NodeId): Failure {
  const seconds = LIMITS.streamPairingMsMax / 1_000;
  return fail("UNAVAILABLE", `node ${nodeId} did not connect within ${seconds} s`, {
    hint: "try again; if it goes on, the node's own log says why",
  }).error;
}

function notExpected(streamId: string): Failure {
  return fail("NOT_FOUND", `there is no stream ${streamId} that waits for this node`).error;
}

function randomSecret(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(SECRET_BYTES));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Takes the same time wherever they differ. */
function isSame(secret: string, shown: string): boolean {
  const encode = (text: string) => new TextEncoder().encode(text);
  const [expected, given] = [encode(secret), encode(shown)];
  return expected.byteLength === given.byteLength && crypto.subtle.timingSafeEqual(expected, given);
}
