import { Hono } from "hono";
import { describe, expect, it } from "vitest";
import { createHttp } from "../../src/client/http.ts";
import { ProblemError } from "../../src/client/problem-error.ts";
import { registryClient } from "../../src/client/registry.ts";
import type { RegistryOperation } from "../../src/shared/protocol/registry-operations.ts";
import type { ServiceRecord } from "../../src/shared/registry.ts";
import { registryRoutes } from "../../src/worker/routes/registry.ts";
import { mapRegistry } from "../support/map-registry.ts";
import { NO_NET } from "../support/no-net.ts";

const DEMO = "/users/joe/org-apache-hbase/demo1";
const HBASE: ServiceRecord = {
  type: "JSONServiceRecord",
  description: "HBase",
  external: [
    {
      api: "http://",
      addressType: "uri",
      protocolType: "webui",
      addresses: [{ uri: "http://rack1server6:60010" }],
    },
  ],
  internal: [],
  attributes: { "yarn:id": "application_1408631738011_0001", registrationTime: 1408638082445 },
};

/** A cluster with one service, mounted as the Worker does. */
async function cluster() {
  const registry = mapRegistry(() => 1_408_638_082_445);
  await registry.transact([
    { op: "bind", path: DEMO, record: HBASE, overwrite: false, createParents: true },
    { op: "mknode", path: `${DEMO}/components/ctr-1`, createParents: true },
  ]);
  const routes = registryRoutes(() => ({ registry, registryWatch: registry }), NO_NET);
  const app = new Hono();
  app.route("/registry/v1", routes);
  app.route("/clusters/:cluster/registry/v1", routes);
  return { app, registry };
}

async function problemOf(response: Response): Promise<Record<string, unknown>> {
  expect(response.headers.get("content-type")).toBe("application/problem+json");
  expect(response.headers.get("access-control-allow-origin")).toBe("*");
  expect(response.headers.get("cache-control")).toBe("no-store");
  expect(response.headers.has("etag")).toBe(false);
  return (await response.json()) as Record<string, unknown>;
}

describe("reading the registry over HTTP", () => {
  it("shows record, status and children of a path to anybody", async () => {
    const { app } = await cluster();
    const response = await app.request(`/registry/v1${DEMO}`);
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("application/json");
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
    expect(response.headers.get("cache-control")).toBe("public, max-age=1, must-revalidate");
    expect(await response.json()).toEqual({
      path: DEMO,
      stat: {
        path: "demo1",
        time: 1_408_638_082_445,
        size: expect.any(Number),
        children: 1,
        version: expect.any(Number),
      },
      record: {
        type: "JSONServiceRecord",
        description: "HBase",
        external: [
          {
            api: "http://",
            addressType: "uri",
            protocolType: "webui",
            protocol: "webui",
            addresses: [{ uri: "http://rack1server6:60010" }],
          },
        ],
        internal: [],
        "yarn:id": "application_1408631738011_0001",
        registrationTime: 1408638082445,
      },
      children: ["components"],
    });
  });

  it("leaves out the record of a path that has none", async () => {
    const { app } = await cluster();
    const body = await (await app.request("/registry/v1/users")).json();
    expect(body).not.toHaveProperty("record");
    expect(body).toMatchObject({ path: "/users", children: ["joe"] });
  });

  it.each([
    ["/registry/v1", "/"],
    ["/registry/v1/", "/"],
    ["/registry/v1/users/", "/users"],
    ["/registry/v1/%75sers/jo%65", "/users/joe"],
    ["/clusters/blue/registry/v1/users/joe", "/users/joe"],
    ["/clusters/registry/registry/v1/users", "/users"],
  ])("reads %s as the path %s", async (url, path) => {
    const { app } = await cluster();
    expect(await (await app.request(url)).json()).toMatchObject({ path });
  });

  it.each(["//users", "/users//joe", "/users%2Fjoe", "/Users", "/%zz", "/%C3%A9", "/%252e"])(
    "refuses %s as a path",
    async (rest) => {
      const { app } = await cluster();
      const response = await app.request(`/registry/v1${rest}`);
      expect(response.status).toBe(400);
      expect(await problemOf(response)).toMatchObject({ reason: "InvalidPathnameException" });
    },
  );

  it("answers 404 with the nearest path that exists", async () => {
    const { app } = await cluster();
    const response = await app.request("/registry/v1/users/joe/org-apache-tomcat/test1");
    expect(response.status).toBe(404);
    expect(await problemOf(response)).toMatchObject({
      reason: "PathNotFoundException",
      hint: expect.stringContaining("/users/joe exists"),
    });
  });

  it("answers HEAD like GET, without the body", async () => {
    const { app } = await cluster();
    const get = await app.request(`/registry/v1${DEMO}`);
    const head = await app.request(`/registry/v1${DEMO}`, { method: "HEAD" });
    expect(head.status).toBe(200);
    expect(head.headers.get("etag")).toBe(get.headers.get("etag"));
    expect(await head.text()).toBe("");
  });
});

