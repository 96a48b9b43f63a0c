/** `selvedge container`: what a person reads, what a script gets, and what is sent to the cluster. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type ClusterPlayer, problem, startClusterPlayer } from "./cluster-player.ts";
import { createDesk, type Desk } from "./command.ts";
import { STABLE_VIEW } from "./views.ts";

const APPLICATION = "application_1503963985568_0002";
const ATTEMPT = "appattempt_1503963985568_0002_000001";
const CONTAINER = "container_e03_1503963985568_0002_01_000001";
const CONTAINERS = `/ws/v1/cluster/apps/${APPLICATION}/appattempts/${ATTEMPT}/containers`;

const running = {
  containerId: CONTAINER,
  containerState: "RUNNING",
  nodeId: "worker1:8041",
  allocatedMB: 256,
  allocatedVCores: 1,
  priority: 0,
  executionType: "GUARANTEED",
  startedTime: 1_504_051_512_412,
  diagnosticsInfo: "",
};

let cluster: ClusterPlayer;
let desk: Desk;
beforeEach(async () => {
  cluster = await startClusterPlayer();
  desk = createDesk(cluster.url);
});
afterEach(async () => {
  desk.clear();
  await cluster.close();
});

describe("container list and status", () => {
  it.each([APPLICATION, ATTEMPT, "hello"])("[NM163] lists the containers of %s", async (target) => {
    cluster.play("GET /app/v1/services/hello", { body: { ...STABLE_VIEW, id: APPLICATION } });
    cluster.play(`GET ${CONTAINERS}`, { body: { containers: { container: [running] } } });
    const { stdout, exitCode } = await desk.run(["container", "list", target]);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(new RegExp(`^${CONTAINER} +RUNNING +worker1:8041 +256 +1 +2017`, "m"));
  });

  it("[NM163] gives scripts the cluster's JSON, or the ids alone", async () => {
    cluster.play(`GET ${CONTAINERS}`, { body: { containers: { container: [running] } } });
    const json = await desk.run(["-o", "json", "container", "list", APPLICATION]);
    expect(JSON.parse(json.stdout)).toEqual([running]);
    const quiet = await desk.run(["-q", "container", "list", APPLICATION]);
    expect(quiet.stdout).toBe(`${CONTAINER}\n`);
  });

  it("[NM163] says that a service has none", async () => {
    cluster.play("GET /app/v1/services/hello", { body: { ...STABLE_VIEW, id: null } });
    const saved = await desk.run(["container", "list", "hello"]);
    expect(saved).toMatchObject({ exitCode: 44, stderr: expect.stringContaining("never started") });
    cluster.play(`GET ${CONTAINERS}`, { body: { containers: { container: [] } } });
    const { stdout } = await desk.run(["container", "list", APPLICATION]);
    expect(stdout).toContain("has no containers");
  });

  it("[NM163] shows one container, and why it ended", async () => {
    const ended = { containerState: "COMPLETE", containerExitStatus: 137, diagnosticsInfo: "oops" };
    cluster.play(`GET ${CONTAINERS}/${CONTAINER}`, {
      body: { container: { ...running, ...ended } },
    });
    const { stdout } = await desk.run(["container", "status", CONTAINER]);
    expect(stdout).toMatch(/^exit status +137$/m);
    expect(stdout).toMatch(/^diagnostics +oops$/m);
    expect((await desk.run(["container", "status", "hello-0"])).exitCode).toBe(2);
  });
});

describe("container restart", () => {
  it("[NM169] asks once, and says what is being done", async () => {
    const body = { containerId: CONTAINER, instance: "hello-0", launchVersion: 2 };
    const operation = `POST /ws/v1/cluster/containers/${CONTAINER}/restart`;
    cluster.play(operation, { status: 202, body });
    const { stdout, exitCode } = await desk.run(["container", "restart", CONTAINER]);
    expect({ stdout, exitCode }).toEqual({
      stdout: "hello-0 is being restarted in place\n",
      exitCode: 0,
    });
    const refused = problem(409, "FAILED_PRECONDITION", "hello-0 is STOPPING");
    cluster.play(operation, refused);
    expect((await desk.run(["container", "restart", CONTAINER])).exitCode).toBe(49);
  });
});

describe("container signal", () => {
  const operation = (command: string) =>
    `POST /ws/v1/cluster/containers/${CONTAINER}/signal/${command}`;

  it.each([
    [[], "OUTPUT_THREAD_DUMP"],
    [["graceful_shutdown"], "GRACEFUL_SHUTDOWN"],
  ])("[NM163] sends one signal: %j", async (argument, command) => {
    const sent = { containerId: CONTAINER, nodeId: "worker1:8041", command };
    cluster.play(operation(command), { body: sent });
    const { stdout, exitCode } = await desk.run(["container", "signal", CONTAINER, ...argument]);
    expect({ stdout, exitCode }).toEqual({
      stdout: `worker1:8041 has sent ${command} to ${CONTAINER}\n`,
      exitCode: 0,
    });
    expect(cluster.requests).toHaveLength(1);
  });

  it("[NM163] asks the cluster for no signal that there is not", async () => {
    const { exitCode, stderr } = await desk.run(["container", "signal", CONTAINER, "SIGHUP"]);
    expect(exitCode).toBe(2);
    expect(stderr).toContain("GRACEFUL_SHUTDOWN");
    expect(cluster.requests).toEqual([]);
  });

  it("[NM162] is not sent again when it is not known whether it arrived", async () => {
    const answer = problem(503, "UNAVAILABLE", "node worker1:8041 did not answer in time", {
      hint: "whether it got it is not known",
    });
    cluster.play(operation("FORCEFUL_SHUTDOWN"), answer);
    const argv = ["container", "signal", CONTAINER, "FORCEFUL_SHUTDOWN"];
    const { exitCode, stderr } = await desk.run(argv);
    expect(exitCode).toBe(53);
    expect(stderr).toContain("is not known");
    expect(cluster.requests).toHaveLength(1);
  });
});
