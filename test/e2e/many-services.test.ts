/** A hundred services at once: all of them come up, all of them go, and nothing of them stays. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { startCluster, type TestCluster } from "../support/cluster.ts";
import { sleepers } from "../support/containers.ts";
import { measured } from "../support/measured.ts";
import { runningContainers } from "../support/processes.ts";
import { waitFor } from "../support/wait-for.ts";

const SERVICES = 100;
const CONTAINERS_EACH = 3;
const CONTAINERS = SERVICES * CONTAINERS_EACH;
const BUSY_MACHINE_MS = 90_000;

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await startCluster({ nodes: 2, memoryMb: 100_000, vcores: 1_000 });
});

afterAll(async () => {
  await cluster.dispose();
});

it("launches a hundred services of three containers at once, and destroys them all", async () => {
  const names = Array.from({ length: SERVICES }, (_, index) => `service-${index}`);
  const startedMs = Date.now();
  await Promise.all(
    names.map((name) => cluster.launch(sleepers(name, { number_of_containers: CONTAINERS_EACH }))),
  );
  const acceptedMs = Date.now();
  await waitFor(
    async () => (await cluster.services.list({ state: "STABLE" })).length === SERVICES,
    { what: "all services to be STABLE", timeoutMs: BUSY_MACHINE_MS },
  );
  const stableMs = Date.now();
  await waitFor(() => runningContainers(cluster.home).length === CONTAINERS, {
    what: "a process for each container",
  });
  expect(new Set(runningContainers(cluster.home)).size).toBe(CONTAINERS);
  expect((await cluster.cluster.metrics()).containersAllocated).toBe(CONTAINERS);

  const destroyedMs = Date.now();
  await Promise.all(names.map((name) => cluster.services.destroy(name)));
  await waitFor(() => runningContainers(cluster.home).length === 0, {
    what: "all processes to end",
    timeoutMs: BUSY_MACHINE_MS,
  });
  const goneMs = Date.now();
  expect(await cluster.services.list()).toEqual([]);
  await waitFor(async () => (await cluster.cluster.metrics()).containersAllocated === 0, {
    what: "the nodes to be free",
  });
  await waitFor(
    async () => {
      const registry = await fetch(`${cluster.url}/registry/v1/users/admin/yarn-service`);
      return ((await registry.json()) as { children: string[] }).children.length === 0;
    },
    { what: "the registry to have none of them" },
  );
  measured(
    `${SERVICES} services of ${CONTAINERS_EACH}: accepted after ${acceptedMs - startedMs} ms, ` +
      `STABLE after ${stableMs - startedMs} ms; gone ${goneMs - destroyedMs} ms after destroy`,
  );
});
