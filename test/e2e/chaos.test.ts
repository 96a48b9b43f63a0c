/**
 * What goes wrong on a machine, with real agents and real processes; and that afterwards nothing of
 * the node is left, and every exit was reported once.
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { Cgroups } from "../../src/agent/cgroups.ts";
import { cgroupParentOf } from "../../src/agent/docker/engine-container.ts";
import { missingForPodman, TestEngine } from "../agent/docker-engine.ts";
import { runs } from "../agent/test-node.ts";
import { CREDENTIAL, JOIN_TOKEN } from "../agent/test-tracker.ts";
import { ChaosNode, type ChaosNodeOptions } from "../chaos/chaos-node.ts";
import { DroppingProxy } from "../chaos/dropping-proxy.ts";
import { runStorm } from "../chaos/storm.ts";
import { processEnvironment, processesNaming } from "../support/processes.ts";

const isRoot = process.getuid?.() === 0;
const probe = Cgroups.detect("chaos.probe:1");
const hasGroups = probe?.description.includes("pids") ?? false;
probe?.close();

/** Waits for the file `go`, as a container that ends when the test says so. */
const WAIT = "while [ ! -e go ]; do sleep 0.02; done";
/** Double-forks, with a session of its own, and prints the pid of what is left. */
const daemon = (command = "exec sleep 1000") =>
  `(setsid sh -c 'sh -c "echo \\$\\$; ${command}" & exit' &)`;

const nodes: ChaosNode[] = [];
const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const node of nodes.splice(0)) await node.close();
  for (const cleanUp of cleanups.splice(0)) await cleanUp();
});

async function start(options: ChaosNodeOptions = {}, root?: string): Promise<ChaosNode> {
  const node = await ChaosNode.create(options, root);
  nodes.push(node);
  await node.startAgent();
  return node;
}

describe("a thousand short containers", () => {
  it("[NM133] are reported once each, with their exit codes, and leave nothing", async () => {
    const interval = { "yarn.nodemanager.container-monitor.interval-ms": 3_000 };
    const node = await start({ configuration: interval });
    const codes = Array.from({ length: 1_000 }, (_, index) => index % 7);
    for (const [index, code] of codes.entries()) {
      await node.run(index + 1, `exit ${code}`, [code], { memoryMb: 1 });
    }
    await node.untilOver(120_000);
    expect(await node.finish()).toEqual([]);
  });
});

describe("an agent", () => {
  it("[NM134] that is killed in the middle of launches and ends starts nothing twice, and loses no exit", async () => {
    const node = await start();
    for (let life = 0; life < 3; life++) {
      for (let each = 1; each <= 6; each++) {
        // 154: it died between its record and its process, which then never comes.
        await node.run(life * 6 + each, `echo once; sleep 0.${each}; exit ${each}`, [each, 154]);
      }
      await node.killAgent();
      await node.startAgent();
    }
    await node.untilOver();
    expect(await node.finish()).toEqual([]);
    for (const { containerId, exitStatus } of node.ends()) {
      expect([containerId, node.stdout(containerId)]).toEqual([
        containerId,
        exitStatus === 154 ? "" : "once\n",
      ]);
    }
  });

  it("[NM134] that stands still is caught up with what ended meanwhile", async () => {
    const node = await start();
    const ending = await node.run(1, `${WAIT}; exit 5`, [5]);
    const going = await node.run(2, `${WAIT}; exit 6`, [6]);
    const stopped = await node.run(3, "exec sleep 1000", [-105]);
    for (const id of [ending, going, stopped]) await node.untilState(id, "RUNNING");
    const leader = await node.leaderOf(ending);
    node.signalAgent("SIGSTOP");
    node.release(ending);
    node.tracker.stop(stopped);
    // What a tracker does with a node that does not answer.
    node.tracker.dropConnections();
    await node.until("the container to end", () => isGone(leader));
    node.signalAgent("SIGCONT");
    await node.untilState(ending, "COMPLETE");
    await node.untilState(stopped, "COMPLETE");
    node.release(going);
    expect(await node.finish()).toEqual([]);
  });
});

