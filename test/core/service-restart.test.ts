/** A container that is started anew in place: what its master wants, says, and believes. */
import { describe, expect, it } from "vitest";
import { flexService, stopService } from "../../src/core/service/lifecycle.ts";
import {
  reInitializationsToSay,
  updateHandedOver,
} from "../../src/core/service/reinitialization.ts";
import { restartContainer } from "../../src/core/service/restart.ts";
import { Service } from "../../src/core/service/state.ts";
import { serviceWork } from "../../src/core/service/work.ts";
import { type Harness, harness, MASTER } from "../support/harness.ts";
import { component } from "../support/yarnfile.ts";

function running(): Harness {
  const cluster = harness();
  cluster.node("a");
  cluster.create({ components: [component({ number_of_containers: 2 })] });
  return cluster;
}

const restart = (cluster: Harness, containerId: string) =>
  cluster.command((service, nowMs) => restartContainer(service, containerId, nowMs));

const containerOf = (cluster: Harness, instance = "hello-0") =>
  cluster.service.instances.get(instance)?.container;

const updates = (service: Service) =>
  serviceWork(service, { master: MASTER, domain: "example.com" }).flatMap((item) =>
    item.type === "update" ? item.requests : [],
  );

function reloaded(service: Service): Service {
  const loaded = new Service();
  for (const [at, table] of service.tables.entries()) {
    for (const row of table.values()) loaded.tables[at]?.put(row as never);
  }
  loaded.restore();
  return loaded;
}

describe("restarting a container in place", () => {
  it("[NM168] keeps the container, and runs a launch context of the next version in it", () => {
    const cluster = running();
    const containerId = cluster.containerOf("hello-0");
    expect(restart(cluster, containerId)).toEqual({
      ok: true,
      value: { instance: "hello-0", launchVersion: 2 },
    });
    expect(cluster.containerOf("hello-0")).toBe(containerId);
    expect(containerOf(cluster)).toMatchObject({ launchVersion: 2 });
    expect(containerOf(cluster)).not.toHaveProperty("reInitialization");
    expect(containerOf(cluster, "hello-1")).not.toHaveProperty("launchVersion");
    expect(cluster.states()).toEqual({ "hello-0": "READY", "hello-1": "READY" });
    expect(cluster.events().slice(-2)).toEqual(["INSTANCE_RESTARTING", "INSTANCE_RESTARTED"]);
    restart(cluster, containerId);
    expect(containerOf(cluster)).toMatchObject({ launchVersion: 3 });
  });

  it("[NM168] that is asked for again while it is under way is done once", () => {
    const cluster = running();
    cluster.updates = "held";
    const containerId = cluster.containerOf("hello-0");
    const first = restart(cluster, containerId);
    expect(restart(cluster, containerId)).toEqual(first);
    expect(cluster.events().filter((type) => type === "INSTANCE_RESTARTING")).toHaveLength(1);
    expect(cluster.view().components[0]?.containers[0]?.diagnostics).toBe(
      "is being restarted in place",
    );
  });

  it("[NM168] is said until the node's tracker has it, also after the master was lost", () => {
    const cluster = running();
    const containerId = cluster.containerOf("hello-0");
    restartContainer(cluster.service, containerId, cluster.nowMs);
    const wanted = [{ containerId, launch: { version: 2, instance: "hello-0" } }];
    expect(updates(cluster.service)).toMatchObject(wanted);
    const service = reloaded(cluster.service);
    expect(updates(service)).toMatchObject(wanted);
    updateHandedOver(service, { containerId, revision: 1 });
    expect(updates(service)).toEqual([]);
    expect(reInitializationsToSay(reloaded(service))).toEqual([]);
  });

  it("[NM168] that was said twice, because an answer was lost, is done once", () => {
    const cluster = running();
    const containerId = cluster.containerOf("hello-0");
    restartContainer(cluster.service, containerId, cluster.nowMs);
    cluster.tracker.updateContainers(MASTER, updates(cluster.service));
    cluster.run();
    expect(containerOf(cluster)).toMatchObject({ launchVersion: 2 });
    expect(cluster.events().filter((type) => type === "INSTANCE_RESTARTED")).toHaveLength(1);
    expect(updates(cluster.service)).toEqual([]);
  });

  it("[NM168] that its node refuses is over, with the reason in the timeline", () => {
    const cluster = running();
    cluster.updates = "refused";
    const containerId = cluster.containerOf("hello-0");
    restart(cluster, containerId);
    expect(containerOf(cluster)).not.toHaveProperty("reInitialization");
    expect(containerOf(cluster)?.launchVersion ?? 1).toBe(1);
    expect(cluster.events().at(-1)).toBe("RESTART_REFUSED");
    cluster.updates = "done";
    restart(cluster, containerId);
    expect(containerOf(cluster)).toMatchObject({ launchVersion: 2 });
  });

  it("[NM168] is not thought to be refused while the processes change", () => {
    const cluster = running();
    cluster.updates = "held";
    restart(cluster, cluster.containerOf("hello-0"));
    const underWay = { revision: 1, subState: "REINITIALIZING", ready: false } as const;
    cluster.report("hello-0", underWay);
    expect(containerOf(cluster)).toHaveProperty("reInitialization");
    expect(cluster.states()["hello-0"]).toBe("STARTED");
    cluster.report("hello-0", { revision: 1, subState: "RUNNING", launchVersion: 2 });
    expect(containerOf(cluster)).not.toHaveProperty("reInitialization");
    expect(cluster.states()["hello-0"]).toBe("READY");
  });

  it("[NM168] ends with the container, whose successor is started as usual", () => {
    const cluster = running();
    cluster.updates = "held";
    const containerId = cluster.containerOf("hello-0");
    restart(cluster, containerId);
    cluster.exit("hello-0", 1);
    expect(cluster.containerOf("hello-0")).not.toBe(containerId);
    expect(containerOf(cluster)).not.toHaveProperty("reInitialization");
    expect(updates(cluster.service)).toEqual([]);
  });

  it("[NM168] is refused for what does not run", () => {
    const cluster = running();
    const containerId = cluster.containerOf("hello-1");
    const unknown = "container_e01_1_0001_01_000009";
    expect(restart(cluster, unknown)).toMatchObject({ error: { code: "NOT_FOUND" } });
    cluster.deafNodes.add("a");
    cluster.command((service, nowMs) =>
      flexService(service, [{ component: "hello", count: 1 }], nowMs),
    );
    expect(cluster.states()["hello-1"]).toBe("STOPPING");
    expect(restart(cluster, containerId)).toMatchObject({
      error: { code: "FAILED_PRECONDITION", message: "hello-1 is STOPPING" },
    });
    cluster.command((service, nowMs) => stopService(service, nowMs));
    expect(restart(cluster, containerId)).toMatchObject({ ok: false });
  });
});
