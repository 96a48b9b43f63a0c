/** Programs in containers of a real engine, and their ports. */
import { readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { readProcesses } from "../../src/agent/process-table.ts";
import { eventually } from "../support/eventually.ts";
import { missingForPodman, TestEngine } from "./docker-engine.ts";
import { TestNode } from "./test-node.ts";
import { askForStream, exec, openStream } from "./test-stream.ts";
import { launchContext } from "./test-tracker.ts";

const missing = missingForPodman();
if (missing !== undefined && process.env["CI"] === "true") throw new Error(missing);
const title = missing === undefined ? "a container of podman" : `of podman (${missing})`;

describe.skipIf(missing !== undefined)(title, () => {
  let engine: TestEngine;
  let node: TestNode;
  beforeAll(async () => {
    engine = await TestEngine.create();
  });
  afterAll(() => engine.close());
  beforeEach(async () => {
    node = await TestNode.create();
    await node.start({ executors: { docker: await engine.runtime() } });
  });
  afterEach(async () => {
    await engine.removeContainers();
    await node.close();
  });

  async function startContainer(command = "echo up; exec sleep 1000", network = "host") {
    const runtime = { ...engine.image(), network };
    const environment = { GREETING: "two\nlines", LD_PRELOAD: "/not/for/the/client.so" };
    const id = await node.run(1, launchContext(command, { runtime, environment }));
    await node.tracker.untilState(id, "RUNNING");
    await eventually(() => expect(node.stdout(id)).toContain("up\n"));
    return id;
  }

  it("[NM212] runs a program in its image, with its environment, and tells how it ended", async () => {
    const id = await startContainer();
    const script =
      'echo "$CONTAINER_ID says $GREETING"; pwd; id -u; ls /bin/env; echo bad >&2; exit 7';
    const stream = await openStream(node, id, exec("sh", "-c", script));
    expect(await stream.exits()).toBe(7);
    expect(stream.stdout).toBe(
      `${id} says two\nlines\n${node.workDirectory(id)}\n${process.getuid?.()}\n/bin/env\n`,
    );
    expect(stream.stderr).toContain("bad\n");
    expect(node.tracker.statuses.get(id)).toMatchObject({ state: "RUNNING" });
  });

  it("[NM212] hands on what is sent to it, and opens terminals", async () => {
    const id = await startContainer();
    const reading = await openStream(node, id, { ...exec("cat"), stdin: true });
    reading.write("through and through");
    reading.send({ kind: "eof" });
    expect(await reading.exits()).toBe(0);
    expect(reading.stdout).toBe("through and through");
    const tty = { columns: 90, rows: 30, term: "vt100" };
    const script = "test -t 0 && test -t 1 && echo $TERM; exit 5";
    const shell = await openStream(node, id, { ...exec("sh", "-c", script), stdin: true, tty });
    expect(await shell.exits()).toBe(5);
    expect(shell.stdout).toBe("vt100\r\n");
  });

  it("[NM212] loses what was run in it when the stream is cut, and nothing else", async () => {
    const id = await startContainer();
    const stream = await openStream(
      node,
      id,
      exec("sh", "-c", "echo begun; sleep 4712; sleep 4713"),
    );
    await eventually(() => expect(stream.stdout).toBe("begun\n"));
    const sleeping = () => readProcesses().filter(({ pid }) => commandOf(pid).includes("4712"));
    expect(sleeping().length).toBeGreaterThan(0);
    stream.cut();
    await eventually(() => expect(sleeping()).toEqual([]));
    expect(node.tracker.statuses.get(id)).toMatchObject({ state: "RUNNING" });
  });

  it("[NM212] shows its own ports, and not the machine's", async () => {
    const port = 20_000 + (process.pid % 10_000);
    const id = await startContainer(`echo up; exec busybox nc -ll -p ${port} -e cat`);
    const stream = await eventually(() => openStream(node, id, { kind: "forward", port }));
    stream.write("hello");
    await eventually(() => expect(stream.stdout).toBe("hello"));
    const other = { kind: "forward", port: node.tracker.port } as const;
    expect(await askForStream(node, id, other)).toMatchObject({ code: "FAILED_PRECONDITION" });
  });

  it("[NM212] that has no network does not lead to the machine's port of the same number", async () => {
    const { port } = node.tracker;
    const command = `echo up; exec busybox nc -ll -p ${port} -e cat`;
    const id = await startContainer(command, "none");
    await eventually(async () =>
      expect(await askForStream(node, id, { kind: "forward", port })).toMatchObject({
        code: "FAILED_PRECONDITION",
        message: `${id} has a network that its node does not reach`,
      }),
    );
  });
});

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}
