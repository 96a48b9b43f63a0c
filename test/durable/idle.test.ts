/**
 * A steady cluster costs nothing: no object runs, nothing is written, and agents' pings are answered
 * by the runtime. Everything is observed from outside, since looking into an object wakes it.
 */
import { runDurableObjectAlarm } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { NODE_EXPIRY_MS } from "../../src/core/cluster/tracker-node.ts";
import { Registry } from "../../src/durable/registry.ts";
import { Shell } from "../../src/durable/shell.ts";
import { RowStore } from "../../src/durable/store/row-store.ts";
import { type Contents, type EdgeCluster, OBJECTS, openCluster } from "./support/edge-cluster.ts";
import { isStable } from "./support/thread.ts";
import { VirtualClock } from "./support/virtual-clock.ts";

const LIVENESS_INTERVAL_MS = NODE_EXPIRY_MS / 3;
/** After this long nothing of a launch is under way or held back any more. */
const SETTLED_MS = 60_000;

let cluster: EdgeCluster;
let clock: VirtualClock;

beforeEach(async () => {
  // The runtime stamps the answers to pings by its own clock.
  clock = new VirtualClock(0);
  cluster = await openCluster();
});

afterEach(() => {
  cluster.dispose();
  vi.restoreAllMocks();
});

/** Two nodes and a STABLE service with a container on each. */
async function steadyCluster() {
  const agents = [
    await cluster.startNode("a:8041", { memoryMb: 256 }),
    await cluster.startNode("b:8041", { memoryMb: 256 }),
  ];
  await cluster.launch({ number_of_containers: 2 });
  for (const agent of agents) await cluster.until("a container", () => agent.running().length > 0);
  await cluster.serviceIs("STABLE");
  await cluster.until("both records", async () => (await cluster.registered()).length === 2);
  await clock.advance(cluster, SETTLED_MS);
  return agents;
}

async function everything(): Promise<Readonly<Record<string, Contents>>> {
  const all: Record<string, Contents> = {};
  for (const object of OBJECTS) all[object] = await cluster.contents(object);
  return all;
}

async function alarms(): Promise<Readonly<Record<string, number | null>>> {
  const all: Record<string, number | null> = {};
  for (const object of OBJECTS) all[object] = await cluster.alarmOf(object);
  return all;
}

/** Whatever an object can do leaves a trace in one of these. */
function observe() {
  const registry = Object.getOwnPropertyNames(Registry.prototype)
    .filter((name) => name !== "constructor")
    .map((name) => vi.spyOn(Registry.prototype, name as "exists"));
  const spies = {
    constructed: vi.spyOn(RowStore.prototype, "load"),
    commands: vi.spyOn(Shell.prototype, "run"),
    alarms: vi.spyOn(Shell.prototype, "alarm"),
    stored: vi.spyOn(RowStore.prototype, "save"),
  };
  const callsOf = () => ({
    constructed: spies.constructed.mock.calls.length,
    commands: spies.commands.mock.calls.map(([name]) => name),
    alarms: spies.alarms.mock.calls.length,
    stored: spies.stored.mock.calls.length,
    registry: registry.flatMap((spy) => spy.mock.calls).length,
  });
  return callsOf;
}

const NOTHING = { constructed: 0, commands: [], alarms: 0, stored: 0, registry: 0 };

