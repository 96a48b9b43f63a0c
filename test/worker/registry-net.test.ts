import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Hono } from "hono";
import { afterEach, describe, expect, it, vi } from "vitest";
import { createHttp } from "../../src/client/http.ts";
import { registryClient } from "../../src/client/registry.ts";
import { findRecords } from "../../src/client/registry-find.ts";
import type { ServiceRecord } from "../../src/shared/registry.ts";
import type { Settings } from "../../src/worker/protocols.ts";
import { parseNetSetting, RegistryNet } from "../../src/worker/registry-net.ts";
import { registryRoutes } from "../../src/worker/routes/registry.ts";
import { mapRegistry } from "../support/map-registry.ts";
import { NO_NET } from "../support/no-net.ts";
import { serve } from "../support/serve.ts";

const HDFS = "/services/hdfs";
const RECORD: ServiceRecord = {
  type: "JSONServiceRecord",
  external: [
    {
      api: "org.apache.hadoop.webhdfs",
      addressType: "uri",
      protocolType: "REST",
      addresses: [{ uri: "webhdfs://namenode.example.com:50070" }],
    },
  ],
  internal: [],
  attributes: { registrationTime: 1_408_638_082_445 },
};

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function registryWithHdfs() {
  const registry = mapRegistry(() => 1_408_638_082_445);
  const bind = { op: "bind", overwrite: true, createParents: true, record: RECORD } as const;
  const paths = [HDFS, "/services/oozie", "/users/joe/web/w1"];
  await registry.transact(paths.map((path) => ({ ...bind, path })));
  return registry;
}

/** The registry of another deployment, behind a port. */
async function servedCluster() {
  const registry = await registryWithHdfs();
  const heard: Request[] = [];
  const app = new Hono();
  app.use((c, next) => {
    heard.push(c.req.raw);
    return next();
  });
  const source = { registry, registryWatch: registry };
  app.route(
    "/registry/v1",
    registryRoutes(() => source, NO_NET),
  );
  const { url, close } = await serve(app);
  closing.push(close);
  return { url, registry, heard, close };
}

