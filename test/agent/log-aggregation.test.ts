/** Log aggregation on the node: real files, real HTTP, and a store that fails when it is told to. */
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { LogLine } from "../../src/agent/log.ts";
import { LogAggregationService } from "../../src/agent/log-aggregation.ts";
import { LogUploader } from "../../src/agent/log-uploader.ts";
import {
  DEFAULT_LOG_AGGREGATION,
  type LogAggregationContext,
  NO_LOG_STORE,
} from "../../src/shared/aggregated-logs.ts";
import type { ContainerLaunchContext } from "../../src/shared/container.ts";
import { waitFor } from "../support/wait-for.ts";
import { LogStoreServer } from "./log-store-server.ts";

const APPLICATION = "application_1700000000000_0001";
const ID = "container_e01_1700000000000_0001_01_000001";
const STDOUT = `${ID}/stdout`;

let home: string;
let logs: string;
let store: LogStoreServer;
let url: string;
let service: LogAggregationService;
let lines: LogLine[];

beforeEach(async () => {
  home = mkdtempSync(join(tmpdir(), "selvedge-logs-"));
  logs = join(home, "logs", ID);
  mkdirSync(logs, { recursive: true });
  lines = [];
  store = new LogStoreServer();
  url = await store.open();
  service = openService();
});

afterEach(async () => {
  await service.close();
  await store.close();
  rmSync(home, { recursive: true, force: true });
});

function openService(rollIntervalMs?: number): LogAggregationService {
  return new LogAggregationService({
    home,
    uploader: new LogUploader(
      url,
      () => "credential",
      () => 0,
    ),
    log: (line) => lines.push(line),
    nowMs: Date.now,
    backoffMs: () => 5,
    closeTimeoutMs: 0,
    ...(rollIntervalMs === undefined ? {} : { rollIntervalMs }),
  });
}

const container = {
  applicationId: APPLICATION,
  user: "ann",
  containerId: ID,
  workDirectory: "/nowhere",
  get logDirectories() {
    return [logs];
  },
};

/** Starts the container, with what its service says of its logs. */
function launch(logAggregation?: LogAggregationContext) {
  const context = { instance: "hello-0", ...(logAggregation ? { logAggregation } : {}) };
  return service.initializeContainer(container, context as ContainerLaunchContext);
}

const write = (text: string, file = "stdout") => writeFileSync(join(logs, file), text);
const isDone = () => waitFor(() => !service.isPending(ID), { what: "all logs to be uploaded" });

it("[NM74] every byte of an ended container is in the store, whatever chunks it took", async () => {
  await service.start();
  await launch();
  const text = "zwölf Boxkämpfer €\n".repeat(120_000);
  write(text);
  write("oh\n", "stderr");
  await service.stopContainer(container);
  await isDone();
  expect(store.text(STDOUT)).toBe(text);
  expect(store.text(`${ID}/stderr`)).toBe("oh\n");
  expect(store.chunks.get(STDOUT)?.size).toBe(3);
  expect(store.announced).toEqual([
    { containerId: ID, instance: "hello-0", complete: false },
    { containerId: ID, instance: "hello-0", complete: true },
  ]);
});

it("[NM74] a network that fails again and again loses and doubles nothing", async () => {
  await service.start();
  await launch();
  const text = Array.from({ length: 400_000 }, (_, index) => `line ${index}\n`).join("");
  write(text);
  const failures = new Map<number, 503 | "drop">([
    [1, 503],
    [3, "drop"],
  ]);
  store.failure = () => failures.get(store.requests % 5);
  await service.stopContainer(container);
  await isDone();
  expect(store.text(STDOUT)).toBe(text);
  expect(lines.some(({ event, again }) => event === "logs.upload" && again === true)).toBe(true);
});

it("[NM74] the next agent goes on with what the last one has not uploaded", async () => {
  await service.start();
  await launch();
  store.failure = () => 503;
  write("written before the agent died\n");
  await service.close();
  // The container ended while there was no agent, so nobody is told of its end.
  store.failure = undefined;
  service = openService();
  await service.start();
  await isDone();
  expect(store.text(STDOUT)).toBe("written before the agent died\n");
});

it("[NM74] a container that outlives its agent is uploaded at its end, not before", async () => {
  await service.start();
  await launch();
  write("first\n");
  await waitFor(() => store.announced.length === 1, { what: "the announcement" });
  await service.close();
  service = openService();
  await service.recoverContainer(container);
  await service.start();
  expect(store.chunks.size).toBe(0);
  appendFileSync(join(logs, "stdout"), "second\n");
  await service.stopContainer(container);
  await isDone();
  expect(store.text(STDOUT)).toBe("first\nsecond\n");
});

it("[NM75] files that the service names are uploaded while they are written", async () => {
  service = openService(20);
  await service.start();
  await launch({
    ...DEFAULT_LOG_AGGREGATION,
    rolledIncludePattern: "std.*",
    rolledExcludePattern: "",
  });
  write("one\n");
  write("quiet\n", "gc.log");
  await waitFor(() => store.text(STDOUT) === "one\n", { what: "the first line" });
  appendFileSync(join(logs, "stdout"), "two\n");
  await waitFor(() => store.text(STDOUT) === "one\ntwo\n", { what: "the second line" });
  expect(store.chunks.has(`${ID}/gc.log`)).toBe(false);
  await service.stopContainer(container);
  await isDone();
  expect(store.text(`${ID}/gc.log`)).toBe("quiet\n");
});

it("[NM75] nothing else is uploaded: no excluded file, no link, no directory", async () => {
  await service.start();
  await launch({ ...DEFAULT_LOG_AGGREGATION, excludePattern: ".*\\.bin" });
  write("yes\n");
  write("no\n", "core.bin");
  writeFileSync(join(home, "secret"), "secret\n");
  symlinkSync(join(home, "secret"), join(logs, "link"));
  mkdirSync(join(logs, "directory"));
  await service.stopContainer(container);
  await isDone();
  expect([...store.chunks.keys()]).toEqual([STDOUT]);
});

it("[NM76] a store that refuses a container for good is not asked again", async () => {
  await service.start();
  store.failure = () => 403;
  await launch();
  await isDone();
  expect(store.requests).toBe(1);
  expect(lines).toContainEqual(
    expect.objectContaining({ outcome: "the test says no", again: false, containerId: ID }),
  );
});

it("[NM76] a cluster without a store is asked once, and never again", async () => {
  await service.start();
  store.failure = () => 503;
  store.reason = NO_LOG_STORE;
  await launch();
  await isDone();
  await launch();
  await service.stopContainer(container);
  expect(service.isPending(ID)).toBe(false);
  expect(store.requests).toBe(1);
});
