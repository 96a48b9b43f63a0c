/**
 * DNS messages as bytes (RFC 1035 §4, EDNS of RFC 6891), for the Worker and for the resolver on a
 * node. A reader of its own because input is hostile: every step is bounded, pointers go backwards
 * only, and whatever is not a message is null, never an exception. Writes compressed names.
 */
import { DNS_TYPE, type DnsRecord, type DnsRecordType, QUESTION_TYPE } from "./dns.ts";
import { MessageReader, MessageWriter } from "./dns-bytes.ts";
import { formatIpAddress, parseIpAddress } from "./ip-address.ts";

export type DnsMessageQuestion = {
  readonly name: string;
  readonly type: number;
  readonly class: number;
};

export type Edns = {
  /** The largest UDP answer that the sender takes. */
  readonly udpBytesMax: number;
  readonly version: number;
  readonly dnssecOk: boolean;
  /** The sender pads its messages against guesses from their length (RFC 7830). */
  readonly padded: boolean;
};

export type DnsMessage = {
  readonly id: number;
  readonly isResponse: boolean;
  readonly opcode: number;
  readonly authoritative: boolean;
  readonly truncated: boolean;
  readonly recursionDesired: boolean;
  readonly recursionAvailable: boolean;
  readonly checkingDisabled: boolean;
  /** With the upper bits that EDNS carries. */
  readonly rcode: number;
  readonly questions: readonly DnsMessageQuestion[];
  readonly answers: readonly DnsRecord[];
  readonly authority: readonly DnsRecord[];
  readonly additional: readonly DnsRecord[];
  readonly edns: Edns | null;
};

/** Bits of the header's second word. */
const FLAG = { QR: 0x8000, AA: 0x0400, TC: 0x0200, RD: 0x0100, RA: 0x0080, CD: 0x0010 } as const;
const DNSSEC_OK = 0x8000;
const PADDING_OPTION = 12;
const OPTION_HEADER_BYTES = 4;
/** RFC 8467: answers are padded to a multiple of it. */
const PADDING_BLOCK_BYTES = 468;
/** What a message over TCP, or over HTTPS, can have. */
export const MESSAGE_BYTES_MAX = 65_535;
/** Where a packet's fragments are lost least (DNS flag day 2020); what we offer and what we send. */
export const UDP_BYTES_MAX = 1_232;
/** What everybody takes without EDNS. */
export const UDP_BYTES_MIN = 512;

/**
 * The message, or null for bytes that are none. Records of types that are not in `DNS_TYPE` are
 * checked for their length and left out. More than one OPT record makes no message (RFC 6891).
 */
export function decodeMessage(bytes: Uint8Array): DnsMessage | null {
  const reader = new MessageReader(bytes);
  const id = reader.word();
  const flags = reader.word();
  const counts = [reader.word(), reader.word(), reader.word(), reader.word()];
  const [questionCount = 0, ...recordCounts] = counts;
  const questions: DnsMessageQuestion[] = [];
  for (let n = 0; n < questionCount && reader.isSound; n++) {
    questions.push({ name: reader.name(), type: reader.word(), class: reader.word() });
  }
  let opt: OptRecord | null = null;
  const sections = recordCounts.map((count) => {
    const records: DnsRecord[] = [];
    for (let n = 0; n < count && reader.isSound; n++) {
      const read = readRecord(reader);
      if (read === null) continue;
      if (read.type !== "OPT") records.push(read);
      else if (opt === null) opt = read;
      else reader.fail();
    }
    return records;
  });
  if (!reader.isSound || !reader.isAtEnd) return null;
  return {
    id,
    isResponse: (flags & FLAG.QR) !== 0,
    opcode: (flags >> 11) & 15,
    authoritative: (flags & FLAG.AA) !== 0,
    truncated: (flags & FLAG.TC) !== 0,
    recursionDesired: (flags & FLAG.RD) !== 0,
    recursionAvailable: (flags & FLAG.RA) !== 0,
    checkingDisabled: (flags & FLAG.CD) !== 0,
    rcode: (flags & 15) | (upperRcodeOf(opt) << 4),
    questions,
    answers: sections[0] ?? [],
    authority: sections[1] ?? [],
    additional: sections[2] ?? [],
    edns: ednsOf(opt),
  };
}

/**
 * The message's bytes, at most `bytesMax`: what is longer keeps its question alone and says that it
 * is truncated. All names and texts must fit (`isEncodableName`); others are a programmer's error.
 */
export function encodeMessage(message: DnsMessage, bytesMax = MESSAGE_BYTES_MAX): Uint8Array {
  const whole = write(message, bytesMax);
  if (whole.length <= bytesMax) return whole;
  const none = { answers: [], authority: [], additional: [] };
  return write({ ...message, ...none, truncated: true }, bytesMax);
}

function write(message: DnsMessage, bytesMax: number): Uint8Array {
  const writer = new MessageWriter();
  writer.word(message.id);
  writer.word(flagsOf(message));
  writer.word(message.questions.length);
  writer.word(message.answers.length);
  writer.word(message.authority.length);
  writer.word(message.additional.length + (message.edns === null ? 0 : 1));
  for (const question of message.questions) {
    writer.name(question.name);
    writer.word(question.type);
    writer.word(question.class);
  }
  for (const record of [...message.answers, ...message.authority, ...message.additional]) {
    writeRecord(writer, record);
  }
  if (message.edns !== null) writeEdns(writer, message.edns, message.rcode >> 4, bytesMax);
  return writer.bytes();
}

