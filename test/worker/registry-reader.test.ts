/** Lists, subtrees, searches, pages for people, and who may read: the registry's REST for readers. */
import fc from "fast-check";
import { Hono } from "hono";
import { describe, expect, it } from "vitest";
import type { RegistryOperation } from "../../src/shared/protocol/registry-operations.ts";
import type {
  Endpoint,
  JsonValue,
  ServiceRecord,
  ServiceRecordDocument,
} from "../../src/shared/registry.ts";
import { registryRoutes } from "../../src/worker/routes/registry.ts";
import { mapRegistry } from "../support/map-registry.ts";
import { NO_NET } from "../support/no-net.ts";
import { fakeCluster } from "./fake-cluster.ts";

const HBASE = "classpath:org.apache.hbase";

function endpoint(api: string, protocolType = "REST", uri = "http://host:1/"): Endpoint {
  return { api, addressType: "uri", protocolType, addresses: [{ uri }] };
}

function record(more: Partial<ServiceRecord> = {}): ServiceRecord {
  return { type: "JSONServiceRecord", external: [], internal: [], attributes: {}, ...more };
}

function bind(path: string, more: Partial<ServiceRecord> = {}): RegistryOperation {
  return { op: "bind", path, record: record(more), overwrite: true, createParents: true };
}

/** All that an answer may hold; what it does hold is what each test is about. */
type Answer = {
  readonly next?: string;
  readonly truncated?: boolean;
  readonly record?: ServiceRecordDocument;
  readonly children: readonly object[];
  readonly nodes: readonly { readonly path: string }[];
  readonly matches: readonly { readonly path: string; readonly record: ServiceRecordDocument }[];
};

async function registryWith(operations: readonly RegistryOperation[]) {
  const registry = mapRegistry(() => 1_408_638_082_445);
  expect(await registry.transact(operations)).toMatchObject({ ok: true });
  const app = new Hono();
  app.route(
    "/registry/v1",
    registryRoutes(() => ({ registry, registryWatch: registry }), NO_NET),
  );
  const get = (rest: string, headers: Record<string, string> = {}) =>
    app.request(`/registry/v1${rest}`, { headers });
  const json = async (rest: string): Promise<Answer> => {
    const response = await get(rest);
    expect([rest, response.status]).toEqual([rest, 200]);
    return response.json();
  };
  const paths = async (query: string, at = "/users") =>
    (await json(`${at}?find&${query}`)).matches.map(({ path }) => path);
  return { app, registry, get, json, paths };
}

/** All pages of an answer, one after the other. */
async function allPages(
  json: (rest: string) => Promise<Answer>,
  first: string,
): Promise<readonly Answer[]> {
  const pages = [await json(first)];
  for (let next = pages[0]?.next; next !== undefined; next = pages.at(-1)?.next) {
    pages.push(await json(`${first}&after=${encodeURIComponent(next)}`));
  }
  return pages;
}

describe("[RG20] a node", () => {
  it("[RG20] is shown as Hadoop's own class reads it, when that is asked for", async () => {
    const attributes: Record<string, JsonValue> = {
      n: 1.5,
      yes: true,
      none: null,
      list: [1, "a", null],
      map: { a: 1, b: { c: [] } },
    };
    const { json } = await registryWith([
      bind("/users/joe/a", { external: [endpoint(HBASE)], attributes }),
    ]);
    const strict = (await json("/users/joe/a?strict=hadoop")).record;
    expect(strict).toEqual({
      type: "JSONServiceRecord",
      external: [
        {
          api: HBASE,
          addressType: "uri",
          protocolType: "REST",
          addresses: [{ uri: "http://host:1/" }],
        },
      ],
      internal: [],
      n: "1.5",
      yes: "true",
      list: "[1, a, null]",
      map: "{a=1, b={c=[]}}",
    });
    expect((await json("/users?find&text=host&strict=hadoop")).matches[0]?.record).toEqual(strict);
    expect((await json("/users/joe/a")).record).toMatchObject({ n: 1.5, none: null });
  });

  it.each([
    ["a=1", "a"],
    ["strict=java", "strict"],
    ["list=x", "list"],
    ["list&limit=0", "limit"],
    ["list&limit=1001", "limit"],
    ["list&limit=1e2", "limit"],
    ["depth=33", "depth"],
    ["depth=-1", "depth"],
    ["depth=2&after=%F0", "after"],
    ["find&after=!", "after"],
    ["find&text=", "text"],
    [`find&text=${"x".repeat(257)}`, "text"],
    ["find&endpointfield.api=x", "endpointfield.api"],
    ["find&endpointField.api=x&endpointField.api=y", "endpointField.api"],
    ["endpointField.api=x", "endpointField.api"],
    ["watch=poll&after=x", "after"],
    ["watch=poll&wait=25001", "wait"],
    ["watch=always", "watch"],
  ])("[RG20] refuses ?%s instead of answering another question", async (query, name) => {
    const { get } = await registryWith([]);
    const response = await get(`/users?${query}`);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ findings: [{ path: name }] });
  });

  it("[RG20] says which parameter was probably meant", async () => {
    const { get } = await registryWith([]);
    const { findings } = (await (await get("/users?find&endpointfield.api=x")).json()) as {
      findings: { message: string }[];
    };
    expect(findings[0]?.message).toContain("did you mean endpointField.api?");
    expect(await (await get("/users?list&depth=1")).text()).toContain("?list and ?depth");
  });
});

