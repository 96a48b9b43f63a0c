/**
 * The system's resolvers, for every name that is not the cluster's. A query is passed on as it came,
 * but for its id; an answer is passed back as it came, once it is known to belong to the query: from
 * the address that was asked, with the random id and the question that were sent.
 */
import { randomInt } from "node:crypto";
import { createSocket } from "node:dgram";
import { connect, isIPv6 } from "node:net";
import { formatServerAddress, type ServerAddress } from "./addresses.ts";

export type AskUpstream = (query: Uint8Array, signal: AbortSignal) => Promise<Uint8Array>;

/** One server's time; with two servers the answer comes before a stub's 5 s are over. */
const SERVER_TIMEOUT_MS = 2_000;
const HEADER_BYTES = 12;
const TRUNCATED = 0x02;

/** Asks one server after the other until one answers. Rejects when none does. */
export function upstreamServers(servers: readonly ServerAddress[]): AskUpstream {
  return async (query, signal) => {
    let last: unknown = new Error("there is no upstream resolver");
    for (const server of servers) {
      signal.throwIfAborted();
      const limit = AbortSignal.any([signal, AbortSignal.timeout(SERVER_TIMEOUT_MS)]);
      try {
        return await askServer(server, query, limit);
      } catch (error) {
        last = limit.aborted && !signal.aborted ? timeoutOf(server) : error;
      }
    }
    throw last;
  };
}

async function askServer(
  server: ServerAddress,
  query: Uint8Array,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const sent = Uint8Array.from(query);
  setId(sent, randomInt(0x1_0000));
  let answer = await askByUdp(server, sent, signal);
  if (((answer[2] ?? 0) & TRUNCATED) !== 0) answer = await askByTcp(server, sent, signal);
  const received = Uint8Array.from(answer);
  received.set(query.subarray(0, 2));
  return received;
}

function askByUdp(
  { host, port }: ServerAddress,
  query: Uint8Array,
  signal: AbortSignal,
): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    // A socket of its own for each query: its random port is half of what a forger must guess.
    const socket = createSocket(isIPv6(host) ? "udp6" : "udp4");
    let isSettled = false;
    // A socket may fail once more while it closes.
    const settle = (finish: () => void) => {
      if (isSettled) return;
      isSettled = true;
      signal.removeEventListener("abort", stop);
      socket.close();
      finish();
    };
    const stop = () => settle(() => reject(signal.reason));
    signal.addEventListener("abort", stop, { once: true });
    socket.on("error", (error) => settle(() => reject(error)));
    socket.on("message", (message) => {
      if (isAnswerTo(query, message)) settle(() => resolve(message));
    });
    // A connected socket hears its peer alone.
    socket.connect(port, host, () => socket.send(query));
  });
}

function askByTcp(
  { host, port }: ServerAddress,
  query: Uint8Array,
  signal: AbortSignal,
): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port });
    let received = Buffer.alloc(0);
    const settle = (finish: () => void) => {
      signal.removeEventListener("abort", stop);
      socket.destroy();
      finish();
    };
    const stop = () => settle(() => reject(signal.reason));
    signal.addEventListener("abort", stop, { once: true });
    socket.on("error", (error) => settle(() => reject(error)));
    socket.on("close", () => settle(() => reject(new Error("the upstream resolver hung up"))));
    socket.on("connect", () => {
      const length = Buffer.alloc(2);
      length.writeUInt16BE(query.length);
      socket.write(Buffer.concat([length, query]));
    });
    socket.on("data", (chunk) => {
      received = Buffer.concat([received, chunk]);
      if (received.length < 2 || received.length < 2 + received.readUInt16BE(0)) return;
      const message = received.subarray(2, 2 + received.readUInt16BE(0));
      if (isAnswerTo(query, message)) settle(() => resolve(message));
      else settle(() => reject(new Error("the upstream resolver answered another question")));
    });
  });
}

/** Same id, an answer by its header, and the same question; servers may leave it out in errors. */
function isAnswerTo(query: Uint8Array, message: Uint8Array): boolean {
  if (message.length < HEADER_BYTES || ((message[2] ?? 0) & 0x80) === 0) return false;
  if (message[0] !== query[0] || message[1] !== query[1]) return false;
  const hasQuestion = message[4] !== 0 || message[5] !== 0;
  if (!hasQuestion) return ((message[3] ?? 0) & 15) !== 0;
  return questionOf(query) === questionOf(message);
}

/** Name in lower case, type and class; the first name of a message has nothing to point to. */
function questionOf(message: Uint8Array): string {
  let end = HEADER_BYTES;
  for (let length = message[end]; length; length = message[end]) end += length + 1;
  const bytes = Buffer.from(message);
  const name = bytes.toString("latin1", HEADER_BYTES, end).toLowerCase();
  return name + bytes.toString("latin1", end, end + 5);
}

function setId(message: Uint8Array, id: number): void {
  message[0] = id >> 8;
  message[1] = id & 0xff;
}

function timeoutOf(server: ServerAddress): Error {
  const seconds = SERVER_TIMEOUT_MS / 1_000;
  return new Error(`${formatServerAddress(server)} did not answer within ${seconds} s`);
}
