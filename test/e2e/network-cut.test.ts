/** A node whose network is cut for longer than its cluster waits: its work goes on elsewhere, once. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { nodeHome, nodeId } from "../../scripts/local-cluster.ts";
import { DroppingProxy } from "../chaos/dropping-proxy.ts";
import { startCluster, type TestCluster } from "../support/cluster.ts";
import { containerIds, containersOf, haveEnded, sleepers } from "../support/containers.ts";
import { processesNaming, runningContainers } from "../support/processes.ts";
import { waitFor } from "../support/wait-for.ts";

let cluster: TestCluster;
let proxy: DroppingProxy;

beforeAll(async () => {
  cluster = await startCluster({ nodes: 0 });
  proxy = await DroppingProxy.start(Number(new URL(cluster.url).port));
  await cluster.startNode(1, { url: proxy.url });
  await cluster.nodeIs(1, "RUNNING");
});

afterAll(async () => {
  await cluster.dispose();
  await proxy.close();
});

it("[NM138] a node that is cut off and comes back ends what runs elsewhere by then, and nothing runs twice", async () => {
  await cluster.launch(sleepers("cut", { number_of_containers: 3 }));
  const before = Object.values(containerIds(await cluster.serviceIs("cut", "STABLE")));
  await cluster.startNode(2);
  await cluster.nodeIs(2, "RUNNING");

  proxy.cut();
  // The cluster's end of the connection breaks; the node waits for an answer that never comes.
  proxy.dropFarSide();
  await cluster.nodeIs(1, "LOST");
  await waitFor(
    async () => {
      const containers = containersOf(await cluster.services.get("cut"));
      return containers.length === 3 && containers.every(({ node_id }) => node_id === nodeId(2));
    },
    { what: "everything to run on node 2" },
  );
  const after = Object.values(containerIds(await cluster.serviceIs("cut", "STABLE")));
  // Nobody could tell the node, so all of its containers run on.
  expect(processesNaming(`${nodeHome(cluster.home, 1)}/`).length).toBeGreaterThan(3);

  proxy.heal();
  await cluster.nodeIs(1, "RUNNING");
  await haveEnded(before);
  expect(runningContainers(cluster.home)).toEqual(after.toSorted());
  const events = await cluster.services.events("cut");
  const ends = events.filter(({ type }) => type === "CONTAINER_COMPLETED");
  expect(ends.map((event) => event.containerId).toSorted()).toEqual(before.toSorted());
  for (const { message } of ends) expect(message).toContain("exit status -100");
});
