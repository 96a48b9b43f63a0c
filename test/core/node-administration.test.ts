/** What administrators do to nodes, and what becomes of their containers. */
import { describe, expect, it } from "vitest";
import { settleNode, shutdownOrders } from "../../src/core/cluster/node.ts";
import {
  decommissionNodes,
  nextDecommissionMs,
  recommissionNodes,
  setNodeLists,
  updateNodes,
} from "../../src/core/cluster/node-administration.ts";
import { settleCluster } from "../../src/core/cluster/settle.ts";
import { type Harness, harness, nodeIdOf } from "../support/harness.ts";
import { component } from "../support/yarnfile.ts";

const NODE = nodeIdOf("node1");

function idle(): Harness {
  const bench = harness();
  bench.node("node1");
  bench.node("node2");
  return bench;
}

function running(count = 1): Harness {
  const bench = idle();
  bench.create({ components: [component({ number_of_containers: count })] });
  return bench;
}

function administer(bench: Harness, change: () => void): void {
  change();
  for (const { facts } of [...bench.cluster.nodes.values()]) {
    settleNode(bench.cluster, facts.nodeId, bench.nowMs);
  }
  bench.run();
}

const stateOf = ({ cluster }: Harness, nodeId = NODE) => cluster.nodes.get(nodeId)?.state;
const nodesInUse = ({ cluster }: Harness) =>
  new Set(
    [...cluster.containers.values()]
      .filter(({ state }) => state !== "COMPLETED")
      .map(({ nodeId }) => nodeId),
  );

describe("a node that is decommissioned", () => {
  it("[RM20] takes nothing new, runs on what it has, and goes when its time is over", () => {
    const bench = running(2);
    expect(nodesInUse(bench)).toContain(NODE);
    administer(bench, () => decommissionNodes(bench.cluster, [NODE], 60, bench.nowMs));
    expect(stateOf(bench)).toBe("DECOMMISSIONING");
    expect(nodesInUse(bench)).toContain(NODE);
    expect(nextDecommissionMs(bench.cluster)).toBe(bench.nowMs + 60_000);
    settleCluster(bench.cluster, bench.nowMs + 60_000);
    bench.run();
    expect(stateOf(bench)).toBe("DECOMMISSIONED");
    expect(nodesInUse(bench)).not.toContain(NODE);
    expect([...shutdownOrders(bench.cluster).values()].flat()).toMatchObject([{ nodeId: NODE }]);
  });

  it("[RM20] goes at once when nothing runs on it, or when it shall", () => {
    const bench = idle();
    administer(bench, () => decommissionNodes(bench.cluster, [NODE], null, bench.nowMs));
    expect(stateOf(bench)).toBe("DECOMMISSIONED");
    const busy = running(2);
    administer(busy, () => decommissionNodes(busy.cluster, [NODE], 0, busy.nowMs));
    expect(stateOf(busy)).toBe("DECOMMISSIONED");
  });

  it("[RM20] is told to shut down only when nothing of it is left", () => {
    const bench = running(2);
    decommissionNodes(bench.cluster, [NODE], 0, bench.nowMs);
    settleNode(bench.cluster, NODE, bench.nowMs);
    expect(shutdownOrders(bench.cluster).size).toBe(0);
    bench.run();
    expect(shutdownOrders(bench.cluster).size).toBe(1);
  });

  it("[RM20] works again after it was taken back", () => {
    const bench = idle();
    administer(bench, () => decommissionNodes(bench.cluster, [NODE], 0, bench.nowMs));
    administer(bench, () => recommissionNodes(bench.cluster, [NODE]));
    expect(stateOf(bench)).toBe("RUNNING");
    expect(bench.cluster.nodeSettings.size).toBe(0);
  });

  it("[RM20] that nobody knows is refused, and nothing is done to the others", () => {
    const bench = idle();
    const reply = decommissionNodes(bench.cluster, [NODE, "stranger:1"], 0, bench.nowMs);
    expect(reply).toMatchObject({ ok: false, error: { code: "NOT_FOUND" } });
    expect(bench.cluster.nodeSettings.size).toBe(0);
  });
});

describe("the lists of who may join", () => {
  it("[RM21] send an excluded host away, and take it back", () => {
    const bench = running(2);
    administer(bench, () => setNodeLists(bench.cluster, { include: [], exclude: ["node1"] }));
    expect(stateOf(bench)).toBe("DECOMMISSIONED");
    expect(nodesInUse(bench)).not.toContain(NODE);
    administer(bench, () => setNodeLists(bench.cluster, { include: [], exclude: [] }));
    expect(stateOf(bench)).toBe("RUNNING");
  });

  it("[RM21] with an include list keep everybody else out", () => {
    const bench = idle();
    administer(bench, () => setNodeLists(bench.cluster, { include: ["node2"], exclude: [] }));
    expect(stateOf(bench)).toBe("DECOMMISSIONED");
    expect(stateOf(bench, nodeIdOf("node2"))).toBe("RUNNING");
  });
});

describe("what is set for a node", () => {
  it("[RM22] wins over what it says of itself, until it is reset", () => {
    const bench = idle();
    const total = () => bench.cluster.scheduler.usage().total.memoryMb;
    const before = total();
    const small = { memoryMb: 64, vcores: 1 };
    administer(bench, () => updateNodes(bench.cluster, [{ nodeId: NODE, resource: small }]));
    expect(total()).toBeLessThan(before);
    administer(bench, () => updateNodes(bench.cluster, [{ nodeId: NODE, resource: null }]));
    expect(total()).toBe(before);
  });

  it("[RM22] leaves the containers of a node that became smaller where they are", () => {
    const bench = running(2);
    const before = bench.running();
    const none = { memoryMb: 1, vcores: 1 };
    administer(bench, () => updateNodes(bench.cluster, [{ nodeId: NODE, resource: none }]));
    expect(bench.running()).toEqual(before);
  });
});
