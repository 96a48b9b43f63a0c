import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  DEFAULT_CONFIGURATION,
  type QueueConfiguration,
} from "../../src/core/scheduler/configuration.ts";
import { parseSchedulerProperties } from "../../src/core/scheduler/configuration-properties.ts";
import { propertiesOf } from "../../src/core/scheduler/property-catalog.ts";
import { LIMITS } from "../../src/shared/limits.ts";
import {
  configurationOf,
  mistakesIn,
  type Properties,
  queueOf,
} from "../support/scheduler-configuration.ts";
import { readProjectFile } from "../support/source-files.ts";

/** Two queues that share the cluster, and what else a test is about. */
function two(more: Properties = {}): Properties {
  return { "root.queues": "a,b", "root.a.capacity": "60", "root.b.capacity": "40", ...more };
}

describe("a configuration", () => {
  it("[CS41] that names no queue is one queue, root.default, with the whole cluster", () => {
    expect(configurationOf({})).toEqual(DEFAULT_CONFIGURATION);
  });

  it("[CS41] has YARN's defaults for everything that it does not say", () => {
    expect(queueOf(two(), "root.a")).toMatchObject({
      state: "RUNNING",
      minimumUserLimit: 1,
      userLimitFactor: 1,
      ordering: { policy: "fifo" },
      maximumApplications: undefined,
      maximumAmResourceFraction: 0.1,
      maximumCapacity: { mode: "percentage", percent: 100 },
      maximumLifetimeSeconds: -1,
      preemptionDisabled: false,
      submitAcl: { everybody: false, users: [], groups: [] },
    });
    expect(configurationOf(two())).toMatchObject({
      root: { ordering: { policy: "utilization" }, submitAcl: { everybody: true } },
      maximumApplications: 10_000,
      nodeLocalityDelay: 40,
      preemption: { enabled: false, maxWaitBeforeKillMs: 15_000 },
    });
  });

  it("[CS41] of the whole cluster is read by YARN's names", () => {
    const configuration = configurationOf(
      two({
        "yarn.scheduler.minimum-allocation-mb": "1024",
        "yarn.scheduler.maximum-allocation-mb": "8192",
        "yarn.scheduler.maximum-allocation-vcores": "4",
        "yarn.resource-types.yarn.io/gpu.maximum-allocation": "2",
        "yarn.cluster.max-application-priority": "10",
        "maximum-applications": "500",
        "user.max-parallel-apps": "7",
        "user.first.last.max-parallel-apps": "3",
        "rack-locality-full-reset": "false",
        "yarn.resourcemanager.scheduler.monitor.enable": "true",
        "yarn.resourcemanager.monitor.capacity.preemption.total_preemption_per_round": "0.5",
        "yarn.resourcemanager.monitor.capacity.preemption.intra-queue-preemption.enabled": "true",
      }),
    );
    expect(configuration).toMatchObject({
      minimumAllocation: { memoryMb: 1_024, vcores: 1 },
      maximumAllocation: { memoryMb: 8_192, vcores: 4, extra: { "yarn.io/gpu": 2 } },
      maximumApplicationPriority: 10,
      maximumApplications: 500,
      userMaxParallelApplications: 7,
      maxParallelApplicationsOf: { "first.last": 3 },
      rackLocalityFullReset: false,
      preemption: { enabled: true, totalPreemptionPerRound: 0.5, intraQueueEnabled: true },
    });
  });

  it("[CS41] may be the one that Hadoop ships", () => {
    const shipped = {
      "maximum-applications": "10000",
      "maximum-am-resource-percent": "0.1",
      "resource-calculator": "org.apache.hadoop.yarn.util.resource.DefaultResourceCalculator",
      "root.queues": "default",
      "root.default.capacity": "100",
      "root.default.user-limit-factor": "1",
      "root.default.maximum-capacity": "100",
      "root.default.state": "RUNNING",
      "root.default.acl_submit_applications": "*",
      "root.default.acl_administer_queue": "*",
      "root.default.acl_application_max_priority": "*",
      "root.default.maximum-application-lifetime": "-1",
      "root.default.default-application-lifetime": "-1",
      "node-locality-delay": "40",
      "rack-locality-additional-delay": "-1",
      "queue-mappings": "",
      "queue-mappings-override.enable": "false",
      "per-node-heartbeat.maximum-offswitch-assignments": "1",
      "application.fail-fast": "false",
      "workflow-priority-mappings": "",
      "workflow-priority-mappings-override.enable": "false",
    };
    const everybody = { submitAcl: { everybody: true }, administerAcl: { everybody: true } };
    const [queue] = DEFAULT_CONFIGURATION.root.children;
    expect(configurationOf(shipped)).toEqual({
      ...DEFAULT_CONFIGURATION,
      root: { ...DEFAULT_CONFIGURATION.root, children: [{ ...queue, ...everybody }] },
    });
  });

  it("[CS40] tells all mistakes at once, each under its property's name", () => {
    const mistakes = mistakesIn(
      two({
        "root.a.state": "PAUSED",
        "root.a.user-limit-factor": "-2",
        "root.b.maximum-am-resource-percent": "10",
        "root.b.priority": "1.5",
        "root.b.disable_preemption": "yes",
        "yarn.scheduler.minimum-allocation-mb": "0",
      }),
    );
    expect(mistakes).toEqual([
      'yarn.scheduler.minimum-allocation-mb: expects a whole number from 1 to 8589934592, not "0"',
      'root.a.state: expects one of RUNNING, STOPPED, not "PAUSED"',
      expect.stringMatching(/^root\.a\.user-limit-factor: .*not "-2"$/),
      'root.b.priority: expects a whole number from -2147483647 to 2147483647, not "1.5"',
      expect.stringMatching(/^root\.b\.maximum-am-resource-percent: .*0\.1 is 10 %/),
      'root.b.disable_preemption: expects true or false, not "yes"',
    ]);
  });

  it("[CS40] is read or refused, whatever stands in it", () => {
    const known = (["queue", "cluster", "elsewhere"] as const).flatMap((place) =>
      propertiesOf(place).map(({ name }) =>
        place === "queue" ? `yarn.scheduler.capacity.root.a.${name}` : name,
      ),
    );
    const name = fc.oneof(
      fc.constantFrom(...known, "yarn.scheduler.capacity.root.queues"),
      fc.string().map((text) => `yarn.scheduler.capacity.root.${text}`),
      fc.string(),
    );
    const value = fc.oneof(
      fc.string(),
      fc.constantFrom(
        "a",
        "a,b",
        "100",
        "1w",
        "-1",
        "true",
        "*",
        " ",
        "[memory=1,vcores=1]",
        "[",
        "1e400",
      ),
      fc.constantFrom('{"rules":[]}', "json", "u:%user:%user", "__proto__", "constructor"),
    );
    fc.assert(
      fc.property(fc.array(fc.tuple(name, value), { maxLength: 20 }), (entries) => {
        const parsed = parseSchedulerProperties(new Map(entries));
        if (parsed.ok) expect(parsed.value.root.path).toBe("root");
        else expect(parsed.error).toMatchObject({ code: "INVALID_ARGUMENT" });
      }),
      { numRuns: 500 },
    );
  });
});

