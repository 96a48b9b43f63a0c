import { beforeEach, describe, expect, it } from "vitest";
import { fail, ok } from "../../src/shared/errors.ts";
import { CONTAINER_ID, type FakeCluster, fakeCluster, NODE_ID } from "./fake-cluster.ts";

const BASE = `/nodes/${NODE_ID}/ws/v1/node`;

let cluster: FakeCluster;
beforeEach(async () => {
  cluster = await fakeCluster();
  cluster.state.nodeAnswer = ok(JSON.stringify({ json: { found: true } }));
});

/** The path that the node was asked for, with its query. */
function asked(): string | undefined {
  const last = cluster.nodeQueries.at(-1);
  return last?.query.type === "get" ? last.query.path : undefined;
}

describe("a node's own REST", () => {
  it("[NM92] is whole for an administrator", async () => {
    const { admin: token } = cluster.tokens;
    const answer = await cluster.ask("GET", `${BASE}/info`, { token });
    expect(answer.status).toBe(200);
    expect(answer.json).toEqual({ found: true });
    expect(cluster.nodeQueries).toEqual([
      { nodeId: NODE_ID, query: { type: "get", path: "/ws/v1/node/info" } },
    ]);
    await cluster.ask("GET", `${BASE}/containers`, { token });
    expect(asked()).toBe("/ws/v1/node/containers");
    await cluster.ask("GET", `${BASE}/apps?state=RUNNING&user=joe`, { token });
    expect(asked()).toBe("/ws/v1/node/apps?user=joe&state=RUNNING");
  });

  it.each([
    ["/apps", "/apps?user=joe"],
    ["/apps?state=FINISHED", "/apps?state=FINISHED&user=joe"],
    ["/apps/application_1_0001", "/apps/application_1_0001?user=joe"],
    ["/containers?user=joe", "/containers?user=joe"],
    [`/containers/${CONTAINER_ID}`, `/containers/${CONTAINER_ID}?user=joe`],
    [`/containers/${CONTAINER_ID}/logs`, `/containers/${CONTAINER_ID}/logs?user=joe`],
    [
      `/containers/${CONTAINER_ID}/logs/stdout?size=-100`,
      `/containers/${CONTAINER_ID}/logs/stdout?size=-100&user=joe`,
    ],
    [`/containerlogs/${CONTAINER_ID}/stderr`, `/containerlogs/${CONTAINER_ID}/stderr?user=joe`],
  ])("[NM92] asks the node for %s of the user who calls only", async (path, expected) => {
    const answer = await cluster.ask("GET", `${BASE}${path}`, { token: cluster.tokens.joe });
    expect(answer.status).toBe(200);
    expect(asked()).toBe(`/ws/v1/node${expected}`);
  });

  it.each(["", "/info", "/auxiliaryservices"])(
    "[NM92] refuses %s, which is of the node as a whole, to users",
    async (path) => {
      const answer = await cluster.ask("GET", `${BASE}${path}`, { token: cluster.tokens.joe });
      expect(answer.status).toBe(403);
      expect(answer.json.hint).toContain("role admin");
      expect(cluster.reached()).toEqual([]);
    },
  );

  it.each(["user=ann", "user=joe&user=ann", "user=ann&user=joe", "user=", "user=%26user=ann"])(
    "[NM92] lets no user ask as another (%s)",
    async (query) => {
      for (const path of ["/containers", "/apps"]) {
        const { joe: token } = cluster.tokens;
        const answer = await cluster.ask("GET", `${BASE}${path}?${query}`, { token });
        expect([400, 403]).toContain(answer.status);
      }
      const { joe: token } = cluster.tokens;
      await cluster.ask("GET", `${BASE}/containers/${CONTAINER_ID}?${query}`, { token });
      for (const { query: put } of cluster.nodeQueries) {
        const users =
          put.type === "get" && new URL(put.path, "http://n").searchParams.getAll("user");
        expect(users).toEqual(["joe"]);
      }
    },
  );

  it("[NM92] is nothing for nodes, containers, or whoever has no token", async () => {
    const { node, container, join } = cluster.tokens;
    for (const token of [node, container, join]) {
      expect((await cluster.ask("GET", `${BASE}/apps`, { token })).status).toBe(401);
    }
    expect((await cluster.ask("GET", `${BASE}/apps`)).status).toBe(401);
    expect(cluster.reached()).toEqual([]);
  });

  it("[NM91] hands a log out as text, with the offset after it", async () => {
    cluster.state.nodeAnswer = ok(JSON.stringify({ text: "<b>hello</b>\n", nextOffset: 13 }));
    const path = `${BASE}/containers/${CONTAINER_ID}/logs/stdout`;
    const answer = await cluster.ask("GET", path, { token: cluster.tokens.joe });
    expect(answer.text).toBe("<b>hello</b>\n");
    expect(answer.headers.get("content-type")).toBe("text/plain; charset=utf-8");
    expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
    expect(answer.headers.get("x-next-offset")).toBe("13");
  });

  it("[NM183] says how much of a log was dropped before what it hands out", async () => {
    cluster.state.nodeAnswer = ok(
      JSON.stringify({ text: "new\n", nextOffset: 104, droppedBytes: 100 }),
    );
    const path = `${BASE}/containers/${CONTAINER_ID}/logs/stdout`;
    const answer = await cluster.ask("GET", path, { token: cluster.tokens.joe });
    expect(answer.headers.get("x-dropped-bytes")).toBe("100");
    expect(answer.headers.get("x-next-offset")).toBe("104");
  });

  it("passes on what the node refuses, and says when a node cannot be understood", async () => {
    const { joe: token } = cluster.tokens;
    cluster.state.nodeAnswer = fail("NOT_FOUND", "there is no container x", { hint: "look" });
    const refused = await cluster.ask("GET", `${BASE}/containers/x`, { token });
    expect(refused.status).toBe(404);
    expect(refused.json).toMatchObject({ detail: "there is no container x", hint: "look" });
    for (const nonsense of ["", "7", '{"text":7}', '{"other":{}}']) {
      cluster.state.nodeAnswer = ok(nonsense);
      expect((await cluster.ask("GET", `${BASE}/apps`, { token })).status).toBe(503);
    }
  });

  it("refuses what cannot be a node, and what is no path of it, before any node is asked", async () => {
    const { admin: token } = cluster.tokens;
    expect((await cluster.ask("GET", "/nodes/worker1/ws/v1/node/info", { token })).status).toBe(
      400,
    );
    expect((await cluster.ask("GET", `${BASE}/heap-dump`, { token })).status).toBe(404);
    const long = `${BASE}/containers/${"x".repeat(2_048)}`;
    expect((await cluster.ask("GET", long, { token })).status).toBe(400);
    expect((await cluster.ask("PUT", `${BASE}/auxiliaryservices`, { token })).status).toBe(405);
    expect(cluster.reached()).toEqual([]);
  });
});
