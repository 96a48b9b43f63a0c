/**
 * Queues, partitions, placement and decommissioning through the real thing: REST in, the
 * ResourceManager with its SQLite, trackers and nodes that speak the node protocol.
 */
import { afterEach, describe, expect, it } from "vitest";
import type { ServicePlan } from "../../src/shared/protocol/service.ts";
import type { ServiceView } from "../../src/shared/service.ts";
import { component, yarnfile } from "../support/yarnfile.ts";
import { type EdgeCluster, openCluster } from "./support/edge-cluster.ts";

const CONF = "/ws/v1/cluster/scheduler-conf";

/** Nobody submits but who a queue names; what dev does not use is prod's, and half of the reverse. */
const QUEUES_YAML = `
root: { acl_submit_applications: " " }
queues:
  prod: { capacity: 75, acl_submit_applications: "ann,bob" }
  dev: { capacity: 25, maximum-capacity: 50, user-limit-factor: 4, acl_submit_applications: "* " }
`;
const QUEUES_JSON = {
  "yarn.scheduler.capacity.root.acl_submit_applications": " ",
  "yarn.scheduler.capacity.root.queues": "prod,dev",
  "yarn.scheduler.capacity.root.prod.capacity": "75",
  "yarn.scheduler.capacity.root.prod.acl_submit_applications": "ann,bob",
  "yarn.scheduler.capacity.root.dev.capacity": "25",
  "yarn.scheduler.capacity.root.dev.maximum-capacity": "50",
  "yarn.scheduler.capacity.root.dev.user-limit-factor": "4",
  "yarn.scheduler.capacity.root.dev.acl_submit_applications": "*",
};
const QUEUES_XML = `<?xml version="1.0"?>
<configuration>
${Object.entries(QUEUES_JSON)
  .map(([name, value]) => `  <property><name>${name}</name><value>${value}</value></property>`)
  .join("\n")}
</configuration>`;

type Conf = {
  readonly version: number;
  readonly property: readonly { readonly name: string; readonly value: string }[];
};
type Queue = {
  readonly queuePath: string;
  readonly queues?: { readonly queue: readonly Queue[] };
} & Readonly<Record<string, unknown>>;
type Problem = { readonly detail: string; readonly hint?: string; readonly findings?: unknown };

let cluster: EdgeCluster;

afterEach(() => cluster.dispose());

async function applyQueues(text: string, contentType = "application/yaml"): Promise<Conf> {
  return cluster.call<Conf>(`${CONF}/document`, { method: "PUT", body: text, contentType });
}

async function queue(path: string): Promise<Queue | undefined> {
  const { scheduler } = await cluster.call<{ scheduler: { schedulerInfo: Queue } }>(
    "/ws/v1/cluster/scheduler",
  );
  const all = (one: Queue): readonly Queue[] => [one, ...(one.queues?.queue ?? []).flatMap(all)];
  return all(scheduler.schedulerInfo).find(({ queuePath }) => queuePath === path);
}

/** Posts a service of one component. */
function launch(
  name: string,
  inQueue: string,
  ofComponent: Readonly<Record<string, unknown>> = {},
  token?: string,
): Promise<Response> {
  return cluster.fetch("/app/v1/services", {
    method: "POST",
    body: yarnfile({ name, queue: inQueue, components: [component(ofComponent)] }),
    ...(token === undefined ? {} : { token }),
  });
}

const view = (name: string) => cluster.call<ServiceView>(`/app/v1/services/${name}`);

/** Waits until exactly so many of its containers are ready, or exactly those of these nodes. */
async function runs(name: string, wanted: number | readonly string[]): Promise<void> {
  let nodes: readonly string[] = [];
  await cluster.until(
    () => `${name} to have ${JSON.stringify(wanted)}; it has ${JSON.stringify(nodes)}`,
    async () => {
      nodes = (await view(name)).components
        .flatMap(({ containers }) => containers.filter(({ state }) => state === "READY"))
        .map(({ node_id }) => node_id ?? "")
        .sort();
      return typeof wanted === "number" ? nodes.length === wanted : `${nodes}` === `${wanted}`;
    },
  );
}