describe("[RG21] ?list", () => {
  it("[RG21] shows every child once, in order, with its status, page by page", async () => {
    const { json } = await registryWith([
      bind("/users/ann/x"),
      bind("/users/bob"),
      { op: "mknode", path: "/users/b-c", createParents: false },
      { op: "mknode", path: "/users/zoe", createParents: false },
    ]);
    const pages = await allPages(json, "/users?list&limit=3");
    expect(pages).toMatchObject([{ path: "/users", next: "bob" }, { path: "/users" }]);
    const children = pages.flatMap((page) => page.children);
    expect(children).toMatchObject([
      { path: "ann", hasRecord: false, children: 1, size: 0, version: 0 },
      { path: "b-c", hasRecord: false },
      { path: "bob", hasRecord: true, size: expect.any(Number) },
      { path: "zoe", hasRecord: false },
    ]);
    expect(await json("/users/zoe?list")).toEqual({ path: "/users/zoe", children: [] });
  });
});

describe("[RG22] ?depth", () => {
  const TREE = [bind("/users/ann/a/deep/er"), bind("/users/ann/a-b"), bind("/users/bob")];

  it("[RG22] shows the subtree to that depth, depth first", async () => {
    const { json } = await registryWith(TREE);
    const at = async (query: string) => {
      const { nodes, truncated } = await json(query);
      expect(truncated).toBe(false);
      return nodes.map(({ path }) => path);
    };
    expect(await at("/users?depth=0")).toEqual(["/users"]);
    expect(await at("/users?depth=1")).toEqual(["/users", "/users/ann", "/users/bob"]);
    expect(await at("/users/ann?depth=2")).toEqual([
      "/users/ann",
      "/users/ann/a",
      "/users/ann/a/deep",
      "/users/ann/a-b",
    ]);
    expect(await at("/?depth=1")).toEqual(["/", "/services", "/users"]);
  });

  it("[RG22] goes on where a page ended, with no node twice and none left out", async () => {
    const { json } = await registryWith(TREE);
    const whole = await json("/?depth=9");
    for (const limit of [1, 2, 3]) {
      const pages = await allPages(json, `/?depth=9&limit=${limit}`);
      const nodes = pages.flatMap((page) => page.nodes);
      expect(nodes).toEqual(whole.nodes);
    }
    expect(await json("/?depth=9&limit=1")).toMatchObject({ truncated: true });
  });
});