describe("a property", () => {
  it.each([
    ["root.a.capacty", "is not a property of a queue; did you mean capacity?"],
    [
      "maximum-application",
      "is not a property of the scheduler; did you mean maximum-applications?",
    ],
    ["yarn.scheduler.minimum-alocation-mb", "did you mean yarn.scheduler.minimum-allocation-mb?"],
    [
      "root.bb.state",
      'there is no queue "bb" in root: root.queues does not name it; did you mean b?',
    ],
  ])("[CS42] that nobody knows is refused: %s", (name, message) => {
    expect(mistakesIn(two({ [name]: "1" }))).toEqual([expect.stringContaining(message)]);
  });

  it.each([
    ["root.a.auto-create-child-queue.enabled", "use auto-queue-creation-v2.enabled"],
    ["root.a.leaf-queue-template.capacity", "use auto-queue-creation-v2.enabled"],
    ["root.a.acl_application_max_priority", "yarn.cluster.max-application-priority"],
    ["mapping-rule-json-file", "put the rules into mapping-rule-json"],
    ["lazy-preemption-enabled", "max_wait_before_kill"],
  ])("[CS42] of YARN that nothing would act on is refused by its name: %s", (name, instead) => {
    const [mistake, ...more] = mistakesIn(two({ [name]: "true" }));
    expect(mistake).toMatch(/is not supported: /);
    expect(mistake).toContain(instead);
    expect(more).toEqual([]);
  });

  it("[CS42] that is refused may say what happens anyway", () => {
    const harmless = {
      "root.a.acl_application_max_priority": "*",
      "root.a.auto-create-child-queue.enabled": "false",
      "workflow-priority-mappings": " ",
      "legacy-queue-mode.enabled": "true",
    };
    expect(configurationOf(two(harmless))).toEqual(configurationOf(two()));
  });

  it("[CS42] that decides nothing here changes nothing", () => {
    expect(
      configurationOf(
        two({
          "per-node-heartbeat.maximum-offswitch-assignments": "5",
          "schedule-asynchronously.enable": "true",
          "root.a.acl_submit_reservations": "*",
        }),
      ),
    ).toEqual(configurationOf(two()));
  });

  it("[CS42] stands in docs/scheduler-properties.md, whatever becomes of it", () => {
    const documentation = readProjectFile("docs/scheduler-properties.md");
    const missing = (["queue", "cluster", "elsewhere"] as const)
      .flatMap((place) => propertiesOf(place).map(({ name }) => name))
      .filter((name) => !documentation.includes(`\`${name}\``));
    expect(missing).toEqual([]);
  });

  it("[CS42] below a queue belongs to the deepest queue of that path", () => {
    const nested = {
      "root.queues": "state",
      "root.state.capacity": "100",
      "root.state.queues": "capacity",
      "root.state.capacity.capacity": "100",
      "root.state.state": "STOPPED",
    };
    expect(queueOf(nested, "root.state.capacity")).toMatchObject({ state: "STOPPED" });
  });
});

