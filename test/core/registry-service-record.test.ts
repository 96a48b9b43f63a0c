import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LIMITS } from "../../src/shared/limits.ts";
import {
  formatServiceRecord,
  formatServiceRecordForReaders,
  type JsonValue,
  RECORD_FIELDS,
  type ServiceRecord,
} from "../../src/shared/registry.ts";
import {
  checkRecord,
  checkServiceRecord,
  parseServiceRecord,
  persistenceOf,
} from "../../src/shared/service-record.ts";
import { expectOk, outcomeOf, recordNamed } from "../support/registry-contract.ts";

const BAD_RECORD = "INVALID_ARGUMENT InvalidRecordException";

/** A record with one external endpoint. */
function withEndpoint(endpoint: Readonly<Record<string, unknown>>) {
  const whole = { api: "http://", addressType: "uri", protocolType: "webui", addresses: [] };
  return { external: [{ ...whole, ...endpoint }] };
}

function addressesOf(addressType: string, addresses: unknown) {
  const record = expectOk(parseServiceRecord(withEndpoint({ addressType, addresses })));
  return record.external[0]?.addresses;
}

/** `path: message` of each finding. */
function findingsOf(json: unknown): readonly string[] {
  const reply = parseServiceRecord(json);
  expect(outcomeOf(reply)).toBe(BAD_RECORD);
  return reply.ok ? [] : (reply.error.findings ?? []).map((f) => `${f.path}: ${f.message}`);
}

describe("the records of seed 000", () => {
  it("reads a component as the document shows it", () => {
    const record = expectOk(
      parseServiceRecord({
        registrationTime: 1408638082445,
        "yarn:id": "container_1408631738011_0001_01_000002",
        "yarn:persistence": "container",
        description: null,
        external: [
          {
            api: "http://internal.example.org/restapis/scheduler/20141026v1",
            addressType: "uri",
            protocol: "REST",
            addresses: [["http://rack1server28:35881"]],
          },
        ],
        internal: [
          {
            api: "classpath:javax.management.jmx",
            addressType: "host/port",
            protocol: "rmi",
            addresses: [{ host: "rack1server28", port: "48551" }],
          },
        ],
      }),
    );
    expect(formatServiceRecord(record)).toEqual({
      type: "JSONServiceRecord",
      external: [
        {
          api: "http://internal.example.org/restapis/scheduler/20141026v1",
          addressType: "uri",
          protocolType: "REST",
          addresses: [{ uri: "http://rack1server28:35881" }],
        },
      ],
      internal: [
        {
          api: "classpath:javax.management.jmx",
          addressType: "host/port",
          protocolType: "rmi",
          addresses: [{ host: "rack1server28", port: "48551" }],
        },
      ],
      registrationTime: 1408638082445,
      "yarn:id": "container_1408631738011_0001_01_000002",
      "yarn:persistence": "container",
    });
  });

  it("writes the fields in Java's order and shows readers both names of the protocol", () => {
    const record = expectOk(parseServiceRecord({ z: 1, description: "d", ...withEndpoint({}) }));
    const document = formatServiceRecordForReaders(record);
    expect(Object.keys(document)).toEqual(["type", "description", "external", "internal", "z"]);
    expect(document.external[0]).toMatchObject({ protocolType: "webui", protocol: "webui" });
    expect(formatServiceRecord(record).external[0]).not.toHaveProperty("protocol");
  });
});

