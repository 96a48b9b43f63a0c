/** A service that goes over to another version while it runs, on the workbench of harness.ts. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { allocate } from "../../src/core/cluster/application-master.ts";
import {
  destroyService,
  flexService,
  nextDeadlineMs,
  settle,
  startService,
  stopService,
} from "../../src/core/service/lifecycle.ts";
import { updateHandedOver } from "../../src/core/service/reinitialization.ts";
import { restartContainer } from "../../src/core/service/restart.ts";
import { Service } from "../../src/core/service/state.ts";
import {
  cancelUpgrade,
  initiateUpgrade,
  planServiceUpgrade,
  upgradeInstances,
} from "../../src/core/service/upgrade.ts";
import { allocateRequest, askAnew, serviceWork } from "../../src/core/service/work.ts";
import type { Reply } from "../../src/shared/errors.ts";
import type { UpgradeMode } from "../../src/shared/protocol/service.ts";
import { type Harness, harness, MASTER } from "../support/harness.ts";
import { component, defined, findingsOf, SUBMITTER, yarnfile } from "../support/yarnfile.ts";

const V1 = {
  version: "1",
  components: [component({ launch_command: "old", number_of_containers: 2 })],
};
const V2 = {
  version: "2",
  components: [component({ launch_command: "new", number_of_containers: 2 })],
};

function running(v1: Readonly<Record<string, unknown>> = V1): Harness {
  const cluster = harness();
  cluster.node("a");
  cluster.node("b");
  cluster.create(v1);
  return cluster;
}

const initiate = (
  cluster: Harness,
  mode: UpgradeMode = "UPGRADING",
  v2: Readonly<Record<string, unknown>> = V2,
) =>
  cluster.command((service, nowMs) => initiateUpgrade(service, mode, defined(yarnfile(v2)), nowMs));

const upgrade = (cluster: Harness, ...instances: readonly string[]) =>
  cluster.command((service, nowMs) =>
    upgradeInstances(service, { components: [], instances }, nowMs),
  );

const upgradeAll = (cluster: Harness, name = "hello") =>
  cluster.command((service, nowMs) =>
    upgradeInstances(service, { components: [name], instances: [] }, nowMs),
  );

const finalize = (cluster: Harness) =>
  cluster.command((service, nowMs) =>
    startService(service, cluster.submissionId(), SUBMITTER, nowMs),
  );

const cancel = (cluster: Harness) =>
  cluster.command((service, nowMs) => cancelUpgrade(service, nowMs));

const commandOf = (cluster: Harness, instance: string) => cluster.launchOf(instance)?.commands[0];

const commands = (cluster: Harness) =>
  Object.fromEntries(Object.keys(cluster.states()).map((name) => [name, commandOf(cluster, name)]));

const shown = (cluster: Harness, name = "hello") => {
  const found = cluster.view().components.find((each) => each.name === name);
  return {
    component: found?.state,
    containers: Object.fromEntries(
      (found?.containers ?? []).map((each) => [
        each.component_instance_name,
        `${each.state} ${each.version}`,
      ]),
    ),
  };
};

/** Its new process fails after a while, so its node takes the launch before again. */
function rollBack(cluster: Harness, instance: string): void {
  const revision = cluster.service.instances.get(instance)?.container?.settledRevision ?? 0;
  const diagnostics = "Container re-initialization rolled back: exit code 3";
  cluster.report(instance, { revision, launchVersion: undefined, diagnostics });
}

const NOT_POSSIBLE = { ok: false, error: { code: "FAILED_PRECONDITION" } };

