/**
 * DNS as the registry speaks it: questions, records, answers (RFC 1035, 2782, 3596). Names are text
 * without a dot at the end, "" being the root; bytes that are no printable ASCII, and dots inside a
 * label, are escaped as in master files (`\046`), so that text and wire say exactly the same.
 */

export const DEFAULT_DOMAIN = "selvedge.internal";

/** Where the Worker answers DNS over HTTPS (RFC 8484), below a cluster's base URL. */
export const DNS_QUERY_PATH = "/dns-query";
export const DNS_MESSAGE_TYPE = "application/dns-message";
export const DNS_JSON_TYPE = "application/dns-json";

export const DNS_TYPE = {
  A: 1,
  NS: 2,
  CNAME: 5,
  SOA: 6,
  PTR: 12,
  TXT: 16,
  AAAA: 28,
  SRV: 33,
} as const;

/** Types of questions that no record has, or that have a meaning of their own here. */
export const QUESTION_TYPE = { OPT: 41, IXFR: 251, AXFR: 252, ANY: 255 } as const;

export const DNS_CLASS = { IN: 1, ANY: 255 } as const;

/** Names of further types that people ask for by name; the registry has no records of them. */
export const OTHER_TYPE_NAMES: Readonly<Record<string, number>> = {
  HINFO: 13,
  MX: 15,
  NAPTR: 35,
  DS: 43,
  RRSIG: 46,
  NSEC: 47,
  DNSKEY: 48,
  TLSA: 52,
  SVCB: 64,
  HTTPS: 65,
  ANY: 255,
  CAA: 257,
};

export const RCODE = {
  NOERROR: 0,
  FORMERR: 1,
  SERVFAIL: 2,
  NXDOMAIN: 3,
  NOTIMP: 4,
  REFUSED: 5,
  /** Of EDNS: says more than the header's four bits hold. */
  BADVERS: 16,
} as const;

export type DnsRecordType = keyof typeof DNS_TYPE;

export type SoaRecord = {
  readonly type: "SOA";
  readonly primary: string;
  readonly mailbox: string;
  readonly serial: number;
  readonly refreshSeconds: number;
  readonly retrySeconds: number;
  readonly expireSeconds: number;
  /** How long a negative answer may be kept (RFC 2308). */
  readonly minimumSeconds: number;
};

export type DnsRecord = { readonly name: string; readonly ttlSeconds: number } & (
  | { readonly type: "A" | "AAAA"; readonly address: string }
  | { readonly type: "CNAME" | "NS" | "PTR"; readonly target: string }
  | {
      readonly type: "SRV";
      readonly priority: number;
      readonly weight: number;
      readonly port: number;
      readonly target: string;
    }
  | { readonly type: "TXT"; readonly strings: readonly string[] }
  | SoaRecord
);

export type DnsQuestion = {
  /** In any case. */
  readonly name: string;
  readonly type: number;
};

/** What a server that knows the registry has to say to one question. */
export type DnsAnswer = {
  readonly rcode: number;
  /** False where the question is about a zone that the registry knows nothing of. */
  readonly authoritative: boolean;
  readonly answers: readonly DnsRecord[];
  readonly authority: readonly DnsRecord[];
  readonly additional: readonly DnsRecord[];
};

/** The registry as a name server; one read, and never a write. */
export interface RegistryNames {
  /** `domain` is the zone of the cluster's names, in lower case, without a dot at its end. */
  resolveName(question: DnsQuestion, domain: string): Promise<DnsAnswer>;
}

/** `AAAA`, or `TYPE65` (RFC 3597) for a type without a name here. */
export function typeName(type: number): string {
  const named = Object.entries({ ...DNS_TYPE, ...OTHER_TYPE_NAMES }).find(([, n]) => n === type);
  return named?.[0] ?? `TYPE${type}`;
}

/** The number of `AAAA`, `aaaa`, `28` or `TYPE28`; null for what is no type. */
export function parseTypeName(text: string): number | null {
  const digits = /^(?:type)?(\d{1,5})$/i.exec(text)?.[1];
  if (digits !== undefined) return Number(digits) <= 65_535 ? Number(digits) : null;
  const known: Readonly<Record<string, number>> = { ...DNS_TYPE, ...OTHER_TYPE_NAMES };
  const name = text.toUpperCase();
  return Object.hasOwn(known, name) ? (known[name] ?? null) : null;
}

export function rcodeName(rcode: number): string {
  return Object.entries(RCODE).find(([, number]) => number === rcode)?.[0] ?? `RCODE${rcode}`;
}

/**
 * Seconds for which an answer may be kept: the smallest TTL of what was asked for, or for a
 * negative one the zone's own rule (RFC 8484 §5.1, RFC 2308 §5). 0: not at all.
 */
export function freshnessSeconds({ rcode, answers, authority }: DnsAnswer): number {
  if (rcode !== RCODE.NOERROR && rcode !== RCODE.NXDOMAIN) return 0;
  const ttls = answers.map(({ ttlSeconds }) => ttlSeconds);
  for (const record of authority) {
    if (record.type === "SOA") ttls.push(Math.min(record.ttlSeconds, record.minimumSeconds));
  }
  return ttls.length === 0 ? 0 : Math.min(...ttls);
}

/** `name` is `zone` itself or below it, in any case. */
export function isWithin(name: string, zone: string): boolean {
  const lower = name.toLowerCase();
  return lower === zone || lower.endsWith(`.${zone}`);
}