/** A program at a port that is no registry, or no good one. */
async function stranger(answer: (end: (status: number, body: string) => void) => void) {
  const server = createServer((_, response) =>
    answer((status, body) =>
      response.writeHead(status, { location: "https://elsewhere.example.com/" }).end(body),
    ),
  );
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  closing.push(async () => {
    server.closeAllConnections();
    await new Promise((closed) => server.close(closed));
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

type Reader = {
  readonly local?: readonly string[];
  readonly remotes?: Readonly<Record<string, string>>;
  readonly registryReaders?: Settings["registryReaders"];
};

/** The deployment that is asked; `clock.ms` is its time. */
async function reader({ local = [], remotes = {}, registryReaders = "anybody" }: Reader) {
  const clock = { ms: 1_000_000 };
  const registries = new Map(
    await Promise.all(local.map(async (name) => [name, await registryWithHdfs()] as const)),
  );
  const sourceOf = (name: string) => {
    const registry = registries.get(name);
    if (registry === undefined) throw new Error(`no cluster ${name}`);
    return { registry, registryWatch: registry };
  };
  const settings = {
    isCluster: (name: string) => registries.has(name),
    net: { clusters: local, remotes: new Map(Object.entries(remotes)) },
    registryReaders,
  };
  const net = new RegistryNet(sourceOf, settings, { now: () => clock.ms, answerMaxMs: 300 });
  const own = mapRegistry(() => 1);
  const app = new Hono();
  app.route(
    "/registry/v1",
    registryRoutes(() => ({ registry: own, registryWatch: own }), net),
  );
  const get = async (path: string, headers: Record<string, string> = {}) => {
    const response = await app.request(`/registry/v1${path}`, { headers });
    const { status } = response;
    return { status, headers: response.headers, json: JSON.parse(await response.text()) };
  };
  return { app, get, clock, registries };
}

/** The same questions, whether the cluster is of this deployment or not. */
const PLACES = [
  ["this deployment", async () => reader({ local: ["west"] })],
  ["another", async () => reader({ remotes: { west: (await servedCluster()).url } })],
] as const;

describe.each(PLACES)("[RG63] a cluster of %s below /net", (_, start) => {
  it("[RG63] shows a record with its path as the reader names it", async () => {
    const { get } = await start();
    const { status, headers, json } = await get(`/net/west${HDFS}`);
    expect(status).toBe(200);
    expect(headers.get("cache-control")).toBe("public, max-age=2, must-revalidate");
    expect(json).toMatchObject({
      path: `/net/west${HDFS}`,
      stat: { path: "hdfs", children: 0 },
      record: { external: [{ protocol: "REST", addresses: RECORD.external[0]?.addresses }] },
    });
  });

  it("[RG63] shows its root as /net/{cluster}", async () => {
    const { get } = await start();
    const { json } = await get("/net/west");
    expect(json).toMatchObject({
      path: "/net/west",
      stat: { path: "west", children: 2 },
      children: ["services", "users"],
    });
  });

  it("[RG63] lists, walks and searches, page after page", async () => {
    const { get } = await start();
    const listed = await get("/net/west/services?list&limit=1");
    expect(listed.json).toMatchObject({
      path: "/net/west/services",
      children: [{ path: "hdfs", hasRecord: true }],
      next: "hdfs",
    });
    const walked = await get("/net/west/services?depth=1&limit=2");
    expect(pathsOf(walked.json.nodes)).toEqual(["/net/west/services", `/net/west${HDFS}`]);
    const rest = await get(`/net/west/services?depth=1&limit=2&after=${walked.json.next}`);
    expect(pathsOf(rest.json.nodes)).toEqual(["/net/west/services/oozie"]);
    const search = "find&endpointField.api=org.apache.hadoop.webhdfs&external";
    const found = await get(`/net/west?${search}&attribute.registrationTime=1408638082445`);
    expect(pathsOf(found.json.matches)).toEqual(
      [HDFS, "/services/oozie", "/users/joe/web/w1"].map((path) => `/net/west${path}`),
    );
  });

  it("[RG63] writes records as Hadoop reads them when asked to", async () => {
    const { get } = await start();
    const { json } = await get(`/net/west${HDFS}?strict=hadoop`);
    expect(json.record.registrationTime).toBe("1408638082445");
  });

  it("[RG63] says that a path is missing there", async () => {
    const { get } = await start();
    const { status, json } = await get("/net/west/services/no");
    expect(status).toBe(404);
    expect(json).toMatchObject({
      detail: "cluster west: /services/no is not in the registry",
      reason: "PathNotFoundException",
    });
  });

  it("[RG63] works with the typed client", async () => {
    const { app } = await start();
    const served = await serve(app);
    closing.push(served.close);
    const http = createHttp({ url: served.url });
    const registry = registryClient(http);
    expect(await registry.list("/net")).toEqual(["west"]);
    expect(await registry.exists("/net/west/users/ann")).toBe(false);
    expect((await registry.stat(`/net/west${HDFS}`)).path).toBe("hdfs");
    expect((await registry.resolve(`/net/west${HDFS}`)).external).toHaveLength(1);
    const found = [];
    const search = { protocolType: "rest", text: "namenode" };
    for await (const { path } of findRecords(http, "/net/west/users", search)) found.push(path);
    expect(found).toEqual(["/net/west/users/joe/web/w1"]);
  });

  it("[RG63] has a page for browsers", async () => {
    const { app } = await start();
    const page = await app.request("/registry/v1/net/west/services", {
      headers: { accept: "text/html" },
    });
    expect(await page.text()).toContain('href="/registry/v1/net/west/services/hdfs"');
  });

  it("[RG64] is not watched, and shows no /net of its own", async () => {
    const { get } = await start();
    const refused = ["/net/west?watch", "/net/west?watch=poll", "/net/west/net/east/users"];
    for (const path of refused) {
      expect([path, (await get(path)).status]).toEqual([path, 400]);
    }
    const asked = await get(`/net/west${HDFS}`, { "Selvedge-Net": "1" });
    expect(asked.status).toBe(400);
  });
});

function pathsOf(located: readonly { readonly path: string }[]): readonly string[] {
  return located.map(({ path }) => path);
}

describe("[RG62] /net", () => {
  it("[RG62] lists the clusters of this deployment and of SELVEDGE_NET", async () => {
    const remotes = { east: "https://east.example.com", hadoop4: "https://h4.example.com" };
    const { get } = await reader({ local: ["west", "default"], remotes });
    const all = ["default", "east", "hadoop4", "west"];
    expect((await get("/net")).json).toMatchObject({ path: "/net", children: all });
    const first = (await get("/net?list&limit=3")).json;
    expect(pathsOf(first.children)).toEqual(all.slice(0, 3));
    expect(pathsOf((await get(`/net?list&after=${first.next}`)).json.children)).toEqual(["west"]);
  });

  it("[RG62] is a list of names, and nothing to search in", async () => {
    const { get } = await reader({ local: ["west"] });
    for (const query of ["depth=1", "find&text=x"]) {
      expect([query, (await get(`/net?${query}`)).status]).toEqual([query, 400]);
    }
  });

  it("[RG62] does not know other clusters", async () => {
    const { get } = await reader({ local: ["west"] });
    const { status, json } = await get("/net/north/users");
    expect([status, json.reason]).toEqual([404, "PathNotFoundException"]);
  });

  it("[RG62] shows no cluster whose readers have to say who they are", async () => {
    const { get } = await reader({ local: ["west"], registryReaders: "authenticated" });
    expect((await get("/net")).json.children).toEqual([]);
    expect((await get(`/net/west${HDFS}`)).status).toBe(404);
  });

  it("[RG62] takes from SELVEDGE_NET names with base URLs, https but on this machine", () => {
    const log = vi.spyOn(console, "error").mockImplementation(() => undefined);
    const good = {
      west: "https://west.example.com",
      east: "https://example.com/clusters/east",
      here: "http://127.0.0.1:8088",
    };
    const wrong = [
      "plain=http://example.com",
      "secret=https://joe:secret@example.com",
      "query=https://example.com/?a=b",
      "Upper=https://example.com",
      "none",
    ];
    const entries = Object.entries(good).map(([name, url]) => `${name} = ${url}`);
    const read = parseNetSetting([...entries, ...wrong, ""].join(", "));
    expect(Object.fromEntries(read)).toEqual(good);
    expect(log).toHaveBeenCalledTimes(wrong.length);
    expect(JSON.stringify(log.mock.calls)).not.toContain("joe:secret");
    log.mockRestore();
  });
});

describe("[RG65] a cluster of another deployment", () => {
  it("[RG65] hears nothing of the reader but the question", async () => {
    const west = await servedCluster();
    const { get } = await reader({ remotes: { west: west.url } });
    const secrets = {
      authorization: "Bearer secret",
      cookie: "a=secret",
      "x-request-id": "secret",
    };
    await get(`/net/west${HDFS}?user.name=secret`, secrets);
    const [heard] = west.heard;
    const said = `${heard?.url} ${JSON.stringify([...(heard?.headers ?? [])])}`;
    expect(said).not.toContain("secret");
    expect(heard?.headers.get("selvedge-net")).toBe("1");
  });

  it("[RG65] that is gone goes on being shown as it was, marked, for an hour", async () => {
    const west = await servedCluster();
    const { get, clock } = await reader({ remotes: { west: west.url } });
    const before = await get(`/net/west${HDFS}`);
    await west.close();
    clock.ms += 90_500;
    const after = await get(`/net/west${HDFS}`);
    expect(after.json).toEqual({ ...before.json, stale: true });
    expect(after.headers.get("age")).toBe("91");
    expect(after.headers.get("warning")).toMatch(/^111 /);
    expect(after.headers.get("cache-control")).toBe("no-store");
    expect((await get("/net/west/services/oozie")).status).toBe(502);
    clock.ms += 3_600_000;
    expect((await get(`/net/west${HDFS}`)).status).toBe(502);
  });

  it("[RG65] that is gone is told of by the typed client", async () => {
    const west = await servedCluster();
    const served = await serve((await reader({ remotes: { west: west.url } })).app);
    closing.push(served.close);
    const heard: string[] = [];
    const onStale = (path: string) => heard.push(path);
    const registry = registryClient(createHttp({ url: served.url }), { onStale });
    const before = await registry.resolve(`/net/west${HDFS}`);
    expect(heard).toEqual([]);
    await west.close();
    expect(await registry.resolve(`/net/west${HDFS}`)).toEqual(before);
    expect(heard).toEqual([`/net/west${HDFS}`]);
  });

  it("[RG65] whose record has gone shows it no more", async () => {
    const west = await servedCluster();
    const { get } = await reader({ remotes: { west: west.url } });
    expect((await get(`/net/west${HDFS}`)).status).toBe(200);
    await west.registry.delete(HDFS, false);
    expect((await get(`/net/west${HDFS}`)).status).toBe(404);
    await west.close();
    expect((await get(`/net/west${HDFS}`)).status).toBe(502);
  });

  it("[RG65] that does not answer in time is a gateway's timeout", async () => {
    const { get } = await reader({ remotes: { west: await stranger(() => undefined) } });
    const { status, json } = await get("/net/west/users");
    expect([status, json.reason]).toEqual([504, "RemoteRegistryTimeout"]);
  });

  const node = { path: "/users", stat: {}, children: [] };
  it.each<[string, number, string]>([
    ["a page of another program", 200, "<html></html>"],
    ["JSON of another kind", 200, '{"path": "/users"}'],
    ["a node without a status", 200, JSON.stringify(node)],
    ["nothing", 200, ""],
    ["a missing page", 404, "Not Found"],
    ["a redirection", 302, ""],
    ["a refusal", 401, '{"type": "urn:selvedge:problem:unauthenticated", "detail": "no"}'],
    ["a failure", 500, ""],
    ["more than it may", 200, "x".repeat(8_400_000)],
  ])("[RG65] that answers %s is a bad gateway", async (_, status, body) => {
    const url = await stranger((end) => end(status, body));
    const { get } = await reader({ remotes: { west: url } });
    const answer = await get("/net/west/users");
    expect([answer.status, answer.json.reason]).toEqual([502, "RemoteRegistryFailed"]);
    expect(answer.json.detail).toMatch(/^cluster west: its registry cannot be read: /);
  });
});
