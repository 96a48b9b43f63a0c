/** Programs that users run in their containers beside the containers' own. */
import { readFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Cgroups } from "../../src/agent/cgroups.ts";
import { LIMITS } from "../../src/shared/limits.ts";
import { eventually } from "../support/eventually.ts";
import { containerId, runs, TestNode } from "./test-node.ts";
import { askForStream, exec, openStream } from "./test-stream.ts";
import { launchContext } from "./test-tracker.ts";

let node: TestNode;
beforeEach(async () => {
  node = await TestNode.create();
});
afterEach(() => node.close());

const SLEEP = "echo up; exec sleep 1000";

async function startContainer(command = SLEEP, environment: Record<string, string> = {}) {
  const id = await node.run(1, launchContext(command, { environment }));
  await node.tracker.untilState(id, "RUNNING");
  await eventually(() => expect(node.stdout(id)).toContain("up\n"));
  return id;
}

const sh = (script: string) => exec("sh", "-c", script);
const numberIn = (text: string) => Number(/\d+/.exec(text)?.[0]);

describe("a program that is run in a container", () => {
  it("[NM200] has the container's environment, directory and user, and nothing of the agent's", async () => {
    process.env["AGENT_SECRET"] = "not for containers";
    try {
      await node.start();
      const value = 'it\'s "quoted"\n and $HOME `date` \\ on lines';
      const id = await startContainer(SLEEP, { GREETING: value, EMPTY: "", name: "a b" });
      const own = processOf(id);
      const stream = await openStream(node, id, exec("cat", "/proc/self/environ"));
      expect(await stream.exits()).toBe(0);
      const without = /^(?:JVM_PID|SHLVL|_|OLDPWD)=/;
      const variables = (text: string) =>
        text
          .split("\0")
          .filter((line) => line !== "" && !without.test(line))
          .toSorted();
      expect(variables(stream.stdout)).toEqual(
        variables(readFileSync(`/proc/${own}/environ`, "utf8")),
      );
      expect(stream.stdout).toContain(`GREETING=${value}\0`);
      expect(stream.stdout).not.toContain("AGENT_SECRET");
      const where = await openStream(
        node,
        id,
        sh("pwd; id -u; umask; grep NoNewPrivs /proc/self/status"),
      );
      await where.exits();
      expect(where.stdout.split("\n")[0]).toBe(node.workDirectory(id));
      expect(where.stdout.split("\n")[1]).toBe(String(process.getuid?.()));
    } finally {
      delete process.env["AGENT_SECRET"];
    }
  });

  it.each([
    ["true", 0],
    ["exit 42", 42],
    ["kill -KILL $$", 137],
    ["exec nothing-such", 127],
  ])("[NM200] tells how it ended: %s", async (script, exitCode) => {
    await node.start();
    const id = await startContainer();
    const stream = await openStream(node, id, sh(script));
    expect(await stream.exits()).toBe(exitCode);
    await eventually(() => expect(stream.closed).toEqual({ code: 1000, reason: "" }));
    expect(node.tracker.statuses.get(id)).toMatchObject({ state: "RUNNING" });
  });

  it("[NM200] is run as words, and not by a shell's rules", async () => {
    await node.start();
    const id = await startContainer();
    const stream = await openStream(
      node,
      id,
      exec("printf", "%s|", "a b", "$HOME", "*", "", "'\n"),
    );
    expect(await stream.exits()).toBe(0);
    expect(stream.stdout).toBe("a b|$HOME|*||'\n|");
  });

  it("[NM200] reads what is sent to it to the end, or nothing where nothing is to be sent", async () => {
    await node.start();
    const id = await startContainer();
    const reading = await openStream(node, id, { ...exec("cat"), stdin: true });
    reading.write("one\n");
    await eventually(() => expect(reading.stdout).toBe("one\n"));
    reading.write("two\n");
    reading.send({ kind: "eof" });
    expect(await reading.exits()).toBe(0);
    expect(reading.stdout).toBe("one\ntwo\n");
    const without = await openStream(node, id, exec("cat"));
    expect(await without.exits()).toBe(0);
  });

  it("[NM200] that is limited by a control group is in the container's", async ({ skip }) => {
    if (!Cgroups.detect(node.nodeId)) skip("this machine lets nobody make control groups");
    await node.start({ cgroups: true });
    const id = await startContainer();
    const stream = await openStream(node, id, exec("cat", "/proc/self/cgroup"));
    await stream.exits();
    const own = readFileSync(`/proc/${processOf(id)}/cgroup`, "utf8");
    expect(own).toContain(id);
    expect(stream.stdout).toBe(own);
  });

  it.skipIf(process.getuid?.() !== 0)(
    "[NM200] is the container's user, with its limits and no way to other rights",
    async () => {
      const users = { localUser: "12345:12346", minimumUid: 1_000 };
      await node.start({ confinement: { users, rlimits: { nofile: 321, nproc: 4_000, core: 0 } } });
      const id = await startContainer(SLEEP, { LD_PRELOAD: "/of/the/user.so" });
      const facts = "id -u; id -G; ulimit -n; grep -E 'NoNewPrivs|CapEff' /proc/self/status";
      const stream = await openStream(node, id, sh(facts));
      expect(await stream.exits()).toBe(0);
      const [uid, groups, files, ...status] = stream.stdout.trim().split(/\n/);
      expect([uid, groups, files]).toEqual(["12345", "12346", "321"]);
      expect(status.join(" ")).toMatch(/CapEff:\s0+ NoNewPrivs:\s1/);
      // Only what runs as the user has tried to load it: sh, two times id, and grep.
      expect(stream.stderr.match(/user\.so/g)).toHaveLength(4);
    },
  );

  it("[NM200] counts as the container's even if it wipes its environment and leaves the session", async () => {
    await node.start({ monitorIntervalMs: 100 });
    const id = await startContainer();
    await openStream(node, id, exec("env", "-i", "setsid", "sleep", "1000"));
    await eventually(async () => {
      const { body = "" } = await node.tracker.query({ type: "usage", containerId: id });
      // The container's two, the shell that leads the program, and the program.
      expect(JSON.parse(body).containers[0].processes).toBe(4);
    });
  });
});