describe("an upgrade", () => {
  it("[UP1] changes nothing by itself; what it concerns needs it", () => {
    const cluster = running();
    expect(initiate(cluster)).toMatchObject({
      ok: true,
      value: { from: "1", to: "2", components: [{ name: "hello", changes: ["launch_command"] }] },
    });
    expect(cluster.view()).toMatchObject({
      state: "UPGRADING",
      version: "1",
      diagnostics: "is upgraded to version 2",
    });
    expect(shown(cluster)).toEqual({
      component: "NEEDS_UPGRADE",
      containers: { "hello-0": "NEEDS_UPGRADE 1", "hello-1": "NEEDS_UPGRADE 1" },
    });
    expect(commands(cluster)).toEqual({ "hello-0": "old", "hello-1": "old" });
  });

  it("[UP2] takes place in the container that there is, for the instances that are named", () => {
    const cluster = running();
    const before = cluster.containerOf("hello-0");
    initiate(cluster);
    expect(upgrade(cluster, "hello-0")).toEqual({ ok: true, value: ["hello-0"] });
    expect(cluster.containerOf("hello-0")).toBe(before);
    expect(commands(cluster)).toEqual({ "hello-0": "new", "hello-1": "old" });
    expect(shown(cluster)).toEqual({
      component: "NEEDS_UPGRADE",
      containers: { "hello-0": "READY 2", "hello-1": "NEEDS_UPGRADE 1" },
    });
    expect(cluster.isPending("hello-0")).toBe(true);
  });

  it("[UP2] that is asked for twice, or of what is upgraded, is made once", () => {
    const cluster = running();
    initiate(cluster);
    initiate(cluster);
    upgradeAll(cluster);
    upgradeAll(cluster);
    upgrade(cluster, "hello-1");
    const types = cluster.events();
    expect(types.filter((type) => type === "UPGRADE_INITIATED")).toHaveLength(1);
    expect(types.filter((type) => type === "INSTANCE_UPGRADED")).toHaveLength(2);
    expect(cluster.service.instances.get("hello-1")?.container?.launchVersion).toBe(2);
  });

  it("[UP2] counts an instance as upgraded when it is ready, not before", () => {
    const cluster = running();
    initiate(cluster);
    cluster.holdReadiness = true;
    upgradeAll(cluster);
    expect(shown(cluster)).toMatchObject({
      component: "UPGRADING",
      containers: { "hello-0": "UPGRADING 2" },
    });
    expect(finalize(cluster)).toMatchObject(NOT_POSSIBLE);
    cluster.holdReadiness = false;
    cluster.setReady("hello-0", true);
    cluster.setReady("hello-1", true);
    expect(shown(cluster)).toMatchObject({
      component: "STABLE",
      containers: { "hello-0": "READY 2" },
    });
  });

  it("[UP3] is final when it is finalized, and its nodes forget the version before", () => {
    const cluster = running();
    const containers = ["hello-0", "hello-1"].map((name) => cluster.containerOf(name));
    initiate(cluster);
    upgradeAll(cluster);
    expect(finalize(cluster)).toEqual({ ok: true });
    expect(cluster.view()).toMatchObject({ state: "STABLE", version: "2", diagnostics: "" });
    expect(cluster.isPending("hello-0")).toBe(false);
    expect(["hello-0", "hello-1"].map((name) => cluster.containerOf(name))).toEqual(containers);
    expect(cluster.service.instances.get("hello-0")).not.toHaveProperty("upgrade");
    expect(cluster.service.withReInitialization()).toEqual([]);
    cluster.exit("hello-0", 1);
    expect(commands(cluster)).toEqual({ "hello-0": "new", "hello-1": "new" });
  });

  it("[UP3] is not final as long as an instance runs the version before, and says which", () => {
    const cluster = running();
    initiate(cluster);
    upgrade(cluster, "hello-0");
    expect(finalize(cluster)).toMatchObject({
      ok: false,
      error: {
        code: "FAILED_PRECONDITION",
        message: expect.stringContaining("hello-1 is NEEDS_UPGRADE"),
      },
    });
    expect(cluster.view().state).toBe("UPGRADING");
  });

  it("[UP4] that is cancelled is taken back in place, and may be begun again", () => {
    const cluster = running();
    const before = cluster.containerOf("hello-0");
    initiate(cluster);
    upgrade(cluster, "hello-0");
    expect(cancel(cluster)).toEqual({ ok: true });
    expect(cluster.view()).toMatchObject({ state: "STABLE", version: "1" });
    expect(commands(cluster)).toEqual({ "hello-0": "old", "hello-1": "old" });
    expect(cluster.containerOf("hello-0")).toBe(before);
    expect(cluster.service.upgrade).toBeUndefined();
    expect(cluster.events()).toContain("INSTANCE_ROLLED_BACK");
    initiate(cluster);
    upgradeAll(cluster);
    finalize(cluster);
    expect(commands(cluster)).toEqual({ "hello-0": "new", "hello-1": "new" });
    expect(cluster.containerOf("hello-0")).toBe(before);
  });

  it("[UP4] that is cancelled in the middle waits for the node, then takes it back", () => {
    const cluster = running();
    initiate(cluster);
    cluster.updates = "held";
    upgrade(cluster, "hello-0");
    cancel(cluster);
    expect(cluster.view().state).toBe("CANCEL_UPGRADING");
    expect(cancel(cluster)).toEqual({ ok: true });
    expect(initiate(cluster)).toMatchObject(NOT_POSSIBLE);
    cluster.updates = "done";
    cluster.node("a");
    cluster.node("b");
    expect(commands(cluster)).toEqual({ "hello-0": "old", "hello-1": "old" });
    expect(cluster.view().state).toBe("STABLE");
  });

  it("[UP5] that does not run on a node is taken back there, and may be tried again", () => {
    const cluster = running();
    const before = cluster.containerOf("hello-0");
    initiate(cluster);
    cluster.updates = "broken";
    upgrade(cluster, "hello-0");
    expect(cluster.view().components[0]?.containers[0]).toMatchObject({
      id: before,
      state: "FAILED_UPGRADE",
      version: "1",
      diagnostics: expect.stringContaining("exit code 1"),
    });
    expect(cluster.states()["hello-0"]).toBe("READY");
    expect(commandOf(cluster, "hello-0")).toBe("old");
    expect(finalize(cluster)).toMatchObject(NOT_POSSIBLE);
    cluster.updates = "done";
    upgradeAll(cluster);
    expect(finalize(cluster)).toEqual({ ok: true });
    expect(cluster.containerOf("hello-0")).toBe(before);
  });

  it("[UP5] that runs for a while and then fails is taken back all the same", () => {
    const cluster = running();
    initiate(cluster);
    upgradeAll(cluster);
    rollBack(cluster, "hello-0");
    expect(shown(cluster).containers).toEqual({
      "hello-0": "FAILED_UPGRADE 1",
      "hello-1": "READY 2",
    });
  });

  it("[UP6] starts what dies with the version that it should have", () => {
    const cluster = running();
    initiate(cluster);
    upgrade(cluster, "hello-0");
    cluster.exit("hello-1", 1);
    cluster.exit("hello-0", 0);
    expect(commands(cluster)).toEqual({ "hello-0": "new", "hello-1": "old" });
    expect(shown(cluster).containers["hello-0"]).toBe("READY 2");
    upgradeAll(cluster);
    expect(finalize(cluster)).toEqual({ ok: true });
    expect(cluster.view().version).toBe("2");
  });

  it("[UP6] starts what was on a lost node with the version that it should have", () => {
    const cluster = running();
    initiate(cluster);
    upgradeAll(cluster);
    const nodeId = cluster.service.instances.get("hello-0")?.container?.nodeId ?? "";
    cluster.loseNode(nodeId.slice(0, 1));
    expect(commands(cluster)).toEqual({ "hello-0": "new", "hello-1": "new" });
    expect(finalize(cluster)).toEqual({ ok: true });
  });

  it("[UP6] whose new version ends a container with a failure goes back to the one before", () => {
    const cluster = running();
    initiate(cluster);
    upgrade(cluster, "hello-0");
    cluster.exit("hello-0", 1);
    expect(shown(cluster).containers["hello-0"]).toBe("FAILED_UPGRADE 1");
    expect(commandOf(cluster, "hello-0")).toBe("old");
  });

  it("[UP6] that is cancelled replaces what was started with the new version", () => {
    const cluster = running();
    initiate(cluster);
    upgrade(cluster, "hello-0");
    cluster.exit("hello-0", 0);
    const anew = cluster.containerOf("hello-0");
    cancel(cluster);
    expect(cluster.containerOf("hello-0")).not.toBe(anew);
    expect(commands(cluster)).toEqual({ "hello-0": "old", "hello-1": "old" });
    expect(cluster.view().state).toBe("STABLE");
  });

  it("[UP7] refuses flex and restarts of what is pending, and says why", () => {
    const cluster = running();
    initiate(cluster);
    upgrade(cluster, "hello-0");
    const flex = cluster.command((service, nowMs) =>
      flexService(service, [{ component: "hello", count: 3 }], nowMs),
    );
    expect(flex).toMatchObject(NOT_POSSIBLE);
    const restart = (instance: string) =>
      cluster.command((service, nowMs) =>
        restartContainer(service, cluster.containerOf(instance), nowMs),
      );
    expect(restart("hello-0")).toMatchObject(NOT_POSSIBLE);
    expect(restart("hello-1")).toMatchObject({ ok: true });
    expect(commandOf(cluster, "hello-1")).toBe("old");
  });

  it("[UP7] is over when the service is stopped, which keeps the version before", () => {
    const cluster = running();
    initiate(cluster);
    upgrade(cluster, "hello-0");
    cluster.command((service, nowMs) => stopService(service, nowMs));
    expect(cluster.view()).toMatchObject({ state: "STOPPED", version: "1" });
    expect(cluster.service.upgrade).toBeUndefined();
    cluster.command((service, nowMs) =>
      startService(service, cluster.submissionId(), SUBMITTER, nowMs),
    );
    expect(commands(cluster)).toEqual({ "hello-0": "old", "hello-1": "old" });
  });

  it("[UP7] leaves nothing when the service is destroyed in the middle", () => {
    const cluster = running();
    initiate(cluster);
    upgradeAll(cluster);
    cluster.command((service, nowMs) => destroyService(service, "destroyed by user", nowMs));
    expect(cluster.service.tables.map(({ size }) => size)).toEqual(
      cluster.service.tables.map(() => 0),
    );
  });

  it("[UP7] is refused where there is none, or none of it", () => {
    const cluster = running({ ...V1, components: [...V1.components, component({ name: "db" })] });
    expect(cancel(cluster)).toMatchObject(NOT_POSSIBLE);
    expect(upgrade(cluster, "hello-0")).toMatchObject(NOT_POSSIBLE);
    initiate(cluster, "UPGRADING", {
      ...V2,
      components: [...V2.components, component({ name: "db" })],
    });
    expect(upgrade(cluster, "hello-9")).toMatchObject({ error: { code: "NOT_FOUND" } });
    expect(upgradeAll(cluster, "cache")).toMatchObject({ error: { code: "NOT_FOUND" } });
    expect(upgradeAll(cluster, "db")).toMatchObject(NOT_POSSIBLE);
    expect(initiate(cluster, "EXPRESS_UPGRADING")).toMatchObject({ ok: false });
    expect(shown(cluster, "db").component).toBe("STABLE");
  });
});

