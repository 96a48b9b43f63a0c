/**
 * What the shell promises to every core, seen in real objects: a call that fails is said again, a
 * command that throws costs nothing that was acknowledged, and the alarm always comes in time.
 */
import { runDurableObjectAlarm } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Registry } from "../../src/durable/registry.ts";
import { ResourceManager } from "../../src/durable/resource-manager.ts";
import { ResourceTracker } from "../../src/durable/resource-tracker.ts";
import { ServiceMaster } from "../../src/durable/service-master.ts";
import { Shell } from "../../src/durable/shell.ts";
import { EdgeCluster, openCluster } from "./support/edge-cluster.ts";
import { isDestroyed, isStable, liveThroughAll } from "./support/thread.ts";
import { VirtualClock } from "./support/virtual-clock.ts";

let cluster: EdgeCluster;

afterEach(() => {
  cluster.dispose();
  vi.restoreAllMocks();
});

type Method = (this: { readonly ctx: DurableObjectState }, ...input: unknown[]) => Promise<unknown>;

/** Everything that one object says to another. */
const CALLS: readonly (readonly [name: string, of: { readonly prototype: object }])[] = [
  ["submitApplication", ResourceManager],
  ["registerApplicationMaster", ResourceManager],
  ["allocate", ResourceManager],
  ["finishApplicationMaster", ResourceManager],
  ["reportService", ResourceManager],
  ["reportNodes", ResourceManager],
  ["startContainers", ResourceTracker],
  ["cleanupContainers", ResourceTracker],
  ["onAllocateReady", ServiceMaster],
  ["onContainerStatuses", ServiceMaster],
  ["publish", Registry],
  ["purgeEnded", Registry],
  ["createHomes", Registry],
];

type Disturbance = "request" | "answer";

/**
 * Loses every other call: the object that is called dies before it has done anything, or after it
 * has done all, so that the caller cannot tell. Answers how many were lost.
 */
function loseCalls(name: string, of: { readonly prototype: object }, lost: Disturbance) {
  const method = Reflect.get(of.prototype, name) as Method;
  let calls = 0;
  const losing: Method = async function (...input) {
    calls += 1;
    if (calls % 2 === 0) return method.apply(this, input);
    if (lost === "answer") {
      await method.apply(this, input);
      await this.ctx.storage.sync();
    }
    this.ctx.abort(`the test loses the ${lost} of ${name}`);
    throw new Error("not reached");
  };
  vi.spyOn(of.prototype as Record<string, Method>, name).mockImplementation(losing as never);
  return () => Math.ceil(calls / 2);
}

describe.each(["request", "answer"] as const)("a call whose %s is lost", (lost) => {
  it.each(CALLS)("[SH2] is made again, and nothing is different: %s", async (name, of) => {
    const countLost = loseCalls(name, of, lost);
    cluster = new EdgeCluster();
    await liveThroughAll(cluster, async () => undefined);
    expect(countLost()).toBeGreaterThan(0);
  });
});

describe("a call that fails", () => {
  beforeEach(async () => {
    cluster = await openCluster();
  });

  /** No call to the ResourceManager's allocate comes through until told otherwise. */
  function refuseAllocate() {
    const spy = vi.spyOn(ResourceManager.prototype, "allocate");
    return spy.mockRejectedValue(new Error("the test lets nothing through"));
  }

  /** While a call is under way the alarm is 10 s away; the pauses seen here are all shorter. */
  const UNDER_WAY_MS = 9_000;

  it("[SH3] is made again by the alarm, after ever longer pauses", async () => {
    const clock = new VirtualClock();
    const agent = await cluster.startNode("a:8041");
    const allocate = refuseAllocate();
    await cluster.launch();
    const pauses: number[] = [];
    for (let attempt = 1; attempt <= 5; attempt += 1) {
      await cluster.until(`attempt ${attempt}`, () => allocate.mock.calls.length >= attempt);
      const alarmMs = await cluster.until("the pause", async () => {
        const timeMs = await cluster.alarmOf("ServiceMaster");
        const isPause =
          timeMs !== null && timeMs > Date.now() && timeMs < Date.now() + UNDER_WAY_MS;
        return isPause && timeMs;
      });
      pauses.push(alarmMs - Date.now());
      clock.jump(Math.max(0, alarmMs - Date.now()));
      if (attempt === 5) allocate.mockRestore();
      await runDurableObjectAlarm(cluster.stub("ServiceMaster"));
    }
    await isStable(cluster, agent, 1);
    expect(pauses[4]).toBeGreaterThan((pauses[0] ?? 0) * 4);
    expect(Math.max(...pauses)).toBeLessThanOrEqual(30_000);
  });

  it("[SH3] is made again by the alarm also when the caller has died meanwhile", async () => {
    const agent = await cluster.startNode("a:8041");
    const allocate = refuseAllocate();
    await cluster.launch();
    await cluster.until("the first attempt", () => allocate.mock.calls.length > 0);
    await cluster.crash("ServiceMaster");
    allocate.mockRestore();
    expect(await runDurableObjectAlarm(cluster.stub("ServiceMaster"))).toBe(true);
    await isStable(cluster, agent, 1);
  });

  it("[SH4] has the alarm set ahead while it is under way, and not in the past", async () => {
    const clock = new VirtualClock();
    await cluster.startNode("a:8041");
    const allocate = refuseAllocate();
    await cluster.launch();
    await cluster.until("the first attempt", () => allocate.mock.calls.length === 1);
    const { promise, reject } = Promise.withResolvers<never>();
    allocate.mockReturnValue(promise);
    clock.jump(1_000);
    await runDurableObjectAlarm(cluster.stub("ServiceMaster"));
    await cluster.until("the second attempt", () => allocate.mock.calls.length === 2);
    const alarmMs = await cluster.alarmOf("ServiceMaster");
    expect(alarmMs).toBeGreaterThan(Date.now());
    expect(alarmMs).toBeLessThanOrEqual(Date.now() + 10_000);
    reject(new Error("the test ends it"));
  });
});

