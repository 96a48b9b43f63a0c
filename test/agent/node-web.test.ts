import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  answerNodeWeb,
  type NodeWebContainer,
  type NodeWebState,
} from "../../src/agent/node-web.ts";
import { NodeWebServer } from "../../src/agent/node-web-server.ts";
import { EXIT } from "../../src/shared/container.ts";
import { nodeWebAnswerSchema } from "../../src/shared/node-web.ts";
import { containerId } from "./test-node.ts";

const APPLICATION_ID = "application_1700000000000_0001";
const [ONE, TWO, MISSING] = [containerId(1), containerId(2), containerId(9)];

function containerOf(id: string, user: string, more: Partial<NodeWebContainer> = {}) {
  return {
    status: {
      ...{ containerId: id, state: "RUNNING", subState: "RELAUNCHING", exitStatus: EXIT.INVALID },
      ...{ diagnostics: "d".repeat(1_000), ready: true },
    },
    user,
    resource: { memoryMb: 512, vcores: 2 },
    ...more,
  } as NodeWebContainer;
}

const TEXT = "a log of 22 characters";

/** A node with an application and container of alice, and a container of bob. */
const state: NodeWebState = {
  nodeId: "worker1:8041",
  host: "worker1",
  agentVersion: "0.1.0",
  startedMs: 1_700_000_000_000,
  pmemCheckEnabled: true,
  vmemCheckEnabled: false,
  vmemPmemRatio: 2.1,
  health: () => ({ healthy: false, report: "ERROR too hot" }),
  healthCheckedMs: () => 1_700_000_000_500,
  applications: () => [{ applicationId: APPLICATION_ID, user: "alice", state: "RUNNING" }],
  containers: () => [containerOf(ONE, "alice"), containerOf(TWO, "bob")],
  auxiliaryServices: () => [{ name: "shuffle", version: "2", startedMs: 1_700_000_000_000 }],
  usage: (id) =>
    id === ONE ? { physicalBytes: 7, virtualBytes: 8, processes: 1, cpuPercent: 50 } : undefined,
  nodeUsage: () => ({
    ...{ memoryBytes: 1, memoryTotalBytes: 2, cpuPercent: 3, containersPhysicalBytes: 4 },
    ...{ containersVirtualBytes: 5, containersCpuPercent: 6 },
  }),
  logFiles: async (id) =>
    id === ONE
      ? [{ name: "stdout", sizeBytes: 22, droppedBytes: 4, modifiedMs: 1_700_000_000_000 }]
      : [],
  readLog: async (id, file, { offset, lengthMax }) => {
    if (id !== ONE || file !== "stdout") return undefined;
    const start = offset < 0 ? Math.max(0, TEXT.length + offset) : offset;
    const text = TEXT.slice(start, start + lengthMax);
    return { text, nextOffset: start + text.length };
  },
};

async function get(path: string, of: NodeWebState = state) {
  const reply = await answerNodeWeb(of, `/ws/v1/node${path}`);
  if (!reply.ok) return reply.error;
  // As it goes over the wire.
  return nodeWebAnswerSchema.parse(JSON.parse(JSON.stringify(reply.value)));
}