describe("an upgrade by itself", () => {
  const of = (version: string, command: string) => ({
    version,
    components: [
      component({ name: "web", dependencies: ["db"], launch_command: command }),
      component({ name: "db", launch_command: command }),
      component({ name: "cache", launch_command: "same" }),
    ],
  });

  it("[UP8] is final as soon as all that changes is ready with the new version", () => {
    const cluster = running();
    initiate(cluster, "UPGRADING_AUTO_FINALIZE");
    upgrade(cluster, "hello-0");
    expect(cluster.view().state).toBe("UPGRADING_AUTO_FINALIZE");
    upgrade(cluster, "hello-1");
    expect(nextDeadlineMs(cluster.service)).toBe(cluster.nowMs + 5_000);
    cluster.advance(5_000);
    expect(cluster.view()).toMatchObject({ state: "STABLE", version: "2" });
    expect(cluster.isPending("hello-0")).toBe(false);
    expect(nextDeadlineMs(cluster.service)).toBeNull();
  });

  it("[UP8] is not final while a new process may still fail at once", () => {
    const cluster = running();
    initiate(cluster, "EXPRESS_UPGRADING");
    cluster.advance(4_999);
    expect(cluster.view().state).toBe("EXPRESS_UPGRADING");
    rollBack(cluster, "hello-0");
    cluster.advance(60_000);
    expect(cluster.view().state).toBe("EXPRESS_UPGRADING");
    expect(shown(cluster).containers).toEqual({
      "hello-0": "FAILED_UPGRADE 1",
      "hello-1": "READY 2",
    });
    expect(nextDeadlineMs(cluster.service)).toBeNull();
  });

  it("[UP8] is final at once where a readiness check has answered", () => {
    const check = { readiness_check: { type: "PORT", properties: { port: "80" } } };
    const of = (version: string) => ({
      version,
      components: [component({ ...check, launch_command: version })],
    });
    const cluster = running(of("1"));
    initiate(cluster, "EXPRESS_UPGRADING", of("2"));
    expect(cluster.view()).toMatchObject({ state: "STABLE", version: "2" });
  });

  it("[UP9] goes through the components in the order of their dependencies", () => {
    const cluster = running(of("1", "old"));
    cluster.updates = "held";
    initiate(cluster, "EXPRESS_UPGRADING", of("2", "new"));
    expect(shown(cluster, "db").containers).toEqual({ "db-0": "UPGRADING 1" });
    expect(shown(cluster, "web").containers).toEqual({ "web-0": "NEEDS_UPGRADE 1" });
    cluster.updates = "done";
    cluster.node("a");
    cluster.node("b");
    expect(commands(cluster)).toEqual({ "cache-0": "same", "db-0": "new", "web-0": "old" });
    cluster.advance(5_000);
    expect(commands(cluster)).toEqual({ "cache-0": "same", "db-0": "new", "web-0": "new" });
    cluster.advance(5_000);
    expect(cluster.view()).toMatchObject({ state: "STABLE", version: "2" });
    expect(cluster.service.instances.get("cache-0")?.container).not.toHaveProperty("launchVersion");
  });

  it("[UP9] stops at what fails, until it is tried again or cancelled", () => {
    const cluster = running(of("1", "old"));
    cluster.updates = "broken";
    initiate(cluster, "EXPRESS_UPGRADING", of("2", "new"));
    expect(cluster.view().state).toBe("EXPRESS_UPGRADING");
    expect(shown(cluster, "db").containers).toEqual({ "db-0": "FAILED_UPGRADE 1" });
    expect(commands(cluster)).toEqual({ "cache-0": "same", "db-0": "old", "web-0": "old" });
    cluster.updates = "done";
    upgradeAll(cluster, "db");
    cluster.advance(5_000);
    cluster.advance(5_000);
    expect(cluster.view()).toMatchObject({ state: "STABLE", version: "2" });
  });
});

