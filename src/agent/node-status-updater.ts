/**
 * NodeStatusUpdater: keeps the node in touch with its tracker. One WebSocket, opened again whenever
 * it breaks (exponential back-off with full jitter); where no socket passes, the same messages by
 * HTTP heartbeat until a socket passes again.
 *
 * Every connection begins with the full truth (`register`), so whatever is said while there is no
 * connection may be dropped.
 */
import { setTimeout as delay } from "node:timers/promises";
import WebSocket from "ws";
import {
  type AgentMessage,
  PING,
  PONG,
  type RegisterNodeManager,
  type TrackerMessage,
} from "../shared/protocol/resource-tracker.ts";
import { type HeartbeatEnd, HeartbeatSession } from "./heartbeat-session.ts";
import { type Log, messageOf } from "./log.ts";
import { parseTrackerMessage } from "./tracker-messages.ts";

export type UpdaterTimings = {
  readonly backoffMinMs: number;
  readonly backoffMaxMs: number;
  /** Failed sockets in a row before HTTP heartbeats are tried. */
  readonly socketAttemptsMax: number;
  /** How long heartbeats go on before the socket is tried again. */
  readonly socketRetryMs: number;
  readonly heartbeatBusyMs: number;
  readonly heartbeatIdleMs: number;
};
export const UPDATER_TIMINGS: UpdaterTimings = {
  backoffMinMs: 100,
  backoffMaxMs: 15_000,
  socketAttemptsMax: 5,
  socketRetryMs: 60_000,
  heartbeatBusyMs: 1_000,
  heartbeatIdleMs: 10_000,
};

const HANDSHAKE_TIMEOUT_MS = 5_000;
/** A whole desired set of 4,096 containers fits. */
const MESSAGE_BYTES_MAX = 67_108_864;
/** A connection shorter than this does not make the next one come any sooner. */
const STABLE_CONNECTION_MS = 1_000;

/** The node as the updater needs it. */
export type NodeSide = {
  registration(): RegisterNodeManager;
  /** `connection` grows by one with every connection. */
  receive(message: TrackerMessage, connection: number): void;
  /** Containers are changing, so that heartbeats should come often. */
  isBusy(): boolean;
  /** The credential was refused; a new one, or undefined when there is none to be had. */
  renewCredential(): Promise<string | undefined>;
};

type SocketEnd = "registered" | "failed" | "refused";

export class NodeStatusUpdater {
  readonly #url: string;
  #credential: string;
  readonly #node: NodeSide;
  readonly #log: Log;
  readonly #timings: UpdaterTimings;
  readonly #closed = new AbortController();
  #connection = 0;
  #socket: WebSocket | undefined;
  #heartbeats: HeartbeatSession | undefined;
  #finished: Promise<void> | undefined;

  /** `url` is the cluster's, with its path prefix if it has one. */
  constructor(
    url: string,
    credential: string,
    node: NodeSide,
    log: Log,
    timings: UpdaterTimings = UPDATER_TIMINGS,
  ) {
    this.#url = url.replace(/\/+$/, "");
    this.#credential = credential;
    this.#node = node;
    this.#log = log;
    this.#timings = timings;
  }

  start(): void {
    this.#finished = this.#run();
  }

