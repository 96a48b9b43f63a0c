/** A node behind a proxy that lets no WebSocket pass: everything works, only slower. */

import { once } from "node:events";
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startCluster, type TestCluster } from "../support/cluster.ts";
import { containerIds, haveEnded, processOf, sleepers } from "../support/containers.ts";
import { killContainer } from "../support/processes.ts";
import { waitFor } from "../support/wait-for.ts";

let cluster: TestCluster;
let proxy: Server;
let upgrades = 0;

beforeAll(async () => {
  cluster = await startCluster({ nodes: 0 });
  proxy = await startProxy(cluster.url);
  const { port } = proxy.address() as AddressInfo;
  await cluster.startNode(1, { url: `http://127.0.0.1:${port}` });
  await cluster.nodeIs(1, "RUNNING");
});

afterAll(async () => {
  await cluster.dispose();
  proxy.closeAllConnections();
  proxy.close();
});

/** Passes every request on, but refuses every upgrade, as many a company's proxy does. */
async function startProxy(target: string): Promise<Server> {
  const server = createServer((incoming, outgoing) => {
    const { method, headers } = incoming;
    const onward = request(target + incoming.url, { method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    onward.on("error", () => outgoing.destroy());
    incoming.pipe(onward);
  });
  server.on("upgrade", (_request, socket) => {
    upgrades += 1;
    socket.end("HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}

it("runs, replaces and ends containers by HTTP heartbeats alone", async () => {
  await cluster.launch(sleepers("polled", { number_of_containers: 2 }));
  const before = containerIds(await cluster.serviceIs("polled", "STABLE"));
  await Promise.all(Object.values(before).map(processOf));

  const { "sleeper-0": victim = "", "sleeper-1": other = "" } = before;
  killContainer(victim);
  const after = await waitFor(
    async () => {
      const ids = containerIds(await cluster.serviceIs("polled", "STABLE"));
      return ids["sleeper-0"] !== victim && ids;
    },
    { what: "sleeper-0 to run again" },
  );
  expect(after["sleeper-1"]).toBe(other);
  const events = await cluster.services.events("polled");
  expect(events.map(({ message }) => message).join("\n")).toContain("exit status 137");

  await cluster.services.destroy("polled");
  await haveEnded(Object.values(after));
  expect(upgrades).toBeGreaterThan(0);
  expect(cluster.log(1)).toContain('"by":"heartbeat"');
  expect(cluster.log(1)).not.toContain('"by":"websocket"');
});