describe("another resource", () => {
  const of = (version: string, memory: number, cpus = 1) => ({
    version,
    components: [
      component({ launch_command: version, resource: { memory: String(memory), cpus } }),
    ],
  });
  const booked = (cluster: Harness) =>
    cluster.cluster.containers.get(cluster.containerOf("hello-0"))?.resource;

  it("[UP14] makes the container larger before its process is replaced", () => {
    const cluster = running(of("1", 256));
    const before = cluster.containerOf("hello-0");
    cluster.updates = "held";
    initiate(cluster, "UPGRADING", of("2", 1_024, 2));
    upgradeAll(cluster);
    expect(booked(cluster)).toEqual({ memoryMb: 1_024, vcores: 2 });
    expect(commandOf(cluster, "hello-0")).toBe("1");
    expect(finalize(cluster)).toMatchObject(NOT_POSSIBLE);
    cluster.updates = "done";
    cluster.node("a");
    cluster.node("b");
    expect(commandOf(cluster, "hello-0")).toBe("2");
    expect(finalize(cluster)).toEqual({ ok: true });
    expect(booked(cluster)).toEqual({ memoryMb: 1_024, vcores: 2 });
    expect(cluster.containerOf("hello-0")).toBe(before);
    cluster.exit("hello-0", 1);
    expect(booked(cluster)).toEqual({ memoryMb: 1_024, vcores: 2 });
  });

  it("[UP14] makes the container smaller only when nothing can need the larger one again", () => {
    const cluster = running(of("1", 1_024));
    initiate(cluster, "UPGRADING", of("2", 256, 3));
    upgradeAll(cluster);
    expect(booked(cluster)).toEqual({ memoryMb: 1_024, vcores: 3 });
    finalize(cluster);
    expect(booked(cluster)).toEqual({ memoryMb: 256, vcores: 3 });
    expect(cluster.service.withResize()).toEqual([]);
  });

  it("[UP14] is given back when the upgrade is cancelled", () => {
    const cluster = running(of("1", 256));
    initiate(cluster, "UPGRADING", of("2", 1_024));
    upgradeAll(cluster);
    cancel(cluster);
    expect(booked(cluster)).toEqual({ memoryMb: 256, vcores: 1 });
    expect(commandOf(cluster, "hello-0")).toBe("1");
    expect(cluster.service.withResize()).toEqual([]);
  });

  it("[UP14] for which the node has no room fails the upgrade there, and says so", () => {
    const cluster = running(of("1", 256));
    initiate(cluster, "UPGRADING", of("2", 8_192));
    upgradeAll(cluster);
    expect(cluster.view().components[0]?.containers[0]).toMatchObject({
      state: "FAILED_UPGRADE",
      diagnostics: expect.stringContaining("too little room"),
    });
    expect(booked(cluster)).toEqual({ memoryMb: 256, vcores: 1 });
    expect(cluster.states()["hello-0"]).toBe("READY");
  });

  it("[UP14] is asked for once, also when the answer is lost", () => {
    const cluster = running(of("1", 256));
    const next = defined(yarnfile(of("2", 1_024)));
    initiateUpgrade(cluster.service, "EXPRESS_UPGRADING", next, cluster.nowMs);
    settle(cluster.service, cluster.nowMs);
    const row = cluster.service.row;
    const request = row && allocateRequest(cluster.service, row);
    if (!row?.attemptId || !request) throw new Error("it does not run");
    expect(request.updates).toHaveLength(1);
    allocate(cluster.cluster, row.attemptId, request, cluster.nowMs);
    askAnew(cluster.service);
    cluster.run();
    expect(cluster.cluster.containers.get(cluster.containerOf("hello-0"))).toMatchObject({
      resource: { memoryMb: 1_024, vcores: 1 },
      version: 1,
    });
    expect(commandOf(cluster, "hello-0")).toBe("2");
  });
});

