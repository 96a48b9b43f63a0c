/** One end of a stream against a relay that is played here: when it waits, when it gives up, and why. */
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type WebSocket, WebSocketServer } from "ws";
import { StreamConnection } from "../../src/client/stream-connection.ts";
import { LIMITS } from "../../src/shared/limits.ts";
import { encodeFrame } from "../../src/shared/stream-frame.ts";
import { eventually } from "../support/eventually.ts";

let server: Server;
let relay: WebSocket | undefined;
/** What is answered instead of a stream. */
let refusal: string | undefined;
const heard: string[] = [];
const closed: { code: number; reason: string }[] = [];

beforeEach(async () => {
  refusal = undefined;
  heard.length = 0;
  closed.length = 0;
  const sockets = new WebSocketServer({ noServer: true });
  server = createServer().on("upgrade", (request, socket, head) => {
    if (refusal !== undefined) return void socket.end(refusal);
    sockets.handleUpgrade(request, socket, head, (accepted) => {
      relay = accepted;
      accepted.on("message", (data, isBinary) => {
        heard.push(isBinary ? (data as Buffer).toString("hex") : String(data));
      });
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
});
afterEach(async () => {
  vi.useRealTimers();
  relay?.terminate();
  server.close();
  await once(server, "close");
});

const url = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}/stream`;

function connect(frame: () => void = () => undefined): Promise<StreamConnection> {
  return StreamConnection.connect(url(), {
    headers: {},
    opened: () => ({ frame, closed: (code, reason) => closed.push({ code, reason }) }),
  });
}

/** What the relay hears when so much time passes. */
async function saidWithin(ms: number): Promise<string> {
  const said = once(relay as WebSocket, "message");
  vi.advanceTimersByTime(ms);
  const [data] = (await said) as [Buffer];
  return String(data);
}

describe("an end of a stream", () => {
  it("[NM206] pings, and gives up when nobody has answered", async () => {
    vi.useFakeTimers({ toFake: ["setInterval"] });
    const { promise: answered, resolve } = Promise.withResolvers<void>();
    await connect(resolve);
    expect(await saidWithin(LIMITS.streamPingMs)).toBe("ping");
    relay?.send("pong");
    relay?.send(encodeFrame({ kind: "eof" }));
    await answered;
    expect(await saidWithin(LIMITS.streamPingMs)).toBe("ping");
    const over = once(relay as WebSocket, "close");
    vi.advanceTimersByTime(LIMITS.streamPingMs);
    expect(await over).toMatchObject([1006, {}]);
  });

  it("[NM203] is closed when nothing was said by it for hours", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout"] });
    const connection = await connect();
    vi.advanceTimersByTime(LIMITS.streamIdleMsMax - 1);
    await connection.send({ kind: "eof" });
    vi.advanceTimersByTime(LIMITS.streamIdleMsMax - 1);
    await connection.send({ kind: "eof" });
    const over = once(relay as WebSocket, "close");
    vi.advanceTimersByTime(LIMITS.streamIdleMsMax);
    const [code, reason] = (await over) as [number, Buffer];
    expect(`${code} ${reason}`).toBe("4002 nothing was said for too long");
  });

  it("[NM204] waits for credit, and sends in the order in which it was asked to", async () => {
    const connection = await connect();
    const bytes = new Uint8Array(LIMITS.streamFrameBytesMax - 1);
    const whole = LIMITS.streamWindowBytes / LIMITS.streamFrameBytesMax;
    for (let sent = 0; sent < whole; sent++) await connection.send({ kind: "stdin", bytes });
    const late = connection.send({ kind: "stdin", bytes: Uint8Array.of(1) });
    const last = connection.send({ kind: "eof" });
    await eventually(() => expect(heard).toHaveLength(whole));
    relay?.send(encodeFrame({ kind: "credit", bytes: 2 }));
    expect(await late).toBe(true);
    await eventually(() => expect(heard.at(-1)).toBe("0001"));
    relay?.terminate();
    expect(await last).toBe(false);
  });

  it.each([
    ["credit that nobody owes", encodeFrame({ kind: "credit", bytes: 1 })],
    ["no frame", Uint8Array.of(99)],
    ["text", "hello"],
  ])("[NM204] is closed when the other one sends %s", async (_what, message) => {
    await connect();
    relay?.send(message);
    await eventually(() => expect(closed).toMatchObject([{ code: 1008 }]));
  });
});

describe("a stream that cannot be", () => {
  it("[NM201] is refused in the cluster's words", async () => {
    const problem = JSON.stringify({ code: "PERMISSION_DENIED", detail: "not here", hint: "ask" });
    refusal = `HTTP/1.1 403 Forbidden\r\nContent-Length: ${problem.length}\r\n\r\n${problem}`;
    await expect(connect()).rejects.toMatchObject({
      status: 403,
      failure: { code: "PERMISSION_DENIED", message: "not here", hint: "ask" },
    });
  });

  it("[NM201] is told by its status where somebody else answers", async () => {
    refusal = "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\noops";
    await expect(connect()).rejects.toMatchObject({ failure: { code: "UNAVAILABLE" } });
  });

  it("[NM201] says that there is nobody", async () => {
    const gone = url();
    server.close();
    await once(server, "close");
    const opened = () => ({ frame: () => undefined, closed: () => undefined });
    const attempt = StreamConnection.connect(gone, { headers: {}, opened });
    await expect(attempt).rejects.toThrow("is the cluster running?");
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
  });
});
