/**
 * Paths and records of the kinds that break registries, sent to the real Worker over a real
 * registry. Nothing is a failure of the server, nothing takes long, and nothing that joe sends
 * changes anything outside joe's home.
 */
import { exports } from "cloudflare:workers";
import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { type EdgeCluster, openCluster } from "./support/edge-cluster.ts";

const worker = (exports as unknown as { default: { fetch: typeof fetch } }).default;
const HOME = "/users/joe";
/** Far more than any answer takes; a busy machine is slow, an endless loop is slower. */
const ANSWER_MAX_MS = 5_000;
const RUNS = 200;

let cluster: EdgeCluster;
let token: string;

beforeAll(async () => {
  cluster = await openCluster();
  const issued = await cluster.call<{ token: string }>("/ws/v1/security/tokens", {
    method: "POST",
    body: { user: "joe" },
  });
  token = issued.token;
  // What there is to be damaged.
  for (const path of ["/services/hdfs", "/users/ann/k/db", "/users/joey/k/db", `${HOME}/k/db`]) {
    await cluster.call("/ws/v1/registry-operations/bind", {
      method: "POST",
      body: { path, record: { type: "JSONServiceRecord", description: path }, createParents: true },
    });
  }
});

async function send(path: string, body?: string): Promise<Response> {
  const startedMs = Date.now();
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const init = body === undefined ? { headers } : { method: "POST", headers, body };
  const response = await worker.fetch(
    `https://selvedge.test/clusters/${cluster.name}${path}`,
    init,
  );
  const text = await response.text();
  expect(Date.now() - startedMs).toBeLessThan(ANSWER_MAX_MS);
  if (response.status >= 500) throw new Error(`${path.slice(0, 200)} was answered ${text}`);
  return new Response(text, response);
}

/** All nodes, or those that joe has no right to. */
async function nodes(which: "all" | "others") {
  const rows = (await cluster.contents("Registry"))["registry_node"] ?? [];
  if (which === "all") return rows;
  return rows.filter(({ parent, name }) => !`${parent}/${name}/`.includes(`${HOME}/`));
}

const element = fc.oneof(
  fc.constantFrom(
    ...["users", "joe", "ann", "services", "k", "db", "", ".", "..", "...", "-", "a-", "~", "*"],
    ...["%2e", "%2E%2e", ".%2e", "%252e%252e", "%2f", "%2F..%2Fann", "%252f", "..%2fann", "%5c.."],
    ...["%00", "joe%00", "%0a", "%0d%0aX-A:%20b", "%c0%ae%c0%ae", "%c0%af", "%ff", "%", "%zz"],
    ...["\u0000", "\\", "..\\ann", "joe;x=1", "joe ", " joe", "joe\t", "joe\u200b", "\ufeffjoe"],
    ...[
      "ｊｏｅ",
      "jоe",
      "JOE",
      "ＡＮＮ",
      "．．",
      "／",
      "∕",
      "\u212a",
      "ı",
      "ß",
      "e\u0301",
      "\ud800",
    ],
    ...["xn--joe", "xn--a", "__proto__", "constructor", "?find", "#", "' OR 1=1 --", "%' --"],
  ),
  fc.constantFrom("a".repeat(63), "a".repeat(64), "ä".repeat(2_000), "a/".repeat(600)),
  fc.string({ unit: "binary", maxLength: 12 }),
);
const path = fc
  .tuple(
    fc.constantFrom("", "/", "//", `${HOME}/`, `${HOME}/../`, "/users/", "/services/"),
    fc.array(element, { maxLength: 5 }),
  )
  .map(([start, elements]) => `${start}${elements.join("/")}`);

const nested = (open: string, close: string) =>
  fc.constantFrom(3, 40, 5_000).map((depth) => `${open.repeat(depth)}1${close.repeat(depth)}`);
const broken = fc.constantFrom(
  ...["null", "[]", "1", '"text"', "true", "1e999", "-0", "{}", '{"":0}', '"\\ud800"', '"\\u0000"'],
  ...['{"__proto__":{"polluted":true}}', '{"constructor":{"prototype":{"polluted":true}}}'],
  `[${"0,".repeat(50_000)}0]`,
  `[${"{},".repeat(5_000)}{}]`,
  `"${"x".repeat(70_000)}"`,
);
/** JSON as text: much of this no serializer would write. */
const value = fc.oneof(
  broken,
  nested('{"a":', "}"),
  nested("[", "]"),
  fc.jsonValue().map((each) => JSON.stringify(each)),
);
const field = fc.constantFrom(
  ...["type", "description", "external", "internal", "yarn:id", "yarn:persistence", "yarn:ip"],
  ...["yarn:component", "__proto__", "constructor", "toString", "hasOwnProperty", "", "x"],
);
const endpoint = fc
  .tuple(
    fc.constantFrom("uri", "host/port", "path", "zookeeper", "x-y", "__proto__", ""),
    fc.oneof(value, fc.constant('[{"uri":"javascript:alert(1)"}]'), fc.constant('[{"host":"h"}]')),
  )
  .map(
    ([addressType, addresses]) =>
      `{"api":"http","addressType":"${addressType}","protocolType":"tcp","addresses":${addresses}}`,
  );
