/** Nodes and their connections: who is lost when, and what a node can make others believe. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { TrackedNode } from "../../src/core/cluster/tracker.ts";
import { NODE_EXPIRY_MS, NODE_GRACE_MS } from "../../src/core/cluster/tracker-node.ts";
import { trackerName } from "../../src/durable/names.ts";
import type { ResourceTracker } from "../../src/durable/resource-tracker.ts";
import { EXIT } from "../../src/shared/container.ts";
import { NODE_PROTOCOL_VERSION } from "../../src/shared/protocol/resource-tracker.ts";
import { type EdgeCluster, env, openCluster } from "./support/edge-cluster.ts";
import type { TestAgent } from "./support/test-agent.ts";
import { isStable } from "./support/thread.ts";
import { VirtualClock } from "./support/virtual-clock.ts";

const POLICY_VIOLATION = 1008;
const REPLACED = 4000;
let cluster: EdgeCluster;

beforeEach(async () => {
  cluster = await openCluster();
});

afterEach(() => {
  cluster.dispose();
  vi.restoreAllMocks();
});

async function trackedNode(nodeId: string): Promise<TrackedNode | undefined> {
  const nodes = await cluster.rows<TrackedNode>("ResourceTracker", "nodes");
  return nodes.find(({ facts }) => facts.nodeId === nodeId);
}

const presenceIs = (nodeId: string, presence: TrackedNode["presence"]) =>
  cluster.until(`${nodeId} to be ${presence}`, async () => {
    return (await trackedNode(nodeId))?.presence === presence;
  });

/** A service with one container, and which of the two nodes has it. */
async function serviceOn(first: TestAgent, second: TestAgent) {
  await cluster.launch();
  await cluster.serviceIs("STABLE");
  return first.running().length > 0
    ? { host: first, other: second }
    : { host: second, other: first };
}

describe("a node whose connection breaks", () => {
  it("[RT1] is LOST after the grace period, and its container is replaced elsewhere", async () => {
    const clock = new VirtualClock();
    const nodes = [await cluster.startNode("a:8041"), await cluster.startNode("b:8041")] as const;
    const { host, other } = await serviceOn(...nodes);
    const [lost] = host.running();
    host.disconnect();
    await presenceIs(host.nodeId, "DISCONNECTED");

    await clock.advance(cluster, NODE_GRACE_MS - 1_000);
    await cluster.nodeIs(host.nodeId, "RUNNING");
    expect(other.launches).toEqual([]);

    await clock.advance(cluster, 1_000);
    await cluster.nodeIs(host.nodeId, "LOST");
    await isStable(cluster, other, 1);
    const ended = (await cluster.events()).find(({ type }) => type === "CONTAINER_COMPLETED");
    expect(ended).toMatchObject({ containerId: lost, instance: "hello-0" });
    expect(ended?.message).toContain(`exit status ${EXIT.ABORTED}`);
    expect(ended?.message).toContain("no connection for 10 s");
  });

  it("[RT1] is LOST also when the tracker sleeps meanwhile", async () => {
    const clock = new VirtualClock();
    const nodes = [await cluster.startNode("a:8041"), await cluster.startNode("b:8041")] as const;
    const { host, other } = await serviceOn(...nodes);
    host.disconnect();
    await presenceIs(host.nodeId, "DISCONNECTED");
    await cluster.evict("ResourceTracker");
    await clock.advance(cluster, NODE_GRACE_MS);
    await cluster.nodeIs(host.nodeId, "LOST");
    await isStable(cluster, other, 1);
  });

  it("[RT2] keeps its containers when it is back within the grace period", async () => {
    const clock = new VirtualClock();
    const agent = await cluster.startNode("a:8041");
    await cluster.launch();
    await isStable(cluster, agent, 1);
    agent.disconnect();
    await presenceIs("a:8041", "DISCONNECTED");
    await clock.advance(cluster, NODE_GRACE_MS - 1_000);
    await agent.connect();
    await presenceIs("a:8041", "CONNECTED");
    await clock.advance(cluster, 10 * NODE_GRACE_MS);
    await isStable(cluster, agent, 1);
    expect(agent.launches).toHaveLength(1);
  });

  it("[RT2] is told to end what was replaced while it was LOST", async () => {
    const clock = new VirtualClock();
    const nodes = [await cluster.startNode("a:8041"), await cluster.startNode("b:8041")] as const;
    const { host, other } = await serviceOn(...nodes);
    host.disconnect();
    await presenceIs(host.nodeId, "DISCONNECTED");
    await clock.advance(cluster, NODE_GRACE_MS);
    await isStable(cluster, other, 1);
    await host.connect();
    await cluster.until("the replaced container to end", () => host.running().length === 0);
    await cluster.nodeIs(host.nodeId, "RUNNING");
    await isStable(cluster, other, 1);
  });

  it("[RT3] and all others reconnect when the tracker loses its sockets; nothing restarts", async () => {
    const nodes = [await cluster.startNode("a:8041"), await cluster.startNode("b:8041")] as const;
    const { host, other } = await serviceOn(...nodes);
    await evictDurableObject(cluster.stub("ResourceTracker"), { webSockets: "close" });
    for (const agent of nodes) {
      await cluster.until(`${agent.nodeId} to register again`, () => {
        return agent.received.filter(({ type }) => type === "registered").length === 2;
      });
      await presenceIs(agent.nodeId, "CONNECTED");
    }
    await isStable(cluster, host, 1);
    expect([host.launches.length, other.launches.length]).toEqual([1, 0]);
  });

  it("[RT3] and does not come back is noticed, though nobody told the tracker", async () => {
    const clock = new VirtualClock();
    const agent = await cluster.startNode("a:8041", { reconnect: false });
    await evictDurableObject(cluster.stub("ResourceTracker"), { webSockets: "close" });
    await cluster.until("the connection to end", () => !agent.connected);
    const ran = await clock.advance(cluster, NODE_EXPIRY_MS / 3 + NODE_GRACE_MS);
    expect(ran).toContain("ResourceTracker");
    await cluster.nodeIs("a:8041", "LOST");
  });
});

