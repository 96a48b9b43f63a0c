/** What a record must say to be written, beyond its form; and how Hadoop's Java class would see it. */
import { describe, expect, it } from "vitest";
import { checkEndpoints } from "../../src/shared/endpoint-rules.ts";
import {
  type Endpoint,
  formatServiceRecordStrict,
  type JsonValue,
  type ServiceRecord,
} from "../../src/shared/registry.ts";
import { mapRegistry } from "../support/map-registry.ts";
import { expectOk, outcomeOf, recordNamed } from "../support/registry-contract.ts";

const WHOLE: Endpoint = {
  api: "http://",
  addressType: "uri",
  protocolType: "REST",
  addresses: [{ uri: "http://h:80/" }],
};
const recordWith = (endpoint: Partial<Endpoint>): ServiceRecord => ({
  ...recordNamed("x"),
  internal: [WHOLE, { ...WHOLE, ...endpoint }],
});
function findingsOf(endpoint: Partial<Endpoint>): readonly string[] {
  const reply = checkEndpoints(recordWith(endpoint));
  return reply.ok
    ? []
    : (reply.error.findings ?? []).map((each) => `${each.path}: ${each.message}`);
}

describe("an endpoint's API", () => {
  it.each([
    "http://",
    "classpath:javax.management.jmx",
    "classpath:org.apache.hadoop.yarn.service.appmaster.ipc",
    "org.apache.hbase",
    "uuid:1b4e28ba-2fa1-11d2-883f-0016d3cca427",
    "http://internal.example.org/restapis/scheduler/20141026v1",
    "tcp://nfs",
    "urn:x?a=b%20c#d",
  ])("[RG14] may be %s", (api) => {
    expect(findingsOf({ api })).toEqual([]);
  });

  it.each(["a b", "<script>", "é", "a\nb", '{"json":1}', "a\u0000"])("[RG14] is not %j", (api) => {
    expect(findingsOf({ api })).toEqual([
      expect.stringMatching(/^internal\[1\]\.api: must be a URI/),
    ]);
  });
});

describe("an address", () => {
  it.each<[string, Readonly<Record<string, string>>]>([
    ["uri", { uri: "rack4server3:43572" }],
    ["host/port", { host: "::1", port: "0" }],
    ["hostname", { host: "h" }],
    ["inetaddress", { host: "h", port: "65535" }],
    ["path", { path: "/tmp/with space" }],
    ["zookeeper", { host: "h", port: "2181", path: "/hbase" }],
    ["zookeeper", { host: "h", port: "2181" }],
    ["x-own", { anything: "goes here" }],
    ["", {}],
  ])("[RG14] of type %j may be %j", (addressType, address) => {
    expect(findingsOf({ addressType, addresses: [address] })).toEqual([]);
  });

  it.each<[string, Readonly<Record<string, string>>, string]>([
    ["uri", { url: "http://h" }, "internal[1].addresses[0].uri: is missing"],
    ["uri", { uri: "" }, "internal[1].addresses[0].uri: is missing"],
    ["uri", { uri: "http://a b" }, "internal[1].addresses[0].uri: has spaces"],
    ["host/port", { host: "h" }, "internal[1].addresses[0].port: is missing"],
    ["host/port", { host: "h", port: "http" }, "internal[1].addresses[0].port: must be a port"],
    ["host/port", { host: "h", port: "65536" }, "internal[1].addresses[0].port: must be a port"],
    ["zookeeper", { path: "/hbase", port: "1" }, "internal[1].addresses[0].host: is missing"],
    ["URL", { uri: "u" }, "internal[1].addressType: is none of uri, host/port, hostname,"],
    ["__proto__", {}, "internal[1].addressType: is none of"],
  ])("[RG14] of type %j is not %j", (addressType, address, finding) => {
    const [first] = findingsOf({ addressType, addresses: [address] });
    expect(first?.slice(0, finding.length)).toBe(finding);
  });

  it("[RG14] is judged when a record is bound, with nothing written", async () => {
    const registry = mapRegistry();
    const bad = recordWith({ addressType: "URL" });
    const reply = await registry.bind("/services/a", bad, { overwrite: false });
    expect(outcomeOf(reply)).toBe("INVALID_ARGUMENT InvalidRecordException");
    expect(expectOk(await registry.exists("/services/a"))).toBe(false);
  });
});

describe("the record that Hadoop's Java class would write", () => {
  it.each<[JsonValue, string]>([
    [1_408_638_082_445, "1408638082445"],
    [1.5, "1.5"],
    [true, "true"],
    [[1, 2, "a"], "[1, 2, a]"],
    [{ a: 1, b: { c: null } }, "{a=1, b={c=null}}"],
    [-0.00015, "-1.5E-4"],
    [0.001, "0.001"],
    [12_345_678.5, "1.23456785E7"],
    [1e21, "1.0E21"],
    ["1.50", "1.50"],
  ])("[RG15] has the attribute %j as the text %j", (value, text) => {
    expect(formatServiceRecordStrict(recordNamed("x", { value }))["value"]).toBe(text);
  });

  it("[RG15] leaves out what Java cannot read", () => {
    const document = formatServiceRecordStrict(recordNamed("x", { none: null, some: "a" }));
    expect(Object.keys(document)).toEqual(["type", "description", "external", "internal", "some"]);
  });
});
