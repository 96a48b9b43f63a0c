/** `--wait`: what is shown meanwhile, and the truth in the exit code. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Interrupted } from "../../src/cli/io.ts";
import type { ContainerView, ServiceView } from "../../src/shared/service.ts";
import { type ClusterPlayer, problem, startClusterPlayer } from "./cluster-player.ts";
import { createDesk, type Desk, type RunOptions } from "./command.ts";
import {
  componentView,
  containerView,
  STABLE_VIEW,
  STARTED_VIEW,
  serviceView,
  WAITING_VIEW,
  YARNFILE_JSON,
} from "./views.ts";

let cluster: ClusterPlayer;
let desk: Desk;
beforeEach(async () => {
  cluster = await startClusterPlayer();
  desk = createDesk(cluster.url);
  writeFileSync(join(desk.directory, "hello.json"), YARNFILE_JSON);
  cluster.play("POST /app/v1/services", { status: 202, body: { state: "ACCEPTED", id: "a" } });
  cluster.play(`GET ${HELLO}/events`, { body: [] });
  cluster.play(`PUT ${HELLO}`, { status: 204 });
  cluster.play(`DELETE ${HELLO}`, { status: 204 });
});
afterEach(async () => {
  desk.clear();
  await cluster.close();
});

const HELLO = "/app/v1/services/hello";
const GONE = problem(404, "NOT_FOUND", "there is no service hello");
const launch = (...options: string[]) =>
  desk.run(["service", "launch", "hello.json", "--wait", ...options]);
const shows = (...views: readonly ServiceView[]) =>
  cluster.play(`GET ${HELLO}`, ...views.map((body) => ({ body })));

describe("launch --wait", () => {
  it("ends when the service is STABLE, and says where it is reached", async () => {
    shows(WAITING_VIEW, STARTED_VIEW, STABLE_VIEW);
    const ran = await launch();
    expect(ran.exitCode).toBe(0);
    expect(ran.stdout).toBe(
      "service hello is STABLE: 2/2 containers ready\n" +
        "  hello-0  http://10.0.0.7:40000\n" +
        "  hello-1  http://10.0.0.7:40001\n",
    );
  });

  it("writes a plain line for every change where there is no terminal", async () => {
    shows(WAITING_VIEW, WAITING_VIEW, STARTED_VIEW, STABLE_VIEW);
    expect((await launch()).stderr).toBe(
      "hello: 0/2 ready (2 containers wait: 0/1 nodes: 1 too little memory)\n" +
        "hello: 1/2 ready, 1 starting\n" +
        "hello: 2/2 ready\n",
    );
  });

  it("shows each event once, as it comes", async () => {
    const first = {
      timeMs: 1,
      type: "CONTAINER_ALLOCATED",
      instance: "hello-0",
      message: "on box",
    };
    const second = { timeMs: 2, type: "SERVICE_STABLE", message: "all ready" };
    cluster.play(`GET ${HELLO}/events`, { body: [first] }, { body: [first, second] });
    shows(STARTED_VIEW, STABLE_VIEW);
    const { stderr } = await launch();
    expect(stderr.match(/CONTAINER_ALLOCATED/g)).toHaveLength(1);
    expect(stderr).toContain("SERVICE_STABLE  all ready\n");
  });

  it("redraws one line per component on a terminal, and leaves none behind", async () => {
    shows(STARTED_VIEW, STABLE_VIEW);
    const options: RunOptions = { terminal: true, env: { NO_COLOR: "1" } };
    const ran = await desk.run(["service", "launch", "hello.json", "--wait"], options);
    const erase = "\u001b[1A\u001b[0J";
    expect(ran.stderr).toBe(`hello: 1/2 ready, 1 starting\n${erase}hello: 2/2 ready\n${erase}`);
  });

  it("gives programs the service as it is then, and nothing else on stdout", async () => {
    shows(STARTED_VIEW, STABLE_VIEW);
    const ran = await launch("-o", "json", "--quiet");
    expect(JSON.parse(ran.stdout)).toEqual(STABLE_VIEW);
    expect(ran.stderr).toBe("");
  });

  it("of work that is meant to end waits for its end", async () => {
    const work = (state: ContainerView["state"]) =>
      componentView([containerView(0, state, { exposed_ports: {} })], {
        restart_policy: "ON_FAILURE",
      });
    shows(serviceView("STABLE", [work("READY")]), serviceView("SUCCEEDED", [work("SUCCEEDED")]));
    const ran = await launch("--timeout", "5");
    expect(ran.exitCode).toBe(0);
    expect(ran.stdout).toBe("service hello is SUCCEEDED: 1/1 containers have succeeded\n");
  });

  it("of a service that FAILED exits with 73, and says why", async () => {
    const failed = componentView([containerView(0, "FAILED")], {
      state: "FAILED",
      diagnostics: "hello-0 exited with 1 ten times",
    });
    shows(serviceView("FAILED", [failed], { diagnostics: "component hello failed" }));
    const ran = await launch("--quiet");
    expect(ran.exitCode).toBe(73);
    expect(ran.stdout).toBe("");
    expect(ran.stderr).toBe(
      "error: service hello FAILED: component hello failed\n" +
        "hint: `selvedge service logs hello` and `selvedge service events hello` say more\n" +
        "  - hello: 0/1 ready, 1 failed (hello-0 exited with 1 ten times)\n",
    );
  });

  it("of work that ended with an error exits with 69", async () => {
    const work = componentView([containerView(0, "FAILED")], {
      state: "FAILED",
      restart_policy: "NEVER",
    });
    shows(serviceView("FAILED", [work]));
    expect((await launch("-q")).exitCode).toBe(69);
  });

  it("of a service that somebody else stops or destroys exits with 67", async () => {
    shows(STARTED_VIEW, serviceView("STOPPED", []));
    expect((await launch("-q")).exitCode).toBe(67);
    cluster.play(`GET ${HELLO}`, { body: STARTED_VIEW }, GONE);
    const ran = await launch("-q");
    expect(ran.exitCode).toBe(67);
    expect(ran.stderr).toContain("service hello was destroyed while it was waited for");
  });

  it("that takes too long exits with 68, and says what is still missing", async () => {
    shows(WAITING_VIEW);
    const ran = await launch("--timeout", "0.1", "-q");
    expect(ran.exitCode).toBe(68);
    expect(ran.stderr).toContain(
      "error: service hello is not STABLE after 0.1 s; it is ACCEPTED: " +
        "waiting for containers of component hello\n",
    );
    expect(ran.stderr).toContain("0/1 nodes: 1 too little memory");
  });

  it("does not wait for a service that the Yarnfile only saves", async () => {
    cluster.play("POST /app/v1/services", { status: 202, body: { state: "ACCEPTED" } });
    const ran = await launch();
    expect(ran.exitCode).toBe(0);
    expect(ran.stdout).toContain("service hello is saved");
  });

  it("interrupted exits with 130, and says that the cluster goes on", async () => {
    shows(STARTED_VIEW);
    const interrupt = new AbortController();
    const ran = await desk.run(["service", "launch", "hello.json", "--wait"], {
      signal: interrupt.signal,
      onOutput: (_stdout, stderr) => {
        if (stderr.includes("1/2 ready")) interrupt.abort(new Interrupted("SIGINT"));
      },
    });
    expect(ran.exitCode).toBe(130);
    expect(ran.stderr).toContain("error: stopped waiting for service hello; the cluster goes on");
  });
});

describe("other waits", () => {
  it("flex: until the new number is ready, though the service is STABLE all along", async () => {
    const growing = componentView([containerView(0), containerView(1, "INIT")]);
    shows(STABLE_VIEW, serviceView("STABLE", [growing]), STABLE_VIEW);
    const ran = await desk.run(["service", "flex", "hello", "hello=2", "--wait"]);
    expect(ran.exitCode).toBe(0);
    expect(ran.stderr).toBe("hello: 1/2 ready, 1 starting\nhello: 2/2 ready\n");
  });

  it("flex: a running service that FAILED exits with 66", async () => {
    shows(STABLE_VIEW, serviceView("FAILED", []));
    const ran = await desk.run(["service", "flex", "hello", "hello=3", "--wait"]);
    expect(ran.exitCode).toBe(66);
  });

  it("stop: until the last container has ended", async () => {
    const last = serviceView("STOPPED", [componentView([containerView(0)])]);
    shows(STABLE_VIEW, last, serviceView("STOPPED", []));
    const ran = await desk.run(["service", "stop", "hello", "--wait"]);
    expect(ran.exitCode).toBe(0);
    expect(cluster.heard(`GET ${HELLO}`)).toHaveLength(3);
  });

  it("destroy: until the service is gone", async () => {
    cluster.play(`GET ${HELLO}`, { body: STABLE_VIEW }, GONE);
    const ran = await desk.run(["service", "destroy", "hello", "--yes", "--wait"]);
    expect(ran).toMatchObject({ exitCode: 0, stdout: "service hello is gone\n" });
  });

  it("show no event from before the change", async () => {
    const old = { timeMs: 1, type: "SERVICE_STABLE", message: "yesterday" };
    cluster.play(`GET ${HELLO}/events`, { body: [old] });
    shows(STABLE_VIEW);
    const ran = await desk.run(["service", "start", "hello", "--wait"]);
    expect(ran.stderr).toBe("hello: 2/2 ready\n");
  });

  it("outlast a control plane that is away for a moment", async () => {
    const away = problem(503, "UNAVAILABLE", "the cluster restarts");
    cluster.play(`GET ${HELLO}`, away, away, away, away, { body: STABLE_VIEW });
    const ran = await desk.run(["service", "start", "hello", "--wait"]);
    expect(ran.exitCode).toBe(0);
    expect(ran.stderr).toContain("the cluster restarts; trying again\n");
  });
});
