/** A tracker shard: what it owes its agents, the ResourceManager and the service masters. */
import { describe, expect, it } from "vitest";
import { Tracker } from "../../src/core/cluster/tracker.ts";
import {
  containerStatuses,
  expireNodes,
  NODE_GRACE_MS,
  nextNodeDeadlineMs,
  nodeDisconnected,
  nodeUnregistered,
  registerNodeManager,
} from "../../src/core/cluster/tracker-node.ts";
import type { ContainerStatus } from "../../src/shared/container.ts";
import type { DesiredContainer } from "../../src/shared/protocol/resource-tracker.ts";

const NOW_MS = 1_000_000;
const NODE = "a:1";
const MASTER = "default/ann/hello";

function bench() {
  const tracker = new Tracker();
  let session = 0;
  const register = (containers: ContainerStatus[] = []) => {
    session += 1;
    const node = {
      nodeId: NODE,
      host: "a",
      rack: "/default-rack",
      capability: { memoryMb: 1_024, vcores: 1 },
      labels: [],
      attributes: {},
      agentVersion: "1",
      healthy: true,
      healthReport: "",
    };
    const message = { type: "register", protocolVersion: 1, node, containers } as const;
    registerNodeManager(tracker, message, session, []);
    return session;
  };
  const start = (
    containerId: string,
    nodeIncarnation = tracker.nodes.get(NODE)?.incarnation ?? 0,
  ) =>
    tracker.startContainers(MASTER, [
      { containerId, nodeId: NODE, nodeIncarnation, token: "t", launch },
    ]);
  /** The ResourceManager hears everything. */
  const acknowledge = () => {
    const report = tracker.report("0");
    if (report) tracker.reportAcknowledged(report.generation, []);
    return report;
  };
  const hear = (...statuses: ContainerStatus[]) => containerStatuses(tracker, NODE, statuses);
  const sent = () => tracker.drainMessages().map(({ message }) => message);
  /** The connection breaks and the grace period passes. */
  const lose = () => {
    nodeDisconnected(tracker, NODE, session, NOW_MS);
    expireNodes(tracker, NOW_MS + NODE_GRACE_MS);
  };
  return { tracker, register, start, acknowledge, hear, sent, lose };
}

const launch = {
  commands: ["true"],
  environment: { SECRET: "s3cret" },
  ports: [],
  readinessCheck: {
    type: "DEFAULT",
    minSuccess: 200,
    maxSuccess: 299,
    timeoutMs: 1,
    intervalMs: 1,
  },
  user: "ann",
  instance: "web-0",
  sigkillDelayMs: 250,
} as const;

function status(containerId: string, changes: Partial<ContainerStatus> = {}): ContainerStatus {
  const running = { state: "RUNNING", exitStatus: -1000, diagnostics: "", ready: true } as const;
  return { containerId, ...running, ...changes };
}

const ended = (containerId: string, exitStatus = 0) =>
  status(containerId, { state: "COMPLETE", exitStatus, ready: false });

/** A tracker that was made of the rows of another one, as after a restart. */
function reloaded(tracker: Tracker): Tracker {
  const copy = new Tracker();
  tracker.tables.forEach((table, index) => {
    for (const row of table.values()) copy.tables[index]?.load(JSON.stringify(row));
  });
  return copy;
}

describe("a node", () => {
  it("[TK1] is told its whole desired set whenever it registers", () => {
    const { register, start, hear, sent } = bench();
    register();
    start("c1");
    start("c2");
    hear(status("c1"));
    sent();
    register([status("c1")]);
    const [message] = sent();
    expect(message?.type).toBe("registered");
    const desired = message?.type === "registered" ? message.desired : [];
    expect(desired.map((entry) => [entry.containerId, "launch" in entry])).toEqual([
      ["c1", false],
      ["c2", true],
    ]);
  });

  it("[TK1] that comes back without a container it had has lost it", () => {
    const { tracker, register, start, hear } = bench();
    register();
    start("c1");
    hear(status("c1"));
    register();
    expect(tracker.containers.get("c1")?.status).toMatchObject({
      state: "COMPLETE",
      exitStatus: 154,
    });
  });

  it("[TK6] has a grace period to come back, in which nothing is lost", () => {
    const { tracker, register, start, hear, acknowledge } = bench();
    const session = register();
    start("c1");
    hear(status("c1"));
    acknowledge();
    nodeDisconnected(tracker, NODE, session, NOW_MS);
    expect(nextNodeDeadlineMs(tracker)).toBe(NOW_MS + NODE_GRACE_MS);
    expireNodes(tracker, NOW_MS + NODE_GRACE_MS - 1);
    register([status("c1")]);
    expect(tracker.report("0")).toBeNull();
    expect(nextNodeDeadlineMs(tracker)).toBeNull();
  });

  it("[TK6] that stays away is LOST, and its containers with it", () => {
    const { tracker, register, start, lose } = bench();
    register();
    start("c1");
    lose();
    expect(tracker.report("0")).toMatchObject({
      nodes: [{ presence: "LOST", reason: "no connection for 10 s" }],
      containers: [{ containerId: "c1", state: "COMPLETE", exitStatus: -100 }],
    });
  });

  it("[TK6] does not mind the end of a connection that it has replaced", () => {
    const { tracker, register } = bench();
    const old = register();
    register();
    nodeDisconnected(tracker, NODE, old, NOW_MS);
    expect(tracker.nodes.get(NODE)?.presence).toBe("CONNECTED");
  });

  it("[TK7] that is gone is forgotten once the ResourceManager knows", () => {
    const { tracker, register, acknowledge } = bench();
    register();
    acknowledge();
    nodeUnregistered(tracker, NODE);
    expect(acknowledge()).toMatchObject({ nodes: [{ presence: "SHUTDOWN" }] });
    expect(tracker.nodes.size).toBe(0);
  });
});

