import { beforeEach, describe, expect, it } from "vitest";
import { fail, ok } from "../../src/shared/errors.ts";
import { NODE_DID_NOT_ANSWER, SIGNAL_LIFETIME_MS } from "../../src/shared/protocol/node-query.ts";
import {
  APPLICATION_ID,
  CONTAINER_ID,
  containerOf,
  type FakeCluster,
  fakeCluster,
  NODE_ID,
  serviceOf,
} from "./fake-cluster.ts";

const ATTEMPT_ID = "appattempt_1503963985568_0002_000001";
const OTHER_ID = "container_e03_1503963985568_0002_01_000002";
const ATTEMPTS = `/ws/v1/cluster/apps/${APPLICATION_ID}/appattempts`;
const CONTAINERS = `${ATTEMPTS}/${ATTEMPT_ID}/containers`;
const signalPath = (command: string, container = CONTAINER_ID) =>
  `/ws/v1/cluster/containers/${container}/signal/${command}`;

let cluster: FakeCluster;
let joe: string;
beforeEach(async () => {
  cluster = await fakeCluster();
  cluster.state.nodeAnswer = ok("null");
  joe = cluster.tokens.joe;
});

describe("containers", () => {
  it("[NM161] are listed by attempt with YARN's fields", async () => {
    const attempts = await cluster.ask("GET", ATTEMPTS, { token: joe });
    expect(attempts.json.appAttempts.appAttempt).toEqual([
      { id: 1, appAttemptId: ATTEMPT_ID, startTime: 1_504_051_512_412, finishedTime: 0 },
    ]);
    cluster.containers.push(
      containerOf({ containerId: OTHER_ID, state: "COMPLETE", exitStatus: 1, diagnostics: "oops" }),
    );
    const list = await cluster.ask("GET", CONTAINERS, { token: joe });
    const [running, ended] = list.json.containers.container;
    expect(running).toEqual({
      containerId: CONTAINER_ID,
      containerState: "RUNNING",
      nodeId: NODE_ID,
      assignedNodeId: NODE_ID,
      allocatedMB: 256,
      allocatedVCores: 1,
      priority: 0,
      executionType: "GUARANTEED",
      startedTime: 1_504_051_512_412,
      elapsedTime: expect.any(Number),
      diagnosticsInfo: "",
    });
    expect(ended).toMatchObject({ containerExitStatus: 1, diagnosticsInfo: "oops" });
    expect(ended).not.toHaveProperty("elapsedTime");
    const one = await cluster.ask("GET", `${CONTAINERS}/${OTHER_ID}`, { token: joe });
    expect(one.json.container).toEqual(ended);
  });

  it("[NM161] of another attempt, or of somebody else, are not there", async () => {
    const elsewhere = `${ATTEMPTS}/appattempt_1503963985568_0009_000001/containers`;
    expect((await cluster.ask("GET", elsewhere, { token: joe })).status).toBe(404);
    const missing = `${CONTAINERS}/container_e03_1503963985568_0002_01_000009`;
    expect((await cluster.ask("GET", missing, { token: joe })).status).toBe(404);
    cluster.containers.push(
      containerOf({ containerId: OTHER_ID, attemptId: "appattempt_1503963985568_0002_000002" }),
    );
    expect((await cluster.ask("GET", `${CONTAINERS}/${OTHER_ID}`, { token: joe })).status).toBe(
      404,
    );
    for (const path of [ATTEMPTS, CONTAINERS, `${CONTAINERS}/${CONTAINER_ID}`]) {
      expect((await cluster.ask("GET", path, { token: cluster.tokens.eve })).status).toBe(404);
      expect((await cluster.ask("GET", path, { token: cluster.tokens.admin })).status).toBe(200);
    }
  });
});

