/** The resolver's sockets: UDP and TCP on one loopback address (RFC 1035 §4.2, RFC 7766). */
import { createSocket, type RemoteInfo, type Socket as UdpSocket } from "node:dgram";
import { once } from "node:events";
import { createServer, isIPv6, type Server, type Socket } from "node:net";
import {
  decodeMessage,
  MESSAGE_BYTES_MAX,
  UDP_BYTES_MAX,
  UDP_BYTES_MIN,
} from "../../shared/dns-message.ts";
import type { ServerAddress } from "./addresses.ts";

/** Answers one query with at most so many bytes; null for no answer at all. */
export type Resolve = (query: Uint8Array, bytesMax: number) => Promise<Uint8Array | null>;

export type DnsServer = {
  /** With the port that was found free where 0 was asked for. */
  readonly address: ServerAddress;
  close(): Promise<void>;
};

const CONNECTIONS_MAX = 128;
const IDLE_MS = 10_000;
/** Queries of one connection that wait for their answers; a sender of more is made to wait. */
const PIPELINED_MAX = 16;

/** Rejects with the system's error where the address cannot be had. */
export async function startDnsServer(at: ServerAddress, resolve: Resolve): Promise<DnsServer> {
  const tcp = createServer((socket) => serveConnection(socket, resolve));
  tcp.maxConnections = CONNECTIONS_MAX;
  const open = new Set<Socket>();
  tcp.on("connection", (socket) => {
    open.add(socket);
    socket.on("close", () => open.delete(socket));
  });
  tcp.listen(at.port, at.host);
  await once(tcp, "listening");
  const address = { host: at.host, port: portOf(tcp) };
  const udp = createSocket(isIPv6(at.host) ? "udp6" : "udp4");
  try {
    udp.bind(address.port, at.host);
    await once(udp, "listening");
  } catch (error) {
    tcp.close();
    throw error;
  }
  udp.on("message", (query, peer) => void answerDatagram(udp, query, peer, resolve));
  // A peer that is gone is no reason to end.
  udp.on("error", () => undefined);
  return {
    address,
    async close() {
      const ended = Promise.all([once(tcp, "close"), once(udp, "close")]);
      tcp.close();
      udp.close();
      for (const socket of open) socket.destroy();
      await ended;
    },
  };
}

async function answerDatagram(
  udp: UdpSocket,
  query: Uint8Array,
  peer: RemoteInfo,
  resolve: Resolve,
): Promise<void> {
  const answer = await resolve(query, datagramBytesMax(query));
  if (answer === null) return;
  try {
    udp.send(answer, peer.port, peer.address);
  } catch {
    // Closed meanwhile: whoever asked asks somebody else.
  }
}

/** What the asker takes, but never what would be sent in fragments. */
function datagramBytesMax(query: Uint8Array): number {
  const offered = decodeMessage(query)?.edns?.udpBytesMax ?? UDP_BYTES_MIN;
  return Math.min(Math.max(offered, UDP_BYTES_MIN), UDP_BYTES_MAX);
}

function serveConnection(socket: Socket, resolve: Resolve): void {
  let received = Buffer.alloc(0);
  let waiting = 0;
  socket.setTimeout(IDLE_MS, () => socket.destroy());
  socket.on("error", () => socket.destroy());
  const takeQueries = () => {
    while (waiting < PIPELINED_MAX && received.length >= 2) {
      const end = 2 + received.readUInt16BE(0);
      if (received.length < end) break;
      const query = Uint8Array.from(received.subarray(2, end));
      received = received.subarray(end);
      waiting += 1;
      void answer(query);
    }
    if (waiting >= PIPELINED_MAX) socket.pause();
    else socket.resume();
  };
  const answer = async (query: Uint8Array) => {
    const bytes = await resolve(query, MESSAGE_BYTES_MAX);
    waiting -= 1;
    if (bytes === null) {
      socket.destroy();
      return;
    }
    if (!socket.writable) return;
    const length = Buffer.alloc(2);
    length.writeUInt16BE(bytes.length);
    // Answers come in the order in which they are ready (RFC 7766 §6.2.1.1).
    socket.write(Buffer.concat([length, bytes]));
    takeQueries();
  };
  socket.on("data", (chunk) => {
    received = Buffer.concat([received, chunk]);
    takeQueries();
  });
}

function portOf(server: Server): number {
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
}
