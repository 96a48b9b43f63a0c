/** The ResourceManager's books: applications, attempts, containers, nodes, the directory. */
import { describe, expect, it } from "vitest";
import {
  forceKillApplication,
  listServices,
  reportService,
  submitApplication,
} from "../../src/core/cluster/application.ts";
import {
  allocate,
  finishApplicationMaster,
  registerApplicationMaster,
} from "../../src/core/cluster/application-master.ts";
import { ALLOCATION_EXPIRY_MS, Cluster } from "../../src/core/cluster/cluster.ts";
import { getContainer, getContainers } from "../../src/core/cluster/containers.ts";
import {
  cleanupsSent,
  expireAllocations,
  nextExpiryMs,
  reportNodes,
  unsentCleanups,
} from "../../src/core/cluster/node.ts";
import type { Reply } from "../../src/shared/errors.ts";
import type { AllocateRequest } from "../../src/shared/protocol/application-master.ts";
import type { ContainerReport } from "../../src/shared/protocol/resource-tracker.ts";

const NOW_MS = 1_000_000;
const GB = { memoryMb: 1_024, vcores: 1 };

/** A cluster with nodes of 4 GB and one registered application that wants containers of 1 GB. */
function bench(nodes: readonly string[] = ["a"]) {
  const cluster = new Cluster();
  let generation = 0;
  let sequence = 0;
  const report = (
    name: string,
    presence: "PRESENT" | "LOST" = "PRESENT",
    changes: { healthy?: boolean; healthReport?: string; incarnation?: number } = {},
  ) => {
    const { incarnation = 1, healthy = true, healthReport = "" } = changes;
    const node = {
      nodeId: `${name}:1`,
      host: name,
      rack: "/default-rack",
      capability: { memoryMb: 4_096, vcores: 4 },
      labels: [],
      attributes: {},
      agentVersion: "1",
      healthy,
      healthReport,
    };
    generation += 1;
    const nodes = [{ node, presence, incarnation, reason: "no connection for 10 s" }];
    return reportNodes(cluster, { shard: "0", generation, nodes, containers: [] }, NOW_MS);
  };
  const reportContainer = (containerId: string, changes: Partial<ContainerReport> = {}) => {
    generation += 1;
    const nodeId = cluster.containers.get(containerId)?.nodeId ?? "a:1";
    const seen = {
      nodeId,
      containerId,
      state: "RUNNING",
      exitStatus: -1000,
      diagnostics: "",
    } as const;
    const containers = [{ ...seen, ...changes }];
    return reportNodes(cluster, { shard: "0", generation, nodes: [], containers }, NOW_MS);
  };
  for (const name of nodes) report(name);
  const { applicationId, attemptId } = answerOf(submitApplication(cluster, context(), NOW_MS));
  registerApplicationMaster(cluster, attemptId);
  const request = (responseId: number, count?: number, changes: Partial<AllocateRequest> = {}) => {
    sequence += 1;
    const ask = { priority: 0, allocationRequestId: 0, capability: GB };
    const asks = count === undefined ? [] : [{ ...ask, count }];
    return { responseId, sequence, progress: 0, asks, releases: [], ...changes };
  };
  const said = (message: AllocateRequest) =>
    answerOf(allocate(cluster, attemptId, message, NOW_MS));
  return { cluster, report, reportContainer, applicationId, attemptId, request, said };
}

function context(submissionId = "one", memoryMb = 1_024) {
  return {
    name: "hello",
    user: "ann",
    queue: "default",
    submitter: { user: "ann", groups: [], isAdmin: false },
    lifetimeSeconds: -1,
    applicationType: "yarn-service",
    master: "default/ann/hello",
    submissionId,
    acls: {},
    largestRequests: [{ component: "web", resource: { memoryMb, vcores: 1 } }],
  } as const;
}

function answerOf<Value>(reply: Reply<Value>): Value {
  if (!reply.ok) throw new Error(reply.error.message);
  return reply.value;
}

const idsOf = (containers: readonly { readonly containerId: string }[]) =>
  containers.map(({ containerId }) => containerId);

