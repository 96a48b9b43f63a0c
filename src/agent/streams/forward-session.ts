/**
 * One forwarded connection: a TCP connection to the container's port and the stream to who uses it.
 * Either direction ends for itself, as TCP's do.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import type { ContentFrame, StreamConnection } from "../../client/stream-connection.ts";
import { fail, ok, type Reply } from "../../shared/errors.ts";
import { messageOf } from "../log.ts";

const CONNECT_TIMEOUT_MS = 5_000;
const CLOSE_RESET = 4003;

/** Resolves when it is connected; nothing is read from it yet. */
export async function connectTo(host: string, port: number): Promise<Reply<Socket>> {
  const socket = connect({ host, port, allowHalfOpen: true, noDelay: true });
  try {
    await once(socket, "connect", { signal: AbortSignal.timeout(CONNECT_TIMEOUT_MS) });
    return ok(socket);
  } catch (error) {
    socket.destroy();
    return fail("UNAVAILABLE", `port ${port} does not accept connections: ${messageOf(error)}`);
  }
}

export class ForwardSession {
  readonly #connection: StreamConnection;
  readonly #socket: Socket;

  constructor(connection: StreamConnection, socket: Socket) {
    this.#connection = connection;
    this.#socket = socket;
    socket.on("error", () => undefined);
    void this.#run();
  }

  frame(frame: ContentFrame, consumed: () => void): void {
    if (frame.kind === "stdin" && this.#socket.writable) {
      this.#socket.write(frame.bytes, () => consumed());
      return;
    }
    if (frame.kind === "eof") this.#socket.end();
    consumed();
  }

  closed(): void {
    this.#socket.destroy();
  }

  async #run(): Promise<void> {
    try {
      await this.#connection.sendAll("stdout", this.#socket.iterator({ destroyOnReturn: false }));
      await this.#connection.send({ kind: "eof" });
      if (!this.#socket.writableFinished) await once(this.#socket, "finish");
      await this.#connection.finish();
    } catch {
      this.#connection.close(CLOSE_RESET, "the connection was reset");
    }
    this.#socket.destroy();
  }
}