describe("what was run in a container", () => {
  it("[NM203] ends when the stream is cut, with all that it has started", async () => {
    await node.start();
    const id = await startContainer();
    const stream = await openStream(node, id, sh("trap '' HUP; setsid sleep 1000 & echo $!; wait"));
    const pid = await eventually(() => {
      expect(stream.stdout).toMatch(/^\d+\n/);
      return numberIn(stream.stdout);
    });
    expect(runs(pid)).toBe(true);
    stream.cut();
    await eventually(() => expect(runs(pid)).toBe(false));
    expect(node.tracker.statuses.get(id)).toMatchObject({ state: "RUNNING" });
  });

  it("[NM203] ends with the container, which ends as it was told", async () => {
    await node.start();
    const id = await startContainer();
    const stream = await openStream(node, id, sh("trap '' TERM HUP; echo $$; sleep 1000"));
    await eventually(() => expect(stream.stdout).toMatch(/^\d+\n/));
    node.tracker.stop(id);
    const status = await node.tracker.untilState(id, "COMPLETE");
    expect(status.exitStatus).toBe(-105);
    expect(runs(numberIn(stream.stdout))).toBe(false);
    await eventually(() => expect(stream.closed).toBeDefined());
  });

  it("[NM203] and left in the background stays until the container ends", async () => {
    await node.start();
    const id = await startContainer();
    const stream = await openStream(node, id, sh("sleep 1000 & echo $!"));
    expect(await stream.exits()).toBe(0);
    const pid = numberIn(stream.stdout);
    await eventually(() => expect(stream.closed).toBeDefined());
    expect(runs(pid)).toBe(true);
    node.tracker.stop(id);
    await node.tracker.untilState(id, "COMPLETE");
    expect(runs(pid)).toBe(false);
  });

  it("[NM203] ends when the agent is stopped; the container goes on", async () => {
    const agent = await node.start();
    const id = await startContainer();
    const stream = await openStream(node, id, sh("echo $$; exec sleep 1000"));
    await eventually(() => expect(stream.stdout).toMatch(/^\d+\n/));
    const own = processOf(id);
    await agent.close();
    expect(runs(numberIn(stream.stdout))).toBe(false);
    expect(runs(own)).toBe(true);
  });
});

it("[NM200] a program is run in a container that an earlier agent has launched", async () => {
  const first = await node.start();
  const id = await startContainer();
  await first.close();
  await node.start();
  const stream = await openStream(node, id, sh('echo "$CONTAINER_ID"'));
  expect(await stream.exits()).toBe(0);
  expect(stream.stdout).toBe(`${id}\n`);
});