it("[RG16] a container that its master was never told of leaves nothing to purge", () => {
  const { cluster, report, request, said } = bench([]);
  said(request(0, 1));
  report("a");
  expect(cluster.containers.size).toBe(1);
  report("a", "LOST");
  expect([cluster.containers.size, cluster.purges.size]).toEqual([0, 0]);
});

it("[NM161] shows a container from its allocation until its end is known to its master", () => {
  const { cluster, attemptId, request, said, reportContainer } = bench();
  const [container] = said(request(0, 2)).allocated;
  const containerId = container?.containerId ?? "";
  expect(getContainers(cluster, attemptId)).toMatchObject([
    { containerId, nodeId: "a:1", resource: GB, state: "NEW", exitStatus: null },
    { state: "NEW" },
  ]);
  expect(getContainers(cluster, "appattempt_1_0001_000001")).toEqual([]);
  reportContainer(containerId);
  expect(getContainer(cluster, containerId)).toMatchObject({ value: { state: "RUNNING" } });
  reportContainer(containerId, { state: "COMPLETE", exitStatus: 3, diagnostics: "oops" });
  const over = { state: "COMPLETE", exitStatus: 3, diagnostics: "oops" };
  expect(getContainer(cluster, containerId)).toMatchObject({ value: over });
  said(request(1));
  said(request(2));
  expect(getContainer(cluster, containerId)).toMatchObject({ error: { code: "NOT_FOUND" } });
  expect(getContainers(cluster, attemptId)).toHaveLength(1);
});

describe("submitting an application", () => {
  it("[RM1] is done once, however often it is said", () => {
    const { cluster, applicationId } = bench();
    const again = answerOf(submitApplication(cluster, context(), NOW_MS + 5));
    expect(again.applicationId).toBe(applicationId);
    expect(cluster.applications.size).toBe(1);
    const other = answerOf(submitApplication(cluster, context("two"), NOW_MS));
    expect(other.applicationId).not.toBe(applicationId);
  });

  it("[RM2] is refused when no node can ever hold one of its containers", () => {
    const { cluster } = bench();
    const reply = submitApplication(cluster, context("big", 8_192), NOW_MS);
    expect(reply).toMatchObject({
      ok: false,
      error: {
        code: "INVALID_ARGUMENT",
        message: expect.stringContaining("component web: 8192 MB"),
        reason: "InvalidResourceRequestException",
      },
    });
    expect(cluster.applications.size).toBe(1);
  });

  it("[RM2] is accepted while there is no node at all, and waits", () => {
    const { cluster } = bench([]);
    expect(submitApplication(cluster, context("big", 8_192), NOW_MS).ok).toBe(true);
  });
});

