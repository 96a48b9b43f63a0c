/**
 * Which addresses a node connects to on a user's behalf. The user chooses the URL, but the network
 * is the operator's: without this check a resource could be the cloud's metadata service
 * (169.254.169.254), another machine of the rack, or this agent's host. Names are resolved here, and
 * the connection is made to the very address that was checked, so that a name which changes its
 * address in between (DNS rebinding) gains nothing.
 */
import { lookup as resolveName } from "node:dns";
import { BlockList, isIP, type LookupFunction } from "node:net";
import { formatIpAddress, parseIpAddress } from "../../shared/ip-address.ts";
import { LocalizationFailure } from "./localization-failure.ts";

/** IANA's special-purpose registries (RFC 6890), multicast and what was reserved. */
const NOT_PUBLIC_IPV4 = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4",
];
/** Only 2000::/3 is global unicast; of it, what is documentation or carries an IPv4 address. */
const PUBLIC_IPV6 = "2000::/3";
const NOT_PUBLIC_IPV6 = ["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"];
/** NAT64 (RFC 6052): the last four bytes are the IPv4 address that is meant. */
const NAT64_PREFIX = "64:ff9b::";

export class AddressPolicy {
  readonly #notPublic = blockListOf([...NOT_PUBLIC_IPV4, ...NOT_PUBLIC_IPV6]);
  readonly #globalIpv6 = blockListOf([PUBLIC_IPV6]);
  readonly #allowed: BlockList;

  /** `allowed`: addresses or CIDR ranges that are fine although they are not public. */
  constructor(allowed: readonly string[]) {
    this.#allowed = blockListOf(allowed);
  }

  /** True for a public address, and for what the operator allows. */
  permits(address: string): boolean {
    const bytes = parseIpAddress(address);
    if (bytes === null) return false;
    const plain = embeddedIpv4(bytes) ?? address;
    const family = plain.includes(":") ? "ipv6" : "ipv4";
    if (this.#allowed.check(plain, family)) return true;
    if (this.#notPublic.check(plain, family)) return false;
    return family === "ipv4" || this.#globalIpv6.check(plain, family);
  }

  /** Throws when the URL's host is an address that is not permitted. Names are checked by `lookup`. */
  checkLiteral(url: URL): void {
    const host = url.hostname.replace(/^\[|\]$/g, "");
    if (isIP(host) !== 0 && !this.permits(host)) throw refused(host);
  }

  /**
   * For `http.request`: resolves a name and hands on its addresses only if each is permitted.
   * `exempt` are names that the operator chose himself, those of his proxies.
   */
  lookup(exempt: ReadonlySet<string> = new Set()): LookupFunction {
    return (hostname, options, callback) => {
      resolveName(hostname, { ...options, all: true }, (error, addresses) => {
        if (error) return callback(error, "");
        const bad = addresses.find(({ address }) => !this.permits(address));
        if (bad !== undefined && !exempt.has(hostname)) {
          return callback(refused(`${hostname} (${bad.address})`), "");
        }
        const [first] = addresses;
        if (options.all === true || first === undefined) return callback(null, addresses);
        callback(null, first.address, first.family);
      });
    };
  }
}

function refused(what: string): LocalizationFailure {
  return new LocalizationFailure("PERMISSION_DENIED", `${what} is not a public address`, {
    hint: "the node's operator can allow it by its address or range",
  });
}

/** The IPv4 address inside an IPv4-mapped (::ffff:0:0/96) or NAT64 address. */
function embeddedIpv4(bytes: readonly number[]): string | undefined {
  if (bytes.length !== 16) return undefined;
  const last = formatIpAddress(bytes.slice(12));
  const isMapped = bytes.slice(0, 12).every((byte, at) => byte === (at < 10 ? 0 : 255));
  const nat64 = parseIpAddress(NAT64_PREFIX)?.slice(0, 12) ?? [];
  const isNat64 = bytes.slice(0, 12).every((byte, at) => byte === nat64[at]);
  return isMapped || isNat64 ? last : undefined;
}

function blockListOf(ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = "", bits] = range.split("/");
    const bytes = parseIpAddress(address);
    if (bytes === null) throw new Error(`"${range}" is no IP address or CIDR range`);
    const family = bytes.length === 4 ? "ipv4" : "ipv6";
    list.addSubnet(address, bits === undefined ? bytes.length * 8 : Number(bits), family);
  }
  return list;
}