describe("[RG23] ?find", () => {
  const TREE = [
    bind("/users/ann/hbase", {
      description: "Ann's HBase",
      external: [endpoint(HBASE, "REST"), endpoint("http://", "webui")],
      attributes: {
        "yarn:component": "master",
        port: 8080,
        "yarn:persistence": "application-attempt",
      },
    }),
    bind("/users/bob/hbase", { internal: [endpoint(HBASE, "hadoop/IPC")] }),
    bind("/users/bob/web", { external: [endpoint("http://", "webui", "http://Straße.test/")] }),
    bind("/services/hbase", { external: [endpoint(HBASE, "REST")] }),
  ];

  it("[RG23] finds all HBase services below a path (seed 000, lookup use case 8)", async () => {
    const { json, paths } = await registryWith(TREE);
    const answer = await json(`/users?find&endpointField.api=${HBASE}`);
    expect(answer).toEqual({
      matches: [
        {
          path: "/users/ann/hbase",
          record: expect.objectContaining({ description: "Ann's HBase" }),
        },
        { path: "/users/bob/hbase", record: expect.anything() },
      ],
    });
    expect(answer.matches[0]?.record.external[0]).toMatchObject({ protocol: "REST" });
    expect(await paths(`endpointField.api=${HBASE}`, "/")).toEqual([
      "/services/hbase",
      "/users/ann/hbase",
      "/users/bob/hbase",
    ]);
    expect(await paths(`endpointField.api=${HBASE}`, "/users/bob/hbase")).toEqual([
      "/users/bob/hbase",
    ]);
    expect(await paths("endpointField.api=none")).toEqual([]);
  });

  it.each([
    ["endpointField.protocolType=WEBUI", ["/users/ann/hbase", "/users/bob/web"]],
    ["endpointField.protocol=webui", ["/users/ann/hbase", "/users/bob/web"]],
    ["endpointField.addressType=uri&text=straSSe", []],
    ["text=STRAß", ["/users/bob/web"]],
    ["text=ann's", ["/users/ann/hbase"]],
    [`endpointField.api=${HBASE}&endpointField.protocol=webui`, []],
    [`endpointField.api=${HBASE}&internal`, ["/users/bob/hbase"]],
    [`endpointField.api=${HBASE}&external`, ["/users/ann/hbase"]],
    ["internal", ["/users/bob/hbase"]],
    ["attribute.yarn:component=master", ["/users/ann/hbase"]],
    ["attribute.port=8080&text=hbase", ["/users/ann/hbase"]],
    ["attribute.yarn:persistence=application_attempt", ["/users/ann/hbase"]],
    ["attribute.port=80", []],
    ["attribute.constructor=x", []],
  ])("[RG23] ?find&%s", async (query, expected) => {
    const { paths } = await registryWith(TREE);
    expect(await paths(query)).toEqual(expected);
  });

  it("[RG23] takes only what begins with the path's own elements for below it", async () => {
    const { paths } = await registryWith([
      bind("/users/bob", { external: [endpoint("a:b")] }),
      bind("/users/bob/x", { external: [endpoint("a:b")] }),
      bind("/users/bob-x/y", { external: [endpoint("a:b")] }),
      bind("/users/bobby", { external: [endpoint("a:b")] }),
    ]);
    expect(await paths("endpointField.api=a:b", "/users/bob")).toEqual([
      "/users/bob",
      "/users/bob/x",
    ]);
  });

  it("[RG23] gives every match once over all pages", async () => {
    const many = Array.from({ length: 25 }, (_, n) =>
      bind(`/users/u${n % 5}/s${n}`, { external: [endpoint(n % 2 ? "odd:x" : "even:x")] }),
    );
    const { json, paths } = await registryWith(many);
    for (const query of ["endpointField.api=odd:x", "text=odd:X"]) {
      const pages = await allPages(json, `/users?find&${query}&limit=5`);
      const found = pages.flatMap((page) => page.matches.map(({ path }) => path));
      expect(found).toHaveLength(12);
      expect(found).toEqual(await paths(query));
    }
  });

  it("[RG23] goes on only below the same path", async () => {
    const { get } = await registryWith(TREE);
    const after = btoa("/services/hbase").replaceAll("=", "");
    expect((await get(`/users?find&after=${after}`)).status).toBe(400);
    expect((await get("/users/nobody?find&text=x")).status).toBe(404);
  });
});

