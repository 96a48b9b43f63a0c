import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Overrun } from "../../src/agent/container-limits.ts";
import { ContainersMonitor, type MonitorOptions } from "../../src/agent/containers-monitor.ts";
import { measureDirectory } from "../../src/agent/directory-size.ts";
import { readBootId, readStat } from "../../src/agent/process-table.ts";
import { eventually } from "../support/eventually.ts";
import { containerId, runs } from "./test-node.ts";

const BOOT_ID = readBootId();

let root: string;
const roots: string[] = [];
const leaders: ChildProcess[] = [];
const daemons: number[] = [];
const monitors: ContainersMonitor[] = [];

beforeEach(() => {
  makeRoot();
});
afterEach(() => {
  vi.useRealTimers();
  for (const monitor of monitors.splice(0)) monitor.close();
  for (const pid of [...leaders.splice(0).map(({ pid = 0 }) => -pid), ...daemons.splice(0)]) {
    try {
      process.kill(pid, "SIGKILL");
    } catch {
      // It has ended.
    }
  }
  for (const path of roots.splice(0)) rmSync(path, { recursive: true, force: true });
});

/** Where the containers of one agent lie; removed in the end. */
function makeRoot(): void {
  root = mkdtempSync(join(tmpdir(), "selvedge-monitor-"));
  roots.push(root);
}

type Asked = { memoryMb?: number; isMemoryEnforced?: boolean; uid?: number };

function monitorWith(options: Partial<MonitorOptions> = {}): ContainersMonitor {
  const monitor = new ContainersMonitor(() => undefined, {
    ...{ intervalMs: 10, diskIntervalMs: 10 },
    ...options,
  });
  monitors.push(monitor);
  return monitor;
}

/** Runs a command as a container would: leader of a session, with its id in the environment. */
function lead(id: string, command: string, more: { uid?: number } = {}): ChildProcess {
  const leader = spawn("/bin/sh", ["-c", command], {
    ...{ detached: true, stdio: ["pipe", "pipe", "ignore"] },
    ...{
      env: { PATH: process.env["PATH"], CONTAINER_ID: id, LOCAL_DIRS: `/elsewhere,${root}` },
      cwd: "/",
      ...more,
    },
  });
  leader.stdout?.setEncoding("utf8");
  leaders.push(leader);
  return leader;
}

function printed(leader: ChildProcess): Promise<string> {
  return new Promise((resolve) => leader.stdout?.once("data", resolve));
}

function watch(monitor: ContainersMonitor, id: string, leader: ChildProcess, asked: Asked = {}) {
  const { pid = 0 } = leader;
  const overruns: Overrun[] = [];
  const identity = { pid, startTicks: readStat(pid)?.startTicks ?? 0, bootId: BOOT_ID };
  const { memoryMb = 1_000, isMemoryEnforced = false } = asked;
  const [workDirectory, logs] = [join(root, "work"), join(root, "logs")];
  mkdirSync(workDirectory, { recursive: true });
  mkdirSync(logs, { recursive: true });
  monitor.watch(
    {
      ...{ containerId: id, identity, memoryMb, isMemoryEnforced },
      ...{ workDirectory, logDirectories: [logs] },
    },
    (overrun) => overruns.push(overrun),
  );
  return overruns;
}

const NODE = `exec ${process.execPath} -e`;
/** Fills its memory until somebody stops it, slowly enough to be watched. */
const HOG = `${NODE} 'const kept = []; setInterval(() => kept.push(Buffer.alloc(8 << 20, 1)), 5)'`;

