/** An audit that cannot fail is a defect: each kind of thing that can be left is left, and found. */
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Cgroups } from "../../src/agent/cgroups.ts";
import type { ContainerStatus } from "../../src/shared/container.ts";
import { containerId } from "../agent/test-node.ts";
import { auditExits } from "../support/exit-audit.ts";
import { storeRecord } from "../support/journal.ts";
import { NodeAudit } from "../support/node-audit.ts";
import { waitFor } from "../support/wait-for.ts";

const ID = containerId(1);

describe("the audit of a machine", () => {
  const nodeId = `audited.node:${process.pid}`;
  let home: string;
  let audit: NodeAudit;
  const cleanups: (() => unknown)[] = [];
  beforeEach(() => {
    home = mkdtempSync(join(realpathSync(tmpdir()), "selvedge-audit-"));
    audit = NodeAudit.begin({ nodeId, home });
  });
  afterEach(() => {
    for (const cleanUp of cleanups.splice(0)) cleanUp();
    rmSync(home, { recursive: true, force: true });
  });

  /** A process of which only `more` names the node; resolves when the audit could see it. */
  async function leave(more: { args?: string[]; cwd?: string; env?: Record<string, string> }) {
    const { args = [], cwd = "/", env = {} } = more;
    const left = spawn("sleep", ["300", ...args], { cwd, env, stdio: "ignore", detached: true });
    cleanups.push(() => left.kill("SIGKILL"));
    await waitFor(async () => (await audit.findings()).some((each) => each.includes("sleep")), {
      what: "the process to be found",
      timeoutMs: 5_000,
    });
    return left.pid;
  }

  it("[NM132] finds nothing where nothing was left", async () => {
    mkdirSync(join(home, "logs", "application"), { recursive: true });
    writeFileSync(join(home, "credential.json"), "{}");
    expect(await audit.findings()).toEqual([]);
  });

  it("[NM132] finds a process by its environment, by its directory, and by a file that it holds", async () => {
    const byEnvironment = await leave({ env: { LOCAL_DIRS: `${home}/local` } });
    expect(await audit.findings()).toEqual([
      `process ${byEnvironment} (sleep 300): its environment is the node's`,
    ]);
    cleanups.pop()?.();
    mkdirSync(join(home, "logs"));
    const byDirectory = await leave({ cwd: join(home, "logs") });
    expect(await audit.findings()).toEqual([
      `process ${byDirectory} (sleep 300): its directory is the node's`,
    ]);
    cleanups.pop()?.();
    // Without a session, parents, environment or directory of the container's: a daemon's log is left.
    const script = `exec env -i setsid sleep 300 > ${join(home, "logs", "out")}`;
    const left = spawn("/bin/sh", ["-c", script], { cwd: "/", env: {} });
    cleanups.push(() => left.kill("SIGKILL"));
    await waitFor(
      async () => (await audit.findings()).join().includes("its open file is the node's"),
      { what: "the daemon to be found", timeoutMs: 5_000 },
    );
  });

  it("[NM132] leaves alone what was there before, and an agent that still runs", async () => {
    const pid = (await leave({ env: { LOCAL_DIRS: `${home}/local` } })) ?? 0;
    expect(await audit.findings({ living: [pid] })).toEqual([]);
    expect(await NodeAudit.begin({ nodeId, home }).findings()).toEqual([]);
  });

  it.skipIf(process.getuid?.() !== 0)("[NM132] finds a mount", async () => {
    const point = join(home, "logs");
    mkdirSync(point);
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=64k", "none", point]);
    cleanups.push(() => execFileSync("umount", [point]));
    expect(await audit.findings()).toEqual([`mount ${point}`]);
  });

  const cgroups = Cgroups.detect(nodeId);
  cgroups?.close();
  it.skipIf(!cgroups)("[NM132] finds a control group, and what is in it", async () => {
    const groups = Cgroups.detect(nodeId);
    const group = await groups?.create(ID, { memoryMb: 64, vcores: 1 }, 10);
    const directories = group?.directories ?? [];
    cleanups.push(() => {
      for (const directory of directories) rmdirSync(directory);
      groups?.close();
    });
    const findings = await audit.findings();
    expect(directories.length).toBeGreaterThan(0);
    for (const path of directories) expect(findings).toContain(`control group ${path}`);
    // The node's own group is there for as long as its agent.
    expect((await audit.findings({ living: [process.pid] })).toSorted()).toEqual(
      directories.map((path) => `control group ${path}`).toSorted(),
    );
  });

  it("[NM132] finds an engine's container", async () => {
    const engineContainers = async () => [ID];
    const withEngine = NodeAudit.begin({ nodeId, home, engineContainers });
    expect(await withEngine.findings()).toEqual([`engine's container ${ID}`]);
  });

  it("[NM132] finds work directories, records, half-written files and pipes", async () => {
    const work = `local/usercache/alice/appcache/application_1/${ID}`;
    mkdirSync(join(home, work), { recursive: true });
    mkdirSync(join(home, "nm-state", "applications"), { recursive: true });
    const left = [`nm-state/${ID}.launch-1`, "nm-state/journal.tmp", "nm.lock"];
    for (const path of left) writeFileSync(join(home, path), "{}");
    storeRecord(join(home, "nm-state", "applications"), "application_1", {});
    execFileSync("mkfifo", [join(home, "nm-state", "pipe")]);
    expect(await audit.findings()).toEqual(
      [
        ...left,
        "nm-state/applications/journal:application_1",
        "nm-state/pipe",
        work,
        "local/usercache/alice/appcache/application_1",
      ]
        .map((path) => `file ${path}`)
        .toSorted(),
    );
  });

  it("[NM132] lets the record of a forgotten container be, until its token has expired", async () => {
    mkdirSync(join(home, "nm-state"));
    const record = (phase: string, tokenExpiresMs: number) => {
      storeRecord(join(home, "nm-state"), ID, { phase, tokenExpiresMs });
      writeFileSync(join(home, "nm-state", `${ID}.pid`), "");
    };
    record("FORGOTTEN", Date.now() + 60_000);
    expect(await audit.findings()).toEqual([]);
    for (const [phase, expiresMs] of [
      ["FORGOTTEN", Date.now() - 1],
      ["COMPLETE", Date.now() + 60_000],
    ] as const) {
      record(phase, expiresMs);
      expect(await audit.findings()).toHaveLength(2);
    }
  });
});