describe("the NodeManager's REST", () => {
  it("[NM91] tells what the node is, in YARN's words", async () => {
    const nodeInfo = {
      id: "worker1:8041",
      nodeHostName: "worker1",
      nodeManagerVersion: "0.1.0",
      nodeHealthy: false,
      healthReport: "ERROR too hot",
      lastNodeUpdateTime: 1_700_000_000_500,
      nmStartupTime: 1_700_000_000_000,
      totalPmemAllocatedContainersMB: 1_024,
      totalVmemAllocatedContainersMB: 2_150,
      totalVCoresAllocatedContainers: 4,
      pmemCheckEnabled: true,
      vmemCheckEnabled: false,
      usage: state.nodeUsage(),
    };
    expect(await get("")).toEqual({ json: { nodeInfo } });
    expect(await get("/info")).toEqual({ json: { nodeInfo } });
  });

  it("[NM91] lists applications by user and state, each with its containers", async () => {
    const app = { id: APPLICATION_ID, user: "alice", state: "RUNNING", containerids: [ONE, TWO] };
    expect(await get("/apps")).toEqual({ json: { apps: { app: [app] } } });
    expect(await get("/apps?user=alice&state=RUNNING")).toEqual({ json: { apps: { app: [app] } } });
    expect(await get("/apps?state=FINISHED")).toEqual({ json: { apps: {} } });
    expect(await get("/apps?user=bob")).toEqual({ json: { apps: {} } });
    expect(await get(`/apps/${APPLICATION_ID}`)).toEqual({ json: { app } });
    expect(await get("/apps?state=STARTED")).toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  it("[NM91] shows a container with what it uses, and a list of them with short diagnostics", async () => {
    const container = {
      id: ONE,
      state: "RELAUNCHING",
      exitCode: -1_000,
      diagnostics: "d".repeat(1_000),
      user: "alice",
      totalMemoryNeededMB: 512,
      totalVCoresNeeded: 2,
      executionType: "GUARANTEED",
      containerLogsLink: `/ws/v1/node/containers/${ONE}/logs`,
      nodeId: "worker1:8041",
      containerLogFiles: ["stdout"],
      usage: { physicalBytes: 7, virtualBytes: 8, processes: 1, cpuPercent: 50 },
    };
    expect(await get(`/containers/${ONE}`)).toEqual({ json: { container } });
    expect(await get("/containers?user=alice")).toEqual({
      json: { containers: { container: [{ ...container, diagnostics: "d".repeat(200) }] } },
    });
    expect(await get("/containers?user=carol")).toEqual({ json: { containers: {} } });
  });

  it("[NM91] lists a container's logs and reads any part of them", async () => {
    expect(await get(`/containers/${ONE}/logs`)).toEqual({
      json: {
        containerLogsInfo: [
          {
            containerLogInfo: [
              {
                fileName: "stdout",
                fileSize: "22",
                droppedBytes: 4,
                lastModifiedTime: "Tue, 14 Nov 2023 22:13:20 GMT",
              },
            ],
            logAggregationType: "LOCAL",
            containerId: ONE,
            nodeId: "worker1:8041",
          },
        ],
      },
    });
    const log = `/containers/${ONE}/logs/stdout`;
    expect(await get(log)).toEqual({ text: TEXT, nextOffset: 22 });
    expect(await get(`${log}?size=5`)).toEqual({ text: "a log", nextOffset: 5 });
    expect(await get(`${log}?size=-10`)).toEqual({ text: "characters", nextOffset: 22 });
    expect(await get(`${log}?offset=9&size=2`)).toEqual({ text: "22", nextOffset: 11 });
    expect(await get(`/containerlogs/${ONE}/stdout?size=1`)).toEqual({ text: "a", nextOffset: 1 });
    expect(await get(`${log}?size=many`)).toMatchObject({ code: "INVALID_ARGUMENT" });
    expect(await get(`/containers/${ONE}/logs/stderr`)).toMatchObject({ code: "NOT_FOUND" });
  });

  it("[NM91] names the auxiliary services", async () => {
    expect(await get("/auxiliaryservices")).toEqual({
      json: {
        services: {
          service: [{ name: "shuffle", version: "2", startTime: "2023-11-14T22:13:20.000Z" }],
        },
      },
    });
  });

  it.each([
    `/apps/${APPLICATION_ID}?user=bob`,
    `/containers/${ONE}?user=bob`,
    `/containers/${ONE}/logs?user=bob`,
    `/containers/${ONE}/logs/stdout?user=bob`,
    `/containerlogs/${ONE}/stdout?user=bob`,
    `/containers/${MISSING}?user=bob`,
    `/containers/${MISSING}/logs/stdout`,
  ])("[NM92] has nothing at %s", async (path) => {
    expect(await get(path)).toMatchObject({
      code: "NOT_FOUND",
      message: expect.stringMatching(
        /^there is no (?:application|container) \S+ on node worker1:8041$/,
      ),
    });
  });

  it.each(["/heap", "/info/x", "/apps/a/b", `/containers/${ONE}/x`, `/containers/${ONE}/logs/a/b`])(
    "[NM91] says at %s what there is",
    async (path) => {
      const answer = await get(path);
      expect(answer).toMatchObject({ code: "NOT_FOUND" });
      expect(answer).toHaveProperty("hint", expect.stringContaining("containers/{id}/logs"));
    },
  );

  it("[NM91] refuses what is no path of it", async () => {
    for (const target of ["/ws/v1/nodes", "/", "//evil/ws/v1/x", "/ws/v1/node/%zz"]) {
      const reply = await answerNodeWeb(state, target);
      expect(reply).toMatchObject({ ok: false, error: { code: "INVALID_ARGUMENT" } });
    }
  });

  it("[NM91] asks for less where an answer would be too long to go through", async () => {
    const many = Array.from({ length: 4_000 }, (_, i) => containerOf(containerId(i + 1), "alice"));
    const crowded = { ...state, containers: () => many };
    expect(await get("/containers", crowded)).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    expect(await get(`/containers/${ONE}`, crowded)).toHaveProperty("json.container.id", ONE);
  });
});

describe("the NodeManager's REST on a port of the machine", () => {
  let home: string;
  let server: NodeWebServer | undefined;
  beforeEach(() => {
    home = mkdtempSync(join(tmpdir(), "selvedge-web-"));
  });
  afterEach(async () => {
    await server?.close();
    rmSync(home, { recursive: true, force: true });
  });

  async function serve(of: NodeWebState = state) {
    const tokenFile = join(home, "token");
    server = await NodeWebServer.start(of, { port: 0, tokenFile }, () => undefined);
    const base = `http://127.0.0.1:${server.port}`;
    const token = readFileSync(tokenFile, "utf8").trim();
    const ask = (path: string, bearer?: string, method = "GET") =>
      fetch(`${base}/ws/v1/node${path}`, {
        method,
        headers: bearer === undefined ? {} : { authorization: `Bearer ${bearer}` },
      });
    return { tokenFile, token, ask };
  }

  it("[NM93] answers whoever has the token of its file, which only the agent's user reads", async () => {
    const { tokenFile, token, ask } = await serve();
    expect(statSync(tokenFile).mode & 0o777).toBe(0o600);
    const info = await ask("/info", token);
    expect(await info.json()).toHaveProperty("nodeInfo.id", "worker1:8041");
    const log = await ask(`/containers/${ONE}/logs/stdout?size=5`, token);
    expect(log.headers.get("x-next-offset")).toBe("5");
    expect(log.headers.get("content-type")).toBe("text/plain; charset=utf-8");
    expect(await log.text()).toBe("a log");
    expect((await ask("/containers/x", token)).status).toBe(404);
    expect((await ask("/info", token, "POST")).status).toBe(400);
  });

  it("[NM93] tells nothing to anybody else", async () => {
    const { token, ask } = await serve();
    for (const bearer of [undefined, "", "x", `${token}x`, token.slice(0, -1)]) {
      const answer = await ask("/info", bearer);
      expect(answer.status).toBe(401);
      expect(await answer.text()).not.toContain("worker1");
    }
  });

  it("[NM93] keeps its token over restarts, and does not start with one that is easily guessed", async () => {
    const { tokenFile, token } = await serve();
    await server?.close();
    expect((await serve()).token).toBe(token);
    await server?.close();
    server = undefined;
    writeFileSync(tokenFile, "secret\n");
    await expect(serve()).rejects.toThrow("holds no token of at least 32 characters");
  });

  it("[NM93] answers an error of the agent's as one, and goes on", async () => {
    const { token, ask } = await serve({
      ...state,
      nodeUsage: () => {
        throw new Error("of the agent's inside");
      },
    });
    const answer = await ask("/info", token);
    expect(answer.status).toBe(500);
    expect(await answer.text()).not.toContain("inside");
    expect((await ask("/apps", token)).status).toBe(200);
  });
});
