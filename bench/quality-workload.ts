/**
 * A workload for the simulator: machines, queues, and jobs that arrive over time. It is data only,
 * so that a trace, a generator and a test can make the same thing.
 */
import {
  type Capacity,
  DEFAULT_CONFIGURATION,
  defaultQueue,
  type PreemptionConfiguration,
  type QueueConfiguration,
  type SchedulerConfiguration,
} from "../src/core/scheduler/configuration.ts";
import type { SchedulerNode } from "../src/core/scheduler/request.ts";
import type { ExecutionType } from "../src/shared/protocol/application-master.ts";
import type { Resource } from "../src/shared/resource.ts";

/** Runs in one container. */
export type Task = {
  readonly durationMs: number;
  /** Hosts that hold its data; none: it may run anywhere. */
  readonly hosts: readonly string[];
};

/** Tasks of one size; one scheduler key of their application. */
export type TaskGroup = {
  /** Of the request: smaller is more urgent. */
  readonly priority: number;
  readonly resource: Resource;
  readonly executionType: ExecutionType;
  readonly tasks: readonly Task[];
};

/** Tasks that become ready together: when the job arrives, or when the stage before has ended. */
export type Stage = readonly TaskGroup[];

export type Job = {
  readonly name: string;
  /** Full path of a leaf. */
  readonly queue: string;
  readonly user: string;
  readonly submitMs: number;
  readonly stages: readonly Stage[];
};

/** What a workload is there to judge; it is measured everywhere. */
export type Aim = "saturation" | "makespan" | "fairness" | "packing";

export type Workload = {
  readonly name: string;
  readonly aims: readonly Aim[];
  readonly nodes: readonly SchedulerNode[];
  readonly configuration: SchedulerConfiguration;
  readonly jobs: readonly Job[];
};

/** `count` equal machines in racks of `perRack`. */
export function equalNodes(count: number, perRack: number, capability: Resource): SchedulerNode[] {
  return Array.from({ length: count }, (_, index) => {
    const host = `node${index}`;
    const rack = `/rack${Math.floor(index / perRack)}`;
    return { nodeId: `${host}:8041`, host, rack, labels: [], attributes: {}, capability };
  });
}

/** A leaf below the root that one user may fill, as simulated queues should be. */
export function leaf(
  name: string,
  capacity: Capacity,
  changes: Partial<QueueConfiguration> = {},
): QueueConfiguration {
  // Masters at the edge take nothing of the queue, so that every application is active at once.
  return { ...defaultQueue(`root.${name}`), capacity, userLimitFactor: -1, ...changes };
}

export function flatConfiguration(
  leaves: readonly QueueConfiguration[],
  preemption: Partial<PreemptionConfiguration> = {},
): SchedulerConfiguration {
  return {
    ...DEFAULT_CONFIGURATION,
    root: defaultQueue("root", leaves),
    preemption: { ...DEFAULT_CONFIGURATION.preemption, ...preemption },
    maximumApplications: Number.MAX_SAFE_INTEGER,
  };
}

/** Leaves named by a trace, all of one weight. */
export function equalQueues(paths: Iterable<string>): SchedulerConfiguration {
  const names = [...new Set(paths)].map((path) => path.replace(/^root\./, "")).sort();
  return flatConfiguration(names.map((name) => leaf(name, { mode: "weight", weight: 1 })));
}

export function totalOf(nodes: readonly SchedulerNode[]): Resource {
  return nodes.reduce(
    (sum, { capability }) => ({
      memoryMb: sum.memoryMb + capability.memoryMb,
      vcores: sum.vcores + capability.vcores,
    }),
    { memoryMb: 0, vcores: 0 },
  );
}

/** The larger of the shares of memory and vcores that `resource` is of `total`: 0 to 1. */
export function dominantShare(resource: Resource, total: Resource): number {
  return Math.max(resource.memoryMb / total.memoryMb, resource.vcores / total.vcores);
}
