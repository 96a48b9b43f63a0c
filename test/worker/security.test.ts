import { decodeJwt } from "jose";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { type FakeCluster, fakeCluster, NODE_ID } from "./fake-cluster.ts";

beforeEach(() => {
  vi.spyOn(console, "log").mockReturnValue();
});

const makeToken = (cluster: FakeCluster, token: string, body: unknown) =>
  cluster.ask("POST", "/ws/v1/security/tokens", { token, body });

describe("claiming a cluster", () => {
  it("makes an administrator", async () => {
    const cluster = await fakeCluster({ claimed: false });
    const body = { code: "the-right-claim-code" };
    const { json } = await cluster.ask("POST", "/ws/v1/security/claim", { body });
    const me = await cluster.ask("GET", "/ws/v1/security/whoami", { token: json.token });
    expect(me.json).toMatchObject({ user: "admin", role: "admin", cluster: "default" });
  });

  it.each([
    [{ code: "wrong" }, 403],
    [{}, 400],
    [{ code: "" }, 400],
    [{ code: "x".repeat(257) }, 400],
    [{ code: 1234 }, 400],
    [{ code: "the-right-claim-code", user: "Not A User" }, 400],
    [{ code: "the-right-claim-code", role: "admin" }, 400],
  ])("needs the right code and nothing else: %j", async (body, status) => {
    const cluster = await fakeCluster({ claimed: false });
    const answer = await cluster.ask("POST", "/ws/v1/security/claim", { body });
    expect(answer.status).toBe(status);
    expect(cluster.state.claimed).toBe(false);
  });
});

describe("making tokens", () => {
  it("is for anybody, by an administrator", async () => {
    const cluster = await fakeCluster();
    const body = { user: "eve", role: "admin", lifetimeSeconds: 60 };
    const answer = await makeToken(cluster, cluster.tokens.admin, body);
    expect(answer.status).toBe(200);
    expect(decodeJwt(answer.json.token)).toMatchObject({ sub: "eve", role: "admin" });
    expect(answer.headers.get("cache-control")).toBe("no-store");
  });

  it("is for itself, by a user, and never for longer than its own token lives", async () => {
    const cluster = await fakeCluster();
    const token = await cluster.keys.sign({ aud: "user", sub: "joe", role: "user" }, 100);
    const made = await makeToken(cluster, token, {});
    expect(decodeJwt(made.json.token)).toMatchObject({ sub: "joe", role: "user" });
    const lifetimeSeconds = (made.json.expiresMs - Date.now()) / 1_000;
    expect(lifetimeSeconds).toBeLessThanOrEqual(100);
    expect((await makeToken(cluster, token, { lifetimeSeconds: 50 })).status).toBe(200);
  });

  it.each([
    [{ user: "eve" }, "role admin"],
    [{ role: "admin" }, "role admin"],
    [{ user: "joe", role: "admin" }, "role admin"],
    [{ lifetimeSeconds: 3_601 }, "lives at most as long"],
  ])("gives a user no more rights or life than it has: %j", async (body, right) => {
    const cluster = await fakeCluster();
    const answer = await makeToken(cluster, cluster.tokens.joe, body);
    expect(answer.status).toBe(403);
    expect(answer.json.hint).toContain(right);
    expect(cluster.reached()).toEqual([]);
  });

  it.each([
    { lifetimeSeconds: 0 },
    { lifetimeSeconds: 1.5 },
    { lifetimeSeconds: 1e12 },
    { user: "joe/../ann" },
    { role: "root" },
    { aud: "node" },
  ])("makes no token that makes no sense: %j", async (body) => {
    const cluster = await fakeCluster();
    expect((await makeToken(cluster, cluster.tokens.admin, body)).status).toBe(400);
    expect(cluster.reached()).toEqual([]);
  });
});

describe("letting nodes join", () => {
  it("goes from a join token to the credential of one node", async () => {
    const cluster = await fakeCluster();
    const made = await cluster.ask("POST", "/ws/v1/security/join-tokens", {
      token: cluster.tokens.admin,
      body: { uses: 3, lifetimeSeconds: 600 },
    });
    const joined = await cluster.ask("POST", "/ws/v1/node/join", {
      token: made.json.token,
      body: { nodeId: NODE_ID },
    });
    const connected = await cluster.ask("GET", "/ws/v1/node/connect", {
      token: joined.json.credential,
      headers: { upgrade: "websocket" },
    });
    expect(connected.json).toEqual({ connected: NODE_ID });
  });

  it.each([
    [{ uses: 0 }],
    [{ uses: 100_001 }],
    [{ uses: 1.5 }],
    [{ lifetimeSeconds: 0 }],
    [{ uses: "many" }],
  ])("needs sensible limits: %j", async (body) => {
    const cluster = await fakeCluster();
    const token = cluster.tokens.admin;
    const answer = await cluster.ask("POST", "/ws/v1/security/join-tokens", { token, body });
    expect(answer.status).toBe(400);
  });

  it.each(["worker1", "worker1:0", "worker1:99999", "../x:1", "a b:1", ""])(
    "needs a node id: %j",
    async (nodeId) => {
      const cluster = await fakeCluster();
      const token = cluster.tokens.join;
      const answer = await cluster.ask("POST", "/ws/v1/node/join", { token, body: { nodeId } });
      expect(answer.status).toBe(400);
      expect(cluster.reached()).toEqual([]);
    },
  );
});