describe("allocate", () => {
  it("[RM3] gives a reply that was lost again, container for container", () => {
    const { request, said, cluster } = bench();
    const lost = said(request(0, 2));
    const again = said(request(0, 2));
    expect(again).toEqual(lost);
    expect(again.allocated).toHaveLength(2);
    expect(cluster.containers.size).toBe(2);
  });

  it("[RM3] tells nothing new in a repeated reply, which may be heard by nobody", () => {
    const { request, said, reportContainer } = bench();
    const first = said(request(0, 1));
    const [containerId = ""] = idsOf(first.allocated);
    reportContainer(containerId, { state: "COMPLETE", exitStatus: 1 });
    const repeated = said(request(0));
    expect(repeated.responseId).toBe(1);
    expect(repeated.completed).toEqual([]);
    const next = said(request(1));
    expect(next).toMatchObject({ responseId: 2, completed: [{ containerId, exitStatus: 1 }] });
  });

  it("[RM3] refuses a responseId that is neither the last one nor the one before", () => {
    const { cluster, attemptId, request, said } = bench();
    said(request(0, 1));
    said(request(1, 1));
    expect(allocate(cluster, attemptId, request(0), NOW_MS)).toMatchObject({
      ok: false,
      error: { reason: "InvalidApplicationMasterRequestException" },
    });
  });

  it("[RM4] takes no asks from a request that was overtaken by a later one", () => {
    const { cluster, attemptId, request, said } = bench([]);
    const early = request(0, 2);
    said(request(0, 5));
    said(early);
    expect(cluster.scheduler.asks(attemptId)).toMatchObject([{ count: 5 }]);
  });

  it("[RM4] counts containers on their way, so that asking again asks for nothing more", () => {
    const { request, said, cluster } = bench();
    said(request(0, 2));
    const { allocated } = said(request(0, 3));
    expect(allocated).toHaveLength(2);
    const { allocated: more } = said(request(1, 1));
    expect(more).toHaveLength(1);
    expect(cluster.containers.size).toBe(3);
  });

  it("[RM5] keeps a released container's place until its node says that it is gone", () => {
    const { cluster, request, said, reportContainer } = bench();
    const [containerId = ""] = idsOf(said(request(0, 4)).allocated);
    said(request(1, 1, { releases: [containerId] }));
    const [orders = []] = unsentCleanups(cluster).values();
    expect(idsOf(orders)).toEqual([containerId]);
    expect(cluster.scheduler.nodeUsage("a:1")?.containers).toBe(4);
    cleanupsSent(cluster, orders, [], NOW_MS);
    expect(unsentCleanups(cluster).size).toBe(0);
    reportContainer(containerId, { state: "COMPLETE", exitStatus: -100 });
    const { completed, allocated } = said(request(1));
    expect(idsOf(completed)).toEqual([containerId]);
    expect(allocated).toHaveLength(1);
  });

  it("[RM5] has no power over the containers of others", () => {
    const { cluster, request, said } = bench();
    const [containerId = ""] = idsOf(said(request(0, 1)).allocated);
    const other = answerOf(submitApplication(cluster, context("two"), NOW_MS)).attemptId;
    registerApplicationMaster(cluster, other);
    const theft = { responseId: 0, sequence: 1, progress: 0, asks: [], releases: [containerId] };
    allocate(cluster, other, theft, NOW_MS);
    expect(cluster.containers.get(containerId)?.cleanup).toBeNull();
  });
});

describe("when nodes fail", () => {
  it("[RM6] a lost node's containers end with -100 and free their room", () => {
    const { cluster, report, request, said } = bench();
    const [containerId = ""] = idsOf(said(request(0, 1)).allocated);
    report("a", "LOST");
    const { completed } = said(request(1));
    expect(completed).toMatchObject([{ containerId, exitStatus: -100 }]);
    expect(cluster.nodes.get("a:1")?.state).toBe("LOST");
    expect(cluster.scheduler.usage().containers).toBe(0);
  });

  it("[RM6] a container that its master was never told of is placed again by itself", () => {
    const { cluster, report, request, said } = bench([]);
    said(request(0, 1));
    report("a");
    report("b");
    const [{ nodeId } = { nodeId: "" }] = [...cluster.containers.values()];
    report(nodeId.slice(0, 1), "LOST");
    const { allocated, completed } = said(request(0));
    expect(completed).toEqual([]);
    expect(allocated).toHaveLength(1);
    expect(allocated[0]?.nodeId).not.toBe(nodeId);
  });

  it("[RM7] an unhealthy node gets nothing new, and its containers are ordered to end", () => {
    const { cluster, report, request, said } = bench();
    const [containerId = ""] = idsOf(said(request(0, 1)).allocated);
    report("a", "PRESENT", { healthy: false, healthReport: "a disk is full" });
    expect(cluster.containers.get(containerId)?.cleanup?.diagnostics).toContain("a disk is full");
    expect(said(request(1, 1)).allocated).toEqual([]);
    report("a");
    expect(said(request(1)).allocated).toHaveLength(1);
  });

  it("[RM8] a container that is never seen on its node expires", () => {
    const { cluster, request, said } = bench();
    const [containerId = ""] = idsOf(said(request(0, 1)).allocated);
    expect(nextExpiryMs(cluster)).toBe(NOW_MS + ALLOCATION_EXPIRY_MS);
    expireAllocations(cluster, NOW_MS + ALLOCATION_EXPIRY_MS - 1);
    expect(cluster.containers.get(containerId)?.cleanup).toBeNull();
    expireAllocations(cluster, NOW_MS + ALLOCATION_EXPIRY_MS);
    expect(cluster.containers.get(containerId)?.cleanup?.exitStatus).toBe(-100);
    expect(nextExpiryMs(cluster)).toBeNull();
  });

  it("[RM8] one that was seen does not", () => {
    const { cluster, request, said, reportContainer } = bench();
    const [containerId = ""] = idsOf(said(request(0, 1)).allocated);
    reportContainer(containerId);
    expect(nextExpiryMs(cluster)).toBeNull();
  });

  it("[RM11] a container that nobody owns is ordered to end when its node reports it", () => {
    const { reportContainer } = bench();
    const { cleanup } = reportContainer("container_e01_1_0009_01_000001");
    expect(cleanup).toMatchObject([{ exitStatus: -106 }]);
  });

  it("[RM11] a report that comes late changes nothing", () => {
    const { cluster, report } = bench();
    const { acknowledged } = report("a", "LOST");
    const nodes = [
      { node: factsOf(cluster), presence: "PRESENT", incarnation: 1, reason: "" },
    ] as const;
    const late = { shard: "0", generation: acknowledged - 1, nodes, containers: [] };
    expect(reportNodes(cluster, late, NOW_MS).acknowledged).toBe(acknowledged);
    expect(cluster.nodes.get("a:1")?.state).toBe("LOST");
  });
});