describe("a capacity", () => {
  const capacityOf = (text: string) =>
    queueOf({ "root.queues": "a", "root.a.capacity": text }, "root.a").capacity;

  it.each([
    ["100", { mode: "percentage", percent: 100 }],
    ["4w", { mode: "weight", weight: 4 }],
    ["0.5w", { mode: "weight", weight: 0.5 }],
    ["[memory=10240,vcores=12]", { mode: "absolute", resource: { memoryMb: 10_240, vcores: 12 } }],
    [
      "[memory=10Gi, vcores=1k]",
      { mode: "absolute", resource: { memoryMb: 10_240, vcores: 1_000 } },
    ],
    ["[memory-mb=1G,vcores=1]", { mode: "absolute", resource: { memoryMb: 953, vcores: 1 } }],
    [
      "[memory=1,vcores=1,yarn.io/gpu=2]",
      { mode: "absolute", resource: { memoryMb: 1, vcores: 1, extra: { "yarn.io/gpu": 2 } } },
    ],
  ])("[CS43] may be %s", (text, capacity) => {
    expect(capacityOf(text)).toEqual(capacity);
  });

  it.each([
    "-1",
    "101",
    "half",
    "50%",
    "0w",
    "w",
    "[memory=10240]",
    "[memory=10240,vcores=12",
    "[memory=1,vcores=1,memory=2]",
    "[mem=1,vcores=1]",
    "[memory=1Xi,vcores=1]",
    "[memory=1,vcores=-1]",
    "1e3",
  ])("[CS43] cannot be %s", (text) => {
    const mistakes = mistakesIn({ "root.queues": "a", "root.a.capacity": text });
    expect(mistakes).toEqual([expect.stringMatching(/^root\.a\.capacity: expects /)]);
  });

  it("[CS43] must be given to every queue but root, which has everything", () => {
    expect(mistakesIn({ "root.queues": "a", "root.capacity": "50" })).toEqual([
      "root.capacity: root always has 100 percent: leave it out",
      "root.a.capacity: is missing: expects percent (50), a weight (1w) or resources",
    ]);
  });

  it("[CS44] in percent comes to 100 with its siblings', give or take 0.05", () => {
    expect(mistakesIn(two({ "root.b.capacity": "30" }))).toEqual([
      "root.queues: the capacities come to 90 percent, not 100 (a 60, b 30)",
    ]);
    expect(mistakesIn(two({ "root.b.capacity": "40.04" }))).toEqual([]);
    expect(mistakesIn(two({ "root.b.capacity": "40.06" }))).toHaveLength(1);
  });

  it("[CS44] may be 0 for all siblings when the parent allows it", () => {
    const zero = two({ "root.a.capacity": "0", "root.b.capacity": "0" });
    expect(mistakesIn(zero)).toEqual([expect.stringContaining("come to 0 percent")]);
    expect(mistakesIn({ ...zero, "root.allow-zero-capacity-sum": "true" })).toEqual([]);
    const weighted = { "root.queues": "a", "root.a.capacity": "1w", "root.a.queues": "x" };
    expect(mistakesIn({ ...weighted, "root.a.x.capacity": "0" })).toEqual([]);
  });

  it("[CS44] is written as its siblings' are", () => {
    expect(mistakesIn(two({ "root.b.capacity": "2w" }))).toEqual([
      "root.b.capacity: is 2w, but root.a next to it has 60: siblings use one of percent, weights and resources",
    ]);
  });

  it("[CS44] may be a weight below a queue with percent, but resources only below resources", () => {
    const below = (text: string) => two({ "root.a.queues": "x", "root.a.x.capacity": text });
    expect(mistakesIn(below("1w"))).toEqual([]);
    expect(mistakesIn(below("[memory=1,vcores=1]"))).toEqual([
      "root.a.x.capacity: is [memory=1,vcores=1], but root.a above it has 60: both in resources, or neither",
    ]);
  });

  it("[CS44] is valid in every tree whose siblings come to 100", () => {
    type Tree = readonly Tree[];
    const { tree } = fc.letrec<{ tree: Tree }>((tie) => ({
      tree: fc.oneof(
        { maxDepth: 4, withCrossShrink: true },
        fc.constant([]),
        fc.array(tie("tree"), { minLength: 1, maxLength: 5 }),
      ),
    }));
    const write = (path: string, children: Tree, into: Record<string, string>) => {
      if (children.length > 0) into[`${path}.queues`] = children.map((_, at) => `q${at}`).join(",");
      for (const [at, child] of children.entries()) {
        into[`${path}.q${at}.capacity`] = (100 / children.length).toFixed(3);
        write(`${path}.q${at}`, child, into);
      }
      return into;
    };
    const shapeOf = ({ children }: QueueConfiguration): Tree => children.map(shapeOf);
    fc.assert(
      fc.property(tree, (shape) => {
        const top = [shape];
        expect(shapeOf(configurationOf(write("root", top, {})).root)).toEqual(top);
      }),
    );
  });

  it("[CS45] in resources is not more than the parent's", () => {
    expect(
      mistakesIn({
        "root.queues": "a",
        "root.a.capacity": "[memory=100,vcores=10]",
        "root.a.queues": "x,y",
        "root.a.x.capacity": "[memory=60,vcores=1]",
        "root.a.y.capacity": "[memory=60,vcores=1]",
      }),
    ).toEqual(["root.a.capacity: is 100 MB, 10 vcores: its children need 120 MB, 2 vcores"]);
  });

  it.each([
    ["60", "50", "is 50: below the capacity of 60"],
    ["[memory=10,vcores=2]", "[memory=20,vcores=1]", "is below the capacity of 10 MB, 2 vcores"],
    ["[memory=10,vcores=2]", "50", "is in percent, but the capacity is in resources"],
    ["60", "[memory=20,vcores=1]", "is in resources, so the capacity must be, too"],
    ["60", "2w", "expects percent (50; -1 is 100) or resources"],
  ])("[CS45] of %s cannot have a maximum of %s", (capacity, maximum, message) => {
    const mistakes = mistakesIn({
      "root.queues": "a,b",
      "root.a.capacity": capacity,
      "root.a.maximum-capacity": maximum,
      "root.b.capacity": capacity === "60" ? "40" : capacity,
    });
    expect(mistakes).toEqual([expect.stringContaining(`root.a.maximum-capacity: ${message}`)]);
  });

  it("[CS45] has a maximum within its parent's", () => {
    expect(
      mistakesIn({
        "root.queues": "a",
        "root.a.capacity": "[memory=10,vcores=2]",
        "root.a.maximum-capacity": "[memory=20,vcores=2]",
        "root.a.queues": "x",
        "root.a.x.capacity": "[memory=10,vcores=2]",
        "root.a.x.maximum-capacity": "[memory=30,vcores=2]",
      }),
    ).toEqual(["root.a.x.maximum-capacity: is above the maximum of root.a"]);
  });

  it("[CS45] has a maximum of 100 percent when that is -1", () => {
    expect(queueOf(two({ "root.a.maximum-capacity": "-1" }), "root.a").maximumCapacity).toEqual({
      mode: "percentage",
      percent: 100,
    });
  });
});

