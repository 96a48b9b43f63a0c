/** Addresses of DNS servers: as people write them, and as /etc/resolv.conf lists them. */
import { isIP } from "node:net";

export type ServerAddress = { readonly host: string; readonly port: number };

const DNS_PORT = 53;

/** `127.0.0.1:5353`, `127.0.0.1`, `[::1]:5353`, `::1`; null for what is no such address. */
export function parseServerAddress(text: string, defaultPort = DNS_PORT): ServerAddress | null {
  const bracketed = /^\[([^\]]+)\](?::(\d{1,5}))?$/.exec(text);
  const dotted = /^([\d.]+)(?::(\d{1,5}))?$/.exec(text);
  const [, host = text, digits] = bracketed ?? dotted ?? [];
  const port = digits === undefined ? defaultPort : Number(digits);
  return isIP(host) !== 0 && port <= 65_535 ? { host, port } : null;
}

export function formatServerAddress({ host, port }: ServerAddress): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** The servers of resolv.conf's text, in order. What it says beside them is for others. */
export function nameserversOf(resolvConf: string): readonly ServerAddress[] {
  return resolvConf.split("\n").flatMap((line) => {
    const [, text] = /^\s*nameserver\s+([^\s#;]+)/.exec(line) ?? [];
    // A zone (`fe80::1%eth0`) belongs to the address and is no part of what isIP knows.
    const address = text === undefined ? null : parseServerAddress(text);
    return address === null ? [] : [address];
  });
}

/** Addresses that only programs of this machine reach. */
export function isLoopback(host: string): boolean {
  return host === "::1" || /^127\./.test(host);
}

/** Whether what is sent to `upstream` arrives at `own`: then it is no upstream, but a loop. */
export function isSameServer(upstream: ServerAddress, own: ServerAddress): boolean {
  const everywhere = ["0.0.0.0", "::"];
  const here = upstream.host === own.host || everywhere.includes(upstream.host);
  return here && upstream.port === own.port;
}
