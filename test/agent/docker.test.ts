/** Containers of a real engine: podman, as the operating system installs it. */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { AgentHome } from "../../src/agent/agent-home.ts";
import type { Overrun } from "../../src/agent/container-limits.ts";
import type { LaunchRequest } from "../../src/agent/container-runtime.ts";
import { ContainersMonitor } from "../../src/agent/containers-monitor.ts";
import type { DockerRuntime } from "../../src/agent/docker/docker-runtime.ts";
import { LogRotation } from "../../src/agent/log-rotation.ts";
import { OsUsers } from "../../src/agent/os-users.ts";
import { readBootId } from "../../src/agent/process-table.ts";
import { eventually } from "../support/eventually.ts";
import {
  ALLOWED,
  ENV_IMAGE,
  missingForPodman,
  QUIT_IMAGE,
  TestEngine,
  TestRegistry,
} from "./docker-engine.ts";
import { containerId, runs } from "./test-node.ts";

const BOOT = readBootId();
/** Doubles a string until the kernel has had enough. */
const HOG = "x=aaaaaaaa; while :; do x=$x$x; done";

const missing = missingForPodman();
if (missing !== undefined && process.env["CI"] === "true") throw new Error(missing);
const title = missing === undefined ? "containers of podman" : `containers of podman (${missing})`;

