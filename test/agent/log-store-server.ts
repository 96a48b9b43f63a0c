/** The cluster's log store as a small HTTP server: it keeps what it is sent, and fails when told to. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { gunzipSync } from "node:zlib";

export class LogStoreServer {
  /** Chunks of `{container}/{file}`, by where they begin. */
  readonly chunks = new Map<string, Map<number, Buffer>>();
  /** What is missing at the places in it, which nodes have said: up to where by where it begins. */
  readonly dropped = new Map<string, Map<number, number>>();
  readonly announced: { containerId: string; complete: boolean; instance: string }[] = [];
  requests = 0;
  /** Answers a request instead of doing it; `drop` breaks the connection after it was done. */
  failure: ((method: string, path: string) => number | "drop" | undefined) | undefined;
  reason: string | undefined;
  #server: Server | undefined;

  async open(): Promise<string> {
    const server = createServer((request, response) => {
      void this.#answer(request).then(({ status, body, isDropped }) => {
        if (isDropped) return request.socket.destroy();
        response.writeHead(status, { "content-type": "application/json" });
        response.end(body);
        return response;
      });
    });
    this.#server = server;
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.#server?.closeAllConnections();
    this.#server?.close();
    if (this.#server?.listening) await once(this.#server, "close");
  }

  /** A file as it can be read: its chunks, with no gaps but those of which the node has said so. */
  text(name: string): string {
    let end = 0;
    const pieces: Buffer[] = [];
    for (const [start, chunk] of this.#chunksOf(name)) {
      const follows = this.dropped.get(name)?.get(start) ?? start;
      if (follows !== end) throw new Error(`a chunk after ${follows}, where ${end} is the end`);
      pieces.push(chunk);
      end = start + chunk.length;
    }
    return Buffer.concat(pieces).toString();
  }

  /** How far a file has come, what was dropped included. */
  sizeBytes(name: string): number {
    const [start, chunk] = this.#chunksOf(name).at(-1) ?? [0, Buffer.alloc(0)];
    return start + chunk.length;
  }

  #chunksOf(name: string): [number, Buffer][] {
    return [...(this.chunks.get(name) ?? [])].toSorted(([a], [b]) => a - b);
  }

  async #answer(request: IncomingMessage) {
    this.requests += 1;
    const { method = "", url = "" } = request;
    const body = Buffer.concat(await request.toArray());
    const { pathname, searchParams } = new URL(url, "http://x");
    const [, , , , , container = "", file, start] = pathname.split("/");
    const failure = this.failure?.(method, url);
    if (typeof failure === "number") {
      const problem = { detail: "the test says no", reason: this.reason };
      return { status: failure, body: JSON.stringify(problem), isDropped: false };
    }
    if (file !== undefined) {
      const name = `${container}/${file}`;
      const chunks = this.chunks.get(name) ?? new Map<number, Buffer>();
      chunks.set(Number(start), gunzipSync(body));
      this.chunks.set(name, chunks);
      const dropped = this.dropped.get(name) ?? new Map<number, number>();
      const follows = searchParams.get("follows");
      if (follows !== null) dropped.set(Number(start), Number(follows));
      this.dropped.set(name, dropped);
    } else if (method === "PUT") {
      const { complete, instance } = JSON.parse(body.toString());
      this.announced.push({ containerId: container, complete, instance });
    }
    const files = [...this.chunks.keys()]
      .filter((name) => name.startsWith(`${container}/`))
      .map((name) => ({
        name: name.slice(container.length + 1),
        sizeBytes: this.sizeBytes(name),
      }));
    const answer = method === "GET" ? JSON.stringify({ files }) : "";
    return { status: method === "GET" ? 200 : 204, body: answer, isDropped: failure === "drop" };
  }
}
