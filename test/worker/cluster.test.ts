import { beforeEach, describe, expect, it, vi } from "vitest";
import packageJson from "../../package.json" with { type: "json" };
import { VERSION } from "../../src/shared/version.ts";
import { openApiDocument } from "../../src/worker/app.ts";
import { APPLICATION_ID, applicationOf, fakeCluster, NODE_ID } from "./fake-cluster.ts";

beforeEach(() => {
  vi.spyOn(console, "log").mockReturnValue();
});

async function cluster() {
  const fake = await fakeCluster();
  const get = (path: string, token = fake.tokens.joe) => fake.ask("GET", path, { token });
  return { ...fake, get };
}

describe("the ResourceManager's REST", () => {
  it.each(["/ws/v1/cluster", "/ws/v1/cluster/", "/ws/v1/cluster/info"])(
    "says at %s what the cluster is",
    async (path) => {
      const { get } = await cluster();
      expect((await get(path)).json).toEqual({
        clusterInfo: {
          id: 1_503_963_985_568,
          startedOn: 1_503_963_985_568,
          state: "STARTED",
          haState: "ACTIVE",
          resourceManagerVersion: VERSION,
          clusterName: "default",
        },
      });
    },
  );

  it("counts what the cluster has", async () => {
    const { get, applications } = await cluster();
    applications.push(applicationOf("eve", { state: "FINISHED" }));
    expect((await get("/ws/v1/cluster/metrics")).json.clusterMetrics).toMatchObject({
      appsSubmitted: 2,
      appsRunning: 1,
      appsCompleted: 1,
      totalMB: 8_192,
      allocatedMB: 512,
      availableMB: 7_680,
      totalVirtualCores: 8,
      allocatedVirtualCores: 2,
      availableVirtualCores: 6,
      containersAllocated: 2,
      totalNodes: 3,
      activeNodes: 1,
      lostNodes: 2,
    });
  });

  it("shows nodes under YARN's names", async () => {
    const { get } = await cluster();
    const expected = {
      id: NODE_ID,
      nodeHostName: "worker1.example.com",
      rack: "/default-rack",
      state: "RUNNING",
      numContainers: 2,
      usedMemoryMB: 512,
      availMemoryMB: 7_680,
      usedVirtualCores: 2,
      availableVirtualCores: 6,
      nodeLabels: ["gpu"],
    };
    expect((await get("/ws/v1/cluster/nodes")).json.nodes.node).toMatchObject([expected]);
    expect((await get(`/ws/v1/cluster/nodes/${NODE_ID}`)).json.node).toMatchObject(expected);
    expect((await get("/ws/v1/cluster/nodes?states=running")).json.nodes.node).toHaveLength(1);
    expect((await get("/ws/v1/cluster/nodes?states=LOST,UNHEALTHY")).json.nodes.node).toEqual([]);
  });

  it.each([
    ["/ws/v1/cluster/nodes?states=GONE", 400, "BadRequestException"],
    ["/ws/v1/cluster/nodes/none.example.com:1", 404, "NotFoundException"],
    ["/ws/v1/cluster/nodes/none", 400, "BadRequestException"],
    ["/ws/v1/cluster/apps/application_1503963985568_0009", 404, "NotFoundException"],
    ["/ws/v1/cluster/apps/new", 400, "BadRequestException"],
    ["/ws/v1/cluster/schedulers", 404, "NotFoundException"],
  ])("fails as Hadoop's clients understand it: %s", async (path, status, exception) => {
    const { get } = await cluster();
    const answer = await get(path);
    expect(answer.status).toBe(status);
    expect(answer.json.RemoteException).toEqual({
      exception,
      message: expect.any(String),
      javaClassName: `org.apache.hadoop.yarn.webapp.${exception}`,
    });
    expect(answer.json.diagnostics).toBeUndefined();
  });

  it("shows users their own applications, administrators everybody's", async () => {
    const { get, tokens, applications } = await cluster();
    applications.push(applicationOf("eve", { applicationId: "application_1503963985568_0003" }));
    const ids = async (query: string, token: string) =>
      (await get(`/ws/v1/cluster/apps${query}`, token)).json.apps.app.map(
        ({ id }: { id: string }) => id.slice(-1),
      );
    expect(await ids("", tokens.joe)).toEqual(["2"]);
    expect(await ids("?user=eve", tokens.joe)).toEqual([]);
    expect(await ids("", tokens.admin)).toEqual(["2", "3"]);
    expect(await ids("?user=eve", tokens.admin)).toEqual(["3"]);
    expect(await ids("?states=running&queue=default&limit=1", tokens.admin)).toEqual(["2"]);
    expect(await ids("?applicationTypes=MAPREDUCE", tokens.admin)).toEqual([]);
    expect(await ids("?states=FAILED", tokens.admin)).toEqual([]);
  });

  it("answers another user's application like one that never was", async () => {
    const { get, tokens } = await cluster();
    const path = `/ws/v1/cluster/apps/${APPLICATION_ID}`;
    expect((await get(path, tokens.eve)).status).toBe(404);
    expect((await get(path, tokens.admin)).status).toBe(200);
  });

  it("says -1 for what an ended application no longer has", async () => {
    const { get, applications } = await cluster();
    const at = applications[0]?.startedMs ?? 0;
    applications[0] = applicationOf("joe", { state: "FINISHED", finishedMs: at + 5_000 });
    const { app } = (await get(`/ws/v1/cluster/apps/${APPLICATION_ID}`)).json;
    expect(app).toMatchObject({ elapsedTime: 5_000, allocatedMB: -1, runningContainers: -1 });
  });
});

