/**
 * The registry as a name server: one question in, one answer out, every lookup an indexed read.
 * Names as Hadoop's RegistryDNS makes them (facts/registry-dns.md §6); docs/dns.md has what differs.
 * The labels of a name are put together as groups of records: those of one service, of one
 * component, of one instance or of one container; `dns-group.ts` turns a group into DNS records.
 */
import {
  DNS_TYPE,
  type DnsAnswer,
  type DnsQuestion,
  type DnsRecord,
  isWithin,
  QUESTION_TYPE,
  RCODE,
  type SoaRecord,
} from "../../shared/dns.ts";
import { isEncodableName } from "../../shared/dns-bytes.ts";
import { addressOfReverseName, formatIpAddress } from "../../shared/ip-address.ts";
import { LIMITS } from "../../shared/limits.ts";
import { type RegistryPath, SERVICES, USERS } from "../../shared/registry-path.ts";
import { isPathElement } from "../../shared/registry-path-element.ts";
import {
  addressOfHostLabel,
  apiRecords,
  DNS_TTL_SECONDS,
  type Group,
  groupOf,
  hostRecords,
  instanceNameOf,
  ownRecords,
  type RecordsOfName,
  type StoredRecord,
  serviceRecords,
} from "./dns-group.ts";

/** What the name server needs of a store. Each call answers at most `limit` records, by parent. */
export interface NameIndex {
  has(path: RegistryPath): boolean;
  /** Records with this last element, `below` or at its place, that are no container's. */
  servicesNamed(name: string, below: RegistryPath, limit: number): readonly StoredRecord[];
  /** The container's record at the path. */
  containerAt(path: RegistryPath): StoredRecord | null;
  /** Containers' records with this last element, anywhere. */
  containersNamed(name: string, limit: number): readonly StoredRecord[];
  /** Containers' records right below `parent`, of one component or instance, or all of them by
   * component. Both are compared in lower case, as far as that is ASCII. */
  containersBelow(
    parent: RegistryPath,
    which: "all" | { readonly component: string } | { readonly instance: string },
    limit: number,
  ): readonly StoredRecord[];
  /** Containers' records whose `yarn:ip` is this text. */
  containersAt(ip: string, limit: number): readonly StoredRecord[];
}

/** Somebody who asked too early waits no longer than this for a service that has just started. */
const NEGATIVE_TTL_SECONDS = 2;
/** RegistryDNS's name for who owns what is not in anybody's home. */
const ANONYMOUS = "anonymous";
/** Named in SOA and NS. It has no address: the zone is served over HTTPS alone. */
const NAME_SERVER = "ns";
/** A service may stand in several classes of one home; more of them are no name any more. */
const SERVICES_PER_NAME_MAX = 8;
const CNAMES_MAX = 4;
const PROTOCOLS = ["_tcp", "_udp"];

/**
 * Answers one question of class IN. `domain` is the zone, in lower case without a dot at its end.
 * REFUSED for names outside of it, but the addresses of the registry's containers have names in
 * the reverse zones too. Never fails: what cannot be looked up does not exist.
 */
export function resolveName(
  index: NameIndex,
  question: DnsQuestion,
  domain: string,
  nowMs: number,
): DnsAnswer {
  const { type } = question;
  const soa = soaOf(domain, domain, nowMs);
  const isTransfer = type === QUESTION_TYPE.AXFR || type === QUESTION_TYPE.IXFR;
  if (isTransfer || !isEncodableName(question.name)) return refused();
  if (!isWithin(question.name, domain)) return resolveReverse(index, question, domain, nowMs);
  const found: DnsRecord[] = [];
  const additional: DnsRecord[] = [];
  let name = question.name;
  for (let step = 0; step <= CNAMES_MAX; step++) {
    const labels = labelsBelow(name, domain);
    const atName =
      labels.length === 0 ? apexRecords(soa, domain) : recordsAt(index, labels, domain);
    if (atName === null) return answer(RCODE.NXDOMAIN, found, [soa], additional);
    const matching = atName.records.filter((record) => matches(record, type));
    for (const record of bounded(matching)) found.push({ ...record, name });
    for (const record of bounded(atName.additional)) {
      if (matching.some((each) => each.type === "SRV")) additional.push(record);
    }
    const alias = atName.records.find((record) => record.type === "CNAME");
    if (matching.length > 0) return answer(RCODE.NOERROR, found, [], additional);
    if (alias?.type !== "CNAME") return answer(RCODE.NOERROR, found, [soa], additional);
    found.push({ ...alias, name });
    if (!isWithin(alias.target, domain)) return answer(RCODE.NOERROR, found, [], additional);
    name = alias.target;
  }
  return answer(RCODE.SERVFAIL, [], [], []);
}