async function tokenOf(user: string): Promise<string> {
  const { token } = await cluster.call<{ token: string }>("/ws/v1/security/tokens", {
    method: "POST",
    body: { user },
  });
  return token;
}

describe("a configuration with two queues", () => {
  it("[CS51] [CS50] is the same in YAML, in JSON and as capacity-scheduler.xml", async () => {
    cluster = await openCluster();
    const fromYaml = await applyQueues(QUEUES_YAML);
    const fromXml = await applyQueues(QUEUES_XML, "application/xml");
    const fromJson = await applyQueues(JSON.stringify(QUEUES_JSON), "application/json");
    expect(fromXml.property).toEqual(fromJson.property);
    expect(fromJson.property).toContainEqual({
      name: "yarn.scheduler.capacity.root.dev.maximum-capacity",
      value: "50",
    });
    const trimmed = fromYaml.property.map(({ name, value }) => [name, value.trim()]);
    expect(trimmed).toEqual(fromXml.property.map(({ name, value }) => [name, value.trim()]));
    expect([fromYaml.version, fromXml.version, fromJson.version]).toEqual([1, 2, 3]);
  });

  it("[CS4] gives a queue what others leave, up to its maximum, and shows all numbers", async () => {
    cluster = await openCluster();
    await cluster.startNode("worker1:8041");
    await applyQueues(QUEUES_YAML);
    expect((await launch("tests", "dev", { number_of_containers: 6 })).status).toBe(202);
    await runs("tests", 4);
    expect(await queue("root.dev")).toMatchObject({
      state: "RUNNING",
      absoluteCapacity: 25,
      absoluteMaxCapacity: 50,
      // 4 of the node's 8 vcores, which are twice the queue's 2.
      absoluteUsedCapacity: 50,
      usedCapacity: 200,
      numApplications: 1,
      allocatedContainers: 4,
      pendingContainers: 2,
      resourcesUsed: { memory: 1_024, vCores: 4 },
      users: { user: [{ username: "ann", resourcesUsed: { memory: 1_024, vCores: 4 } }] },
    });
    await launch("shop", "prod", { number_of_containers: 4 });
    await runs("shop", 4);
    expect(await queue("root.prod")).toMatchObject({
      absoluteUsedCapacity: 50,
      usedCapacity: 66.67,
    });
  });

  it("[CS23] says of what waits how much there is of it and why", async () => {
    cluster = await openCluster();
    await cluster.startNode("worker1:8041");
    await applyQueues(QUEUES_YAML);
    await launch("tests", "dev", { number_of_containers: 6 });
    await runs("tests", 4);
    const { activities } = await cluster.call<{
      activities: { applications: readonly { name: string; allocations: readonly unknown[] }[] };
    }>("/ws/v1/cluster/scheduler/activities?queue=dev");
    expect(activities.applications).toEqual([
      expect.objectContaining({
        name: "tests",
        user: "ann",
        allocations: [
          expect.objectContaining({
            queueName: "root.dev",
            allocationState: "SKIPPED",
            count: 2,
            diagnostic: expect.stringContaining("root.dev"),
          }),
        ],
      }),
    ]);
    expect((await view("tests")).diagnostics).toContain("root.dev");
    const other = "/ws/v1/cluster/scheduler/activities?queue=prod";
    expect(await cluster.call(other)).toEqual({ activities: { applications: [] } });
  });

  it("[CS58] refuses who may not submit, with the right that is missing", async () => {
    cluster = await openCluster();
    await cluster.startNode("worker1:8041");
    await applyQueues(QUEUES_YAML);
    const eve = await tokenOf("eve");
    const response = await launch("shop", "prod", {}, eve);
    expect(response.status).toBe(403);
    const { detail } = (await response.json()) as Problem;
    expect(detail).toContain("eve");
    expect(detail).toContain("root.prod");
    expect(detail).toMatch(/submit/i);
    expect((await launch("shop", "dev", {}, eve)).status).toBe(202);
  });

  it("[RM24] is not for those to change who only use it", async () => {
    cluster = await openCluster();
    await applyQueues(QUEUES_YAML);
    const token = await tokenOf("bob");
    const mutation = { "global-updates": { "maximum-applications": "1" } };
    const response = await cluster.fetch(CONF, { method: "PUT", body: mutation, token });
    expect(response.status).toBe(403);
    expect((await cluster.call<Conf>(CONF)).version).toBe(1);
  });
});

