/**
 * A group of registry records and the DNS records that follow from it: addresses, SRV and TXT of
 * its external endpoints, under the names that facts/registry-dns.md §6.2 lists. Internal endpoints
 * are none of the outside's business. Records here have no name yet unless they are additional.
 */
import type { DnsRecord } from "../../shared/dns.ts";
import { isEncodableName } from "../../shared/dns-bytes.ts";
import { formatIpAddress, parseIpAddress } from "../../shared/ip-address.ts";
import { LIMITS } from "../../shared/limits.ts";
import type { Endpoint, ServiceRecord } from "../../shared/registry.ts";
import { readStoredRecord } from "../../shared/registry.ts";
import { lastElement, type RegistryPath } from "../../shared/registry-path.ts";
import { isPathElement } from "../../shared/registry-path-element.ts";

/** A node's record as its JSON text. */
export type StoredRecord = { readonly path: RegistryPath; readonly record: string };

/** One address of one endpoint. */
type Place = {
  /** The API's short name, such as `http`; empty for an API that has none. */
  readonly api: string;
  readonly protocol: "tcp" | "udp";
  /** The host's canonical address, or null where it is a name. */
  readonly ip: string | null;
  /** The name that SRV records point to; null where there is none that DNS could carry. */
  readonly target: string | null;
  readonly port: number | null;
  readonly uriPath: string | null;
};

/** What one name stands for. */
export type Group = {
  readonly places: readonly Place[];
  /** `yarn:ip` of the group's containers. */
  readonly containerIps: readonly string[];
  /** `yarn:id` of the group's containers. */
  readonly ids: readonly string[];
};

/** All records of one name, and those that spare whoever asked for SRV the next question. */
export type RecordsOfName = {
  readonly records: readonly DnsRecord[];
  readonly additional: readonly DnsRecord[];
};

/**
 * Containers move at any time, so an answer is kept for seconds: RegistryDNS says 1 s, which lets
 * every program ask for every connection; Kubernetes says 5 s.
 */
export const DNS_TTL_SECONDS = 5;
const TTL = { ttlSeconds: DNS_TTL_SECONDS, name: "" } as const;
const HOST_LABEL = "ip-";

/** `base` is the services' name in full: hosts that are addresses get a name below it. */
export function groupOf(
  base: string,
  services: readonly StoredRecord[],
  containers: readonly StoredRecord[],
  domain: string,
): Group {
  const places: Place[] = [];
  const containerIps: string[] = [];
  const ids: string[] = [];
  for (const stored of services) {
    places.push(...placesOf(readStoredRecord(stored.record), base, null));
  }
  for (const stored of containers) {
    const record = readStoredRecord(stored.record);
    const { "yarn:ip": ip, "yarn:id": id } = record.attributes;
    const address = typeof ip === "string" ? canonicalAddress(ip) : null;
    if (address !== null) containerIps.push(address);
    if (typeof id === "string") ids.push(id);
    places.push(...placesOf(record, containerNameOf(stored.path, domain), address));
  }
  return { places, containerIps, ids };
}

/** What stands at the group's own name. */
export function ownRecords(group: Group): RecordsOfName {
  const { places, containerIps, ids } = group;
  const isContainers = ids.length > 0 || containerIps.length > 0;
  const addresses = isContainers ? containerIps : places.flatMap(({ ip }) => ip ?? []);
  const alias = isContainers ? null : onlyHostName(places);
  // RFC 1034 §3.6.2: beside a CNAME there is nothing else.
  if (alias !== null)
    return { records: [{ ...TTL, type: "CNAME", target: alias }], additional: [] };
  const idTexts = ids.map((id): DnsRecord => ({ ...TTL, type: "TXT", strings: texts(`id=${id}`) }));
  const { records, additional } = placeRecords(places);
  return {
    records: distinct([...addresses.map(addressRecord), ...idTexts, ...records]),
    additional,
  };
}

