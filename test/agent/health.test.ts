import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type DiskSpace, probeDirectory } from "../../src/agent/health/directory-probe.ts";
import type { Health } from "../../src/agent/health/health.ts";
import type { HealthScriptOptions } from "../../src/agent/health/health-script.ts";
import {
  NodeHealthChecker,
  type NodeHealthCheckerOptions,
} from "../../src/agent/health/node-health-checker.ts";
import { eventually } from "../support/eventually.ts";
import { canMountSmallDisk, mountSmallDisk, unmountSmallDisk } from "../support/small-disk.ts";
import { runs } from "./test-node.ts";

const HEALTHY: Health = { healthy: true, report: "" };

let root: string;
const open: NodeHealthChecker[] = [];
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "selvedge-health-"));
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((checker) => checker.close()));
  rmSync(root, { recursive: true, force: true });
});

type More = Partial<Omit<NodeHealthCheckerOptions, "changed">>;

/** A node with one local and one log directory, unless told otherwise; keeps what it hears. */
async function checkerWith(more: More = {}) {
  const told: Health[] = [];
  let bad: readonly string[] = [];
  const checker = new NodeHealthChecker({
    localDirectories: [join(root, "local")],
    logDirectories: [join(root, "logs")],
    diskIntervalMs: 5,
    probe: async () => ({ usedPercent: 10, freeMb: 1_000 }),
    changed: (health) => told.push(health),
    disksChecked: (badDirs) => {
      bad = badDirs;
    },
    ...more,
  });
  open.push(checker);
  await checker.start();
  return { checker, told, bad: () => bad };
}

/** Disks that are as full as the test says. */
function disks(...paths: string[]) {
  const space = new Map<string, DiskSpace | Error>();
  for (const path of paths) space.set(path, { usedPercent: 10, freeMb: 1_000 });
  const probe = async (path: string) => {
    const found = space.get(path);
    if (!found || found instanceof Error) throw found ?? new Error("no such directory");
    return found;
  };
  return { space, probe };
}

