/**
 * IP addresses as text and bytes, in both directions, and as names of the reverse zones (RFC 1035
 * §3.5, RFC 3596 §2.5). Addresses of one kind compare as their canonical text (RFC 5952).
 */

/** 4 or 16 bytes; null for text that is no address. Zones (`%eth0`) are none. */
export function parseIpAddress(text: string): readonly number[] | null {
  return text.includes(":") ? parseIpv6(text) : parseIpv4(text);
}

/** Dotted, or for 16 bytes the canonical text of RFC 5952: lower case, longest run of zeros cut. */
export function formatIpAddress(bytes: readonly number[]): string {
  if (bytes.length === 4) return bytes.join(".");
  const groups = Array.from(
    { length: 8 },
    (_, at) => byteAt(bytes, 2 * at) * 256 + byteAt(bytes, 2 * at + 1),
  );
  const run = longestZeroRun(groups);
  const text = (part: readonly number[]) => part.map((group) => group.toString(16)).join(":");
  if (run.length < 2) return text(groups);
  return `${text(groups.slice(0, run.start))}::${text(groups.slice(run.start + run.length))}`;
}

/** `5.0.0.10.in-addr.arpa` of 10.0.0.5, or the nibbles below `ip6.arpa`. */
export function reverseNameOf(bytes: readonly number[]): string {
  if (bytes.length === 4) return `${bytes.toReversed().join(".")}.in-addr.arpa`;
  const nibbles = bytes.flatMap((byte) => [byte >> 4, byte & 15]).toReversed();
  return `${nibbles.map((nibble) => nibble.toString(16)).join(".")}.ip6.arpa`;
}

/** The address that a name of a reverse zone is about; null for one that is about no single one. */
export function addressOfReverseName(name: string): readonly number[] | null {
  const v4 = /^((?:(?:0|[1-9]\d{0,2})\.){4})in-addr\.arpa$/i.exec(name);
  if (v4?.[1] !== undefined) {
    const bytes = v4[1].split(".").slice(0, 4).map(Number).toReversed();
    return bytes.every((byte) => byte <= 255) ? bytes : null;
  }
  const v6 = /^((?:[0-9a-f]\.){32})ip6\.arpa$/i.exec(name);
  if (v6?.[1] === undefined) return null;
  const nibbles = v6[1].split(".").slice(0, 32).toReversed();
  return Array.from({ length: 16 }, (_, at) =>
    Number.parseInt(nibbles.slice(2 * at, 2 * at + 2).join(""), 16),
  );
}

function parseIpv4(text: string): readonly number[] | null {
  if (!/^(?:(?:0|[1-9]\d{0,2})(?:\.|$)){4}$/.test(text) || text.endsWith(".")) return null;
  const bytes = text.split(".").map(Number);
  return bytes.every((byte) => byte <= 255) ? bytes : null;
}

function parseIpv6(text: string): readonly number[] | null {
  const halves = text.split("::");
  if (halves.length > 2) return null;
  const parts = halves.map((half) => (half === "" ? [] : half.split(":").map(groupBytes)));
  const [head = [], tail = []] = parts.map((half) => half.flat());
  if (parts.flat().includes(null)) return null;
  const given = [...head, ...tail].filter((byte) => byte !== null);
  if (halves.length === 1) return given.length === 16 ? given : null;
  const missing = 16 - given.length;
  if (missing < 2) return null;
  const before = head.filter((byte) => byte !== null);
  return [...before, ...new Array<number>(missing).fill(0), ...given.slice(before.length)];
}

/** Two bytes of a group, four of a dotted tail; null for what is neither. */
function groupBytes(group: string): number[] | null {
  if (group.includes(".")) return parseIpv4(group)?.slice() ?? null;
  if (!/^[0-9a-f]{1,4}$/i.test(group)) return null;
  const value = Number.parseInt(group, 16);
  return [value >> 8, value & 255];
}

function longestZeroRun(groups: readonly number[]): { start: number; length: number } {
  let best = { start: 0, length: 0 };
  for (let start = 0; start < groups.length; start++) {
    let length = 0;
    while (groups[start + length] === 0) length += 1;
    if (length > best.length) best = { start, length };
  }
  return best;
}

function byteAt(bytes: readonly number[], at: number): number {
  return bytes[at] ?? 0;
}
