/**
 * The whole cluster in one process and one seed: the pure parts that production runs, in the
 * simulated shells, machines and network of this folder. A stormy time is followed by a calm one,
 * at whose end everything must have come to rest as it was wished (rest.ts).
 */
import { shardOf } from "../../src/shared/shard.ts";
import { Auditor, check } from "./auditor.ts";
import type { Core, DurableObject, Keyed } from "./durable-object.ts";
import { drawWeather, strike } from "./faults.ts";
import { Machine } from "./machine.ts";
import { type Mutant, NO_MUTANT } from "./mutants.ts";
import { Network } from "./network.ts";
import type { Peers } from "./peers.ts";
import { SimulatedRegistry } from "./registry.ts";
import { SimulatedResourceManager } from "./resource-manager.ts";
import { checkRest } from "./rest.ts";
import { SimulatedServiceMaster } from "./service-master.ts";
import { SimulatedTracker } from "./tracker.ts";
import { User } from "./workload.ts";
import { World } from "./world.ts";

/** More events than any run that comes to rest: somebody talks for ever. */
const STORM_STEPS_MAX = 60_000;
const CALM_STEPS_MAX = 10_000;

export type Outcome = {
  readonly seed: number;
  readonly hash: string;
  readonly steps: number;
  /** Virtual time. */
  readonly elapsedMs: number;
};

export class Cluster implements Peers {
  readonly world: World;
  readonly resourceManager: SimulatedResourceManager;
  readonly trackers: readonly SimulatedTracker[];
  readonly masters: readonly SimulatedServiceMaster[];
  readonly registry: SimulatedRegistry;
  readonly machines: readonly Machine[];
  readonly users: ReadonlyMap<string, User>;
  readonly auditor: Auditor;
  readonly objects: readonly DurableObject<Core, Keyed>[];

  constructor(world: World) {
    const { random } = world;
    const network = new Network(world, drawWeather(random));
    this.world = world;
    this.auditor = new Auditor(this);
    this.registry = new SimulatedRegistry(world);
    this.resourceManager = new SimulatedResourceManager("rm", world, network);
    this.trackers = Array.from(
      { length: random.pick([1, 1, 2, 3]) },
      (_, shard) => new SimulatedTracker(String(shard), world, network),
    );
    this.masters = Array.from(
      { length: random.between(1, 3) },
      (_, index) => new SimulatedServiceMaster(`service-${index}`, world, network),
    );
    this.machines = Array.from({ length: random.between(2, 5) }, (_, index) => {
      const nodeId = `node${index}:8041`;
      const capability = { memoryMb: 2_048 * random.between(1, 4), vcores: random.between(3, 8) };
      const tracker = this.tracker(shardOf(nodeId, this.shards)) as SimulatedTracker;
      return new Machine(world, tracker, this.auditor, { nodeId, capability });
    });
    const size = random.between(1, 4);
    this.users = new Map(
      this.masters.map((master) => [master.name, new User(world, master, size)]),
    );
    this.objects = [this.resourceManager, ...this.trackers, ...this.masters];
    for (const object of this.objects) object.onCommit = (which) => this.auditor.committed(which);
    this.registry.onChange = () => this.auditor.checkRegistry();
    this.resourceManager.peers = this;
    for (const tracker of this.trackers) tracker.peers = this;
    for (const master of this.masters) master.peers = this;
  }

  get shards(): number {
    return this.trackers.length;
  }

  tracker(shard: string): SimulatedTracker | undefined {
    return this.trackers.find((tracker) => tracker.shard === shard);
  }

  master(name: string): SimulatedServiceMaster | undefined {
    return this.masters.find((master) => master.name === name);
  }

  /** All that the name ever had. */
  applicationsOf(service: string): readonly string[] {
    return [...this.resourceManager.core.applications.values()]
      .filter(({ master }) => master === service)
      .map(({ applicationId }) => applicationId);
  }
}

/** Runs one seed to its end. Throws a Violation when something does not hold. */
export function simulate(
  seed: number,
  mutant: Mutant = NO_MUTANT,
  print?: (line: string) => void,
): Outcome {
  const world = new World(seed, mutant, print);
  const cluster = new Cluster(world);
  storm(cluster);
  calm(cluster);
  checkRest(cluster);
  return { seed, hash: world.hash, steps: world.steps, elapsedMs: world.elapsedMs };
}

function storm(cluster: Cluster): void {
  const { world, machines, users } = cluster;
  const { random } = world;
  for (const machine of machines) {
    machine.startAgentIn(random.skewed(1, 20_000));
  }
  const durationMs = random.between(20_000, 240_000);
  for (const user of users.values()) {
    for (let count = random.between(1, 18); count > 0; count -= 1) {
      world.after(random.between(0, durationMs), `${user.name} acts`, () => user.act());
    }
  }
  for (let count = random.between(0, 50); count > 0; count -= 1) {
    world.after(random.between(1, durationMs), "something happens", () => strike(cluster));
  }
  let isOver = false;
  world.after(durationMs, "the faults end", () => {
    isOver = true;
  });
  while (!isOver && world.step()) {
    check(world.steps < STORM_STEPS_MAX, "REST", () => `too much is said: ${loudest(cluster)}`);
  }
}

/** Everything that is up gets connected, and no message is lost any more. */
function calm(cluster: Cluster): void {
  const { world, machines, objects } = cluster;
  world.isCalm = true;
  for (const object of objects) object.unreachableUntilMs = 0;
  for (const machine of machines) {
    machine.partitionedUntilMs = 0;
    machine.startAgent();
    if (!machine.healthy) machine.agent?.setHealth(true);
    for (const process of machine.living) machine.setReady(process, true);
  }
  rest(cluster);
  for (const object of objects) object.run("woken", () => undefined);
  rest(cluster);
  for (const object of objects) cluster.auditor.checkRebuilt(object);
}

/** Until nothing is going to happen any more. */
function rest(cluster: Cluster): void {
  const { world } = cluster;
  const begunAt = world.steps;
  while (world.step()) {
    check(
      world.steps - begunAt < CALM_STEPS_MAX,
      "REST",
      () => `the cluster never comes to rest: ${loudest(cluster)}`,
    );
  }
}

function loudest({ world }: Cluster): string {
  return world.upcoming().slice(0, 10).join("; ");
}