describe("a node's disks", () => {
  it("[NM84] that are too full make it unhealthy at once, and it is back below the low watermark", async () => {
    const { space, probe } = disks("/data", "/logs");
    const { told, bad } = await checkerWith({
      ...{ localDirectories: ["/data"], logDirectories: ["/logs"], probe },
      disks: { usedPercentMax: 90, usedPercentLow: 80 },
    });
    expect(told).toEqual([]);
    space.set("/data", { usedPercent: 90.5, freeMb: 1_000 });
    await eventually(() => expect(told).toHaveLength(1));
    expect(told[0]).toEqual({
      healthy: false,
      report: "1/1 local-dirs are bad: [ /data : used space above threshold of 90% ]",
    });
    expect(bad()).toEqual(["/data"]);

    let probes = 0;
    space.set("/data", { usedPercent: 85, freeMb: 1_000 });
    const counted = space.get.bind(space);
    vi.spyOn(space, "get").mockImplementation((path) => {
      if (path === "/data") probes++;
      return counted(path);
    });
    // Between the marks: looked at again, and nothing changes.
    await eventually(() => expect(probes).toBeGreaterThan(2));
    expect(told).toHaveLength(1);
    space.set("/data", { usedPercent: 80, freeMb: 1_000 });
    await eventually(() => expect(told[1]).toEqual(HEALTHY));
    expect(bad()).toEqual([]);
  });

  it("[NM84] leave it healthy while a quarter of each kind is good, and says which are not", async () => {
    const local = ["/d1", "/d2", "/d3", "/d4"];
    const { space, probe } = disks(...local, "/logs");
    const { told, bad } = await checkerWith({
      ...{ localDirectories: local, logDirectories: ["/logs"], probe },
    });
    for (const path of ["/d1", "/d2", "/d3"]) space.set(path, new Error("EIO: i/o error"));
    await eventually(() => expect(bad()).toHaveLength(3));
    expect(told.at(-1)?.healthy).toBe(true);
    expect(told.at(-1)?.report).toContain("3/4 local-dirs are bad: [ /d1 : EIO: i/o error,");
    space.set("/d4", new Error("EROFS: read-only file system"));
    await eventually(() => expect(told.at(-1)?.healthy).toBe(false));
  });

  it("[NM84] count as bad with less room than the operator wants, or without an answer", async () => {
    const local = ["/small", "/hangs"];
    const { space, probe } = disks(...local, "/logs");
    space.set("/small", { usedPercent: 50, freeMb: 99 });
    const { checker } = await checkerWith({
      ...{ localDirectories: local, logDirectories: ["/logs"] },
      disks: { freeMbMin: 100, probeTimeoutMs: 20 },
      probe: (path) => (path === "/hangs" ? new Promise(() => undefined) : probe(path)),
    });
    expect(checker.health).toEqual({
      healthy: false,
      report:
        "2/2 local-dirs are bad: [ /small : free space below 100 MB, /hangs : no answer within 20 ms ]",
    });
  });

  it("[NM84] that hang are not asked again beside it, and are good when they answer", async () => {
    const { promise, resolve } = Promise.withResolvers<DiskSpace>();
    const asked: string[] = [];
    const { told } = await checkerWith({
      ...{ localDirectories: ["/hangs"], logDirectories: ["/logs"] },
      disks: { probeTimeoutMs: 5 },
      probe: async (path) => {
        asked.push(path);
        return path === "/hangs" ? promise : { usedPercent: 1, freeMb: 1_000 };
      },
    });
    expect(told.at(-1)?.healthy).toBe(false);
    await eventually(() => expect(asked.length).toBeGreaterThan(5));
    expect(asked.filter((path) => path === "/hangs")).toHaveLength(1);
    resolve({ usedPercent: 1, freeMb: 1_000 });
    await eventually(() => expect(told.at(-1)).toEqual(HEALTHY));
  });

  it("[NM84] are really written to, and nothing stays there", async () => {
    const directory = join(root, "disk");
    mkdirSync(directory);
    const { usedPercent, freeMb } = await probeDirectory(directory);
    expect(usedPercent).toBeGreaterThanOrEqual(0);
    expect(usedPercent).toBeLessThanOrEqual(100);
    expect(freeMb).toBeGreaterThan(0);
    expect(readdirSync(directory)).toEqual([]);
    rmSync(directory, { recursive: true });
    await expect(probeDirectory(directory)).rejects.toThrow("ENOENT");
  });

  it.skipIf(!canMountSmallDisk())("[NM84] that are really full are found so", async () => {
    const disk = join(root, "tmpfs");
    mkdirSync(disk);
    mountSmallDisk(disk);
    try {
      const { told } = await checkerWith({
        ...{ localDirectories: [disk], logDirectories: [disk], probe: probeDirectory },
      });
      writeFileSync(join(disk, "filler"), Buffer.alloc(1_040_000));
      await eventually(() => expect(told.at(-1)?.healthy).toBe(false));
      rmSync(join(disk, "filler"));
      await eventually(() => expect(told.at(-1)).toEqual(HEALTHY));
    } finally {
      await Promise.all(open.splice(0).map((checker) => checker.close()));
      // A closed checker does not wait for a probe on its way, which might hang: the disk may still be in use.
      unmountSmallDisk(disk);
    }
  });
});

