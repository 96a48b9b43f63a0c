/** A tracker shard: what it owes its agents, the ResourceManager and the service masters. */
import { describe, expect, it } from "vitest";
import { Tracker } from "../../src/core/cluster/tracker.ts";
import {
  applicationsFinished,
  finishApplications,
} from "../../src/core/cluster/tracker-applications.ts";
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
import type {
  DesiredContainer,
  TrackerMessage,
} from "../../src/shared/protocol/resource-tracker.ts";

const NOW_MS = 1_000_000;
const NODE = "a:1";
const MASTER = "default/ann/hello";
const C1 = "container_e01_1700000000000_0001_01_000001";
const APPLICATION = "application_1700000000000_0001";
const C2 = "container_e01_1700000000000_0001_01_000002";

function bench() {
  const tracker = new Tracker();
  let session = 0;
  const register = (containers: ContainerStatus[] = [], applications?: string[]) => {
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
    const message = {
      ...({ type: "register", protocolVersion: 1, node, containers } as const),
      ...(applications ? { applications } : {}),
    };
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
    start(C1);
    start(C2);
    hear(status(C1));
    sent();
    register([status(C1)]);
    const [message] = sent();
    expect(message?.type).toBe("registered");
    const desired = message?.type === "registered" ? message.desired : [];
    expect(desired.map((entry) => [entry.containerId, "launch" in entry])).toEqual([
      [C1, false],
      [C2, true],
    ]);
  });

  it("[TK1] that comes back without a container it had has lost it", () => {
    const { tracker, register, start, hear } = bench();
    register();
    start(C1);
    hear(status(C1));
    register();
    expect(tracker.containers.get(C1)?.status).toMatchObject({
      state: "COMPLETE",
      exitStatus: 154,
    });
  });

  it("[TK6] has a grace period to come back, in which nothing is lost", () => {
    const { tracker, register, start, hear, acknowledge } = bench();
    const session = register();
    start(C1);
    hear(status(C1));
    acknowledge();
    nodeDisconnected(tracker, NODE, session, NOW_MS);
    expect(nextNodeDeadlineMs(tracker)).toBe(NOW_MS + NODE_GRACE_MS);
    expireNodes(tracker, NOW_MS + NODE_GRACE_MS - 1);
    register([status(C1)]);
    expect(tracker.report("0")).toBeNull();
    expect(nextNodeDeadlineMs(tracker)).toBeNull();
  });

  it("[TK6] that stays away is LOST, and its containers with it", () => {
    const { tracker, register, start, lose } = bench();
    register();
    start(C1);
    lose();
    expect(tracker.report("0")).toMatchObject({
      nodes: [{ presence: "LOST", reason: "no connection for 10 s" }],
      containers: [{ containerId: C1, state: "COMPLETE", exitStatus: -100 }],
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
    start(C1);
    sent();
    hear(ended(C1), ended("stranger"));
    expect(sent()).toEqual([{ type: "acknowledge", containerIds: [C1, "stranger"] }]);
  });

  it("[TK2] is the last word", () => {
    const { tracker, register, start, hear } = bench();
    register();
    start(C1);
    hear(ended(C1, 3));
    hear(status(C1));
    expect(tracker.containers.get(C1)?.status).toMatchObject({
      state: "COMPLETE",
      exitStatus: 3,
    });
  });

  it("[TK7] is kept until the ResourceManager has heard of it, and no longer", () => {
    const { tracker, register, start, hear, acknowledge } = bench();
    register();
    start(C1);
    const before = acknowledge();
    hear(ended(C1));
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
    start(C1);
    start(C1);
    expect(sent()).toHaveLength(1);
  });

  it("[TK8] keeps the launch context no longer than until the node has it", () => {
    const { tracker, register, start, hear } = bench();
    register();
    start(C1);
    hear(status(C1, { state: "NEW", ready: false }));
    expect(tracker.containers.get(C1)?.launch).not.toBeNull();
    hear(status(C1));
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
    start(C1, before);
    expect(sent()).toEqual([]);
    expect(tracker.report("0")?.containers).toMatchObject([
      { containerId: C1, state: "COMPLETE", exitStatus: -100 },
    ]);
  });

  it("[TK4] happens after a mere loss of connection", () => {
    const { tracker, register, start, sent } = bench();
    const session = register();
    const before = tracker.nodes.get(NODE)?.incarnation;
    nodeDisconnected(tracker, NODE, session, NOW_MS);
    register();
    sent();
    start(C1, before);
    expect(sent()).toMatchObject([{ type: "desired" }]);
  });

  it("[TK5] does not happen once the container was ordered to end, though the order came first", () => {
    const { tracker, register, start, sent } = bench();
    register();
    sent();
    const order = { nodeId: NODE, containerId: C1, exitStatus: -100, diagnostics: "released" };
    expect(tracker.cleanupContainers([order])).toEqual([]);
    start(C1);
    const entries = sent().flatMap((message): readonly DesiredContainer[] =>
      message.type === "desired" ? message.put : [],
    );
    expect(entries).toMatchObject([{ containerId: C1, state: "STOP", exitStatus: -100 }]);
  });

  it("[TK5] cannot happen on a node that is not there, so that an order is carried out already", () => {
    const { tracker } = bench();
    const order = { nodeId: NODE, containerId: C1, exitStatus: -100, diagnostics: "released" };
    expect(tracker.cleanupContainers([order])).toEqual([C1]);
    expect(tracker.containers.size).toBe(0);
  });
});