describe("[RG25] the page for people", () => {
  const BROWSER = { accept: "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8" };

  it("[RG25] shows the record and links children, ancestors and web addresses", async () => {
    const { get } = await registryWith([
      bind("/users/joe/web", {
        external: [endpoint("http://", "webui", "https://host/a?b=1&c=2")],
      }),
      bind("/users/joe/web/components"),
    ]);
    const response = await get("/users/joe/web", BROWSER);
    expect(response.headers.get("content-type")).toContain("text/html");
    expect(response.headers.get("vary")).toContain("Accept");
    const page = await response.text();
    expect(page).toContain('<a href="/registry/v1/users/joe">joe</a>');
    expect(page).toContain('<a href="/registry/v1/users/joe/web/components">components</a>');
    expect(page).toContain('<a href="https://host/a?b=1&amp;c=2" rel="noreferrer nofollow">');
    expect((await get("/users/joe/web", { accept: "*/*" })).headers.get("content-type")).toContain(
      "application/json",
    );
  });

  it("[RG25] runs nothing that a record brings, and loads nothing", async () => {
    const { get } = await registryWith([
      bind("/users/joe/web", {
        description: "</pre><script>alert(1)</script>",
        external: [endpoint("http://", "<img src=x>", 'javascript:alert("1")')],
        attributes: { '"><b>': "<i>" },
      }),
    ]);
    const response = await get("/users/joe/web", BROWSER);
    const page = await response.text();
    expect(page).not.toMatch(/<script|<img|<b>|<i>|href="javascript/i);
    expect(page).not.toMatch(/<[^>]*\b(?:src|onclick|style)=/);
    const policy = response.headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'none'");
    const style = /<style>([\s\S]*)<\/style>/.exec(page)?.[1] ?? "";
    const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(style));
    expect(policy).toContain(`'sha256-${Buffer.from(digest).toString("base64")}'`);
  });

  it("[RG25] leads to the children that do not fit", async () => {
    const many = Array.from({ length: 101 }, (_, n) => bind(`/users/u${1000 + n}`));
    const { get } = await registryWith(many);
    const page = await (await get("/users", BROWSER)).text();
    expect(page).toContain('href="/registry/v1/users?after=u1099"');
    expect(page).not.toContain(">u1100<");
    expect(await (await get("/users?after=u1099", BROWSER)).text()).toContain(">u1100<");
  });

  it("[RG25] keeps the cluster's prefix in its links", async () => {
    const { app } = await fakeCluster();
    const response = await app.request("/clusters/blue/registry/v1/users", { headers: BROWSER });
    expect(await response.text()).toContain('<a href="/clusters/blue/registry/v1/">registry</a>');
  });
});

describe("[RG29] who may read", () => {
  it("[RG29] is anybody, unless the operator asks for a token", async () => {
    const open = await fakeCluster();
    expect((await open.app.request("/registry/v1/users")).status).toBe(200);
    const closed = await fakeCluster({ registryReaders: "authenticated" });
    const ask = (token?: string, path = "/registry/v1/users") =>
      closed.app.request(path, token ? { headers: { authorization: `Bearer ${token}` } } : {});
    expect((await ask()).status).toBe(401);
    expect((await ask(closed.tokens.node)).status).toBe(401);
    expect((await ask(undefined, "/registry/v1")).status).toBe(401);
    expect((await ask(undefined, "/registry/v1/users?watch")).status).toBe(401);
    const read = await ask(closed.tokens.joe);
    expect(read.status).toBe(200);
    expect(read.headers.get("cache-control")).toBe("no-store");
    const preflight = await closed.app.request("/registry/v1/users", { method: "OPTIONS" });
    expect(preflight.status).toBe(204);
  });
});

describe("[RG30] whatever is asked", () => {
  const part = fc.oneof(
    fc
      .string({ unit: "binary", maxLength: 20 })
      .map((text) => encodeURIComponent(text.toWellFormed())),
    fc.constantFrom(
      ".",
      "..",
      "...",
      "%2e%2e",
      "%00",
      "%2F",
      "%5c",
      "%zz",
      "%",
      "",
      "users",
      "xn--",
    ),
    fc.constantFrom(
      "ｕｓｅｒｓ",
      "uѕers",
      "%ED%A0%80",
      "a".repeat(64),
      "a".repeat(3000),
      "a_b",
      "-a",
    ),
    fc.constantFrom(
      "?list",
      "?find&text=a",
      "?depth=1",
      "?watch=poll&wait=0",
      "?after=%FF",
      "#x",
      ";a=b",
    ),
  );

  it("[RG30] is answered, or refused as the client's mistake, and never a failure of the server", async () => {
    const { get } = await registryWith([bind("/users/joe")]);
    await fc.assert(
      fc.asyncProperty(fc.array(part, { maxLength: 6 }), fc.boolean(), async (parts, html) => {
        const rest = `/${parts.join("/")}`;
        const response = await get(rest, html ? { accept: "text/html" } : {});
        expect(response.status).toBeLessThan(500);
        await response.body?.cancel();
      }),
      { numRuns: 300 },
    );
  });
});