describe("a node that is connected but silent", () => {
  /** As if the connection had been open for that long; the runtime alone stamps pings. */
  const openedBefore = (ms: number) =>
    cluster.within("ResourceTracker", (state) => {
      for (const socket of state.getWebSockets()) {
        const attachment = socket.deserializeAttachment() as { openedMs: number };
        socket.serializeAttachment({ ...attachment, openedMs: attachment.openedMs - ms });
      }
    });

  it("[RT4] is LOST after the expiry interval, also when the tracker slept all the time", async () => {
    const clock = new VirtualClock();
    const agent = await cluster.startNode("a:8041", { reconnect: false });
    // Looked for thrice in an interval, so that it is noticed at the fourth look at the latest.
    for (let look = 1; look <= 4; look += 1) {
      expect((await trackedNode("a:8041"))?.presence).toBe("CONNECTED");
      await cluster.evict("ResourceTracker");
      await clock.advance(cluster, NODE_EXPIRY_MS / 3);
    }
    await cluster.nodeIs("a:8041", "LOST");
    await cluster.until("the connection to end", () => agent.closes.length === 1);
    expect(agent.closes).toEqual([{ code: POLICY_VIOLATION, reason: "silent for too long" }]);
  });

  it("[RT4] is told from one whose pings the runtime has answered", async () => {
    const silent = await cluster.startNode("silent:8041", { reconnect: false });
    const alive = await cluster.startNode("alive:8041");
    await openedBefore(NODE_EXPIRY_MS);
    await alive.ping();
    await cluster.evict("ResourceTracker");
    await runDurableObjectAlarm(cluster.stub("ResourceTracker"));
    await cluster.nodeIs("silent:8041", "LOST");
    await cluster.until("the silent connection to end", () => silent.closes.length === 1);
    expect((await trackedNode("alive:8041"))?.presence).toBe("CONNECTED");
    expect(alive.closes).toEqual([]);
  });
});

describe("a node that no socket reaches", () => {
  const heartbeat = (credential: string, messages: readonly unknown[]) =>
    cluster.fetch("/ws/v1/node/heartbeat", {
      method: "POST",
      token: credential,
      body: { messages },
    });
  const register = (agent: TestAgent) => ({
    type: "register",
    protocolVersion: 1,
    node: agent.facts,
    containers: [],
  });

  it("[RT5] stays as long as its heartbeats come, and is LOST when they end", async () => {
    const clock = new VirtualClock();
    const agent = await cluster.node("a:8041");
    const credential = await cluster.join("a:8041");
    const registered = await heartbeat(credential, [register(agent)]);
    expect(await registered.json()).toMatchObject({ messages: [{ type: "registered" }] });
    await cluster.nodeIs("a:8041", "RUNNING");
    for (let beat = 0; beat < 25; beat += 1) {
      await clock.advance(cluster, 10_000);
      const answer = await heartbeat(credential, []);
      expect(await answer.json()).toMatchObject({ messages: [{ type: "registered" }] });
    }
    await cluster.nodeIs("a:8041", "RUNNING");
    await clock.advance(cluster, 60_000);
    await cluster.nodeIs("a:8041", "LOST");
  });

  it("[RT5] is asked to register again after the tracker has forgotten when it came last", async () => {
    const clock = new VirtualClock();
    const agent = await cluster.node("a:8041");
    const credential = await cluster.join("a:8041");
    await (await heartbeat(credential, [register(agent)])).text();
    await cluster.nodeIs("a:8041", "RUNNING");
    await cluster.evict("ResourceTracker");
    const answer = await heartbeat(credential, []);
    expect(await answer.json()).toMatchObject({ code: "FAILED_PRECONDITION" });
    await (await heartbeat(credential, [register(agent)])).text();
    await clock.advance(cluster, 2 * NODE_GRACE_MS);
    expect((await trackedNode("a:8041"))?.presence).toBe("CONNECTED");
  });
});