describe("a queue", () => {
  const family = (more: Properties) =>
    two({ "root.a.queues": "x", "root.a.x.capacity": "100", ...more });

  it("[CS46] takes state, users' weights, preemption, lifetimes and the largest container from its parent", () => {
    const child = queueOf(
      family({
        "root.a.state": "STOPPED",
        "root.a.user-settings.alice.weight": "0.5",
        "root.a.disable_preemption": "true",
        "root.a.maximum-application-lifetime": "3600",
        "root.a.maximum-allocation-mb": "2048",
      }),
      "root.a.x",
    );
    expect(child).toMatchObject({
      state: "STOPPED",
      userWeights: { alice: 0.5 },
      preemptionDisabled: true,
      maximumLifetimeSeconds: 3_600,
      defaultLifetimeSeconds: 3_600,
      maximumAllocation: { memoryMb: 2_048 },
    });
  });

  it("[CS46] takes limits of users, masters and parallel applications from the cluster, not its parent", () => {
    const child = queueOf(
      family({
        "minimum-user-limit-percent": "25",
        "user-limit-factor": "2",
        "maximum-am-resource-percent": "0.5",
        "max-parallel-apps": "9",
        "root.a.user-limit-factor": "7",
        "root.a.maximum-am-resource-percent": "0.7",
      }),
      "root.a.x",
    );
    expect(child).toMatchObject({
      minimumUserLimit: 0.25,
      userLimitFactor: 2,
      maximumAmResourceFraction: 0.5,
      maxParallelApplications: 9,
    });
  });

  it.each([
    [
      { "root.a.state": "STOPPED", "root.a.x.state": "RUNNING" },
      "root.a.x.state: cannot be RUNNING",
    ],
    [
      { "root.b.minimum-user-limit-percent": "50", "root.b.user-settings.bob.weight": "3" },
      "root.b.user-settings.bob.weight: expects a weight from 0 to 2",
    ],
    [
      { "root.b.maximum-application-lifetime": "10", "root.b.default-application-lifetime": "20" },
      "root.b.default-application-lifetime: is 20 s: the maximum is 10 s",
    ],
    [
      { "yarn.scheduler.maximum-allocation-mb": "1000", "root.b.maximum-allocation-mb": "2000" },
      "root.b.maximum-allocation-mb: is 2000 MB",
    ],
    [
      { "yarn.scheduler.minimum-allocation-mb": "10", "yarn.scheduler.maximum-allocation-mb": "5" },
      "yarn.scheduler.maximum-allocation-mb: is 5: below the minimum allocation of 10 MB",
    ],
    [{ "root.b.user-settings.bob.weight": "0" }, "expects a weight above 0"],
    [
      {
        "yarn.scheduler.minimum-allocation-vcores": "2",
        "yarn.scheduler.maximum-allocation-vcores": "1",
      },
      "yarn.scheduler.maximum-allocation-vcores: is 1: below the minimum allocation of 2",
    ],
    [{ "root.a.ordering-policy": "fair" }, "root.a.ordering-policy: expects one of utilization"],
    [
      { "root.b.ordering-policy": "fifo-with-partitions" },
      "root.b.ordering-policy: expects one of fifo, fair",
    ],
    [{ "root.b.acl_submit_applications": "a b c" }, "root.b.acl_submit_applications: expects `*`"],
    [{ "legacy-queue-mode.enabled": "false" }, "legacy-queue-mode.enabled: is not supported"],
  ])("[CS46] is refused where its settings contradict each other: %j", (more, mistake) => {
    expect(mistakesIn(family(more as unknown as Properties))).toEqual([
      expect.stringContaining(mistake),
    ]);
  });

  it.each(["a.b", "", " ", "../etc", "a b", "-a", "a/b", "ä", "user-settings", "root"])(
    "[CS48] cannot be called %j",
    (name) => {
      const mistakes = mistakesIn({ "root.queues": `ok,${name}`, "root.ok.capacity": "100" });
      if (name.trim() === "") expect(mistakes).toEqual([]);
      else expect(mistakes[0]).toMatch(/^root\.queues: ".*" cannot be a queue's name/);
    },
  );

  it("[CS48] cannot stand twice below one parent, but its name may stand elsewhere again", () => {
    expect(mistakesIn(two({ "root.queues": "a,b,a" }))).toEqual([
      'root.queues: "a" stands there twice',
    ]);
    expect(mistakesIn(two({ "root.a.queues": "b", "root.a.b.capacity": "100" }))).toEqual([]);
  });

  it("[CS48] is not nested deeper than the limit, and there are not more than the limit", () => {
    const path = (depth: number) => ["root", ...Array(depth).fill("q")].join(".");
    const deep = Object.fromEntries(
      Array.from({ length: LIMITS.queueDepthMax }, (_, depth) => [
        [`${path(depth)}.queues`, "q"],
        [`${path(depth + 1)}.capacity`, "100"],
      ]).flat(),
    );
    expect(mistakesIn(deep)[0]).toContain("is too deep");
    const many = Array.from({ length: LIMITS.queuesMax }, (_, at) => `q${at}`).join(",");
    expect(mistakesIn({ "root.queues": many })[0]).toContain("makes more than 1000 queues");
  });
});

describe("a label", () => {
  const labelled = (more: Properties) =>
    two({ "yarn.node-labels.cluster-node-labels": "gpu,ssd(exclusive=false)", ...more });
  const GPU = "accessible-node-labels.gpu";

  it("[CS47] gives each queue that may use it a capacity there, apart from the default partition", () => {
    const settings = labelled({
      "root.a.accessible-node-labels": "gpu",
      [`root.a.${GPU}.capacity`]: "100",
      [`root.a.${GPU}.maximum-am-resource-percent`]: "0.3",
      "root.b.accessible-node-labels": " ",
      "root.a.default-node-label-expression": "gpu",
    });
    expect(configurationOf(settings).nodeLabels).toEqual([
      { name: "gpu", exclusive: true },
      { name: "ssd", exclusive: false },
    ]);
    expect(queueOf(settings, "root.a")).toMatchObject({
      accessibleNodeLabels: ["gpu"],
      defaultNodeLabel: "gpu",
      partitions: {
        gpu: { capacity: { mode: "percentage", percent: 100 }, maximumAmResourceFraction: 0.3 },
      },
    });
    expect(queueOf(settings, "root.b")).toMatchObject({ accessibleNodeLabels: [], partitions: {} });
  });

  it("[CS47] that nothing is said about guarantees nothing, and may be used by all", () => {
    expect(queueOf(labelled({}), "root.a").partitions).toMatchObject({
      gpu: { capacity: { percent: 0 }, maximumCapacity: { percent: 100 } },
    });
  });

  it("[CS44] has percentages that come to 100 by themselves", () => {
    const mistakes = mistakesIn(labelled({ [`root.a.${GPU}.capacity`]: "50" }));
    expect(mistakes).toEqual([
      "root.queues: the capacities of label gpu come to 50 percent, not 100 (a 50)",
    ]);
  });

  it.each([
    [{ "root.a.accessible-node-labels": "gpus" }, 'there is no label "gpus"'],
    [
      { "root.a.accessible-node-labels": "gpu", "root.a.default-node-label-expression": "ssd" },
      '"ssd" is not accessible here',
    ],
    [
      { "root.a.accessible-node-labels": "ssd", [`root.a.${GPU}.capacity`]: "100" },
      '"gpu" is not accessible here',
    ],
    [{ "yarn.node-labels.enabled": "false" }, "cannot be false"],
    [{ "yarn.node-labels.cluster-node-labels": "g p u" }, "expects labels such as gpu"],
  ])("[CS47] is refused where it cannot be: %j", (more, message) => {
    expect(mistakesIn(labelled(more as unknown as Properties))).toEqual([
      expect.stringContaining(message),
    ]);
  });

  it("[CS47] is root's as a whole, whatever stands at root", () => {
    const root = { "root.accessible-node-labels": "gpu", [`root.${GPU}.capacity`]: "100" };
    expect(queueOf(labelled(root), "root")).toMatchObject({
      accessibleNodeLabels: "*",
      partitions: { gpu: { capacity: { percent: 100 } }, ssd: { capacity: { percent: 100 } } },
    });
    expect(mistakesIn(labelled({ [`root.${GPU}.capacity`]: "50" }))).toEqual([
      `root.${GPU}.capacity: root always has 100 percent: leave it out`,
    ]);
  });

  it("[CS47] of a child is one of its parent's", () => {
    const mistakes = mistakesIn(
      labelled({
        "root.a.accessible-node-labels": "gpu",
        "root.a.queues": "x",
        "root.a.x.capacity": "100",
        "root.a.x.accessible-node-labels": "*",
      }),
    );
    expect(mistakes).toEqual([
      expect.stringContaining("root.a.x.accessible-node-labels: cannot be *"),
    ]);
  });
});

describe("a template", () => {
  const users = (more: Properties = {}): Properties => ({
    "root.queues": "users",
    "root.users.capacity": "1w",
    "root.users.auto-queue-creation-v2.enabled": "true",
    ...more,
  });

  it("[CS49] makes leaves of weight 1 without limit for their one user", () => {
    expect(queueOf(users(), "root.users").template).toMatchObject({
      maxQueues: 1_000,
      expirySeconds: 300,
      leaf: { capacity: { mode: "weight", weight: 1 }, userLimitFactor: -1 },
    });
  });

  it("[CS49] says what its leaves are like; leaf-template is stronger than template", () => {
    const { template } = queueOf(
      users({
        "root.users.auto-queue-creation-v2.template.capacity": "3w",
        "root.users.auto-queue-creation-v2.template.ordering-policy": "fair",
        "root.users.auto-queue-creation-v2.leaf-template.capacity": "5w",
        "root.users.auto-queue-creation-v2.leaf-template.acl_submit_applications": "*",
        "root.users.auto-queue-creation-v2.max-queues": "20",
        "root.users.auto-queue-creation-v2.queue-auto-removal.enable": "false",
      }),
      "root.users",
    );
    expect(template).toMatchObject({
      maxQueues: 20,
      expirySeconds: LIMITS.lifetimeSecondsMax,
      leaf: {
        capacity: { mode: "weight", weight: 5 },
        ordering: { policy: "fair" },
        submitAcl: { everybody: true },
      },
    });
  });

  it.each([
    [
      { "root.users.queues": "x", "root.users.x.capacity": "100" },
      "enabled: needs weights below root.users",
    ],
    [
      { "root.users.auto-queue-creation-v2.template.capacity": "50" },
      "leaf-template.capacity: expects a weight",
    ],
    [
      { "root.users.auto-queue-creation-v2.template.queues": "x" },
      "template.queues: makes a parent",
    ],
    [{ "root.users.auto-queue-creation-v2.template.capacty": "1w" }, "2.template.capacty: is not"],
    [{ "root.users.auto-queue-creation-v2.maximum-queue-depth": "2" }, "one level is made"],
  ])("[CS49] is refused where it could not be followed: %j", (more, message) => {
    expect(mistakesIn(users(more as unknown as Properties))).toEqual([
      expect.stringContaining(message),
    ]);
  });
});

it("[CS40] a configuration that is far too large is refused before it is read", () => {
  const many = Array.from({ length: LIMITS.schedulerPropertiesMax + 1 }, (_, at) => [`x${at}`, ""]);
  expect(mistakesIn(Object.fromEntries(many))).toEqual([
    "properties: are 20001: expects at most 20000",
  ]);
  expect(mistakesIn({ "root.queues": "q".repeat(LIMITS.schedulerPropertyLengthMax + 1) })).toEqual([
    "root.queues: has 65537 characters: expects at most 65536",
  ]);
  const long = Array.from({ length: 11 }, (_, at) => [`root.q${at}.state`, "x".repeat(60_000)]);
  expect(mistakesIn(Object.fromEntries(long))).toEqual([
    expect.stringMatching(/^properties: have 660\d\d\d characters: expects at most 600000$/),
  ]);
});
