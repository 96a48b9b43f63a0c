/** `selvedge node`, `cluster` and `registry`: looking at a cluster, and becoming part of it. */

import { writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AgentHome, openHome } from "../../src/agent/agent-home.ts";
import type { NodeManagerOptions } from "../../src/cli/commands/node.ts";
import { FINAL_EXIT_CODES } from "../../src/cli/commands/node-unit.ts";
import { Interrupted } from "../../src/cli/io.ts";
import { type ClusterPlayer, startClusterPlayer } from "./cluster-player.ts";
import { createDesk, type Desk, type RunOptions } from "./command.ts";

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

describe("node start", () => {
  /** Stands where the agent stands; what the agent does with the options is the agent's test. */
  async function start(argv: readonly string[], options: RunOptions = {}, sentAway?: string) {
    const interrupt = new AbortController();
    let given: NodeManagerOptions | undefined;
    let isClosed = false;
    const ran = await desk.run(["node", "start", ...argv], {
      ...options,
      signal: interrupt.signal,
      onOutput: () => {
        if (sentAway === undefined) interrupt.abort(new Interrupted("SIGTERM"));
      },
      programs: {
        startNodeManager: async (nodeManagerOptions) => {
          given = nodeManagerOptions;
          return {
            nodeId: nodeManagerOptions.nodeId,
            closed:
              sentAway === undefined ? new Promise(() => undefined) : Promise.resolve(sentAway),
            close: async () => {
              isClosed = true;
            },
          };
        },
      },
    });
    return { ran, given, isClosed };
  }

  it("needs nothing but a token, and ends gracefully when it is told to", async () => {
    const env = { SELVEDGE_JOIN_TOKEN: "j0in", HOME: desk.directory, XDG_DATA_HOME: "" };
    const { ran, given, isClosed } = await start([], { env });
    expect(given).toEqual({
      url: cluster.url,
      home: join(desk.directory, ".local", "share", "selvedge", "node"),
      nodeId: `${hostname().toLowerCase()}:8041`,
      joinToken: "j0in",
      cgroups: true,
      stopContainersOnExit: false,
    });
    expect(ran.exitCode).toBe(0);
    expect(ran.stdout).toBe(`node ${given?.nodeId} runs for ${cluster.url}\n`);
    expect(isClosed).toBe(true);
  });

  it("passes everything on that is said about the node", async () => {
    writeFileSync(join(desk.directory, "join"), "j0in\n");
    const { given } = await start([
      ...["--token-file", "join", "--node-id", "box.example.com:9000", "--home", "here"],
      ...["--memory", "1024", "--vcores", "4", "--resource", "yarn.io/gpu=2"],
      ...["--rack", "/r1", "--label", "fast", "--label", "new", "--attribute", "os=linux"],
      ...["--no-cgroups", "--stop-containers-on-exit", "--cluster", "blue"],
    ]);
    expect(given).toEqual({
      url: `${cluster.url}/clusters/blue`,
      home: join(desk.directory, "here"),
      nodeId: "box.example.com:9000",
      joinToken: "j0in",
      capability: { memoryMb: 1_024, vcores: 4, extra: { "yarn.io/gpu": 2 } },
      rack: "/r1",
      labels: ["fast", "new"],
      attributes: { os: "linux" },
      cgroups: false,
      stopContainersOnExit: true,
    });
  });

  it("[NM118] goes by its configuration and says so, and by its options before that", async () => {
    writeFileSync(
      join(desk.directory, "node.yaml"),
      "yarn.nodemanager.resource.memory-mb: 4096\nyarn.nodemanager.resource.cpu-vcores: 3\n" +
        "yarn.nodemanager.resource-type.yarn.io/gpu: 2\nselvedge.node.rack: /r7\n" +
        "yarn.nodemanager.address: 0.0.0.0:8041\n",
    );
    const { ran, given } = await start(["--config", "node.yaml", "--memory", "2048"]);
    expect(given?.configuration).toMatchObject({ memoryMb: 4_096, rack: "/r7" });
    expect(given?.capability).toEqual({ memoryMb: 2_048, vcores: 3, extra: { "yarn.io/gpu": 2 } });
    expect(ran.stderr).toContain("yarn.nodemanager.resource.cpu-vcores = 3\n");
    expect(ran.stderr).toContain("note: yarn.nodemanager.address has no effect: ");
  });

  it("[NM118] refuses a configuration with mistakes, and one that is not there", async () => {
    writeFileSync(join(desk.directory, "node.yaml"), "yarn.nodemanager.resource.memory-mb: lots\n");
    const { ran, given } = await start(["--config", "node.yaml"]);
    expect(ran.exitCode).toBe(40);
    expect(ran.stderr).toContain("  - yarn.nodemanager.resource.memory-mb: expects a whole number");
    expect(given).toBeUndefined();
    expect((await start(["--config", "nothing.yaml"])).ran.exitCode).toBe(44);
  });

  it("takes the join token from standard input", async () => {
    const { given } = await start(["--token-file", "-"], { stdin: "j0in\n" });
    expect(given?.joinToken).toBe("j0in");
  });

  it("[NM188] whose directory another agent has says so, with an exit code of its own", async () => {
    const home = join(desk.directory, "home");
    const taken = openHome(new AgentHome(home));
    const ran = await desk.run(["node", "start", "--home", home, "--token", "j0in"]);
    expect(ran.exitCode).toBe(54);
    expect(ran.stderr).toContain(`another agent (process ${process.pid}) is using ${home}`);
    expect(FINAL_EXIT_CODES).not.toContain(54);
    if (taken.ok) taken.value();
  });

  it("[NM188] sent away by the cluster says why, and does not exit with 0", async () => {
    const { ran, isClosed } = await start([], {}, "another agent has this node's name");
    expect(ran.exitCode).toBe(49);
    expect(ran.stderr).toMatch(/^error: the cluster sent node .* away: another agent has/);
    expect(isClosed).toBe(true);
  });

  it("refuses what cannot be a node", async () => {
    const wrong = await start(["--node-id", "no_port"]);
    expect(wrong.ran.exitCode).toBe(2);
    expect(wrong.ran.stderr).toContain('error: "no_port" is not a node id\nhint: a node id is');
    expect((await start(["--memory", "1.5"])).ran.exitCode).toBe(2);
    expect((await start(["--resource", "gpu"])).ran.stderr).toContain("such as yarn.io/gpu=2");
  });
});