describe("what a node can make others believe", () => {
  const closeOf = (agent: TestAgent) =>
    cluster.until(`the connection of ${agent.nodeId} to end`, () => agent.closes[0]);

  it("[RT6] a connection that registers as another node is closed", async () => {
    const victim = await cluster.startNode("victim:8041");
    const thief = await cluster.node("thief:8041", { reconnect: false });
    await thief.connect({ register: false });
    thief.register(victim.facts);
    expect(await closeOf(thief)).toEqual({
      code: POLICY_VIOLATION,
      reason: "the credential is for thief:8041",
    });
    expect(await trackedNode("thief:8041")).toBeUndefined();
    expect((await trackedNode("victim:8041"))?.presence).toBe("CONNECTED");
    expect(victim.closes).toEqual([]);
  });

  it.each([
    ["statuses", '{"type":"statuses","containers":[]}'],
    ["health", '{"type":"health","healthy":true,"healthReport":""}'],
    ["unregister", '{"type":"unregister"}'],
  ])("[RT7] %s before register is refused", async (_, message) => {
    const agent = await cluster.node("a:8041", { reconnect: false });
    await agent.connect({ register: false });
    agent.sendText(message);
    expect(await closeOf(agent)).toEqual({ code: POLICY_VIOLATION, reason: "register first" });
    expect(await cluster.nodeList()).toEqual([]);
  });

  it.each([
    ["text that is no JSON", "hello"],
    ["JSON of another kind", '{"type":"please"}'],
    ["a message with a field too many", '{"type":"unregister","force":true}'],
    ["another protocol version", '{"type":"register","protocolVersion":99}'],
    ["nothing", ""],
  ])("[RT8] %s ends that connection and no other", async (_, text) => {
    const bystander = await cluster.startNode("bystander:8041");
    const agent = await cluster.startNode("a:8041", { reconnect: false });
    agent.sendText(text);
    expect(await closeOf(agent)).toEqual({
      code: POLICY_VIOLATION,
      reason: "not a message of the node protocol",
    });
    await bystander.ping();
    expect((await trackedNode("bystander:8041"))?.presence).toBe("CONNECTED");
    expect(bystander.closes).toEqual([]);
  });

  it("[RT9] a node cannot speak for another node's container", async () => {
    const nodes = [await cluster.startNode("a:8041"), await cluster.startNode("b:8041")] as const;
    const { host, other } = await serviceOn(...nodes);
    const [containerId = ""] = host.running();
    other.complete(containerId, 1, "so says another node");
    await cluster.until("the answer", () => {
      return other.received.some(({ type }) => type === "acknowledge");
    });
    await isStable(cluster, host, 1);
    expect(host.running()).toEqual([containerId]);
    other.statuses.clear();
    other.run(containerId, false);
    other.statuses.clear();
    other.send({ type: "health", healthy: true, healthReport: "still here" });
    await cluster.until("the health report", async () => {
      return (await trackedNode(other.nodeId))?.facts.healthReport === "still here";
    });
    expect((await cluster.view()).components[0]?.containers).toMatchObject([
      { id: containerId, state: "READY", bare_host: host.facts.host },
    ]);
  });

  it("[RT10] a header from outside does not make a connection another node's", async () => {
    await cluster.startNode("victim:8041");
    const agent = await cluster.node("thief:8041");
    const response = await cluster.openSocket(await cluster.join("thief:8041"), {
      "x-selvedge-node-id": "victim:8041",
    });
    const socket = response.webSocket;
    if (!socket) throw new Error(`answered ${response.status}`);
    const closed = new Promise<CloseEvent>((resolve) => socket.addEventListener("close", resolve));
    socket.accept();
    const node = { ...agent.facts, nodeId: "victim:8041" };
    socket.send(JSON.stringify({ type: "register", protocolVersion: 1, node, containers: [] }));
    const { code, reason } = await closed;
    expect({ code, reason }).toEqual({
      code: POLICY_VIOLATION,
      reason: "the credential is for thief:8041",
    });
    expect((await trackedNode("victim:8041"))?.presence).toBe("CONNECTED");
  });

  it("[RT11] a newer connection of a node takes over from the older one", async () => {
    const older = await cluster.startNode("a:8041", { reconnect: false });
    await cluster.launch();
    await isStable(cluster, older, 1);
    const newer = await cluster.node("a:8041");
    for (const [id, status] of older.statuses) newer.statuses.set(id, status);
    await newer.connect();
    expect((await closeOf(older)).code).toBe(REPLACED);
    await cluster.until("the newer one to be registered", () => newer.received.length > 0);
    expect((await trackedNode("a:8041"))?.presence).toBe("CONNECTED");
    await isStable(cluster, newer, 1);
    expect(newer.launches).toEqual([]);
  });

  it("[RT11] what comes late by a connection that was taken over changes nothing", async () => {
    const agent = await cluster.startNode("a:8041", { reconnect: false });
    const tracker = cluster.stub("ResourceTracker") as DurableObjectStub<ResourceTracker>;
    const older = await runInDurableObject(tracker, (_, state) => state.getWebSockets("a:8041")[0]);
    const newer = await cluster.startNode("a:8041");
    await cluster.launch();
    await isStable(cluster, newer, 1);
    const { session } = (await trackedNode("a:8041")) ?? {};

    const version = { protocolVersion: NODE_PROTOCOL_VERSION } as const;
    const late = { type: "register", ...version, node: agent.facts, containers: [] };
    await runInDurableObject(tracker, async (object) => {
      if (!older) throw new Error("the node had no connection");
      await object.webSocketMessage(older, JSON.stringify(late));
    });
    expect((await trackedNode("a:8041"))?.session).toBe(session);
    await isStable(cluster, newer, 1);
    expect(newer.stopped).toEqual([]);
  });
});