describe("both historic forms", () => {
  it.each([
    ["uri", [["http://h"]], [{ uri: "http://h" }]],
    ["host/port", [["h", 80]], [{ host: "h", port: "80" }]],
    ["path", [["/tmp"]], [{ path: "/tmp" }]],
    ["zookeeper", [["h", "2181", "/hbase"]], [{ host: "h", port: "2181", path: "/hbase" }]],
    ["zookeeper", [["h", "2181"]], [{ host: "h", port: "2181" }]],
    ["inetaddress", [{ hostname: "h", port: 80 }], [{ host: "h", port: "80" }]],
    ["hostname", [{ hostname: "h" }], [{ host: "h" }]],
    ["host/port", [{ hostname: "a", host: "b" }], [{ hostname: "a", host: "b" }]],
    ["x-own", [{ hostname: "h" }], [{ hostname: "h" }]],
  ])("reads addresses of type %s: %j", (addressType, written, canonical) => {
    expect(addressesOf(addressType, written)).toEqual(canonical);
  });

  it("reads protocol where protocolType is missing, and refuses two answers", () => {
    const older = withEndpoint({ protocolType: undefined, protocol: "REST" });
    expect(expectOk(parseServiceRecord(older)).external[0]?.protocolType).toBe("REST");
    expect(findingsOf(withEndpoint({ protocol: "REST" }))[0]).toMatch(/^external\[0\]\.protocol: /);
    expect(findingsOf(withEndpoint({ protocolType: null }))[0]).toContain(
      "protocolType: is missing",
    );
  });

  it("stores application_attempt as application-attempt", () => {
    const json = {
      "yarn:id": "appattempt_1_0001_000001",
      "yarn:persistence": "application_attempt",
    };
    const record = expectOk(parseServiceRecord(json));
    expect(record.attributes["yarn:persistence"]).toBe("application-attempt");
    expect(persistenceOf(record)).toEqual({
      yarnId: "appattempt_1_0001_000001",
      persistence: "application-attempt",
    });
  });

  it.each([
    { "yarn:persistence": "container" },
    { "yarn:id": "container_1_0001_01_000001" },
    { "yarn:id": "container_1_0001_01_000001", "yarn:persistence": "permanent" },
    { "yarn:id": 7, "yarn:persistence": "container" },
    { "yarn:id": "", "yarn:persistence": "container" },
  ])("keeps a record for good that does not say both id and policy: %j", (attributes) => {
    expect(persistenceOf(expectOk(parseServiceRecord(attributes)))).toBeNull();
  });
});

describe("what is not a record", () => {
  it.each([null, 1, "JSONServiceRecord", [], undefined])("refuses %j", (json) => {
    expect(outcomeOf(parseServiceRecord(json))).toBe(BAD_RECORD);
  });

  it.each([
    [{ type: "Other" }, 'type: must be "JSONServiceRecord"'],
    [{ type: null }, 'type: must be "JSONServiceRecord"'],
    [{ description: 7 }, "description: "],
    [{ external: {} }, "external: "],
    [{ internal: [null] }, "internal[0]: "],
    [withEndpoint({ api: "" }), "external[0].api: "],
    [withEndpoint({ addressType: null }), "external[0].addressType: "],
    [withEndpoint({ addresses: null }), "external[0].addresses: "],
    [withEndpoint({ addresses: [null] }), "external[0].addresses[0]: must be a map"],
    [withEndpoint({ addresses: [[]] }), "external[0].addresses[0]: must be a map"],
    [withEndpoint({ addresses: [["a", "b"]] }), "external[0].addresses[0]: must be a map, or"],
    [withEndpoint({ addresses: [{ uri: true }] }), "external[0].addresses[0]: must be a map"],
    [
      withEndpoint({ addressType: "x-own", addresses: [["a"]] }),
      'external[0].addresses[0]: must be a map: the address type "x-own" has no list form',
    ],
    [
      withEndpoint({ addressType: "zookeeper", addresses: [{ path: "/a" }, { path: "/b" }] }),
      "external[0].addresses: must have the same path",
    ],
    [JSON.parse('{"n": 1e999}'), "n: must be JSON"],
    [JSON.parse('{"__proto__": {"polluted": true}}'), "__proto__: cannot be the name"],
    [JSON.parse('{"a": {"__proto__": {}}}'), "a: must be JSON"],
    [{ "": 1 }, ": cannot be the name"],
  ])("names the field that is wrong in %j", (json, finding) => {
    expect(findingsOf(json)).toEqual([expect.stringContaining(finding)]);
  });

  it("reports everything that is wrong at once", () => {
    const json = { type: "x", "": 1, ...withEndpoint({ api: 1, addresses: [{ uri: {} }] }) };
    expect(findingsOf(json)).toHaveLength(4);
  });

  it("refuses attributes of a program that hide a field of the record", () => {
    for (const field of RECORD_FIELDS) {
      const record = recordNamed("x", { [field]: "JSONServiceRecord" });
      expect(outcomeOf(checkServiceRecord("/a", record))).toBe(BAD_RECORD);
    }
  });
});