describe("the new definition", () => {
  const plan = (cluster: Harness, v2: Readonly<Record<string, unknown>>) =>
    planServiceUpgrade(cluster.service, defined(yarnfile(v2)));

  it("[UP10] is compared with the one that runs, field by field", () => {
    const cluster = running({
      version: "1",
      components: [component(), component({ name: "db" }), component({ name: "cache" })],
    });
    const v2 = {
      version: "2",
      configuration: { env: {} },
      components: [
        component({ name: "cache" }),
        component({ configuration: { env: { A: "1" } }, number_of_containers: 2 }),
        component({ name: "db", number_of_containers: 3 }),
      ],
    };
    expect(plan(cluster, v2)).toEqual({
      ok: true,
      value: {
        from: "1",
        to: "2",
        components: [
          {
            name: "hello",
            changes: ["configuration"],
            containers: 1,
            numberOfContainers: { from: 1, to: 2 },
          },
          { name: "db", changes: [], containers: 0, numberOfContainers: { from: 1, to: 3 } },
        ],
      },
    });
    expect(cluster.service.upgrade).toBeUndefined();
  });

  it("[UP10] sets the numbers that it changes when it is final, and no others", () => {
    const cluster = running({ version: "1", components: [component(), component({ name: "db" })] });
    cluster.command((service, nowMs) =>
      flexService(service, [{ component: "hello", count: 2 }], nowMs),
    );
    const v2 = [component(), component({ name: "db", number_of_containers: 2 })];
    initiate(cluster, "EXPRESS_UPGRADING", { version: "2", components: v2 });
    cluster.advance(5_000);
    expect(cluster.view().version).toBe("2");
    expect(Object.keys(cluster.states())).toEqual(["db-0", "db-1", "hello-0", "hello-1"]);
  });

  it.each([
    ["the same version", { ...V2, version: "1" }, "version"],
    ["another queue", { ...V2, queue: "other" }, "queue"],
    ["another lifetime", { ...V2, lifetime: 60 }, "lifetime"],
    [
      "one more component",
      { ...V2, components: [...V2.components, component({ name: "db" })] },
      "components[1].name",
    ],
    ["another component", { ...V2, components: [component({ name: "db" })] }, "components[0].name"],
    [
      "another restart policy",
      { ...V2, components: [component({ restart_policy: "NEVER" })] },
      "components[0].restart_policy",
    ],
    [
      "an image instead of a process",
      { ...V2, components: [component({ artifact: { id: "nginx:1", type: "DOCKER" } })] },
      "components[0].artifact",
    ],
    [
      "another placement",
      { ...V2, components: [component({ placement_policy: { label: "gpu" } })] },
      "components[0].placement_policy",
    ],
    [
      "other ACLs",
      { ...V2, configuration: { properties: { "yarn.service.acl.view-app": "bob" } } },
      "configuration.properties",
    ],
  ])("[UP11] with %s is refused, and nothing happens", (_, v2, path) => {
    const cluster = running();
    const reply = initiate(cluster, "UPGRADING", v2);
    expect(findingsOf(reply).map((finding) => finding.path)).toContain(path);
    expect(cluster.view()).toMatchObject({ state: "STABLE", version: "1" });
    expect(initiate(cluster).ok).toBe(true);
  });

  it("[UP11] is refused for work that is meant to end, and for what does not run", () => {
    const cluster = running({
      version: "1",
      components: [component(), component({ name: "job", restart_policy: "NEVER" })],
    });
    const v2 = {
      version: "2",
      components: [
        component(),
        component({ name: "job", restart_policy: "NEVER", launch_command: "x" }),
      ],
    };
    expect(findingsOf(initiate(cluster, "UPGRADING", v2))[0]?.message).toMatch(
      /restart_policy NEVER/,
    );
    cluster.command((service, nowMs) => stopService(service, nowMs));
    expect(initiate(cluster, "UPGRADING", v2)).toMatchObject(NOT_POSSIBLE);
  });
});

