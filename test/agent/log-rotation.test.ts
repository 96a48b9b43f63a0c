/** Rotation of logs while they are written: real writers, real holes, and a store that may be away. */
import { execFileSync } from "node:child_process";
import {
  appendFileSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { AgentHome } from "../../src/agent/agent-home.ts";
import type { LogLine } from "../../src/agent/log.ts";
import { LogAggregationService } from "../../src/agent/log-aggregation.ts";
import { readLog } from "../../src/agent/log-reader.ts";
import { type KeptFrom, LogRotation } from "../../src/agent/log-rotation.ts";
import { LogUploader } from "../../src/agent/log-uploader.ts";
import { DEFAULT_LOG_AGGREGATION } from "../../src/shared/aggregated-logs.ts";
import type { ContainerLaunchContext } from "../../src/shared/container.ts";
import { canMountSmallDisk, mountSmallDisk, unmountSmallDisk } from "../support/small-disk.ts";
import { waitFor } from "../support/wait-for.ts";
import { LogStoreServer } from "./log-store-server.ts";
import { TestNode } from "./test-node.ts";
import { launchContext } from "./test-tracker.ts";

const ID = "container_e01_1700000000000_0001_01_000001";
const STDOUT = `${ID}/stdout`;
const KEPT_BYTES = 100_000;

let directory: string;
let home: AgentHome;
let stdout: string;
let lines: LogLine[];
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "selvedge-rotation-"));
  home = new AgentHome(directory);
  stdout = home.logFile(ID, "stdout");
  mkdirSync(dirname(stdout), { recursive: true });
  lines = [];
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** Ten bytes each. */
const numbered = (from: number, count: number) =>
  Array.from({ length: count }, (_, index) => `${String(from + index).padStart(9, "0")}\n`).join(
    "",
  );

function openRotation(storedTo: () => number = () => Infinity): Promise<LogRotation> {
  const log = (line: LogLine) => lines.push(line);
  return LogRotation.open({ home, keptBytes: KEPT_BYTES, storedTo, log });
}

/** As `selvedge logs` reads it: everything from an offset on, and what was dropped of that. */
async function readFrom(rotation: LogRotation, offset: number) {
  const request = { type: "read-log", requestId: "1", containerId: ID, file: "stdout" } as const;
  const { keptFrom } = rotation;
  let text = "";
  let droppedBytes = 0;
  for (let next = offset; ; ) {
    const chunk = await readLog(
      { home, keptFrom, writtenBefore: () => 0 },
      { ...request, offset: next, lengthMax: 65_536, waitMs: 0 },
      () => true,
      AbortSignal.timeout(10_000),
    );
    text += chunk.data ?? "";
    droppedBytes += chunk.droppedBytes ?? 0;
    next = chunk.nextOffset;
    if (chunk.end) return { text, droppedBytes };
  }
}

/** Drops the first 50,000 lines as soon as somebody was told that they are there. */
function droppedMeanwhile(): KeptFrom {
  let keptFrom = 0;
  return () => {
    if (keptFrom > 0) return keptFrom;
    keptFrom = 500_000;
    const range = ["--offset", "0", "--length", String(keptFrom)];
    execFileSync("fallocate", ["--punch-hole", ...range, stdout]);
    return 0;
  };
}

