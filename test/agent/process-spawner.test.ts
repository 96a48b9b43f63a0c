import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ContainerLauncher } from "../../src/agent/container-launcher.ts";
import type { LaunchRequest } from "../../src/agent/container-runtime.ts";
import { readBootId, readStat } from "../../src/agent/process-table.ts";
import { eventually } from "../support/eventually.ts";
import { containerId, runs } from "./test-node.ts";
import { launchContext } from "./test-tracker.ts";

let directory: string;
let launcher: ContainerLauncher;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "selvedge-spawner-"));
  launcher = new ContainerLauncher(directory, readBootId());
});
afterEach(() => {
  launcher.endUnknown(new Set());
  launcher.close();
  rmSync(directory, { recursive: true, force: true });
});

/** A container that is prepared, and whose launch script is this. */
function request(sequence: number, script: string): LaunchRequest {
  const id = containerId(sequence);
  const workDirectory = join(directory, id);
  mkdirSync(workDirectory);
  writeFileSync(join(workDirectory, "script"), script);
  return {
    ...{ containerId: id, run: 1, user: "alice", resource: { memoryMb: 64, vcores: 1 } },
    ...{ launch: launchContext(""), script: join(workDirectory, "script"), workDirectory },
    ...{ logDirectories: [workDirectory], localDirectories: [], localizedPaths: [] },
    stdout: join(workDirectory, "stdout"),
    stderr: join(workDirectory, "stderr"),
    ...{ entrances: [], ports: {} },
  };
}

/** The shell that starts this launcher's processes; the only child of this process. */
function spawningShell(leader: number): number {
  const parent = readStat(leader)?.parentPid ?? 0;
  expect(readStat(parent)?.parentPid).toBe(process.pid);
  return parent;
}

it("[NM150] a container whose supervising shell is killed has ended, as if by SIGKILL", async () => {
  const { identity, exited } = await launcher.launch(request(1, "exec sleep 60"));
  process.kill(-identity.pid, "SIGKILL");
  expect(await exited).toBe(137);
});

it("[NM150] containers are neither ended nor lost when the shell that starts them is killed", async () => {
  const waiting = request(1, "while [ ! -e go ]; do sleep 0.05; done; exit 3");
  const first = await launcher.launch(waiting);
  const shell = spawningShell(first.identity.pid);
  process.kill(shell, "SIGKILL");
  await eventually(() => expect(runs(shell)).toBe(false));
  const second = await launcher.launch(request(2, "exit 4"));
  expect(await second.exited).toBe(4);
  expect(runs(first.identity.pid)).toBe(true);
  writeFileSync(join(waiting.workDirectory, "go"), "");
  expect(await first.exited).toBe(3);
});

it("[NM150] a launch that cannot begin says why, and never comes true later", async () => {
  const lost = request(1, "echo ran");
  rmSync(lost.workDirectory, { recursive: true });
  mkdirSync(join(directory, "logs"));
  const logs = { stdout: join(directory, "logs", "out"), stderr: join(directory, "logs", "err") };
  await expect(launcher.launch({ ...lost, ...logs })).rejects.toThrow(
    `cannot enter ${lost.workDirectory}`,
  );
  mkdirSync(lost.workDirectory);
  await expect(launcher.launch({ ...lost, ...logs })).rejects.toThrow("the launch was given up");
  expect(readFileSync(logs.stdout, "utf8")).toBe("");
});

it("[NM150] an exit code is on the disk also when no agent is there to hear it", async () => {
  const alone = request(1, "while [ ! -e go ]; do sleep 0.05; done; exit 5");
  const { identity } = await launcher.launch(alone);
  launcher.close();
  writeFileSync(join(alone.workDirectory, "go"), "");
  await eventually(() => expect(runs(identity.pid)).toBe(false));
  expect(launcher.exitCodeOf(alone)).toBe(5);
});

it("[NM224] an exit code that a former agent's shell has left is found", async () => {
  const former = request(1, "");
  const file = (extension: string) => join(directory, `${former.containerId}.${extension}`);
  writeFileSync(file("pid"), readFileSync(`/proc/${process.pid}/stat`));
  writeFileSync(file("exitcode.tmp"), "   \n");
  expect(launcher.exitCodeOf(former)).toBeUndefined();
  writeFileSync(file("exitcode"), "6  \n");
  expect(launcher.exitCodeOf(former)).toBe(6);
  await launcher.forget(former.containerId);
  expect(readdirSync(directory)).toEqual([former.containerId]);
});

it("[NM151] nothing of the shells comes with a container's environment, and its files go with it", async () => {
  const plain = request(1, "exec env");
  const { exited } = await launcher.launch(plain);
  expect(await exited).toBe(0);
  const names = readFileSync(plain.stdout, "utf8").match(/^\w+(?==)/gm) ?? [];
  // What shells set by themselves.
  const given = names.filter((name) => !["_", "SHLVL", "PWD"].includes(name));
  expect(given).toEqual(["PATH"]);
  await launcher.forget(plain.containerId);
  expect(readdirSync(directory)).toEqual([plain.containerId]);
});
