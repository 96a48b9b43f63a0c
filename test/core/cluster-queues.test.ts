/** Queues as the ResourceManager keeps them: who may submit where, versions, dry runs, updates. */
import { describe, expect, it } from "vitest";
import {
  expireApplications,
  getActivities,
  submitApplication,
} from "../../src/core/cluster/application.ts";
import {
  moveApplication,
  setApplicationPriority,
} from "../../src/core/cluster/application-control.ts";
import { allocate, registerApplicationMaster } from "../../src/core/cluster/application-master.ts";
import type { Cluster } from "../../src/core/cluster/cluster.ts";
import { planApplication } from "../../src/core/cluster/plan.ts";
import { getQueues } from "../../src/core/cluster/queues.ts";
import {
  changeConfiguration,
  getSchedulerConf,
  getSchedulerConfVersions,
  propertiesAfter,
  rollBackConfiguration,
} from "../../src/core/cluster/scheduler-configuration.ts";
import { assert, type Reply } from "../../src/shared/errors.ts";
import type { SchedulerConfChange } from "../../src/shared/protocol/administration.ts";
import type { ApplicationSubmissionContext } from "../../src/shared/protocol/application-client.ts";
import { clusterWithNode } from "../support/core-administration.ts";

const NOW_MS = 1_600_000_000_000;
const NODE = "worker1.example.com:8041";
const GB = { memoryMb: 1_024, vcores: 1 };
const SHOP = {
  queues: {
    prod: { capacity: 70, acl_submit_applications: "ann,joe" },
    dev: { capacity: 30, "maximum-capacity": 50, acl_submit_applications: "joe" },
  },
};

function answerOf<Value>(reply: Reply<Value>): Value {
  assert(reply.ok, reply.ok ? "" : reply.error.message);
  return reply.value;
}

/** root.prod for ann and joe, root.dev for joe. */
function shop(settings: Record<string, unknown> = {}): Cluster {
  const cluster = clusterWithNode(NODE);
  answerOf(change(cluster, { ...SHOP, root: { acl_submit_applications: " " }, ...settings }));
  return cluster;
}

function change(cluster: Cluster, value: unknown, isDryRun = false) {
  const properties = propertiesAfter(cluster, { type: "document", value });
  if (!properties.ok) return properties;
  const what = { properties: properties.value, user: "admin", comment: "", isDryRun };
  return changeConfiguration(cluster, what, NOW_MS);
}

function mutate(cluster: Cluster, queue: string, parameters: Record<string, string>) {
  const mutation = {
    updateQueues: [{ queue, parameters }],
    addQueues: [],
    removeQueues: [],
    globalUpdates: {},
  };
  const what: SchedulerConfChange = { type: "mutation", mutation };
  const properties = answerOf(propertiesAfter(cluster, what));
  return changeConfiguration(
    cluster,
    { properties, user: "ann", comment: "smaller", isDryRun: false },
    NOW_MS,
  );
}

let submissions = 0;

function context(
  user: string,
  queue: string,
  more: Partial<ApplicationSubmissionContext> = {},
): ApplicationSubmissionContext {
  submissions += 1;
  return {
    name: "web",
    user,
    queue,
    submitter: { user, groups: [], isAdmin: false },
    lifetimeSeconds: -1,
    applicationType: "yarn-service",
    master: `default/${user}/web`,
    submissionId: `submission-${submissions}`,
    acls: {},
    largestRequests: [],
    ...more,
  };
}

function submitted(cluster: Cluster, user: string, queue: string) {
  const { attemptId, applicationId } = answerOf(
    submitApplication(cluster, context(user, queue), NOW_MS),
  );
  registerApplicationMaster(cluster, attemptId);
  return { attemptId, applicationId };
}

function ask(cluster: Cluster, attemptId: string, count: number, sequence = 1) {
  const asks = [{ priority: 0, allocationRequestId: 0, capability: GB, count }];
  const request = { responseId: 0, sequence, progress: 0, asks, releases: [] };
  return answerOf(allocate(cluster, attemptId, request, NOW_MS));
}