/** Null: there is no such name, nor any below it. */
function recordsAt(
  index: NameIndex,
  labels: readonly string[],
  domain: string,
): RecordsOfName | null {
  const [first = "", second = "", ...rest] = labels;
  if (PROTOCOLS.includes(first)) {
    return groupAt(index, labels.slice(1), domain) === null ? null : EMPTY;
  }
  if (first.startsWith("_")) {
    if (!PROTOCOLS.includes(second)) return null;
    const group = groupAt(index, rest, domain);
    return group && serviceRecords(group, first.slice(1), second === "_udp" ? "udp" : "tcp");
  }
  const own = groupAt(index, labels, domain);
  if (own !== null) return ownRecords(own);
  if (labels.length === 1) return null;
  const api = /^(.+)-api$/.exec(first)?.[1];
  const address = addressOfHostLabel(first);
  if (api === undefined && address === null) return null;
  const parent = groupAt(index, labels.slice(1), domain);
  if (parent === null) return null;
  if (api !== undefined) return apiRecords(parent, api);
  return address === null ? null : hostRecords(parent, formatIpAddress(address));
}

/** The records that a name without prefix stands for; null where there are none. */
function groupAt(index: NameIndex, labels: readonly string[], domain: string): Group | null {
  // What is no element of a path cannot be in the registry; and it never reaches the store. The
  // names of instances are descriptions, which are free text: they are only compared.
  if (labels.slice(-2).some((label) => !isPathElement(label))) return null;
  const base = [...labels, domain].join(".");
  const [user = "", service = "", member, ...deeper] = labels.toReversed();
  if (labels.length === 0 || deeper.length > 0) return null;
  if (labels.length === 1) {
    const containers = index.containersNamed(user, SERVICES_PER_NAME_MAX);
    // Anybody may register below their own home under anybody's container id: when two homes claim
    // a name, it is nobody's. Names below a service need no such care.
    const homes = new Set(containers.map(({ path }) => path.split("/", 3).join("/")));
    if (homes.size === 1) return groupOf(base, [], containers, domain);
    const isName = [NAME_SERVER, ANONYMOUS].includes(user) || index.has(`${USERS}/${user}`);
    return isName ? groupOf(base, [], [], domain) : null;
  }
  const services = servicesOf(index, user, service);
  if (services.length === 0) return null;
  if (member === undefined) {
    const records = groupOf(base, services, [], domain);
    if (records.places.length > 0) return records;
    const containers = containersOf(index, services, "all");
    return groupOf(base, services, containers, domain);
  }
  const all = new Map<RegistryPath, StoredRecord>();
  for (const container of [
    ...containersOf(index, services, { instance: member }),
    ...containersOf(index, services, { component: member }),
    ...(isPathElement(member) ? containersAtElement(index, services, member) : []),
  ]) {
    all.set(container.path, container);
  }
  const containers = [...all.values()];
  return containers.length === 0 ? null : groupOf(base, [], containers, domain);
}

/** The places that belong to no user come first: a user named like them takes nothing over. */
function servicesOf(index: NameIndex, user: string, name: string): readonly StoredRecord[] {
  const shared =
    user === ANONYMOUS ? index.servicesNamed(name, SERVICES, SERVICES_PER_NAME_MAX) : [];
  if (shared.length > 0) return shared;
  return index.servicesNamed(name, `${USERS}/${user}`, SERVICES_PER_NAME_MAX);
}

