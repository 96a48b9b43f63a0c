/**
 * How well containers fit onto machines, without time: asks come one by one in a random order and
 * stay. The sizes are the workload's, the queue is one without limits, the scheduler is the real one.
 */
import { CapacityScheduler } from "../src/core/scheduler/capacity-scheduler.ts";
import type { SchedulerNode } from "../src/core/scheduler/request.ts";
import { formatApplicationId, formatAttemptId } from "../src/shared/ids.ts";
import { addResource, fitsIn, type Resource, subtractResource } from "../src/shared/resource.ts";
import { aimOf, type Measure, sizeClass } from "./quality-measures.ts";
import { Random } from "./quality-random.ts";
import {
  dominantShare,
  flatConfiguration,
  leaf,
  totalOf,
  type Workload,
} from "./quality-workload.ts";

type One = { readonly application: number; readonly resource: Resource };

/** The machines are full when so many asks in a row found no room. */
const REFUSALS_UNTIL_FULL = 200;
/** How much of the cluster the containers take that are then packed onto fewer machines. */
const COMPACTED_SHARE = 0.8;

export function measurePacking(workload: Workload, seed: number): Measure[] {
  const asks = asksOf(workload, seed);
  const large = asks.filter(({ resource }) => sizeClass(resource, workload) === "large");
  const largeSizes = new Set((large.length > 0 ? large : asks).map(({ resource }) => resource));
  const filled = fill(workload.nodes, asks, largeSizes, new Packer(workload.nodes));
  const reference = fill(workload.nodes, asks, largeSizes, new BestFit(workload.nodes));
  const total = totalOf(workload.nodes);
  return [
    {
      name: "refusal.first.dominant",
      value: 100 * dominantShare(filled.atFirstRefusal, total),
      unit: "%",
      ...aimOf(workload, "packing", { atLeast: 90 }),
    },
    {
      name: "refusal.first.memory",
      value: (100 * filled.atFirstRefusal.memoryMb) / total.memoryMb,
      unit: "%",
    },
    {
      name: "refusal.first.vcores",
      value: (100 * filled.atFirstRefusal.vcores) / total.vcores,
      unit: "%",
    },
    {
      name: "refusal.first.best-fit",
      value: 100 * dominantShare(reference.atFirstRefusal, total),
      unit: "%",
    },
    { name: "full.memory", value: (100 * filled.whenFull.memoryMb) / total.memoryMb, unit: "%" },
    { name: "full.vcores", value: (100 * filled.whenFull.vcores) / total.vcores, unit: "%" },
    ...compaction(workload, filled.compacted),
  ];
}

type Filled = {
  readonly atFirstRefusal: Resource;
  readonly whenFull: Resource;
  /** The first containers, up to the share that is then packed onto fewer machines. */
  readonly compacted: readonly One[];
};

/** Asks one after the other, from the first again after the last, until hardly any fits. */
function fill(
  nodes: readonly SchedulerNode[],
  asks: readonly One[],
  large: ReadonlySet<Resource>,
  packer: Places,
): Filled {
  const total = totalOf(nodes);
  const compacted: One[] = [];
  let used: Resource = { memoryMb: 0, vcores: 0 };
  let atFirstRefusal: Resource | undefined;
  let refusals = 0;
  for (let number = 0; refusals < REFUSALS_UNTIL_FULL; number += 1) {
    const ask = asks[number % asks.length] as One;
    if (packer.place(ask)) {
      refusals = 0;
      used = addResource(used, ask.resource);
      if (dominantShare(used, total) <= COMPACTED_SHARE) compacted.push(ask);
    } else {
      refusals += 1;
      if (large.has(ask.resource)) atFirstRefusal ??= used;
    }
  }
  return { atFirstRefusal: atFirstRefusal ?? used, whenFull: used, compacted };
}

/** Every container of the workload once, in a random order. */
function asksOf({ jobs }: Workload, seed: number): One[] {
  const asks = jobs.flatMap((job, application) =>
    job.stages
      .flat()
      .flatMap(({ resource, tasks }) => tasks.map(() => ({ application, resource }))),
  );
  return new Random(seed).shuffle(asks);
}

/** The fewest machines on which the same containers still fit. */
function compaction(workload: Workload, asks: readonly One[]): Measure[] {
  const { nodes } = workload;
  const needed = (packerOf: (nodes: readonly SchedulerNode[]) => Places) =>
    fewest(nodes.length, (count) => {
      const packer = packerOf(nodes.slice(0, count));
      return asks.every((ask) => packer.place(ask));
    });
  const machines = needed((some) => new Packer(some));
  const reference = needed((some) => new BestFit(some));
  return [
    { name: "compaction.machines", value: machines, unit: "machines" },
    { name: "compaction.best-fit", value: reference, unit: "machines" },
    {
      name: "compaction.ratio",
      value: machines / reference,
      unit: "× best-fit",
      ...aimOf(workload, "packing", { atMost: 1.03 }),
    },
  ];
}

/** The smallest count up to `most` that is enough, where more is never worse. */
function fewest(most: number, isEnough: (count: number) => boolean): number {
  let low = 1;
  let high = most;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isEnough(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

type Places = { place(one: One): boolean };

/** The scheduler under test. */
class Packer implements Places {
  readonly #scheduler: CapacityScheduler;
  readonly #applications = new Set<string>();
  #asked = 0;

  constructor(nodes: readonly SchedulerNode[]) {
    const whole = leaf("default", { mode: "percentage", percent: 100 });
    this.#scheduler = new CapacityScheduler(flatConfiguration([whole]));
    for (const node of nodes) this.#scheduler.addNode(node);
  }

  place({ application, resource }: One): boolean {
    const attemptId = formatAttemptId(formatApplicationId(1, application), 1);
    if (!this.#applications.has(attemptId)) {
      this.#applications.add(attemptId);
      this.#scheduler.addApplication({
        attemptId,
        queue: "root.default",
        user: "packer",
        order: application,
        priority: 0,
        masterResource: { memoryMb: 0, vcores: 0 },
      });
    }
    this.#asked += 1;
    const ask = { priority: 0, allocationRequestId: this.#asked, capability: resource, count: 1 };
    this.#scheduler.setAsk(attemptId, ask);
    const placed = this.#scheduler.schedule(0, 1, () => `container${this.#asked}`).length > 0;
    if (!placed) this.#scheduler.setAsk(attemptId, { ...ask, count: 0 });
    return placed;
  }
}

/**
 * The yardstick: looks at every machine and takes the one where least is left over, and what is left
 * is most alike in memory and vcores.
 */
class BestFit implements Places {
  readonly #nodes: readonly SchedulerNode[];
  readonly #free: Resource[];

  constructor(nodes: readonly SchedulerNode[]) {
    this.#nodes = nodes;
    this.#free = nodes.map(({ capability }) => capability);
  }

  place({ resource }: One): boolean {
    let best = -1;
    let bestScore = Number.POSITIVE_INFINITY;
    for (const [index, { capability }] of this.#nodes.entries()) {
      const room = this.#free[index] as Resource;
      if (!fitsIn(resource, room)) continue;
      const memory = (room.memoryMb - resource.memoryMb) / capability.memoryMb;
      const vcores = (room.vcores - resource.vcores) / capability.vcores;
      const score = memory + vcores + Math.abs(memory - vcores);
      if (score >= bestScore) continue;
      best = index;
      bestScore = score;
    }
    const room = this.#free[best];
    if (room === undefined) return false;
    this.#free[best] = subtractResource(room, resource);
    return true;
  }
}
