/**
 * Load by HTTP/1.1 over connections that stay open, and an HTTP client so small that the server, not
 * the client, is what is measured: on two cores both share the machine. For servers on loopback that
 * answer with a Content-Length or in chunks, as workerd does.
 */
import { connect, type Socket } from "node:net";

export type Answer = { readonly status: number; readonly body: Buffer };

const ANSWER_MAX_MS = 60_000;
const LAST_CHUNK = Buffer.from("0\r\n\r\n");

/** One connection, one request at a time. */
export class Connection {
  readonly #socket: Socket;
  #received: Buffer = Buffer.alloc(0);
  #waiting: { answer(answer: Answer): void; fail(error: Error): void } | null = null;

  constructor(port: number) {
    this.#socket = connect({ port, host: "127.0.0.1", noDelay: true });
    this.#socket.setTimeout(ANSWER_MAX_MS, () => this.#fail(new Error("no answer in time")));
    this.#socket.on("error", (error) => this.#fail(error));
    this.#socket.on("close", () => this.#fail(new Error("the server closed the connection")));
    this.#socket.on("data", (chunk) => this.#receive(chunk));
  }

  send(request: Buffer): Promise<Answer> {
    return new Promise((answer, fail) => {
      this.#waiting = { answer, fail };
      this.#socket.write(request);
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #receive(chunk: Buffer): void {
    this.#received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk]);
    const answer = parseAnswer(this.#received);
    if (answer === null) return;
    this.#received = Buffer.alloc(0);
    const waiting = this.#waiting;
    this.#waiting = null;
    waiting?.answer(answer);
  }

  #fail(error: Error): void {
    this.#waiting?.fail(error);
    this.#waiting = null;
  }
}

/** Null while the answer is not whole. A chunked body is left with its chunks' lengths. */
function parseAnswer(bytes: Buffer): Answer | null {
  const end = bytes.indexOf("\r\n\r\n");
  if (end < 0) return null;
  const head = bytes.toString("latin1", 0, end);
  const body = bytes.subarray(end + 4);
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  const isWhole =
    length === undefined
      ? body.subarray(-LAST_CHUNK.length).equals(LAST_CHUNK)
      : body.length >= Number(length);
  return isWhole ? { status: Number(head.slice(9, 12)), body } : null;
}

export function httpRequest(
  method: string,
  path: string,
  headers: Readonly<Record<string, string>> = {},
  body?: string | Buffer,
): Buffer {
  const bytes = Buffer.from(body ?? "");
  const all = { Host: "127.0.0.1", ...headers };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  const length = body === undefined ? "" : `Content-Length: ${bytes.length}\r\n`;
  const head = Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join("")}${length}\r\n`);
  return Buffer.concat([head, bytes]);
}

export type Load = {
  readonly port: number;
  /** The request with that number: 0, 1, … */
  readonly request: (index: number) => Buffer;
  readonly connections: number;
  readonly requestsMax: number;
  readonly msMax: number;
};

export type LoadResult = {
  readonly requests: number;
  readonly wallMs: number;
  /** Of every request. */
  readonly latenciesMs: readonly number[];
};

/**
 * Each connection sends its next request when the last is answered, until as many were sent as may
 * be, or the time is over. Throws at the first answer that is no success.
 */
export async function runLoad(load: Load): Promise<LoadResult> {
  const connections = Array.from({ length: load.connections }, () => new Connection(load.port));
  const latenciesMs: number[] = [];
  const startedMs = performance.now();
  let next = 0;
  const work = async (connection: Connection) => {
    while (next < load.requestsMax && performance.now() - startedMs < load.msMax) {
      const request = load.request(next++);
      const sentMs = performance.now();
      const { status, body } = await connection.send(request);
      if (status !== 200) {
        const [line = ""] = request.toString("utf8", 0, 200).split("\r\n");
        throw new Error(`${line} was answered ${status}: ${body.toString("utf8", 0, 500)}`);
      }
      latenciesMs.push(performance.now() - sentMs);
    }
  };
  try {
    await Promise.all(connections.map(work));
  } finally {
    for (const connection of connections) connection.close();
  }
  return { requests: latenciesMs.length, wallMs: performance.now() - startedMs, latenciesMs };
}
