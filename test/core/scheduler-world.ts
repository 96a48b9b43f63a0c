/** A small cluster for the scenario tests of the CapacityScheduler, said in few words. */
import { CapacityScheduler } from "../../src/core/scheduler/capacity-scheduler.ts";
import {
  type Capacity,
  DEFAULT_CONFIGURATION,
  defaultQueue,
  type QueueConfiguration,
  type SchedulerConfiguration,
} from "../../src/core/scheduler/configuration.ts";
import type { Ask, Assignment, SchedulerNode } from "../../src/core/scheduler/request.ts";
import type { QueueInfo } from "../../src/shared/queue.ts";
import { NO_RESOURCE, type Resource } from "../../src/shared/resource.ts";

/** Gigabytes, and as many vcores as no test runs out of by accident. */
export function gb(gigabytes: number, vcores = 0): Resource {
  return { memoryMb: gigabytes * 1_024, vcores };
}

export const percent = (number: number): Capacity => ({ mode: "percentage", percent: number });
export const weight = (number: number): Capacity => ({ mode: "weight", weight: number });

type Tree = Partial<Omit<QueueConfiguration, "children">> & { readonly children?: TreeOf };
type TreeOf = Readonly<Record<string, Tree>>;

/** Queues by name, each with what differs from YARN's defaults. */
export function queues(
  children: TreeOf,
  more: Partial<SchedulerConfiguration> = {},
): SchedulerConfiguration {
  return { ...DEFAULT_CONFIGURATION, root: queue("root", { children }), ...more };
}

function queue(path: string, { children = {}, ...settings }: Tree): QueueConfiguration {
  const below = Object.entries(children).map(([name, tree]) => queue(`${path}.${name}`, tree));
  return { ...defaultQueue(path, below), ...settings };
}

type Submission = {
  readonly queue?: string;
  readonly user?: string;
  readonly priority?: number;
  readonly master?: Resource;
};

export class SchedulerWorld {
  readonly scheduler: CapacityScheduler;
  nowMs = 0;
  #submitted = 0;
  #minted = 0;

  constructor(
    nodes: Readonly<Record<string, Resource>> = {},
    configuration: SchedulerConfiguration = DEFAULT_CONFIGURATION,
  ) {
    this.scheduler = new CapacityScheduler(configuration);
    for (const [host, capability] of Object.entries(nodes)) this.node(host, capability);
  }

  node(host: string, capability: Resource, more: Partial<SchedulerNode> = {}): void {
    const place = { nodeId: `${host}:1`, host, rack: "/r1", labels: [], attributes: {} };
    const vcores = capability.vcores || 1_000;
    this.scheduler.addNode({ ...place, capability: { ...capability, vcores }, ...more });
  }

  submit(attemptId: string, submission: Submission = {}, ...asks: readonly Partial<Ask>[]): void {
    this.#submitted += 1;
    this.scheduler.addApplication({
      attemptId,
      queue: submission.queue ?? "root.default",
      user: submission.user ?? "alice",
      order: this.#submitted,
      priority: submission.priority ?? 0,
      masterResource: submission.master ?? NO_RESOURCE,
    });
    for (const ask of asks) this.ask(attemptId, ask);
  }

  /** 1 GB, unless said otherwise. */
  ask(attemptId: string, ask: Partial<Ask> = {}): void {
    const base = { priority: 0, allocationRequestId: 0, capability: gb(1), count: 1 };
    this.scheduler.setAsk(attemptId, { ...base, ...ask });
  }

  schedule(max = 1_000): Assignment[] {
    return this.scheduler.schedule(this.nowMs, max, (attemptId) => {
      this.#minted += 1;
      return `${attemptId}_${this.#minted}`;
    });
  }

  /** How many containers each application got in a pass. */
  served(max?: number): Record<string, number> {
    const counts: Record<string, number> = {};
    for (const { attemptId } of this.schedule(max)) {
      counts[attemptId] = (counts[attemptId] ?? 0) + 1;
    }
    return counts;
  }

  /** Gigabytes of memory that each of the applications holds. */
  gigabytes(...attemptIds: readonly string[]): number[] {
    return attemptIds.map(
      (attemptId) => this.scheduler.attemptUsage(attemptId).allocated.memoryMb / 1_024,
    );
  }

  reasons(attemptId: string): string[] {
    return this.scheduler.pending(attemptId).map(({ reason }) => reason);
  }

  queue(path: string): QueueInfo {
    const find = (info: QueueInfo): QueueInfo | undefined =>
      info.path === path ? info : info.children.map(find).find((found) => found !== undefined);
    const found = find(this.scheduler.queueInfo());
    if (found === undefined) throw new Error(`there is no queue ${path}`);
    return found;
  }
}
