/** The life of a service, told on the workbench of test/support/harness.ts. */
import { describe, expect, it } from "vitest";
import { listServices } from "../../src/core/cluster/application.ts";
import {
  applicationSubmitted,
  destroyService,
  flexService,
  masterRegistered,
  nextDeadlineMs,
  setLifetime,
  settle,
  startService,
  stopService,
} from "../../src/core/service/lifecycle.ts";
import { recordsPublished, registryChanges } from "../../src/core/service/records.ts";
import { Service } from "../../src/core/service/state.ts";
import { allocated, serviceWork } from "../../src/core/service/work.ts";
import { type Harness, harness, MASTER } from "../support/harness.ts";
import { component, SUBMITTER } from "../support/yarnfile.ts";

const GB = { memory: "1024", cpus: 1 };

/** Two nodes of 4 GB and a service of so many containers of 1 GB. */
function running(count = 2, changes: Readonly<Record<string, unknown>> = {}): Harness {
  const cluster = harness();
  cluster.node("a");
  cluster.node("b");
  const hello = component({ number_of_containers: count, resource: GB, ...changes });
  cluster.create({ components: [hello] });
  return cluster;
}

function flex(cluster: Harness, count: number | `+${number}` | `-${number}`, name = "hello") {
  return cluster.command((service, nowMs) =>
    flexService(service, [{ component: name, count }], nowMs),
  );
}

const namesOf = (cluster: Harness) => Object.keys(cluster.states());

describe("a service", () => {
  it("[SM1] runs what its Yarnfile says, and is STABLE then", () => {
    const cluster = running(2);
    expect(cluster.states()).toEqual({ "hello-0": "READY", "hello-1": "READY" });
    expect(cluster.view()).toMatchObject({
      state: "STABLE",
      diagnostics: "",
      number_of_running_containers: 2,
    });
    expect(listServices(cluster.cluster)).toMatchObject([{ name: "hello-world", state: "STABLE" }]);
  });

  it("[SM1] that exists cannot be created again", () => {
    const cluster = running();
    expect(cluster.create()).toMatchObject({ ok: false, error: { code: "ALREADY_EXISTS" } });
  });

  it("[SM1] that is only saved runs nothing until it is started", () => {
    const cluster = harness();
    cluster.node("a");
    cluster.create({ state: "STOPPED" });
    expect(cluster.view().state).toBe("STOPPED");
    expect(cluster.states()).toEqual({});
    cluster.command((service, nowMs) =>
      startService(service, cluster.submissionId(), SUBMITTER, nowMs),
    );
    expect(cluster.states()).toEqual({ "hello-0": "READY" });
  });

  it("[SM1] whose containers fit no node is refused, and says why", () => {
    const cluster = harness();
    cluster.node("a", { memoryMb: 512 });
    cluster.create({ components: [component({ resource: GB })] });
    expect(cluster.view()).toMatchObject({
      state: "FAILED",
      diagnostics: expect.stringContaining("no node is large enough"),
    });
  });

  it("[SM2] that is stopped runs nothing, and starts again from the beginning", () => {
    const cluster = running(2);
    cluster.command((service, nowMs) => stopService(service, nowMs));
    expect(cluster.running()).toEqual([]);
    expect(cluster.cluster.containers.size).toBe(0);
    expect(cluster.view()).toMatchObject({ state: "STOPPED", diagnostics: "stopped by user" });
    cluster.command((service, nowMs) =>
      startService(service, cluster.submissionId(), SUBMITTER, nowMs),
    );
    expect(cluster.states()).toEqual({ "hello-0": "READY", "hello-1": "READY" });
  });

  it("[SM2] that is destroyed leaves nothing, and its name can be taken again", () => {
    const cluster = running(2);
    cluster.command((service, nowMs) => destroyService(service, "destroyed by user", nowMs));
    expect(cluster.running()).toEqual([]);
    expect(cluster.service.tables.map(({ size }) => size)).toEqual(
      cluster.service.tables.map(() => 0),
    );
    expect(listServices(cluster.cluster)).toEqual([]);
    cluster.advance(1_000);
    expect(cluster.create().ok).toBe(true);
    expect(cluster.states()).toEqual({ "hello-0": "READY" });
    expect(listServices(cluster.cluster)).toHaveLength(1);
  });

  it("[SM3] is stopped and removed when its lifetime is over", () => {
    const cluster = harness();
    cluster.node("a");
    cluster.create({ lifetime: 60 });
    expect(nextDeadlineMs(cluster.service)).toBe(cluster.nowMs + 60_000);
    cluster.advance(59_999);
    expect(cluster.view()).toMatchObject({ state: "STABLE", lifetime: 1 });
    cluster.advance(1);
    expect(cluster.service.row).toBeUndefined();
    expect(cluster.running()).toEqual([]);
  });

  it("[SM3] lives on when its lifetime is prolonged in time", () => {
    const cluster = harness();
    cluster.node("a");
    cluster.create({ lifetime: 60 });
    cluster.advance(30_000);
    cluster.command((service, nowMs) => setLifetime(service, 60, nowMs));
    cluster.advance(59_000);
    expect(cluster.view().state).toBe("STABLE");
    cluster.command((service, nowMs) => setLifetime(service, -1, nowMs));
    cluster.advance(1_000_000);
    expect(cluster.view()).toMatchObject({ state: "STABLE", lifetime: -1 });
  });
});