describe("what is owed to the ResourceManager and the masters", () => {
  it("[TK3] is said again, whole, until it is acknowledged", () => {
    const { tracker, register, start, hear } = bench();
    register();
    start(C1);
    hear(status(C1));
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
    start(C1);
    hear(status(C1));
    acknowledge();
    expect(reloaded(tracker).report("0")).toBeNull();
    hear(ended(C1));
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
    start(C1);
    hear(status(C1));
    const report = tracker.report("0");
    hear(ended(C1, 7));
    tracker.reportAcknowledged(report?.generation ?? 0, []);
    expect(tracker.report("0")?.containers).toMatchObject([{ containerId: C1, exitStatus: 7 }]);
  });
});

describe("changing a container that runs", () => {
  const entriesIn = (messages: readonly TrackerMessage[]) =>
    messages.flatMap((message): readonly DesiredContainer[] =>
      message.type === "desired" ? message.put : [],
    );
  const upgrade = { containerId: C1, launch: { ...launch, version: 2 } };

  it("[TK9] is told to the node, again at every registration, until the node has done it", () => {
    const { tracker, register, start, hear, sent } = bench();
    register();
    start(C1);
    hear(status(C1));
    sent();
    const request = { ...upgrade, reInitialization: "PENDING" } as const;
    const updated = [{ containerId: C1, revision: 1 }];
    expect(tracker.updateContainers(MASTER, [request])).toEqual(updated);
    const entry = {
      state: "RUN",
      revision: 1,
      launch: { version: 2 },
      reInitialization: "PENDING",
    };
    expect(entriesIn(sent())).toMatchObject([entry]);
    register([status(C1)]);
    expect(sent()).toMatchObject([{ type: "registered", desired: [entry] }]);
    hear(status(C1, { revision: 1 }));
    register([status(C1, { revision: 1 })]);
    const [message] = sent();
    const desired = message?.type === "registered" ? message.desired : [];
    expect(desired).toEqual([
      { containerId: C1, state: "RUN", revision: 1, reInitialization: "PENDING" },
    ]);
  });

  it("[TK9] that is said again, or comes late, changes nothing", () => {
    const { tracker, register, start, hear, sent } = bench();
    register();
    start(C1);
    hear(status(C1));
    const pending = { ...upgrade, reInitialization: "PENDING", revision: 1 } as const;
    tracker.updateContainers(MASTER, [pending]);
    sent();
    expect(tracker.updateContainers(MASTER, [pending])).toEqual([{ containerId: C1, revision: 1 }]);
    expect(sent()).toEqual([]);
    const back = { containerId: C1, reInitialization: "ROLLED_BACK", revision: 2 } as const;
    tracker.updateContainers(MASTER, [back]);
    expect(tracker.updateContainers(MASTER, [pending])).toEqual([{ containerId: C1, revision: 2 }]);
    expect(entriesIn(sent())).toMatchObject([{ revision: 2, reInitialization: "ROLLED_BACK" }]);
  });

  it("[TK9] has a new revision each time, and a commit needs no launch context", () => {
    const { tracker, register, start, hear, sent } = bench();
    register();
    start(C1);
    hear(status(C1));
    tracker.updateContainers(MASTER, [{ ...upgrade, reInitialization: "PENDING" }]);
    hear(status(C1, { revision: 1 }));
    sent();
    tracker.updateContainers(MASTER, [{ containerId: C1, reInitialization: "COMMITTED" }]);
    expect(entriesIn(sent())).toEqual([
      { containerId: C1, state: "RUN", revision: 2, reInitialization: "COMMITTED" },
    ]);
  });

  it("[TK9] keeps the new launch context though the node speaks of the old one", () => {
    const { tracker, register, start, hear } = bench();
    register();
    start(C1);
    hear(status(C1));
    tracker.updateContainers(MASTER, [upgrade]);
    hear(status(C1, { ready: false }));
    expect(tracker.containers.get(C1)?.launch).toMatchObject({ version: 2 });
  });

  it("[TK9] is refused to another master, and for a container that ends", () => {
    const { tracker, register, start, hear, sent } = bench();
    register();
    start(C1);
    start(C2);
    hear(ended(C2));
    sent();
    const refused = (containerId: string) => [{ containerId, revision: null }];
    expect(tracker.updateContainers("default/eve/other", [upgrade])).toEqual(refused(C1));
    const ofEnded = { ...upgrade, containerId: C2 };
    expect(tracker.updateContainers(MASTER, [ofEnded])).toEqual(refused(C2));
    expect(sent()).toEqual([]);
  });
});

