/** `selvedge queue`, what administrators do to nodes, and the dry run of a service. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type ClusterPlayer, problem, startClusterPlayer } from "./cluster-player.ts";
import { createDesk, type Desk } from "./command.ts";

const CONF = "/ws/v1/cluster/scheduler-conf";

let cluster: ClusterPlayer;
let desk: Desk;
beforeEach(async () => {
  cluster = await startClusterPlayer();
  desk = createDesk(cluster.url);
});
afterEach(async () => {
  desk.clear();
  await cluster.close();
});

/** The bodies that an operation was sent. */
function sent(operation: string): readonly unknown[] {
  return cluster.heard(operation).map(({ body }) => JSON.parse(body));
}

function queue(queuePath: string, changes: object = {}) {
  return {
    queueName: queuePath.slice(queuePath.lastIndexOf(".") + 1),
    queuePath,
    queueType: "leaf",
    state: "RUNNING",
    absoluteCapacity: 25,
    absoluteMaxCapacity: 50,
    absoluteUsedCapacity: 12.34,
    numApplications: 1,
    allocatedContainers: 4,
    reservedContainers: 0,
    pendingContainers: 2,
    orderingPolicyInfo: "fifo",
    resourcesUsed: { memory: 1_024, vCores: 4 },
    queueAcls: { queueAcl: [{ accessType: "SUBMIT_APP", accessControlList: " " }] },
    ...changes,
  };
}

describe("queue list and show", () => {
  const alice = {
    username: "alice",
    resourcesUsed: { memory: 1_024, vCores: 4 },
    userResourceLimit: { memory: 2_048, vCores: 8 },
    numActiveApplications: 1,
    numPendingApplications: 0,
  };
  const dev = queue("root.dev", { users: { user: [alice] } });
  const root = queue("root", {
    queueType: "parent",
    queues: { queue: [queue("root.prod", { state: "DRAINING" }), dev] },
  });
  beforeEach(() =>
    cluster.play("GET /ws/v1/cluster/scheduler", { body: { scheduler: { schedulerInfo: root } } }),
  );

  it("shows the tree, with what each has, may have and waits for", async () => {
    const { stdout } = await desk.run(["queue", "list"]);
    expect(stdout).toMatch(/^root +RUNNING/m);
    expect(stdout).toMatch(/^ {2}prod +DRAINING/m);
    expect(stdout).toMatch(/^ {2}dev +RUNNING +25 % +50 % +12.3 % +1 +4 +2$/m);
  });

  it("gives scripts the cluster's JSON, or the paths alone", async () => {
    expect(JSON.parse((await desk.run(["queue", "list", "-o", "json"])).stdout)).toEqual(root);
    expect((await desk.run(["queue", "list", "--quiet"])).stdout).toBe(
      "root\nroot.prod\nroot.dev\n",
    );
  });

  it("shows one queue with its users, by path or by name", async () => {
    const { stdout } = await desk.run(["queue", "show", "dev"]);
    expect(stdout).toMatch(/^QUEUE +root\.dev$/m);
    expect(stdout).toMatch(/^containers +4 allocated, 0 reserved, 2 waiting$/m);
    expect(stdout).toMatch(/^SUBMIT_APP +nobody by this queue$/m);
    expect(stdout).toMatch(/^alice +1024 +4 +2048 +1 +0$/m);
    expect((await desk.run(["queue", "show", "root.dev"])).stdout).toBe(stdout);
  });

  it("of a queue that is not there exits with 44 and names those that are", async () => {
    const ran = await desk.run(["queue", "show", "test"]);
    expect(ran.exitCode).toBe(44);
    expect(ran.stderr).toBe(
      "error: there is no queue test\nhint: queues are root, root.prod, root.dev\n",
    );
  });
});

