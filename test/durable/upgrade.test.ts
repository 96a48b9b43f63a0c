/** An upgrade in place whose master is lost at every step. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { ReInitialization } from "../../src/shared/protocol/resource-tracker.ts";
import { type EdgeCluster, openCluster } from "./support/edge-cluster.ts";
import type { TestAgent } from "./support/test-agent.ts";
import { isStable } from "./support/thread.ts";

let cluster: EdgeCluster;
let agent: TestAgent;

beforeEach(async () => {
  cluster = await openCluster();
  agent = await cluster.startNode("a:8041");
  await cluster.launch({ launch_command: "old" }, { version: "1" });
  await isStable(cluster, agent, 1);
});

afterEach(() => cluster.dispose());

const NEW = {
  version: "2",
  components: [
    {
      name: "hello",
      number_of_containers: 1,
      launch_command: "new",
      resource: { cpus: 1, memory: "256" },
    },
  ],
};

/** The last order to change the container, once it says what shall become of the launch. */
function ordered(fate: ReInitialization) {
  return cluster.until(`the order ${fate}`, () => {
    const entry = agent.received
      .flatMap((message) => (message.type === "desired" ? message.put : []))
      .filter((each) => each.state === "RUN")
      .at(-1);
    return entry?.reInitialization === fate ? entry : undefined;
  });
}

/** The node carries an order out. */
function carriesOut(
  { revision = 0 }: { readonly revision?: number },
  launchVersion?: number,
): void {
  const [containerId = ""] = agent.running();
  const { launchVersion: _, ...before } = agent.statuses.get(containerId) ?? {
    ...{ containerId, state: "RUNNING" as const, exitStatus: 0, diagnostics: "", ready: true },
  };
  agent.report({ ...before, revision, ...(launchVersion === undefined ? {} : { launchVersion }) });
}

describe.each(["awake", "asleep"])("a master that is %s", (how) => {
  const sleep = async () => {
    if (how === "awake") return;
    // Only one that is awake can be lost.
    await cluster.view();
    await cluster.evict("ServiceMaster");
  };

  const upgraded = async () => {
    await cluster.update({ ...NEW, state: "UPGRADING" });
    await sleep();
    await cluster.call(`/app/v1/services/${cluster.service}/components/hello`, {
      method: "PUT",
      body: { state: "UPGRADING" },
    });
    await sleep();
    const order = await ordered("PENDING");
    expect(order.launch).toMatchObject({ version: 2, commands: ["new"] });
    await sleep();
    carriesOut(order, 2);
    await cluster.until("the upgrade to be seen", async () => {
      const [container] = (await cluster.view()).components[0]?.containers ?? [];
      return container?.version === "2" && container.state === "READY";
    });
    await sleep();
  };

  it("[UP12] goes through an upgrade to its end", async () => {
    const [containerId] = agent.running();
    await upgraded();
    await cluster.update({ state: "STARTED" });
    await sleep();
    carriesOut(await ordered("COMMITTED"), 2);
    await cluster.until("the commit to be settled", async () => {
      const rows = (await cluster.contents("ServiceMaster"))["instances"] ?? [];
      return rows.every(({ body }) => !String(body).includes("reInitialization"));
    });
    expect(await cluster.view()).toMatchObject({ state: "STABLE", version: "2" });
    expect(agent.running()).toEqual([containerId]);
    expect((await cluster.contents("ServiceMaster"))["upgrade"]).toEqual([]);
  });

  it("[UP12] goes back to where it was", async () => {
    const [containerId] = agent.running();
    await upgraded();
    await cluster.update({ state: "CANCEL_UPGRADING" });
    await sleep();
    carriesOut(await ordered("ROLLED_BACK"));
    await cluster.until("the service to be as it was", async () => {
      return (await cluster.view()).state === "STABLE";
    });
    expect(await cluster.view()).toMatchObject({ version: "1" });
    expect(agent.running()).toEqual([containerId]);
    expect((await cluster.contents("ServiceMaster"))["upgrade"]).toEqual([]);
  });
});
