/** `selvedge node doctor`: real names, sockets, proxies and disks; only the cluster is played. */
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { Check } from "../../src/cli/doctor/check.ts";
import { createDesk, type Desk, type RunOptions } from "./command.ts";

const CREDENTIAL = "node-credential-s3cret";
const DAY_MS = 86_400_000;

let desk: Desk;
let server: Server;
let url: string;
/** How the cluster of this test is. */
let clusterClock: () => Date;
let passesWebSockets: boolean;
let upgrades: number;
let authorizations: (string | undefined)[];

beforeEach(async () => {
  desk = createDesk();
  clusterClock = () => new Date();
  passesWebSockets = true;
  upgrades = 0;
  authorizations = [];
  server = createServer((request, response) => {
    authorizations.push(request.headers.authorization);
    response.sendDate = false;
    response.setHeader("date", clusterClock().toUTCString());
    const isKnown = request.headers.authorization === `Bearer ${CREDENTIAL}`;
    const isPublic = request.url === "/healthz";
    response.statusCode = isPublic ? 200 : isKnown ? 404 : 401;
    response.end("{}");
  });
  server.on("upgrade", (_request: IncomingMessage, socket) => {
    upgrades++;
    const status = passesWebSockets ? "101 Switching Protocols" : "403 Forbidden";
    socket.end(`HTTP/1.1 ${status}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`);
  });
  await new Promise<void>((up) => server.listen(0, "127.0.0.1", up));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(() => {
  desk.clear();
  server.closeAllConnections();
  server.close();
});

const home = () => join(desk.directory, "home");

function haveJoined(more: { expiresMs?: number; credential?: string } = {}): void {
  mkdirSync(home(), { mode: 0o700 });
  const stored = {
    credential: CREDENTIAL,
    nodeId: "box:8041",
    url,
    expiresMs: Date.now() + 90 * DAY_MS,
  };
  writeFileSync(join(home(), "credential.json"), JSON.stringify({ ...stored, ...more }), {
    mode: 0o600,
  });
}

/** What is left of the doctor's words: a check by its name. Nothing it prints may be a secret. */
async function examine(argv: readonly string[] = ["--url", url], options: RunOptions = {}) {
  const ran = await desk.run(["node", "doctor", "--home", home(), "-o", "json", ...argv], {
    ...options,
    env: { PATH: desk.directory, ...options.env },
  });
  expect(ran.stdout + ran.stderr).not.toContain("s3cret");
  const { checks } = JSON.parse(ran.stdout) as { checks: Check[] };
  return { ...ran, of: (name: string) => checks.find((each) => each.name === name) };
}

it("[NM111] a machine that is well is told so, and the exit code is 0", async () => {
  haveJoined();
  const { exitCode, of } = await examine();
  expect(of("cluster")?.outcome).toBe("ok");
  expect(of("clock")?.outcome).toBe("ok");
  expect(of("credential")).toMatchObject({ outcome: "ok", finding: "the cluster accepts it" });
  expect(of("websocket")).toMatchObject({ outcome: "ok", finding: "passes" });
  expect(of("joined")?.finding).toContain("as box:8041");
  expect(exitCode).toBe(0);
});

it("[NM111] a cluster that cannot be reached is found, with a hint, and the exit code says it", async () => {
  server.close();
  const { exitCode, of } = await examine();
  expect(of("cluster")).toMatchObject({
    outcome: "wrong",
    hint: expect.stringContaining("firewall"),
  });
  expect(of("cluster")?.finding).toContain("ECONNREFUSED");
  expect(exitCode).toBe(1);
});

it("[NM111] a host that has no address is found before anything is asked of it", async () => {
  const { of } = await examine(["--url", "https://no-such-host.invalid"]);
  expect(of("dns")).toMatchObject({
    outcome: "wrong",
    hint: expect.stringContaining("resolv.conf"),
  });
});

it("[NM112] a clock that is wrong is measured against the cluster's", async () => {
  clusterClock = () => new Date(Date.now() - 3_600_000);
  const { of, exitCode } = await examine();
  expect(of("clock")?.finding).toMatch(/^60 min ahead of the cluster's$/);
  expect(exitCode).toBe(1);
  clusterClock = () => new Date(Date.now() + 15_000);
  const nearly = await examine();
  expect(nearly.of("clock")).toMatchObject({ outcome: "note" });
  expect(nearly.exitCode).toBe(0);
});

it("[NM112] a credential that is refused, about to end, over, or open to others is found", async () => {
  haveJoined({ credential: "another-s3cret" });
  expect((await examine()).of("credential")?.outcome).toBe("wrong");
  const file = join(home(), "credential.json");
  const stored = { credential: CREDENTIAL, nodeId: "box:8041", url };
  writeFileSync(file, JSON.stringify({ ...stored, expiresMs: Date.now() + DAY_MS }));
  expect((await examine()).of("joined")).toMatchObject({ outcome: "note" });
  writeFileSync(file, JSON.stringify({ ...stored, expiresMs: Date.now() - 1 }));
  expect((await examine()).of("joined")).toMatchObject({ outcome: "wrong" });
  chmodSync(file, 0o644);
  expect((await examine()).of("joined")?.finding).toContain("others may read");
});

it("[NM112] a credential goes only to the cluster that gave it", async () => {
  haveJoined();
  const { of } = await examine(["--url", url.replace("127.0.0.1", "localhost")]);
  expect(of("cluster")?.outcome).toBe("ok");
  expect(of("credential")).toBeUndefined();
  expect(authorizations).toEqual([undefined]);
});

it("[NM113] a way that lets no WebSocket pass is a note: the node works by heartbeats", async () => {
  haveJoined();
  passesWebSockets = false;
  const { of, exitCode } = await examine();
  expect(of("websocket")).toMatchObject({
    outcome: "note",
    finding: "does not pass: answered 403",
  });
  expect(exitCode).toBe(0);
});

it("[NM113] the connection of an agent that runs is not taken from it", async () => {
  haveJoined();
  const { readBootId, readStat } = await import("../../src/agent/process-table.ts");
  const startTicks = readStat(process.pid)?.startTicks;
  const lock = { pid: process.pid, startTicks, bootId: readBootId() };
  writeFileSync(join(home(), "nm.lock"), JSON.stringify(lock));
  const { of } = await examine();
  expect(of("websocket")?.outcome).toBe("note");
  expect(upgrades).toBe(0);
});

it("[NM114] a proxy is shown without its password, and asked", async () => {
  const env = { HTTP_PROXY: "http://user:s3cret@127.0.0.1:9" };
  const { of } = await examine(undefined, { env });
  expect(of("proxy")).toMatchObject({ outcome: "ok", finding: "http://127.0.0.1:9" });
  expect(of("cluster")).toMatchObject({ outcome: "wrong" });
  const { of: without } = await examine(undefined, { env: { ...env, NO_PROXY: "127.0.0.1" } });
  expect(without("proxy")?.finding).toBe("none");
  expect(without("cluster")?.outcome).toBe("ok");
});

it("[NM115] disks that a configuration names are looked at, and so is its engine", async () => {
  const config = join(desk.directory, "node.yaml");
  const missing = join(config, "below-a-file");
  writeFileSync(
    config,
    `yarn.nodemanager.local-dirs: ${missing}\n` +
      `yarn.nodemanager.runtime.linux.allowed-runtimes: docker\n` +
      `selvedge.node.docker.command: ${join(desk.directory, "no-engine")}\n`,
  );
  const { of, exitCode } = await examine(["--url", url, "--config", config]);
  expect(of(`local-dirs ${missing}`)?.outcome).toBe("wrong");
  expect(of("containers")?.outcome).toBe("wrong");
  expect(exitCode).toBe(1);
});

it("[NM115] a home that others may write to is found", async () => {
  haveJoined();
  chmodSync(home(), 0o777);
  expect((await examine()).of("home")).toMatchObject({
    outcome: "wrong",
    hint: `chmod go-w ${home()}`,
  });
});

it("[NM111] without a cluster the machine alone is examined", async () => {
  const { of, exitCode } = await examine([]);
  expect(of("cluster")).toMatchObject({ outcome: "note", finding: "none is chosen" });
  expect(of("node")?.outcome).toBe("ok");
  expect(exitCode).toBe(0);
});

it("[NM111] people get a table, then what would help", async () => {
  const ran = await desk.run(["node", "doctor", "--home", home()], {
    env: { PATH: desk.directory },
  });
  expect(ran.stdout).toMatch(/^note +cluster +none is chosen$/m);
  expect(ran.stdout).toContain("\n\ncluster: say which with --url\n");
});
