/**
 * One end of a stream into a container, as its user and its node have it: frames over a WebSocket,
 * with flow control. What is sent waits until the other side has room for it; what comes is given back
 * once it was consumed, so that neither end, nor what is in between, ever holds more than a window.
 */
import WebSocket, { type ClientOptions } from "ws";
import { LIMITS } from "../shared/limits.ts";
import { PING, PONG } from "../shared/protocol/resource-tracker.ts";
import { ReceiveWindow, SendWindow } from "../shared/stream-flow.ts";
import {
  type DataKind,
  decodeFrame,
  encodeFrame,
  FRAME_DATA_BYTES_MAX,
  type StreamFrame,
} from "../shared/stream-frame.ts";
import { connectionProblem } from "./http.ts";
import { failureOfBody, ProblemError } from "./problem-error.ts";

const HANDSHAKE_TIMEOUT_MS = LIMITS.streamPairingMsMax + 5_000;
/**
 * How long the far side may take to end the connection once the end was said. workerd takes 10 s where
 * it was the one who said so.
 */
const CLOSE_TIMEOUT_MS = 1_000;
const CLOSE_NORMAL = 1000;
const CLOSE_POLICY = 1008;
const CLOSE_FAILED = 1011;
const CLOSE_IDLE = 4002;
/** A refusal's text; longer ones are no problem of ours. */
const REFUSAL_BYTES_MAX = 65_536;

/** What a stream is about, without its credit. */
export type ContentFrame = Exclude<StreamFrame, { kind: "credit" }>;

export type StreamListener = {
  /** `consumed` is to be called when the frame is done with: the other side may send more then. */
  frame(frame: ContentFrame, consumed: () => void): void;
  /** The last thing that is heard, once: 1000 and no reason when the other side was done. */
  closed(code: number, reason: string): void;
};

export type ConnectOptions = {
  readonly headers: Readonly<Record<string, string>>;
  /** Called when there is a stream, before anything comes by it. */
  readonly opened: (connection: StreamConnection) => StreamListener;
  /** The way through a proxy. */
  readonly agent?: ClientOptions["agent"];
  readonly signal?: AbortSignal | undefined;
};

