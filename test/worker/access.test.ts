import { beforeEach, describe, expect, it, vi } from "vitest";
import { ok } from "../../src/shared/errors.ts";
import {
  EXEC_HEADER,
  formatExecHeader,
  STREAM_SECRET_HEADER,
} from "../../src/shared/protocol/node-stream.ts";
import { createApp, ENDPOINTS } from "../../src/worker/app.ts";
import { accessOf } from "../../src/worker/auth.ts";
import {
  CONTAINER_ID,
  type FakeCluster,
  fakeCluster,
  NODE_ID,
  PACKAGE,
  serviceOf,
  signer,
  yarnfile,
} from "./fake-cluster.ts";

beforeEach(() => {
  vi.spyOn(console, "log").mockReturnValue();
});

const ATTEMPT_ID = "appattempt_1503963985568_0002_000001";
const WEB = "/ws/v1/packages/joe/web/1.0";
const NODE_LOGS = `/ws/v1/node/logs/${CONTAINER_ID}`;
const APP = "/ws/v1/cluster/apps/application_1503963985568_0002";
const CONF = "/ws/v1/cluster/scheduler-conf";
const NODE = `/ws/v1/cluster/nodes/${encodeURIComponent(NODE_ID)}`;
const NODE_WEB = `/nodes/${encodeURIComponent(NODE_ID)}/ws/v1/node`;
const STOP_DEFAULT = {
  "update-queue": [{ "queue-name": "root.default", params: { state: "STOPPED" } }],
};

