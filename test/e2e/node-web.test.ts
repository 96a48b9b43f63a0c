/** A NodeManager's own REST, asked through the cluster: what belongs to whom, on a real node. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { createHttp, TextBody } from "../../src/client/http.ts";
import { servicesClient } from "../../src/client/services.ts";
import { startCluster, type TestCluster } from "../support/cluster.ts";
import { containerIds, containersOf, sleepers } from "../support/containers.ts";
import { waitFor } from "../support/wait-for.ts";

let cluster: TestCluster;
let joe: string;

beforeAll(async () => {
  cluster = await startCluster({ nodes: 1 });
  joe = (await cluster.security.createToken({ user: "joe", role: "user" }, 600)).token;
});

afterAll(async () => {
  await cluster.dispose();
});

it("[NM92] a user finds its own containers and logs on a node, and nobody else's", async () => {
  const launch_command = "echo hello; exec sleep 1000";
  await cluster.launch(sleepers("of-admin", { launch_command }));
  const services = servicesClient(createHttp({ url: cluster.url, token: joe }));
  const ofJoe = JSON.stringify(sleepers("of-joe", { launch_command }));
  await services.create(new TextBody("application/json", ofJoe));
  const [own] = await waitFor(
    async () => {
      const found = containersOf(await services.get("of-joe"));
      return found.some(({ state }) => state === "READY") && found;
    },
    { what: "joe's container to be ready" },
  );
  const [foreign] = Object.values(containerIds(await cluster.serviceIs("of-admin", "STABLE")));
  const base = `${cluster.url}/nodes/${own?.node_id}/ws/v1/node`;
  const ask = (path: string, token: string) =>
    fetch(base + path, { headers: { authorization: `Bearer ${token}` } });
  const idsSeenBy = async (token: string) => {
    const { containers } = (await (await ask("/containers", token)).json()) as {
      containers: { container: { id: string }[] };
    };
    return containers.container.map(({ id }) => id);
  };

  expect(await idsSeenBy(joe)).toEqual([own?.id]);
  expect((await idsSeenBy(cluster.token)).toSorted()).toEqual([own?.id, foreign].toSorted());
  const log = (id: string | undefined) => `/containers/${id}/logs/stdout`;
  // A container counts as ready before its first line is written.
  const reads = (id: string | undefined, token: string) =>
    waitFor(async () => (await (await ask(log(id), token)).text()) === "hello\n", {
      what: `the log of ${id}`,
    });
  await reads(own?.id, joe);
  expect((await ask(log(foreign), joe)).status).toBe(404);
  await reads(foreign, cluster.token);
  expect((await ask("/info", joe)).status).toBe(403);
  const info = await (await ask("/info", cluster.token)).json();
  expect(info).toMatchObject({ nodeInfo: { id: own?.node_id, nodeHealthy: true } });
});
