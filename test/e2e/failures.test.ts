/** What dies on the machines: agents, containers, whole machines. The service goes on. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { nodeHome, nodeId } from "../../scripts/local-cluster.ts";
import type { ServiceEvent } from "../../src/shared/protocol/service.ts";
import { startCluster, type TestCluster } from "../support/cluster.ts";
import { containerIds, containersOf, processOf, sleeper, sleepers } from "../support/containers.ts";
import { measured } from "../support/measured.ts";
import { killContainer, processesNaming } from "../support/processes.ts";
import { waitFor } from "../support/wait-for.ts";

/** The grace period of a node whose connection broke, and what a busy machine needs besides. */
const REPLACED_MAX_MS = 10_000 + 8_000;

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await startCluster({ nodes: 2 });
});

afterAll(async () => {
  await cluster.dispose();
});

async function idsOf(service: string) {
  return containerIds(await cluster.serviceIs(service, "STABLE"));
}

/** Instance name → container id, as process ids. */
function processesOf(ids: Readonly<Record<string, string>>): Promise<readonly number[]> {
  return Promise.all(Object.values(ids).map(processOf));
}

/** The number of the node where that container runs. */
async function nodeOf(service: string, containerId: string): Promise<number> {
  const containers = containersOf(await cluster.services.get(service));
  const found = containers.find(({ id }) => id === containerId);
  return [1, 2].find((number) => nodeId(number) === found?.node_id) ?? 0;
}

async function ends(service: string): Promise<readonly ServiceEvent[]> {
  const events = await cluster.services.events(service);
  return events.filter(({ type }) => type === "CONTAINER_COMPLETED");
}

/** Waits until that instance runs in another container than before, and the service is whole. */
async function replaced(service: string, instance: string, before: string | undefined) {
  return waitFor(
    async () => {
      const after = await cluster.services.get(service);
      const id = containerIds(after)[instance];
      return after.state === "STABLE" && id !== undefined && id !== before && id;
    },
    { what: `${instance} of ${service} to run again`, timeoutMs: REPLACED_MAX_MS * 2 },
  );
}

describe("an agent that is killed", () => {
  it("leaves its containers running, and knows them again when it comes back", async () => {
    await cluster.launch(sleepers("steady", { number_of_containers: 4 }));
    const before = await idsOf("steady");
    const processes = await processesOf(before);

    await cluster.killAgent(1);
    const { length: logged } = cluster.log(1);
    const lastLife = () => cluster.log(1).slice(logged);
    expect(await processesOf(before)).toEqual(processes);
    await cluster.startNode(1);
    const onNode1 = containersOf(await cluster.services.get("steady")).filter(
      ({ node_id }) => node_id === nodeId(1),
    );
    expect(onNode1.length).toBeGreaterThan(0);
    await waitFor(() => lastLife().includes("connection.up"), { what: "agent 1 to be back" });
    const adopted = [...lastLife().matchAll(/"container.adopted".*?"containerId":"(\w+)"/g)];
    expect(adopted.map(([, id]) => id).toSorted()).toEqual(onNode1.map(({ id }) => id).toSorted());
    await cluster.nodeIs(1, "RUNNING");
    expect(await idsOf("steady")).toEqual(before);
    expect(await processesOf(before)).toEqual(processes);
    expect(await ends("steady")).toEqual([]);

    // That it is really in charge of them again shows when one of them has to go.
    const [{ id = "" } = {}] = onNode1;
    killContainer(id);
    const name = Object.entries(before).find(([, each]) => each === id)?.[0] ?? "";
    await replaced("steady", name, id);
  });

  it("tells the true exit code of a container that ended meanwhile", async () => {
    const trigger = join(cluster.home, "trigger");
    const component = sleeper({
      launch_command: `until rm ${trigger} 2>/dev/null; do sleep 0.05; done; exit 7`,
    });
    await cluster.launch({ name: "ends", version: "1", components: [component] });
    const { "sleeper-0": id = "" } = await idsOf("ends");
    const node = await nodeOf("ends", id);

    await cluster.killAgent(node);
    writeFileSync(trigger, "");
    const run = join(nodeHome(cluster.home, node), "nm-state", `${id}.pid`);
    const hasEnded = () => /^.*\n7\n$/.test(readFileSync(run, "utf8"));
    await waitFor(hasEnded, { what: "the container to end" });
    expect((await cluster.services.get("ends")).state).toBe("STABLE");
    await cluster.startNode(node);
    await replaced("ends", "sleeper-0", id);
    const [event] = await ends("ends");
    expect(event).toMatchObject({ instance: "sleeper-0", containerId: id });
    expect(event?.message).toContain("exit status 7");
    await cluster.services.destroy("ends");
  });
});

describe("a container that is killed", () => {
  it("is replaced on the spot under the same name, and the event says 137", async () => {
    await cluster.launch(sleepers("victim", { number_of_containers: 2 }));
    const before = await idsOf("victim");
    const id = before["sleeper-1"] ?? "";
    const killedMs = Date.now();
    killContainer(id);
    const after = await replaced("victim", "sleeper-1", id);
    measured(`a killed container was replaced after ${Date.now() - killedMs} ms`);
    await processOf(after);
    expect((await idsOf("victim"))["sleeper-0"]).toBe(before["sleeper-0"]);
    const [event] = await ends("victim");
    expect(event).toMatchObject({ instance: "sleeper-1", containerId: id });
    expect(event?.message).toContain("exit status 137");
    await cluster.services.destroy("victim");
  });
});

describe("a node that is stopped", () => {
  it("ends its containers, hands its work to the others and leaves nothing behind", async () => {
    await cluster.agent(2).stop();
    await cluster.nodeIs(2, "SHUTDOWN");
    await waitFor(async () => (await nodesOf("steady")).every((each) => each === nodeId(1)), {
      what: "everything to run on node 1",
    });
    await cluster.serviceIs("steady", "STABLE");
    expect(processesNaming(`${nodeHome(cluster.home, 2)}/`)).toEqual([]);
    await cluster.startNode(2);
    await cluster.nodeIs(2, "RUNNING");
  });
});

describe("a machine that dies", () => {
  it("is LOST after its grace period, and its containers run elsewhere", async () => {
    const before = await idsOf("steady");
    const diedMs = Date.now();
    await cluster.killMachine(1);
    await waitFor(
      async () => {
        const nodes = await nodesOf("steady");
        return nodes.length === 4 && nodes.every((each) => each === nodeId(2));
      },
      { what: "everything to run on node 2", timeoutMs: REPLACED_MAX_MS },
    );
    const after = await idsOf("steady");
    measured(`a dead machine's containers were replaced after ${Date.now() - diedMs} ms`);
    await cluster.nodeIs(1, "LOST");
    expect(Object.keys(after)).toEqual(Object.keys(before));
    expect(await processesOf(after)).toHaveLength(4);
    const lost = (await ends("steady")).filter(({ message }) => message.includes("status -100"));
    expect(lost.length).toBeGreaterThanOrEqual(4);
  });
});

async function nodesOf(service: string): Promise<readonly string[]> {
  return containersOf(await cluster.services.get(service)).map(({ node_id }) => node_id);
}
