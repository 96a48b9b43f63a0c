/** Who may open streams into containers, and what is said to everybody else. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { fail } from "../../src/shared/errors.ts";
import {
  EXEC_HEADER,
  formatExecHeader,
  STREAM_SECRET_HEADER,
} from "../../src/shared/protocol/node-stream.ts";
import { CONTAINER_ID, type FakeCluster, fakeCluster, NODE_ID } from "./fake-cluster.ts";

const EXEC = `/ws/v1/cluster/containers/${CONTAINER_ID}/exec`;
const FORWARD = `/ws/v1/cluster/containers/${CONTAINER_ID}/forward`;
const what = { command: ["psql", "-c", "select 1"], stdin: true };
const headers = { upgrade: "websocket", [EXEC_HEADER]: formatExecHeader(what) };

let cluster: FakeCluster;
beforeEach(async () => {
  cluster = await fakeCluster();
});
afterEach(() => {
  vi.restoreAllMocks();
});

describe("a stream into a container", () => {
  it("[NM202] is for whoever may change its application", async () => {
    const { joe, eve } = cluster.tokens;
    expect((await cluster.ask("GET", EXEC, { headers })).status).toBe(401);
    expect((await cluster.ask("GET", EXEC, { token: eve, headers })).status).toBe(404);
    const port = await cluster.ask("GET", `${FORWARD}/8080`, { token: eve, headers });
    expect(port.status).toBe(404);
    expect(cluster.streams).toEqual([]);
    cluster.state.letIn.add("eve");
    for (const token of [joe, eve]) {
      expect((await cluster.ask("GET", EXEC, { token, headers })).status).toBe(200);
    }
    const request = { kind: "exec", ...what };
    expect(cluster.streams).toEqual([
      { nodeId: NODE_ID, opening: { containerId: CONTAINER_ID, user: "joe", request } },
      { nodeId: NODE_ID, opening: { containerId: CONTAINER_ID, user: "eve", request } },
    ]);
  });

  it("[NM202] is no business of a web page", async () => {
    const { joe: token } = cluster.tokens;
    const fromPage = { ...headers, origin: "https://evil.example" };
    expect((await cluster.ask("GET", EXEC, { token, headers: fromPage })).status).toBe(403);
    expect(cluster.streams).toEqual([]);
  });

  it("[NM202] is audited with the program's words, whether it came to be or not", async () => {
    const lines: string[] = [];
    vi.spyOn(console, "log").mockImplementation((line: string) => lines.push(line));
    const { joe, eve } = cluster.tokens;
    await cluster.ask("GET", EXEC, { token: joe, headers });
    await cluster.ask("GET", `${FORWARD}/8080`, { token: eve, headers });
    const audit = lines.map((line) => JSON.parse(line)).filter(({ event }) => event === "audit");
    expect(audit).toMatchObject([
      { user: "joe", method: "GET", path: EXEC, command: what.command, status: 200 },
      { user: "eve", method: "GET", path: `${FORWARD}/8080`, status: 404 },
    ]);
  });

  it.each([
    ["by plain HTTP", EXEC, { [EXEC_HEADER]: headers[EXEC_HEADER] }, 426, "is a WebSocket"],
    ["with nothing to run", EXEC, { upgrade: "websocket" }, 400, EXEC_HEADER],
    ["to port 0", `${FORWARD}/0`, headers, 400, "port"],
    ["to port 65536", `${FORWARD}/65536`, headers, 400, "port"],
    ["to a port by its name", `${FORWARD}/http`, headers, 400, "port"],
    ["to no container", EXEC.replace(/\d{6}\/exec$/, "000099/exec"), headers, 404, "no container"],
  ])("[NM201] is refused %s", async (_how, path, given, status, sentence) => {
    const { joe: token } = cluster.tokens;
    const refused = await cluster.ask("GET", path, { token, headers: given });
    expect(refused.status).toBe(status);
    expect(refused.json.detail).toContain(sentence);
    expect(cluster.streams).toEqual([]);
  });

  it("[NM201] is refused to a container that has ended", async () => {
    const { joe: token } = cluster.tokens;
    cluster.containers.splice(0, 1, {
      ...cluster.containers[0],
      ...{ state: "COMPLETE", exitStatus: 1 },
    } as (typeof cluster.containers)[number]);
    const refused = await cluster.ask("GET", EXEC, { token, headers });
    expect(refused.status).toBe(409);
    expect(refused.json.detail).toBe(`${CONTAINER_ID} has ended with exit status 1`);
  });

  it("[NM201] is refused with the node's own words", async () => {
    const { joe: token } = cluster.tokens;
    cluster.state.streamRefusal = fail("PERMISSION_DENIED", "not on this node", { hint: "ask" });
    const refused = await cluster.ask("GET", EXEC, { token, headers });
    expect(refused.status).toBe(403);
    expect(refused.json).toMatchObject({ detail: "not on this node", hint: "ask" });
  });
});

it("[NM205] a node's end is for nodes, each under its own name", async () => {
  const path = `/ws/v1/node/streams/${crypto.randomUUID()}`;
  const given = { upgrade: "websocket", [STREAM_SECRET_HEADER]: "abc" };
  const { joe, node } = cluster.tokens;
  expect((await cluster.ask("GET", path, { token: joe, headers: given })).status).toBe(401);
  const answer = await cluster.ask("GET", path, { token: node, headers: given });
  expect(answer.text).toContain(`${NODE_ID} shows 3 characters`);
});
