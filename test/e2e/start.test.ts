/** `npm start`, as a person meets it: the same command line, its output, its exit code, Ctrl-C. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { freePort } from "../../scripts/local-cluster.ts";
import { clusterProcesses, endClusterProcesses } from "../../scripts/processes.ts";
import { ROOT } from "../../scripts/run.ts";
import { waitFor } from "../support/wait-for.ts";

const UP_MAX_MS = 60_000;

type Started = { readonly child: ChildProcess; readonly stdout: string; readonly stderr: string };

let home: string;
let port: number;
const children: ChildProcess[] = [];

beforeEach(async () => {
  home = mkdtempSync(join(tmpdir(), "selvedge-start-"));
  port = (await freePort("127.0.0.1")) ?? 0;
});

afterEach(async () => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
  await endClusterProcesses(home, 0);
  rmSync(home, { recursive: true, force: true });
});

/** What `npm start` runs, in a process group of its own as in a terminal. */
function start(args: readonly string[] = [], environment: Record<string, string> = {}): Started {
  const child = spawn(process.execPath, ["scripts/require-node.mjs", "scripts/start.ts", ...args], {
    cwd: ROOT,
    detached: true,
    env: { ...process.env, PORT: String(port), SELVEDGE_HOME: home, ...environment },
  });
  children.push(child);
  const started = { child, stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    started.stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    started.stderr += text;
  });
  return started;
}

async function exitCode({ child }: Started): Promise<number | null> {
  if (child.exitCode === null && child.signalCode === null) await once(child, "close");
  return child.exitCode;
}

async function up(started: Started): Promise<void> {
  const isUp = () => {
    if (started.child.exitCode !== null) return "ended";
    return started.stdout.includes("Ctrl-C ends the cluster") && "up";
  };
  const how = await waitFor(isUp, { what: "the cluster to be up", timeoutMs: UP_MAX_MS });
  expect(how, started.stderr).toBe("up");
}

/** Ctrl-C goes to the whole process group. */
function controlC({ child }: Started): void {
  process.kill(-(child.pid ?? 0), "SIGINT");
}

function containerUrls({ stdout }: Started): string[] {
  return [...stdout.matchAll(/READY.*?(http:\S+)/g)].map(([, url]) => url ?? "");
}

describe("npm start", () => {
  it("[ST1] [ST2] [ST3] brings up a cluster that serves the example, and ends it all at Ctrl-C", async () => {
    const first = start();
    await up(first);
    const urls = containerUrls(first);
    expect(urls).toHaveLength(2);
    for (const url of urls) expect((await fetch(url)).ok).toBe(true);
    expect((await fetch(`http://127.0.0.1:${port}/healthz`)).ok).toBe(true);
    const record = /Registry record: (\S+)/.exec(first.stdout)?.[1] ?? "";
    expect(await (await fetch(record)).json()).toMatchObject({ path: expect.any(String) });
    expect(statSync(join(home, "admin.token")).mode & 0o777).toBe(0o600);

    controlC(first);
    expect(await exitCode(first)).toBe(0);
    expect(clusterProcesses(home)).toEqual([]);

    const token = readFileSync(join(home, "admin.token"), "utf8");
    const second = start();
    await up(second);
    expect(second.stderr).toContain("The service hello-world is there already");
    expect(readFileSync(join(home, "admin.token"), "utf8")).toBe(token);
    for (const url of containerUrls(second)) expect((await fetch(url)).ok).toBe(true);
    controlC(second);
    expect(await exitCode(second)).toBe(0);
  });

  it("[ST3] leaves nothing behind when it is killed itself", async () => {
    const started = start(["--nodes", "1"]);
    await up(started);
    expect(clusterProcesses(home).length).toBeGreaterThan(3);
    started.child.kill("SIGKILL");
    await waitFor(() => clusterProcesses(home).length === 0, { what: "everything to end" });
  });

  it("[ST3] ends everything when it is stopped half-way", async () => {
    const started = start();
    await waitFor(() => started.stderr.includes("The Worker answers"), { what: "the Worker" });
    controlC(started);
    expect(await exitCode(started)).toBe(130);
    expect(clusterProcesses(home)).toEqual([]);
  });

  it("[ST4] starts as many nodes as are asked for, without the example, and says little", async () => {
    const started = start(["--no-example", "--nodes", "1", "--no-progress"]);
    await up(started);
    expect(started.stdout).toContain("with 1 node and no service");
    expect(started.stderr).toBe("");
    controlC(started);
    expect(await exitCode(started)).toBe(0);
  });

  it("[ST5] names the port that is taken and the command that takes another", async () => {
    const other = createServer().listen(port, "127.0.0.1");
    await once(other, "listening");
    const started = start();
    expect(await exitCode(started)).toBe(1);
    expect(started.stderr).toMatch(
      new RegExp(`^Port ${port} is taken .* with PORT=\\d+ npm start\\n$`),
    );
    other.close();
  });

  it.each([
    [{ HOST: "0.0.0.0" }, [], "HOST=0.0.0.0 can be reached from other machines"],
    [{ PORT: "http" }, [], "PORT is http; it must be a whole number from 1 to 65535."],
    [{}, ["--nodes", "0"], "--nodes is 0; it must be a whole number from 1 to 64."],
    [{}, ["--node", "2"], "Unknown option '--node'"],
  ])("[ST5] refuses %j %j in a sentence", async (environment, args, sentence) => {
    const started = start(args, environment);
    expect(await exitCode(started)).toBe(1);
    expect(started.stderr).toContain(sentence);
    expect(started.stderr).not.toContain("    at ");
  });

  it("[ST5] refuses to run twice in one home", async () => {
    const first = start(["--no-example", "--nodes", "1"]);
    await up(first);
    const second = start();
    expect(await exitCode(second)).toBe(1);
    expect(second.stderr).toContain(`The cluster in ${home} is running already`);
    expect((await fetch(`http://127.0.0.1:${port}/healthz`)).ok).toBe(true);
    controlC(first);
    expect(await exitCode(first)).toBe(0);
  });
});