describe("the audit of exits", () => {
  const status = (change: Partial<ContainerStatus>): ContainerStatus => ({
    ...{ containerId: ID, state: "COMPLETE", exitStatus: 3, diagnostics: "", ready: false },
    finishedMs: 1_000,
    ...change,
  });
  const right = new Map([[ID, [3]]]);

  it("[NM132] takes an end that is said again until it is heard", () => {
    const running = status({ state: "RUNNING", exitStatus: -1_000 });
    expect(auditExits([running, status({}), status({})], right)).toEqual([]);
  });

  it.each([
    ["no end", [], `the end of ${ID} was never reported`],
    ["a wrong end", [status({ exitStatus: 4 })], `${ID} ended with 4, and 3 is right`],
    [
      "a second end",
      [status({}), status({ finishedMs: 2_000 })],
      `${ID} ended twice: 3 at 1000, then 3 at 2000`,
    ],
    [
      "life after an end",
      [status({}), status({ state: "RUNNING" }), status({})],
      `${ID} was RUNNING after its end`,
    ],
    [
      "a stranger",
      [status({}), status({ containerId: containerId(2) })],
      `${containerId(2)} was never ordered`,
    ],
  ])("[NM132] finds %s", (_, history, finding) => {
    expect(auditExits(history, right)).toEqual([finding]);
  });
});
