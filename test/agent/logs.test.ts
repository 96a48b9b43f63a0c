import { mkdirSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { LogChunk } from "../../src/shared/protocol/resource-tracker.ts";
import { eventually } from "../support/eventually.ts";
import { containerId, TestNode } from "./test-node.ts";
import { launchContext } from "./test-tracker.ts";

let node: TestNode;
beforeEach(async () => {
  node = await TestNode.create();
});
afterEach(() => node.close());

let requests = 0;
type Wanted = {
  readonly file?: string;
  readonly offset?: number;
  readonly lengthMax?: number;
  readonly waitMs?: number;
};

async function read(id: string, wanted: Wanted = {}): Promise<LogChunk> {
  const requestId = `r${++requests}`;
  const request = { file: "stdout", offset: 0, lengthMax: 65_536, waitMs: 0, ...wanted };
  node.tracker.send({ type: "read-log", requestId, containerId: id, ...request });
  return node.tracker.until("a piece of log", () =>
    node.tracker.logs.find((chunk) => chunk.requestId === requestId),
  );
}

async function completed(command: string): Promise<string> {
  await node.start();
  const id = await node.run(1, launchContext(command));
  await node.tracker.untilState(id, "COMPLETE");
  return id;
}

it("reads a file piece by piece to its end", async () => {
  const id = await completed("printf 0123456789");
  expect(await read(id, { lengthMax: 6 })).toMatchObject({
    data: "012345",
    nextOffset: 6,
    end: false,
  });
  expect(await read(id, { offset: 6 })).toMatchObject({ data: "6789", nextOffset: 10, end: true });
  expect(await read(id, { offset: -3 })).toMatchObject({ data: "789", nextOffset: 10, end: true });
  expect(await read(id, { offset: -99 })).toMatchObject({ data: "0123456789" });
});

it("cuts between characters, never within one", async () => {
  const id = await completed("printf 'aé€😀z'");
  let text = "";
  let offset = 0;
  for (let end = false; !end; ) {
    const chunk = await read(id, { offset, lengthMax: 4 });
    text += chunk.data;
    expect(chunk.nextOffset).toBeGreaterThan(offset);
    offset = chunk.nextOffset;
    end = chunk.end;
  }
  expect(text).toBe("aé€😀z");
  expect(await read(id, { offset: -3 })).toMatchObject({ data: "z" });
});

it("waits for more while the container runs, and no longer when it ends", async () => {
  await node.start();
  const command =
    "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two; while [ ! -e end ]; do sleep 0.02; done";
  const id = await node.run(1, launchContext(command));
  await eventually(() => expect(node.stdout(id)).toBe("one\n"));
  const more = read(id, { offset: 4, waitMs: 5_000 });
  writeFileSync(join(node.workDirectory(id), "go"), "");
  expect(await more).toMatchObject({ data: "two\n", nextOffset: 8, end: false });
  const last = read(id, { offset: 8, waitMs: 5_000 });
  writeFileSync(join(node.workDirectory(id), "end"), "");
  expect(await last).toMatchObject({ data: "", nextOffset: 8, end: true });
});

it("answers with nothing when nothing came in the time", async () => {
  await node.start();
  const id = await node.run(1, launchContext("sleep 60"));
  await node.tracker.untilState(id, "RUNNING");
  expect(await read(id, { waitMs: 30 })).toMatchObject({ data: "", nextOffset: 0, end: false });
});

it("reads the logs of a container that is already forgotten", async () => {
  const id = await completed("echo still here");
  node.tracker.acknowledge(id);
  expect(await read(id)).toMatchObject({ data: "still here\n", end: true });
});

it.each(["../stdout", "..", ".", "/etc/passwd", "a/b", "", "x".repeat(129), "std out", "stdout\0"])(
  "hands out nothing for the name %j",
  async (file) => {
    const id = await completed("echo secret");
    expect(await read(id, { file })).toMatchObject({ data: null, end: true });
  },
);

it("hands out nothing for a foreign id, a symbolic link, a directory or a pipe", async () => {
  const id = await completed("mkfifo $LOG_DIR/pipe; mkdir $LOG_DIR/directory");
  symlinkSync("/etc/passwd", join(node.logDirectory(id), "link"));
  for (const file of ["link", "directory", "pipe"]) {
    expect(await read(id, { file }), file).toMatchObject({ data: null });
  }
  expect(await read("../../etc", {})).toMatchObject({ data: null });
  expect(await read(containerId(99), {})).toMatchObject({ data: null });
});

it("removes logs of forgotten containers after their time, and others not", async () => {
  const old = join(node.logDirectory(containerId(7)), "stdout");
  const young = join(node.logDirectory(containerId(8)), "stdout");
  for (const path of [old, young]) {
    mkdirSync(join(path, ".."), { recursive: true });
    writeFileSync(path, "x");
  }
  const fourHoursAgo = Date.now() / 1_000 - 14_400;
  utimesSync(old, fourHoursAgo, fourHoursAgo);
  utimesSync(join(old, ".."), fourHoursAgo, fourHoursAgo);
  await node.start();
  expect(await read(containerId(7))).toMatchObject({ data: null });
  expect(await read(containerId(8))).toMatchObject({ data: "x" });
});