describe("a container's processes", () => {
  it("[NM135] that are killed from outside take the others along, and are told once, as killed", async () => {
    const node = await start();
    const tree = `sleep 1000 & setsid sleep 1001 & ${daemon()}; echo $$; exec sleep 1002`;
    const child = await node.run(1, tree, [137]);
    const leader = await node.run(2, tree, [137]);
    const away = await node.run(3, tree, [154]);
    for (const id of [child, leader, away]) await node.pids(id, 2);
    // Its own process is the one whose pid does not belong to the daemon.
    const own = (await node.pids(child, 2)).find((pid) => commandOf(pid).includes("1002")) ?? 0;
    process.kill(own, "SIGKILL");
    process.kill(await node.leaderOf(leader), "SIGKILL");
    await node.untilState(child, "COMPLETE");
    await node.untilState(leader, "COMPLETE");
    const awaysLeader = await node.leaderOf(away);
    await node.killAgent();
    process.kill(awaysLeader, "SIGKILL");
    await node.startAgent();
    await node.untilState(away, "COMPLETE");
    expect(await node.finish()).toEqual([]);
  });

  it("[NM135] that stand still, or ignore SIGTERM, are ended all the same", async () => {
    const node = await start();
    const still = await node.run(1, "echo $$; exec sleep 1000", [-105]);
    const leaderStill = await node.run(2, "echo $$; exec sleep 1000", [-105]);
    const stubborn = await node.run(
      3,
      `trap '' TERM INT HUP; echo $$; ${daemon("trap '' TERM; while :; do sleep 1; done")}; while :; do sleep 1; done`,
      [-105],
    );
    process.kill((await node.pids(still, 1))[0] ?? 0, "SIGSTOP");
    await node.pids(leaderStill, 1);
    process.kill(await node.leaderOf(leaderStill), "SIGSTOP");
    await node.pids(stubborn, 2);
    for (const id of [still, leaderStill, stubborn]) node.tracker.stop(id);
    expect(await node.finish()).toEqual([]);
  });
});

describe.each([false, hasGroups])("with control groups: %s", (cgroups) => {
  it("[NM136] a daemon that escapes its container ends with it", async () => {
    const node = await start({ cgroups });
    const id = await node.run(1, `${daemon()}; ${WAIT}; exit 3`, [3]);
    const [pid = 0] = await node.pids(id, 1);
    await node.killAgent();
    await node.startAgent();
    expect(runs(pid), node.log).toBe(true);
    node.release(id);
    await node.untilState(id, "COMPLETE");
    expect(await node.finish()).toEqual([]);
  });

  it("[NM136] a fork bomb ends at its limit, and its neighbour does not notice", async () => {
    const limit = { "selvedge.node.container.processes-max": 60 };
    const node = await start({ cgroups, configuration: limit });
    const neighbour = await node.run(1, `${WAIT}; exit 0`, [0]);
    await node.untilState(neighbour, "RUNNING");
    // Each starts two others, in sessions of their own. What comes of it is bounded here, too: a
    // test that fails must not take the machine along.
    const bomb =
      "echo '[ $1 -gt 0 ] && for i in 1 2; do setsid sh bomb $(($1 - 1)) & done; exec sleep 1000' " +
      "> bomb; exec sh bomb 7";
    const id = await node.run(2, bomb, cgroups ? [-105] : [137], { memoryMb: 1_024 });
    await node.until("the bomb to go off", () => node.processesOf(id).length > 20);
    if (cgroups) {
      expect(node.processesOf(id).length).toBeLessThanOrEqual(60);
      node.tracker.stop(id);
    }
    await node.untilState(id, "COMPLETE");
    expect(node.tracker.statuses.get(neighbour)?.state).toBe("RUNNING");
    node.release(neighbour);
    expect(await node.finish()).toEqual([]);
  });
});

describe.skipIf(!isRoot)("a disk that is full", () => {
  it("[NM137] fails new launches with words, and keeps no exit from being told", async () => {
    const disk = mkdtempSync(join(tmpdir(), "selvedge-chaos-disk-"));
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=4m", "none", disk]);
    cleanups.push(() => {
      execFileSync("umount", ["-l", disk]);
      rmSync(disk, { recursive: true, force: true });
    });
    const node = await start({}, join(disk, "node"));
    const writing = await node.run(1, `${WAIT}; exit 4`, [4]);
    const stopped = await node.run(2, "exec sleep 1000", [-105]);
    for (const id of [writing, stopped]) await node.untilState(id, "RUNNING");
    node.release(writing);
    const filler = join(disk, "filler");
    fill(filler);
    const refused = await node.run(3, "exit 0", [-1000, -101]);
    node.tracker.stop(stopped);
    for (const id of [writing, stopped]) await node.untilState(id, "COMPLETE");
    const { diagnostics } = await node.untilState(refused, "COMPLETE");
    expect(diagnostics).toContain("ENOSPC");
    rmSync(filler);
    const next = await node.run(4, "exit 0", [0]);
    await node.untilState(next, "COMPLETE");
    // What could not be written meanwhile is written now, and known after a restart.
    for (const id of [writing, stopped]) {
      await node.until(`${id} to be noted`, () => node.record(id).includes("FORGOTTEN"));
    }
    await node.killAgent();
    await node.startAgent();
    expect(await node.finish()).toEqual([]);
  });
});