describe("a signal", () => {
  it("[NM162] goes to the container's node, with the time after which it is void", async () => {
    const before = Date.now();
    const answer = await cluster.ask("POST", signalPath("graceful_shutdown"), { token: joe });
    expect(answer.status).toBe(200);
    expect(answer.json).toEqual({
      containerId: CONTAINER_ID,
      nodeId: NODE_ID,
      command: "GRACEFUL_SHUTDOWN",
    });
    const [asked, ...more] = cluster.nodeQueries;
    expect(more).toEqual([]);
    expect(asked).toMatchObject({
      nodeId: NODE_ID,
      query: { type: "signal", containerId: CONTAINER_ID, command: "GRACEFUL_SHUTDOWN" },
    });
    const expiresMs = asked?.query.type === "signal" ? asked.query.expiresMs : 0;
    expect(expiresMs).toBeGreaterThanOrEqual(before + SIGNAL_LIFETIME_MS);
    expect(expiresMs).toBeLessThanOrEqual(Date.now() + SIGNAL_LIFETIME_MS);
  });

  it("[NM162] is for the application's user and administrators", async () => {
    const path = signalPath("FORCEFUL_SHUTDOWN");
    const refused = await cluster.ask("POST", path, { token: cluster.tokens.eve });
    expect(refused.status).toBe(404);
    expect(refused.json.hint).toContain("the missing right");
    expect(cluster.nodeQueries).toEqual([]);
    expect((await cluster.ask("POST", path, { token: cluster.tokens.admin })).status).toBe(200);
  });

  it("[NM162] that YARN does not know, or for what is no container, is refused by name", async () => {
    const unknown = await cluster.ask("POST", signalPath("SIGHUP"), { token: joe });
    expect(unknown.status).toBe(400);
    expect(unknown.text).toContain("GRACEFUL_SHUTDOWN");
    const odd = await cluster.ask("POST", signalPath("GRACEFUL_SHUTDOWN", "c1"), { token: joe });
    expect(odd.status).toBe(400);
    const absent = signalPath("GRACEFUL_SHUTDOWN", OTHER_ID);
    expect((await cluster.ask("POST", absent, { token: joe })).status).toBe(404);
    cluster.containers[0] = containerOf({ state: "COMPLETE", exitStatus: 137 });
    const over = await cluster.ask("POST", signalPath("GRACEFUL_SHUTDOWN"), { token: joe });
    expect(over.status).toBe(409);
    expect(over.json.detail).toContain("exit status 137");
    expect(cluster.nodeQueries).toEqual([]);
  });

  it("[NM162] that did not arrive is said not to come later; whether one did may be unknown", async () => {
    cluster.state.nodeAnswer = fail("UNAVAILABLE", `node ${NODE_ID} is not connected`);
    const away = await cluster.ask("POST", signalPath("GRACEFUL_SHUTDOWN"), { token: joe });
    expect(away.status).toBe(503);
    expect(away.json.hint).toContain("will not get it later");
    const reason = NODE_DID_NOT_ANSWER;
    cluster.state.nodeAnswer = fail("UNAVAILABLE", "did not answer in time", { reason });
    const silent = await cluster.ask("POST", signalPath("GRACEFUL_SHUTDOWN"), { token: joe });
    expect(silent.status).toBe(503);
    expect(silent.json).toMatchObject({ reason, hint: expect.stringContaining("is not known") });
    cluster.state.nodeAnswer = fail("FAILED_PRECONDITION", "has no process at the moment");
    const idle = await cluster.ask("POST", signalPath("GRACEFUL_SHUTDOWN"), { token: joe });
    expect(idle.status).toBe(409);
    expect(cluster.nodeQueries).toHaveLength(3);
  });
});

describe("a restart in place", () => {
  const path = `/ws/v1/cluster/containers/${CONTAINER_ID}/restart`;
  beforeEach(() => {
    cluster.services.set("joe/hello-world", serviceOf("joe", "hello-world"));
  });

  it("[NM169] is asked of the service that runs the container", async () => {
    const answer = await cluster.ask("POST", path, { token: joe });
    expect(answer.status).toBe(202);
    expect(answer.json).toEqual({
      containerId: CONTAINER_ID,
      instance: "hello-0",
      launchVersion: 2,
    });
    expect((await cluster.ask("POST", path, { token: cluster.tokens.admin })).status).toBe(202);
  });

  it("[NM169] is for those who may change the application", async () => {
    const refused = await cluster.ask("POST", path, { token: cluster.tokens.eve });
    expect(refused.status).toBe(404);
    expect(cluster.calls).not.toContain("restartContainer");
  });
});