describe("a container that its node prepares", () => {
  it("[TK8] is sent again, whole, to an agent that came back without it", () => {
    const { register, start, hear, sent } = bench();
    register();
    start(C1);
    hear(status(C1, { state: "NEW", ready: false, subState: "LOCALIZING" }));
    sent();
    register();
    expect(sent()).toMatchObject([{ desired: [{ containerId: C1, state: "RUN", token: "t" }] }]);
  });
});

describe("an application that is finished", () => {
  it("[TK10] is told to every node that had a container of it, until the node has cleaned up", () => {
    const { tracker, register, start, hear, acknowledge, sent } = bench();
    register();
    start(C1);
    hear(ended(C1));
    acknowledge();
    sent();
    finishApplications(tracker, [APPLICATION, "application_1700000000000_0002"]);
    finishApplications(tracker, [APPLICATION]);
    expect(sent()).toEqual([{ type: "finish-applications", applicationIds: [APPLICATION] }]);
    register([], [APPLICATION]);
    expect(sent()).toMatchObject([{ finishedApplications: [APPLICATION] }]);
    applicationsFinished(tracker, NODE, [APPLICATION]);
    expect(tracker.applications.size).toBe(0);
  });

  it("[TK10] is kept over a restart", () => {
    const { tracker, register, start } = bench();
    register();
    start(C1);
    finishApplications(tracker, [APPLICATION]);
    expect([...reloaded(tracker).applications.values()]).toMatchObject([{ finished: true }]);
  });

  it("[TK10] is one that the tracker does not know, when a node still has it", () => {
    const { register, sent } = bench();
    register([], [APPLICATION]);
    expect(sent()).toMatchObject([{ finishedApplications: [APPLICATION] }]);
  });

  it("[TK10] is not one whose containers the node is still to start", () => {
    const { tracker, register, start, sent } = bench();
    register();
    start(C1);
    sent();
    register([], []);
    expect(tracker.applications.size).toBe(1);
    expect(sent()).toMatchObject([{ finishedApplications: [] }]);
  });

  it("[TK10] goes with its node", () => {
    const { tracker, register, start, lose, acknowledge } = bench();
    register();
    start(C1);
    acknowledge();
    lose();
    acknowledge();
    expect(tracker.applications.size).toBe(0);
  });
});
