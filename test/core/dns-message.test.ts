import dnsPacket from "dns-packet";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { DnsRecord } from "../../src/shared/dns.ts";
import { isEncodableName } from "../../src/shared/dns-bytes.ts";
import { type DnsMessage, decodeMessage, encodeMessage } from "../../src/shared/dns-message.ts";
import {
  addressOfReverseName,
  formatIpAddress,
  parseIpAddress,
  reverseNameOf,
} from "../../src/shared/ip-address.ts";

const word = fc.nat(0xffff);
const long = fc.nat(0x7fff_ffff);
const label = fc.stringMatching(/^[a-zA-Z0-9_-]{1,20}$/);
const name = fc.array(label, { minLength: 1, maxLength: 5 }).map((labels) => labels.join("."));
const ip = (bytes: number) =>
  fc.array(fc.nat(255), { minLength: bytes, maxLength: bytes }).map(formatIpAddress);

const data = fc.oneof(
  fc.record({ type: fc.constant("A" as const), address: ip(4) }),
  fc.record({ type: fc.constant("AAAA" as const), address: ip(16) }),
  fc.record({
    type: fc.constantFrom("CNAME" as const, "NS" as const, "PTR" as const),
    target: name,
  }),
  fc.record({
    type: fc.constant("SRV" as const),
    priority: word,
    weight: word,
    port: word,
    target: name,
  }),
  fc.record({
    type: fc.constant("TXT" as const),
    strings: fc.array(fc.stringMatching(/^[ -~]{0,40}$/), { minLength: 1, maxLength: 4 }),
  }),
  fc.record({
    type: fc.constant("SOA" as const),
    primary: name,
    mailbox: name,
    serial: long,
    refreshSeconds: long,
    retrySeconds: long,
    expireSeconds: long,
    minimumSeconds: long,
  }),
);
const record = fc
  .record({ name, ttlSeconds: long, data })
  .map(({ data: rest, ...common }): DnsRecord => ({ ...common, ...rest }));
const records = fc.array(record, { maxLength: 8 });

const message: fc.Arbitrary<DnsMessage> = fc.record({
  id: word,
  isResponse: fc.boolean(),
  opcode: fc.nat(15),
  authoritative: fc.boolean(),
  truncated: fc.boolean(),
  recursionDesired: fc.boolean(),
  recursionAvailable: fc.boolean(),
  checkingDisabled: fc.boolean(),
  rcode: fc.nat(15),
  questions: fc.array(fc.record({ name, type: word, class: word }), { maxLength: 2 }),
  answers: records,
  authority: records,
  additional: records,
  edns: fc.option(
    fc.record({
      udpBytesMax: word,
      version: fc.nat(255),
      dnssecOk: fc.boolean(),
      padded: fc.boolean(),
    }),
  ),
});

/** Names in this test compare as DNS compares them: an earlier occurrence stands for a later one. */
const lower = (value: unknown) => JSON.stringify(value).toLowerCase();

