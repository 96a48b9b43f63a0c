/**
 * A person packs a program, pushes it, runs a service from it, and reads what it wrote when its
 * node is gone. And: an agent that dies in the middle of an upload loses nothing and doubles nothing.
 */
import { execFileSync } from "node:child_process";
import { mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { nodeHome } from "../../scripts/local-cluster.ts";
import { AgentHome } from "../../src/agent/agent-home.ts";
import { logsClient } from "../../src/client/logs.ts";
import type { AggregatedFile } from "../../src/shared/aggregated-logs.ts";
import { startCluster, type TestCluster } from "../support/cluster.ts";
import { openTerminal, type Terminal } from "../support/terminal.ts";
import { waitFor } from "../support/wait-for.ts";
import { component, yarnfile } from "../support/yarnfile.ts";

let cluster: TestCluster;
let terminal: Terminal;

beforeAll(async () => {
  cluster = await startCluster({ nodes: 2 });
  terminal = openTerminal(cluster);
});

afterAll(async () => {
  await cluster.dispose();
});

/** A command that has to work; answers what it prints. */
async function selvedge(...args: readonly string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await terminal.selvedge(...args);
  expect(exitCode, stderr).toBe(0);
  return stdout;
}

/** `hello-1.0.tar.gz` with one program in it. */
function tarball(): string {
  const folder = join(cluster.home, "package");
  mkdirSync(folder);
  const program = [
    "cat conf/app.properties",
    'echo "hello from $0, which came in a package"',
    "exec sleep 1000",
  ];
  writeFileSync(join(folder, "run.sh"), `${program.join("\n")}\n`);
  const path = join(cluster.home, "hello-1.0.tar.gz");
  execFileSync("tar", ["czf", path, "-C", folder, "run.sh"]);
  return path;
}

const kept = (applicationId: string) => logsClient(cluster.http).containers(applicationId);

async function isAllKept(applicationId: string): Promise<void> {
  await waitFor(
    async () => {
      const containers = await kept(applicationId);
      return containers.length > 0 && containers.every(({ complete }) => complete);
    },
    { what: `the logs of ${applicationId} to be in the store`, timeoutMs: 60_000 },
  );
}

describe("a package", () => {
  it("[NM60] [NM64] [NM66] [NM73] is pushed, run, and what it wrote outlives its nodes", async () => {
    expect(await selvedge("package", "push", tarball())).toContain("pushed admin/hello:1.0");
    expect(await selvedge("package", "list")).toMatch(/admin\s+hello\s+1\.0/);
    const files = [
      { type: "PROPERTIES", dest_file: "app.properties", properties: { me: "${COMPONENT_ID}" } },
    ];
    await cluster.launch(
      yarnfile({
        name: "packed",
        components: [
          component({
            artifact: { type: "TARBALL", id: "packages/hello:1.0" },
            launch_command: "sh lib/run.sh",
            number_of_containers: 2,
            configuration: { files },
          }),
        ],
      }) as Parameters<TestCluster["launch"]>[0],
    );
    const { id } = await cluster.serviceIs("packed", "STABLE");
    const rm = await terminal.selvedge("package", "rm", "hello:1.0");
    expect(rm.stderr).toContain("is used by service packed of admin");
    const lines = [
      "hello-0 | me=0",
      "hello-0 | hello from lib/run.sh, which came in a package",
      "hello-1 | me=1",
      "hello-1 | hello from lib/run.sh, which came in a package",
    ].toSorted();
    const shown = async () => (await selvedge("logs", "packed")).trim().split("\n").toSorted();
    await waitFor(async () => (await shown()).length === lines.length, { what: "all lines" });
    expect(await shown()).toEqual(lines);
    await selvedge("service", "stop", "packed");
    await isAllKept(id ?? "");
    for (const number of [1, 2]) await cluster.killMachine(number);
    await selvedge("service", "destroy", "packed", "--yes");
    expect((await selvedge("logs", id ?? "")).trim().split("\n").toSorted()).toEqual(lines);
    const found = await selvedge("logs", id ?? "", "-i", "hello-1", "--grep", "^me");
    expect(found).toBe("me=1\n");
  });
});

describe("an upload", () => {
  it("[NM74] that the agent's death interrupts goes on where it was", async () => {
    for (const number of [1, 2]) await cluster.startNode(number);
    const count = 600_000;
    const program = `awk 'BEGIN { srand(1); for (i = 0; i < ${count}; i++) print i, rand(), rand() }'`;
    await cluster.launch(
      yarnfile({
        name: "much",
        components: [component({ launch_command: program, restart_policy: "NEVER" })],
      }) as Parameters<TestCluster["launch"]>[0],
    );
    const id = await waitFor(async () => (await cluster.services.get("much")).id ?? undefined, {
      what: "an application id",
    });
    const half = await waitFor(
      async () => {
        const [container] = await kept(id);
        if (container === undefined) return undefined;
        const path = `/ws/v1/logs/${container.containerId}/files`;
        const { files } = await cluster.http.request<{ files: AggregatedFile[] }>("GET", path);
        const isUnderWay = files.some(({ name, sizeBytes }) => name === "stdout" && sizeBytes > 0);
        return isUnderWay ? container : undefined;
      },
      { what: "a part of the log to be stored", timeoutMs: 60_000 },
    );
    expect(half.complete).toBe(false);
    const number = [1, 2].find((each) => cluster.agent(each).nodeId === half.nodeId) ?? 0;
    await cluster.killAgent(number);
    await cluster.startNode(number);
    await isAllKept(id);
    const shown = (await selvedge("logs", id, "-i", "hello-0")).trimEnd().split("\n");
    expect(shown).toHaveLength(count);
    expect(shown.every((line, index) => line.startsWith(`${index} `))).toBe(true);
  });
});

describe("a log that grows longer than its node keeps", () => {
  /** What Hadoop's operators have already. */
  function site(properties: Readonly<Record<string, number>>): string {
    const path = join(cluster.home, "yarn-site.xml");
    const lines = Object.entries(properties).map(
      ([name, value]) => `<property><name>${name}</name><value>${value}</value></property>`,
    );
    writeFileSync(path, `<configuration>${lines.join("")}</configuration>`);
    return path;
  }

  it("[NM182] [NM183] [NM186] is read whole while it runs: the old from the store, the new from the node", async () => {
    const configFile = site({
      "selvedge.node.log-rotation.kept-bytes": 100_000,
      "yarn.nodemanager.container-log-monitor.interval-ms": 1_000,
    });
    await cluster.startNode(3, { memoryMb: 4_096, configFile });
    await cluster.nodeIs(3, "RUNNING");
    const count = 17_000;
    // Slower than an upload: what is dropped is stored.
    const program =
      "i=0; while [ $i -lt 17 ]; do seq -f %09.0f $((i*1000)) $((i*1000+999)); sleep 0.3; " +
      "i=$((i+1)); done; exec sleep 1000";
    await cluster.launch(
      yarnfile({
        name: "talkative",
        // More than other nodes have.
        components: [component({ launch_command: program, resource: { memory: "3000" } })],
      }) as Parameters<TestCluster["launch"]>[0],
    );
    const { components } = await cluster.serviceIs("talkative", "STABLE");
    const { id } = components[0]?.containers[0] ?? {};
    const home = new AgentHome(nodeHome(cluster.home, 3));
    const rotated = () => {
      const facts = statSync(home.logFile(id ?? "", "stdout"));
      return facts.size === 10 * count && facts.blocks * 512 < 125_000;
    };
    await waitFor(rotated, { what: "the log to be rotated", timeoutMs: 60_000 });
    const { stdout, stderr } = await terminal.selvedge("logs", "talkative", "-i", "hello-0");
    expect(stderr).toBe("");
    const lines = stdout.trimEnd().split("\n");
    expect(lines).toHaveLength(count);
    expect(lines.every((line, index) => Number(line) === index)).toBe(true);
    const hour = await terminal.selvedge("logs", "talkative", "-i", "hello-0", "--since", "1h");
    expect(hour.stdout).toBe(stdout);
    expect(hour.stderr).toContain("hello-0: its lines begin with no time that is understood");
    await selvedge("service", "destroy", "talkative", "--yes");
  });
});
