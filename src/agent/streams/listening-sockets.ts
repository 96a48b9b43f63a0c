/**
 * Which TCP ports a container itself listens on. Containers of processes share the machine's network:
 * without a look at whose socket it is, whoever may connect to a container's ports could connect to
 * every service of the machine that trusts its loopback.
 */
import { readdirSync, readFileSync, readlinkSync } from "node:fs";

const LISTEN = "0A";

/** As /proc/PID/net/tcp and tcp6 have it. */
export type ListeningSocket = { readonly address: string; readonly inode: string };

/** Sockets that listen on the port, in the network of the process. */
export function listeningOn(pid: number, port: number): ListeningSocket[] {
  return ["tcp", "tcp6"].flatMap((table) => parseSockets(read(`/proc/${pid}/net/${table}`), port));
}

/** The lines of one table that listen on the port, with addresses as people write them. */
export function parseSockets(table: string, port: number): ListeningSocket[] {
  return table.split("\n").flatMap((line) => {
    const fields = line.trim().split(/\s+/);
    const [, local = "", , state] = fields;
    const [address = "", hexPort = ""] = local.split(":");
    const inode = fields[9];
    if (state !== LISTEN || Number.parseInt(hexPort, 16) !== port || inode === undefined) return [];
    return [{ address: parseAddress(address), inode }];
  });
}

/** Whether one of the processes holds the socket. */
export function isHeldBy(pids: readonly number[], { inode }: ListeningSocket): boolean {
  const wanted = `socket:[${inode}]`;
  return pids.some((pid) => openFiles(pid).includes(wanted));
}

/** Words of four bytes in the machine's order, which on all that Node.js runs on is little-endian. */
function parseAddress(hex: string): string {
  const words = hex.match(/.{8}/g) ?? [];
  const bytes = words.flatMap((word) => (word.match(/../g) ?? []).toReversed());
  if (bytes.length === 4) return bytes.map((byte) => Number.parseInt(byte, 16)).join(".");
  const groups = bytes.join("").toLowerCase().match(/.{4}/g) ?? [];
  return groups.map((group) => group.replace(/^0{1,3}/, "")).join(":");
}

function openFiles(pid: number): string[] {
  const directory = `/proc/${pid}/fd`;
  try {
    return readdirSync(directory).map((name) => {
      try {
        return readlinkSync(`${directory}/${name}`);
      } catch {
        return "";
      }
    });
  } catch {
    return [];
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
