/** What happens by itself when its time has come: lifetimes, restarts, expiries. */
import { runDurableObjectAlarm } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ALLOCATION_EXPIRY_MS } from "../../src/core/cluster/cluster.ts";
import { type EdgeCluster, openCluster } from "./support/edge-cluster.ts";
import type { TestAgent } from "./support/test-agent.ts";
import { isDestroyed, isStable } from "./support/thread.ts";
import { VirtualClock } from "./support/virtual-clock.ts";

let cluster: EdgeCluster;
let clock: VirtualClock;

beforeEach(async () => {
  clock = new VirtualClock();
  cluster = await openCluster();
});

afterEach(() => {
  cluster.dispose();
  vi.restoreAllMocks();
});

/** Ends the running container as a program that fails at once. */
async function fail(agent: TestAgent): Promise<void> {
  const [containerId = ""] = agent.running();
  agent.complete(containerId, 1, "it crashed");
  await cluster.until("the end to be acknowledged", () => !agent.statuses.has(containerId));
}

describe.each(["awake", "asleep"])("a master that is %s", (how) => {
  const sleep = async () => {
    if (how === "asleep") await cluster.evict("ServiceMaster");
  };

  it("[AL1] destroys its service when the lifetime is over", async () => {
    const agent = await cluster.startNode("a:8041");
    await cluster.launch({}, { lifetime: 60 });
    await isStable(cluster, agent, 1);
    await sleep();
    await clock.advance(cluster, 50_000);
    expect((await cluster.view()).lifetime).toBeLessThanOrEqual(10);
    await sleep();
    await clock.advance(cluster, 10_000);
    await isDestroyed(cluster, agent);
    expect(agent.stopped).toHaveLength(1);
  });

  it("[NM168] goes on with a restart in place, and hears how it went", async () => {
    const agent = await cluster.startNode("a:8041");
    await cluster.launch();
    await isStable(cluster, agent, 1);
    const [containerId = ""] = agent.running();
    const path = `/ws/v1/cluster/containers/${containerId}/restart`;
    const restart = () => cluster.call(path, { method: "POST" });
    const accepted = await restart();
    expect(accepted).toEqual({ containerId, instance: "hello-0", launchVersion: 2 });
    await sleep();
    expect(await restart()).toEqual(accepted);
    const { revision = 0, launch } = await cluster.until("the order", () =>
      agent.received
        .flatMap((message) => (message.type === "desired" ? message.put : []))
        .filter((entry) => entry.state === "RUN")
        .find((entry) => entry.launch?.version === 2),
    );
    expect(launch?.instance).toBe("hello-0");
    await sleep();
    const before = agent.statuses.get(containerId);
    if (before) agent.report({ ...before, launchVersion: 2, revision });
    await cluster.until("the restart to be told", async () =>
      (await cluster.events()).some(({ type }) => type === "INSTANCE_RESTARTED"),
    );
    expect(agent.running()).toEqual([containerId]);
  });

  it("[AL2] starts an instance that fails again and again after a pause", async () => {
    const agent = await cluster.startNode("a:8041");
    await cluster.launch();
    await isStable(cluster, agent, 1);
    await fail(agent);
    await cluster.until("the first restart, at once", () => agent.launches.length === 2);
    await isStable(cluster, agent, 1);
    await fail(agent);
    await cluster.until("the second restart to be held back", async () => {
      return /hello-0 is restarted in \d+ s after: it crashed/.test(
        (await cluster.view()).diagnostics,
      );
    });
    expect(agent.launches).toHaveLength(2);
    await sleep();
    await clock.advance(cluster, 1_000);
    await cluster.until("the second restart", () => agent.launches.length === 3);
    await isStable(cluster, agent, 1);
  });
});

describe.each(["awake", "asleep"])("a ResourceManager that is %s", (how) => {
  it("[AL3] takes back a container that is never seen on its node", async () => {
    const agent = await cluster.startNode("a:8041", { launch: "by-test" });
    await cluster.launch();
    await cluster.until("the launch", () => agent.launches.length === 1);
    const [first] = agent.launches;
    await cluster.until("the hand-over", async () => {
      const instances = await cluster.rows<{ state: string }>("ServiceMaster", "instances");
      return instances[0]?.state === "LAUNCHING";
    });
    if (how === "asleep") await cluster.evict("ResourceManager");
    clock.jump(ALLOCATION_EXPIRY_MS);
    expect(await runDurableObjectAlarm(cluster.stub("ResourceManager"))).toBe(true);
    await cluster.until("the order to end it", () => agent.stopped.length === 1);
    expect(agent.stopped).toEqual([first?.containerId]);
    await cluster.until("another one", () => agent.launches.length === 2);
    agent.run(agent.launches[1]?.containerId ?? "");
    await isStable(cluster, agent, 1);
  });
});