describe("a change of the configuration", () => {
  const mutation = {
    "update-queue": [
      { "queue-name": "root.prod", params: { capacity: "60" } },
      { "queue-name": "root.dev", params: { capacity: "40" } },
    ],
  };
  const capacityOfDev = async () => (await queue("root.dev"))?.["absoluteCapacity"];

  it("[CS52] changes several queues in one step, is numbered, and can be taken back", async () => {
    cluster = await openCluster();
    await applyQueues(QUEUES_YAML);
    const path = `${CONF}?comment=more%20for%20dev`;
    expect(await cluster.call<Conf>(path, { method: "PUT", body: mutation })).toMatchObject({
      version: 2,
    });
    expect(await capacityOfDev()).toBe(40);
    await cluster.call(`${CONF}/rollback`, { method: "POST", body: { version: 1 } });
    expect(await capacityOfDev()).toBe(25);
    expect(await cluster.call(`${CONF}/versions`)).toEqual({
      versions: [
        expect.objectContaining({ version: 3, user: "ann", comment: "as version 1" }),
        expect.objectContaining({ version: 2, user: "ann", comment: "more for dev" }),
        expect.objectContaining({ version: 1, user: "ann", comment: "" }),
      ],
    });
  });

  it("[CS52] that is only tried changes nothing", async () => {
    cluster = await openCluster();
    await applyQueues(QUEUES_YAML);
    const before = await cluster.contents("ResourceManager");
    for (const [method, path] of [
      ["POST", `${CONF}/validate`],
      ["PUT", `${CONF}?dryRun=true`],
    ] as const) {
      const conf = await cluster.call<Conf>(path, { method, body: mutation });
      expect(conf.version).toBe(1);
      expect(conf.property).toContainEqual({
        name: "yarn.scheduler.capacity.root.dev.capacity",
        value: "40",
      });
    }
    expect(await cluster.contents("ResourceManager")).toEqual(before);
    expect(await capacityOfDev()).toBe(25);
  });

  it("[CS40] with mistakes is refused with all of them, and the old one stays in force", async () => {
    cluster = await openCluster();
    await applyQueues(QUEUES_YAML);
    const wrong = {
      "update-queue": [{ "queue-name": "root.dev", params: { capacity: "90", stat: "STOPPED" } }],
    };
    const response = await cluster.fetch(CONF, { method: "PUT", body: wrong });
    expect(response.status).toBe(400);
    const text = JSON.stringify(await response.json());
    expect(text).toContain("yarn.scheduler.capacity.root.dev.stat");
    expect((await cluster.call<Conf>(CONF)).version).toBe(1);
    expect(await capacityOfDev()).toBe(25);
  });

  it("[CS9] keeps what runs, also where there is less for it now", async () => {
    cluster = await openCluster();
    const agent = await cluster.startNode("worker1:8041");
    await applyQueues(QUEUES_YAML);
    await launch("tests", "dev", { number_of_containers: 4 });
    await runs("tests", 4);
    const shrink = {
      "update-queue": [{ "queue-name": "root.dev", params: { "maximum-capacity": "25" } }],
    };
    await cluster.call(CONF, { method: "PUT", body: shrink });
    expect(await queue("root.dev")).toMatchObject({
      absoluteMaxCapacity: 25,
      allocatedContainers: 4,
    });
    expect(agent.running()).toHaveLength(4);
  });

  it("[CS53] does not take a queue away from its applications", async () => {
    cluster = await openCluster();
    await cluster.startNode("worker1:8041");
    await applyQueues(QUEUES_YAML);
    await launch("tests", "dev");
    await runs("tests", 1);
    const all = {
      "remove-queue": "root.dev",
      "update-queue": [{ "queue-name": "root.prod", params: { capacity: "100" } }],
    };
    const response = await cluster.fetch(CONF, { method: "PUT", body: all });
    expect(response.status).toBe(400);
    expect(JSON.stringify(await response.json())).toContain("root.dev");
    expect(await queue("root.dev")).toMatchObject({ numApplications: 1 });
  });
});