/** Lets the next command of that name throw when it has changed all that it changes. */
function failOnce(name: string): () => boolean {
  const run = Shell.prototype.run;
  let failed = false;
  vi.spyOn(Shell.prototype, "run").mockImplementation(function (
    this: Shell<never>,
    event,
    command,
  ) {
    if (event !== name || failed) return run.call(this, event, command);
    failed = true;
    return run.call(this, event, (nowMs) => {
      command(nowMs);
      throw new Error("the test fails the command");
    });
  });
  return () => failed;
}

describe("a command that throws", () => {
  it.each([
    ["ServiceMaster", "allocated"],
    ["ResourceManager", "reportNodes"],
    ["ResourceTracker", "node.statuses"],
  ] as const)(
    "[SH5] resets the %s, which starts again from what is stored",
    async (object, name) => {
      cluster = await openCluster();
      const agent = await cluster.startNode("a:8041");
      await cluster.launch();
      await isStable(cluster, agent, 1);
      const hasFailed = failOnce(name);
      const [first = ""] = agent.running();
      agent.complete(first, 1);
      await cluster.until("the command to fail", hasFailed);
      await runDurableObjectAlarm(cluster.stub(object));
      await cluster.until("the replacement", () => agent.launches.length === 2);
      await isStable(cluster, agent, 1);
    },
  );

  it("[SH5] stores none of its changes, and answers its caller with a failure", async () => {
    cluster = await openCluster();
    const agent = await cluster.startNode("a:8041");
    await cluster.launch();
    await isStable(cluster, agent, 1);
    const before = await cluster.contents("ServiceMaster");
    const hasFailed = failOnce("flexService");
    const response = await cluster.fetch(`/app/v1/services/${cluster.service}/components/hello`, {
      method: "PUT",
      body: { number_of_containers: 3 },
    });
    expect(hasFailed()).toBe(true);
    expect(response.status).toBeGreaterThanOrEqual(500);
    expect(await response.text()).not.toContain("the test fails the command");
    expect(await cluster.contents("ServiceMaster")).toEqual(before);
    expect((await cluster.view()).components[0]?.number_of_containers).toBe(1);
    await cluster.destroy();
    await isDestroyed(cluster, agent);
  });
});

describe("the alarm", () => {
  it("[SH6] is kept when the object was loaded again, and moved forward for what comes earlier", async () => {
    const clock = new VirtualClock();
    cluster = await openCluster();
    const agent = await cluster.startNode("a:8041");
    await cluster.launch({}, { lifetime: 7_200 });
    await isStable(cluster, agent, 1);
    await clock.advance(cluster, 60_000);
    const deadlineMs = await cluster.alarmOf("ServiceMaster");
    expect(deadlineMs).toBeGreaterThan(Date.now() + 7_000_000);
    await cluster.evict("ServiceMaster");
    expect(await cluster.alarmOf("ServiceMaster")).toBe(deadlineMs);
    await cluster.update({ lifetime: 600 });
    await cluster.evict("ServiceMaster");
    const sooner = (await cluster.alarmOf("ServiceMaster")) ?? 0;
    expect(sooner).toBeLessThanOrEqual(Date.now() + 600_000);
    await clock.advance(cluster, 600_000);
    await isDestroyed(cluster, agent);
  });

  it("[SH6] is forgotten when there is nothing left to wait for", async () => {
    const clock = new VirtualClock();
    cluster = await openCluster();
    const agent = await cluster.startNode("a:8041");
    await cluster.launch({}, { lifetime: 7_200 });
    await isStable(cluster, agent, 1);
    await clock.advance(cluster, 60_000);
    await cluster.update({ lifetime: -1 });
    await clock.advance(cluster, 60_000);
    expect(await cluster.alarmOf("ServiceMaster")).toBeNull();
  });
});
