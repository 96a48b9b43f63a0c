/**
 * Bytes that pretend to be DNS, and names that pretend to be names, sent to the real Worker over a
 * real registry with a service in it. Nothing is a failure, nothing takes long, and what is answered
 * with 200 is an answer to what was asked.
 */
import { exports } from "cloudflare:workers";
import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { DNS_TYPE } from "../../src/shared/dns.ts";
import { decodeMessage, encodeMessage } from "../../src/shared/dns-message.ts";
import { queryMessage } from "../support/dns-query.ts";
import { type EdgeCluster, openCluster } from "./support/edge-cluster.ts";

const worker = (exports as unknown as { default: { fetch: typeof fetch } }).default;
/** Far more than any answer takes; a busy machine is slow, an endless loop is slower. */
const ANSWER_MAX_MS = 5_000;
const RUNS = 300;
const MESSAGE_TYPE = "application/dns-message";
const NAME = "db.joe.selvedge.internal";

let cluster: EdgeCluster;

beforeAll(async () => {
  cluster = await openCluster();
  const addresses = [{ host: "10.0.0.5", port: "8020" }];
  const endpoint = { api: "http", addressType: "host/port", protocolType: "tcp", addresses };
  const record = { type: "JSONServiceRecord", external: [endpoint], internal: [] };
  const body = { path: "/users/joe/k/db", record, createParents: true };
  await cluster.call("/ws/v1/registry-operations/bind", { method: "POST", body });
});

const URL_START = () => `https://selvedge.test/clusters/${cluster.name}/dns-query`;

async function send(url: string, init?: RequestInit): Promise<Response> {
  const startedMs = Date.now();
  const response = await worker.fetch(url, init);
  const body = await response.arrayBuffer();
  expect(Date.now() - startedMs).toBeLessThan(ANSWER_MAX_MS);
  if (response.status >= 500) throw new Error(`${url.slice(0, 200)}: status ${response.status}`);
  return new Response(body, response);
}

function query(name: string, type: number): Uint8Array {
  const edns = { udpBytesMax: 1_232, version: 0, dnssecOk: false, padded: false };
  return encodeMessage(queryMessage(name, type, { edns }));
}

const GOOD = [DNS_TYPE.A, DNS_TYPE.SRV, DNS_TYPE.TXT].map((type) => query(NAME, type));
const good = fc.constantFrom(...GOOD);
const mutation = fc.record({
  at: fc.nat(80),
  value: fc.oneof(fc.nat(255), fc.constantFrom(0, 0x3f, 0x40, 0x80, 0xc0, 0xff)),
});
const message = fc.oneof(
  fc.uint8Array({ maxLength: 600 }),
  fc.tuple(good, fc.array(mutation, { minLength: 1, maxLength: 6 })).map(([bytes, mutations]) =>
    mutations.reduce((changed, { at, value }) => {
      return at < changed.length ? changed.with(at, value) : changed;
    }, bytes),
  ),
  fc.tuple(good, fc.nat(80)).map(([bytes, length]) => bytes.slice(0, length)),
  // A header that promises much, and pointers that go round, forwards and to themselves.
  fc
    .tuple(fc.uint8Array({ minLength: 12, maxLength: 12 }), fc.nat(255), fc.integer({ max: 2_000 }))
    .map(([header, to, pairs]) =>
      Uint8Array.from(
        [...header, ...Array.from({ length: Math.max(1, pairs) }, () => [0xc0, to])].flat(),
      ),
    ),
  fc.constantFrom(new Uint8Array(0), new Uint8Array(4_096), new Uint8Array(100_000).fill(0xc0)),
);

function base64url(bytes: Uint8Array): string {
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

describe("whatever is sent to /dns-query", () => {
  it("[RG71] as bytes, is answered as DNS with its own id, or refused, and changes nothing", async () => {
    const before = await cluster.contents("Registry");
    const counts = { answered: 0, refused: 0 };
    await fc.assert(
      fc.asyncProperty(message, fc.boolean(), async (bytes, isPost) => {
        const sent = Uint8Array.from(bytes);
        const response = await (isPost
          ? send(URL_START(), {
              method: "POST",
              headers: { "content-type": MESSAGE_TYPE },
              body: sent,
            })
          : send(`${URL_START()}?dns=${base64url(sent)}`));
        expect([200, 400, 413, 414]).toContain(response.status);
        counts[response.status === 200 ? "answered" : "refused"] += 1;
        if (response.status !== 200) return;
        const answer = decodeMessage(new Uint8Array(await response.arrayBuffer()));
        expect(answer?.isResponse).toBe(true);
        expect(answer?.id).toBe(decodeMessage(sent)?.id);
      }),
      { numRuns: RUNS },
    );
    expect(Math.min(counts.answered, counts.refused)).toBeGreaterThan(RUNS / 20);
    expect(await cluster.contents("Registry")).toEqual(before);
  });

  it("[RG71] as a request of another form, is refused", async () => {
    const type = fc.constantFrom(
      "",
      "text/plain",
      "application/dns-json",
      `${MESSAGE_TYPE};a=b`,
      "*",
    );
    const parameters = fc.oneof(
      fc.constantFrom("?dns=", "?dns==", "?dns=%00", "?dns=AA&dns=AA", "?dns=%2B%2F", "?dns"),
      fc.string({ maxLength: 40 }).map((text) => `?dns=${encodeURIComponent(text.toWellFormed())}`),
      fc.constant(`?dns=${"A".repeat(20_000)}`),
    );
    await fc.assert(
      fc.asyncProperty(parameters, type, fc.boolean(), async (text, contentType, isPost) => {
        const headers = { "content-type": contentType, accept: contentType };
        const body = text.slice(0, 600);
        const response = await (isPost
          ? send(URL_START(), { method: "POST", headers, body })
          : send(`${URL_START()}${text}`));
        expect([400, 406, 413, 414, 415]).toContain(response.status);
      }),
      { numRuns: RUNS },
    );
  });

  it("[RG71] as a name in words, is an answer in JSON or refused", async () => {
    const before = await cluster.contents("Registry");
    const label = fc.oneof(
      fc.constantFrom(
        "db",
        "joe",
        "_http",
        "_tcp",
        "*",
        "",
        ".",
        "..",
        "\u0000",
        "\\000",
        "\\.",
        "%",
      ),
      fc.constantFrom("ｄｂ", "jоe", "xn--a", "K", "\ud800", "a".repeat(64), "a.".repeat(130)),
      fc.string({ unit: "binary", maxLength: 20 }),
    );
    const name = fc.tuple(fc.array(label, { maxLength: 5 }), fc.boolean());
    const type = fc.oneof(
      fc.constantFrom(
        "A",
        "a",
        "SRV",
        "TXT",
        "ANY",
        "AXFR",
        "255",
        "65536",
        "-1",
        "1e3",
        "__proto__",
      ),
      fc.constantFrom("constructor", "", "\u0000", "A".repeat(5_000)),
      fc.string({ maxLength: 6 }),
    );
    await fc.assert(
      fc.asyncProperty(name, type, async ([labels, isBelow], typeName) => {
        const text = [...labels, ...(isBelow ? ["joe.selvedge.internal"] : [])].join(".");
        const asked = new URLSearchParams({ name: text.toWellFormed(), type: typeName });
        const response = await send(`${URL_START()}?${asked}`);
        expect([200, 400]).toContain(response.status);
        await response.json();
      }),
      { numRuns: RUNS },
    );
    expect(await cluster.contents("Registry")).toEqual(before);
  });
});
