/** What a node knows of when its containers' logs were written. */
import { appendFileSync, mkdirSync, mkdtempSync, rmSync, utimesSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { AgentHome } from "../../src/agent/agent-home.ts";
import { ContainerLogs } from "../../src/agent/container-logs.ts";
import { readLog } from "../../src/agent/log-reader.ts";

const ID = "container_e01_1700000000000_0001_01_000001";

let directory: string;
let stdout: string;
let logs: ContainerLogs;
let nowMs: number;
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), "selvedge-times-"));
  const home = new AgentHome(directory);
  stdout = home.logFile(ID, "stdout");
  mkdirSync(dirname(stdout), { recursive: true });
  nowMs = 1_000_000;
  logs = await ContainerLogs.open({
    ...{ home, keptBytes: undefined, storedTo: () => 0, log: () => undefined },
    nowMs: () => nowMs,
  });
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** A line, and then one of the node's rounds, a minute after the one before. */
async function minute(line: string): Promise<void> {
  appendFileSync(stdout, line);
  nowMs += 60_000;
  await logs.look(ID);
}

async function since(sinceMs: number): Promise<string | null> {
  const request = { type: "read-log", requestId: "1", containerId: ID, file: "stdout" } as const;
  const range = { offset: 0, lengthMax: 65_536, waitMs: 0, sinceMs };
  return (await readLog(logs, { ...request, ...range }, () => true, AbortSignal.timeout(10_000)))
    .data;
}

it("[NM185] a reader who wants what is new is spared what is surely older", async () => {
  for (const line of ["one\n", "two\n", "three\n"]) await minute(line);
  expect(await since(1_059_999)).toBe("one\ntwo\nthree\n");
  expect(await since(1_060_000)).toBe("two\nthree\n");
  expect(await since(1_150_000)).toBe("three\n");
});

it("[NM185] never begins within a line", async () => {
  await minute("one\nhalf of");
  await minute(" two\nthree\n");
  expect(await since(1_060_000)).toBe("three\n");
});

it("[NM185] nothing of a log is new that was written last before", async () => {
  appendFileSync(stdout, "old\n");
  utimesSync(stdout, 2_000, 2_000);
  expect(await since(2_000_001)).toBe("");
  expect(await since(2_000_000)).toBe("old\n");
});

it("[NM185] a log that was begun anew is known anew", async () => {
  await minute("a long line\n");
  rmSync(stdout);
  await minute("b\n");
  expect(await since(1_060_000)).toBe("b\n");
});

it("[NM185] many hours are told from each other, the older the more roughly", async () => {
  for (let index = 0; index < 2_000; index++) await minute(`${String(index).padStart(4, "0")}\n`);
  const length = (await since(1_060_000 + 1_000 * 60_000))?.length ?? 0;
  expect(length).toBeGreaterThanOrEqual(5 * 999);
  expect(length).toBeLessThan(5 * 1_065);
  expect((await since(nowMs - 10 * 60_000))?.length).toBe(5 * 10);
});
