import fc from "fast-check";
import { Hono } from "hono";
import { afterEach, describe, expect, it, vi } from "vitest";
import { DNS_TYPE, type DnsQuestion } from "../../src/shared/dns.ts";
import { type DnsMessage, decodeMessage, encodeMessage } from "../../src/shared/dns-message.ts";
import type { ServiceRecord } from "../../src/shared/registry.ts";
import { keepRecent } from "../../src/worker/registry-recent.ts";
import { dnsRoutes } from "../../src/worker/routes/dns.ts";
import { queryMessage } from "../support/dns-query.ts";
import { mapRegistry } from "../support/map-registry.ts";
import { LATER } from "../support/two-isolates.ts";
import { fakeCluster } from "./fake-cluster.ts";

const DOMAIN = "selvedge.internal";
const NAME = `web-0.hello.joe.${DOMAIN}`;
const WEB: ServiceRecord = {
  type: "JSONServiceRecord",
  description: "web-0",
  external: [
    {
      api: "http://",
      addressType: "uri",
      protocolType: "REST",
      addresses: [{ uri: "http://10.0.0.2:80/" }],
    },
  ],
  internal: [],
  attributes: {
    "yarn:id": "container_1",
    "yarn:persistence": "container",
    "yarn:component": "web",
    "yarn:ip": "10.0.0.2",
  },
};
const HELLO = "/users/joe/yarn-service/hello";

async function cluster() {
  const registry = mapRegistry(() => 1_408_638_082_445);
  const service: ServiceRecord = {
    type: "JSONServiceRecord",
    external: [],
    internal: [],
    attributes: {},
  };
  const bind = { op: "bind", overwrite: true, createParents: true } as const;
  await registry.transact([
    { ...bind, path: HELLO, record: service },
    { ...bind, path: `${HELLO}/components/ctr-1`, record: WEB },
  ]);
  const asked: DnsQuestion[] = [];
  const routes = new Hono();
  const names = {
    resolveName: (question: DnsQuestion, domain: string) => {
      asked.push(question);
      return registry.resolveName(question, domain);
    },
  };
  routes.route(
    "/dns-query",
    dnsRoutes(() => names, DOMAIN),
  );
  // As the Worker serves them: with a second's memory in front.
  const recent = keepRecent(
    (request) => routes.fetch(request),
    () => registry,
  );
  const app = {
    request: async (path: string, init?: RequestInit) =>
      recent(new Request(`http://selvedge.test${path}`, init), LATER),
  };
  return { app, asked, registry };
}

function query(
  name: string,
  type: number,
  more: Partial<DnsMessage> = {},
): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(encodeMessage(queryMessage(name, type, more)));
}

function post(body: Uint8Array<ArrayBuffer>, headers: Record<string, string> = {}): RequestInit {
  const more = { "content-type": "application/dns-message", ...headers };
  return { method: "POST", body, headers: more };
}

const inUrl = (bytes: Uint8Array) => `/dns-query?dns=${Buffer.from(bytes).toString("base64url")}`;

async function messageOf(response: Response): Promise<DnsMessage> {
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toBe("application/dns-message");
  const message = decodeMessage(new Uint8Array(await response.arrayBuffer()));
  if (message === null) throw new Error("the answer is no message");
  return message;
}

async function refusalOf(response: Response): Promise<[number, string | null]> {
  expect(response.headers.get("content-type")).toBe("application/problem+json");
  expect(response.headers.get("cache-control")).toBe("no-store");
  await response.json();
  return [response.status, response.headers.get("allow")];
}

afterEach(() => {
  vi.useRealTimers();
});