describe("queue why", () => {
  const waiting = {
    applicationId: "application_1_0001",
    name: "report",
    user: "alice",
    allocations: [
      {
        queueName: "root.dev",
        requestPriority: "0",
        count: 36,
        diagnostic: "queue root.dev is at 100 % of its maximum",
      },
    ],
  };

  it("says what waits and why, of one queue when asked", async () => {
    const operation = "GET /ws/v1/cluster/scheduler/activities?queue=dev";
    cluster.play(operation, { body: { activities: { applications: [waiting] } } });
    const { stdout } = await desk.run(["queue", "why", "dev"]);
    expect(stdout).toBe(
      "application_1_0001 (report of alice) waits for\n" +
        "  36 at priority 0 in root.dev: queue root.dev is at 100 % of its maximum\n",
    );
  });

  it("says so when nothing waits", async () => {
    cluster.play("GET /ws/v1/cluster/scheduler/activities", {
      body: { activities: { applications: [] } },
    });
    expect((await desk.run(["queue", "why"])).stdout).toBe("nothing waits\n");
  });
});

describe("changing queues", () => {
  const conf = { version: 4, property: [{ name: "yarn.a", value: "1" }] };

  it("says which version is in force, or of a dry run that nothing was changed", async () => {
    cluster.play(`PUT ${CONF}`, { body: conf });
    const set = ["queue", "set", "root.dev", "capacity=40", "state="];
    expect((await desk.run([...set, "--comment", "more"])).stdout).toBe("version 4 is in force\n");
    expect((await desk.run([...set, "--dry-run"])).stdout).toBe(
      "it would be accepted; nothing was changed\n",
    );
    expect(cluster.requests.map(({ target }) => target)).toEqual([
      `${CONF}?dryRun=false&comment=more`,
      `${CONF}?dryRun=true&comment=`,
    ]);
    const change = { "queue-name": "root.dev", params: { capacity: "40", state: "" } };
    expect(sent(`PUT ${CONF}`)).toEqual(Array(2).fill({ "update-queue": [change] }));
  });

  it.each([
    [
      ["add", "root.x", "capacity=0"],
      { "add-queue": [{ "queue-name": "root.x", params: { capacity: "0" } }] },
    ],
    [["remove", "root.x"], { "remove-queue": ["root.x"] }],
    [
      ["stop", "root.x"],
      { "update-queue": [{ "queue-name": "root.x", params: { state: "STOPPED" } }] },
    ],
    [
      ["start", "root.x"],
      { "update-queue": [{ "queue-name": "root.x", params: { state: "RUNNING" } }] },
    ],
    [
      ["conf", "set", "maximum-applications=5"],
      { "global-updates": { "maximum-applications": "5" } },
    ],
  ])("queue %j is one mutation", async (words, mutation) => {
    cluster.play(`PUT ${CONF}`, { body: conf });
    expect((await desk.run(["queue", ...words])).exitCode).toBe(0);
    expect(sent(`PUT ${CONF}`)).toEqual([mutation]);
  });

  it.each([
    ["queues.xml", "<configuration/>", "application/xml"],
    ["queues.yaml", "queues: {}\n", "application/yaml"],
    ["queues.json", '{"queues": {}}', "application/json"],
  ])("applies %s as what it is", async (file, text, type) => {
    cluster.play(`PUT ${CONF}/document`, { body: conf });
    writeFileSync(join(desk.directory, file), text);
    expect((await desk.run(["queue", "conf", "apply", file])).exitCode).toBe(0);
    const [request] = cluster.heard(`PUT ${CONF}/document`);
    expect(request?.headers["content-type"]).toBe(type);
    expect(request?.body).toBe(text);
  });

  it("shows every mistake that the cluster has found", async () => {
    const findings = [
      { path: "yarn.scheduler.capacity.root.dev.capacity", message: "expects a number" },
      { path: "yarn.scheduler.capacity.root.prod.capacity", message: "is missing" },
    ];
    cluster.play(`PUT ${CONF}`, problem(400, "INVALID_ARGUMENT", "not valid", { findings }));
    const ran = await desk.run(["queue", "set", "root.dev", "capacity=much"]);
    expect(ran.exitCode).not.toBe(0);
    for (const { path, message } of findings) expect(ran.stderr).toContain(`${path}: ${message}`);
  });

  it("refuses what is no NAME=VALUE, and files that are not there, before it asks anybody", async () => {
    expect((await desk.run(["queue", "set", "root.dev", "capacity"])).stderr).toContain(
      '"capacity" is not NAME=VALUE',
    );
    const missing = await desk.run(["queue", "conf", "apply", "none.yaml"]);
    expect(missing.exitCode).not.toBe(0);
    expect(missing.stderr).toContain("none.yaml");
    expect(cluster.requests).toEqual([]);
  });

  it("lists versions, shows the properties, and rolls back", async () => {
    const version = { version: 4, savedMs: 1_700_000_000_000, user: "alice", comment: "more" };
    cluster.play(`GET ${CONF}/versions`, { body: { versions: [version] } });
    cluster.play(`GET ${CONF}`, { body: conf });
    cluster.play(`POST ${CONF}/rollback`, { body: { ...conf, version: 5 } });
    expect((await desk.run(["queue", "conf", "versions"])).stdout).toMatch(/^4 .* alice +more$/m);
    expect((await desk.run(["queue", "conf", "show"])).stdout).toBe("yarn.a=1\n");
    expect((await desk.run(["queue", "conf", "rollback", "3"])).stdout).toBe(
      "version 5 is in force\n",
    );
    expect(sent(`POST ${CONF}/rollback`)).toEqual([{ version: 3 }]);
  });
});