export class StreamConnection {
  readonly #socket: WebSocket;
  #listener: StreamListener = { frame: () => undefined, closed: () => undefined };
  readonly #sending = new SendWindow();
  readonly #receiving = new ReceiveWindow();
  /** One after the other, in the order in which they were to be sent. */
  #sent: Promise<boolean> = Promise.resolve(true);
  #room: () => void = () => undefined;
  readonly #ping: NodeJS.Timeout;
  readonly #idle: NodeJS.Timeout;
  #isHeard = true;
  #isOver = false;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    this.#ping = setInterval(() => this.#pingAgain(), LIMITS.streamPingMs);
    const idle = () => this.close(CLOSE_IDLE, "nothing was said for too long");
    this.#idle = setTimeout(idle, LIMITS.streamIdleMsMax);
    socket.on("message", (data, isBinary) => this.#hear(data as Buffer, isBinary));
    socket.on("error", () => undefined);
    socket.on("close", (code, reason) => this.#over(code, String(reason)));
  }

  /** `url` is http: or https:. Rejects with a ProblemError that says why there is no stream. */
  static connect(url: string, options: ConnectOptions): Promise<StreamConnection> {
    const { headers, opened, agent, signal } = options;
    const { promise, resolve, reject } = Promise.withResolvers<StreamConnection>();
    // The types of `ws` do not know `closeTimeout` yet.
    const settings: ClientOptions & { readonly closeTimeout: number } = {
      headers: { ...headers },
      handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
      closeTimeout: CLOSE_TIMEOUT_MS,
      maxPayload: LIMITS.streamFrameBytesMax,
      perMessageDeflate: false,
      ...(agent === undefined ? {} : { agent }),
    };
    const socket = new WebSocket(url.replace(/^http/, "ws"), settings);
    const stop = () => {
      socket.terminate();
      reject(signal?.reason);
    };
    signal?.addEventListener("abort", stop, { once: true });
    const settled = () => signal?.removeEventListener("abort", stop);
    socket.once("open", () => {
      settled();
      const connection = new StreamConnection(socket);
      try {
        connection.#listener = opened(connection);
        resolve(connection);
      } catch (error) {
        connection.close(CLOSE_FAILED, "this end could not begin");
        reject(error);
      }
    });
    socket.once("unexpected-response", (_request, response) => {
      settled();
      refusalOf(response)
        .then(reject, reject)
        .finally(() => socket.terminate());
    });
    socket.once("error", (error) => {
      settled();
      reject(connectionProblem(new URL(url).origin, error, HANDSHAKE_TIMEOUT_MS));
    });
    if (signal?.aborted) stop();
    return promise;
  }

  /** Resolves when the frame is on its way; with false when it is not, and never will be. */
  send(frame: ContentFrame): Promise<boolean> {
    this.#sent = this.#sent.then(() => this.#sendNow(encodeFrame(frame)));
    return this.#sent;
  }

  /** All that the source gives, as fast as it is consumed. Resolves with false as `send` does. */
  async sendAll(kind: DataKind, source: AsyncIterable<Uint8Array>): Promise<boolean> {
    for await (const chunk of source) {
      for (let at = 0; at < chunk.length; at += FRAME_DATA_BYTES_MAX) {
        const bytes = chunk.subarray(at, at + FRAME_DATA_BYTES_MAX);
        if (!(await this.send({ kind, bytes }))) return false;
      }
    }
    return !this.#isOver;
  }

  /** After all that was to be sent. The listener hears of it. */
  async finish(): Promise<void> {
    await this.#sent;
    this.close();
  }

  /** At once, whatever is under way. */
  close(code = CLOSE_NORMAL, reason = ""): void {
    if (!this.#isOver) this.#socket.close(code, reason);
  }

  async #sendNow(encoded: Uint8Array): Promise<boolean> {
    while (!this.#isOver && !this.#sending.take(encoded.length)) {
      await new Promise<void>((resolve) => {
        this.#room = resolve;
      });
    }
    if (this.#isOver) return false;
    this.#idle.refresh();
    return new Promise((resolve) => {
      this.#socket.send(encoded, (error) => resolve(error === undefined || error === null));
    });
  }

  #hear(data: Buffer, isBinary: boolean): void {
    this.#isHeard = true;
    if (!isBinary) {
      if (String(data) !== PONG) this.close(CLOSE_POLICY, "not a frame");
      return;
    }
    this.#idle.refresh();
    const frame = decodeFrame(data);
    if (frame?.kind === "credit") {
      if (!this.#sending.give(frame.bytes)) this.close(CLOSE_POLICY, "more credit than was due");
      this.#room();
    } else if (frame && this.#receiving.receive(data.length)) {
      this.#listener.frame(frame, () => this.#consumed(data.length));
    } else {
      this.close(CLOSE_POLICY, "no frame of a stream, or more than its window");
    }
  }

  #consumed(frameBytes: number): void {
    const bytes = this.#receiving.consume(frameBytes);
    if (bytes === 0 || this.#isOver) return;
    this.#socket.send(encodeFrame({ kind: "credit", bytes }), () => undefined);
  }

  #pingAgain(): void {
    if (this.#isHeard) {
      this.#isHeard = false;
      this.#socket.send(PING, () => undefined);
    } else {
      this.#socket.terminate();
    }
  }

  #over(code: number, reason: string): void {
    clearInterval(this.#ping);
    clearTimeout(this.#idle);
    this.#isOver = true;
    this.#room();
    this.#listener.closed(code, reason);
  }
}

/** What the cluster has said instead of opening a stream. */
async function refusalOf(
  response: AsyncIterable<Buffer> & { readonly statusCode?: number | undefined },
): Promise<ProblemError> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of response) {
    length += chunk.length;
    if (length > REFUSAL_BYTES_MAX) break;
    chunks.push(chunk);
  }
  const status = response.statusCode ?? 0;
  let body: unknown;
  try {
    body = JSON.parse(String(Buffer.concat(chunks)));
  } catch {
    body = undefined;
  }
  return new ProblemError(failureOfBody(body, status), { origin: "answer", status });
}