describe("a steady cluster", () => {
  it("[ID1] has one alarm: the tracker's, at most one liveness interval away", async () => {
    await steadyCluster();
    const { ResourceTracker: liveness, ...others } = await alarms();
    expect(others).toEqual({ ResourceManager: null, ServiceMaster: null, Registry: null });
    expect(liveness).toBeGreaterThan(Date.now());
    expect(liveness).toBeLessThanOrEqual(Date.now() + LIVENESS_INTERVAL_MS);
  });

  it("[ID2] wakes no object and writes nothing for 60 s, though its nodes send pings", async () => {
    const agents = await steadyCluster();
    const before = await everything();
    for (const object of OBJECTS) await cluster.evict(object);
    const seen = observe();
    for (let pings = 0; pings < 2; pings += 1) {
      clock.jump(30_000);
      for (const agent of agents) await agent.ping();
    }
    expect(seen()).toEqual(NOTHING);
    expect(await everything()).toEqual(before);
  });

  it("[ID3] wakes only the tracker in a liveness interval, which then says and writes nothing", async () => {
    const agents = await steadyCluster();
    const before = await everything();
    const due = (await alarms())["ResourceTracker"] ?? 0;
    for (const object of OBJECTS) await cluster.evict(object);
    for (const agent of agents) await agent.ping();
    const seen = observe();
    clock.jumpTo(due);
    expect(await runDurableObjectAlarm(cluster.stub("ResourceTracker"))).toBe(true);
    for (const agent of agents) await agent.ping();
    expect(seen()).toEqual({ ...NOTHING, constructed: 1, commands: ["alarm"], alarms: 1 });
    vi.restoreAllMocks();
    expect(await everything()).toEqual(before);
    expect((await alarms())["ResourceTracker"]).toBeGreaterThan(due + LIVENESS_INTERVAL_MS - 5_000);
    for (const agent of agents) expect(agent.closes).toEqual([]);
  });

  it("[ID3] goes on like that: in nine minutes only the tracker has woken", async () => {
    const agents = await steadyCluster();
    const before = await everything();
    const ran = new Set<string>();
    for (let minute = 0; minute < 9; minute += 1) {
      for (const object of await clock.advance(cluster, 60_000)) ran.add(object);
    }
    expect([...ran]).toEqual(["ResourceTracker"]);
    expect(await everything()).toEqual(before);
    for (const agent of agents) expect(agent.launches).toHaveLength(1);
  });

  it("[ID4] a read wakes only those who are asked, and writes nothing", async () => {
    const agents = await steadyCluster();
    const before = await everything();
    for (const object of OBJECTS) await cluster.evict(object);
    const stored = vi.spyOn(RowStore.prototype, "save");
    await cluster.view();
    await cluster.nodeList();
    await cluster.registered();
    expect(stored).not.toHaveBeenCalled();
    expect(await everything()).toEqual(before);
    expect((await alarms())["ServiceMaster"]).toBeNull();
    for (const agent of agents) expect(agent.launches).toHaveLength(1);
  });
});

describe("an object that nobody has asked anything", () => {
  it("[ID5] stores nothing for a service that does not exist", async () => {
    const response = await cluster.fetch(`/app/v1/services/${cluster.service}`);
    expect(response.status).toBe(404);
    await response.text();
    expect(await cluster.tables("ServiceMaster")).toEqual([]);
    expect(await cluster.alarmOf("ServiceMaster")).toBeNull();
  });
});

/** Printed, not judged: what a launch costs in rows, which dominate a deployment's bill. */
describe("the price of a service", () => {
  it("is measured in rows written for a launch of one container, and for its end", async () => {
    const agent = await cluster.startNode("a:8041");
    await cluster.contents("ServiceMaster");
    await cluster.registered();
    const rows = async () => {
      const all: Record<string, number> = {};
      for (const object of OBJECTS) {
        all[object] = await cluster.within(
          object,
          ({ storage }) => storage.sql.exec<{ n: number }>("SELECT total_changes() AS n").one().n,
        );
      }
      return all;
    };
    const start = await rows();
    await cluster.launch();
    await isStable(cluster, agent, 1);
    await clock.advance(cluster, SETTLED_MS);
    const launched = await rows();
    await cluster.destroy();
    await cluster.until("the container to end", () => agent.statuses.size === 0);
    await clock.advance(cluster, SETTLED_MS);
    const destroyed = await rows();
    const between = (from: Record<string, number>, to: Record<string, number>) =>
      Object.fromEntries(OBJECTS.map((name) => [name, (to[name] ?? 0) - (from[name] ?? 0)]));
    const launch = between(start, launched);
    console.info(
      "rows written for a launch:",
      launch,
      "for destroy:",
      between(launched, destroyed),
    );
    for (const object of OBJECTS) expect(launch[object]).toBeGreaterThan(0);
  });
});