describe("the stream of a program", () => {
  it("[NM204] has no more under way than its window while nobody reads", async () => {
    await node.start();
    const id = await startContainer();
    const stream = await openStream(node, id, sh("head -c 5000000 /dev/zero; echo done >&2"));
    stream.isSlow = true;
    await eventually(() =>
      expect(stream.heldBytes).toBeGreaterThan(LIMITS.streamWindowBytes - 20_000),
    );
    expect(stream.heldBytes).toBeLessThanOrEqual(LIMITS.streamWindowBytes);
    expect(stream.stderr).toBe("");
    stream.isSlow = false;
    stream.send({ kind: "credit", bytes: stream.heldBytes });
    stream.heldBytes = 0;
    expect(await stream.exits()).toBe(0);
    expect(stream.stdout).toHaveLength(5_000_000);
    expect(stream.stderr).toBe("done\n");
  });
});

describe("a terminal", () => {
  const tty = { columns: 101, rows: 33, term: "xterm-256color" };

  it("[NM207] has the user's size, follows it, and is named as his", async () => {
    await node.start();
    const id = await startContainer();
    const stream = await openStream(node, id, {
      ...sh("stty -echo; echo $TERM; stty size; read x; stty size; exit 5"),
      ...{ stdin: true, tty },
    });
    await eventually(() => expect(stream.stdout).toBe("xterm-256color\r\n33 101\r\n"));
    stream.send({ kind: "resize", columns: 80, rows: 24 });
    stream.write("\n");
    expect(await stream.exits()).toBe(5);
    expect(stream.stdout).toBe("xterm-256color\r\n33 101\r\n24 80\r\n");
  });

  it("[NM207] lets its keys interrupt the program, and end its input", async () => {
    await node.start();
    const id = await startContainer();
    const loop = "trap 'echo interrupted' INT; echo ready; while :; do read line || exit 9; done";
    const stream = await openStream(node, id, { ...exec("bash", "-c", loop), stdin: true, tty });
    await eventually(() => expect(stream.stdout).toContain("ready"));
    stream.write("\u0003");
    await eventually(() => expect(stream.stdout).toContain("interrupted"));
    stream.send({ kind: "eof" });
    expect(await stream.exits()).toBe(9);
  });

  it("[NM207] gives all that was written to a reader that is slow", async () => {
    await node.start();
    const id = await startContainer();
    const stream = await openStream(node, id, { ...sh("seq 1 100000; exit 4"), tty });
    stream.isSlow = true;
    await eventually(() =>
      expect(stream.heldBytes).toBeGreaterThan(LIMITS.streamWindowBytes - 70_000),
    );
    stream.isSlow = false;
    stream.send({ kind: "credit", bytes: stream.heldBytes });
    stream.heldBytes = 0;
    expect(await stream.exits()).toBe(4);
    expect(stream.stdout.endsWith("99999\r\n100000\r\n")).toBe(true);
  });

  it("[NM203] takes its programs with it when the stream is cut", async () => {
    await node.start();
    const id = await startContainer();
    const stream = await openStream(node, id, {
      ...sh("echo $$; exec sleep 1000"),
      stdin: true,
      tty,
    });
    await eventually(() => expect(stream.stdout).toMatch(/^\d+\r\n/));
    stream.cut();
    await eventually(() => expect(runs(numberIn(stream.stdout))).toBe(false));
  });
});

describe("a node", () => {
  it("[NM209] whose operator allows no exec refuses it, with the property's name", async () => {
    await node.start({ allowedStreams: { exec: false, forwardPorts: [] } });
    const id = await startContainer();
    expect(await askForStream(node, id, exec("true"))).toEqual({
      code: "PERMISSION_DENIED",
      message: "node 127.0.0.1:8041 lets nobody run programs in its containers",
      hint: "its operator has set selvedge.node.allowed.exec to false there",
    });
  });

  it("[NM201] says that it has no such container, or that it has no process", async () => {
    await node.start();
    expect(await askForStream(node, containerId(9), exec("true"))).toMatchObject({
      code: "NOT_FOUND",
    });
    const id = await node.run(1, launchContext("true"));
    await node.tracker.untilState(id, "COMPLETE");
    expect(await askForStream(node, id, exec("true"))).toMatchObject({
      code: "FAILED_PRECONDITION",
      message: `${id} has no process at the moment`,
    });
  });

  it("[NM205] has a maximum of streams for each container", async () => {
    await node.start();
    const id = await startContainer();
    for (let count = 0; count < LIMITS.streamsPerContainerMax; count++) {
      await openStream(node, id, exec("sleep", "1000"));
    }
    expect(await askForStream(node, id, exec("true"))).toMatchObject({
      code: "RESOURCE_EXHAUSTED",
    });
  });
});

/** The container's own program. */
function processOf(id: string): number {
  const pid = Number.parseInt(readFileSync(`${node.home}/nm-state/${id}.pid`, "utf8"), 10);
  const [child = ""] = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ");
  return Number(child);
}
