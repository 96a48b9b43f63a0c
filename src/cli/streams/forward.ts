/**
 * The user's end of port forwarding: a port of this machine, on which every connection becomes a
 * stream of its own to the container's port.
 */
import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import type { ContainerStreamsClient } from "../../client/container-streams.ts";
import type {
  ContentFrame,
  StreamConnection,
  StreamListener,
} from "../../client/stream-connection.ts";

/** `local` 0: any that is free. */
export type PortPair = { readonly local: number; readonly remote: number };

/** `8080:80`, `8080` for the same at both ends, `:80` for a free one here; undefined for no such. */
export function parsePortPair(text: string): PortPair | undefined {
  const [, from, to] = /^(?:(\d{0,5}):)?(\d{1,5})$/.exec(text) ?? [];
  const remote = Number(to);
  const local = from === undefined ? remote : Number(from);
  return remote >= 1 && remote <= 65_535 && local <= 65_535 ? { local, remote } : undefined;
}

export type ForwardOptions = {
  readonly client: ContainerStreamsClient;
  readonly containerId: string;
  readonly pair: PortPair;
  /** A connection that could not be forwarded, or broke. */
  readonly failed: (error: unknown) => void;
};

export type ForwardedPort = {
  /** Of this machine's loopback. */
  readonly port: number;
  /** Ends what is open, too. */
  close(): Promise<void>;
};

/** Rejects when the local port cannot be had. */
export async function forwardPort(options: ForwardOptions): Promise<ForwardedPort> {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true, noDelay: true });
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    socket.on("error", () => undefined);
    forwardConnection(options, socket).catch((error: unknown) => {
      socket.destroy();
      options.failed(error);
    });
  });
  server.listen(options.pair.local, "127.0.0.1");
  await once(server, "listening");
  return {
    port: portOf(server),
    async close() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

async function forwardConnection(
  { client, containerId, pair }: ForwardOptions,
  socket: Socket,
): Promise<void> {
  const connection = await client.forward(containerId, pair.remote, () => listener(socket));
  // One that has ended well is closed by the node, when it has passed on all that was sent.
  socket.once("close", (hadError) => {
    if (hadError || !socket.readableEnded) connection.close();
  });
  if (socket.destroyed) connection.close();
  await sendAll(connection, socket);
}

function listener(socket: Socket): StreamListener {
  return {
    frame(frame: ContentFrame, consumed: () => void) {
      if (frame.kind === "stdout" && socket.writable) {
        socket.write(frame.bytes, () => consumed());
        return;
      }
      if (frame.kind === "eof") socket.end();
      consumed();
    },
    closed(code) {
      // Whoever did not get everything must not take it for the end.
      if (code === CLOSE_NORMAL) socket.end();
      else socket.resetAndDestroy();
    },
  };
}

const CLOSE_NORMAL = 1000;

async function sendAll(connection: StreamConnection, socket: Socket): Promise<void> {
  try {
    await connection.sendAll("stdin", socket.iterator({ destroyOnReturn: false }));
    await connection.send({ kind: "eof" });
  } catch {
    connection.close();
  }
}

function portOf(server: Server): number {
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
}