describe("a log that grows too long", () => {
  it("[NM180] keeps its newest lines, its offsets, and little of the disk", async () => {
    const rotation = await openRotation();
    appendFileSync(stdout, numbered(0, 100_000));
    await rotation.rotate(ID);
    const { text, droppedBytes } = await readFrom(rotation, 0);
    expect(text).toBe(numbered(90_000, 10_000));
    expect(droppedBytes).toBe(900_000);
    expect((await readFrom(rotation, -50)).text).toBe(numbered(99_995, 5));
    expect((await readFrom(rotation, 950_000)).text).toBe(numbered(95_000, 5_000));
    expect(statSync(stdout).size).toBe(1_000_000);
    expect(statSync(stdout).blocks * 512).toBeLessThan(2 * KEPT_BYTES);
  });

  it("[NM180] is left alone as long as there is little to gain", async () => {
    const rotation = await openRotation();
    appendFileSync(stdout, numbered(0, 10_500));
    await rotation.rotate(ID);
    expect(await readFrom(rotation, 0)).toEqual({ text: numbered(0, 10_500), droppedBytes: 0 });
    expect(lines).toEqual([]);
  });

  it("[NM180] is rotated again and again, also by the next agent", async () => {
    appendFileSync(stdout, numbered(0, 50_000));
    await (await openRotation()).rotate(ID);
    const rotation = await openRotation();
    expect((await readFrom(rotation, 0)).droppedBytes).toBe(400_000);
    appendFileSync(stdout, numbered(50_000, 50_000));
    await rotation.rotate(ID);
    expect(await readFrom(rotation, 0)).toEqual({
      text: numbered(90_000, 10_000),
      droppedBytes: 900_000,
    });
  });

  it("[NM180] keeps little of the disk also when it is rotated very often", async () => {
    const rotation = await openRotation();
    for (let round = 0; round < 60; round++) {
      appendFileSync(stdout, numbered(round * 1_001, 1_001));
      await rotation.rotate(ID);
    }
    expect(statSync(stdout).blocks * 512).toBeLessThan(1.2 * KEPT_BYTES);
  });

  it("[NM180] begins with a whole character where no line ends", async () => {
    const rotation = await openRotation();
    appendFileSync(stdout, "€".repeat(100_000));
    await rotation.rotate(ID);
    const { text, droppedBytes } = await readFrom(rotation, 0);
    expect(text).toMatch(/^€+$/);
    expect(droppedBytes + Buffer.byteLength(text)).toBe(300_000);
  });

  it("[NM180] is a new one when its program has begun it anew", async () => {
    const rotation = await openRotation();
    appendFileSync(stdout, numbered(0, 50_000));
    await rotation.rotate(ID);
    writeFileSync(stdout, "anew\n");
    expect(await readFrom(rotation, 0)).toEqual({ text: "anew\n", droppedBytes: 0 });
  });

  it("[NM180] is forgotten when it is gone", async () => {
    const rotation = await openRotation();
    appendFileSync(stdout, numbered(0, 50_000));
    await rotation.rotate(ID);
    await rotation.forgetRemoved();
    expect(rotation.keptFrom(ID, "stdout", 500_000)).toBe(400_000);
    rmSync(stdout);
    await rotation.forgetRemoved();
    expect(rotation.keptFrom(ID, "stdout", 500_000)).toBe(0);
    expect((await openRotation()).keptFrom(ID, "stdout", 500_000)).toBe(0);
  });

  it("[NM180] is read whole, and the reason said, where the machine cannot make a hole", async () => {
    vi.stubEnv("PATH", directory);
    onTestFinished(() => {
      vi.unstubAllEnvs();
    });
    const rotation = await openRotation();
    appendFileSync(stdout, numbered(0, 50_000));
    await rotation.rotate(ID);
    expect(await readFrom(rotation, 0)).toEqual({ text: numbered(0, 50_000), droppedBytes: 0 });
    expect((await openRotation()).keptFrom(ID, "stdout", 500_000)).toBe(0);
    expect(lines).toContainEqual(
      expect.objectContaining({ event: "logs.rotate", outcome: expect.stringContaining("ENOENT") }),
    );
  });

  it("[NM180] that is dropped just when it is read is neither handed out nor stored as nothing", async () => {
    appendFileSync(stdout, numbered(0, 60_000));
    const request = { type: "read-log", requestId: "1", containerId: ID, file: "stdout" } as const;
    const range = { offset: 0, lengthMax: 65_536, waitMs: 0 };
    const logs = { home, keptFrom: droppedMeanwhile(), writtenBefore: () => 0 };
    const chunk = await readLog(
      logs,
      { ...request, ...range },
      () => true,
      AbortSignal.timeout(9_999),
    );
    expect(chunk).toMatchObject({ droppedBytes: 500_000 });
    expect(chunk.data?.startsWith(numbered(50_000, 1_000))).toBe(true);

    writeFileSync(stdout, numbered(0, 60_000));
    const store = new LogStoreServer();
    const url = await store.open();
    onTestFinished(() => store.close());
    const about = {
      containerId: ID,
      user: "ann",
      instance: "a-0",
      context: DEFAULT_LOG_AGGREGATION,
    };
    await new LogUploader(url, () => "credential", droppedMeanwhile()).upload(
      { ...about, directories: [dirname(stdout)] },
      { isWanted: () => true, hasEnded: true },
      AbortSignal.timeout(9_999),
    );
    expect(store.text(STDOUT)).toBe(numbered(50_000, 10_000));
  });

  it("[NM181] leads to nobody else's file, neither as a link nor by a second name", async () => {
    const rotation = await openRotation();
    const foreign = join(directory, "foreign");
    writeFileSync(foreign, numbered(0, 50_000));
    symlinkSync(foreign, stdout);
    linkSync(foreign, home.logFile(ID, "stderr"));
    await rotation.rotate(ID);
    expect(readFileSync(foreign, "utf8")).toBe(numbered(0, 50_000));
  });
});