const missing = missingForPodman();
if (missing !== undefined && process.env["CI"] === "true") throw new Error(missing);

describe.skipIf(missing !== undefined)(`containers of an engine${missing ?? ""}`, () => {
  it("[NM140] are told right, and gone, whoever of the engine is killed", async () => {
    const engine = await TestEngine.create();
    cleanups.push(() => engine.close());
    const podman = join(engine.directory, "podman");
    const { command, globalArguments } = engine.cli;
    const words = [command, ...globalArguments].join(" ");
    writeFileSync(podman, `#!/bin/sh\nexec ${words} "$@"\n`, { mode: 0o755 });
    const node = await start({
      configuration: {
        "yarn.nodemanager.runtime.linux.allowed-runtimes": "default,docker",
        "selvedge.node.docker.command": podman,
        "selvedge.node.docker.allowed-images": "local/*",
        "yarn.nodemanager.runtime.linux.docker.allowed-container-networks": "host",
      },
      audited: (home) => ({
        directories: [engine.directory],
        engineContainers: () => engine.names(),
        groupPrefixes: [groupPrefix(engine, home)],
      }),
    });
    const runtime = engine.image();
    const wait = "echo up; while ! test -e go; do sleep 0.05; done";
    const client = await node.run(1, `${wait}; exit 5`, [5], { runtime });
    const first = await node.run(2, "echo up; exec sleep 1000", [137], { runtime });
    const stopped = await node.run(3, `trap '' TERM; ${wait}`, [-105], { runtime });
    const unheard = await node.run(4, "echo up; exec sleep 1000", [154], { runtime });
    for (const id of [client, first, stopped, unheard]) {
      await node.until(`${id} to run`, () => node.stdout(id).includes("up"));
      await node.untilState(id, "RUNNING");
    }
    // Other tests on this machine have containers of the same name.
    const ours = processesNaming(engine.directory);
    const kill = (id: string, words: string) => {
      const found = ours.filter(
        (each) => each.command.includes(words) && each.command.includes(id),
      );
      expect(found.length).toBeGreaterThan(0);
      for (const { pid } of found) process.kill(pid, "SIGKILL");
    };
    kill(client, "start --attach");
    process.kill(await engine.pidOf(first), "SIGKILL");
    // All that could tell of it, and then what there would be to tell.
    const unheardOf = await engine.pidOf(unheard);
    kill(unheard, "conmon");
    kill(unheard, "start --attach");
    process.kill(unheardOf, "SIGKILL");
    await node.killAgent();
    await node.startAgent();
    node.release(client);
    node.tracker.stop(stopped);
    expect(await node.finish()).toEqual([]);
  });
});

/** As the names of control groups begin that the engine is told to use. */
function groupPrefix({ cli }: TestEngine, home: string): string {
  return (cgroupParentOf(cli, join(home, "nm-state", "docker"), "") ?? "/none").slice(1);
}

