/** Streams between a user and a node, and what the tunnel does with whoever does not keep to them. */
import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { nodeTunnelName } from "../../src/durable/names.ts";
import { LIMITS } from "../../src/shared/limits.ts";
import type { NodeAnswer, NodeQuery } from "../../src/shared/protocol/node-query.ts";
import {
  EXEC_HEADER,
  formatExecHeader,
  STREAM_SECRET_HEADER,
} from "../../src/shared/protocol/node-stream.ts";
import { PING, PONG } from "../../src/shared/protocol/resource-tracker.ts";
import { encodeFrame, type StreamFrame } from "../../src/shared/stream-frame.ts";
import { type EdgeCluster, env, openCluster } from "./support/edge-cluster.ts";
import type { TestAgent } from "./support/test-agent.ts";

const NODE = "a:8041";
let cluster: EdgeCluster;
let agent: TestAgent;
let containerId = "";
const ends: End[] = [];

beforeEach(async () => {
  cluster = await openCluster();
  agent = await cluster.startNode(NODE);
  await cluster.launch();
  await cluster.serviceIs("STABLE");
  containerId = agent.running()[0] ?? "";
});
afterEach(async () => {
  for (const end of ends.splice(0)) {
    end.close();
    await end.hasClosed();
  }
  cluster.dispose();
  vi.restoreAllMocks();
});

/** One end of a stream: what came by it, and how it ended. */
class End {
  readonly frames: Uint8Array[] = [];
  readonly texts: string[] = [];
  readonly #socket: WebSocket;
  closed: { readonly code: number; readonly reason: string } | null = null;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.binaryType = "arraybuffer";
    socket.addEventListener("message", ({ data }) => {
      if (typeof data === "string") this.texts.push(data);
      else this.frames.push(new Uint8Array(data as ArrayBuffer));
    });
    socket.addEventListener("close", ({ code, reason }) => {
      this.closed = { code, reason };
    });
    socket.accept();
    ends.push(this);
  }

  send(frame: StreamFrame): void {
    this.#socket.send(encodeFrame(frame));
  }

  sendText(text: string): void {
    this.#socket.send(text);
  }

  sendRaw(bytes: Uint8Array<ArrayBuffer>): void {
    this.#socket.send(bytes);
  }

  close(code = 1000, reason = ""): void {
    if (this.closed === null) this.#socket.close(code, reason);
  }

  heard(count: number): Promise<readonly Uint8Array[]> {
    return cluster.until(`${count} frames`, () => this.frames.length >= count && this.frames);
  }

  hasClosed() {
    return cluster.until("the end of the stream", () => this.closed ?? undefined);
  }
}

type Asked = { readonly requestId: string; readonly query: OpenStream };
type OpenStream = Extract<NodeQuery, { type: "open-stream" }>;

const command = ["cat", "-"];

function askForExec(token = cluster.token): Promise<Response> {
  return cluster.fetch(`/ws/v1/cluster/containers/${containerId}/exec`, {
    token,
    headers: { upgrade: "websocket", [EXEC_HEADER]: formatExecHeader({ command, stdin: true }) },
  });
}

/** What the node is asked, number `index` of its life. */
function asked(index = 0): Promise<Asked> {
  return cluster.until("the node to be asked", () => {
    const messages = agent.received.filter((message) => message.type === "node-query");
    const message = messages[index];
    return message?.query.type === "open-stream" && { ...message, query: message.query };
  });
}

function answer({ requestId }: Asked, given: Partial<NodeAnswer> = { body: "null" }): void {
  agent.send({ type: "node-answer", requestId, ...given });
}

async function joinAs(nodeId: string, streamId: string, secret: string): Promise<Response> {
  return cluster.fetch(`/ws/v1/node/streams/${streamId}`, {
    token: await cluster.join(nodeId),
    headers: { upgrade: "websocket", [STREAM_SECRET_HEADER]: secret },
  });
}

