import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  DNS_TYPE,
  type DnsAnswer,
  type DnsRecord,
  parseTypeName,
  RCODE,
  rcodeName,
} from "../../src/shared/dns.ts";
import { decodeMessage, encodeMessage } from "../../src/shared/dns-message.ts";
import type { RegistryOperation } from "../../src/shared/protocol/registry-operations.ts";
import type { Endpoint, ServiceRecord } from "../../src/shared/registry.ts";
import { mapRegistry } from "../support/map-registry.ts";

const DOMAIN = "dev.test";

function record(
  external: readonly Endpoint[],
  attributes: ServiceRecord["attributes"] = {},
  description?: string,
): ServiceRecord {
  return {
    type: "JSONServiceRecord",
    ...(description === undefined ? {} : { description }),
    external,
    internal: [],
    attributes,
  };
}

function uri(api: string, ...uris: string[]): Endpoint {
  const addresses = uris.map((each) => ({ uri: each }));
  return { api, addressType: "uri", protocolType: "REST", addresses };
}

function tcp(api: string, host: string, port: string, protocolType = "tcp"): Endpoint {
  return { api, addressType: "host/port", protocolType, addresses: [{ host, port }] };
}

function container(
  number: number,
  component: string,
  instance: string,
  ip: string | null,
  external: readonly Endpoint[] = [],
): readonly [string, ServiceRecord] {
  const id = `container_1454001598828_0001_01_00000${number}`;
  const attributes = {
    "yarn:id": id,
    "yarn:persistence": "container",
    "yarn:component": component,
    ...(ip === null ? {} : { "yarn:ip": ip }),
  };
  return [`ctr-1454001598828-0001-01-00000${number}`, record(external, attributes, instance)];
}

/** Hadoop's own example (facts/registry-dns.md §6.2), and a service as a ServiceMaster publishes it. */
const RECORDS: Readonly<Record<string, ServiceRecord>> = {
  "/users/root/services/org-apache-slider/test1": record([
    uri("classpath:org.apache.hadoop.yarn.service.appmaster.ipc", "http://192.168.1.5:1026/am"),
    uri("http://", "http://192.168.1.5:1027/ui?x=1"),
    tcp("classpath:org.apache.hadoop.yarn.service.management", "192.168.1.6", "1028"),
  ]),
  "/users/joe/org-apache-hbase/named": record([
    uri("http://", "https://rack1.example.com", "https://rack1.example.com/b"),
    tcp("classpath:org.apache.hbase", "rack1.example.com", "60000"),
  ]),
  "/users/joe/org-apache-hbase/alias": record([tcp("x://y", "test1.root.dev.test", "1")]),
  "/users/joe/org-apache-hbase/loop": record([tcp("x://y", "loop.joe.dev.test", "1")]),
  "/users/joe/org-apache-hbase/six": record([uri("ws://six", "ws://[2001:DB8::0:5]/")]),
  "/users/joe/org-apache-hbase/dark": record([
    { api: "path", addressType: "path", protocolType: "", addresses: [{ path: "/x" }] },
  ]),
  "/services/org-apache-hbase/dns": record([tcp("classpath:dns", "10.0.0.53", "53", "udp")]),
  "/users/joe/yarn-service/hello": record([], { "yarn:id": "application_1454001598828_0001" }),
};

const CONTAINERS = [
  container(2, "web", "web-0", "10.0.0.2", [uri("http://", "http://10.0.0.2:8080")]),
  container(3, "web", "web-1", "10.0.0.3", [uri("http://", "http://10.0.0.3:8081")]),
  container(4, "db", "db-0", "fd00::4", [tcp("tcp://db", "10.9.9.9", "5432")]),
  container(5, "Back", "Büro 5", null),
] as const;

const HELLO = "/users/joe/yarn-service/hello";

async function zone() {
  const registry = mapRegistry(() => 1_408_638_082_445);
  const all = [
    ...Object.entries(RECORDS),
    ...CONTAINERS.map(([name, each]) => [`${HELLO}/components/${name}`, each] as const),
  ];
  const operations = all.map(
    ([path, each]): RegistryOperation => ({
      op: "bind",
      path,
      record: each,
      overwrite: false,
      createParents: true,
    }),
  );
  const reply = await registry.transact(operations);
  expect(reply).toMatchObject({ ok: true });
  return async (name: string, type: string) =>
    registry.resolveName({ name, type: parseTypeName(type) ?? 0 }, DOMAIN);
}

/** `A 10.0.0.2`, as a person would write it. */
function shown(each: DnsRecord): string {
  switch (each.type) {
    case "A":
    case "AAAA":
      return `${each.type} ${each.address}`;
    case "SRV":
      return `SRV ${each.priority} ${each.weight} ${each.port} ${each.target}`;
    case "TXT":
      return `TXT ${each.strings.join(" ")}`;
    case "SOA":
      return `SOA ${each.primary}`;
    default:
      return `${each.type} ${each.target}`;
  }
}