describe("DNS over HTTPS", () => {
  it("[RG45] answers GET and POST alike, and says for how long", async () => {
    const { app } = await cluster();
    const bytes = query(NAME, DNS_TYPE.A);
    for (const response of [
      await app.request(inUrl(bytes)),
      await app.request("/dns-query", post(bytes)),
      await app.request(inUrl(bytes), { headers: { accept: "application/dns-message" } }),
    ]) {
      expect(response.headers.get("cache-control")).toBe("public, max-age=5");
      expect(response.headers.get("access-control-allow-origin")).toBe("*");
      expect(await messageOf(response)).toMatchObject({
        id: 4711,
        isResponse: true,
        authoritative: true,
        recursionDesired: true,
        recursionAvailable: false,
        truncated: false,
        rcode: 0,
        questions: [{ name: NAME, type: 1, class: 1 }],
        answers: [{ type: "A", name: NAME, address: "10.0.0.2", ttlSeconds: 5 }],
        edns: null,
      });
    }
  });

  it("[RG45] HEAD has the headers of GET and no body", async () => {
    const { app } = await cluster();
    const response = await app.request(inUrl(query(NAME, DNS_TYPE.A)), { method: "HEAD" });
    expect(response.headers.get("cache-control")).toBe("public, max-age=5");
    expect(await response.text()).toBe("");
  });

  it("[RG45] a name that does not exist may be remembered for two seconds", async () => {
    const { app } = await cluster();
    const response = await app.request(inUrl(query(`no.joe.${DOMAIN}`, DNS_TYPE.A)));
    expect(response.headers.get("cache-control")).toBe("max-age=2");
    const message = await messageOf(response);
    expect(message).toMatchObject({ rcode: 3, answers: [], authority: [{ type: "SOA" }] });
  });

  it.each<[string, Partial<DnsMessage>, number]>([
    ["a name of somebody else", { questions: [{ name: "example.com", type: 1, class: 1 }] }, 5],
    ["another class", { questions: [{ name: NAME, type: 1, class: 3 }] }, 5],
    ["two questions", { questions: [1, 28].map((type) => ({ name: NAME, type, class: 1 })) }, 1],
    ["no question", { questions: [] }, 1],
    ["another operation", { opcode: 4 }, 4],
    [
      "a later EDNS",
      { edns: { udpBytesMax: 1232, version: 1, dnssecOk: false, padded: false } },
      16,
    ],
  ])("[RG45] %s is refused by DNS, not by HTTP", async (_, more, rcode) => {
    const { app, asked } = await cluster();
    const response = await app.request("/dns-query", post(query(NAME, 1, more)));
    expect(response.headers.get("cache-control")).toBe("no-store");
    expect(await messageOf(response)).toMatchObject({ rcode, answers: [], authoritative: false });
    expect(asked.length).toBe(rcode === 5 && more.questions?.[0]?.class === 1 ? 1 : 0);
  });

  it("[RG45] EDNS is answered with EDNS; client subnets, cookies and others are ignored", async () => {
    const { app } = await cluster();
    const plain = query(NAME, DNS_TYPE.A);
    const options = [0, 8, 0, 8, 0, 1, 24, 0, 192, 0, 2, 1, 0, 10, 0, 2, 1, 2, 0xfd, 0xe9, 0, 1, 9];
    const opt = [0, 0, 41, 0x10, 0, 0, 0, 0x80, 0, 0, options.length, ...options];
    const response = await app.request(
      "/dns-query",
      post(Uint8Array.from([...plain, ...opt]).with(11, 1)),
    );
    expect(await messageOf(response)).toMatchObject({
      answers: [{ address: "10.0.0.2" }],
      edns: { udpBytesMax: 1232, version: 0, dnssecOk: true, padded: false },
    });
  });

  it("[RG45] a padded query gets a padded answer", async () => {
    const { app } = await cluster();
    const edns = { udpBytesMax: 4096, version: 0, dnssecOk: false, padded: true };
    const response = await app.request("/dns-query", post(query(NAME, DNS_TYPE.A, { edns })));
    expect((await response.arrayBuffer()).byteLength).toBe(468);
  });

  it.each<[string, string, RequestInit, number]>([
    ["no question at all", "/dns-query", {}, 400],
    ["what is not base64url", "/dns-query?dns=%2B%2F", {}, 400],
    ["half a byte of base64url", "/dns-query?dns=AAAAA", {}, 400],
    ["what is no message", "/dns-query?dns=AAAB", {}, 400],
    ["an answer", inUrl(query(NAME, 1, { isResponse: true })), {}, 400],
    ["a body that is no message", "/dns-query", post(new Uint8Array(3)), 400],
    ["an empty body", "/dns-query", post(new Uint8Array(0)), 400],
    ["a longer message in the URL", `/dns-query?dns=${"A".repeat(5_464)}`, {}, 413],
    ["a longer message", "/dns-query", post(new Uint8Array(4_097)), 413],
    [
      "another content type",
      "/dns-query",
      post(query(NAME, 1), { "content-type": "text/plain" }),
      415,
    ],
    ["an Accept that excludes it", inUrl(query(NAME, 1)), { headers: { accept: "text/css" } }, 406],
    ["a type that is none", `/dns-query?name=${NAME}&type=AAAAA`, {}, 400],
    ["a name that is none", `/dns-query?name=a..b`, {}, 400],
    ["a name that is too long", `/dns-query?name=${"a.".repeat(130)}`, {}, 400],
    ["a label that is too long", `/dns-query?name=${"a".repeat(64)}.joe.${DOMAIN}`, {}, 400],
  ])("[RG46] %s is refused by HTTP", async (_, path, init, status) => {
    const { app, asked } = await cluster();
    expect(await refusalOf(await app.request(path, init))).toEqual([status, null]);
    expect(asked).toEqual([]);
  });

  it.each(["PUT", "DELETE", "PATCH"])("[RG46] %s is not for it", async (method) => {
    const { app } = await cluster();
    const refusal = await refusalOf(await app.request("/dns-query", { method }));
    expect(refusal).toEqual([405, "GET, HEAD, POST, OPTIONS"]);
  });

  it("[RG46] whatever bytes are sent, the answer is DNS or a refusal, never a failure", async () => {
    const { app } = await cluster();
    const good = query(NAME, DNS_TYPE.SRV);
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 300 }),
      fc.tuple(fc.nat(good.length - 1), fc.nat(255)).map(([at, value]) => good.with(at, value)),
      fc
        .tuple(fc.uint8Array({ maxLength: 60 }), fc.nat(12))
        .map(([tail, at]) => Uint8Array.from([...good, ...tail]).with(at, 1)),
    );
    await fc.assert(
      fc.asyncProperty(bytes, fc.boolean(), async (body, isPost) => {
        const sent = Uint8Array.from(body);
        const response = await (isPost
          ? app.request("/dns-query", post(sent))
          : app.request(inUrl(sent)));
        expect([200, 400]).toContain(response.status);
        if (response.status === 200) await messageOf(response);
      }),
      { numRuns: 1_000 },
    );
  });

  it("[RG45] a crowd that asks one name asks the registry once in its TTL", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    const { app, asked } = await cluster();
    const ask = (id: number) => {
      const body = query(NAME, DNS_TYPE.A, { id });
      return post(body, { "content-length": String(body.length) });
    };
    for (const id of [1, 2, 3]) {
      const response = await app.request("/dns-query", ask(id));
      expect((await messageOf(response)).id).toBe(id);
    }
    expect(asked).toHaveLength(1);
    vi.setSystemTime(Date.now() + 4_999);
    expect((await app.request("/dns-query", ask(4))).headers.get("age")).toBe("5");
    expect(asked).toHaveLength(1);
    vi.setSystemTime(Date.now() + 1);
    await app.request("/dns-query", ask(5));
    expect(asked).toHaveLength(2);
  });

  it("[RG45] a name that did not exist is asked for again", async () => {
    const { app, registry } = await cluster();
    const ask = () => app.request(inUrl(query(`new.joe.${DOMAIN}`, DNS_TYPE.TXT)));
    expect((await messageOf(await ask())).rcode).toBe(3);
    await registry.bind("/users/joe/yarn-service/new", WEB, { overwrite: true });
    const path = "/users/joe/yarn-service/new";
    const record = { ...WEB, attributes: {} };
    await registry.bind(path, record, { overwrite: true });
    expect((await messageOf(await ask())).rcode).toBe(0);
  });
});