function flagsOf(message: DnsMessage): number {
  let flags = ((message.opcode & 15) << 11) | (message.rcode & 15);
  if (message.isResponse) flags |= FLAG.QR;
  if (message.authoritative) flags |= FLAG.AA;
  if (message.truncated) flags |= FLAG.TC;
  if (message.recursionDesired) flags |= FLAG.RD;
  if (message.recursionAvailable) flags |= FLAG.RA;
  if (message.checkingDisabled) flags |= FLAG.CD;
  return flags;
}

function writeEdns(writer: MessageWriter, edns: Edns, upperRcode: number, bytesMax: number): void {
  writer.byte(0);
  writer.word(QUESTION_TYPE.OPT);
  writer.word(edns.udpBytesMax);
  writer.byte(upperRcode);
  writer.byte(edns.version);
  writer.word(edns.dnssecOk ? DNSSEC_OK : 0);
  const withoutPadding = writer.length + 2 + OPTION_HEADER_BYTES;
  const padded = Math.ceil(withoutPadding / PADDING_BLOCK_BYTES) * PADDING_BLOCK_BYTES;
  if (!edns.padded || padded > bytesMax) {
    writer.word(0);
    return;
  }
  const paddingBytes = padded - withoutPadding;
  writer.word(OPTION_HEADER_BYTES + paddingBytes);
  writer.word(PADDING_OPTION);
  writer.word(paddingBytes);
  for (let n = 0; n < paddingBytes; n++) writer.byte(0);
}

function writeRecord(writer: MessageWriter, record: DnsRecord): void {
  writer.name(record.name);
  writer.word(DNS_TYPE[record.type]);
  writer.word(1);
  writer.long(record.ttlSeconds);
  writer.sized(() => writeData(writer, record));
}

function writeData(writer: MessageWriter, record: DnsRecord): void {
  switch (record.type) {
    case "A":
    case "AAAA":
      for (const byte of parseIpAddress(record.address) ?? []) writer.byte(byte);
      return;
    case "CNAME":
    case "NS":
    case "PTR":
      writer.name(record.target);
      return;
    case "SRV":
      writer.word(record.priority);
      writer.word(record.weight);
      writer.word(record.port);
      // RFC 2782: the target's name is not compressed.
      writer.wholeName(record.target);
      return;
    case "TXT":
      for (const text of record.strings) writer.string(text);
      return;
    case "SOA":
      writer.name(record.primary);
      writer.name(record.mailbox);
      writer.long(record.serial);
      writer.long(record.refreshSeconds);
      writer.long(record.retrySeconds);
      writer.long(record.expireSeconds);
      writer.long(record.minimumSeconds);
  }
}

type OptRecord = { readonly type: "OPT"; readonly edns: Edns; readonly upperRcode: number };

const TYPE_NAMES = new Map<number, DnsRecordType>(
  Object.entries(DNS_TYPE).map(([name, type]) => [type, name as DnsRecordType]),
);

/** Null for a record of another type or class. The reader fails where its length does not fit. */
function readRecord(reader: MessageReader): DnsRecord | OptRecord | null {
  const name = reader.name();
  const type = reader.word();
  const recordClass = reader.word();
  const ttlSeconds = reader.long();
  const end = reader.endAfter(reader.word());
  if (!reader.isSound) return null;
  if (type === QUESTION_TYPE.OPT) {
    if (name !== "") reader.fail();
    return readEdns(reader, recordClass, ttlSeconds, end);
  }
  const known = TYPE_NAMES.get(type);
  if (known === undefined || recordClass !== 1) {
    reader.skipTo(end);
    return null;
  }
  const record = readData(reader, known, { name, ttlSeconds }, end);
  if (reader.offset !== end) reader.fail();
  return record;
}

function readEdns(reader: MessageReader, size: number, ttl: number, end: number): OptRecord {
  let padded = false;
  while (reader.isSound && reader.offset < end) {
    if (reader.word() === PADDING_OPTION) padded = true;
    reader.skipTo(reader.endAfter(reader.word()));
    if (reader.offset > end) reader.fail();
  }
  const version = (ttl >>> 16) & 255;
  const edns = { udpBytesMax: size, version, dnssecOk: (ttl & DNSSEC_OK) !== 0, padded };
  return { type: "OPT", edns, upperRcode: ttl >>> 24 };
}

function readData(
  reader: MessageReader,
  type: DnsRecordType,
  common: { readonly name: string; readonly ttlSeconds: number },
  end: number,
): DnsRecord {
  switch (type) {
    case "A":
    case "AAAA":
      if (end - reader.offset !== (type === "A" ? 4 : 16)) reader.fail();
      return { ...common, type, address: formatIpAddress(reader.take(end)) };
    case "CNAME":
    case "NS":
    case "PTR":
      return { ...common, type, target: reader.name() };
    case "SRV": {
      const [priority, weight, port] = [reader.word(), reader.word(), reader.word()];
      return { ...common, type, priority, weight, port, target: reader.name() };
    }
    case "TXT": {
      const strings: string[] = [];
      while (reader.isSound && reader.offset < end) strings.push(reader.string());
      return { ...common, type, strings };
    }
    case "SOA":
      return {
        ...common,
        type,
        primary: reader.name(),
        mailbox: reader.name(),
        serial: reader.long(),
        refreshSeconds: reader.long(),
        retrySeconds: reader.long(),
        expireSeconds: reader.long(),
        minimumSeconds: reader.long(),
      };
  }
}

function upperRcodeOf(opt: OptRecord | null): number {
  return opt?.upperRcode ?? 0;
}

function ednsOf(opt: OptRecord | null): Edns | null {
  return opt?.edns ?? null;
}