describe("dependencies", () => {
  const components = [
    component({ name: "web", dependencies: ["db"], number_of_containers: 2 }),
    component({ name: "db" }),
  ];

  it("[SM4] hold a component back until those it depends on are ready", () => {
    const cluster = harness();
    cluster.node("a");
    cluster.holdReadiness = true;
    cluster.create({ components });
    expect(cluster.states()).toEqual({ "db-0": "STARTED" });
    expect(cluster.view().diagnostics).toBe("web: waits for db (0 of 1 ready)");
    cluster.holdReadiness = false;
    cluster.setReady("db-0", true);
    expect(cluster.states()).toEqual({ "db-0": "READY", "web-0": "READY", "web-1": "READY" });
  });

  it("[SM4] hold back the first start only", () => {
    const cluster = harness();
    cluster.node("a");
    cluster.create({ components });
    cluster.setReady("db-0", false, "HTTP GET answered 503");
    cluster.exit("web-0", 1);
    expect(cluster.states()).toEqual({ "db-0": "STARTED", "web-0": "READY", "web-1": "READY" });
  });
});

describe("restart policies", () => {
  it("[SM5] ALWAYS starts an ended instance again, whatever its exit status", () => {
    const cluster = running(1);
    const before = cluster.containerOf("hello-0");
    cluster.exit("hello-0", 0);
    expect(cluster.states()).toEqual({ "hello-0": "READY" });
    expect(cluster.containerOf("hello-0")).not.toBe(before);
  });

  it("[SM5] ON_FAILURE starts again what failed, and lets rest what succeeded", () => {
    const cluster = running(2, { restart_policy: "ON_FAILURE" });
    cluster.exit("hello-0", 1);
    expect(cluster.states()["hello-0"]).toBe("READY");
    cluster.exit("hello-0", 0);
    expect(cluster.states()).toEqual({ "hello-0": "SUCCEEDED", "hello-1": "READY" });
    cluster.exit("hello-1", 0);
    expect(cluster.view()).toMatchObject({
      state: "SUCCEEDED",
      diagnostics: "every component has succeeded",
    });
  });

  it("[SM5] NEVER starts nothing again, and one failure makes the service FAILED", () => {
    const cluster = running(2, { restart_policy: "NEVER" });
    cluster.exit("hello-0", 1);
    expect(cluster.states()).toEqual({ "hello-0": "FAILED", "hello-1": "READY" });
    cluster.exit("hello-1", 0);
    expect(cluster.view()).toMatchObject({
      state: "FAILED",
      diagnostics: "these components have failed: hello",
    });
  });

  it("[SM6] wait longer after each quick end, and start anew after a long run", () => {
    const cluster = running(1);
    const pausesMs: number[] = [];
    for (let ends = 0; ends < 5; ends += 1) {
      cluster.exit("hello-0", 1);
      const pauseMs = (nextDeadlineMs(cluster.service) ?? cluster.nowMs) - cluster.nowMs;
      pausesMs.push(pauseMs);
      cluster.advance(pauseMs);
    }
    expect(pausesMs).toEqual([0, 1_000, 2_000, 4_000, 8_000]);
    cluster.advance(60_000);
    cluster.exit("hello-0", 1);
    expect(cluster.states()).toEqual({ "hello-0": "READY" });
  });

  it("[SM6] say how long the pause is and what it is for", () => {
    const cluster = running(1);
    cluster.exit("hello-0", 1);
    cluster.exit("hello-0", 1);
    expect(cluster.states()).toEqual({ "hello-0": "BACKOFF" });
    expect(cluster.view().diagnostics).toBe(
      "hello: hello-0 is restarted in 1 s after: exit code 1",
    );
  });

  it("[SM7] end with the service FAILED once a component has failed too often", () => {
    const properties = {
      "yarn.service.container-failure-per-component.threshold": "2",
      "yarn.service.container-failure.retry-interval-ms": "0",
    };
    const cluster = running(1, { configuration: { properties } });
    cluster.exit("hello-0", 1);
    cluster.exit("hello-0", 1);
    expect(cluster.view().state).toBe("STABLE");
    cluster.exit("hello-0", 1);
    expect(cluster.view()).toMatchObject({
      state: "FAILED",
      diagnostics: "component hello failed 3 times, which is too often",
    });
  });

  it("[SM7] do not count what was not the program's fault", () => {
    const properties = { "yarn.service.container-failure-per-component.threshold": "0" };
    const cluster = running(1, { configuration: { properties } });
    cluster.exit("hello-0", -100);
    expect(cluster.states()).toEqual({ "hello-0": "READY" });
  });
});

