/**
 * workerd is killed at different moments of a change, and comes back with what is on the disk.
 * Whatever was acknowledged before is true afterwards, nothing runs twice, and nobody helps.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { FlexRequest } from "../../src/shared/protocol/service.ts";
import { startCluster, type TestCluster } from "../support/cluster.ts";
import { containerIds, sleepers } from "../support/containers.ts";
import { runningContainers } from "../support/processes.ts";
import { waitFor } from "../support/wait-for.ts";

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await startCluster({ nodes: 2, vcores: 32 });
  await cluster.launch(sleepers("steady", { number_of_containers: 2 }));
  await cluster.serviceIs("steady", "STABLE");
});

afterAll(async () => {
  await cluster.dispose();
});

const flex = (count: FlexRequest["count"]) =>
  cluster.services.flex("steady", [{ component: "sleeper", count }]);

/** Instance name → container id, once the service has so many and just they run, each once. */
async function settled(count: number): Promise<Readonly<Record<string, string>>> {
  const ids = await waitFor(
    async () => {
      const service = await cluster.services.get("steady");
      const found = containerIds(service);
      return service.state === "STABLE" && Object.keys(found).length === count && found;
    },
    { what: `steady to be STABLE with ${count} containers` },
  );
  const wanted = Object.values(ids).toSorted();
  await waitFor(() => JSON.stringify(runningContainers(cluster.home)) === JSON.stringify(wanted), {
    what: `exactly ${wanted.length} processes, one for each container`,
  });
  return ids;
}

/** How often the agents have started a container so far. */
function starts(): number {
  const logs = [1, 2].map((number) => cluster.log(number)).join("");
  return logs.split('"container.started"').length - 1;
}

describe("workerd, killed during a flex", () => {
  it("right after the acknowledgement: the flex comes true all the same", async () => {
    const before = await settled(2);
    await flex("+4");
    await cluster.killWorkerd();
    expect(await settled(6)).toMatchObject(before);
  });

  it("when the first new container has started: none is started twice, none is missing", async () => {
    const before = await settled(6);
    const already = starts();
    await flex(12);
    await waitFor(() => starts() > already, { what: "the first new container" });
    await cluster.killWorkerd();
    expect(await settled(12)).toMatchObject(before);
    expect(starts()).toBe(already + 6);
  });

  it("when containers are being given up: the others keep theirs", async () => {
    const before = await settled(12);
    await flex("-9");
    await cluster.killWorkerd();
    const kept = await settled(3);
    expect(Object.keys(kept)).toEqual(["sleeper-0", "sleeper-1", "sleeper-2"]);
    expect(before).toMatchObject(kept);
  });

  it("before the acknowledgement: it happened or it did not, and asking again is safe", async () => {
    const before = await settled(3);
    const answered = flex(5).then(
      () => true,
      () => false,
    );
    await cluster.killWorkerd();
    const [wanted] = (await cluster.services.get("steady")).components;
    expect((await answered) ? [5] : [3, 5]).toContain(wanted?.number_of_containers);
    await flex(5);
    expect(await settled(5)).toMatchObject(before);
  });

  it("twice in a row, a launch and a destroy in between", async () => {
    const before = await settled(5);
    await cluster.launch(sleepers("second", { number_of_containers: 2 }));
    await cluster.killWorkerd();
    await cluster.serviceIs("second", "STABLE");
    await cluster.services.destroy("second");
    await cluster.killWorkerd();
    expect(await settled(5)).toEqual(before);
    expect((await cluster.services.list()).map(({ name }) => name)).toEqual(["steady"]);
  });

  it("and all the while no node was lost and no container of it ended by itself", async () => {
    expect((await cluster.cluster.nodes()).map(({ state }) => state)).toEqual([
      "RUNNING",
      "RUNNING",
    ]);
    const events = await cluster.services.events("steady");
    const ended = events.filter(({ type }) => type === "CONTAINER_COMPLETED");
    expect(ended).toHaveLength(9);
    for (const { message } of ended) expect(message).toContain("released by application");
  });
});