const record = fc.oneof(
  value,
  fc
    .array(fc.tuple(field, value), { maxLength: 4 })
    .map((fields) => `{${fields.map(([name, text]) => `"${name}":${text}`).join(",")}}`),
  fc
    .array(endpoint, { maxLength: 3 })
    .map((all) => `{"type":"JSONServiceRecord","external":[${all.join(",")}],"internal":[]}`),
);

describe("whatever is sent to the registry", () => {
  it("[RG71] as a path to read, changes nothing and is no failure", async () => {
    const before = await nodes("all");
    const view = fc.constantFrom("", "?list", "?depth=3", "?find&text=a", "?watch=poll&wait=0");
    await fc.assert(
      fc.asyncProperty(path, view, async (rest, query) => {
        const { status } = await send(`/registry/v1${rest}${query}`);
        expect([200, 400, 404, 405, 414]).toContain(status);
      }),
      { numRuns: RUNS },
    );
    expect(await nodes("all")).toEqual(before);
  });

  it("[RG71] as a path to write, changes nothing outside the writer's home", async () => {
    const before = await nodes("others");
    const operation = fc.constantFrom(
      ...["mknode", "bind", "delete", "set-acl"].map((op) => ({ op, more: {} })),
      { op: "delete", more: { recursive: true, missingOk: true } },
      { op: "mknode", more: { createParents: true } },
    );
    await fc.assert(
      fc.asyncProperty(path, operation, async (text, { op, more }) => {
        const record = op === "bind" ? { record: { type: "JSONServiceRecord" } } : {};
        const body = JSON.stringify({ path: text, ...record, ...more });
        const { status } = await send(`/ws/v1/registry-operations/${op}`, body);
        expect([200, 400, 403, 404, 409, 429]).toContain(status);
      }),
      { numRuns: RUNS },
    );
    expect(await nodes("others")).toEqual(before);
  });

  it("[RG71] as a record, is refused, or readable in every form", async () => {
    const before = await nodes("others");
    const verdicts = { bound: 0, refused: 0 };
    let number = 0;
    await fc.assert(
      fc.asyncProperty(record, async (text) => {
        const at = `${HOME}/k/fuzz-${++number}`;
        const body = `{"path":"${at}","createParents":true,"record":${text}}`;
        const { status } = await send("/ws/v1/registry-operations/bind", body);
        expect([200, 400, 413]).toContain(status);
        verdicts[status === 200 ? "bound" : "refused"] += 1;
        if (status !== 200) return;
        for (const query of ["", "?strict=hadoop", "?list", "?find&text=a"]) {
          const response = await send(`/registry/v1${at}${query}`);
          expect(response.status).toBe(200);
          await response.json();
        }
      }),
      { numRuns: RUNS },
    );
    expect(Math.min(verdicts.bound, verdicts.refused)).toBeGreaterThan(RUNS / 50);
    expect((await send(`/registry/v1${HOME}?depth=5&limit=1000`)).status).toBe(200);
    expect({}).not.toHaveProperty("polluted");
    expect(await nodes("others")).toEqual(before);
  });

  it("[RG71] as a body, is no failure and changes nothing", async () => {
    const before = await nodes("all");
    const operation = fc.constantFrom(
      ...["mknode", "bind", "delete", "transact", "set-acl", "get-acl", "purge", "none", ".."],
    );
    const body = fc.oneof(
      value,
      fc.string(),
      value.map((text) => `{"path":${text}}`),
      value.map((text) => `{"operations":${text}}`),
      value.map((text) => `{"path":"${HOME}/k/db","recursive":${text},"more":1}`),
    );
    await fc.assert(
      fc.asyncProperty(operation, body, async (name, text) => {
        const { status } = await send(`/ws/v1/registry-operations/${name}`, text);
        expect([200, 400, 403, 404, 405, 409, 413]).toContain(status);
      }),
      { numRuns: RUNS },
    );
    expect(await nodes("all")).toEqual(before);
  });
});