describe("reading it again", () => {
  it("costs no body while nothing has changed", async () => {
    const { app } = await cluster();
    const tag = (await app.request(`/registry/v1${DEMO}`)).headers.get("etag") ?? "";
    expect(tag).toMatch(/^"[0-9a-f]+"$/);
    for (const known of [tag, `W/${tag}`, `"other", ${tag}`]) {
      const again = await app.request(`/registry/v1${DEMO}`, {
        headers: { "If-None-Match": known },
      });
      expect(again.status).toBe(304);
      expect(await again.text()).toBe("");
      expect(again.headers.get("etag")).toBe(tag);
      expect(again.headers.get("cache-control")).toContain("max-age=1");
      expect(again.headers.get("access-control-allow-origin")).toBe("*");
    }
  });

  it.each<[string, RegistryOperation]>([
    [
      "the record",
      {
        op: "bind",
        path: DEMO,
        record: { ...HBASE, description: "moved" },
        overwrite: true,
        createParents: false,
      },
    ],
    ["the children", { op: "mknode", path: `${DEMO}/logs`, createParents: false }],
  ])("shows a change of %s", async (_what, change) => {
    const { app, registry } = await cluster();
    const tag = (await app.request(`/registry/v1${DEMO}`)).headers.get("etag") ?? "";
    expect(await registry.transact([change])).toMatchObject({ ok: true });
    const headers = { "If-None-Match": tag };
    expect((await app.request(`/registry/v1${DEMO}`, { headers })).status).toBe(200);
  });
});

describe("what the REST does not do", () => {
  it.each(["POST", "PUT", "PATCH", "DELETE"])("does not take %s", async (method) => {
    const { app, registry } = await cluster();
    const response = await app.request(`/registry/v1${DEMO}`, { method });
    expect(response.status).toBe(405);
    expect(response.headers.get("allow")).toBe("GET, HEAD, OPTIONS");
    expect(await problemOf(response)).toMatchObject({ reason: "MethodNotAllowed" });
    expect(await registry.exists(DEMO)).toEqual({ ok: true, value: true });
  });

  it("tells a browser that it may read with If-None-Match", async () => {
    const { app } = await cluster();
    const response = await app.request(`/registry/v1${DEMO}`, {
      method: "OPTIONS",
      headers: {
        origin: "https://example.com",
        "access-control-request-method": "GET",
        "access-control-request-headers": "if-none-match",
      },
    });
    expect(response.status).toBe(204);
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
    expect(response.headers.get("access-control-allow-methods")).toBe("GET,HEAD");
    const allowed = response.headers.get("access-control-allow-headers")?.toLowerCase();
    expect(allowed?.split(",")).toEqual(
      expect.arrayContaining(["if-none-match", "last-event-id", "authorization"]),
    );
  });
});

describe("the registry client", () => {
  async function client() {
    const { app } = await cluster();
    const fetch: typeof globalThis.fetch = async (input, init) => app.request(String(input), init);
    return registryClient(createHttp({ url: "http://cluster.test", cluster: "blue", fetch }));
  }

  async function failureOf(work: Promise<unknown>) {
    const error: unknown = await work.then(
      () => null,
      (thrown: unknown) => thrown,
    );
    expect(error).toBeInstanceOf(ProblemError);
    return error instanceof ProblemError ? error.failure : null;
  }

  it("resolves, lists, stats and views a path", async () => {
    const registry = await client();
    expect((await registry.resolve(DEMO))["yarn:id"]).toBe("application_1408631738011_0001");
    expect(await registry.list(DEMO)).toEqual(["components"]);
    expect(await registry.stat(DEMO)).toMatchObject({ path: "demo1", children: 1 });
    expect(await registry.view("users/joe")).toMatchObject({ path: "/users/joe" });
    expect(await registry.list("/")).toEqual(["services", "users"]);
    expect(await registry.list("")).toEqual(["services", "users"]);
  });

  it("tells a missing path from a missing record", async () => {
    const registry = await client();
    expect(await registry.exists(DEMO)).toBe(true);
    expect(await registry.exists("/users/nobody")).toBe(false);
    expect((await failureOf(registry.resolve("/users/nobody")))?.reason).toBe(
      "PathNotFoundException",
    );
    expect((await failureOf(registry.resolve("/users")))?.reason).toBe("NoRecordException");
  });

  it.each(["/Users", "/a//b", "//a", "/a b", "/a?list", "/a#b", "/é", "/\ud800", "/%75sers"])(
    "passes %j on as one path, for the registry to refuse",
    async (path) => {
      const registry = await client();
      expect((await failureOf(registry.exists(path)))?.reason).toBe("InvalidPathnameException");
    },
  );

  it.each(["..", "/../../app/v1/services", "/users/.", "/users/../services"])(
    "sends no request for %j, which would leave the registry",
    async (path) => {
      const registry = registryClient({
        request: () => Promise.reject(new Error("a request was sent")),
      });
      expect((await failureOf(registry.view(path)))?.reason).toBe("InvalidPathnameException");
    },
  );
});