describe("the operator's health script", () => {
  function script(text: string, more: Partial<HealthScriptOptions> = {}): HealthScriptOptions {
    const path = join(root, "check.sh");
    writeFileSync(path, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
    return {
      ...{ name: "check", path, arguments: [], intervalMs: 5, timeoutMs: 10_000 },
      ...more,
    };
  }

  it("[NM82] makes the node unhealthy by a line that begins with ERROR, until it says none", async () => {
    const trouble = join(root, "trouble");
    writeFileSync(trouble, "");
    const { told } = await checkerWith({
      scripts: [
        script(`echo fine; [ -e ${trouble} ] && echo "ERROR the fan stands still"; exit 0`),
      ],
    });
    await eventually(() =>
      expect(told).toEqual([{ healthy: false, report: "ERROR the fan stands still" }]),
    );
    rmSync(trouble);
    await eventually(() => expect(told.at(-1)).toEqual(HEALTHY));
  });

  it("[NM82] may exit as it likes, and may say ERROR within a line", async () => {
    const runsFile = join(root, "runs");
    const { told } = await checkerWith({
      scripts: [script(`echo "no ERROR here"; echo x >> ${runsFile}; exit 3`)],
    });
    await eventually(() => expect(readFileSync(runsFile, "utf8").length).toBeGreaterThan(4));
    expect(told).toEqual([]);
  });

  it("[NM82] that takes too long makes it unhealthy, and is killed with all it has started", async () => {
    const pidFile = join(root, "pid");
    const { told } = await checkerWith({
      scripts: [
        script(`sleep 300 & echo $! > ${pidFile}; wait`, { timeoutMs: 300, intervalMs: 60_000 }),
      ],
    });
    await eventually(() =>
      expect(told).toEqual([{ healthy: false, report: "health script check timed out" }]),
    );
    const pid = Number(readFileSync(pidFile, "utf8"));
    await eventually(() => expect(runs(pid)).toBe(false));
  });

  it("[NM82] that cannot be run, or that others could write, makes it unhealthy", async () => {
    const broken = script("exit 0");
    writeFileSync(broken.path, "#!/nowhere/sh\n");
    const { told } = await checkerWith({ scripts: [broken] });
    await eventually(() => expect(told.at(-1)?.report).toMatch(/^health script check: .*ENOENT/));
    chmodSync(broken.path, 0o777);
    await eventually(() => expect(told.at(-1)?.report).toContain("others may write to"));
    expect(told.every(({ healthy }) => !healthy)).toBe(true);
  });

  it("[NM83] sees nothing of the agent's environment", async () => {
    process.env["SELVEDGE_SECRET_OF_TEST"] = "token";
    const seen = join(root, "environment");
    try {
      await checkerWith({ scripts: [script(`env > ${seen}.part; mv ${seen}.part ${seen}`)] });
      await eventually(() => expect(existsSync(seen)).toBe(true));
    } finally {
      delete process.env["SELVEDGE_SECRET_OF_TEST"];
    }
    expect(readFileSync(seen, "utf8")).not.toContain("SELVEDGE_SECRET_OF_TEST");
  });

  it("[NM83] that writes without end fills no memory, and its errors are kept to five", async () => {
    const { told } = await checkerWith({
      scripts: [
        script(
          "head -c 20000000 /dev/zero | tr '\\0' x; echo; " +
            'for i in 1 2 3 4 5 6 7; do echo "ERROR $i"; done',
          { intervalMs: 60_000 },
        ),
      ],
    });
    await eventually(() => expect(told).toHaveLength(1));
    expect(told[0]?.report).toBe("ERROR 1\nERROR 2\nERROR 3\nERROR 4\nERROR 5");
  });

  it("[NM85] is joined with what others and the disks say", async () => {
    const { told } = await checkerWith({
      probe: async (path) => ({ usedPercent: path.endsWith("logs") ? 95 : 10, freeMb: 1 }),
      scripts: [script("echo ERROR one"), { ...script("echo ERROR one"), name: "other" }],
    });
    await eventually(() => expect(told.at(-1)?.report.split("\n")).toHaveLength(3));
    expect(told.at(-1)).toEqual({
      healthy: false,
      report:
        `1/1 log-dirs are bad: [ ${join(root, "logs")} : used space above threshold of 90% ]\n` +
        "ERROR one\nERROR one",
    });
  });

  it("[NM82] is ended with the agent", async () => {
    const pidFile = join(root, "pid");
    const { checker } = await checkerWith({ scripts: [script(`echo $$ > ${pidFile}; sleep 300`)] });
    const pid = await eventually(() => {
      const printed = Number(readFileSync(pidFile, "utf8"));
      expect(printed).toBeGreaterThan(1);
      return printed;
    });
    await checker.close();
    expect(runs(pid)).toBe(false);
  });
});