describe("node labels", () => {
  it("are listed with what is in them", async () => {
    const partitionInfo = { nodes: 2, resourceAvailable: { memory: 4_096, vCores: 8 } };
    const nodeLabelInfo = [{ name: "gpu", exclusivity: false, partitionInfo }];
    cluster.play("GET /ws/v1/cluster/get-node-labels", {
      body: { nodeLabelsInfo: { nodeLabelInfo } },
    });
    const { stdout } = await desk.run(["queue", "label", "list"]);
    expect(stdout).toMatch(/^gpu +no +2 +4096 +8$/m);
    expect((await desk.run(["queue", "label", "list", "-q"])).stdout).toBe("gpu\n");
  });

  it("are added exclusive unless they are shared, and given to nodes", async () => {
    cluster.play("POST /ws/v1/cluster/add-node-labels", { body: { version: 1, property: [] } });
    cluster.play("POST /ws/v1/cluster/replace-node-to-labels", { status: 204 });
    await desk.run(["queue", "label", "add", "gpu"]);
    await desk.run(["queue", "label", "add", "ssd", "--shared"]);
    expect(sent("POST /ws/v1/cluster/add-node-labels")).toEqual([
      { nodeLabelInfo: [{ name: "gpu", exclusivity: true }] },
      { nodeLabelInfo: [{ name: "ssd", exclusivity: false }] },
    ]);
    const ran = await desk.run(["node", "label", "box:8041", "gpu"]);
    expect(ran.stdout).toBe("box:8041 has label gpu\n");
    await desk.run(["node", "label", "box:8041"]);
    await desk.run(["node", "label", "box:8041", "--reset"]);
    const given = [["gpu"], [], null].map((labels) => ({
      nodeToLabels: [{ nodeId: "box:8041", labels }],
    }));
    expect(sent("POST /ws/v1/cluster/replace-node-to-labels")).toEqual(given);
    expect((await desk.run(["node", "label", "box:8041", "gpu", "--reset"])).exitCode).toBe(2);
  });
});

