/**
 * The registry's peers, as Debian packages them: each a single server with its defaults, that writes
 * to the disk before it answers, with nothing stored.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { cpuSecondsOf, rssMbOf } from "./process-usage.ts";
import { anyPort } from "./registry-servers.ts";

export type PeerName = "etcd" | "zookeeper";

export type PeerServer = {
  readonly name: PeerName;
  readonly port: number;
  cpuSeconds(): number;
  rssMb(): number;
  /** Ends the server and deletes all it has stored. */
  dispose(): Promise<void>;
};

export const HOST = "127.0.0.1";
const START_MAX_MS = 60_000;
const ZOOKEEPER = "/usr/share/java/zookeeper.jar";
/** Its logger is told to say nothing. */
export const ZOOKEEPER_CLASSES = `${ZOOKEEPER}:/usr/share/java/slf4j-nop.jar`;

const NEEDS: Readonly<Record<PeerName, readonly { file: string; packages: string }[]>> = {
  etcd: [{ file: "/usr/bin/etcd", packages: "etcd-server" }],
  zookeeper: [
    { file: ZOOKEEPER, packages: "zookeeper libzookeeper-java" },
    { file: "/usr/bin/javac", packages: "default-jdk-headless" },
  ],
};

export function isPeerName(name: string): name is PeerName {
  return Object.hasOwn(NEEDS, name);
}

/** A sentence for people, or null where the peer can be started. */
export function whatIsMissing(peer: PeerName): string | null {
  const missing = NEEDS[peer].filter(({ file }) => !isThere(file));
  if (missing.length === 0) return null;
  const files = missing.map(({ file }) => file).join(" and ");
  const packages = missing.map((each) => each.packages).join(" ");
  return `${peer} is not measured: ${files} is missing; apt-get install -y --no-install-recommends ${packages}`;
}

function isThere(file: string): boolean {
  try {
    accessSync(file);
    return true;
  } catch {
    return false;
  }
}

export async function startPeer(name: PeerName): Promise<PeerServer> {
  const home = mkdtempSync(join(tmpdir(), "selvedge-bench-"));
  const port = await anyPort();
  const child =
    name === "etcd" ? spawnEtcd(home, port, await anyPort()) : spawnZooKeeper(home, port);
  const exited = once(child, "exit");
  const dispose = async () => {
    child.kill("SIGKILL");
    await exited;
    rmSync(home, { recursive: true, force: true });
  };
  const pid = child.pid ?? 0;
  const usage = { cpuSeconds: () => cpuSecondsOf(pid), rssMb: () => rssMbOf(pid) };
  const deadlineMs = performance.now() + START_MAX_MS;
  while (!(await isListening(port))) {
    if (child.exitCode !== null || performance.now() > deadlineMs) {
      await dispose();
      throw new Error(`${name} did not start`);
    }
    await delay(50);
  }
  return { name, port, ...usage, dispose };
}

function spawnEtcd(home: string, port: number, peerPort: number): ChildProcess {
  const [client, peer] = [`http://${HOST}:${port}`, `http://${HOST}:${peerPort}`];
  const flags = {
    "data-dir": home,
    "listen-client-urls": client,
    "advertise-client-urls": client,
    "listen-peer-urls": peer,
    "initial-advertise-peer-urls": peer,
    "initial-cluster": `default=${peer}`,
    "log-level": "error",
  };
  const given = Object.entries(flags).map(([flag, value]) => `--${flag}=${value}`);
  return spawn("/usr/bin/etcd", given, { stdio: "ignore" });
}

function spawnZooKeeper(home: string, port: number): ChildProcess {
  const file = join(home, "zoo.cfg");
  const address = `clientPortAddress=${HOST}\nclientPort=${port}`;
  writeFileSync(file, `dataDir=${home}\n${address}\nmaxClientCnxns=0\nadmin.enableServer=false\n`);
  const main = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
  return spawn("java", ["-cp", ZOOKEEPER_CLASSES, main, file], { stdio: "ignore" });
}

async function isListening(port: number): Promise<boolean> {
  const socket = connect({ port, host: HOST });
  try {
    await once(socket, "connect");
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
