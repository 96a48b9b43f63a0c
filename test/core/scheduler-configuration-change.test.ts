import { describe, expect, it } from "vitest";
import { applyMutation } from "../../src/core/scheduler/configuration-mutation.ts";
import { checkRefresh } from "../../src/core/scheduler/configuration-refresh.ts";
import type { SchedulerConfMutation } from "../../src/shared/protocol/administration.ts";
import {
  configurationOf,
  findingsOf,
  type Properties,
  properties,
} from "../support/scheduler-configuration.ts";

const BEFORE: Properties = {
  "root.queues": "a,b",
  "root.a.capacity": "1w",
  "root.a.queues": "x,y",
  "root.a.x.capacity": "1w",
  "root.a.y.capacity": "1w",
  "root.a.y.state": "STOPPED",
  "root.b.capacity": "1w",
};

function mutate(change: Partial<SchedulerConfMutation>, before = BEFORE) {
  const nothing = { updateQueues: [], addQueues: [], removeQueues: [], globalUpdates: {} };
  return applyMutation(properties(before), { ...nothing, ...change });
}

/** The findings of going from one configuration to another while applications run. */
function refresh(
  change: Properties,
  running: Readonly<Record<string, number>> = {},
  before = BEFORE,
) {
  const kept = Object.entries({ ...before, ...change }).filter(([, value]) => value !== "");
  const findings = checkRefresh(
    configurationOf(before),
    configurationOf(Object.fromEntries(kept)),
    {
      applicationsIn: (path) =>
        Object.entries(running)
          .filter(([queue]) => queue === path || queue.startsWith(`${path}.`))
          .reduce((sum, [, count]) => sum + count, 0),
      isFirst: false,
    },
  );
  return findings.map(({ path, message }) => `${path}: ${message}`);
}

describe("a mutation", () => {
  it("[CS52] adds, changes and removes queues and sets the cluster's properties at once", () => {
    const changed = mutate({
      removeQueues: ["root.a.y"],
      addQueues: [{ queue: "root.c", parameters: { capacity: "2w", "user-limit-factor": "3" } }],
      updateQueues: [{ queue: "root.b", parameters: { capacity: "5w", state: "STOPPED" } }],
      globalUpdates: { "maximum-applications": "7", "yarn.cluster.max-application-priority": "3" },
    });
    expect(changed).toEqual({
      ok: true,
      value: properties({
        "root.queues": "a,b,c",
        "root.a.capacity": "1w",
        "root.a.queues": "x",
        "root.a.x.capacity": "1w",
        "root.b.capacity": "5w",
        "root.b.state": "STOPPED",
        "root.c.capacity": "2w",
        "root.c.user-limit-factor": "3",
        "maximum-applications": "7",
        "yarn.cluster.max-application-priority": "3",
      }),
    });
  });

  it("[CS52] removes a queue with all below it, and a property by an empty value", () => {
    const changed = mutate({
      removeQueues: ["root.a"],
      updateQueues: [{ queue: "root.b", parameters: { capacity: "" } }],
    });
    expect(changed).toEqual({ ok: true, value: properties({ "root.queues": "b" }) });
  });

  it("[CS52] may remove a queue and make it anew, with children in the same breath", () => {
    const changed = mutate({
      removeQueues: ["root.a"],
      addQueues: [
        { queue: "root.a", parameters: { capacity: "9w" } },
        { queue: "root.a.z", parameters: { capacity: "1w" } },
      ],
    });
    expect(
      changed.ok && [...changed.value.keys()].filter((name) => name.includes("root.a")),
    ).toEqual([
      ...properties({ "root.a.capacity": "", "root.a.queues": "", "root.a.z.capacity": "" }).keys(),
    ]);
  });

  it("[CS52] starts from root.default while nothing was configured", () => {
    const changed = mutate({ addQueues: [{ queue: "root.a", parameters: { capacity: "0" } }] }, {});
    expect(changed).toEqual({
      ok: true,
      value: properties({
        "root.queues": "default,a",
        "root.default.capacity": "100",
        "root.a.capacity": "0",
      }),
    });
  });

  it("[CS52] with a wrong step changes nothing, and tells every wrong step", () => {
    const before = properties(BEFORE);
    const mistakes = mutate({
      removeQueues: ["root", "root.aa", "b"],
      addQueues: [
        { queue: "root.b", parameters: {} },
        { queue: "root.x.y", parameters: {} },
        { queue: "root.a,c", parameters: {} },
      ],
      updateQueues: [
        { queue: "root.q", parameters: {} },
        { queue: "root.b", parameters: { "yarn.scheduler.capacity.root.a.capacity": "1w" } },
      ],
    });
    expect(findingsOf(mistakes)).toEqual([
      "remove-queue root: root cannot be removed",
      'remove-queue root.aa: there is no queue "root.aa"; did you mean a?',
      'remove-queue b: there is no queue "b": a path begins with root.',
      "add-queue root.b: is there already: update-queue changes it",
      'add-queue root.x.y: there is no queue "root.x"; did you mean a?',
      expect.stringContaining('add-queue root.a,c: "a,c" cannot be a queue\'s name'),
      'update-queue root.q: there is no queue "root.q"; did you mean a?',
      expect.stringContaining("is to be written without prefix and queue"),
    ]);
    expect(properties(BEFORE)).toEqual(before);
  });

  it("[CS52] of a great many queues is refused before it is begun", () => {
    const addQueues = Array.from({ length: 1_001 }, (_, at) => ({
      queue: `root.q${at}`,
      parameters: {},
    }));
    expect(findingsOf(mutate({ addQueues }))).toEqual([
      "mutation: names 1001 queues: expects at most 1000 at once",
    ]);
  });
});