describe("what administrators do to a node", () => {
  const ATTRIBUTES = "PUT /ws/v1/cluster/nodes/box%3A8041/attributes";
  const RESOURCE = "POST /ws/v1/cluster/nodes/box%3A8041/resource";
  const DECOMMISSION = "POST /ws/v1/cluster/nodes/decommission";
  const NODES = "GET /ws/v1/cluster/nodes";
  const node = (state: string, numContainers: number) => ({
    body: { nodes: { node: [{ id: "box:8041", state, numContainers }] } },
  });

  it("sets attributes and size, or takes them back", async () => {
    cluster.play(ATTRIBUTES, { status: 204 });
    cluster.play(RESOURCE, { status: 204 });
    expect((await desk.run(["node", "attribute", "box:8041", "os=linux", "zone=a"])).stdout).toBe(
      "box:8041 has os=linux, zone=a\n",
    );
    await desk.run(["node", "attribute", "box:8041", "--reset"]);
    expect(sent(ATTRIBUTES)).toEqual([
      { attributes: { os: "linux", zone: "a" } },
      { attributes: null },
    ]);
    const size = ["--memory", "1024", "--vcores", "4", "--resource", "yarn.io/gpu=2"];
    await desk.run(["node", "resize", "box:8041", ...size]);
    await desk.run(["node", "resize", "box:8041", "--reset"]);
    expect(sent(RESOURCE)).toEqual([
      { resource: { memory: 1_024, vCores: 4, extra: { "yarn.io/gpu": 2 } } },
      { resource: null },
    ]);
    const half = await desk.run(["node", "resize", "box:8041", "--memory", "1024"]);
    expect(half.exitCode).toBe(2);
    expect(half.stderr).toContain("resize needs --memory and --vcores, or --reset");
  });

  it("sends it away within an hour, a time, at once or whenever, and takes it back", async () => {
    cluster.play(DECOMMISSION, { status: 202 });
    cluster.play("POST /ws/v1/cluster/nodes/recommission", { status: 204 });
    const away = ["node", "decommission", "box:8041"];
    expect((await desk.run(away)).stdout).toBe("box:8041 on the way out\n");
    await desk.run([...away, "--timeout", "60"]);
    await desk.run([...away, "--now"]);
    await desk.run([...away, "--unlimited"]);
    expect(sent(DECOMMISSION)).toEqual(
      [3_600, 60, 0, null].map((timeoutSeconds) => ({ nodes: ["box:8041"], timeoutSeconds })),
    );
    expect((await desk.run([...away, "--now", "--unlimited"])).exitCode).toBe(2);
    expect((await desk.run(["node", "recommission", "box:8041"])).stdout).toBe(
      "box:8041 may take part again\n",
    );
  });

  it("waits until it is empty and gone, and says meanwhile what it still runs", async () => {
    cluster.play(DECOMMISSION, { status: 202 });
    cluster.play(NODES, node("DECOMMISSIONING", 2), node("DECOMMISSIONED", 0));
    const ran = await desk.run(["node", "decommission", "box:8041", "--wait"]);
    expect(ran.stdout).toBe("box:8041 left\n");
    expect(ran.stderr).toContain("waiting: box:8041 runs 2\n");
  });

  it("does not wait for ever for one that somebody took back", async () => {
    cluster.play(DECOMMISSION, { status: 202 });
    cluster.play(NODES, node("RUNNING", 2));
    const ran = await desk.run(["node", "decommission", "box:8041", "--wait"]);
    expect(ran.exitCode).not.toBe(0);
    expect(ran.stderr).toContain("somebody took node box:8041 back meanwhile");
  });

  it("says what the cluster says of a node that it does not know", async () => {
    const hint = "selvedge node list shows the nodes";
    cluster.play(DECOMMISSION, problem(404, "NOT_FOUND", "the cluster knows no node", { hint }));
    const ran = await desk.run(["node", "decommission", "tin:1"]);
    expect(ran.exitCode).toBe(44);
    expect(ran.stderr).toBe(`error: the cluster knows no node\nhint: ${hint}\n`);
  });
});

describe("service plan", () => {
  const PLAN = "POST /app/v1/services/plan";
  const plan = {
    queue: "root.dev",
    components: [
      {
        name: "web",
        wanted: 4,
        placed: { "box:8041": 2, "tin:8041": 1 },
        waiting: 1,
        reason: "0/2 nodes: 2 too little memory",
      },
    ],
    preempted: [{ containerId: "container_1", applicationId: "application_1" }],
  };

  it("says where containers would go, what would wait and what would be preempted", async () => {
    cluster.play(PLAN, { body: plan });
    writeFileSync(join(desk.directory, "Yarnfile.yaml"), "name: shop\nversion: '1'\n");
    const { stdout } = await desk.run(["service", "plan", "Yarnfile.yaml", "--queue", "dev"]);
    expect(stdout).toMatch(/^queue root\.dev\n/);
    expect(stdout).toMatch(/^web +4 +3 +1 +2 on box:8041, tin:8041$/m);
    expect(stdout).toContain("\n1 of web would wait: 0/2 nodes: 2 too little memory\n");
    expect(stdout).toContain("\ncontainer_1 of application_1 would be preempted\n");
    expect(cluster.heard(PLAN)[0]?.body).toContain("dev");
    const json = await desk.run(["service", "plan", "Yarnfile.yaml", "-o", "json"]);
    expect(JSON.parse(json.stdout)).toEqual(plan);
  });
});