describe("node list", () => {
  const node = {
    id: "box:8041",
    state: "RUNNING",
    rack: "/default-rack",
    nodeHostName: "box",
    version: "0.1.0",
    healthReport: "",
    numContainers: 2,
    usedMemoryMB: 512,
    availMemoryMB: 1_536,
    usedVirtualCores: 2,
    availableVirtualCores: 2,
    nodeLabels: ["fast"],
  };

  it("shows what each has and uses, and why one is not well", async () => {
    const lost = { ...node, id: "tin:8041", state: "LOST", healthReport: "no heartbeat for 10 s" };
    cluster.play("GET /ws/v1/cluster/nodes", { body: { nodes: { node: [node, lost] } } });
    const { stdout } = await desk.run(["node", "list"]);
    expect(stdout).toMatch(
      /^box:8041 +RUNNING +\/default-rack +2 +512\/2048 +2\/4 +0 +fast +0.1.0$/m,
    );
    expect(stdout).toContain("\n\ntin:8041: no heartbeat for 10 s\n");
  });

  it("says how a first node joins", async () => {
    cluster.play("GET /ws/v1/cluster/nodes", { body: { nodes: { node: [] } } });
    const { stdout } = await desk.run(["node", "list"]);
    expect(stdout).toBe("no nodes; `selvedge node token` says how one joins\n");
    expect((await desk.run(["node", "list", "-o", "json"])).stdout).toBe("[]\n");
  });
});

describe("cluster info", () => {
  const clusterInfo = {
    id: 1_700_000_000_000,
    startedOn: 1_700_000_000_000,
    state: "STARTED",
    resourceManagerVersion: "0.1.0",
    clusterName: "default",
  };
  const clusterMetrics = {
    appsRunning: 1,
    appsPending: 0,
    containersAllocated: 2,
    totalMB: 2_048,
    allocatedMB: 512,
    totalVirtualCores: 4,
    allocatedVirtualCores: 2,
    totalNodes: 2,
    activeNodes: 1,
    lostNodes: 1,
    unhealthyNodes: 0,
  };

  it("says what is used and what is free", async () => {
    cluster.play("GET /ws/v1/cluster/info", { body: { clusterInfo } });
    cluster.play("GET /ws/v1/cluster/metrics", { body: { clusterMetrics } });
    const { stdout } = await desk.run(["cluster", "info"]);
    expect(stdout).toContain(`Cluster:      default at ${cluster.url}\n`);
    expect(stdout).toContain("Nodes:        1 running, 0 unhealthy, 1 lost, 2 in all\n");
    expect(stdout).toContain("Memory:       512 of 2048 MB allocated (25 %), 1536 free\n");
    const json = await desk.run(["cluster", "info", "-o", "json"]);
    expect(JSON.parse(json.stdout)).toEqual({ clusterInfo, clusterMetrics });
  });
});

describe("registry", () => {
  const stat = { path: "hello", time: 1, size: 100, children: 1 };
  const record = {
    type: "JSONServiceRecord",
    description: "says hello",
    external: [
      { api: "http", addressType: "uri", protocolType: "REST", addresses: [{ uri: "http://x/" }] },
    ],
    internal: [
      {
        api: "classpath:rpc",
        addressType: "host/port",
        protocolType: "tcp",
        addresses: [{ host: "box", port: "7" }],
      },
    ],
    "yarn:id": "application_1_0001",
  };
  const path = "/users/joe/yarn-service/hello";

  it("lists what is below a path", async () => {
    cluster.play("GET /registry/v1/users", { body: { path: "/users", stat, children: ["joe"] } });
    expect((await desk.run(["registry", "ls", "/users"])).stdout).toBe("joe\n");
  });

  it("shows a record's endpoints and attributes", async () => {
    cluster.play(`GET /registry/v1${path}`, { body: { path, stat, record, children: [] } });
    const { stdout } = await desk.run(["registry", "resolve", path]);
    expect(stdout).toContain("says hello\n\nyarn:id: application_1_0001\n\n");
    expect(stdout).toMatch(/^external +http +REST +http:\/\/x\/$/m);
    expect(stdout).toMatch(/^internal +classpath:rpc +tcp +box:7$/m);
    const json = await desk.run(["registry", "resolve", path, "-o", "json"]);
    expect(JSON.parse(json.stdout)).toEqual(record);
  });

  it("of a path without a record exits with 44", async () => {
    cluster.play("GET /registry/v1/users", { body: { path: "/users", stat, children: ["joe"] } });
    const ran = await desk.run(["registry", "resolve", "/users"]);
    expect(ran.exitCode).toBe(44);
    expect(ran.stderr).toContain("error: /users has no service record\nhint: ");
  });
});
