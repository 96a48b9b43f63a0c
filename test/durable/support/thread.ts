/**
 * The life of a service from an empty cluster to its end, as one thread of acknowledged commands.
 * What shall happen between them, such as the loss of an object, is the caller's.
 */
import { expect } from "vitest";
import type { ApplicationRow, ContainerRow, DirectoryRow } from "../../../src/core/cluster/rows.ts";
import { encodeYarnId } from "../../../src/shared/ids.ts";
import type { EdgeCluster } from "./edge-cluster.ts";
import type { TestAgent } from "./test-agent.ts";

export type Between = (step: string) => Promise<void>;

/** Answers the node's agent. Fails where anything is not as it is without disturbance. */
export async function liveThroughAll(cluster: EdgeCluster, between: Between): Promise<TestAgent> {
  await cluster.claim();
  await between("claim");
  const agent = await cluster.node("worker1:8041");
  await between("join");
  await agent.connect();
  await between("connect");
  await cluster.nodeIs("worker1:8041", "RUNNING");

  await cluster.launch({ number_of_containers: 2 });
  await between("create");
  await isStable(cluster, agent, 2);
  await between("stable");

  const [failing = ""] = agent.running();
  agent.complete(failing, 1);
  await cluster.until("the end to be acknowledged", () => !agent.statuses.has(failing));
  await between("container ended");
  await cluster.until("the replacement", () => agent.launches.length >= 3);
  await isStable(cluster, agent, 2);

  await cluster.call(`/app/v1/services/${cluster.service}/components/hello`, {
    method: "PUT",
    body: { number_of_containers: 1 },
  });
  await between("flex");
  await isStable(cluster, agent, 1);

  await cluster.update({ state: "STOPPED" });
  await between("stop");
  await isStopped(cluster, agent);

  await cluster.update({ state: "STARTED" });
  await between("start");
  await isStable(cluster, agent, 1);

  await cluster.destroy();
  await between("destroy");
  await isDestroyed(cluster, agent);
  expect(launchedInstances(agent)).toEqual(["hello-0", "hello-0", "hello-0", "hello-1"]);
  return agent;
}

/** Each launch by the name of its instance, sorted; a container launched twice fails the test. */
export function launchedInstances(agent: TestAgent): readonly string[] {
  const ids = agent.launches.map(({ containerId }) => containerId);
  expect(new Set(ids).size, "every container is launched once").toBe(ids.length);
  return agent.launches.map(({ instance }) => instance).sort();
}

/** STABLE with that many containers, on the node, in the view and in the registry alike. */
export async function isStable(
  cluster: EdgeCluster,
  agent: TestAgent,
  containers: number,
): Promise<void> {
  const seen = () => `running ${agent.running().length}`;
  await cluster.until(
    () => `${containers} stable containers; ${seen()}`,
    async () => {
      const { state, components } = await cluster.view();
      const shown = components.flatMap((component) => component.containers.map(({ id }) => id));
      const running = [...agent.running()].sort();
      return (
        state === "STABLE" &&
        running.length === containers &&
        String([...shown].sort()) === String(running) &&
        String([...(await cluster.registered())].sort()) === String(running.map(encodeYarnId))
      );
    },
  );
}

export async function isStopped(cluster: EdgeCluster, agent: TestAgent): Promise<void> {
  await cluster.serviceIs("STOPPED");
  await cluster.until("the containers to end", () => agent.running().length === 0);
  await cluster.until("the records to go", async () => (await cluster.registered()).length === 0);
}

/** Nobody has anything of the service any more, except what is kept as history on purpose. */
export async function isDestroyed(cluster: EdgeCluster, agent: TestAgent): Promise<void> {
  await cluster.until("the service to be gone", async () => {
    const response = await cluster.fetch(`/app/v1/services/${cluster.service}`);
    await response.body?.cancel();
    return response.status === 404;
  });
  await cluster.until("the containers to end", () => agent.statuses.size === 0);
  await cluster.until(
    () => "nothing to be left",
    async () => (await leftovers(cluster)).length === 0,
  );
  expect(await leftovers(cluster)).toEqual([]);
}

/** Rows that a destroyed service should not have left, as `Object.table`. */
export async function leftovers(cluster: EdgeCluster): Promise<readonly string[]> {
  const left: string[] = [];
  const add = (where: string, rows: readonly unknown[]) => {
    if (rows.length > 0) left.push(`${where}: ${rows.map((row) => JSON.stringify(row))}`);
  };
  const { schema_version: _, ...master } = await cluster.contents("ServiceMaster");
  for (const [table, rows] of Object.entries(master)) add(`ServiceMaster.${table}`, rows);
  const {
    nodes: _nodes,
    schema_version: _version,
    peers = [],
    ...tracker
  } = await cluster.contents("ResourceTracker");
  for (const [table, rows] of Object.entries(tracker)) add(`ResourceTracker.${table}`, rows);
  add(
    "ResourceTracker.peers",
    peers.filter(({ key }) => key !== "resource-manager"),
  );
  add("ResourceManager.purges", await cluster.rows("ResourceManager", "purges"));
  add("ResourceManager.asks", await cluster.rows("ResourceManager", "asks"));
  add(
    "ResourceManager.containers",
    await cluster.rows<ContainerRow>("ResourceManager", "containers"),
  );
  const directory = await cluster.rows<DirectoryRow>("ResourceManager", "directory");
  add(
    "ResourceManager.directory",
    directory.filter(({ entry }) => entry !== null),
  );
  const applications = await cluster.rows<ApplicationRow>("ResourceManager", "applications");
  add(
    "ResourceManager.applications",
    applications.filter(({ finishedMs }) => finishedMs === null),
  );
  const { registry_node: nodes = [] } = await cluster.contents("Registry");
  const records = nodes.filter(({ record, name }) => record !== null || name === cluster.service);
  add("Registry", records);
  return left;
}
