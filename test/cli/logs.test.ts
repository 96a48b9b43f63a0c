/** `selvedge service logs`: whole lines, from the right containers, once and while they come. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Interrupted } from "../../src/cli/io.ts";
import { type ClusterPlayer, problem, startClusterPlayer } from "./cluster-player.ts";
import { createDesk, type Desk } from "./command.ts";
import { componentView, containerView, STABLE_VIEW, serviceView, WAITING_VIEW } from "./views.ts";

let cluster: ClusterPlayer;
let desk: Desk;
beforeEach(async () => {
  cluster = await startClusterPlayer();
  desk = createDesk(cluster.url);
  cluster.play(`GET ${HELLO}`, { body: STABLE_VIEW });
});
afterEach(async () => {
  desk.clear();
  await cluster.close();
});

const HELLO = "/app/v1/services/hello";
const id = (number: number) => containerView(number).id;
const chunk = (data: string, nextOffset: number, end = false) => ({
  body: { data, nextOffset, end },
});
const logTarget = (number: number, offset: number, wait = 0, file = "stdout") =>
  `GET ${HELLO}/logs?containerId=${id(number)}&file=${file}&offset=${offset}&length=262144&wait=${wait}`;
const logs = (...options: string[]) => desk.run(["service", "logs", "hello", ...options]);

describe("what there is", () => {
  beforeEach(() => {
    cluster.play(logTarget(0, 0), chunk("one\ntw", 6));
    cluster.play(logTarget(0, 6), chunk("o\nend", 11));
    cluster.play(logTarget(0, 11), chunk("", 11));
    cluster.play(logTarget(1, 0), chunk("\nother\n", 7, true));
  });

  it("comes as whole lines with their instance in front", async () => {
    expect((await logs()).stdout).toBe(
      "hello-0 | one\nhello-0 | two\nhello-0 | end\nhello-1 |\nhello-1 | other\n",
    );
  });

  it("of one instance comes as it was written", async () => {
    expect((await logs("-i", "hello-0")).stdout).toBe("one\ntwo\nend\n");
    expect((await logs("-i", "hello-1")).stdout).toBe("\nother\n");
  });

  it("is one JSON document per line for programs", async () => {
    const { stdout } = await logs("-i", "hello-1", "-o", "json");
    expect(
      stdout
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line)),
    ).toEqual([
      { instance: "hello-1", containerId: id(1), line: "" },
      { instance: "hello-1", containerId: id(1), line: "other" },
    ]);
  });

  it("[NM183] says where something was dropped, and goes on behind it", async () => {
    const more = { data: "later\n", nextOffset: 20_000_006, end: true, droppedBytes: 20_000_000 };
    cluster.play(logTarget(0, 6), { body: more });
    const ran = await logs("-i", "hello-0");
    expect(ran.stdout).toBe("one\ntw\nlater\n");
    expect(ran.stderr).toBe("hello-0: 19.1 MB dropped by rotation\n");
  });

  it("may be stderr's", async () => {
    cluster.play(logTarget(0, 0, 0, "stderr"), chunk("oh\n", 3, true));
    expect((await logs("-i", "hello-0", "--file", "stderr")).stdout).toBe("oh\n");
    expect((await logs("--file", "../secret")).exitCode).toBe(2);
  });

  it("does not hide behind a node that is away, but the exit code tells", async () => {
    cluster.play(logTarget(0, 0), problem(503, "UNAVAILABLE", "node box is not connected"));
    const ran = await logs();
    expect(ran.exitCode).toBe(53);
    expect(ran.stdout).toBe("hello-1 |\nhello-1 | other\n");
    expect(ran.stderr).toContain("hello-0: node box is not connected\n");
  });

  it("keeps colours on a terminal, and nothing else that steers it", async () => {
    const line = "\u001b[31mred\u001b[0m \u001b[2Jend\n";
    cluster.play(logTarget(1, 0), chunk(line, 20, true));
    const argv = ["service", "logs", "hello", "-i", "hello-1"];
    const ran = await desk.run(argv, { terminal: true });
    expect(ran.stdout).toBe("\u001b[31mred\u001b[0m end\u001b[0m\n");
    expect((await desk.run(argv)).stdout).toBe("red end\n");
  });
});

describe("--tail", () => {
  it("looks back no further than it must", async () => {
    cluster.play(logTarget(0, -512), chunk("rest of a line\na\nb\nc\n", 9_000, true));
    expect((await logs("-i", "hello-0", "--tail", "2")).stdout).toBe("b\nc\n");
  });

  it("looks back further when lines are long", async () => {
    const long = "x".repeat(1_000);
    cluster.play(logTarget(0, -512), chunk(long.slice(-500), 9_000, true));
    cluster.play(logTarget(0, -2048), chunk(`rest\nfirst\n${long}`, 9_000, true));
    expect((await logs("-i", "hello-0", "--tail", "2")).stdout).toBe(`first\n${long}\n`);
  });

  it("[NM183] of a log that was rotated looks back to what is kept, and no further", async () => {
    const kept = { data: "kept\n", nextOffset: 90_000, end: true, droppedBytes: 25_595 };
    cluster.play(logTarget(0, -25_600), { body: kept });
    expect((await logs("-i", "hello-0", "--tail", "100")).stdout).toBe("kept\n");
  });

  it("of a short log is all of it", async () => {
    cluster.play(logTarget(0, -25_600), chunk("only\n", 5, true));
    expect((await logs("-i", "hello-0", "--tail", "100")).stdout).toBe("only\n");
  });
});

describe("--since", () => {
  const SINCE = "2026-11-21T15:00Z";
  const target = (number: number) =>
    logTarget(number, 0).replace("&wait", `&since=${Date.parse(SINCE)}&wait`);
  const since = (data: string, ...options: string[]) => {
    cluster.play(target(0), chunk(data, 500, true));
    return logs("-i", "hello-0", "--since", SINCE, ...options);
  };

  it("[NM184] shows the lines of that time, each with the lines that belong to it", async () => {
    const ran = await since(
      "2026-11-21 14:59:59,999 old\n  at old.js\n2026-11-21 15:00:00,000 new\n  at new.js\n",
    );
    expect(ran.stdout).toBe("2026-11-21 15:00:00,000 new\n  at new.js\n");
    expect(ran.stderr).toBe("");
  });

  it("[NM184] of lines without times shows what may be new, and says that it is rough", async () => {
    const ran = await since("one\ntwo\n");
    expect(ran.stdout).toBe("one\ntwo\n");
    expect(ran.stderr).toContain("hello-0: its lines begin with no time that is understood");
  });

  it("[NM184] tells what time it took for which, when no zone is named and nothing is left", async () => {
    const ran = await since("2026-11-21 10:41:49,123 in New York\n");
    expect(ran.stdout).toBe("");
    expect(ran.stderr).toContain(
      "hello-0: its latest line is of 2026-11-21T10:41:49.123Z, if its times, which name no zone",
    );
  });

  it("[NM184] goes with --tail and --grep", async () => {
    cluster.play(
      logTarget(0, -512),
      chunk("2026-11-21T14:00:00Z a\n2026-11-21T15:01:00Z b\n2026-11-21T15:02:00Z c\n", 90, true),
    );
    const ran = await logs("-i", "hello-0", "--since", SINCE, "--tail", "2", "--grep", " [ab]$");
    expect(ran.stdout).toBe("2026-11-21T15:01:00Z b\n");
  });

  it.each(["yesterday", "10", "10x", "2026-11-41", "-5m", "2026-11-21 15:00"])(
    "[NM184] cannot be %s",
    async (text) => {
      const ran = await logs(`--since=${text}`);
      expect(ran.exitCode).toBe(2);
      expect(ran.stderr).toContain("how long ago, such as 30s, 10m, 2h or 3d");
    },
  );
});

describe("nothing to show", () => {
  it("yet: says that the container has not started, and why nothing runs", async () => {
    const starting = componentView([containerView(0, "INIT")]);
    cluster.play(`GET ${HELLO}`, { body: serviceView("STARTED", [starting]) });
    expect((await logs()).stderr).toBe("hello-0 is INIT: it has no log yet\n");
    cluster.play(`GET ${HELLO}`, { body: WAITING_VIEW });
    expect((await logs()).stderr).toBe(
      "service hello is ACCEPTED; no container runs " +
        "(hello: 2 containers wait: 0/1 nodes: 1 too little memory)\n",
    );
  });

  it("of that name: names the one that was meant", async () => {
    const ran = await logs("-i", "helo-1");
    expect(ran.exitCode).toBe(44);
    expect(ran.stderr).toContain("hint: did you mean hello-1?\n");
    expect((await logs("-c", "web")).stderr).toContain(
      'has no component "web"\nhint: it has hello\n',
    );
  });
});

describe("--follow", () => {
  const WAIT = 20_000;

  it("prints as it comes, goes on with a replaced container, and ends with the service", async () => {
    const replaced = containerView(0, "READY", { id: id(7) });
    cluster.play(
      `GET ${HELLO}`,
      { body: STABLE_VIEW },
      { body: serviceView("STABLE", [componentView([containerView(0)])]) },
      { body: serviceView("STABLE", [componentView([replaced])]) },
      { body: serviceView("STOPPED", []) },
    );
    cluster.play(logTarget(0, 0, WAIT), chunk("a\nb", 3));
    cluster.play(logTarget(0, 3, WAIT), chunk("c\n", 5, true));
    cluster.play(logTarget(7, 0, WAIT), chunk("again\n", 6, true));
    const ran = await logs("-f");
    expect(ran.exitCode).toBe(0);
    expect(ran.stdout).toBe("hello-0 | a\nhello-0 | bc\nhello-0 | again\n");
  });

  it("starts with the last lines when told --tail", async () => {
    cluster.play(
      `GET ${HELLO}`,
      { body: STABLE_VIEW },
      { body: serviceView("STABLE", [componentView([containerView(0)])]) },
      { body: serviceView("STOPPED", []) },
    );
    cluster.play(logTarget(0, -256), chunk("a\nb\n", 4));
    cluster.play(logTarget(0, 4), chunk("", 4));
    cluster.play(logTarget(0, 4, WAIT), chunk("c\n", 6, true));
    expect((await logs("-f", "--tail", "1", "-i", "hello-0")).stdout).toBe("b\nc\n");
  });

  it("ends at once when interrupted, with 130 and without a word", async () => {
    cluster.play(logTarget(0, 0, WAIT), chunk("a\n", 2));
    cluster.play(logTarget(0, 2, WAIT), { ...chunk("", 2), after: new Promise(() => undefined) });
    const interrupt = new AbortController();
    const ran = await desk.run(["service", "logs", "hello", "-f", "-i", "hello-0"], {
      signal: interrupt.signal,
      onOutput: (stdout) => {
        if (stdout.includes("a")) interrupt.abort(new Interrupted("SIGINT"));
      },
    });
    expect(ran).toEqual({ exitCode: 130, stdout: "a\n", stderr: "" });
  });
});
