/** The main job through all objects, undisturbed, and with each of them lost after every command. */
import { runDurableObjectAlarm } from "cloudflare:test";
import { afterEach, describe, expect, it } from "vitest";
import { EXIT } from "../../src/shared/container.ts";
import { EdgeCluster, OBJECTS, type ObjectName, openCluster } from "./support/edge-cluster.ts";
import { isDestroyed, isStable, isStopped, liveThroughAll } from "./support/thread.ts";

let cluster: EdgeCluster;

afterEach(() => cluster.dispose());

describe("a service on a cluster", () => {
  it("[TH1] is launched on a node that has joined, with a token that the node can verify", async () => {
    cluster = await openCluster();
    const agent = await cluster.startNode("worker1:8041");
    await cluster.launch();
    const { components } = await cluster.serviceIs("STABLE");
    const [container] = components[0]?.containers ?? [];
    expect(agent.launches).toEqual([
      {
        containerId: container?.id,
        instance: "hello-0",
        claims: expect.objectContaining({
          aud: "container",
          containerId: container?.id,
          nodeId: "worker1:8041",
          user: "ann",
          resource: { memoryMb: 256, vcores: 1 },
        }),
      },
    ]);
    expect(container).toMatchObject({ state: "READY", node_id: "worker1:8041", ip: "127.0.0.1" });
  });

  it("[TH2] is found in the registry as long as it runs, with its containers", async () => {
    cluster = await openCluster();
    const agent = await cluster.startNode("worker1:8041");
    await cluster.launch();
    await isStable(cluster, agent, 1);
    const [element] = await cluster.registered();
    const path = `/registry/v1/users/ann/yarn-service/hello-world/components/${element}`;
    expect(await cluster.call(path)).toMatchObject({
      record: {
        description: "hello-0",
        external: [{ addressType: "uri", addresses: [{ uri: "http://127.0.0.1:33391" }] }],
        "yarn:id": agent.running()[0],
      },
    });
    await cluster.update({ state: "STOPPED" });
    await isStopped(cluster, agent);
    // The edge may show for a second what was there.
    const anew = { headers: { "cache-control": "no-cache" } };
    expect((await cluster.fetch(path, anew)).status).toBe(404);
  });

  it("[TH3] gets another container for one that failed", async () => {
    cluster = await openCluster();
    const agent = await cluster.startNode("worker1:8041");
    await cluster.launch();
    await isStable(cluster, agent, 1);
    const [first = ""] = agent.running();
    agent.complete(first, 1, "it crashed");
    await cluster.until("the replacement", () => agent.launches.length === 2);
    await isStable(cluster, agent, 1);
    expect(agent.running()).not.toContain(first);
    const ended = (await cluster.events()).find(({ type }) => type === "CONTAINER_COMPLETED");
    expect(ended?.message).toBe("hello-0 ended with exit status 1: it crashed");
  });

  it("[TH4] is stopped by ending its containers, whose resources are free afterwards", async () => {
    cluster = await openCluster();
    const agent = await cluster.startNode("worker1:8041");
    await cluster.launch({ number_of_containers: 3 });
    await isStable(cluster, agent, 3);
    const running = agent.running();
    await cluster.update({ state: "STOPPED" });
    await isStopped(cluster, agent);
    expect([...agent.stopped].sort()).toEqual([...running].sort());
    const orders = agent.received.flatMap((message) =>
      message.type === "desired" ? message.put.filter(({ state }) => state === "STOP") : [],
    );
    expect(orders).toHaveLength(3);
    for (const order of orders) {
      expect(order).toMatchObject({ exitStatus: EXIT.KILLED_AFTER_APP_COMPLETION });
    }
    await cluster.until("the node to be empty", async () =>
      (await cluster.nodeList()).every(({ numContainers }) => numContainers === 0),
    );
  });

  it("[TH5] leaves nothing behind when it is destroyed", async () => {
    cluster = await openCluster();
    const agent = await cluster.startNode("worker1:8041");
    await cluster.launch({ number_of_containers: 2 });
    await isStable(cluster, agent, 2);
    await cluster.destroy();
    await isDestroyed(cluster, agent);
    await cluster.launch();
    await isStable(cluster, agent, 1);
  });

  it("[TH6] lives through start, failure, flex, stop, start and destroy", async () => {
    cluster = new EdgeCluster();
    const agent = await liveThroughAll(cluster, async () => undefined);
    expect(agent.closes).toEqual([]);
  });
});

/** An object that has nothing in memory cannot be evicted: nothing is lost then. */
async function evictIfRunning(object: ObjectName, webSockets: "hibernate" | "close") {
  await cluster.evict(object, webSockets).catch((error: unknown) => {
    if (!/not (currently )?running/.test(String(error))) throw error;
  });
}

/** Whoever was about to say something has an alarm set, which comes here without delay. */
async function crashAndWake(objects: readonly ObjectName[]) {
  await Promise.all(objects.map((object) => cluster.crash(object)));
  for (const object of objects) await runDurableObjectAlarm(cluster.stub(object));
}

describe("right after every acknowledged command", () => {
  it.each(OBJECTS)("[SH1] the %s may be evicted, and nothing is different", async (object) => {
    cluster = new EdgeCluster();
    const agent = await liveThroughAll(cluster, () => evictIfRunning(object, "hibernate"));
    expect(agent.closes).toEqual([]);
  });

  it.each(OBJECTS)("[SH1] the %s may crash, and nothing is different", async (object) => {
    cluster = new EdgeCluster();
    await liveThroughAll(cluster, () => crashAndWake([object]));
  });

  it("[SH1] all objects may be evicted at once, and nothing is different", async () => {
    cluster = new EdgeCluster();
    await liveThroughAll(cluster, async () => {
      for (const object of OBJECTS) await evictIfRunning(object, "hibernate");
    });
  });

  it("[SH1] all objects may crash at once, and nothing is different", async () => {
    cluster = new EdgeCluster();
    await liveThroughAll(cluster, () => crashAndWake(OBJECTS));
  });

  it("[SH1] [RT2] the tracker may lose all its connections, and nothing is different", async () => {
    cluster = new EdgeCluster();
    const agent = await liveThroughAll(cluster, () => evictIfRunning("ResourceTracker", "close"));
    expect(agent.closes.length).toBeGreaterThan(3);
  });
});