describe("flex", () => {
  it("[SM8] up adds the lowest free numbers, down takes the highest away", () => {
    const cluster = running(2);
    expect(flex(cluster, "+2")).toMatchObject({ ok: true, value: [{ from: 2, to: 4 }] });
    expect(namesOf(cluster)).toEqual(["hello-0", "hello-1", "hello-2", "hello-3"]);
    const kept = cluster.containerOf("hello-0");
    flex(cluster, 1);
    expect(namesOf(cluster)).toEqual(["hello-0"]);
    expect(cluster.containerOf("hello-0")).toBe(kept);
    expect(cluster.running()).toEqual([kept]);
  });

  it("[SM8] changes all components or none", () => {
    const cluster = running(2);
    const reply = cluster.command((service, nowMs) =>
      flexService(
        service,
        [
          { component: "hello", count: 3 },
          { component: "helo", count: 1 },
        ],
        nowMs,
      ),
    );
    expect(reply).toMatchObject({ ok: false, error: { code: "NOT_FOUND" } });
    expect(namesOf(cluster)).toHaveLength(2);
  });

  it("[SM8] is refused while the service does not run", () => {
    const cluster = running(1);
    cluster.command((service, nowMs) => stopService(service, nowMs));
    expect(flex(cluster, 2)).toMatchObject({ ok: false, error: { code: "FAILED_PRECONDITION" } });
  });

  it("[SM9] gives a name away again only after its container's end is known", () => {
    const cluster = running(1);
    const nodeId = cluster.service.instances.get("hello-0")?.container?.nodeId ?? "";
    const name = nodeId.slice(0, 1);
    cluster.deafNodes.add(name);
    flex(cluster, 0);
    flex(cluster, 1);
    expect(cluster.states()).toEqual({ "hello-0": "STOPPING" });
    const before = cluster.containerOf("hello-0");
    cluster.loseNode(name);
    expect(cluster.states()).toEqual({ "hello-0": "READY" });
    expect(cluster.containerOf("hello-0")).not.toBe(before);
  });
});

describe("when things break", () => {
  it("[SM10] the instances of a lost node run on another one", () => {
    const cluster = running(2);
    cluster.loseNode("a");
    const places = [...cluster.service.instances.values()].map(
      ({ container }) => container?.nodeId,
    );
    expect(cluster.states()).toEqual({ "hello-0": "READY", "hello-1": "READY" });
    expect(places).toEqual(["b:8041", "b:8041"]);
  });

  it("[SM10] what a lost node still runs when it comes back is killed there", () => {
    const cluster = running(4);
    cluster.loseNode("a");
    expect(cluster.running().length).toBeGreaterThan(4);
    cluster.deafNodes.clear();
    cluster.node("a");
    expect(cluster.running()).toHaveLength(4);
  });

  it("[SM10] the instances of an unhealthy node move", () => {
    const cluster = running(4);
    cluster.setHealth("a", false, "a disk is full");
    const places = [...cluster.service.instances.values()].map(
      ({ container }) => container?.nodeId,
    );
    expect(new Set(places)).toEqual(new Set(["b:8041"]));
    expect(cluster.states()).toMatchObject({ "hello-3": "READY" });
  });

  it("[SM11] what does not fit waits, says why, and runs when there is room", () => {
    const cluster = harness();
    cluster.node("a", { memoryMb: 2_048 });
    cluster.create({ components: [component({ number_of_containers: 3, resource: GB })] });
    expect(cluster.states()).toMatchObject({ "hello-2": "WAITING" });
    cluster.command((service) => {
      service.newsWaiting = true;
    });
    expect(cluster.view().diagnostics).toBe(
      "hello: 1 of 3 wait for a container: 0/1 nodes: 1 too little memory",
    );
    cluster.node("b");
    expect(cluster.states()).toMatchObject({ "hello-2": "READY" });
    expect(cluster.view()).toMatchObject({ state: "STABLE", diagnostics: "" });
  });

  it("[SM11] what is not ready says why", () => {
    const cluster = running(1);
    cluster.setReady("hello-0", false, "HTTP GET http://10.0.0.1 answered 503");
    expect(cluster.view()).toMatchObject({
      state: "STARTED",
      diagnostics: "hello: hello-0 is not ready: HTTP GET http://10.0.0.1 answered 503",
    });
  });
});