describe("a change of a running scheduler", () => {
  it("[CS53] of shares, limits, ACLs and states, and new queues, needs no permission", () => {
    expect(
      refresh(
        {
          "root.queues": "a,b,c",
          "root.c.capacity": "5w",
          "root.a.capacity": "3w",
          "root.a.x.state": "STOPPED",
          "root.b.acl_submit_applications": "alice",
          "root.b.maximum-allocation-mb": "100",
        },
        { "root.a.x": 3, "root.b": 1 },
      ),
    ).toEqual([]);
  });

  it("[CS53] removes a queue that is STOPPED and empty", () => {
    expect(
      refresh({ "root.a.queues": "x", "root.a.y.capacity": "", "root.a.y.state": "" }),
    ).toEqual([]);
  });

  it("[CS53] does not remove a queue that is RUNNING, or has applications", () => {
    const change = { "root.queues": "a", "root.b.capacity": "" };
    const property = "yarn.scheduler.capacity.root.queues";
    const running = `${property}: cannot remove root.b while it is RUNNING: set its state to STOPPED first`;
    expect(refresh(change)).toEqual([running]);
    expect(refresh(change, { "root.b": 2 })).toEqual([
      running,
      `${property}: cannot remove root.b: 2 applications run there; wait for their end, or move them`,
    ]);
  });

  it("[CS53] does not take a queue for the one of the same name elsewhere", () => {
    const moved = {
      "root.queues": "a",
      "root.b.capacity": "",
      "root.a.queues": "x,y,b",
      "root.a.b.capacity": "1w",
    };
    expect(refresh(moved)).toEqual([
      expect.stringContaining("(root.a.b is another queue: queues are not moved)"),
    ]);
  });

  it("[CS53] makes a parent of a leaf only while it is STOPPED and empty", () => {
    const change = { "root.b.queues": "z", "root.b.z.capacity": "1w" };
    const needs =
      "yarn.scheduler.capacity.root.b.queues: cannot make the leaf root.b a parent queue";
    expect(refresh(change, { "root.b": 1 })).toEqual([
      `${needs}: set its state to STOPPED first`,
      `${needs}: 1 application runs there`,
    ]);
    const stopped = { ...BEFORE, "root.b.state": "STOPPED" };
    expect(refresh({ ...change, "root.b.state": "RUNNING" }, {}, stopped)).toEqual([]);
  });

  it("[CS53] takes a template away only when nothing runs in the leaves it has made", () => {
    const enabled = "root.a.auto-queue-creation-v2.enabled";
    const templated = { ...BEFORE, [enabled]: "true" };
    expect(refresh({ [enabled]: "" }, { "root.a.x": 4 }, templated)).toEqual([]);
    expect(refresh({ [enabled]: "" }, { "root.a.x": 4, "root.a.dynamic": 1 }, templated)).toEqual([
      `yarn.scheduler.capacity.${enabled}: cannot be switched off: 1 application runs in queues that were made from the template`,
    ]);
  });

  it("[CS53] does not lower the largest container of a leaf, which may be asked for", () => {
    const before = {
      ...BEFORE,
      "root.b.maximum-allocation-mb": "2048",
      "root.a.x.maximum-allocation-vcores": "4",
    };
    const lower = {
      "root.b.maximum-allocation-mb": "1024",
      "root.a.x.maximum-allocation-vcores": "8",
    };
    expect(refresh(lower, {}, before)).toEqual([
      expect.stringContaining("cannot lower the maximum allocation of root.b from 2048 MB"),
    ]);
  });

  it("[CS53] does not change a label's exclusivity", () => {
    const labels = "yarn.node-labels.cluster-node-labels";
    expect(
      refresh({ [labels]: "gpu(exclusive=false)" }, {}, { ...BEFORE, [labels]: "gpu" }),
    ).toEqual([
      `${labels}: cannot change the exclusivity of label "gpu": remove it, then add it anew`,
    ]);
  });
});