/** A request that works, for every operation of the API; a route without one fails the test. */
const WORKING: Record<string, { path: string; body?: unknown; headers?: Record<string, string> }> =
  {
    "get /healthz": { path: "/healthz" },
    "post /ws/v1/security/claim": {
      path: "/ws/v1/security/claim",
      body: { code: "the-right-claim-code" },
    },
    "post /ws/v1/security/tokens": { path: "/ws/v1/security/tokens", body: {} },
    "post /ws/v1/security/join-tokens": { path: "/ws/v1/security/join-tokens", body: {} },
    "get /ws/v1/security/whoami": { path: "/ws/v1/security/whoami" },
    "get /app/v1/services/version": { path: "/app/v1/services/version" },
    "post /app/v1/services": { path: "/app/v1/services", body: yarnfile("new") },
    "get /app/v1/services": { path: "/app/v1/services" },
    "get /app/v1/services/:service": { path: "/app/v1/services/web" },
    "put /app/v1/services/:service": {
      path: "/app/v1/services/web",
      body: { state: "STOPPED" },
    },
    "delete /app/v1/services/:service": { path: "/app/v1/services/web" },
    "put /app/v1/services/:service/components/:component": {
      path: "/app/v1/services/web/components/hello",
      body: { number_of_containers: 3 },
    },
    "post /app/v1/services/:service/plan": {
      path: "/app/v1/services/web/plan",
      body: yarnfile("web"),
    },
    "put /app/v1/services/:service/components": {
      path: "/app/v1/services/web/components",
      body: [{ name: "hello", state: "UPGRADING" }],
    },
    "put /app/v1/services/:service/component-instances": {
      path: "/app/v1/services/web/component-instances",
      body: [{ component_instance_name: "hello-0", state: "UPGRADING" }],
    },
    "put /app/v1/services/:service/components/:component/component-instances/:instance": {
      path: "/app/v1/services/web/components/hello/component-instances/hello-0",
      body: { state: "UPGRADING" },
    },
    "get /app/v1/services/:service/events": { path: "/app/v1/services/web/events" },
    "get /app/v1/services/:service/logs": { path: "/app/v1/services/web/logs?instance=hello-0" },
    "get /ws/v1/cluster": { path: "/ws/v1/cluster" },
    "get /ws/v1/cluster/info": { path: "/ws/v1/cluster/info" },
    "get /ws/v1/cluster/metrics": { path: "/ws/v1/cluster/metrics" },
    "get /ws/v1/cluster/nodes": { path: "/ws/v1/cluster/nodes" },
    "get /ws/v1/cluster/nodes/:node": {
      path: `/ws/v1/cluster/nodes/${encodeURIComponent(NODE_ID)}`,
    },
    "get /ws/v1/cluster/apps": { path: "/ws/v1/cluster/apps" },
    "get /ws/v1/cluster/apps/:application": {
      path: "/ws/v1/cluster/apps/application_1503963985568_0002",
    },
    "post /app/v1/services/plan": { path: "/app/v1/services/plan", body: yarnfile("new") },
    "get /ws/v1/cluster/apps/:application/state": { path: `${APP}/state` },
    "put /ws/v1/cluster/apps/:application/state": {
      path: `${APP}/state`,
      body: { state: "KILLED" },
    },
    "get /ws/v1/cluster/apps/:application/priority": { path: `${APP}/priority` },
    "put /ws/v1/cluster/apps/:application/priority": {
      path: `${APP}/priority`,
      body: { priority: 3 },
    },
    "get /ws/v1/cluster/apps/:application/queue": { path: `${APP}/queue` },
    "put /ws/v1/cluster/apps/:application/queue": {
      path: `${APP}/queue`,
      body: { queue: "default" },
    },
    "get /ws/v1/cluster/apps/:application/appattempts": { path: `${APP}/appattempts` },
    "get /ws/v1/cluster/apps/:application/appattempts/:attempt/containers": {
      path: `${APP}/appattempts/${ATTEMPT_ID}/containers`,
    },
    "get /ws/v1/cluster/apps/:application/appattempts/:attempt/containers/:container": {
      path: `${APP}/appattempts/${ATTEMPT_ID}/containers/${CONTAINER_ID}`,
    },
    "post /ws/v1/cluster/containers/:container/signal/:command": {
      path: `/ws/v1/cluster/containers/${CONTAINER_ID}/signal/GRACEFUL_SHUTDOWN`,
    },
    "post /ws/v1/cluster/containers/:container/restart": {
      path: `/ws/v1/cluster/containers/${CONTAINER_ID}/restart`,
    },
    "get /ws/v1/cluster/scheduler/app-activities/:application": {
      path: "/ws/v1/cluster/scheduler/app-activities/application_1503963985568_0002",
    },
    "get /ws/v1/cluster/scheduler/activities": { path: "/ws/v1/cluster/scheduler/activities" },
    "get /ws/v1/cluster/scheduler": { path: "/ws/v1/cluster/scheduler" },
    "get /ws/v1/cluster/scheduler-conf": { path: CONF },
    "put /ws/v1/cluster/scheduler-conf": { path: CONF, body: STOP_DEFAULT },
    "post /ws/v1/cluster/scheduler-conf/validate": {
      path: `${CONF}/validate`,
      body: STOP_DEFAULT,
    },
    "put /ws/v1/cluster/scheduler-conf/document": {
      path: `${CONF}/document`,
      body: { queues: { default: { capacity: 100 } } },
    },
    "get /ws/v1/cluster/scheduler-conf/version": { path: `${CONF}/version` },
    "get /ws/v1/cluster/scheduler-conf/versions": { path: `${CONF}/versions` },
    "post /ws/v1/cluster/scheduler-conf/rollback": {
      path: `${CONF}/rollback`,
      body: { version: 1 },
    },
    "get /ws/v1/cluster/queues/:queue/access": {
      path: "/ws/v1/cluster/queues/default/access",
    },
    "get /ws/v1/cluster/get-node-labels": { path: "/ws/v1/cluster/get-node-labels" },
    "post /ws/v1/cluster/add-node-labels": {
      path: "/ws/v1/cluster/add-node-labels",
      body: { nodeLabelInfo: [{ name: "ssd" }] },
    },
    "post /ws/v1/cluster/remove-node-labels": {
      path: "/ws/v1/cluster/remove-node-labels?labels=gpu",
    },
    "get /ws/v1/cluster/get-node-to-labels": { path: "/ws/v1/cluster/get-node-to-labels" },
    "post /ws/v1/cluster/replace-node-to-labels": {
      path: "/ws/v1/cluster/replace-node-to-labels",
      body: { nodeToLabels: [{ nodeId: NODE_ID, labels: ["gpu"] }] },
    },
    "post /ws/v1/cluster/nodes/:node/replace-labels": {
      path: `${NODE}/replace-labels?labels=gpu`,
    },
    "put /ws/v1/cluster/nodes/:node/attributes": {
      path: `${NODE}/attributes`,
      body: { attributes: { zone: "b" } },
    },
    "post /ws/v1/cluster/nodes/:node/resource": {
      path: `${NODE}/resource`,
      body: { resource: { memory: 4_096, vCores: 4 } },
    },
    "post /ws/v1/cluster/nodes/decommission": {
      path: "/ws/v1/cluster/nodes/decommission",
      body: { nodes: [NODE_ID] },
    },
    "post /ws/v1/cluster/nodes/recommission": {
      path: "/ws/v1/cluster/nodes/recommission",
      body: { nodes: [NODE_ID] },
    },
    "get /ws/v1/cluster/node-lists": { path: "/ws/v1/cluster/node-lists" },
    "put /ws/v1/cluster/node-lists": {
      path: "/ws/v1/cluster/node-lists",
      body: { include: [], exclude: ["old.example.com"] },
    },
    "get /install.sh": { path: "/install.sh" },
    "get /nodes/:node/ws/v1/node": { path: NODE_WEB },
    "get /nodes/:node/ws/v1/node/info": { path: `${NODE_WEB}/info` },
    "get /nodes/:node/ws/v1/node/apps": { path: `${NODE_WEB}/apps` },
    "get /nodes/:node/ws/v1/node/apps/:application": {
      path: `${NODE_WEB}/apps/application_1503963985568_0002`,
    },
    "get /nodes/:node/ws/v1/node/containers": { path: `${NODE_WEB}/containers` },
    "get /nodes/:node/ws/v1/node/containers/:container": {
      path: `${NODE_WEB}/containers/${CONTAINER_ID}`,
    },
    "get /nodes/:node/ws/v1/node/containers/:container/logs": {
      path: `${NODE_WEB}/containers/${CONTAINER_ID}/logs`,
    },
    "get /nodes/:node/ws/v1/node/containers/:container/logs/:file": {
      path: `${NODE_WEB}/containers/${CONTAINER_ID}/logs/stdout`,
    },
    "get /nodes/:node/ws/v1/node/containerlogs/:container/:file": {
      path: `${NODE_WEB}/containerlogs/${CONTAINER_ID}/stdout`,
    },
    "get /nodes/:node/ws/v1/node/auxiliaryservices": { path: `${NODE_WEB}/auxiliaryservices` },
    "get /ws/v1/cluster/containers/:container/exec": {
      path: `/ws/v1/cluster/containers/${CONTAINER_ID}/exec`,
      headers: {
        upgrade: "websocket",
        [EXEC_HEADER]: formatExecHeader({ command: ["true"], stdin: false }),
      },
    },
    "get /ws/v1/cluster/containers/:container/forward/:port": {
      path: `/ws/v1/cluster/containers/${CONTAINER_ID}/forward/8080`,
      headers: { upgrade: "websocket" },
    },
    "get /ws/v1/node/streams/:stream": {
      path: "/ws/v1/node/streams/7d0d2b6e-5b1c-4f0e-9a55-0c6f3b1d2e4f",
      headers: { upgrade: "websocket", [STREAM_SECRET_HEADER]: "secret" },
    },
    "get /ws/v1/node/connect": {
      path: "/ws/v1/node/connect",
      headers: { upgrade: "websocket" },
    },
    "post /ws/v1/node/heartbeat": { path: "/ws/v1/node/heartbeat", body: { messages: [] } },
    "post /ws/v1/registry-operations/mknode": {
      path: "/ws/v1/registry-operations/mknode",
      body: { path: "/users/joe/a/b", createParents: true },
    },
    "post /ws/v1/registry-operations/bind": {
      path: "/ws/v1/registry-operations/bind",
      body: { path: "/users/joe/a", record: {} },
    },
    "post /ws/v1/registry-operations/delete": {
      path: "/ws/v1/registry-operations/delete",
      body: { path: "/users/joe/a" },
    },
    "post /ws/v1/registry-operations/transact": {
      path: "/ws/v1/registry-operations/transact",
      body: { operations: [] },
    },
    "post /ws/v1/registry-operations/set-acl": {
      path: "/ws/v1/registry-operations/set-acl",
      body: { path: "/users/joe/a", add: [], remove: [] },
    },
    "post /ws/v1/registry-operations/get-acl": {
      path: "/ws/v1/registry-operations/get-acl",
      body: { path: "/users/joe/a" },
    },
    "post /ws/v1/registry-operations/purge": {
      path: "/ws/v1/registry-operations/purge",
      body: { yarnId: CONTAINER_ID, persistence: "container" },
    },
    "get /ws/v1/packages": { path: "/ws/v1/packages" },
    "get /ws/v1/packages/:user/:name/:version": { path: WEB },
    "post /ws/v1/packages/:user/:name/:version/uploads": {
      path: `${WEB}/uploads`,
      body: { sha256: PACKAGE.sha256, sizeBytes: 1 },
    },
    "put /ws/v1/packages/:user/:name/:version/parts/:part": {
      path: `${WEB}/parts/1?upload=u`,
      body: {},
      headers: { "content-length": "2" },
    },
    "post /ws/v1/packages/:user/:name/:version/complete": {
      path: `${WEB}/complete`,
      body: {
        ...{ sha256: PACKAGE.sha256, sizeBytes: 1, upload: "u" },
        parts: [{ partNumber: 1, etag: "e" }],
      },
    },
    "delete /ws/v1/packages/:user/:name/:version": { path: WEB },
    "get /ws/v1/node/packages/:sha256": { path: `/ws/v1/node/packages/${PACKAGE.sha256}` },
    "put /ws/v1/node/logs/:container": {
      path: NODE_LOGS,
      body: { user: "joe", instance: "hello-0", complete: false },
    },
    "get /ws/v1/node/logs/:container": { path: `${NODE_LOGS}?user=joe` },
    "put /ws/v1/node/logs/:container/:file/:start": {
      path: `${NODE_LOGS}/stdout/0?user=joe&end=2`,
      body: {},
      headers: { "content-length": "2" },
    },
    "get /ws/v1/logs/:application": { path: "/ws/v1/logs/application_1503963985568_0002" },
    "get /ws/v1/logs/:container/files": { path: `/ws/v1/logs/${CONTAINER_ID}/files` },
    "get /ws/v1/logs/:container/files/:file": {
      path: `/ws/v1/logs/${CONTAINER_ID}/files/stdout`,
    },
    "post /ws/v1/node/join": { path: "/ws/v1/node/join", body: { nodeId: NODE_ID } },
  };