/** `{api}-api.…`: one API of the group, with its addresses. Null for an API that it has not. */
export function apiRecords(group: Group, api: string): RecordsOfName | null {
  const places = group.places.filter((place) => place.api === api);
  if (places.length === 0) return null;
  const addresses = places.flatMap(({ ip }) => ip ?? []).map(addressRecord);
  const { records, additional } = placeRecords(places);
  return { records: distinct([...addresses, ...records]), additional };
}

/** `_{api}._tcp.…` (RFC 2782). */
export function serviceRecords(
  group: Group,
  api: string,
  protocol: "tcp" | "udp",
): RecordsOfName | null {
  const places = group.places.filter((place) => place.api === api && place.protocol === protocol);
  return places.length === 0 ? null : placeRecords(places);
}

/** `ip-10-0-0-5.…`: a host of the group that is an address; null where it has no such host. */
export function hostRecords(group: Group, address: string): RecordsOfName | null {
  if (!group.places.some(({ ip }) => ip === address)) return null;
  return { records: [addressRecord(address)], additional: [] };
}

/** The address that a label such as `ip-10-0-0-5` says; null for any other label. */
export function addressOfHostLabel(label: string): readonly number[] | null {
  if (!label.startsWith(HOST_LABEL)) return null;
  const parts = label.slice(HOST_LABEL.length).split("-");
  return parseIpAddress(parts.join(parts.length === 4 ? "." : ":"));
}

/** The full name of a container's instance, for PTR; null where its description is no label. */
export function instanceNameOf(stored: StoredRecord, domain: string): string | null {
  const description = readStoredRecord(stored.record).description?.toLowerCase() ?? "";
  const service = serviceNameOf(stored.path, domain);
  if (service === null || !isPathElement(description)) return null;
  const name = `${description}.${service}`;
  return isEncodableName(name) ? name : null;
}

/** Below its service, where only the service's owner can register. */
function containerNameOf(path: RegistryPath, domain: string): string {
  return `${lastElement(path)}.${serviceNameOf(path, domain) ?? domain}`;
}

/** The full name of the service whose component the path is; null where it is none. */
function serviceNameOf(path: RegistryPath, domain: string): string | null {
  const [, place, home, ...rest] = path.split("/");
  const service = rest.at(-3);
  if (service === undefined || rest.at(-2) !== "components") return null;
  const user = place === "users" ? home : "anonymous";
  return `${service}.${user}.${domain}`;
}

/** `own` is the address whose name is `base` itself: that of a container. */
function placesOf(record: ServiceRecord, base: string, own: string | null): readonly Place[] {
  return record.external.flatMap((endpoint) =>
    endpoint.addresses.flatMap((address): Place[] => {
      const where = hostAndPort(endpoint, address);
      if (where === null) return [];
      const ip = canonicalAddress(where.host);
      return [
        {
          api: apiLabel(endpoint.api),
          protocol: endpoint.protocolType.toLowerCase() === "udp" ? "udp" : "tcp",
          ip,
          target:
            ip === null ? hostName(where.host) : ip === own ? base : `${hostLabel(ip)}.${base}`,
          port: where.port,
          uriPath: where.path,
        },
      ];
    }),
  );
}

type Where = { readonly host: string; readonly port: number | null; readonly path: string | null };