function containersOf(
  index: NameIndex,
  services: readonly StoredRecord[],
  which: Parameters<NameIndex["containersBelow"]>[1],
): readonly StoredRecord[] {
  const found = services.flatMap(({ path }) =>
    index.containersBelow(`${path}/components`, which, LIMITS.dnsRecordsPerAnswerMax),
  );
  return found.slice(0, LIMITS.dnsRecordsPerAnswerMax);
}

function containersAtElement(
  index: NameIndex,
  services: readonly StoredRecord[],
  element: string,
): readonly StoredRecord[] {
  return services.flatMap(({ path }) => index.containerAt(`${path}/components/${element}`) ?? []);
}

/** Every address is a zone of its own: of its neighbours the registry knows nothing. */
function resolveReverse(
  index: NameIndex,
  { name, type }: DnsQuestion,
  domain: string,
  nowMs: number,
): DnsAnswer {
  const address = addressOfReverseName(name);
  if (address === null) return refused();
  const most = LIMITS.dnsRecordsPerAnswerMax;
  const containers = index.containersAt(formatIpAddress(address), most);
  const targets = new Set<string>();
  for (const container of containers) {
    const target = instanceNameOf(container, domain);
    if (target !== null) targets.add(target);
  }
  if (targets.size === 0) return refused();
  const soa = soaOf(name.toLowerCase(), domain, nowMs);
  if (type !== DNS_TYPE.PTR && type !== QUESTION_TYPE.ANY) {
    return answer(RCODE.NOERROR, type === DNS_TYPE.SOA ? [soa] : [], [soa], []);
  }
  const found = [...targets].map(
    (target): DnsRecord => ({ type: "PTR", name, ttlSeconds: DNS_TTL_SECONDS, target }),
  );
  return answer(RCODE.NOERROR, found, [], []);
}

const EMPTY: RecordsOfName = { records: [], additional: [] };

function apexRecords(soa: DnsRecord, domain: string): RecordsOfName {
  const target = `${NAME_SERVER}.${domain}`;
  const nameServer: DnsRecord = { type: "NS", name: domain, ttlSeconds: DNS_TTL_SECONDS, target };
  return { records: [soa, nameServer], additional: [] };
}

function soaOf(zone: string, domain: string, nowMs: number): DnsRecord & SoaRecord {
  return {
    type: "SOA",
    name: zone,
    ttlSeconds: NEGATIVE_TTL_SECONDS,
    primary: `${NAME_SERVER}.${domain}`,
    mailbox: `hostmaster.${domain}`,
    // The zone may change at any time, and nobody transfers it: the time is its version.
    serial: Math.floor(nowMs / 1_000) % 2 ** 32,
    refreshSeconds: 86_400,
    retrySeconds: 7_200,
    expireSeconds: 1_209_600,
    minimumSeconds: NEGATIVE_TTL_SECONDS,
  };
}

function labelsBelow(name: string, domain: string): readonly string[] {
  const below = name.toLowerCase().slice(0, -domain.length - 1);
  return below === "" ? [] : below.split(".");
}

function matches(record: DnsRecord, type: number): boolean {
  return type === QUESTION_TYPE.ANY || DNS_TYPE[record.type] === type;
}

function bounded(records: RecordsOfName["records"]): RecordsOfName["records"] {
  return records.slice(0, LIMITS.dnsRecordsPerAnswerMax);
}

function answer(
  rcode: number,
  answers: readonly DnsRecord[],
  authority: readonly DnsRecord[],
  additional: readonly DnsRecord[],
): DnsAnswer {
  return { rcode, authoritative: true, answers, authority, additional };
}

function refused(): DnsAnswer {
  const { REFUSED } = RCODE;
  return { rcode: REFUSED, authoritative: false, answers: [], authority: [], additional: [] };
}