const OPERATIONS = ENDPOINTS.map(({ method, path }) => `${method} ${path}`);

function ask(cluster: FakeCluster, operation: string, token: string | undefined) {
  const [method = ""] = operation.split(" ");
  const request = WORKING[operation];
  if (!request) throw new Error(`no working request is known for ${operation}`);
  const { path, ...how } = request;
  const headers = how.headers ? { headers: how.headers } : {};
  const body = "body" in how ? { body: how.body } : {};
  return cluster.ask(method.toUpperCase(), path, {
    ...headers,
    ...body,
    ...(token === undefined ? {} : { token }),
  });
}

/** Joe owns the service `web` and the registry path `/users/joe/a`. */
async function clusterOfJoe() {
  const cluster = await fakeCluster();
  cluster.state.nodeAnswer = ok(JSON.stringify({ json: {} }));
  // The second one is what the application runs.
  for (const name of ["web", "hello-world"]) {
    cluster.services.set(`joe/${name}`, serviceOf("joe", name));
  }
  await cluster.ask("POST", "/ws/v1/registry-operations/mknode", {
    token: cluster.tokens.joe,
    body: { path: "/users/joe/a", createParents: true },
  });
  return cluster;
}

describe("every operation of the API", () => {
  it("is in the router, and the router has nothing else", () => {
    const app = createApp(
      () => {
        throw new Error("not called");
      },
      {
        isCluster: () => true,
        domain: "selvedge.internal",
        development: false,
        registryReaders: "anybody",
        net: { clusters: [], remotes: new Map() },
      },
    );
    const routed = app.routes
      .filter(({ method, path }) => method !== "ALL" && !path.endsWith("*"))
      .map(({ method, path }) => `${method.toLowerCase()} ${path}`);
    // The two ways into YARN's open door lead to a refusal with a hint.
    const door = ["post /ws/v1/cluster/apps", "post /ws/v1/cluster/apps/new-application"];
    expect(new Set(routed)).toEqual(new Set([...OPERATIONS, "get /openapi.json", ...door]));
  });

  it("is public only where design says so", () => {
    const open = ENDPOINTS.filter(
      ({ method, path }) => accessOf(method.toUpperCase(), path) === "public",
    );
    expect(open.map(({ method, path }) => `${method} ${path}`)).toEqual([
      "get /healthz",
      "post /ws/v1/security/claim",
      "get /install.sh",
    ]);
  });

  describe.each(OPERATIONS)("%s", (operation) => {
    const [method = "", path = ""] = operation.split(" ");
    const access = accessOf(method.toUpperCase(), path);

    it("answers whoever it is for", async () => {
      const cluster = await clusterOfJoe();
      const token = {
        public: undefined,
        user: cluster.tokens.joe,
        admin: cluster.tokens.admin,
        node: cluster.tokens.node,
        "node-join": cluster.tokens.join,
        registry: cluster.tokens.joe,
      }[access];
      const answer = await ask(cluster, operation, token);
      expect(answer.status, answer.text).toBeLessThan(300);
    });

    if (access === "public") return;

    it("refuses everybody without a proof, and asks the cluster for nothing", async () => {
      const cluster = await clusterOfJoe();
      const stranger = await signer("default", "key-of-default");
      const otherCluster = await signer("other");
      const claims = claimsFor(access);
      const proofs: Record<string, string | undefined> = {
        "no token": undefined,
        garbage: "a.b.c",
        expired: await cluster.keys.sign(claims, -10),
        "signed by somebody else under the cluster's key id": await stranger.sign(claims),
        "of another cluster": await otherCluster.sign(claims),
        "unsigned (alg none)": unsigned(claims),
        "of no audience": await cluster.keys.sign({ ...claims, aud: undefined }),
      };
      for (const [name, token] of Object.entries(proofs)) {
        const answer = await ask(cluster, operation, token);
        expect(answer.status, name).toBe(401);
        expect(answer.headers.get("www-authenticate"), name).toMatch(/^Bearer/);
        expect(answer.json.code, name).toBe("UNAUTHENTICATED");
      }
      expect(cluster.reached()).toEqual([]);
    });

    it("refuses tokens that are for something else", async () => {
      const cluster = await clusterOfJoe();
      const { tokens } = cluster;
      const others = {
        user: [tokens.node, tokens.join, tokens.container],
        admin: [tokens.node, tokens.join, tokens.container],
        node: [tokens.joe, tokens.admin, tokens.join, tokens.container],
        "node-join": [tokens.joe, tokens.admin, tokens.node, tokens.container],
        registry: [tokens.node, tokens.join],
      }[access];
      const container = await cluster.keys.sign({ aud: "container", containerId: CONTAINER_ID });
      for (const token of [...others, container]) {
        expect((await ask(cluster, operation, token)).status).toBe(401);
      }
      expect(cluster.reached()).toEqual([]);
    });

    if (access === "admin") {
      it("refuses a user who is no administrator, and says so", async () => {
        const cluster = await clusterOfJoe();
        const answer = await ask(cluster, operation, cluster.tokens.joe);
        expect(answer.status).toBe(403);
        expect(answer.json.hint).toContain("role admin");
        expect(cluster.reached()).toEqual([]);
      });
    }
  });

  it.each(OPERATIONS.filter((operation) => operation.includes("/:service")))(
    "does not let another user near a service: %s",
    async (operation) => {
      const cluster = await clusterOfJoe();
      const before = structuredClone([...cluster.services]);
      expect((await ask(cluster, operation, cluster.tokens.eve)).status).toBe(404);
      const [method = ""] = operation.split(" ");
      const { path = "", body } = WORKING[operation] ?? {};
      const asJoe = `${path}${path.includes("?") ? "&" : "?"}user=joe`;
      const more = body === undefined ? {} : { body };
      const answer = await cluster.ask(method.toUpperCase(), asJoe, {
        token: cluster.tokens.eve,
        ...more,
      });
      expect(answer.status).toBe(403);
      expect(answer.json.detail).toBe("user eve may not act for user joe");
      expect(answer.json.hint).toContain("role admin");
      expect([...cluster.services]).toEqual(before);
    },
  );

  it("lets an administrator act for a user by name", async () => {
    const cluster = await clusterOfJoe();
    const token = cluster.tokens.admin;
    const named = await cluster.ask("GET", "/app/v1/services/web?user=joe", { token });
    expect(named.json.user).toBe("joe");
    expect((await cluster.ask("GET", "/app/v1/services/web", { token })).status).toBe(404);
  });
});