function endOf({ webSocket, status }: Response): End {
  if (!webSocket) throw new Error(`there is no stream: ${status}`);
  return new End(webSocket);
}

async function openStream(index = 0) {
  const waiting = askForExec();
  const question = await asked(index);
  answer(question);
  const node = endOf(await joinAs(NODE, question.query.streamId, question.query.secret));
  return { user: endOf(await waiting), node };
}

const tunnel = () => env.NODE_TUNNEL.getByName(nodeTunnelName(cluster.name, NODE));
const bytes = (...values: number[]) => Uint8Array.from(values);

describe("a stream", () => {
  it("[NM205] joins a user and the node of his container, and passes on what each says", async () => {
    const waiting = askForExec();
    const question = await asked();
    expect(question.query).toMatchObject({
      ...{ containerId, user: "ann" },
      request: { kind: "exec", command, stdin: true },
    });
    answer(question);
    const node = endOf(await joinAs(NODE, question.query.streamId, question.query.secret));
    const user = endOf(await waiting);
    user.send({ kind: "stdin", bytes: bytes(0, 1, 255) });
    node.send({ kind: "stderr", bytes: bytes(7) });
    node.send({ kind: "exit", exitCode: 3 });
    expect(await node.heard(1)).toEqual([bytes(0, 0, 1, 255)]);
    expect(await user.heard(2)).toEqual([bytes(2, 7), bytes(4, 3)]);
  });

  it("[NM205] that is closed at one end is closed at the other, with what was said", async () => {
    const first = await openStream();
    first.user.close(1000, "done");
    expect(await first.node.hasClosed()).toEqual({ code: 1000, reason: "done" });
    const second = await openStream(1);
    second.node.close(4004, "the container has ended");
    expect(await second.user.hasClosed()).toEqual({
      code: 4004,
      reason: "the container has ended",
    });
  });

  it("[NM206] goes on when the tunnel sleeps, with its books", async () => {
    const { user, node } = await openStream();
    const frame = { kind: "stdin", bytes: new Uint8Array(LIMITS.streamFrameBytesMax - 1) } as const;
    const whole = LIMITS.streamWindowBytes / LIMITS.streamFrameBytesMax;
    for (let sent = 0; sent < whole; sent++) user.send(frame);
    await node.heard(whole);
    await evictDurableObject(tunnel(), { webSockets: "hibernate" });
    node.send({ kind: "credit", bytes: LIMITS.streamFrameBytesMax });
    await user.heard(1);
    user.send(frame);
    await node.heard(whole + 1);
    user.send({ kind: "eof" });
    expect(await user.hasClosed()).toMatchObject({ code: 1008 });
    expect(await node.hasClosed()).toMatchObject({ code: 1008 });
  });

  it("[NM206] that is idle is kept alive by the runtime alone", async () => {
    const { user } = await openStream();
    user.sendText(PING);
    expect(await cluster.until("the answer", () => user.texts[0])).toBe(PONG);
  });

  it("[NM206] of whose ends one has gone without a word is cut at the next look", async () => {
    const { user, node } = await openStream();
    vi.spyOn(Date, "now").mockReturnValue(Date.now() + LIMITS.streamSilenceMsMax + 1_000);
    expect(await runDurableObjectAlarm(tunnel())).toBe(true);
    expect(await user.hasClosed()).toMatchObject({ code: 4001 });
    expect(await node.hasClosed()).toMatchObject({ code: 4001 });
    vi.restoreAllMocks();
    await cluster.until("no look to follow", async () => !(await runDurableObjectAlarm(tunnel())));
  });

  it.each([
    [
      "more than its window",
      (end: End) => {
        const frame = { kind: "stdin", bytes: new Uint8Array(16_000) } as const;
        for (let sent = 0; sent < 20; sent++) end.send(frame);
      },
    ],
    ["credit for what it never got", (end: End) => end.send({ kind: "credit", bytes: 1 })],
    ["text", (end: End) => end.sendText("hello")],
    ["a frame that is too long", (end: End) => end.sendRaw(new Uint8Array(16_385))],
    ["nothing", (end: End) => end.sendRaw(new Uint8Array(0))],
  ])("[NM204] is cut when an end sends %s", async (_what, misbehave) => {
    const { user, node } = await openStream();
    misbehave(user);
    expect(await user.hasClosed()).toMatchObject({ code: 1008 });
    expect(await node.hasClosed()).toMatchObject({ code: 1008 });
  });
});