describe("a ResourceManager that was evicted", () => {
  it("[SH1] knows queues, versions, labels, lists and what runs, and places what waits", async () => {
    cluster = await openCluster();
    await cluster.startNode("worker1:8041");
    await applyQueues(QUEUES_YAML);
    await cluster.call("/ws/v1/cluster/add-node-labels", {
      method: "POST",
      body: { nodeLabelInfo: [{ name: "gpu" }] },
    });
    await cluster.call("/ws/v1/cluster/node-lists", {
      method: "PUT",
      body: { include: [], exclude: ["spare"] },
    });
    await cluster.call(`/ws/v1/cluster/nodes/${encodeURIComponent("worker1:8041")}/attributes`, {
      method: "PUT",
      body: { attributes: { os: "linux" } },
    });
    await launch("tests", "dev", { number_of_containers: 6 });
    await runs("tests", 4);
    const look = async () =>
      Promise.all(
        [
          "/ws/v1/cluster/scheduler",
          `${CONF}/versions`,
          CONF,
          "/ws/v1/cluster/get-node-labels",
          "/ws/v1/cluster/node-lists",
          "/ws/v1/cluster/nodes",
        ].map((path) => cluster.call(path)),
      );
    const before = await look();
    await cluster.evict("ResourceManager");
    expect(await look()).toEqual(before);
    const more = {
      "update-queue": [{ "queue-name": "root.dev", params: { "maximum-capacity": "100" } }],
    };
    await cluster.call(CONF, { method: "PUT", body: more });
    await runs("tests", 6);
  });
});

describe("a node label", () => {
  const label = (nodeId: string, name: string) =>
    cluster.call("/ws/v1/cluster/replace-node-to-labels", {
      method: "POST",
      body: { nodeToLabels: [{ nodeId, labels: [name] }] },
    });

  it("[CS16] keeps its nodes for the queues that have a capacity in it and ask for it", async () => {
    cluster = await openCluster();
    await cluster.startNode("worker1:8041");
    await cluster.startNode("worker2:8041");
    await cluster.call("/ws/v1/cluster/add-node-labels", {
      method: "POST",
      body: { nodeLabelInfo: { name: "gpu", exclusivity: true } },
    });
    await label("worker2:8041", "gpu");
    await applyQueues(`
yarn.node-labels.cluster-node-labels: gpu(exclusive=true)
queues:
  prod: { capacity: 50, accessible-node-labels: "" }
  dev:
    capacity: 50
    accessible-node-labels: gpu
    accessible-node-labels.gpu.capacity: 100
`);
    expect(await cluster.call("/ws/v1/cluster/get-node-labels")).toMatchObject({
      nodeLabelsInfo: {
        nodeLabelInfo: [
          {
            name: "gpu",
            exclusivity: true,
            partitionInfo: { nodes: 1, resourceAvailable: { memory: 4_096, vCores: 8 } },
          },
        ],
      },
    });
    const onGpu = {
      placement_policy: {
        constraints: [
          { type: "AFFINITY", scope: "NODE", target_tags: [], node_partitions: ["gpu"] },
        ],
      },
    };
    await launch("train", "dev", { number_of_containers: 2, ...onGpu });
    await runs("train", ["worker2:8041", "worker2:8041"]);
    await launch("plain", "dev", { number_of_containers: 2 });
    await runs("plain", ["worker1:8041", "worker1:8041"]);
    const refused = await launch("other", "prod", onGpu);
    const outcome = refused.ok ? (await view("other")).diagnostics : await refused.text();
    expect(outcome).toContain("gpu");
  });

  it("[RM22] that the cluster does not have is refused, with those that it has", async () => {
    cluster = await openCluster();
    await cluster.startNode("worker1:8041");
    const response = await cluster.fetch("/ws/v1/cluster/replace-node-to-labels", {
      method: "POST",
      body: { nodeToLabels: [{ nodeId: "worker1:8041", labels: ["gpu"] }] },
    });
    expect(response.status).toBe(409);
    expect(((await response.json()) as Problem).hint).toContain("selvedge queue label add gpu");
  });
});