describe("paths that do not exist", () => {
  it.each([
    ["GET", "/app/v1/nothing"],
    ["POST", "/app/v1/services/web/upgrade"],
    ["GET", "/ws/v1/cluster/scheduler"],
    ["GET", "/ws/v1/node/containers"],
    ["PUT", "/ws/v1/cluster/apps/application_1_0001/state"],
    ["GET", "/clusters/other/ws/v1/nothing"],
    ["GET", "/"],
    ["POST", "/healthz"],
    ["OPTIONS", "/app/v1/services"],
    ["POST", "/registry/v1/users/joe"],
  ])("do not say so to strangers: %s %s", async (method, path) => {
    const cluster = await fakeCluster();
    expect((await cluster.ask(method, path)).status).toBe(401);
  });

  it("say so to users, with where to look", async () => {
    const cluster = await fakeCluster();
    const answer = await cluster.ask("GET", "/app/v1/nothing", { token: cluster.tokens.joe });
    expect(answer.status).toBe(404);
    expect(answer.json.hint).toContain("/openapi.json");
  });

  it("say which methods a path answers", async () => {
    const cluster = await fakeCluster();
    const token = cluster.tokens.joe;
    const answer = await cluster.ask("DELETE", "/app/v1/services", { token });
    expect(answer.status).toBe(405);
    expect(answer.headers.get("allow")).toBe("POST, GET");
  });
});

function claimsFor(access: string): Record<string, unknown> {
  if (access === "node") return { aud: "node", sub: NODE_ID };
  if (access === "node-join") return { aud: "node-join" };
  return { aud: "user", sub: "joe", role: "admin" };
}

function unsigned(claims: Record<string, unknown>): string {
  const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const exp = Math.floor(Date.now() / 1_000) + 3_600;
  const header = encode({ alg: "none", kid: "key-of-default" });
  return `${header}.${encode({ iss: "selvedge:default", exp, ...claims })}.AA`;
}