describe("an upgrade and its rows", () => {
  it("[UP12] goes on where it was after its master was lost", () => {
    const cluster = running();
    initiateUpgrade(cluster.service, "EXPRESS_UPGRADING", defined(yarnfile(V2)), cluster.nowMs);
    settle(cluster.service, cluster.nowMs);
    const updates = (service: Service) =>
      serviceWork(service, { master: MASTER, domain: "example.com" }).flatMap((item) =>
        item.type === "update" ? item.requests : [],
      );
    const said = updates(cluster.service);
    expect(said).toMatchObject([
      { reInitialization: "PENDING", launch: { version: 2, commands: ["new"] } },
      { reInitialization: "PENDING", launch: { version: 2, commands: ["new"] } },
    ]);
    const loaded = new Service();
    for (const [at, table] of cluster.service.tables.entries()) {
      for (const row of table.values()) loaded.tables[at]?.put(row as never);
    }
    loaded.restore();
    expect(updates(loaded)).toEqual(said);
    for (const { containerId } of said) {
      updateHandedOver(loaded, { containerId, revision: 1 });
    }
    expect(updates(loaded)).toEqual([]);
  });

  it("[UP12] comes to one version and one process, whatever happens on the way", () => {
    const memory = fc.constantFrom("256", "128", "1024", "8192");
    const step = fc.constantFrom(
      "upgrade-0",
      "upgrade-1",
      "all",
      "fail-0",
      "end-1",
      "kill-0",
      "broken",
      "held",
      "done",
      "refused",
      "lose",
      "cancel",
      "finalize",
      "express",
      "initiate",
      "restart-1",
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 25 }), memory, (steps, megabytes) => {
        const [hello] = V2.components;
        const resource = { cpus: 1, memory: megabytes };
        const v2 = { ...V2, components: [{ ...hello, resource }] };
        const cluster = running();
        cluster.node("c");
        for (const each of steps) take(cluster, each, v2);
        cluster.updates = "done";
        for (const name of ["a", "b", "c"]) {
          cluster.deafNodes.delete(name);
          cluster.node(name);
        }
        cluster.advance(3_600_000);
        cancel(cluster);
        cluster.advance(3_600_000);
        const { version, state } = cluster.view();
        expect(["1", "2"]).toContain(version);
        expect(state).toBe("STABLE");
        const wanted = version === "1" ? "old" : "new";
        expect(commands(cluster)).toEqual({ "hello-0": wanted, "hello-1": wanted });
        expect(cluster.running()).toHaveLength(2);
        expect(cluster.service.withReInitialization()).toEqual([]);
        expect(cluster.service.withResize()).toEqual([]);
        const memoryMb = version === "1" ? 256 : Number(megabytes);
        for (const name of ["hello-0", "hello-1"]) {
          const booked = cluster.cluster.containers.get(cluster.containerOf(name))?.resource;
          expect(booked).toEqual({ memoryMb, vcores: 1 });
        }
        expect(["hello-0", "hello-1"].map((name) => cluster.isPending(name))).toEqual([
          false,
          false,
        ]);
      }),
      { numRuns: 150 },
    );
  });
});

