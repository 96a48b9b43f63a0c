/** The agent behind an HTTP proxy: a real proxy, a real TLS server, a real tracker. */
import { createServer, type Server } from "node:http";
import { type AddressInfo, connect, type Server as NetServer, type Socket } from "node:net";
import {
  createServer as createTlsServer,
  getCACertificates,
  setDefaultCACertificates,
} from "node:tls";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { TEST_TLS } from "./localization-certificate.ts";
import { TestNode } from "./test-node.ts";
import { JOIN_TOKEN } from "./test-tracker.ts";

const ENVIRONMENT = [
  "HTTPS_PROXY",
  "HTTP_PROXY",
  "NO_PROXY",
  "https_proxy",
  "http_proxy",
  "no_proxy",
];

let node: TestNode;
let tls: NetServer;
let proxy: Server;
/** Targets that the proxy was asked to connect to. */
let tunnels: string[];
const sockets = new Set<Socket>();

beforeEach(async () => {
  node = await TestNode.create();
  tunnels = [];
  setDefaultCACertificates([...getCACertificates("default"), TEST_TLS.cert]);
  for (const name of ENVIRONMENT) vi.stubEnv(name, undefined);
  tls = createTlsServer(TEST_TLS, (socket) => join(socket, node.tracker.port));
  proxy = createServer().on("connect", (request, socket: Socket, head) => {
    tunnels.push(request.url ?? "");
    const [host = "", port] = (request.url ?? "").split(":");
    const target = connect(Number(port), host, () => {
      socket.write("HTTP/1.1 200 Connection established\r\n\r\n");
      target.write(head);
    });
    couple(socket, target);
  });
  await Promise.all(
    [tls, proxy].map((server) => new Promise<void>((up) => server.listen(0, "127.0.0.1", up))),
  );
});

afterEach(async () => {
  await node.close();
  for (const socket of sockets) socket.destroy();
  proxy.close();
  tls.close();
  vi.unstubAllEnvs();
});

function join(socket: Socket, port: number): void {
  couple(socket, connect(port, "127.0.0.1"));
}

function couple(one: Socket, other: Socket): void {
  for (const [from, to] of [
    [one, other],
    [other, one],
  ] as const) {
    sockets.add(from);
    from.on("error", () => to.destroy()).on("close", () => to.destroy());
    from.pipe(to);
  }
}

const portOf = (server: NetServer | Server) => (server.address() as AddressInfo).port;

it("[NM117] an agent joins and stays connected through the proxy of its environment", async () => {
  vi.stubEnv("HTTPS_PROXY", `http://127.0.0.1:${portOf(proxy)}`);
  const { credential: _, ...options } = node.options;
  const url = `https://127.0.0.1:${portOf(tls)}`;
  const { startNodeManager } = await import("../../src/agent/main.ts");
  const agent = await startNodeManager({
    ...options,
    url,
    joinToken: JOIN_TOKEN,
    log: () => undefined,
  });
  try {
    await node.tracker.until("a socket", () => node.tracker.connections > 0);
    const target = `127.0.0.1:${portOf(tls)}`;
    // Once for the join, once for the WebSocket.
    expect(tunnels).toEqual([target, target]);
    expect(node.tracker.joins).toEqual([node.nodeId]);
  } finally {
    await agent.close();
  }
});

it("[NM117] a cluster that NO_PROXY names is reached directly", async () => {
  vi.stubEnv("HTTPS_PROXY", `http://127.0.0.1:${portOf(proxy)}`);
  vi.stubEnv("NO_PROXY", "127.0.0.1");
  await node.start({ url: `https://127.0.0.1:${portOf(tls)}` });
  expect(node.tracker.connections).toBe(1);
  expect(tunnels).toEqual([]);
});