describe("a node's end", () => {
  it("[NM205] needs the secret, and the node that was asked, and comes once", async () => {
    const waiting = askForExec();
    const question = await asked();
    const { streamId, secret } = question.query;
    answer(question);
    const wrong = "0".repeat(secret.length);
    expect((await joinAs(NODE, streamId, wrong)).status).toBe(404);
    expect((await joinAs(NODE, streamId, "")).status).toBe(404);
    expect((await joinAs("b:8041", streamId, secret)).status).toBe(404);
    endOf(await joinAs(NODE, streamId, secret));
    endOf(await waiting);
    expect((await joinAs(NODE, streamId, secret)).status).toBe(404);
  });

  it("[NM205] that does not come in time is not waited for, and not let in later", async () => {
    const later = globalThis.setTimeout;
    vi.spyOn(globalThis, "setTimeout").mockImplementation(((run: () => void, ms?: number) =>
      later(run, ms === LIMITS.streamPairingMsMax ? 0 : ms)) as typeof setTimeout);
    const refused = await askForExec();
    expect(refused.status).toBe(503);
    expect(await refused.json()).toMatchObject({
      detail: `node ${NODE} did not connect within 15 s`,
    });
    const question = await asked();
    answer(question);
    const { streamId, secret } = question.query;
    expect((await joinAs(NODE, streamId, secret)).status).toBe(404);
  });
});

describe("a user", () => {
  it("[NM201] hears before there is a stream why the node does not open one", async () => {
    const waiting = askForExec();
    const error = { code: "PERMISSION_DENIED", message: "not here", hint: "ask" } as const;
    answer(await asked(), { error });
    const refused = await waiting;
    expect(refused.status).toBe(403);
    expect(await refused.json()).toMatchObject({ detail: "not here", hint: "ask" });
  });

  it("[NM201] hears that a node has gone, or comes without a WebSocket", async () => {
    agent.disconnect();
    const gone = await cluster.until("the connection to be gone", async () => {
      const refused = await askForExec();
      return refused.status === 503 && refused;
    });
    expect(await gone.json()).toMatchObject({ detail: `node ${NODE} is not connected` });
    const register = {
      type: "register",
      protocolVersion: 1,
      node: agent.facts,
      containers: [...agent.statuses.values()],
    };
    await cluster.call("/ws/v1/node/heartbeat", {
      ...{ method: "POST", token: await cluster.join(NODE), body: { messages: [register] } },
    });
    expect(await (await askForExec()).json()).toMatchObject({
      detail: `node ${NODE} is not connected but by plain HTTP heartbeats`,
      hint: expect.stringContaining("WebSocket"),
    });
  });

  it("[NM205] who comes when the node has all the streams that it may have is refused", async () => {
    const streams: Promise<Response>[] = [];
    for (let count = 0; count < LIMITS.streamsPerNodeMax; count++) streams.push(askForExec());
    await asked(LIMITS.streamsPerNodeMax - 1);
    const refused = await askForExec();
    expect(refused.status).toBe(429);
    const error = { code: "NOT_FOUND", message: "enough" } as const;
    for (let index = 0; index < streams.length; index++) answer(await asked(index), { error });
    expect(new Set((await Promise.all(streams)).map(({ status }) => status))).toEqual(
      new Set([404]),
    );
  });
});