describe.skipIf(missing !== undefined)(title, () => {
  let engine: TestEngine;
  let runtime: DockerRuntime;
  beforeAll(async () => {
    engine = await TestEngine.create();
  });
  afterAll(() => engine.close());
  beforeEach(async () => {
    runtime = await engine.runtime();
  });
  afterEach(() => engine.removeContainers());

  const until = (request: LaunchRequest, text: string) =>
    eventually(() => expect(engine.output(request)).toContain(text));

  it("[NM40] a container runs its command in its image, and leaves output and exit code", async () => {
    const request = engine.request(
      1,
      'echo "hello $NAME"; pwd; ls /bin/env; echo bad >&2; exit 7',
      {
        environment: { NAME: "two\nlines" },
      },
    );
    const { exited } = await runtime.launch(request);
    expect(await exited).toBe(7);
    const { workDirectory } = request;
    expect(engine.output(request)).toBe(`hello two\nlines\n${workDirectory}\n/bin/env\n`);
    expect(readFileSync(request.stderr, "utf8")).toBe("bad\n");
    expect(runtime.exitCodeOf(request)).toBe(7);
    expect(await engine.names()).toEqual([request.containerId]);
    await runtime.forget(request.containerId);
    expect(await engine.names()).toEqual([]);
    expect(runtime.exitCodeOf(request)).toBeUndefined();
  });

  it("[NM40] one run is started at most once, and a later run takes its place", async () => {
    const first = engine.request(1, "exit 1");
    await (await runtime.launch(first)).exited;
    await expect(runtime.launch(first)).rejects.toThrow(/name .* is already in use/);
    const second = engine.request(1, "exit 2", { run: 2 });
    expect(await (await runtime.launch(second)).exited).toBe(2);
    expect(runtime.exitCodeOf(first)).toBe(1);
    expect(await engine.names()).toEqual([`${first.containerId}.2`]);
  });

  it("[NM41] a restarted agent finds its running container, and hears of its end", async () => {
    const request = engine.request(1, "echo up; while ! test -e go; do sleep 0.05; done; exit 5");
    const launched = await runtime.launch(request);
    await until(request, "up");
    runtime.close();
    const restarted = await engine.runtime();
    const found = await restarted.adopt(request, BOOT);
    if (typeof found !== "object") throw new Error(`adopted ${found}`);
    expect(found.identity).toEqual(launched.identity);
    expect(readFileSync(`/proc/${found.identity.pid}/cmdline`, "utf8")).toContain("sh");
    expect(restarted.exitCodeOf(request)).toBeUndefined();
    writeFileSync(join(request.workDirectory, "go"), "");
    expect(await found.exited).toBe(5);
    expect(restarted.exitCodeOf(request)).toBe(5);
  });

  it("[NM41] what a container says and how it ends is kept while no agent is there", async () => {
    const command = "echo up; while ! test -e go; do sleep 0.05; done; echo down; exit 6";
    const request = engine.request(1, command);
    await runtime.launch(request);
    await until(request, "up");
    runtime.close();
    writeFileSync(join(request.workDirectory, "go"), "");
    await until(request, "down");
    const restarted = await engine.runtime();
    const found = await restarted.adopt(request, BOOT);
    expect(typeof found === "object" ? await found.exited : found).toBe(6);
  });

  it("[NM41] a container outlives its client, and its exit code is still known", async () => {
    const request = engine.request(1, "echo up; while ! test -e go; do sleep 0.05; done; exit 8");
    await runtime.launch(request);
    await until(request, "up");
    runtime.close();
    engine.killClient(request);
    const restarted = await engine.runtime();
    const found = await restarted.adopt(request, BOOT);
    if (typeof found !== "object") throw new Error(`adopted ${found}`);
    writeFileSync(join(request.workDirectory, "go"), "");
    expect(await found.exited).toBe(8);
  });

  it("[NM41] a container that was never started never will be", async () => {
    const request = engine.request(1, "echo ran");
    expect(await runtime.adopt(request, BOOT)).toBeUndefined();
    await expect(runtime.launch(request)).rejects.toThrow("the launch was given up");
    expect(engine.output(request)).toBe("");
  });

  it("[NM42] an image that is not there fails the launch, by name and with the reason", async () => {
    const docker = { image: "local/none:9" };
    const never = await engine.runtime({ pullPolicy: "never" });
    await expect(never.launch(engine.request(1, "true", { docker }))).rejects.toThrow(
      /image local\/none:9 is not on this node: .*image not known \(load it there/,
    );
    const nowhere = { image: "127.0.0.1:1/none:9" };
    const pulling = await engine.runtime({ allowed: { ...ALLOWED, images: ["127.0.0.1:1/*"] } });
    await expect(pulling.launch(engine.request(2, "true", { docker: nowhere }))).rejects.toThrow(
      /cannot pull image 127\.0\.0\.1:1\/none:9: .*connection refused/,
    );
    expect(pulling.progress(containerId(2))).toBeUndefined();
    expect(await engine.names()).toEqual([]);
  });

  it("[NM42] a registry gets the login of the launch's own configuration, and nobody sees it", async () => {
    const registry = await TestRegistry.start();
    try {
      const image = `${registry.name}/team/app:1`;
      const cli = await engine.clientOf(registry);
      const pulling = await engine.runtime({ cli, allowed: { ...ALLOWED, images: ["*"] } });
      const docker = { image, clientConfig: "docker.json" };
      const request = engine.request(1, "true", { docker });
      const auth = Buffer.from("alice:open sesame").toString("base64");
      const config = { auths: { [registry.name]: { auth } }, credsStore: "../../../tmp/evil" };
      writeFileSync(join(request.workDirectory, "docker.json"), JSON.stringify(config));
      await expect(pulling.launch(request)).rejects.toThrow(`cannot pull image ${image}: `);
      expect(registry.logins).toContain("alice:open sesame");
      expect(JSON.stringify(engine.lines)).not.toContain(auth);
      expect(engine.temporaryFiles()).toEqual([]);
      symlinkSync("/etc/passwd", join(request.workDirectory, "passwd.json"));
      for (const clientConfig of ["missing.json", "passwd.json"]) {
        const wrong = engine.request(1, "true", { docker: { ...docker, clientConfig } });
        await expect(pulling.launch(wrong)).rejects.toThrow(
          /^the docker client configuration is no config.json with auths \(write [^:]*: /,
        );
      }
    } finally {
      await registry.close();
    }
  });

  it("[NM42] a command that the image has not ends with 127, and says so", async () => {
    const docker = { image: ENV_IMAGE, useEntryPoint: true };
    const request = engine.request(1, "no-such-program", { docker });
    const { exited } = await runtime.launch(request);
    expect(await exited).toBe(127);
    expect(readFileSync(request.stderr, "utf8")).toContain("no-such-program");
  });

  it("[NM43] what the operator has not listed is refused before anything is created", async () => {
    const refused = (docker: Parameters<typeof engine.request>[2]) =>
      expect(runtime.launch(engine.request(1, "true", docker))).rejects;
    await refused({ docker: { privileged: true } }).toThrow(
      "user alice may not run privileged containers on this node",
    );
    await refused({ docker: { network: "bridge" } }).toThrow(
      "does not allow network bridge (its networks are: host, none)",
    );
    const etc = { source: "/etc", destination: "/mnt/etc", readOnly: true };
    await refused({ docker: { mounts: [etc] } }).toThrow(
      "does not allow mount of /etc for reading (its directories: none)",
    );
    expect(await engine.names()).toEqual([]);
  });

  it("[NM44] nothing of the agent's environment reaches a container", async () => {
    vi.stubEnv("SELVEDGE_TOKEN", "the-agents-secret");
    vi.stubEnv("HTTPS_PROXY", "http://user:proxy-secret@127.0.0.1:1");
    try {
      const command = engine.request(1, "env; cat /proc/1/environ");
      expect(await (await runtime.launch(command)).exited).toBe(0);
      const docker = { image: ENV_IMAGE, useEntryPoint: true };
      const entryPoint = engine.request(2, "", { docker, environment: { MINE: "x y=z #'\"" } });
      expect(await (await runtime.launch(entryPoint)).exited).toBe(0);
      expect(engine.output(entryPoint)).toContain("MINE=x y=z #'\"\n");
      for (const request of [command, entryPoint]) {
        expect(engine.output(request)).toContain("PATH=");
        expect(engine.output(request)).not.toContain("secret");
      }
    } finally {
      vi.unstubAllEnvs();
    }
    expect(engine.temporaryFiles()).toEqual([]);
  });

  it("[NM44] an image keeps its entry point, which gets the commands' words", async () => {
    const docker = { image: ENV_IMAGE, useEntryPoint: true };
    const request = engine.request(1, `A=1 echo "two words" it's\\ one '$A'`.replace("'s", "s"), {
      docker,
    });
    expect(await (await runtime.launch(request)).exited).toBe(0);
    expect(engine.output(request)).toBe("two words its one $A\n");
  });

  it("[NM45] a container has no capabilities, gains no privileges, and keeps its limits", async () => {
    const users = new OsUsers({ mapping: { alice: "12345:54321" }, roots: [engine.directory] });
    const limited = await engine.runtime({ handOver: (launch) => users.handOver(launch) });
    const request = engine.request(
      1,
      "id -u; id -g; cat /proc/self/status; touch mine; ulimit -n; ulimit -c",
    );
    expect(await (await limited.launch(request)).exited).toBe(0);
    const output = engine.output(request);
    expect(output).toMatch(/^12345\n54321\n/);
    expect(output).toMatch(/^CapEff:\s0+$/m);
    expect(output).toMatch(/^CapBnd:\s0+$/m);
    expect(output).toMatch(/^NoNewPrivs:\s1$/m);
    expect(output).toMatch(/\n1000\n0\n$/);
  });

  it("[NM45] the kernel ends a container that uses too much memory, and that is known", async () => {
    const resource = { memoryMb: 32, vcores: 1 };
    const hog = engine.request(1, HOG, { resource });
    expect(await (await runtime.launch(hog)).exited).toBe(137);
    expect(runtime.wasMemoryKill(hog)).toBe(true);
    const restarted = await engine.runtime();
    expect(await restarted.adopt(hog, BOOT)).toBe(137);
    expect(restarted.wasMemoryKill(hog)).toBe(true);
    const killed = engine.request(2, "echo up; sleep 300", { resource });
    const process = await runtime.launch(killed);
    runtime.kill(process);
    expect(await process.exited).toBe(137);
    expect(runtime.wasMemoryKill(killed)).toBe(false);
  });

  it("[NM45] a container has as many processes as the operator grants, and no more", async () => {
    const forks = "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 20 & done; echo all";
    const few = await engine.limited({ pidsMax: 5 });
    const request = engine.request(1, forks);
    expect(await (await few.launch(request)).exited).not.toBe(0);
    expect(readFileSync(request.stderr, "utf8")).toMatch(/can't fork/);
  });

  it("[NM45] a read-only image can be written to in /tmp alone", async () => {
    const readOnly = await engine.limited({ readOnlyRoot: true });
    const request = engine.request(1, "touch /tmp/a mine && echo ok; touch /bin/b");
    expect(await (await readOnly.launch(request)).exited).toBe(1);
    expect(engine.output(request)).toBe("ok\n");
    expect(readFileSync(request.stderr, "utf8")).toContain("Read-only file system");
  });

  it("[NM46] a container gets its image's own stop signal, and ends as it likes", async () => {
    const docker = { image: QUIT_IMAGE, useEntryPoint: true };
    const request = engine.request(1, "", { docker });
    const process = await runtime.launch(request);
    await until(request, "up");
    runtime.signal(process, "SIGTERM");
    expect(await process.exited).toBe(0);
    expect(engine.output(request)).toBe("up\nfinished\n");
  });

  it("[NM46] a killed container leaves no process behind", async () => {
    const request = engine.request(1, "sleep 301 & sleep 302 & echo up; sleep 303");
    const process = await runtime.launch(request);
    await until(request, "up");
    expect(runs(process.identity.pid)).toBe(true);
    runtime.kill(process);
    expect(await process.exited).toBe(137);
    expect(runs(process.identity.pid)).toBe(false);
    runtime.kill(process);
    runtime.signal(process, "SIGTERM");
  });

  it("[NM47] a starting agent removes its own leftovers, and nothing of anybody else", async () => {
    const [left, known] = [engine.request(1, "sleep 300"), engine.request(2, "sleep 300")];
    for (const request of [left, known]) await runtime.launch(request);
    const other = await engine.runtime({ nodeId: "127.0.0.1:8042" });
    const others = engine.request(3, "sleep 300");
    await other.launch(others);
    runtime.close();
    const restarted = await engine.runtime();
    restarted.endUnknown(new Set([known.containerId]));
    const fresh = engine.request(4, "sleep 300");
    await restarted.launch(fresh);
    await eventually(async () => {
      const kept = [known, others, fresh].map(({ containerId }) => containerId);
      expect((await engine.names()).toSorted()).toEqual(kept);
    });
  });

  it("[NM190] what a container writes is rotated and limited as a process's, and kept nowhere else", async () => {
    const home = new AgentHome(engine.directory);
    const id = containerId(1);
    const [logs = ""] = home.containerLogDirectories(id);
    mkdirSync(logs, { recursive: true });
    const program =
      "i=100000; while test $i -lt 400000; do echo $i; i=$((i+1)); done; echo end >&2; sleep 60";
    const request = engine.request(1, program, {
      ...{ logDirectories: [logs], stdout: join(logs, "stdout"), stderr: join(logs, "stderr") },
    });
    const container = await runtime.launch(request);
    const rotation = await LogRotation.open({
      ...{ home, keptBytes: 50_000, storedTo: () => Infinity, log: () => undefined },
    });
    const overruns: Overrun[] = [];
    const monitor = new ContainersMonitor(() => undefined, {
      diskIntervalMs: 20,
      logLimits: { directoryBytesMax: 1_000_000, totalBytesMax: 1_000_000 },
      lookAtLogs: (each) => rotation.rotate(each),
    });
    const watched = {
      ...{ containerId: id, identity: container.identity, memoryMb: 0, isMemoryEnforced: false },
      ...{ workDirectory: undefined, logDirectories: [logs] },
    };
    const writes = () => existsSync(request.stderr) && readFileSync(request.stderr).length > 0;
    try {
      monitor.watch(watched, (overrun) => overruns.push(overrun));
      await eventually(() => expect(writes()).toBe(true));
      const size = 2_100_000;
      await eventually(() => expect(statSync(request.stdout).blocks * 512).toBeLessThan(100_000));
      const from = rotation.keptFrom(id, "stdout", size);
      const kept = readFileSync(request.stdout, "utf8").slice(from).trimEnd().split("\n");
      expect(statSync(request.stdout).size).toBe(size);
      expect(kept).toEqual(kept.map((_, index) => String(100_000 + from / 7 + index)));
      expect(kept.at(-1)).toBe("399999");
      expect(overruns).toEqual([]);
      // A file that rotation leaves alone.
      writeFileSync(join(logs, "own.log"), Buffer.alloc(1_000_001));
      await eventually(() => expect(overruns[0]?.exitStatus).toBe(-109));
    } finally {
      monitor.close();
    }
    const inEngine = readdirSync(engine.directory, { recursive: true, encoding: "utf8" });
    expect(inEngine.filter((path) => path.endsWith("ctr.log"))).toEqual([]);
  });

  it("[NM48] a container writes to its own directories, and only reads what was localized", async () => {
    const library = join(engine.directory, "filecache", "library");
    mkdirSync(library, { recursive: true });
    writeFileSync(join(library, "lib.txt"), "from the library\n");
    const request = engine.request(
      1,
      `cat lib/lib.txt; echo log > ${join(engine.directory, "logs", containerId(1), "app.log")}; ` +
        "echo x > out; echo x > lib/lib.txt",
      { localizedPaths: [library] },
    );
    symlinkSync(library, join(request.workDirectory, "lib"));
    expect(await (await runtime.launch(request)).exited).not.toBe(0);
    expect(engine.output(request)).toBe("from the library\n");
    expect(readFileSync(request.stderr, "utf8")).toContain("Read-only file system");
    expect(readFileSync(join(request.workDirectory, "out"), "utf8")).toBe("x\n");
    const [logs = ""] = request.logDirectories;
    expect(readFileSync(join(logs, "app.log"), "utf8")).toBe("log\n");
  });

  it("[NM48] a listed directory is mounted by its real path, for no more than was listed", async () => {
    const data = join(engine.directory, "data");
    mkdirSync(data);
    writeFileSync(join(data, "a"), "data\n");
    symlinkSync(data, join(engine.directory, "link"));
    const allowed = { ...ALLOWED, readOnlyMounts: [data] };
    const mounting = await engine.runtime({ allowed, devicesOf: () => ["/dev/fuse"] });
    const mount = { source: join(engine.directory, "link"), destination: "/data", readOnly: true };
    const request = engine.request(1, "cat /data/a; ls /dev/fuse; echo x > /data/a", {
      docker: { mounts: [mount] },
    });
    expect(await (await mounting.launch(request)).exited).not.toBe(0);
    expect(engine.output(request)).toBe("data\n/dev/fuse\n");
    const writing = engine.request(2, "true", {
      docker: { mounts: [{ ...mount, readOnly: false }] },
    });
    await expect(mounting.launch(writing)).rejects.toThrow(
      `mount of ${mount.source} (really ${data}) for writing`,
    );
  });
});