describe("submitting to a queue", () => {
  it("[RM23] needs the right to, and the refusal says which one is missing", () => {
    const cluster = shop();
    expect(submitApplication(cluster, context("ann", "prod"), NOW_MS).ok).toBe(true);
    expect(submitApplication(cluster, context("eve", "prod"), NOW_MS)).toMatchObject({
      ok: false,
      error: { code: "PERMISSION_DENIED", message: expect.stringContaining("SUBMIT_APP") },
    });
  });

  it("[RM23] goes where the placement rules say", () => {
    const rule = { type: "user", matches: "joe", policy: "custom", customPlacement: "root.dev" };
    const cluster = shop({
      "mapping-rule-format": "json",
      "mapping-rule-json": JSON.stringify({ rules: [rule] }),
    });
    const { applicationId } = submitted(cluster, "joe", "default");
    expect(cluster.applications.get(applicationId)?.queue).toBe("root.dev");
  });

  it("[RM23] that gives it so much time ends it when that is over", () => {
    const cluster = shop();
    answerOf(mutate(cluster, "root.dev", { "maximum-application-lifetime": "60" }));
    const { applicationId } = submitted(cluster, "joe", "dev");
    expireApplications(cluster, NOW_MS + 59_999);
    expect(cluster.applications.get(applicationId)?.state).toBe("RUNNING");
    expireApplications(cluster, NOW_MS + 60_000);
    expect(cluster.applications.get(applicationId)).toMatchObject({
      state: "KILLED",
      masterUnaware: true,
    });
  });

  it("[RM23] it may move to another one, with the right to submit there", () => {
    const cluster = shop();
    const { applicationId, attemptId } = submitted(cluster, "joe", "dev");
    ask(cluster, attemptId, 1);
    const joe = { user: "joe", groups: [], isAdmin: false };
    const moved = moveApplication(cluster, applicationId, "root.prod", joe, NOW_MS);
    expect(moved).toMatchObject({ ok: true, value: { queue: "root.prod" } });
    const eve = { ...joe, user: "eve" };
    expect(moveApplication(cluster, applicationId, "root.dev", eve, NOW_MS).ok).toBe(false);
    expect(queue(cluster, "root.prod")?.containers).toBe(1);
  });

  it("[RM23] a priority is at most the cluster's", () => {
    const cluster = shop();
    const { applicationId } = submitted(cluster, "joe", "dev");
    const reply = setApplicationPriority(cluster, applicationId, 7, NOW_MS);
    expect(reply).toMatchObject({ ok: true, value: { priority: 0 } });
  });
});

const queue = (cluster: Cluster, path: string) =>
  getQueues(cluster).root.children.find((child) => child.path === path);

describe("the scheduler's configuration", () => {
  it("[RM24] is refused whole, with every mistake", () => {
    const cluster = shop();
    const before = getSchedulerConf(cluster);
    const reply = change(cluster, {
      queues: { a: { capacity: "lots" }, b: { capacity: 60, user: 1 } },
    });
    assert(!reply.ok, "it is refused");
    expect(reply.error.findings?.length).toBeGreaterThan(1);
    expect(getSchedulerConf(cluster)).toEqual(before);
  });

  it("[RM24] keeps its versions, and goes back to one", () => {
    const cluster = shop();
    const { version } = getSchedulerConf(cluster);
    answerOf(mutate(cluster, "root.dev", { "maximum-capacity": "40" }));
    expect(queue(cluster, "root.dev")?.partitions[0]?.absoluteMaximumCapacity).toBeCloseTo(0.4);
    answerOf(rollBackConfiguration(cluster, version, "admin", NOW_MS));
    expect(queue(cluster, "root.dev")?.partitions[0]?.absoluteMaximumCapacity).toBeCloseTo(0.5);
    expect(getSchedulerConfVersions(cluster).map((each) => each.comment)).toEqual([
      `as version ${version}`,
      "smaller",
      "",
    ]);
  });

  it("[RM24] ends no container, and is the same after a restart", () => {
    const cluster = shop();
    const { attemptId } = submitted(cluster, "joe", "dev");
    expect(ask(cluster, attemptId, 2).allocated).toHaveLength(2);
    answerOf(mutate(cluster, "root.dev", { "maximum-capacity": "30" }));
    expect(cluster.containers.size).toBe(2);
    const before = getQueues(cluster);
    cluster.restore();
    expect(getQueues(cluster)).toEqual(before);
  });

  it("[RM24] tried first changes nothing", () => {
    const cluster = shop();
    const before = getSchedulerConf(cluster);
    expect(change(cluster, SHOP, true).ok).toBe(true);
    expect(getSchedulerConf(cluster)).toEqual(before);
  });
});

