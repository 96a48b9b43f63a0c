/** A container's registry credential at the edge of a registry that not everybody may read. */
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { CONTAINER_ID, CONTAINER_PATH, fakeCluster } from "./fake-cluster.ts";

beforeEach(() => {
  vi.spyOn(console, "log").mockReturnValue();
});
afterEach(() => {
  vi.useRealTimers();
});

async function closedCluster() {
  const cluster = await fakeCluster({ registryReaders: "authenticated" });
  const read = async (path = "/registry/v1/users") =>
    (await cluster.ask("GET", path, { token: cluster.tokens.container })).status;
  return { ...cluster, read };
}

it("[RG19] reads the registry, by path and by DNS", async () => {
  const { read } = await closedCluster();
  expect(await read()).toBe(200);
  expect(await read("/dns-query?name=web.joe.selvedge.internal&type=A")).toBe(200);
});

it("[RG19] reads nothing once its container has ended", async () => {
  const { ask, read, state, tokens } = await closedCluster();
  state.endedContainers.add(CONTAINER_ID);
  expect(await read()).toBe(401);
  const answer = await ask("GET", "/registry/v1/users", { token: tokens.container });
  expect(answer.text).toContain(`${CONTAINER_ID} has ended`);
});

it("[RG19] is believed for a minute, and not longer", async () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  const { calls, read, state } = await closedCluster();
  await read();
  state.endedContainers.add(CONTAINER_ID);
  expect(await read()).toBe(200);
  expect(calls.filter((call) => call === "findLiveContainer")).toHaveLength(1);
  vi.setSystemTime(Date.now() + 60_001);
  expect(await read()).toBe(401);
});

it("[RG19] opens nothing else, and an accessor does not open a closed registry", async () => {
  const { ask, tokens } = await closedCluster();
  for (const path of ["/app/v1/services", "/ws/v1/cluster/nodes", "/ws/v1/security/whoami"]) {
    expect((await ask("GET", path, { token: tokens.container })).status).toBe(401);
  }
  const headers = { "X-Registry-Accessor": "app:s3cret-of-app" };
  expect((await ask("GET", `/registry/v1${CONTAINER_PATH}`, { headers })).status).toBe(401);
});
