/**
 * One WebSocket connection to the tracker, from the handshake to its end. It opens with `register`;
 * text `ping` is answered `pong` by the far side's runtime, and silence ends the connection.
 */
import WebSocket from "ws";
import {
  type AgentMessage,
  PING,
  PONG,
  type TrackerMessage,
} from "../shared/protocol/resource-tracker.ts";
import { type Log, messageOf } from "./log.ts";
import type { NodeSide } from "./node-status-updater.ts";
import { webSocketAgent } from "./proxy.ts";
import { parseTrackerMessage } from "./tracker-messages.ts";

const HANDSHAKE_TIMEOUT_MS = 5_000;
/** A tracker that has not answered `register` by then is tried anew. */
const REGISTRATION_TIMEOUT_MS = 10_000;
/** A whole desired set of 4,096 containers fits. */
const MESSAGE_BYTES_MAX = 67_108_864;
/** How long the far side may take to answer a close. */
const CLOSE_TIMEOUT_MS = 500;

export type SessionOptions = {
  readonly url: string;
  readonly credential: string;
  readonly connection: number;
  readonly node: NodeSide;
  readonly log: Log;
};

/** `refused`: the credential is not accepted. `failed`: anything else before `registered`. */
export type SocketEnd = "registered" | "failed" | "refused";

export class TrackerSocket {
  readonly #options: SessionOptions;
  readonly #socket: WebSocket;
  readonly #ended = Promise.withResolvers<SocketEnd>();
  #end: SocketEnd = "failed";
  #reason = "";
  #deadline: NodeJS.Timeout | undefined;
  #ping: NodeJS.Timeout | undefined;
  #isHeard = true;
  #isOver = false;

  constructor(options: SessionOptions) {
    this.#options = options;
    const { url, credential, node } = options;
    const socket = new WebSocket(`${url.replace(/^http/, "ws")}/ws/v1/node/connect`, {
      headers: { Authorization: `Bearer ${credential}` },
      handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
      maxPayload: MESSAGE_BYTES_MAX,
      perMessageDeflate: false,
      agent: webSocketAgent(url, process.env),
    });
    this.#socket = socket;
    socket.on("open", () => {
      this.send(node.registration());
      this.#deadline = setTimeout(
        () => this.#giveUp("no answer to register"),
        REGISTRATION_TIMEOUT_MS,
      );
    });
    socket.on("message", (data) => this.#hear(String(data)));
    socket.on("unexpected-response", (request, { statusCode }) => {
      this.#reason = `the tracker answered ${statusCode}`;
      // 403 is what proxies answer that let no WebSocket pass.
      if (statusCode === 401) this.#end = "refused";
      request.destroy();
      this.#over();
    });
    socket.on("error", (error) => {
      this.#reason ||= messageOf(error);
    });
    socket.on("close", (code, reason) => {
      this.#reason ||= `closed by the tracker: ${code} ${reason}`.trim();
      this.#over();
    });
  }

  /** Resolves when the connection is over, however far it came. */
  run(): Promise<SocketEnd> {
    return this.#ended.promise;
  }

  /** Dropped when the connection is not open. */
  send(message: AgentMessage): void {
    if (this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }

  /** Says `last`, then closes in good order; a far side that does not answer is left. */
  async finish(last: AgentMessage | undefined): Promise<void> {
    this.#reason = "ok";
    if (last) this.send(last);
    this.#socket.close(1000);
    const timer = setTimeout(() => this.#socket.terminate(), CLOSE_TIMEOUT_MS);
    await this.#ended.promise;
    clearTimeout(timer);
  }

  #hear(text: string): void {
    const { node, connection, log, url } = this.#options;
    this.#isHeard = true;
    if (text === PONG) return;
    const message = parseTrackerMessage(text);
    if (!message) {
      log({ event: "connection.message", outcome: "not understood", url });
      return;
    }
    if (message.type === "registered" && this.#end !== "registered") this.#registered(message);
    node.receive(message, connection);
  }

  #registered({ pingIntervalMs }: Extract<TrackerMessage, { type: "registered" }>): void {
    const { log, url } = this.#options;
    this.#end = "registered";
    clearTimeout(this.#deadline);
    log({ event: "connection.up", outcome: "ok", url, by: "websocket" });
    this.#ping = setInterval(() => {
      if (this.#isHeard) {
        this.#isHeard = false;
        this.#socket.send(PING);
      } else {
        this.#giveUp("no answer to ping");
      }
    }, pingIntervalMs);
  }

  #giveUp(reason: string): void {
    this.#reason ||= reason;
    this.#socket.terminate();
  }

  #over(): void {
    clearTimeout(this.#deadline);
    clearInterval(this.#ping);
    if (this.#isOver) return;
    this.#isOver = true;
    const { log, url } = this.#options;
    log({ event: "connection.down", outcome: this.#reason, url });
    this.#ended.resolve(this.#end);
  }
}