describe("an application that lets somebody in", () => {
  const LOG = `instance=hello-0&user=joe`;
  let eve: string;
  beforeEach(() => {
    eve = cluster.tokens.eve;
    cluster.services.set("joe/web", serviceOf("joe", "web"));
    cluster.state.letIn.add("eve");
  });

  it("[NM166] shows its service, timeline and logs to whom it lets in", async () => {
    const at = "/app/v1/services";
    const list = await cluster.ask("GET", `${at}?user=joe`, { token: eve });
    expect(list.json).toMatchObject([{ name: "web", user: "joe" }]);
    const service = await cluster.ask("GET", `${at}/web?user=joe`, { token: eve });
    expect(service.json).toMatchObject({ name: "web", user: "joe" });
    const events = await cluster.ask("GET", `${at}/web/events?user=joe`, { token: eve });
    expect(events.json).toHaveLength(1);
    const log = await cluster.ask("GET", `${at}/web/logs?${LOG}`, { token: eve });
    expect(log.json.data).toBe("hello\n");
    // Without a name, what is listed is one's own.
    expect((await cluster.ask("GET", at, { token: eve })).json).toEqual([]);
  });

  it("[NM166] does not let it change the service", async () => {
    for (const [method, path, body] of [
      ["PUT", "/web", { state: "STOPPED" }],
      ["DELETE", "/web", undefined],
      ["PUT", "/web/components/hello", { number_of_containers: 3 }],
    ] as const) {
      const more = body === undefined ? {} : { body };
      const answer = await cluster.ask(method, `/app/v1/services${path}?user=joe`, {
        token: eve,
        ...more,
      });
      expect(answer.status).toBe(403);
    }
    expect(cluster.services.get("joe/web")?.state).toBe("STABLE");
  });

  it("[NM166] shows nothing of services that were never started, or are not there", async () => {
    cluster.services.set("joe/saved", serviceOf("joe", "saved", { id: null }));
    for (const name of ["saved", "nothing"]) {
      const path = `/app/v1/services/${name}?user=joe`;
      const answer = await cluster.ask("GET", path, { token: eve });
      expect(answer.status).toBe(403);
      expect(answer.json.detail).toBe("user eve may not act for user joe");
    }
    expect(cluster.reached()).toEqual(["findService", "findService"]);
  });

  it("[NM166] has the node asked as its user, for one container and no others", async () => {
    const base = `/nodes/${NODE_ID}/ws/v1/node`;
    const asked = () =>
      cluster.nodeQueries.map(({ query }) => (query.type === "get" ? query.path : ""));
    const path = `/containers/${CONTAINER_ID}/logs/stdout`;
    cluster.state.nodeAnswer = fail("NOT_FOUND", "there is no container");
    await cluster.ask("GET", `${base}${path}`, { token: eve });
    expect(asked()).toEqual([`/ws/v1/node${path}?user=eve`, `/ws/v1/node${path}?user=joe`]);
    cluster.nodeQueries.length = 0;
    await cluster.ask("GET", `${base}/apps/${APPLICATION_ID}`, { token: eve });
    expect(asked()).toHaveLength(2);
    cluster.nodeQueries.length = 0;
    const list = await cluster.ask("GET", `${base}/containers?user=joe`, { token: eve });
    expect(list.status).toBe(403);
    cluster.state.letIn.clear();
    await cluster.ask("GET", `${base}${path}`, { token: eve });
    expect(asked()).toEqual([`/ws/v1/node${path}?user=eve`]);
  });
});