describe("what everybody may see", () => {
  it("is whether the cluster answers", async () => {
    const { ask } = await cluster();
    expect((await ask("GET", "/healthz")).json).toEqual({
      status: "ok",
      cluster: "default",
      claimed: true,
      nodes: { running: 1, total: 3 },
    });
  });

  it("is the registry, which may be cached", async () => {
    const { ask } = await cluster();
    for (const path of ["/registry/v1", "/registry/v1/", "/clusters/default/registry/v1/users"]) {
      const answer = await ask("GET", path);
      expect(answer.status, path).toBe(200);
      expect(answer.headers.get("cache-control")).toMatch(/^public/);
      expect(answer.headers.get("x-content-type-options")).toBe("nosniff");
    }
    const etag = (await ask("GET", "/registry/v1/users")).headers.get("etag") ?? "";
    const headers = { "if-none-match": etag };
    const unchanged = await ask("GET", "/registry/v1/users", { headers });
    expect(unchanged.status).toBe(304);
    expect(unchanged.headers.get("cache-control")).toMatch(/^public/);
    const preflight = await ask("OPTIONS", "/registry/v1/users");
    expect(preflight.status).toBeLessThan(300);
  });

  it("is the description of the API", async () => {
    const { ask } = await cluster();
    const answer = await ask("GET", "/openapi.json");
    expect(answer.status).toBe(200);
    expect(answer.json).toEqual(JSON.parse(JSON.stringify(openApiDocument())));
  });
});

describe("the description of the API", () => {
  const document = openApiDocument();
  const text = JSON.stringify(document);

  it("refers only to what it has", () => {
    const references = [...text.matchAll(/"\$ref":"#\/components\/(\w+)\/(\w+)"/g)];
    expect(references.length).toBeGreaterThan(20);
    for (const [, kind = "", name = ""] of references) {
      expect(document.components[kind as "schemas"], `${kind}/${name}`).toHaveProperty(name);
    }
    expect(text).not.toContain("$defs");
  });

  it("has every field of a Yarnfile", () => {
    const { Service, Component } = document.components.schemas as Record<
      string,
      { properties?: Record<string, unknown> }
    >;
    expect(Object.keys(Service?.properties ?? {})).toEqual(
      expect.arrayContaining(["name", "version", "components", "lifetime", "queue", "quicklinks"]),
    );
    expect(Object.keys(Component?.properties ?? {})).toEqual(
      expect.arrayContaining(["launch_command", "readiness_check", "restart_policy", "resource"]),
    );
  });

  it("needs a token for everything but what is public", () => {
    expect(document.security).toEqual([{ bearer: [] }]);
    const open = Object.entries(document.paths).filter(([, operations]) =>
      Object.values(operations).some((each) => (each as { security?: unknown }).security),
    );
    expect(open.map(([path]) => path)).toEqual([
      "/healthz",
      "/ws/v1/security/claim",
      "/install.sh",
      "/registry/v1/{path}",
    ]);
  });

  it("is of this program's version", () => {
    expect(document.info.version).toBe(packageJson.version);
  });
});
