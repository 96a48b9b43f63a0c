import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Cgroups, entrances, oomKills, resizeGroup } from "../../src/agent/cgroups.ts";
import { eventually } from "../support/eventually.ts";
import { containerId, runs, TestNode } from "./test-node.ts";
import { launchContext } from "./test-tracker.ts";

/** A program that fills its memory until somebody stops it, slowly enough to be watched. */
const HOG = `${process.execPath} -e '
  const kept = [];
  setInterval(() => kept.push(Buffer.alloc(8 << 20, 1)), 5);
'`;

let node: TestNode;
beforeEach(async () => {
  // Control groups are the machine's: no other test or agent may share this name.
  node = await TestNode.create("127.0.0.1:18041");
});
afterEach(() => node.close());

describe("where no control group limits memory", () => {
  it("kills a container that uses more than it was granted, and shows its processes", async () => {
    await node.start({ monitorIntervalMs: 100 });
    const id = await node.run(1, launchContext(`echo $$; ${HOG}`), { memoryMb: 100 });
    const status = await node.tracker.untilState(id, "COMPLETE");
    expect(status.exitStatus).toBe(-104);
    expect(status.diagnostics).toMatch(
      /running beyond physical memory limits.* MB of 100 MB physical memory used/,
    );
    expect(status.diagnostics).toMatch(/\|- \d+ \d+ \d+ \d+ \(\w+\) \d+(\.\d)? MB/);
    expect(runs(Number(node.stdout(id)))).toBe(false);
  });

  it("leaves a container alone that keeps to its limit", async () => {
    await node.start({ monitorIntervalMs: 20 });
    const id = await node.run(1, launchContext("sleep 0.3; exit 9"), { memoryMb: 100 });
    const status = await node.tracker.untilState(id, "COMPLETE");
    expect(status.exitStatus).toBe(9);
  });
});

const probe = Cgroups.detect("probe.test:1");
const hasMemoryCgroup = probe?.description.includes("memory") ?? false;
probe?.close();

describe.skipIf(!hasMemoryCgroup)("where control groups limit memory", () => {
  it("has the kernel kill what uses too much, says so, and leaves no group behind", async () => {
    const agent = await node.start({ cgroups: true });
    const id = await node.run(1, launchContext(`cat /proc/self/cgroup; ${HOG}`), { memoryMb: 64 });
    const status = await node.tracker.untilState(id, "COMPLETE");
    expect(status.exitStatus).toBe(-104);
    expect(status.diagnostics).toContain("running beyond physical memory limits");
    expect(status.diagnostics).toContain("64 MB of 64 MB physical memory used");
    expect(node.stdout(id)).toMatch(new RegExp(`memory:.*/selvedge/127.0.0.1_18041/${id}`));
    await agent.close();
    // Other agents' containers, of whoever tests on this machine, may have the same id.
    const own = ["/sys/fs/cgroup", "-path", `*/127.0.0.1_18041/${id}`];
    expect(execFileSync("find", own, { encoding: "utf8" })).toBe("");
  });

  it("kills even what left session and parents behind", async () => {
    await node.start({ cgroups: true });
    const command = `sh -c 'setsid sh -c "echo \\$\\$; exec sleep 300" &'; sleep 60`;
    const id = await node.run(1, launchContext(command, { sigkillDelayMs: 0 }));
    const pid = await eventually(() => {
      const printed = Number(node.stdout(id));
      expect(printed).toBeGreaterThan(1);
      return printed;
    });
    node.tracker.stop(id);
    await node.tracker.untilState(id, "COMPLETE");
    await eventually(() => expect(runs(pid)).toBe(false));
  });
});

/** Files stand in for the kernel here: this is about what is written where. */
describe("control groups of version 2", () => {
  let mount: string;
  const unit = () => join(mount, "system.slice", "selvedge.service");
  const membership = (path: string) => {
    writeFileSync(join(mount, "membership"), `0::${path}\n`);
    return join(mount, "membership");
  };
  const detect = (path = "/system.slice/selvedge.service/selvedge-agent") =>
    Cgroups.detect("n1:8041", mount, membership(path));
  beforeEach(() => {
    mount = mkdtempSync(join(tmpdir(), "selvedge-cgroup2-"));
    const node = join(unit(), "selvedge", "n1_8041");
    mkdirSync(node, { recursive: true });
    for (const directory of [mount, unit(), join(unit(), "selvedge"), node]) {
      writeFileSync(join(directory, "cgroup.controllers"), "cpuset cpu io memory pids\n");
    }
  });
  afterEach(() => rmSync(mount, { recursive: true, force: true }));

  it("[NM230] sets limits in groups beside the agent's, which systemd has made below the unit's", async () => {
    const cgroups = detect();
    expect(cgroups?.description).toBe("v2");
    const group = await cgroups?.create(containerId(1), { memoryMb: 256, vcores: 1 }, 100);
    const directory = join(unit(), "selvedge", "n1_8041", containerId(1));
    expect(group).toEqual({ version: 2, directories: [directory], memory: directory });
    const read = (file: string) => readFileSync(join(directory, file), "utf8");
    expect(read("memory.max")).toBe("268435456");
    expect(read("cpu.weight")).toBe("40");
    expect(read("pids.max")).toBe("100");
    expect(readFileSync(join(unit(), "cgroup.subtree_control"), "utf8")).toBe("+memory +cpu +pids");
    if (group) expect(entrances(group)).toEqual([join(directory, "cgroup.procs")]);
    if (group) expect(resizeGroup(group, { memoryMb: 512, vcores: 2 })).toBe(true);
    expect(read("memory.max")).toBe("536870912");
    expect(read("cpu.weight")).toBe("79");
    expect(cgroups?.containers()).toEqual([containerId(1)]);
    writeFileSync(join(directory, "memory.events"), "low 0\noom 3\noom_kill 2\n");
    if (group) expect(oomKills(group)).toBe(2);
  });

  it("does without when the memory controller is not there", () => {
    writeFileSync(join(unit(), "cgroup.controllers"), "hugetlb\n");
    expect(detect()).toBe(undefined);
    expect(existsSync(join(unit(), "cgroup.subtree_control"))).toBe(false);
  });

  it("[NM230] does without in a unit that systemd could then not start again", () => {
    expect(detect("/system.slice/selvedge.service")).toBe(undefined);
    expect(existsSync(join(unit(), "cgroup.subtree_control"))).toBe(false);
  });
});
