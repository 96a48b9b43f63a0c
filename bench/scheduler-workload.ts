/** The cluster, the queues and the applications of bench/scheduler.ts. */
import {
  DEFAULT_CONFIGURATION,
  defaultQueue,
  type QueueConfiguration,
  type SchedulerConfiguration,
} from "../src/core/scheduler/configuration.ts";
import type { Ask, SchedulerApplication, SchedulerNode } from "../src/core/scheduler/request.ts";
import { formatApplicationId, formatAttemptId } from "../src/shared/ids.ts";
import { NO_RESOURCE, type Resource } from "../src/shared/resource.ts";

export type Fill = "empty" | "half" | "saturated";

/** Asked for, as a part of what the cluster has. */
export const DEMAND: Readonly<Record<Fill, number>> = { empty: 0.05, half: 0.5, saturated: 1.2 };

export type Workload = {
  readonly nodes: number;
  readonly queues: number;
  readonly classes: number;
  /** How many times as large as usual nodes are. */
  readonly density: number;
  readonly features: "limits" | "all";
  readonly demand: number;
  /** Of every application, by allocationRequestId; filled by `applicationsOf`. */
  readonly asks: Ask[];
};

const NODE: Resource = { memoryMb: 262_144, vcores: 64 };
const APPLICATIONS_MIN = 96;
const USERS_PER_QUEUE = 3;
/** Above this many leaves the tree has a level more. */
const LEAVES_PER_PARENT = 50;
/** With all features, every tenth node has this label, and every tenth ask wants it. */
const LABEL = "gpu";
const ONE_IN = 10;
const NODES_PER_RACK = 40;

/** Sizes from 1 vcore with 512 MB to 16 vcores with 64 GB and more; small ones are common. */
function sizes(classes: number) {
  const all = [1, 2, 4, 16].flatMap((vcores, step) =>
    [512, 1_024, 2_048, 4_096].map((perVcoreMb) => ({
      vcores,
      memoryMb: vcores * perVcoreMb,
      weight: 2 ** (4 - step),
    })),
  );
  return Array.from({ length: classes }, (_, index) => {
    const size = all[index % all.length] ?? { vcores: 1, memoryMb: 1_024, weight: 1 };
    const more = Math.floor(index / all.length) * 128;
    return { ...size, memoryMb: size.memoryMb + more };
  });
}

export function configurationOf({ queues, features }: Workload): SchedulerConfiguration {
  const parents = Math.ceil(queues / LEAVES_PER_PARENT);
  const isFlat = parents === 1;
  const leavesOf = (parent: string, count: number) =>
    Array.from({ length: count }, (_, index) => leaf(`${parent}.q${index}`, features));
  const perParent = Math.ceil(queues / parents);
  const children = isFlat
    ? leavesOf("root", queues)
    : Array.from({ length: parents }, (_, index) => {
        const count = Math.min(perParent, queues - index * perParent);
        const path = `root.p${index}`;
        return { ...leaf(path, features), children: leavesOf(path, count), ordering: BY_USE };
      });
  return {
    ...DEFAULT_CONFIGURATION,
    root: defaultQueue("root", children),
    ...(features === "all" && {
      nodeLabels: [{ name: LABEL, exclusive: true }],
      maximumApplicationPriority: 10,
    }),
  };
}

const BY_USE: QueueConfiguration["ordering"] = { policy: "utilization" };

/** As much as its siblings, half as much again at most, and half of its guarantee for one user. */
function leaf(path: string, features: Workload["features"]): QueueConfiguration {
  const weight = { mode: "weight", weight: 1 } as const;
  const maximumCapacity = { mode: "percentage", percent: 90 } as const;
  return {
    ...defaultQueue(path),
    capacity: weight,
    maximumCapacity,
    minimumUserLimit: 0.25,
    userLimitFactor: 2,
    ...(features === "all" && {
      accessibleNodeLabels: "*" as const,
      partitions: {
        [LABEL]: { capacity: weight, maximumCapacity, maximumAmResourceFraction: 0.1 },
      },
    }),
  };
}

export function* nodesOf({ nodes, features, density }: Workload): Generator<SchedulerNode> {
  for (let number = 0; number < nodes; number += 1) {
    const isLabelled = features === "all" && number % ONE_IN === 0;
    yield {
      nodeId: `worker${number}.example.com:8041`,
      host: `worker${number}.example.com`,
      rack: `/rack${Math.floor(number / NODES_PER_RACK)}`,
      labels: isLabelled ? [LABEL] : [],
      attributes: { zone: `z${number % 3}` },
      capability: { memoryMb: NODE.memoryMb * density, vcores: NODE.vcores * density },
    };
  }
}

export type BenchApplication = {
  readonly application: SchedulerApplication;
  readonly asks: readonly Ask[];
};

export function* applicationsOf(workload: Workload): Generator<BenchApplication> {
  const { nodes, queues, demand, features, classes, density } = workload;
  const leaves = [...leafPaths(configurationOf(workload).root)];
  const count = Math.max(APPLICATIONS_MIN, queues);
  const mix = sizes(classes);
  const weights = mix.reduce((total, { weight }) => total + weight, 0);
  const vcores = mix.reduce((total, size) => total + size.weight * size.vcores, 0);
  const memoryMb = mix.reduce((total, size) => total + size.weight * size.memoryMb, 0);
  const perContainer = Math.max(vcores / NODE.vcores, memoryMb / NODE.memoryMb) / weights;
  const containers = (demand * nodes * density) / perContainer;
  workload.asks.length = 0;
  for (const [index, size] of mix.entries()) {
    const plain = {
      priority: 0,
      allocationRequestId: index,
      capability: { memoryMb: size.memoryMb, vcores: size.vcores },
      count: Math.ceil((containers * size.weight) / weights / count),
    };
    workload.asks.push(features === "all" ? withFeatures(plain, index, nodes) : plain);
  }
  for (let number = 0; number < count; number += 1) {
    const attemptId = formatAttemptId(formatApplicationId(1, number), 1);
    const application = {
      attemptId,
      queue: leaves[number % leaves.length] ?? "",
      user: `user${Math.floor(number / leaves.length) % USERS_PER_QUEUE}`,
      order: number,
      priority: features === "all" ? number % 3 : 0,
      masterResource: NO_RESOURCE,
    };
    yield { application, asks: workload.asks };
  }
}

/** One ask in eight has hosts and racks, one a constraint, one a label, one gives way to others. */
function withFeatures(ask: Ask, index: number, nodes: number): Ask {
  const number = (index * 7_919) % nodes;
  const host = `worker${number}.example.com`;
  const rack = `/rack${Math.floor(number / NODES_PER_RACK)}`;
  switch (index % 8) {
    case 1: {
      const places = [host, rack].map((name) => ({ name, count: ask.count }));
      return { ...ask, priority: 0, places };
    }
    case 3:
      return {
        ...ask,
        allocationTags: [`size${index}`],
        constraint: {
          type: "cardinality",
          scope: "node",
          targets: [{ kind: "allocation-tags", namespace: "self", tags: [`size${index}`] }],
          min: 0,
          max: 3,
        },
      };
    case 5:
      return { ...ask, nodeLabel: LABEL };
    case 7:
      return { ...ask, executionType: "OPPORTUNISTIC" };
    default:
      return ask;
  }
}

function* leafPaths(queue: QueueConfiguration): Generator<string> {
  if (queue.children.length === 0) yield queue.path;
  for (const child of queue.children) yield* leafPaths(child);
}

/** Mulberry32: the same numbers for the same seed, 0 ≤ number < 1. */
export function randomNumbers(start: number): () => number {
  let state = start;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