/** Any command may be refused; what it leaves must be sound all the same. */
function take(
  cluster: Harness,
  step: string,
  v2: Readonly<Record<string, unknown>>,
): Reply<unknown> | undefined {
  const lives = (name: string) => ["STARTED", "READY"].includes(cluster.states()[name] ?? "");
  switch (step) {
    case "initiate":
      return initiate(cluster, "UPGRADING", v2);
    case "express":
      return initiate(cluster, "EXPRESS_UPGRADING", v2);
    case "upgrade-0":
      return upgrade(cluster, "hello-0");
    case "upgrade-1":
      return upgrade(cluster, "hello-1");
    case "all":
      return upgradeAll(cluster);
    case "cancel":
      return cancel(cluster);
    case "finalize":
      return finalize(cluster);
    case "restart-1":
      if (!lives("hello-1")) return undefined;
      return cluster.command((service, nowMs) =>
        restartContainer(service, cluster.containerOf("hello-1"), nowMs),
      );
    case "fail-0":
      if (lives("hello-0")) cluster.exit("hello-0", 1);
      return undefined;
    case "end-1":
      if (lives("hello-1")) cluster.exit("hello-1", 0);
      return undefined;
    case "kill-0":
      if (lives("hello-0")) cluster.exit("hello-0", -102);
      return undefined;
    case "lose": {
      const nodeId = cluster.service.instances.get("hello-0")?.container?.nodeId ?? "";
      if (nodeId !== "" && !cluster.deafNodes.has(nodeId.slice(0, 1))) {
        cluster.loseNode(nodeId.slice(0, 1));
      }
      return undefined;
    }
    default:
      cluster.updates = step as Harness["updates"];
      return undefined;
  }
}