describe("placement", () => {
  const apart = {
    placement_policy: {
      constraints: [{ type: "ANTI_AFFINITY", scope: "NODE", target_tags: ["hello"] }],
    },
  };

  it("[CS70] anti-affinity puts each container on a node of its own, and what is left waits", async () => {
    cluster = await openCluster();
    await cluster.startNode("worker1:8041");
    await cluster.startNode("worker2:8041");
    await launch("spread", "default", { number_of_containers: 3, ...apart });
    await runs("spread", ["worker1:8041", "worker2:8041"]);
    expect((await view("spread")).diagnostics).toMatch(/1 .*hello/);
    await cluster.startNode("worker3:8041");
    await runs("spread", ["worker1:8041", "worker2:8041", "worker3:8041"]);
  });

  it("[RM25] can be asked for before anything is started: where it would go, what would wait, why", async () => {
    cluster = await openCluster();
    await cluster.startNode("worker1:8041");
    await cluster.startNode("worker2:8041");
    const before = await cluster.contents("ResourceManager");
    const plan = await cluster.call<ServicePlan>("/app/v1/services/plan", {
      method: "POST",
      body: yarnfile({ components: [component({ number_of_containers: 3, ...apart })] }),
    });
    expect(plan).toEqual({
      queue: "root.default",
      components: [
        {
          name: "hello",
          wanted: 3,
          placed: { "worker1:8041": 1, "worker2:8041": 1 },
          waiting: 1,
          reason: "0/2 nodes: 2 anti-affinity with hello on this node",
        },
      ],
      preempted: [],
    });
    expect(await cluster.contents("ResourceManager")).toEqual(before);
    expect(await cluster.call("/app/v1/services")).toEqual([]);
  });
});

describe("decommissioning", () => {
  const decommission = (nodeId: string, timeoutSeconds: number | null) =>
    cluster.call("/ws/v1/cluster/nodes/decommission", {
      method: "POST",
      body: { nodes: [nodeId], timeoutSeconds },
    });

  it("[RM20] places nothing new on the node, and sends it away when it is empty", async () => {
    cluster = await openCluster();
    const agent = await cluster.startNode("worker1:8041");
    await launch("first", "default");
    await runs("first", 1);
    await cluster.startNode("worker2:8041");
    await decommission("worker1:8041", null);
    await cluster.nodeIs("worker1:8041", "DECOMMISSIONING");
    await launch("second", "default", { number_of_containers: 2 });
    await runs("second", ["worker2:8041", "worker2:8041"]);
    const [running = ""] = agent.running();
    agent.complete(running, 1, "it crashed");
    await runs("first", ["worker2:8041"]);
    await cluster.nodeIs("worker1:8041", "DECOMMISSIONED");
  });

  it("[RM20] when its time is over moves what still runs there to other nodes", async () => {
    cluster = await openCluster();
    const agent = await cluster.startNode("worker1:8041");
    await launch("first", "default", { number_of_containers: 2 });
    await runs("first", 2);
    await cluster.startNode("worker2:8041");
    await decommission("worker1:8041", 0);
    await cluster.nodeIs("worker1:8041", "DECOMMISSIONED");
    await runs("first", ["worker2:8041", "worker2:8041"]);
    expect(agent.running()).toEqual([]);
  });
});