function factsOf(cluster: Cluster) {
  const row = cluster.nodes.get("a:1");
  if (!row) throw new Error("there is no node a");
  return row.facts;
}

describe("the end of an application", () => {
  it("[RM10] by force is told to its master until that has answered", () => {
    const { cluster, applicationId, attemptId } = bench();
    forceKillApplication(cluster, applicationId, "by an operator", NOW_MS);
    expect(cluster.attemptsWithNews()).toEqual([attemptId]);
    const end = { finalStatus: "ENDED", diagnostics: "" } as const;
    finishApplicationMaster(cluster, attemptId, end, NOW_MS);
    expect(cluster.attemptsWithNews()).toEqual([]);
    expect(cluster.applications.get(applicationId)?.state).toBe("KILLED");
  });

  it("[RM10] orders all its containers to end, and takes its asks back", () => {
    const { cluster, attemptId, request, said } = bench();
    const ids = idsOf(said(request(0, 9)).allocated);
    const end = { finalStatus: "SUCCEEDED", diagnostics: "" } as const;
    finishApplicationMaster(cluster, attemptId, end, NOW_MS);
    const orders = [...unsentCleanups(cluster).values()].flat();
    expect(idsOf(orders).sort()).toEqual([...ids].sort());
    expect(cluster.asks.size).toBe(0);
    cleanupsSent(cluster, orders, ids, NOW_MS);
    expect(cluster.containers.size).toBe(0);
    expect(cluster.scheduler.usage().containers).toBe(0);
  });
});

describe("the directory of services", () => {
  const entry = (state: string) => ({
    user: "ann",
    name: "hello",
    version: "1",
    state,
    applicationId: null,
    components: ["web"],
    changedMs: NOW_MS,
  });
  const master = "default/ann/hello";
  const states = (cluster: Cluster) => listServices(cluster).map(({ state }) => state);

  it("[RM9] keeps what was said last, not what came last", () => {
    const cluster = new Cluster();
    reportService(cluster, master, NOW_MS + 2, entry("STABLE"), NOW_MS);
    reportService(cluster, master, NOW_MS + 1, entry("STARTED"), NOW_MS);
    expect(states(cluster)).toEqual(["STABLE"]);
  });

  it("[RM9] is not brought back by a late report of a destroyed service", () => {
    const cluster = new Cluster();
    reportService(cluster, master, NOW_MS + 2, null, NOW_MS);
    reportService(cluster, master, NOW_MS + 1, entry("STABLE"), NOW_MS + 60_000);
    expect(states(cluster)).toEqual([]);
    expect(cluster.directory.size).toBe(1);
    reportService(cluster, "default/ann/other", NOW_MS, entry("STABLE"), NOW_MS + 7_200_000);
    expect(cluster.directory.get(master)).toBeUndefined();
  });
});
