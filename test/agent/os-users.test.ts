/** Two users of one node, as two users of the machine. Only root can be both. */
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { ConfinedLauncher, NO_NEW_PRIVILEGES } from "../../src/agent/confined-launcher.ts";
import { ContainerLauncher } from "../../src/agent/container-launcher.ts";
import type { LaunchRequest } from "../../src/agent/container-runtime.ts";
import { launchScript } from "../../src/agent/launch-context.ts";
import { OsUsers, type OsUsersOptions } from "../../src/agent/os-users.ts";
import { readBootId } from "../../src/agent/process-table.ts";
import { effectiveRlimits } from "../../src/agent/rlimits.ts";
import { containerId } from "./test-node.ts";
import { launchContext } from "./test-tracker.ts";

const isRoot = process.getuid?.() === 0;
const USERS = { alice: "23001:23001", bob: "23002:23002" };

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "selvedge-users-"));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

describe("who runs as whom", () => {
  const PASSWD =
    "root:x:0:0::/:/bin/sh\nyarn:x:1001:1001::/:/bin/sh\nalice:x:1002:1003::/:/bin/sh\nlp:x:7:7::/:/bin/sh\nshady:x:2000:0::/:/bin/sh\n";
  const resolve = (user: string, options: Partial<OsUsersOptions>) => {
    const passwd = join(home, "passwd");
    writeFileSync(passwd, PASSWD);
    const reply = new OsUsers({ roots: [home], passwd, ...options }).resolve(user);
    return reply.ok ? reply.value : reply.error.message;
  };

  it("[NM54] the operator maps users, gives all the same one, or lets them keep their names", () => {
    const alice = { uid: 1_002, gid: 1_003 };
    expect(resolve("carol", { mapping: { carol: "alice" } })).toEqual(alice);
    expect(resolve("carol", { mapping: { carol: "5000:6000" } })).toEqual({
      uid: 5_000,
      gid: 6_000,
    });
    expect(resolve("carol", { localUser: "alice" })).toEqual(alice);
    expect(resolve("alice", { byOwnName: true })).toEqual(alice);
    expect(resolve("carol", {})).toBe("user carol is mapped to no user of this machine");
    expect(resolve("constructor", {})).toBe(
      "user constructor is mapped to no user of this machine",
    );
    expect(resolve("carol", { byOwnName: true })).toContain("this machine has no user carol");
  });

  it("[NM54] nobody runs as root, as a banned user, or as one of the system's", () => {
    expect(resolve("root", { byOwnName: true })).toBe("user root is banned from this node");
    expect(resolve("yarn", { byOwnName: true })).toBe("user yarn is banned from this node");
    expect(resolve("carol", { mapping: { carol: "yarn" } })).toBe(
      "user yarn is banned from this node",
    );
    for (const name of ["root", "0:0", "0:1000", "1000:0", "shady"]) {
      const options = { mapping: { carol: name }, banned: [], minimumUid: 0 };
      expect(resolve("carol", options)).toBe(`user carol would run as root (${name})`);
    }
    const system = { mapping: { carol: "lp" } };
    expect(resolve("carol", system)).toBe("user carol would run as lp, whose id 7 is below 1000");
    expect(resolve("carol", { ...system, minimumUid: 7 })).toEqual({ uid: 7, gid: 7 });
    expect(resolve("alice", { byOwnName: true, banned: ["alice"] })).toContain("alice is banned");
  });
});

/** The container's own is as readable as can be: only the hand-over takes that from others. */
function prepare(sequence: number, user: string, command: string): LaunchRequest {
  const id = containerId(sequence);
  const application = join(home, "local", "usercache", user, "appcache", "application_1");
  const workDirectory = join(application, id);
  const logDirectory = join(home, "logs", "application_1", id);
  for (const path of [workDirectory, logDirectory]) {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    mkdirSync(path, { mode: 0o755 });
  }
  const launch = launchContext(command, { user });
  const { readinessCheck } = launch;
  const script = join(workDirectory, "launch_container.sh");
  const text = launchScript("/bin/bash", {
    environment: { LOGS: logDirectory },
    command,
    readinessCheck,
  });
  writeFileSync(script, text, { mode: 0o755 });
  return {
    containerId: id,
    run: 1,
    user,
    resource: { memoryMb: 64, vcores: 1 },
    launch,
    script,
    workDirectory,
    logDirectories: [logDirectory],
    localDirectories: [application],
    localizedPaths: [],
    stdout: join(logDirectory, "stdout"),
    stderr: join(logDirectory, "stderr"),
    entrances: [],
    ports: {},
  };
}

function launcher(users: OsUsers | undefined, rlimits = effectiveRlimits({ nofile: 500 })) {
  const state = join(home, "nm-state");
  mkdirSync(state, { recursive: true, mode: 0o700 });
  const inner = new ContainerLauncher(state, readBootId(), NO_NEW_PRIVILEGES);
  return new ConfinedLauncher({ inner, rlimits, ...(users ? { users } : {}) });
}