describe("the end of a container", () => {
  it("[TK2] is acknowledged once it is stored, also when nobody knows the container", () => {
    const { register, start, hear, sent } = bench();
    register();
    start("c1");
    sent();
    hear(ended("c1"), ended("stranger"));
    expect(sent()).toEqual([{ type: "acknowledge", containerIds: ["c1", "stranger"] }]);
  });

  it("[TK2] is the last word", () => {
    const { tracker, register, start, hear } = bench();
    register();
    start("c1");
    hear(ended("c1", 3));
    hear(status("c1"));
    expect(tracker.containers.get("c1")?.status).toMatchObject({
      state: "COMPLETE",
      exitStatus: 3,
    });
  });

  it("[TK7] is kept until the ResourceManager has heard of it, and no longer", () => {
    const { tracker, register, start, hear, acknowledge } = bench();
    register();
    start("c1");
    const before = acknowledge();
    hear(ended("c1"));
    tracker.reportAcknowledged(before?.generation ?? 0, []);
    expect(tracker.containers.size).toBe(1);
    acknowledge();
    expect(tracker.containers.size).toBe(0);
    expect(tracker.report("0")).toBeNull();
  });
});

describe("starting containers", () => {
  it("[TK8] happens once, however often it is said", () => {
    const { register, start, sent } = bench();
    register();
    sent();
    start("c1");
    start("c1");
    expect(sent()).toHaveLength(1);
  });

  it("[TK8] keeps the launch context no longer than until the node has it", () => {
    const { tracker, register, start, hear } = bench();
    register();
    start("c1");
    hear(status("c1", { state: "NEW" }));
    expect(JSON.stringify([...tracker.containers.values()])).not.toContain("s3cret");
  });

  it("[TK4] does not happen on a node that was given up since the allocation", () => {
    const { tracker, register, start, lose, acknowledge, sent } = bench();
    register();
    const before = tracker.nodes.get(NODE)?.incarnation;
    lose();
    acknowledge();
    register();
    sent();
    start("c1", before);
    expect(sent()).toEqual([]);
    expect(tracker.report("0")?.containers).toMatchObject([
      { containerId: "c1", state: "COMPLETE", exitStatus: -100 },
    ]);
  });

  it("[TK4] happens after a mere loss of connection", () => {
    const { tracker, register, start, sent } = bench();
    const session = register();
    const before = tracker.nodes.get(NODE)?.incarnation;
    nodeDisconnected(tracker, NODE, session, NOW_MS);
    register();
    sent();
    start("c1", before);
    expect(sent()).toMatchObject([{ type: "desired" }]);
  });

  it("[TK5] does not happen once the container was ordered to end, though the order came first", () => {
    const { tracker, register, start, sent } = bench();
    register();
    sent();
    const order = { nodeId: NODE, containerId: "c1", exitStatus: -100, diagnostics: "released" };
    expect(tracker.cleanupContainers([order])).toEqual([]);
    start("c1");
    const entries = sent().flatMap((message): readonly DesiredContainer[] =>
      message.type === "desired" ? message.put : [],
    );
    expect(entries).toMatchObject([{ containerId: "c1", state: "STOP", exitStatus: -100 }]);
  });

  it("[TK5] cannot happen on a node that is not there, so that an order is carried out already", () => {
    const { tracker } = bench();
    const order = { nodeId: NODE, containerId: "c1", exitStatus: -100, diagnostics: "released" };
    expect(tracker.cleanupContainers([order])).toEqual(["c1"]);
    expect(tracker.containers.size).toBe(0);
  });
});

describe("what is owed to the ResourceManager and the masters", () => {
  it("[TK3] is said again, whole, until it is acknowledged", () => {
    const { tracker, register, start, hear } = bench();
    register();
    start("c1");
    hear(status("c1"));
    expect(tracker.report("0")).toEqual(tracker.report("0"));
    expect(tracker.unheardMasters()).toEqual([MASTER]);
    const { generation, statuses } = tracker.statusesFor(MASTER);
    expect(statuses).toHaveLength(1);
    tracker.statusesAcknowledged(MASTER, generation);
    expect(tracker.unheardMasters()).toEqual([]);
  });

  it("[TK3] is the same after a restart, and nothing that was acknowledged is said again", () => {
    const { tracker, register, start, hear, acknowledge } = bench();
    register();
    start("c1");
    hear(status("c1"));
    acknowledge();
    expect(reloaded(tracker).report("0")).toBeNull();
    hear(ended("c1"));
    expect(reloaded(tracker).report("0")).toEqual(tracker.report("0"));
  });

  it("[TK3] is said above whatever a peer has heard before", () => {
    const { tracker, register } = bench();
    register();
    tracker.fastForward(99);
    expect(tracker.report("0")?.generation).toBeGreaterThan(99);
  });

  it("[TK3] contains a change that came while the report was on its way", () => {
    const { tracker, register, start, hear } = bench();
    register();
    start("c1");
    hear(status("c1"));
    const report = tracker.report("0");
    hear(ended("c1", 7));
    tracker.reportAcknowledged(report?.generation ?? 0, []);
    expect(tracker.report("0")?.containers).toMatchObject([{ containerId: "c1", exitStatus: 7 }]);
  });
});
