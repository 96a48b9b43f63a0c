/** Ports of containers, and nobody else's, reached through the node. */
import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { parseSockets } from "../../src/agent/streams/listening-sockets.ts";
import {
  checkStream,
  DEFAULT_ALLOWED,
  parsePortRange,
} from "../../src/agent/streams/stream-allow-list.ts";
import { eventually } from "../support/eventually.ts";
import { TestNode } from "./test-node.ts";
import { askForStream, openStream, type TestStream } from "./test-stream.ts";
import { launchContext } from "./test-tracker.ts";

let node: TestNode;
const servers: Server[] = [];
const sockets: Socket[] = [];
beforeEach(async () => {
  node = await TestNode.create();
});
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  for (const server of servers.splice(0)) server.close();
  await node.close();
});

/** In a container: says its port, then answers each connection when its client is done. */
const ECHO = (listen: object) => `
  const answer = (socket) => {
    let heard = "";
    socket.on("data", (data) => { heard += data; });
    socket.on("end", () => socket.end("you said " + heard));
  };
  require("node:net").createServer({ allowHalfOpen: true }, answer)
    .listen(${JSON.stringify({ port: 0, ...listen })}, function () { console.log("port " + this.address().port); });
`;

async function startServer(listen: object = { host: "0.0.0.0" }) {
  const script = ECHO(listen).replaceAll("\n", " ");
  const command = `exec '${process.execPath}' -e '${script}'`;
  const id = await node.run(1, launchContext(command));
  await node.tracker.untilState(id, "RUNNING");
  const port = await eventually(() => {
    const found = /port (\d+)/.exec(node.stdout(id))?.[1];
    expect(found).toBeDefined();
    return Number(found);
  });
  return { id, port };
}

/** A service of the machine, which is nobody's container. */
async function startService(): Promise<number> {
  const server = createServer((socket) => sockets.push(socket)).listen({
    ...{ port: 0, host: "127.0.0.1", reusePort: true },
  });
  servers.push(server);
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

const forward = (port: number) => ({ kind: "forward", port }) as const;

describe("a container's port", () => {
  it.each(["0.0.0.0", "127.0.0.1", "::", "::1"])(
    "[NM208] that listens on %s is reached, and either direction ends for itself",
    async (host) => {
      await node.start();
      const { id, port } = await startServer({ host });
      const stream = await openStream(node, id, forward(port));
      stream.write("hello");
      stream.send({ kind: "eof" });
      await eventually(() => expect(stream.stdout).toBe("you said hello"));
      expect(stream.frames.at(-1)).toEqual({ kind: "eof" });
      await eventually(() => expect(stream.closed).toEqual({ code: 1000, reason: "" }));
    },
  );

  it("[NM208] takes many connections at once", async () => {
    await node.start();
    const { id, port } = await startServer();
    const streams: TestStream[] = [];
    for (let count = 0; count < 10; count++)
      streams.push(await openStream(node, id, forward(port)));
    streams.forEach((stream, index) => {
      stream.write(`${index}`);
      stream.send({ kind: "eof" });
    });
    await eventually(() =>
      expect(streams.map(({ stdout }) => stdout)).toEqual(
        streams.map((_, index) => `you said ${index}`),
      ),
    );
  });

  it("[NM203] is left when the container ends", async () => {
    await node.start();
    const { id, port } = await startServer();
    const stream = await openStream(node, id, forward(port));
    node.tracker.stop(id);
    await node.tracker.untilState(id, "COMPLETE");
    await eventually(() => expect(stream.closed).toBeDefined());
  });
});

describe("a port of somebody else", () => {
  it("[NM208] is not reached through a container, though the machine has it", async () => {
    await node.start();
    const { id } = await startServer();
    const port = await startService();
    expect(await askForStream(node, id, forward(port))).toMatchObject({
      code: "FAILED_PRECONDITION",
      message: `nothing of ${id} listens on TCP port ${port}`,
    });
    expect(sockets).toEqual([]);
  });

  it("[NM208] is not reached through a container that shares it", async () => {
    await node.start();
    const port = await startService();
    const { id } = await startServer({ host: "0.0.0.0", port, reusePort: true });
    expect(await askForStream(node, id, forward(port))).toMatchObject({
      code: "FAILED_PRECONDITION",
    });
    expect(sockets).toEqual([]);
  });

  it("[NM208] is not reached through another container", async () => {
    await node.start();
    const { port } = await startServer();
    const other = await node.run(2, launchContext("echo up; exec sleep 1000"));
    await node.tracker.untilState(other, "RUNNING");
    await eventually(() => expect(node.stdout(other)).toBe("up\n"));
    expect(await askForStream(node, other, forward(port))).toMatchObject({
      message: `nothing of ${other} listens on TCP port ${port}`,
    });
  });

  it("[NM209] or one that the operator does not allow is refused by the property's name", async () => {
    await node.start({ allowedStreams: { exec: true, forwardPorts: [{ first: 80, last: 80 }] } });
    const { id, port } = await startServer();
    expect(await askForStream(node, id, forward(port))).toEqual({
      code: "PERMISSION_DENIED",
      message: `node 127.0.0.1:8041 lets nobody connect to port ${port}`,
      hint: "its operator allows 80 (selvedge.node.allowed.forward-ports)",
    });
  });
});

describe("the ports that an operator allows", () => {
  it("[NM209] are those from 1024 on, when nothing is said", () => {
    const isAllowed = (port: number) => checkStream(DEFAULT_ALLOWED, "n:1", forward(port)).ok;
    expect([1, 80, 1_023, 1_024, 65_535].map(isAllowed)).toEqual([false, false, false, true, true]);
  });

  it("[NM209] are none where the list is empty", () => {
    const reply = checkStream({ exec: true, forwardPorts: [] }, "n:1", forward(8_080));
    expect(reply).toMatchObject({ error: { hint: expect.stringContaining("allows no ports") } });
  });

  it.each([
    ["80", { first: 80, last: 80 }],
    ["1024-65535", { first: 1_024, last: 65_535 }],
    ["0", null],
    ["9-8", null],
    ["1-65536", null],
    ["-1", null],
    ["http", null],
  ])("[NM209] are read from text: %s", (text, range) => {
    expect(parsePortRange(text)).toEqual(range);
  });
});

it("[NM208] the kernel's tables of sockets are read as it writes them", () => {
  const table = [
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
    "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1 0 100 0 0 10 0",
    "   1: 00000000:1F90 0100007F:0001 01 00000000:00000000 00:00000000 00000000     0        0 222 1 0 100 0 0 10 0",
    "   2: 00000000000000000000000001000000:1F90 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 333 1",
    "   3: 00000000:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 444 1 0 100 0 0 10 0",
  ].join("\n");
  expect(parseSockets(table, 8_080)).toEqual([
    { address: "127.0.0.1", inode: "111" },
    { address: "0:0:0:0:0:0:0:1", inode: "333" },
  ]);
});
