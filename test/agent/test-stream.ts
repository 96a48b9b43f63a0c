/**
 * A user's end of a stream into a container of a TestNode: what the relay in between would pass on,
 * straight from the node. Gives credit for all that it hears, unless it is told to be slow.
 */
import { randomBytes, randomUUID } from "node:crypto";
import type { WebSocket } from "ws";
import type { Failure } from "../../src/shared/errors.ts";
import type { StreamRequest } from "../../src/shared/protocol/node-stream.ts";
import { decodeFrame, encodeFrame, type StreamFrame } from "../../src/shared/stream-frame.ts";
import { eventually } from "../support/eventually.ts";
import type { TestNode } from "./test-node.ts";

export class TestStream {
  readonly frames: StreamFrame[] = [];
  stdout = "";
  stderr = "";
  closed: { readonly code: number; readonly reason: string } | undefined;
  /** Bytes of frames that were heard and not given back. */
  heldBytes = 0;
  isSlow = false;
  readonly #socket: WebSocket;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on("message", (data: Buffer, isBinary) => {
      if (isBinary) this.#hear(data);
      else if (String(data) === "ping") socket.send("pong");
    });
    socket.on("close", (code, reason) => {
      this.closed = { code, reason: String(reason) };
    });
  }

  send(frame: StreamFrame): void {
    this.#socket.send(encodeFrame(frame));
  }

  write(text: string): void {
    this.send({ kind: "stdin", bytes: Buffer.from(text) });
  }

  /** The connection breaks. */
  cut(): void {
    this.#socket.terminate();
  }

  get exitCode(): number | undefined {
    return this.frames.find((frame) => frame.kind === "exit")?.exitCode;
  }

  exits(): Promise<number> {
    return eventually(() => {
      if (this.exitCode === undefined) throw new Error(`it has not ended: ${this.stderr}`);
      return this.exitCode;
    });
  }

  #hear(data: Buffer): void {
    const frame = decodeFrame(data);
    if (!frame) throw new Error(`the node has sent no frame: ${data.toString("hex", 0, 16)}`);
    this.frames.push(frame);
    if (frame.kind === "stdout") this.stdout += Buffer.from(frame.bytes);
    if (frame.kind === "stderr") this.stderr += Buffer.from(frame.bytes);
    if (frame.kind === "credit") return;
    this.heldBytes += data.length;
    if (this.isSlow) return;
    this.send({ kind: "credit", bytes: this.heldBytes });
    this.heldBytes = 0;
  }
}

/** Asks the node for a stream. The value is its end, or why there is none. */
export async function askForStream(
  node: TestNode,
  containerId: string,
  request: StreamRequest,
): Promise<TestStream | Failure> {
  const streamId = randomUUID();
  const secret = randomBytes(32).toString("hex");
  let stream: TestStream | undefined;
  node.tracker.onStream = (id, shown, socket) => {
    if (id === streamId && shown === secret) stream = new TestStream(socket);
  };
  const { error } = await node.tracker.query({
    ...{ type: "open-stream", streamId, secret, containerId, user: "alice", request },
  });
  if (error) return error as Failure;
  return eventually(() => {
    if (!stream) throw new Error("the node has not connected");
    return stream;
  });
}

/** The same where there must be one. */
export async function openStream(
  node: TestNode,
  containerId: string,
  request: StreamRequest,
): Promise<TestStream> {
  const stream = await askForStream(node, containerId, request);
  if (stream instanceof TestStream) return stream;
  throw new Error(stream.message);
}

export function exec(...command: string[]): Extract<StreamRequest, { kind: "exec" }> {
  return { kind: "exec", command, stdin: false };
}