describe("a container's memory", () => {
  it("[NM80] above its limit ends it with YARN's words and its processes", async () => {
    const id = containerId(1);
    const leader = lead(id, HOG);
    const overruns = watch(monitorWith(), id, leader, { memoryMb: 100 });
    await eventually(() => expect(overruns).toHaveLength(1));
    expect(overruns[0]?.exitStatus).toBe(-104);
    expect(overruns[0]?.diagnostics).toMatch(
      new RegExp(
        `^Container \\[pid=${leader.pid},containerID=${id}\\] is running beyond physical memory ` +
          "limits\\. Current usage: [\\d.]+ MB of 100 MB physical memory used; [\\d.]+ MB " +
          "virtual memory used\\. Killing container\\.\\nDump of the process-tree for",
      ),
    );
    expect(overruns[0]?.diagnostics).toMatch(/\|- \d+ \d+ \d+ \d+ \(\w+\) [\d.]+ MB [\d.]+ MB/);
  });

  it("[NM80] is the kernel's to limit where a control group does", async () => {
    const id = containerId(1);
    const monitor = monitorWith();
    const leader = lead(id, "sleep 300");
    const overruns = watch(monitor, id, leader, { memoryMb: 1, isMemoryEnforced: true });
    await eventually(() => expect(monitor.usage(id)?.cpuPercent).toBeDefined());
    expect(monitor.usage(id)?.physicalBytes).toBeGreaterThan(1 << 20);
    expect(overruns).toEqual([]);
  });

  it("[NM80] may be more virtually, unless the operator has that checked", async () => {
    const id = containerId(1);
    const leader = lead(id, "sleep 300");
    const lenient = monitorWith({ pmemCheckEnabled: false });
    const kept = watch(lenient, id, leader, { memoryMb: 1 });
    const strict = monitorWith({ pmemCheckEnabled: false, vmemCheckEnabled: true });
    const overruns = watch(strict, id, leader, { memoryMb: 1 });
    await eventually(() => expect(overruns[0]?.exitStatus).toBe(-103));
    expect(overruns[0]?.diagnostics).toMatch(
      /beyond virtual memory limits\. .* [\d.]+ MB of 2\.1 MB virtual memory used/,
    );
    await eventually(() => expect(lenient.usage(id)?.cpuPercent).toBeDefined());
    expect(kept).toEqual([]);
  });

  it("[NM80] is forgiven once when it is a burst of new processes, and not when they stay", async () => {
    // Rounds are driven here; everything else is as real as ever.
    vi.useFakeTimers({ toFake: ["setInterval"] });
    const id = containerId(1);
    const leader = lead(
      id,
      `${NODE} 'const { spawn } = require("child_process");
        let children = [];
        process.stdin.on("data", async (what) => {
          if (String(what) === "end") children.forEach((child) => child.kill("SIGKILL"));
          else children = [1, 2].map(() => spawn(process.execPath, ["-e", "console.log(); setInterval(() => 0, 1e6)"]));
          await Promise.all(children.map((child) => new Promise((done) => {
            if (String(what) === "end") child.on("exit", done); else child.stdout.once("data", done);
          })));
          console.log("done");
        });
        console.log("ready")'`,
    );
    await printed(leader);
    const monitor = monitorWith({ intervalMs: 3_000 });
    const round = () => vi.advanceTimersByTime(3_000);
    watch(monitor, id, leader);
    round();
    const alone = monitor.usage(id)?.physicalBytes ?? 0;
    // Three of them are beyond it, but not twice.
    const overruns = watch(monitor, id, leader, { memoryMb: (alone / (1 << 20)) * 1.8 });
    const tell = async (what: string) => {
      leader.stdin?.write(what);
      await printed(leader);
    };

    await tell("fork");
    round();
    expect(monitor.usage(id)?.physicalBytes).toBeGreaterThan(1.8 * alone);
    await tell("end");
    round();
    expect(overruns).toEqual([]);

    await tell("fork");
    round();
    expect(overruns).toEqual([]);
    round();
    expect(overruns[0]?.exitStatus).toBe(-104);
  });
});