  /** Dropped without a connection: the next `register` says it. */
  send(message: AgentMessage): void {
    if (this.#heartbeats) this.#heartbeats.send(message);
    else if (this.#socket?.readyState === WebSocket.OPEN)
      this.#socket.send(JSON.stringify(message));
  }

  /** Says `last`, if there is a socket to say it on, and ends for good. */
  async close(last?: AgentMessage): Promise<void> {
    const socket = this.#socket;
    if (last) {
      if (this.#heartbeats) await this.#heartbeats.post([last]);
      else this.send(last);
    }
    this.#closed.abort();
    // A close frame follows what was sent before it; a peer that does not answer is left.
    socket?.close(1000);
    const timer = setTimeout(() => socket?.terminate(), 500);
    await this.#finished;
    clearTimeout(timer);
  }

  async #run(): Promise<void> {
    const { signal } = this.#closed;
    let failures = 0;
    while (!signal.aborted) {
      const startedMs = Date.now();
      const end = await this.#connectSocket();
      if (signal.aborted) return;
      const isStable = end === "registered" && Date.now() - startedMs >= STABLE_CONNECTION_MS;
      failures = isStable ? 0 : failures + 1;
      if (end === "refused") await this.#renewCredential();
      if (end === "failed" && failures >= this.#timings.socketAttemptsMax) {
        if ((await this.#heartbeat()) === "time") continue;
      }
      await this.#backOff(failures);
    }
  }

  #connectSocket(): Promise<SocketEnd> {
    return new Promise((resolve) => {
      const connection = ++this.#connection;
      let end: SocketEnd = "failed";
      let reason = "";
      let ping: NodeJS.Timeout | undefined;
      let isHeard = true;
      const socket = new WebSocket(`${this.#url.replace(/^http/, "ws")}/ws/v1/node/connect`, {
        headers: { Authorization: `Bearer ${this.#credential}` },
        handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
        maxPayload: MESSAGE_BYTES_MAX,
        perMessageDeflate: false,
      });
      this.#socket = socket;
      socket.on("open", () => socket.send(JSON.stringify(this.#node.registration())));
      socket.on("message", (data, isBinary) => {
        isHeard = true;
        const text = String(data);
        if (text === PONG && !isBinary) return;
        const message = this.#parse(text);
        if (!message) return;
        if (message.type === "registered" && end !== "registered") {
          end = "registered";
          this.#log({ event: "connection.up", outcome: "ok", url: this.#url, by: "websocket" });
          ping = setInterval(() => {
            if (!isHeard) {
              reason = "no answer to ping";
              return socket.terminate();
            }
            isHeard = false;
            socket.send(PING);
          }, message.pingIntervalMs);
        }
        this.#node.receive(message, connection);
      });
      socket.on("unexpected-response", (request, response) => {
        const { statusCode } = response;
        reason = `the tracker answered ${statusCode}`;
        if (statusCode === 401 || statusCode === 403) end = "refused";
        request.destroy();
        finish();
      });
      socket.on("error", (error) => {
        reason ||= messageOf(error);
      });
      const finish = () => {
        clearInterval(ping);
        if (this.#socket !== socket) return;
        this.#socket = undefined;
        const outcome = this.#closed.signal.aborted ? "ok" : reason || "closed by the tracker";
        this.#log({ event: "connection.down", outcome, url: this.#url });
        resolve(end);
      };
      socket.on("close", finish);
    });
  }

  #parse(text: string): TrackerMessage | undefined {
    const message = parseTrackerMessage(text);
    if (!message) this.#log({ event: "connection.message", outcome: "not understood" });
    return message;
  }

  async #heartbeat(): Promise<HeartbeatEnd> {
    const connection = ++this.#connection;
    this.#heartbeats = new HeartbeatSession({
      url: this.#url,
      credential: this.#credential,
      connection,
      node: this.#node,
      timings: this.#timings,
      log: this.#log,
      closed: this.#closed.signal,
    });
    const end = await this.#heartbeats.run();
    this.#heartbeats = undefined;
    return end;
  }

  async #renewCredential(): Promise<void> {
    const renewed = await this.#node.renewCredential();
    if (renewed !== undefined) this.#credential = renewed;
  }

  /** Full jitter: a thousand agents that lost one tracker do not come back in one moment. */
  async #backOff(failures: number): Promise<void> {
    const { backoffMinMs, backoffMaxMs } = this.#timings;
    const { signal } = this.#closed;
    const limitMs = Math.min(backoffMaxMs, backoffMinMs * 2 ** Math.min(failures, 20));
    await delay(Math.random() * limitMs, undefined, { signal }).catch(() => undefined);
  }
}