describe("the timeline", () => {
  it("[SM12] tells what happened, in order", () => {
    const cluster = running(1);
    cluster.exit("hello-0", 1);
    cluster.command((service, nowMs) => stopService(service, nowMs));
    const told = cluster.events().filter((type) => type !== "SERVICE_STARTED");
    expect(told).toEqual([
      "SERVICE_SUBMITTED",
      "SERVICE_ACCEPTED",
      "COMPONENT_STARTED",
      "CONTAINER_ALLOCATED",
      "CONTAINER_STARTED",
      "INSTANCE_READY",
      "SERVICE_STABLE",
      "CONTAINER_COMPLETED",
      "CONTAINER_ALLOCATED",
      "CONTAINER_STARTED",
      "INSTANCE_READY",
      "SERVICE_STABLE",
      "SERVICE_FINISHING",
      "SERVICE_STOPPED",
    ]);
  });

  it("[SM12] keeps the last five hundred events", () => {
    const cluster = running(1);
    for (let count = 0; count < 400; count += 1) flex(cluster, (count % 2) + 1);
    expect(cluster.events().length).toBeLessThanOrEqual(500);
    expect(cluster.events().length).toBeGreaterThan(400);
    expect(cluster.events()).not.toContain("SERVICE_SUBMITTED");
  });
});

describe("what a master says to others", () => {
  it("[SM13] it says again after a restart, and says nothing when all is said", () => {
    const cluster = running(2);
    expect(serviceWork(cluster.service, { master: MASTER, domain: "" })).toEqual([]);
    const copy = new Service();
    cluster.service.tables.forEach((table, index) => {
      for (const row of table.values()) copy.tables[index]?.load(JSON.stringify(row));
    });
    copy.restore();
    const work = serviceWork(copy, { master: MASTER, domain: "" });
    expect(work).toMatchObject([{ type: "allocate", request: { asks: [{ count: 0 }] } }]);
  });

  it("[SM13] an answer to an earlier run's question is not taken", () => {
    const cluster = running(1);
    const { service, nowMs } = cluster;
    service.newsWaiting = true;
    const work = serviceWork(service, { master: MASTER, domain: "" });
    const question = work.find((item) => item.type === "allocate");
    cluster.command((_, now) => stopService(service, now));
    cluster.command((_, now) => startService(service, cluster.submissionId(), SUBMITTER, now));
    const before = cluster.states();
    if (question?.type !== "allocate") throw new Error("nothing was asked");
    const completed = [
      { containerId: cluster.containerOf("hello-0"), exitStatus: 1, diagnostics: "" },
    ];
    const answer = { responseId: 7, allocated: [], completed, pending: [] };
    const none = { preemption: [], updated: [], updateErrors: [] };
    const rest = { availableResources: { memoryMb: 0, vcores: 0 }, clusterNodes: 2, ...none };
    allocated(service, question.request, { ...answer, ...rest }, nowMs);
    expect(cluster.states()).toEqual(before);
  });

  it("[SM13] a late answer to an earlier run's registration does not register the present one", () => {
    const cluster = running(1);
    const before = cluster.service.row?.attemptId ?? "";
    cluster.command((service, nowMs) => stopService(service, nowMs));
    startService(cluster.service, cluster.submissionId(), SUBMITTER, cluster.nowMs);
    const application = {
      applicationId: "application_1_0002",
      attemptId: "appattempt_1_0002_000001",
    };
    applicationSubmitted(cluster.service, "submission-2", application);
    masterRegistered(cluster.service, before, cluster.nowMs);
    expect(cluster.service.row?.registered).toBe(false);
    masterRegistered(cluster.service, application.attemptId, cluster.nowMs);
    expect(cluster.service.row?.registered).toBe(true);
  });

  it("[SM14] a record whose publication was not confirmed is deleted in the end", () => {
    const cluster = running(1);
    const path = [...cluster.service.published.values()].map((row) => row.path).sort();
    expect(path).toHaveLength(2);
    flex(cluster, 2);
    // The registry's answer to the last publication got lost, so that nobody knows what it holds.
    const lost = [...cluster.service.published.values()].map((row) => ({ ...row, body: "" }));
    for (const row of lost) cluster.service.published.put(row);
    stopService(cluster.service, cluster.nowMs);
    const changes = registryChanges(cluster.service);
    expect(changes.map(({ op }) => op)).toEqual(["delete", "delete", "delete"]);
    recordsPublished(cluster.service, changes);
    expect(registryChanges(cluster.service)).toEqual([]);
  });

  it("[SM14] a record is noted before it is sent", () => {
    const cluster = running(1);
    const { service, nowMs } = cluster;
    for (const { path } of [...service.published.values()]) service.published.delete(path);
    settle(service, nowMs);
    const sent = registryChanges(service).map(({ path }) => path);
    expect(sent).toHaveLength(2);
    expect(sent.map((path) => service.published.get(path)?.body)).toEqual(["", ""]);
  });
});