describe("limits", () => {
  const emptyBytes = JSON.stringify(
    formatServiceRecord(expectOk(parseServiceRecord({ a: "" }))),
  ).length;
  const long = (length: number) => "x".repeat(length);
  const addresses = (count: number) => Array.from({ length: count }, () => ({ uri: "u" }));
  const fields = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, n) => [`f${n}`, "v"]));
  const nested = (depth: number): JsonValue => (depth === 0 ? 1 : [nested(depth - 1)]);

  it.each<[string, number, (size: number) => unknown]>([
    ["description", LIMITS.descriptionLengthMax, (n) => ({ description: long(n) })],
    ["api", LIMITS.endpointApiLengthMax, (n) => withEndpoint({ api: long(n) })],
    ["addressType", LIMITS.endpointWordLengthMax, (n) => withEndpoint({ addressType: long(n) })],
    ["protocolType", LIMITS.endpointWordLengthMax, (n) => withEndpoint({ protocolType: long(n) })],
    ["addresses", LIMITS.addressesPerEndpointMax, (n) => withEndpoint({ addresses: addresses(n) })],
    ["address fields", LIMITS.fieldsPerAddressMax, (n) => withEndpoint({ addresses: [fields(n)] })],
    [
      "address field name",
      LIMITS.endpointWordLengthMax,
      (n) => withEndpoint({ addresses: [{ [long(n)]: "v" }] }),
    ],
    [
      "address value",
      LIMITS.addressValueLengthMax,
      (n) => withEndpoint({ addresses: [{ uri: long(n) }] }),
    ],
    [
      "endpoints",
      LIMITS.endpointsPerRecordMax,
      (n) => ({ internal: Array.from({ length: n }, () => withEndpoint({}).external[0]) }),
    ],
    ["attributes", LIMITS.attributesPerRecordMax, fields],
    ["attribute name", LIMITS.attributeNameLengthMax, (n) => ({ [long(n)]: 1 })],
    ["attribute depth", LIMITS.attributeDepthMax, (n) => ({ a: nested(n) })],
  ])("accepts %s up to the limit, and not beyond", (_name, most, make) => {
    expect(outcomeOf(parseServiceRecord(make(most)))).toBe("ok");
    expect(outcomeOf(parseServiceRecord(make(most + 1)))).toBe(BAD_RECORD);
  });

  it("accepts bytes up to the limit, and not beyond", () => {
    const room = LIMITS.recordBytesMax - emptyBytes;
    expect(outcomeOf(checkRecord("/a", { a: long(room) }))).toBe("ok");
    expect(outcomeOf(checkRecord("/a", { a: long(room + 1) }))).toBe(BAD_RECORD);
  });

  it("is not shaken by JSON nested without end", () => {
    const deep = JSON.parse(`{"a":${"[".repeat(5_000)}${"]".repeat(5_000)}}`);
    expect(outcomeOf(parseServiceRecord(deep))).toBe(BAD_RECORD);
  });
});

describe("printing and parsing", () => {
  const text = fc.string({ unit: "binary", maxLength: 12 });
  const key = text.filter((name) => name !== "" && name !== "__proto__");
  const endpoint = fc.record({
    api: text.filter((api) => api !== ""),
    addressType: fc.constantFrom("uri", "host/port", "path", "x-own", ""),
    protocolType: text,
    addresses: fc.array(
      fc.dictionary(
        key.filter((name) => name !== "hostname"),
        text,
        { maxKeys: 3, noNullPrototype: true },
      ),
      { maxLength: 3 },
    ),
  });
  const attributes = fc.dictionary(
    key.filter((name) => !(RECORD_FIELDS as readonly string[]).includes(name)),
    fc.jsonValue({ maxDepth: 3 }).map((value) => JSON.parse(JSON.stringify(value))),
    { maxKeys: 4, noNullPrototype: true },
  );
  const records: fc.Arbitrary<ServiceRecord> = fc
    .record(
      {
        type: fc.constant("JSONServiceRecord" as const),
        description: text,
        external: fc.array(endpoint, { maxLength: 2 }),
        internal: fc.array(endpoint, { maxLength: 2 }),
        attributes,
      },
      { requiredKeys: ["type", "external", "internal", "attributes"], noNullPrototype: true },
    )
    .filter((record) => !JSON.stringify(record).includes("__proto__"));

  it("is the identity on canonical records, through the text of both forms", () => {
    fc.assert(
      fc.property(records, (record) => {
        for (const format of [formatServiceRecord, formatServiceRecordForReaders]) {
          const json = JSON.parse(JSON.stringify(format(record)));
          expect(expectOk(parseServiceRecord(json))).toEqual(record);
        }
      }),
    );
  });

  it("never throws, whatever the JSON, and what it accepts is canonical", () => {
    fc.assert(
      fc.property(fc.oneof(fc.jsonValue(), fc.object()), (json) => {
        const reply = parseServiceRecord(json);
        if (!reply.ok) return;
        expect(expectOk(parseServiceRecord(formatServiceRecord(reply.value)))).toEqual(reply.value);
      }),
    );
  });
});