describe("a container's processes", () => {
  /** Starts a daemon that leaves session and parents behind; resolves with its pid. */
  async function withDaemon(id: string, more: { uid?: number } = {}) {
    const leader = lead(
      id,
      `sh -c 'setsid sh -c "echo \\$\\$; exec sleep 300" &'; exec sleep 300`,
      more,
    );
    const daemon = Number(await printed(leader));
    daemons.push(daemon);
    await eventually(() => {
      const stat = readStat(daemon);
      expect(stat?.sessionId).toBe(daemon);
      // Its parent has ended: nothing but its environment leads to the container.
      expect(readStat(stat?.parentPid ?? 0)?.sessionId).not.toBe(leader.pid);
    });
    return { leader, daemon };
  }

  it("[NM81] are found when they have left session and parents behind", async () => {
    const id = containerId(1);
    const { leader, daemon } = await withDaemon(id);
    const overruns = watch(monitorWith({ processesMax: 1 }), id, leader);
    await eventually(() => expect(overruns).toHaveLength(1));
    expect(overruns[0]?.diagnostics).toContain(`|- ${daemon} `);
    expect(overruns[0]?.diagnostics).toContain(`|- ${leader.pid} `);
  });

  it.skipIf(process.getuid?.() !== 0)(
    "[NM81] are not another user's who only says so",
    async () => {
      const id = containerId(1);
      const leader = lead(id, "exec sleep 300");
      const stranger = lead(id, "exec sleep 300", { uid: 65_534 });
      const monitor = monitorWith();
      watch(monitor, id, leader);
      await eventually(() => expect(monitor.usage(id)?.cpuPercent).toBeDefined());
      expect(runs(stranger.pid ?? 0)).toBe(true);
      expect(monitor.usage(id)?.processes).toBe(1);
    },
  );

  it("[NM81] are not those of another agent's container that has the same name", async () => {
    const id = containerId(1);
    const { leader } = await withDaemon(id);
    const monitor = monitorWith();
    makeRoot();
    watch(monitor, id, leader);
    await eventually(() => expect(monitor.usage(id)?.cpuPercent).toBeDefined());
    expect(monitor.usage(id)?.processes).toBe(1);
  });

  it("[NM81] in too great a number end it", async () => {
    const id = containerId(1);
    const leader = lead(id, "for i in 1 2 3 4 5; do sleep 300 & done; wait");
    const overruns = watch(monitorWith({ processesMax: 4 }), id, leader);
    await eventually(() => expect(overruns).toHaveLength(1));
    expect(overruns[0]).toMatchObject({ exitStatus: 137 });
    expect(overruns[0]?.diagnostics).toMatch(
      /beyond its limit of processes\. Current usage: [56] of 4 processes\. Killing container\./,
    );
  });

  it("[NM86] tell how much of a core they use", async () => {
    const [busy, idle] = [containerId(1), containerId(2)];
    const monitor = monitorWith({ intervalMs: 100 });
    watch(monitor, busy, lead(busy, "while :; do :; done"));
    watch(monitor, idle, lead(idle, "exec sleep 300"));
    await eventually(() => expect(monitor.usage(busy)?.cpuPercent).toBeGreaterThan(10));
    expect(monitor.usage(idle)?.cpuPercent).toBeLessThan(10);
    expect(monitor.nodeUsage().containersCpuPercent).toBeGreaterThan(10);
  });
});

describe("a container's disk use", () => {
  it("[NM86] is told along with what else it uses", async () => {
    const id = containerId(1);
    const monitor = monitorWith();
    watch(monitor, id, lead(id, "exec sleep 300"));
    mkdirSync(join(root, "work", "deep"));
    writeFileSync(join(root, "work", "deep", "data"), Buffer.alloc(300_000));
    writeFileSync(join(root, "logs", "stdout"), Buffer.alloc(100_000));
    await eventually(() => expect(monitor.usage(id)?.workBytes).toBeGreaterThanOrEqual(300_000));
    expect(monitor.usage(id)?.logBytes).toBeGreaterThanOrEqual(100_000);
    expect(monitor.usage(containerId(2))).toBe(undefined);
  });

  it("[NM87] of logs ends it where the operator has set a limit", async () => {
    const id = containerId(1);
    const leader = lead(id, "exec sleep 300");
    const logLimits = { directoryBytesMax: 50_000, totalBytesMax: 1_000_000 };
    const overruns = watch(monitorWith({ logLimits }), id, leader);
    writeFileSync(join(root, "logs", "stdout"), Buffer.alloc(20_000));
    writeFileSync(join(root, "logs", "stderr"), Buffer.alloc(40_000));
    await eventually(() => expect(overruns).toHaveLength(1));
    expect(overruns[0]?.exitStatus).toBe(-109);
    expect(overruns[0]?.diagnostics).toMatch(
      /logging beyond the container single log directory limit\.\nLimit: 50000 Log Directory Size: \d+ /,
    );
  });

  it("[NM86] is counted within bounds, however many files there are", async () => {
    for (let i = 0; i < 30; i++) writeFileSync(join(root, `file-${i}`), Buffer.alloc(4_096));
    const { signal } = new AbortController();
    const whole = await measureDirectory(root, 100, signal);
    const part = await measureDirectory(root, 10, signal);
    expect(whole.isWhole).toBe(true);
    expect(part.isWhole).toBe(false);
    expect(part.bytes).toBeLessThan(whole.bytes);
  });
});