const CTR = (number: number) => `ctr-1454001598828-0001-01-00000${number}.hello.joe.dev.test`;

describe("names of the registry", () => {
  it.each([
    // RegistryDNS's own expectations.
    ["test1.root", "A", ["A 192.168.1.5", "A 192.168.1.6"]],
    ["management-api.test1.root", "A", ["A 192.168.1.6"]],
    ["appmaster-ipc-api.test1.root", "SRV", ["SRV 1 1 1026 ip-192-168-1-5.test1.root.dev.test"]],
    ["http-api.test1.root", "SRV", ["SRV 1 1 1027 ip-192-168-1-5.test1.root.dev.test"]],
    ["http-api.test1.root", "TXT", ["TXT api=http path=/ui"]],
    [
      "test1.root",
      "TXT",
      ["TXT api=appmaster-ipc path=/am", "TXT api=http path=/ui", "TXT api=management"],
    ],
    ["ip-192-168-1-6.test1.root", "A", ["A 192.168.1.6"]],
    ["_management._tcp.test1.root", "SRV", ["SRV 1 1 1028 ip-192-168-1-6.test1.root.dev.test"]],
    // Hosts with names of their own.
    ["named.joe", "A", ["CNAME rack1.example.com"]],
    ["named.joe", "TXT", ["CNAME rack1.example.com"]],
    ["named.joe", "CNAME", ["CNAME rack1.example.com"]],
    ["http-api.named.joe", "SRV", ["SRV 1 1 443 rack1.example.com"]],
    ["_org-apache-hbase._tcp.named.joe", "SRV", ["SRV 1 1 60000 rack1.example.com"]],
    ["alias.joe", "A", ["CNAME test1.root.dev.test", "A 192.168.1.5", "A 192.168.1.6"]],
    // IPv6 is IPv6, in its canonical form.
    ["six.joe", "AAAA", ["AAAA 2001:db8::5"]],
    ["six.joe", "SRV", ["SRV 1 1 80 ip-2001-db8-0-0-0-0-0-5.six.joe.dev.test"]],
    ["ip-2001-db8-0-0-0-0-0-5.six.joe", "AAAA", ["AAAA 2001:db8::5"]],
    // What belongs to no user, and UDP.
    ["_dns._udp.dns.anonymous", "SRV", ["SRV 1 1 53 ip-10-0-0-53.dns.anonymous.dev.test"]],
    // A service without endpoints of its own is its containers.
    ["hello.joe", "A", ["A 10.0.0.2", "A 10.0.0.3"]],
    ["hello.joe", "AAAA", ["AAAA fd00::4"]],
    ["_http._tcp.hello.joe", "SRV", [`SRV 1 1 8080 ${CTR(2)}`, `SRV 1 1 8081 ${CTR(3)}`]],
    ["web.hello.joe", "A", ["A 10.0.0.2", "A 10.0.0.3"]],
    ["back.hello.joe", "TXT", ["TXT id=container_1454001598828_0001_01_000005"]],
    ["web-1.hello.joe", "A", ["A 10.0.0.3"]],
    ["WEB-1.Hello.JOE", "A", ["A 10.0.0.3"]],
    [
      "web-1.hello.joe",
      "TXT",
      ["TXT id=container_1454001598828_0001_01_000003", "TXT api=http path="],
    ],
    ["_http._tcp.web-1.hello.joe", "SRV", [`SRV 1 1 8081 ${CTR(3)}`]],
    ["http-api.web-1.hello.joe", "A", ["A 10.0.0.3"]],
    ["ctr-1454001598828-0001-01-000002", "A", ["A 10.0.0.2"]],
    ["db-0.hello.joe", "SRV", [`SRV 1 1 5432 ip-10-9-9-9.${CTR(4)}`]],
    ["ctr-1454001598828-0001-01-000002.hello.joe", "A", ["A 10.0.0.2"]],
    ["ip-10-9-9-9.ctr-1454001598828-0001-01-000004.hello.joe", "A", ["A 10.9.9.9"]],
  ])("[RG40] %s has %s %j", async (name, type, expected) => {
    const answer = await (await zone())(`${name}.${DOMAIN}`, type);
    expect(answer.rcode).toBe(RCODE.NOERROR);
    expect(answer.authoritative).toBe(true);
    expect(answer.answers.map(shown)).toEqual(expected);
    const [first] = answer.answers;
    expect(first?.name).toBe(`${name}.${DOMAIN}`);
    expect(new Set(answer.answers.map(({ ttlSeconds }) => ttlSeconds))).toEqual(new Set([5]));
  });

  it("[RG42] a container's id that two homes claim is nobody's name", async () => {
    const registry = mapRegistry();
    const [name, mine] = container(2, "web", "web-0", "10.0.0.2");
    const [, theirs] = container(2, "web", "web-0", "10.6.6.6");
    const bind = { op: "bind", overwrite: true, createParents: true } as const;
    await registry.transact([
      { ...bind, path: HELLO, record: record([]) },
      { ...bind, path: `${HELLO}/components/${name}`, record: mine },
    ]);
    const ask = async (asked: string) =>
      (await registry.resolveName({ name: `${asked}.${DOMAIN}`, type: 1 }, DOMAIN)).answers.map(
        shown,
      );
    expect(await ask(name)).toEqual(["A 10.0.0.2"]);
    await registry.transact([
      { ...bind, path: `/users/eve/k/s/components/${name}`, record: theirs },
    ]);
    expect(await ask(name)).toEqual([]);
    expect(await ask(`${name}.hello.joe`)).toEqual(["A 10.0.0.2"]);
  });

  it("[RG40] an SRV answer brings the addresses of its targets with it", async () => {
    const answer = await (await zone())(`_http._tcp.web.hello.joe.${DOMAIN}`, "SRV");
    expect(answer.additional.map((each) => `${each.name} ${shown(each)}`)).toEqual([
      `${CTR(2)} A 10.0.0.2`,
      `${CTR(3)} A 10.0.0.3`,
    ]);
    const plain = await (await zone())(`web.hello.joe.${DOMAIN}`, "A");
    expect(plain.additional).toEqual([]);
  });

  it.each([
    ["2.0.0.10.in-addr.arpa", "web-0.hello.joe.dev.test"],
    [
      "4.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa",
      "db-0.hello.joe.dev.test",
    ],
  ])("[RG41] %s is the name of a container's address", async (name, target) => {
    const ask = await zone();
    expect((await ask(name, "PTR")).answers.map(shown)).toEqual([`PTR ${target}`]);
    const other = await ask(name, "A");
    expect([other.rcode, other.answers, other.authority[0]?.name]).toEqual([0, [], name]);
  });

  it.each([
    ["9.0.0.10.in-addr.arpa", "PTR"],
    ["0.10.in-addr.arpa", "SOA"],
    ["example.com", "A"],
    ["dev.test.example.com", "A"],
    ["mydev.test", "A"],
    ["test", "SOA"],
    ["", "NS"],
    [DOMAIN, "AXFR"],
    [`hello.joe.${DOMAIN}`, "251"],
  ])("[RG41] %s %s is not answered for", async (name, type) => {
    const type_ = type === "AXFR" ? "252" : type;
    expect(await (await zone())(name, type_)).toMatchObject({
      rcode: RCODE.REFUSED,
      authoritative: false,
      answers: [],
      authority: [],
    });
  });

  it.each([
    ["nobody", "A"],
    ["nothing.joe", "A"],
    ["web-7.hello.joe", "A"],
    ["_https._tcp.hello.joe", "SRV"],
    ["_http._udp.hello.joe", "SRV"],
    ["_http.hello.joe", "SRV"],
    ["grpc-api.test1.root", "SRV"],
    ["ip-10-1-1-1.test1.root", "A"],
    ["ip-300-1-1-1.test1.root", "A"],
    ["a.web-0.hello.joe", "A"],
    ["web-0.hello.joe.joe", "A"],
    ["components.joe", "A"],
    ["%.hello.joe", "A"],
    ["\\046.joe", "A"],
    ["bü.joe", "A"],
  ])("[RG42] %s does not exist, and for how long is said", async (name, type) => {
    const answer = await (await zone())(`${name}.${DOMAIN}`, type);
    if (answer.rcode === RCODE.REFUSED) throw new Error(rcodeName(answer.rcode));
    expect(rcodeName(answer.rcode)).toBe("NXDOMAIN");
    expect(answer.authority).toMatchObject([{ type: "SOA", name: DOMAIN, minimumSeconds: 2 }]);
  });

  it.each([
    ["", "A"],
    ["ns", "A"],
    ["joe", "A"],
    ["anonymous", "A"],
    ["_tcp.hello.joe", "SRV"],
    ["hello.joe", "HTTPS"],
    ["web-0.hello.joe", "AAAA"],
    ["dark.joe", "A"],
    ["back.hello.joe", "A"],
    ["six.joe", "A"],
    ["http-api.named.joe", "A"],
  ])("[RG42] '%s' exists, without a record of type %s", async (name, type) => {
    const answer = await (await zone())(name === "" ? DOMAIN : `${name}.${DOMAIN}`, type);
    expect([rcodeName(answer.rcode), answer.answers]).toEqual(["NOERROR", []]);
    expect(answer.authority).toMatchObject([{ type: "SOA", name: DOMAIN, minimumSeconds: 2 }]);
  });

  it("[RG42] the zone has its SOA and its name server", async () => {
    const ask = await zone();
    expect((await ask("DEV.test", "SOA")).answers).toMatchObject([
      {
        name: "DEV.test",
        primary: "ns.dev.test",
        mailbox: "hostmaster.dev.test",
        serial: 1_408_638_082,
      },
    ]);
    expect((await ask(DOMAIN, "NS")).answers.map(shown)).toEqual(["NS ns.dev.test"]);
    expect((await ask(DOMAIN, "ANY")).answers.map(shown)).toEqual([
      "SOA ns.dev.test",
      "NS ns.dev.test",
    ]);
  });

  it("[RG42] aliases that go round in circles are no endless work", async () => {
    expect((await (await zone())(`loop.joe.${DOMAIN}`, "A")).rcode).toBe(RCODE.SERVFAIL);
  });

  it("[RG43] an answer has at most 64 records of a component's thousand", async () => {
    const registry = mapRegistry();
    const operations = Array.from({ length: 999 }, (_, number): RegistryOperation => {
      const ip = `10.1.${number >> 8}.${number & 255}`;
      const attributes = {
        "yarn:id": `container_${number}`,
        "yarn:persistence": "container",
        "yarn:component": "web",
        "yarn:ip": ip,
      };
      const each = record([uri("http://", `http://${ip}:80`)], attributes, `web-${number}`);
      const path = `${HELLO}/components/ctr-${number}`;
      return { op: "bind", path, record: each, overwrite: false, createParents: true };
    });
    await registry.transact(operations);
    const bind = RECORDS[HELLO] ?? record([]);
    await registry.bind(HELLO, bind, { overwrite: true });
    for (const type of Object.values({ ...DNS_TYPE, ANY: 255 })) {
      const answer = await registry.resolveName({ name: `web.hello.joe.${DOMAIN}`, type }, DOMAIN);
      expect(answer.answers.length).toBeLessThanOrEqual(64);
      expect(answer.additional.length).toBeLessThanOrEqual(64);
      if (type === DNS_TYPE.A) expect(answer.answers.length).toBe(64);
    }
  });

  it("[RG43] whatever is registered and asked, the answer is a message that can be read", async () => {
    const text = fc.oneof(
      fc.string({ unit: "binary", maxLength: 80 }),
      fc.stringMatching(/^[a-z0-9.:/_-]{0,80}$/),
      fc.constantFrom(
        "http://",
        "tcp://a",
        "10.0.0.1",
        "::1",
        "host.example.com",
        "hello.joe.dev.test",
      ),
    );
    const endpoint: fc.Arbitrary<Endpoint> = fc.oneof(
      fc
        .record({ api: text, host: text, port: fc.oneof(text, fc.nat(70_000).map(String)) })
        .map(({ api, host, port }) => tcp(api, host, port)),
      fc
        .record({ api: text, path: text, host: text })
        .map(({ api, path, host }) => uri(api, `http://${host}:80/${path}`)),
    );
    const name = fc.oneof(
      fc.constantFrom("x.joe", "c.x.joe", "_http._tcp.x.joe", "a-api.x.joe", "ip-10-0-0-1.x.joe"),
      text.map((each) => `${each}.x.joe`),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(endpoint, { maxLength: 5 }),
        text,
        text,
        name,
        fc.constantFrom(...Object.values(DNS_TYPE), 255, 65, 0),
        async (external, description, ip, asked, type) => {
          const registry = mapRegistry();
          const attributes = { "yarn:id": "c", "yarn:persistence": "container", "yarn:ip": ip };
          for (const [path, each] of [
            ["/users/joe/k/x", record(external)],
            ["/users/joe/k/x/components/c", record(external, attributes, description)],
          ] as const) {
            const operation = { op: "bind", path, record: each, overwrite: true } as const;
            await registry.transact([{ ...operation, createParents: true }]);
          }
          const question = { name: `${asked}.${DOMAIN}`, type };
          const answer = await registry.resolveName(question, DOMAIN);
          const bytes = encodeMessage(messageOf(answer));
          expect(decodeMessage(bytes)).toMatchObject({ answers: answer.answers });
        },
      ),
    );
  });
});

function messageOf(answer: DnsAnswer) {
  return {
    ...answer,
    id: 1,
    isResponse: true,
    opcode: 0,
    truncated: false,
    recursionDesired: false,
    recursionAvailable: false,
    checkingDisabled: false,
    questions: [],
    edns: null,
  };
}
