/** The Worker is killed in the middle of things, or replaced; the cluster goes on as it was. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startCluster, type TestCluster } from "../support/cluster.ts";
import { processOf } from "../support/containers.ts";
import { containerProcesses } from "../support/processes.ts";

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await startCluster({ nodes: 1 });
});

afterAll(async () => {
  await cluster.dispose();
});

async function containerIds(): Promise<string[]> {
  const service = await cluster.serviceIs("steady", "STABLE");
  return service.components.flatMap(({ containers }) => containers.map(({ id }) => id)).toSorted();
}

describe("a Worker that goes away", () => {
  it("[ST6] keeps the containers running and knows them again when it comes back", async () => {
    await cluster.launch({
      name: "steady",
      version: "1",
      components: [
        {
          name: "sleeper",
          number_of_containers: 2,
          launch_command: "exec sleep 1000",
          resource: { cpus: 1, memory: "64" },
        },
      ],
    });
    const before = await containerIds();
    const processes = await Promise.all(before.map(processOf));

    await cluster.killWorkerd();
    await cluster.nodeIs(1, "RUNNING");
    expect(await containerIds()).toEqual(before);

    await cluster.restartWorker();
    await cluster.nodeIs(1, "RUNNING");
    expect(await containerIds()).toEqual(before);
    expect(before.flatMap(containerProcesses)).toEqual(processes);
  });
});