describe("[NM56] a container that runs as the agent's own user", () => {
  it("[NM56] gains no privileges, dumps no core, and has the operator's limits", async () => {
    const request = prepare(1, "alice", "cat /proc/self/status; ulimit -n; ulimit -c; ulimit -u");
    const { exited } = await launcher(undefined, { nofile: 500, core: 0, nproc: 4_000 }).launch(
      request,
    );
    expect(await exited).toBe(0);
    const output = readFileSync(request.stdout, "utf8");
    expect(output).toMatch(/^NoNewPrivs:\s1$/m);
    expect(output).toMatch(/\n500\n0\n4000\n$/);
  });

  it("[NM56] has no higher limits than the agent itself, which could not be set", () => {
    const limits =
      "Limit                     Soft Limit           Hard Limit           Units\n" +
      "Max core file size        0                    unlimited            bytes\n" +
      "Max processes             100                  200                  processes\n" +
      "Max open files            1024                 4096                 files\n";
    expect(effectiveRlimits({}, limits)).toEqual({ nofile: 4_096, nproc: 200, core: 0 });
    const wanted = { nofile: 9_999, nproc: 9, core: 1_000 };
    expect(effectiveRlimits(wanted, limits)).toEqual({ nofile: 4_096, nproc: 9, core: 1_000 });
  });
});

describe.skipIf(!isRoot)("containers of two users", () => {
  let users: OsUsers;
  beforeEach(() => {
    users = new OsUsers({ mapping: USERS, roots: [home] });
  });

  const run = async (request: LaunchRequest) => {
    const { exited } = await launcher(users).launch(request);
    const exitCode = await exited;
    return { exitCode, stdout: readFileSync(request.stdout, "utf8") };
  };

  it("[NM55] cannot read each other's work, logs and launch scripts", async () => {
    const alice = prepare(1, "alice", 'echo mine > data; echo log > "$LOGS/app.log"; cat data');
    const [logs = ""] = alice.logDirectories;
    expect(await run(alice)).toEqual({ exitCode: 0, stdout: "mine\n" });
    const wanted = [
      join(alice.workDirectory, "data"),
      alice.script,
      alice.stdout,
      join(logs, "app.log"),
    ];
    const readable = wanted.map((path) => `cat ${path}`).join("; ");
    const listed = [alice.workDirectory, logs, dirname(alice.workDirectory), home];
    const bob = prepare(2, "bob", `${readable}; ls ${listed.join(" ")}; echo x > ${wanted[0]}; :`);
    expect(await run(bob)).toEqual({ exitCode: 0, stdout: "" });
    const stderr = readFileSync(bob.stderr, "utf8");
    expect(stderr.match(/Permission denied/g)).toHaveLength(wanted.length + listed.length + 1);
  });

  it("[NM55] cannot read the agent's state, nor signal its processes", async () => {
    const state = join(home, "nm-state");
    const bob = prepare(
      1,
      "bob",
      `ls ${state}; cat /proc/${process.pid}/environ; kill -0 ${process.pid}`,
    );
    expect(await run(bob)).toEqual({ exitCode: 1, stdout: "" });
  });

  it("[NM55] run as their users with no group, capability or way to more of them", async () => {
    const alice = prepare(1, "alice", "id; umask; cat /proc/self/status; touch made");
    const { stdout } = await run(alice);
    expect(stdout).toMatch(/^uid=23001 gid=23001 groups=23001\n0027\n/);
    for (const name of ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]) {
      expect(stdout).toMatch(new RegExp(`^${name}:\\s0+$`, "m"));
    }
    expect(stdout).toMatch(/^NoNewPrivs:\s1$/m);
    const made = statSync(join(alice.workDirectory, "made"));
    expect([made.uid, made.gid, made.mode & 0o777]).toEqual([23_001, 23_001, 0o640]);
    expect(statSync(alice.workDirectory).mode & 0o777).toBe(0o700);
  });

  it("[NM55] get nothing through links that an earlier run has left behind", async () => {
    const outside = join(home, "outside");
    mkdirSync(outside);
    writeFileSync(join(outside, "secret"), "root's", { mode: 0o600 });
    const alice = prepare(1, "alice", "true");
    symlinkSync(outside, join(alice.workDirectory, "directory"));
    symlinkSync(join(outside, "secret"), join(alice.workDirectory, "file"));
    expect((await run(alice)).exitCode).toBe(0);
    expect(statSync(join(outside, "secret")).uid).toBe(0);
    expect(statSync(outside).uid).toBe(0);
    expect(lstatSync(join(alice.workDirectory, "file")).isSymbolicLink()).toBe(true);
    const linked = prepare(2, "alice", "true");
    linkSync(join(outside, "secret"), join(linked.workDirectory, "hard"));
    await expect(launcher(users).launch(linked)).rejects.toThrow("has a second name");
    expect(statSync(join(outside, "secret")).uid).toBe(0);
  });

  it("[NM55] a user who may not run here is told so, and nothing is started", async () => {
    const mallory = prepare(1, "mallory", "true");
    await expect(launcher(users).launch(mallory)).rejects.toThrow(
      "user mallory is mapped to no user of this machine",
    );
    expect(existsSync(mallory.stdout)).toBe(false);
    chmodSync(home, 0o700);
    const below = new OsUsers({ mapping: USERS, roots: [join(home, "local")] });
    await expect(launcher(below).launch(prepare(2, "alice", "true"))).rejects.toThrow(
      `other users cannot pass through ${home} (chmod o+x)`,
    );
  });

  it("[NM55] what a confined container leaves is dropped with it", async () => {
    const alice = prepare(1, "alice", "exit 3");
    const confined = launcher(users);
    const { exited } = await confined.launch(alice);
    expect(await exited).toBe(3);
    expect(confined.exitCodeOf(alice)).toBe(3);
    await confined.forget(alice.containerId);
    expect(confined.exitCodeOf(alice)).toBeUndefined();
    expect(readdirSync(join(home, "nm-state"))).toEqual([]);
  });
});