describe("the agent's secrets", () => {
  const SECRETS = {
    AWS_SECRET_ACCESS_KEY: "secret-of-the-agent",
    SELVEDGE_TOKEN: "token-of-the-agent",
    HTTPS_PROXY: "http://user:password-of-the-proxy@127.0.0.1:1",
  };
  const secrets = [...Object.values(SECRETS), JOIN_TOKEN, CREDENTIAL];

  it("[NM139] are in no environment and no command line of a container's processes", async () => {
    const node = await start({ environment: SECRETS });
    const id = await node.run(1, `env; set; ${daemon()}; sleep 1000 & ${WAIT}`, [0]);
    // The supervising shell is the agent's; the daemon and the sleeper have its commands' rights.
    const leader = await node.leaderOf(id);
    const pids = await node.until("the container to run", () => {
      const found = [leader, ...node.processesOf(id)];
      return node.stdout(id).includes("CONTAINER_ID") && found.length >= 4 && found;
    });
    const seen = pids.map((pid) => processEnvironment(pid).join("\n") + commandOf(pid));
    for (const secret of secrets)
      expect([...seen, node.stdout(id)].join("\n")).not.toContain(secret);
    // That the agent has them at all.
    expect(processEnvironment(node.agentPid).join("\n")).toContain("secret-of-the-agent");
    node.release(id);
    expect(await node.finish()).toEqual([]);
  });

  it.skipIf(!isRoot)(
    "[NM139] are nowhere on the machine for a container that runs as its user",
    async () => {
      const node = await start({
        environment: SECRETS,
        configuration: {
          "yarn.nodemanager.container-executor.class": "LinuxContainerExecutor",
          "selvedge.node.user-mapping.alice": "23001:23001",
        },
      });
      const look = `id -u; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; find ${node.root} -type f -exec cat {} +`;
      const id = await node.run(1, `${daemon()}; { ${look}; } 2>/dev/null; exit 0`, [0]);
      await node.untilState(id, "COMPLETE");
      expect(node.stdout(id)).toContain("23001\n");
      expect(node.stdout(id)).toContain("selvedge-container");
      for (const secret of secrets) expect(node.stdout(id)).not.toContain(secret);
      expect(await node.finish()).toEqual([]);
    },
  );
});

describe("a network that is cut", () => {
  async function startBehindProxy() {
    let proxy: DroppingProxy | undefined;
    const node = await start({
      urlOf: async ({ port }) => {
        proxy = await DroppingProxy.start(port);
        return proxy.url;
      },
    });
    if (!proxy) throw new Error("no proxy was started");
    cleanups.push(() => proxy?.close());
    return { node, proxy };
  }

  it("[NM138] for a moment delays what is said, and nothing else", async () => {
    const { node, proxy } = await startBehindProxy();
    const ending = await node.run(1, `${WAIT}; exit 5`, [5]);
    await node.untilState(ending, "RUNNING");
    const leader = await node.leaderOf(ending);
    const { connections } = node.tracker;
    proxy.cut();
    node.release(ending);
    const late = await node.run(2, "exit 6", [6]);
    await node.until("the container to end", () => isGone(leader));
    proxy.heal();
    for (const id of [ending, late]) await node.untilState(id, "COMPLETE");
    expect(node.tracker.connections).toBe(connections);
    expect(await node.finish()).toEqual([]);
  });

  it("[NM138] for longer than the tracker waits is over when the node has said everything again", async () => {
    const { node, proxy } = await startBehindProxy();
    node.tracker.pingIntervalMs = 200;
    node.tracker.dropConnections();
    const ending = await node.run(1, `${WAIT}; exit 5`, [5]);
    const moved = await node.run(2, "exec sleep 1000", [-106]);
    for (const id of [ending, moved]) await node.untilState(id, "RUNNING");
    const leader = await node.leaderOf(ending);
    proxy.cut();
    // The tracker has taken the node for lost: this one runs elsewhere by now.
    proxy.dropFarSide();
    node.tracker.desired.delete(moved);
    node.release(ending);
    await node.until("the container to end", () => isGone(leader));
    await node.until("the agent to notice", () => node.log.includes("no answer to ping"));
    const { registrations } = node;
    proxy.heal();
    await node.until("the node to be back", () => node.registrations > registrations);
    for (const id of [ending, moved]) await node.untilState(id, "COMPLETE");
    expect(await node.finish()).toEqual([]);
  });
});

describe.each([1, 2])("a storm of faults, seed %s", (seed) => {
  it("[NM141] leaves nothing behind, and every exit is reported once", async () => {
    const steps = 60;
    const { findings } = await runStorm({ seed, steps, cgroups: hasGroups && seed % 2 === 0 });
    expect(findings, `npm run chaos -- --seed ${seed} --steps ${steps} --seconds 0`).toEqual([]);
  });
});

function isGone(pid: number): boolean {
  return !runs(pid);
}

function commandOf(pid: number): string {
  return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
}

/** Until not one byte more fits. */
function fill(path: string): void {
  for (const size of [65_536, 4_096, 1]) {
    try {
      for (;;) writeFileSync(path, Buffer.alloc(size), { flag: "a" });
    } catch {
      // That much does not fit any more.
    }
  }
}