const AUTHORITY =
  /^([a-z][a-z0-9+.-]*):\/\/(?:[^/?#@]*@)?(\[[^\]]*\]|[^:/?#]*)(?::(\d*))?([^?#]*)/i;
const DEFAULT_PORTS: Readonly<Record<string, number>> = { http: 80, https: 443, ws: 80, wss: 443 };

/** Null for an address that names no host, such as a path. */
function hostAndPort(endpoint: Endpoint, address: Endpoint["addresses"][number]): Where | null {
  const { host, port, uri } = address;
  if (endpoint.addressType !== "uri") {
    return host === undefined ? null : { host, port: portNumber(port ?? ""), path: null };
  }
  const [, scheme = "", named = "", digits = "", path = ""] = AUTHORITY.exec(uri ?? "") ?? [];
  if (named === "") return null;
  const given = digits === "" ? DEFAULT_PORTS[scheme.toLowerCase()] : portNumber(digits);
  return { host: named.replace(/^\[(.*)\]$/, "$1"), port: given ?? null, path };
}

function portNumber(text: string): number | null {
  return /^\d{1,5}$/.test(text) && Number(text) <= 65_535 ? Number(text) : null;
}

const HADOOP_API = "classpath:org.apache.hadoop.yarn.service.";

/**
 * The label of an API, Hadoop's where Hadoop has one: `appmaster-ipc` of
 * `classpath:org.apache.hadoop.yarn.service.appmaster.ipc`, and `http` of whatever begins with
 * `http://`. Else what stands behind the scheme, as far as a label can say it.
 */
function apiLabel(api: string): string {
  const web = /^(https?):\/\//i.exec(api)?.[1];
  if (web !== undefined) return web.toLowerCase();
  const text = api.startsWith(HADOOP_API)
    ? api.slice(HADOOP_API.length)
    : api.replace(/^[a-z][a-z0-9+.-]*:(?:\/\/)?/i, "");
  // `-api` must fit behind it.
  const label = text
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .slice(0, LIMITS.nameLengthMax - 4);
  return label.replace(/^-+/, "").replace(/-+$/, "");
}

function hostName(host: string): string | null {
  const name = host.toLowerCase().replace(/\.$/, "");
  return name.split(".").every(isPathElement) && isEncodableName(name) ? name : null;
}

function hostLabel(ip: string): string {
  const bytes = parseIpAddress(ip) ?? [];
  if (bytes.length === 4) return `${HOST_LABEL}${bytes.join("-")}`;
  const groups = Array.from({ length: 8 }, (_, at) =>
    ((bytes[2 * at] ?? 0) * 256 + (bytes[2 * at + 1] ?? 0)).toString(16),
  );
  return `${HOST_LABEL}${groups.join("-")}`;
}

/** The one name that all hosts are; null where there are several, or an address among them. */
function onlyHostName(places: readonly Place[]): string | null {
  const names = new Set(places.map(({ ip, target }) => (ip === null ? target : null)));
  const [name = null] = names;
  return names.size === 1 ? name : null;
}

function placeRecords(places: readonly Place[]): RecordsOfName {
  const records: DnsRecord[] = [];
  const additional: DnsRecord[] = [];
  for (const { api, ip, target, port, uriPath } of places) {
    if (port !== null && target !== null && isEncodableName(target)) {
      // Hadoop's priority and weight: every place is as good as any other.
      records.push({ ...TTL, type: "SRV", priority: 1, weight: 1, port, target });
      if (ip !== null) additional.push({ ...addressRecord(ip), name: target });
    }
    const said = [...texts(`api=${api}`), ...(uriPath === null ? [] : texts(`path=${uriPath}`))];
    if (api !== "") records.push({ ...TTL, type: "TXT", strings: said });
  }
  return { records: distinct(records), additional: distinct(additional) };
}

/** What a string of a TXT record can hold; longer or other text is left out. */
function texts(text: string): readonly string[] {
  return text.length <= 255 && /^[\x20-\x7e]*$/.test(text) ? [text] : [];
}

function addressRecord(address: string): DnsRecord {
  return { ...TTL, type: address.includes(":") ? "AAAA" : "A", address };
}

function canonicalAddress(text: string): string | null {
  const bytes = parseIpAddress(text);
  return bytes === null ? null : formatIpAddress(bytes);
}

function distinct(records: readonly DnsRecord[]): readonly DnsRecord[] {
  return [...new Map(records.map((record) => [JSON.stringify(record), record])).values()];
}