describe("a disk that a log has filled", () => {
  it.skipIf(!canMountSmallDisk())(
    "[NM180] has room again, although not even a note could be written",
    async () => {
      const disk = join(directory, "disk");
      mkdirSync(disk);
      mountSmallDisk(disk);
      try {
        home = new AgentHome(disk);
        stdout = home.logFile(ID, "stdout");
        const rotation = await openRotation();
        mkdirSync(dirname(stdout), { recursive: true });
        expect(() => appendFileSync(stdout, numbered(0, 200_000))).toThrow("ENOSPC");
        const { size } = statSync(stdout);
        await rotation.rotate(ID);
        expect(lines).toContainEqual(expect.objectContaining({ outcome: "ok" }));
        expect(statSync(stdout).blocks * 512).toBeLessThan(1.5 * KEPT_BYTES);
        // What the next agent knows.
        const next = await openRotation();
        expect(next.keptFrom(ID, "stdout", size)).toBe(rotation.keptFrom(ID, "stdout", size));
        expect(next.keptFrom(ID, "stdout", size)).toBeGreaterThan(0);
      } finally {
        unmountSmallDisk(disk);
      }
    },
  );
});

describe("a container that writes all the time", () => {
  it("[NM180] loses no line to rotation but the oldest, and its reader is told how much", async () => {
    const node = await TestNode.create();
    try {
      const monitor = { diskIntervalMs: 20 };
      await node.start({ logRotation: { keptBytes: KEPT_BYTES }, monitor });
      const program = `awk 'BEGIN { for (i = 0; i < 1000000; i++) printf "%09d\\n", i }'; sleep 60`;
      const id = await node.run(1, launchContext(program));
      const path = join(node.logDirectory(id), "stdout");
      const blocks = () => statSync(path, { throwIfNoEntry: false })?.blocks ?? 0;
      await waitFor(() => (statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 10_000_000, {
        what: "all to be written",
      });
      // The test's cluster takes no logs for now: twice as much stays.
      await waitFor(() => blocks() * 512 < 2.5 * KEPT_BYTES, { what: "the disk to be freed" });
      let text = "";
      let droppedBytes = 0;
      for (let offset = 0; offset < 10_000_000; ) {
        const requestId = `at ${offset}`;
        const about = { requestId, containerId: id, file: "stdout", waitMs: 0 };
        node.tracker.send({ type: "read-log", ...about, offset, lengthMax: 65_536 });
        const chunk = await node.tracker.until("a piece of log", () =>
          node.tracker.logs.find((each) => each.requestId === requestId),
        );
        text += chunk.data;
        droppedBytes += chunk.droppedBytes ?? 0;
        offset = chunk.nextOffset;
      }
      expect(text).toBe(numbered(droppedBytes / 10, text.length / 10));
      expect(droppedBytes + text.length).toBe(10_000_000);
      expect(droppedBytes).toBeGreaterThan(9_700_000);
    } finally {
      await node.close();
    }
  });
});

describe("a log that the cluster's store is to have", () => {
  let store: LogStoreServer;
  let url: string;
  let rotation: LogRotation;
  let service: LogAggregationService;
  const container = {
    ...{ applicationId: "application_1700000000000_0001", user: "ann", containerId: ID },
    workDirectory: "/nowhere",
    get logDirectories() {
      return [dirname(stdout)];
    },
  };

  beforeEach(async () => {
    store = new LogStoreServer();
    url = await store.open();
    rotation = await LogRotation.open({
      ...{ home, keptBytes: KEPT_BYTES, log: (line) => lines.push(line) },
      storedTo: (...file) => service.storedTo(...file),
    });
    service = openService();
    await service.start();
    await service.initializeContainer(container, { instance: "a-0" } as ContainerLaunchContext);
  });
  afterEach(async () => {
    await service.close();
    await store.close();
  });

  function openService(): LogAggregationService {
    return new LogAggregationService({
      home: directory,
      uploader: new LogUploader(url, () => "credential", rotation.keptFrom),
      log: (line) => lines.push(line),
      nowMs: Date.now,
      backoffMs: () => 5,
      closeTimeoutMs: 0,
    });
  }

  const end = async () => {
    await service.stopContainer(container);
    await waitFor(() => !service.isPending(ID), { what: "all logs to be uploaded" });
  };
  /** Rounds until the file takes no more than it may. */
  const untilRotated = () =>
    waitFor(
      async () => {
        await rotation.rotate(ID);
        return statSync(stdout).blocks * 512 < 2 * KEPT_BYTES;
      },
      { what: "the log to be rotated" },
    );

  it("[NM182] is uploaded before it is dropped: the store has every line", async () => {
    appendFileSync(stdout, numbered(0, 15_000));
    await rotation.rotate(ID);
    expect((await readFrom(rotation, 0)).droppedBytes).toBe(0);
    await untilRotated();
    appendFileSync(stdout, numbered(15_000, 3_000));
    await untilRotated();
    await end();
    expect(store.text(STDOUT)).toBe(numbered(0, 18_000));
    expect(store.dropped.get(STDOUT)?.size).toBe(0);
  });

  it("[NM182] is not dropped by an agent that does not know yet what is to be uploaded", async () => {
    appendFileSync(stdout, numbered(0, 15_000));
    await service.close();
    service = openService();
    await rotation.rotate(ID);
    expect((await readFrom(rotation, 0)).droppedBytes).toBe(0);
    await service.recoverContainer(container);
    await service.start();
    await untilRotated();
    await end();
    expect(store.text(STDOUT)).toBe(numbered(0, 15_000));
  });

  it("[NM182] stays while the store is away, up to twice its length, and what is lost is said", async () => {
    store.failure = () => 503;
    appendFileSync(stdout, numbered(0, 15_000));
    await rotation.rotate(ID);
    expect((await readFrom(rotation, 0)).droppedBytes).toBe(0);
    appendFileSync(stdout, numbered(15_000, 15_000));
    await rotation.rotate(ID);
    expect((await readFrom(rotation, 0)).droppedBytes).toBe(100_000);
    expect(lines).toContainEqual(
      expect.objectContaining({ event: "logs.rotated", outcome: "lost: not stored in time" }),
    );
    store.failure = undefined;
    await end();
    expect(store.text(STDOUT)).toBe(numbered(10_000, 20_000));
    expect(store.dropped.get(STDOUT)).toEqual(new Map([[100_000, 0]]));
  });
});