describe("DNS messages", () => {
  it("[RG44] are read as they were written", () => {
    fc.assert(
      fc.property(message, (written) => {
        expect(lower(decodeMessage(encodeMessage(written)))).toBe(lower(written));
      }),
    );
  });

  it("[RG44] are what other programs read and write", () => {
    fc.assert(
      fc.property(message, ({ questions, ...written }) => {
        const { edns: _, ...plain } = written;
        const bytes = encodeMessage({ ...plain, questions: [], edns: null });
        const theirs = dnsPacket.decode(Buffer.from(bytes));
        expect(theirs.answers).toHaveLength(written.answers.length);
        // dns-packet writes without compression; read back, both must say the same.
        const again = dnsPacket.encode(theirs);
        const { answers, authority, additional } = written;
        expect(lower(pick(decodeMessage(again)))).toBe(lower({ answers, authority, additional }));
      }),
    );
  });

  it("[RG44] whatever is sent is a message or none, and never more work than its bytes", () => {
    const noise = fc.uint8Array({ maxLength: 600 });
    const damaged = fc
      .record({ message, at: fc.nat(), value: fc.nat(255), cut: fc.nat() })
      .map(({ message: whole, at, value, cut }) => {
        const bytes = encodeMessage(whole);
        bytes[at % bytes.length] = value;
        return cut % 3 === 0 ? bytes.slice(0, cut % bytes.length) : bytes;
      });
    fc.assert(
      fc.property(fc.oneof(noise, damaged), (bytes) => {
        const read = decodeMessage(bytes);
        if (read !== null) expect(decodeMessage(encodeMessage(read))).not.toBeNull();
      }),
      { numRuns: 2_000 },
    );
  });

  const question = (...nameBytes: number[]) => [
    ...[0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0],
    ...nameBytes,
    ...[0, 1, 0, 1],
  ];

  it.each([
    ["a pointer to itself", question(0xc0, 12)],
    ["a pointer forward", question(0xc0, 14)],
    ["a label of a reserved kind", question(0x41, 0x61, 0)],
    ["a label longer than the message", question(63, 0x61)],
    ["no end of the name", [0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0x61]],
    [
      "a name above 255 bytes",
      question(...new Array(5).fill([60, ...new Array(60).fill(97)]).flat(), 0),
    ],
    ["fewer questions than announced", question(0).with(5, 2)],
    ["bytes behind the end", [...question(0), 0]],
    [
      "two OPT records",
      [
        ...question(0).with(11, 2),
        0,
        0,
        41,
        2,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        41,
        2,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
      ],
    ],
    [
      "an option longer than its record",
      [...question(0).with(11, 1), 0, 0, 41, 2, 0, 0, 0, 0, 0, 0, 4, 0, 8, 0, 9],
    ],
    ["half a header", [0, 1, 1]],
    ["nothing", []],
  ])("[RG44] %s makes no message", (_, bytes) => {
    expect(decodeMessage(Uint8Array.from(bytes))).toBeNull();
  });

  it.each([
    [30, true],
    [100, false],
  ])("[RG44] a chain of %i pointers is followed: %s", (pointers, isRead) => {
    // The chain lies in a text, from the root's name at 12 upwards; the second record's name is its end.
    const textAt = 12 + 1 + 10 + 1;
    const chain = Array.from({ length: pointers }, (_, at) => {
      const target = at === 0 ? 12 : textAt + 2 * (at - 1);
      return [0xc0 | (target >> 8), target & 255];
    }).flat();
    const text = [0, 0, 16, 0, 1, 0, 0, 0, 0, 0, chain.length + 1, chain.length, ...chain];
    const end = textAt + chain.length - 2;
    const last = [0xc0 | (end >> 8), end & 255, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 10, 0, 0, 1];
    const header = [0, 1, 0x80, 0, 0, 0, 0, 2, 0, 0, 0, 0];
    const read = decodeMessage(Uint8Array.from([...header, ...text, ...last]));
    expect(read?.answers[1]).toEqual(
      isRead ? { type: "A", name: "", ttlSeconds: 0, address: "10.0.0.1" } : undefined,
    );
  });

  it("[RG44] bytes that are no letters survive, and so do dots inside a label", () => {
    const bytes = Uint8Array.from(question(4, 0x2e, 0x5c, 0xff, 0x41, 0));
    const read = decodeMessage(bytes);
    expect(read?.questions[0]?.name).toBe("\\.\\\\\\255A");
    expect(read && encodeMessage(read)).toEqual(bytes);
  });

  it("[RG44] what does not fit keeps its question and says so", () => {
    fc.assert(
      fc.property(message, (written) => {
        const bytes = encodeMessage(written, 512);
        const read = decodeMessage(bytes);
        expect(lower(read?.questions)).toBe(lower(written.questions));
        if (encodeMessage(written).length > 512 && !written.edns?.padded) {
          expect([read?.truncated, read?.answers]).toEqual([true, []]);
        }
      }),
    );
  });

  it("[RG44] a query that is padded gets a padded answer", () => {
    fc.assert(
      fc.property(message, (written) => {
        const edns = { udpBytesMax: 1232, version: 0, dnssecOk: false, padded: true };
        expect(encodeMessage({ ...written, edns }).length % 468).toBe(0);
      }),
    );
  });
});

describe("addresses", () => {
  it.each([
    ["10.0.0.5", "10.0.0.5", "5.0.0.10.in-addr.arpa"],
    ["2001:DB8:0:0:0:0:0:1", "2001:db8::1", null],
    ["::ffff:10.0.0.5", "::ffff:a00:5", null],
    ["::", "::", null],
    ["1:0:0:2:0:0:0:3", "1:0:0:2::3", null],
  ])("[RG41] %s is %s", (text, canonical, reverse) => {
    const bytes = parseIpAddress(text) ?? [];
    expect(formatIpAddress(bytes)).toBe(canonical);
    if (reverse !== null) expect(reverseNameOf(bytes)).toBe(reverse);
    expect(addressOfReverseName(reverseNameOf(bytes).toUpperCase())).toEqual(bytes);
  });

  it.each([
    "",
    "10.0.0",
    "10.0.0.256",
    "10.0.0.05",
    "1.2.3.4.",
    "1::2::3",
    "1:2",
    ":::",
    "g::",
    "fe80::1%eth0",
    "1:2:3:4:5:6:7:8:9",
    "1:2:3:4:5:6:7::8:9",
    "::1.2.3",
  ])("[RG41] %j is none", (text) => {
    expect(parseIpAddress(text)).toBeNull();
  });

  it.each([
    "5.0.0.10.in-addr.arpa.",
    "0.0.10.in-addr.arpa",
    "256.0.0.10.in-addr.arpa",
    "05.0.0.10.in-addr.arpa",
    "a.ip6.arpa",
    "x5.0.0.10.in-addr.arpa",
  ])("[RG41] %j is about no address", (text) => {
    expect(addressOfReverseName(text)).toBeNull();
  });

  it("[RG44] names that no message can carry are known beforehand", () => {
    expect(isEncodableName("")).toBe(true);
    expect(isEncodableName("a".repeat(63))).toBe(true);
    for (const bad of ["a".repeat(64), "a..b", ".a", "a.", `${"a.".repeat(127)}a`, "ü€", "\\999"]) {
      expect(isEncodableName(bad)).toBe(false);
    }
  });
});

function pick(read: DnsMessage | null) {
  return read && { answers: read.answers, authority: read.authority, additional: read.additional };
}