describe("what is put through to a node", () => {
  const query = { type: "get", path: "/ws/v1/node/info" } as const;
  const tracker = () => env.RESOURCE_TRACKER.getByName(trackerName(cluster.name, "0"));

  it("[RT12] is answered by the node's own words, and its failures stay failures", async () => {
    const agent = await cluster.startNode("a:8041");
    const ask = async (answer: object) => {
      const known = agent.received.length;
      const reply = tracker().queryNode("a:8041", query);
      const asked = await cluster.until("the question", () =>
        agent.received.slice(known).find((message) => message.type === "node-query"),
      );
      expect(asked).toMatchObject({ query });
      const requestId = asked.type === "node-query" ? asked.requestId : "";
      agent.sendText(JSON.stringify({ type: "node-answer", requestId, ...answer }));
      return reply;
    };
    expect(await ask({ body: '{"id":"a:8041"}' })).toEqual({ ok: true, value: '{"id":"a:8041"}' });
    const error = { code: "NOT_FOUND", message: "no such container" } as const;
    expect(await ask({ error })).toEqual({ ok: false, error });
  });

  it("[RT12] fails at once when the node is not connected", async () => {
    expect(await tracker().queryNode("nowhere:8041", query)).toMatchObject({
      ok: false,
      error: { code: "UNAVAILABLE", message: "node nowhere:8041 is not connected" },
    });
  });

  it("[NM162] is lost with the connection: a signal reaches no node that comes back later", async () => {
    const agent = await cluster.startNode("a:8041");
    await cluster.launch();
    await isStable(cluster, agent, 1);
    const [containerId] = agent.running();
    const signal = () =>
      cluster.fetch(`/ws/v1/cluster/containers/${containerId}/signal/GRACEFUL_SHUTDOWN`, {
        method: "POST",
      });
    const orders = () => agent.received.filter((message) => message.type === "node-query");
    /** Answers the order of that number, once it has come. */
    const carryOut = async (number: number) => {
      const order = await cluster.until("the order", () => orders()[number]);
      agent.send({ type: "node-answer", requestId: order.requestId, body: "null" });
      return order.query;
    };

    const answer = signal();
    expect(await carryOut(0)).toMatchObject({ type: "signal", command: "GRACEFUL_SHUTDOWN" });
    expect((await answer).status).toBe(200);

    agent.disconnect();
    await presenceIs(agent.nodeId, "DISCONNECTED");
    expect((await signal()).status).toBe(503);
    await agent.connect();
    await presenceIs(agent.nodeId, "CONNECTED");
    // Whatever had been kept for the node would have come before this.
    const reply = tracker().queryNode("a:8041", query);
    expect(await carryOut(1)).toEqual(query);
    expect((await reply).ok).toBe(true);
  });

  it("[RT13] the end of an application reaches the nodes that have something of it", async () => {
    const agent = await cluster.startNode("a:8041");
    await cluster.launch();
    await isStable(cluster, agent, 1);
    const application = (await cluster.view()).id ?? "";
    await tracker().finishApplications([application, application]);
    const told = await cluster.until("the order", () =>
      agent.received.find((message) => message.type === "finish-applications"),
    );
    expect(told).toMatchObject({ applicationIds: [application] });
  });
});