describe("a cluster whose registry is not for everybody", () => {
  it("[RG29] answers DNS to users alone, and lets no cache keep it", async () => {
    const { app, tokens } = await fakeCluster({ registryReaders: "authenticated" });
    const path = inUrl(query(NAME, DNS_TYPE.A));
    expect((await app.request(path)).status).toBe(401);
    expect((await app.request("/dns-query", post(query(NAME, DNS_TYPE.A)))).status).toBe(401);
    const headers = { authorization: `Bearer ${tokens.joe}` };
    const answered = await app.request(path, { headers });
    expect([answered.status, answered.headers.get("cache-control")]).toEqual([200, "no-store"]);
  });
});

describe("DNS as JSON", () => {
  it.each([
    [NAME, "A", [{ name: `${NAME}.`, type: 1, TTL: 5, data: "10.0.0.2" }]],
    [`${NAME}.`, "1", [{ name: `${NAME}.`, type: 1, TTL: 5, data: "10.0.0.2" }]],
    [
      NAME,
      "txt",
      [
        { name: `${NAME}.`, type: 16, TTL: 5, data: '"id=container_1"' },
        { name: `${NAME}.`, type: 16, TTL: 5, data: '"api=http" "path=/"' },
      ],
    ],
    [
      `_http._tcp.${NAME}`,
      "SRV",
      [
        {
          name: `_http._tcp.${NAME}.`,
          type: 33,
          TTL: 5,
          data: "1 1 80 ctr-1.hello.joe.selvedge.internal.",
        },
      ],
    ],
    [
      "2.0.0.10.in-addr.arpa",
      "PTR",
      [{ name: "2.0.0.10.in-addr.arpa.", type: 12, TTL: 5, data: `${NAME}.` }],
    ],
  ])("[RG47] %s %s", async (name, type, answers) => {
    const { app } = await cluster();
    const headers = { accept: "application/dns-json" };
    const response = await app.request(`/dns-query?name=${name}&type=${type}`, { headers });
    expect(response.headers.get("content-type")).toBe("application/dns-json");
    expect(response.headers.get("cache-control")).toBe("public, max-age=5");
    expect(await response.json()).toMatchObject({
      Status: 0,
      TC: false,
      RD: true,
      RA: false,
      AD: false,
      CD: false,
      Answer: answers,
    });
  });

  it("[RG47] asks for an address when no type is given, and tells what does not exist", async () => {
    const { app } = await cluster();
    const response = await app.request(`/dns-query?name=no.joe.${DOMAIN}&cd=1`);
    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({
      Status: 3,
      TC: false,
      RD: true,
      RA: false,
      AD: false,
      CD: true,
      Question: [{ name: `no.joe.${DOMAIN}.`, type: 1 }],
      Authority: [
        {
          name: `${DOMAIN}.`,
          type: 6,
          TTL: 2,
          data: `ns.${DOMAIN}. hostmaster.${DOMAIN}. 1408638082 86400 7200 1209600 2`,
        },
      ],
    });
  });
});