describe("a dry run", () => {
  const asks = (count: number) => [{ priority: 0, allocationRequestId: 0, capability: GB, count }];

  it("[RM25] says where containers would go and what would wait, and changes nothing", () => {
    const cluster = shop();
    const before = getQueues(cluster);
    const plan = answerOf(planApplication(cluster, context("joe", "dev"), asks(6), NOW_MS));
    expect(plan).toMatchObject({
      queue: "root.dev",
      waiting: [{ count: 6 - plan.placements.length, reason: expect.stringContaining("root.dev") }],
    });
    expect(plan.placements.every(({ nodeId }) => nodeId === NODE)).toBe(true);
    expect(getQueues(cluster)).toEqual(before);
    expect(cluster.applications.size).toBe(0);
  });

  it("[RM25] is refused for what the submission would be", () => {
    const reply = planApplication(shop(), context("eve", "prod"), asks(1), NOW_MS);
    expect(reply).toMatchObject({ ok: false, error: { code: "PERMISSION_DENIED" } });
  });

  it("[RM25] what waits is told to whoever asks later, too", () => {
    const cluster = shop();
    const { attemptId, applicationId } = submitted(cluster, "joe", "dev");
    ask(cluster, attemptId, 20);
    const joe = { user: "joe", groups: [], isAdmin: false };
    expect(getActivities(cluster, joe)).toMatchObject([
      { applicationId, queue: "root.dev", waiting: [{ reason: expect.stringMatching(/\S/) }] },
    ]);
  });
});

describe("a container that its application wants changed", () => {
  const update = (cluster: Cluster, attemptId: string, version: number, memoryMb: number) => {
    const [row] = cluster.containers.values();
    assert(row !== undefined, "there is a container");
    const capability = { memoryMb, vcores: 1 };
    const type = memoryMb > 1_024 ? ("INCREASE_RESOURCE" as const) : ("DECREASE_RESOURCE" as const);
    const updates = [{ containerId: row.containerId, version, type, capability }];
    const request = { responseId: 1, sequence: 5, progress: 0, asks: [], releases: [], updates };
    return answerOf(allocate(cluster, attemptId, request, NOW_MS));
  };

  it("[RM26] grows on its node, once, however often it is said", () => {
    const cluster = shop();
    const { attemptId } = submitted(cluster, "joe", "dev");
    ask(cluster, attemptId, 1);
    for (const _ of ["said", "said again"]) {
      const { updated, updateErrors } = update(cluster, attemptId, 0, 2_048);
      expect(updateErrors).toEqual([]);
      expect(updated).toMatchObject([{ version: 1, resource: { memoryMb: 2_048 } }]);
    }
    expect(queue(cluster, "root.dev")?.partitions[0]?.used.memoryMb).toBe(2_048);
  });

  it("[RM26] is refused for a version that it does not have, and for more than there is", () => {
    const cluster = shop();
    const { attemptId } = submitted(cluster, "joe", "dev");
    ask(cluster, attemptId, 1);
    expect(update(cluster, attemptId, 3, 2_048).updateErrors).toMatchObject([
      { reason: "INCORRECT_CONTAINER_VERSION_ERROR" },
    ]);
    expect(update(cluster, attemptId, 0, 999_999).updateErrors).toMatchObject([
      { reason: "RESOURCE_OUTSIDE_ALLOWED_RANGE" },
    ]);
  });
});
