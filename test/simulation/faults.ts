/** What goes wrong, drawn from the seed: first the weather of the whole run, then single blows. */
import type { YarnEnd } from "../../src/shared/protocol/registry-operations.ts";
import type { NetworkFaults } from "./network.ts";
import type { Random } from "./random.ts";
import type { Cluster } from "./simulation.ts";

/** How rough a run is. A mild network lets other faults do their work undisturbed. */
export function drawWeather(random: Random): NetworkFaults {
  const often = (probabilities: readonly number[]) => random.pick(probabilities);
  return {
    loss: often([0, 0.02, 0.1, 0.2]),
    doubling: often([0, 0.05, 0.2]),
    lateness: often([0, 0.03, 0.1]),
    crashing: often([0, 0, 0.01, 0.03]),
    delayMaxMs: random.pick([5, 50, 500, 5_000]),
    lateMaxMs: random.pick([100, 5_000, 60_000, 900_000]),
  };
}

type Blow = (cluster: Cluster) => void;

const BLOWS: readonly Blow[] = [
  exitProcess,
  exitProcess,
  exitProcess,
  flipReadiness,
  flipReadiness,
  crashObject,
  crashObject,
  crashObject,
  hibernate,
  isolateObject,
  killAgent,
  killAgent,
  powerOff,
  partition,
  partition,
  breakConnection,
  breakConnection,
  leave,
  changeHealth,
  leapClock,
  killApplication,
  decommission,
  bindRecord,
  bindRecord,
];

export function strike(cluster: Cluster): void {
  cluster.world.random.pick(BLOWS)(cluster);
}

function exitProcess({ machines, world }: Cluster): void {
  const machine = world.random.pick(machines);
  const { living } = machine;
  if (living.length === 0) return;
  const process = world.random.pick(living);
  const exitCode = world.random.pick([0, 0, 1, 137]);
  world.note(`${process.containerId} exits with ${exitCode}`);
  machine.exit(process, exitCode);
}

function flipReadiness({ machines, world }: Cluster): void {
  const machine = world.random.pick(machines);
  const { living } = machine;
  if (living.length === 0) return;
  const process = world.random.pick(living);
  world.note(`${process.containerId} changes its readiness`);
  machine.setReady(process, !process.isReady);
}

function crashObject({ objects, world }: Cluster): void {
  world.random.pick(objects).crash();
}

function hibernate({ trackers, world }: Cluster): void {
  world.random.pick(trackers).hibernate();
}

function isolateObject({ objects, world }: Cluster): void {
  const object = world.random.pick(objects);
  world.note(`${object.name} cannot be reached for a while`);
  object.unreachableUntilMs = world.nowMs + world.random.skewed(100, 30_000);
}

function killAgent({ machines, world }: Cluster): void {
  const machine = world.random.pick(machines);
  if (!machine.agent) return;
  world.note(`the agent of ${machine.nodeId} is killed`);
  machine.killAgent();
  machine.startAgentIn(world.random.skewed(100, 40_000));
}

function powerOff({ machines, world }: Cluster): void {
  const machine = world.random.pick(machines);
  if (machine.isDead) return;
  world.note(`${machine.nodeId} loses power`);
  machine.powerOff();
  const isLast = machines.filter(({ isDead }) => !isDead).length === 1;
  if (!isLast && world.random.chance(0.4)) machine.isDead = true;
  else machine.startAgentIn(world.random.skewed(1_000, 60_000));
}

function partition({ machines, world }: Cluster): void {
  const machine = world.random.pick(machines);
  world.note(`${machine.nodeId} is cut off`);
  machine.partition(world.random.skewed(500, 120_000));
}

function breakConnection({ machines, world }: Cluster): void {
  const machine = world.random.pick(machines);
  world.note(`the connection of ${machine.nodeId} breaks`);
  machine.agent?.breakConnection();
}

function leave({ machines, world }: Cluster): void {
  const machine = world.random.pick(machines);
  if (!machine.agent) return;
  world.note(`${machine.nodeId} is stopped in good order`);
  machine.agent.leave(world.random.between(1_000, 60_000));
}

function changeHealth({ machines, world }: Cluster): void {
  const machine = world.random.pick(machines);
  if (!machine.agent) return;
  world.note(`${machine.nodeId} becomes ${machine.healthy ? "unhealthy" : "healthy"}`);
  machine.agent.setHealth(!machine.healthy);
}

function leapClock({ objects, world }: Cluster): void {
  world.note("the clock leaps");
  world.leap(world.random.skewed(1_000, 900_000));
  for (const object of objects) object.clockLeapt();
}

/** An operator ends an application at the ResourceManager, behind its master's back. */
function killApplication({ resourceManager, users, world }: Cluster): void {
  if (!world.random.chance(0.3)) return;
  const live = resourceManager.core.liveApplications.of("live");
  if (live.length === 0) return;
  const applicationId = world.random.pick(live);
  world.note(`an operator kills ${applicationId}`);
  const master = resourceManager.core.applications.get(applicationId)?.master ?? "";
  users.get(master)?.killed();
  resourceManager.forceKillApplication(applicationId);
}

/** An operator sends a node away, and takes it back after a while. */
function decommission({ machines, resourceManager, world }: Cluster): void {
  const { nodeId } = world.random.pick(machines);
  if (!resourceManager.core.nodes.get(nodeId)) return;
  const timeoutSeconds = world.random.pick([0, 5, 60, null]);
  world.note(`${nodeId} is decommissioned within ${timeoutSeconds ?? "any number of"} s`);
  resourceManager.decommissionNode(nodeId, timeoutSeconds);
  world.after(world.random.skewed(1_000, 90_000), `${nodeId} is taken back`, () =>
    resourceManager.recommissionNode(nodeId),
  );
}

/** Somebody binds a record to the life of a container, an attempt or an application. */
function bindRecord({ resourceManager, registry, world }: Cluster): void {
  const { core } = resourceManager;
  const ends: YarnEnd[] = [];
  for (const { containerId, state, deliveredIn } of core.containers.values()) {
    if (state === "COMPLETED" || deliveredIn === null) continue;
    ends.push({ yarnId: containerId, persistence: "container" });
  }
  for (const applicationId of core.liveApplications.of("live")) {
    const attemptId = core.applications.get(applicationId)?.attemptId ?? "";
    ends.push({ yarnId: attemptId, persistence: "application-attempt" });
    ends.push({ yarnId: applicationId, persistence: "application" });
  }
  if (ends.length === 0) return;
  const end = world.random.pick(ends);
  world.note(`a record is bound to ${end.yarnId}`);
  registry.bindTo(end);
}
