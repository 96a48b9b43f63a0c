/**
 * Whether a queue takes one more application (facts §3.3): states and counts refuse it;
 * max-parallel-apps only lets it wait. The sentences are YARN's.
 */
import { fail, ok, type Reply } from "../../shared/errors.ts";
import type { ApplicationAttempt } from "./application-attempt.ts";
import type { SchedulerConfiguration } from "./configuration.ts";
import type { LeafQueue } from "./leaf-queue.ts";
import { placeIn } from "./outstanding-ask.ts";
import type { Queue } from "./queue.ts";
import { parentQueue } from "./queue-name.ts";
import type { Queues } from "./queues.ts";

type ApplicationLimits = Pick<
  SchedulerConfiguration,
  | "maximumApplications"
  | "queueMaximumApplications"
  | "userMaxParallelApplications"
  | "maxParallelApplicationsOf"
>;

/** Pending and running applications that a leaf takes. */
export function maximumApplications(leaf: LeafQueue, limits: ApplicationLimits): number {
  const configured = leaf.configuration.maximumApplications ?? limits.queueMaximumApplications;
  if (configured !== undefined) return configured;
  const { absoluteCapacity, partition } = leaf.share(leaf.defaultPartition);
  // Shares in resources are not known while there is no node.
  const isUnknown = partition.size === 0 && leaf.configuration.capacity.mode === "absolute";
  if (isUnknown) return limits.maximumApplications;
  return Math.floor(limits.maximumApplications * absoluteCapacity + 1e-9);
}

export function maximumApplicationsPerUser(leaf: LeafQueue, limits: ApplicationLimits): number {
  const most = maximumApplications(leaf, limits);
  const { minimumUserLimit, userLimitFactor } = leaf.configuration;
  if (userLimitFactor < 0) return most;
  return Math.min(most, Math.floor(most * minimumUserLimit * userLimitFactor + 1e-9));
}

/** RESOURCE_EXHAUSTED for counts, FAILED_PRECONDITION for states. `path` is a resolved leaf. */
export function admitApplication(
  queues: Queues,
  limits: ApplicationLimits,
  path: string,
  user: string,
): Reply<undefined> {
  if (queues.root.applications >= limits.maximumApplications) {
    return fail(
      "RESOURCE_EXHAUSTED",
      "Maximum system application limit reached, cannot accept submission of application",
      { hint: "try again when applications have ended, or raise maximum-applications" },
    );
  }
  const leaf = queues.findLeaf(path);
  const parent = queues.find(parentQueue(path));
  const stopped = leaf === undefined ? refuseStopped(parent) : refuseStopped(leaf);
  if (stopped) return stopped;
  if (leaf === undefined) return admitNewLeaf(queues, path, parent);
  const most = maximumApplications(leaf, limits);
  if (leaf.applications >= most) {
    return refuseCount(`Queue ${path} already has ${leaf.applications} applications,`);
  }
  const ofUser = leaf.users.get(user)?.applications ?? 0;
  if (ofUser >= maximumApplicationsPerUser(leaf, limits)) {
    return refuseCount(`Queue ${path} already has ${ofUser} applications from user ${user}`);
  }
  return ok();
}

function admitNewLeaf(queues: Queues, path: string, parent: Queue | undefined): Reply<undefined> {
  const most = parent?.configuration.template?.maxQueues ?? 0;
  if (parent && queues.dynamicLeavesOf(parent.path) < most) return ok();
  return fail(
    "RESOURCE_EXHAUSTED",
    `Queue ${path} cannot be made: ${parent?.path ?? "its parent"} may have at most ${most} dynamic queues`,
  );
}

function refuseCount(text: string): Reply<undefined> {
  return fail("RESOURCE_EXHAUSTED", `${text} cannot accept submission of application`, {
    hint: "try again when one of them has ended, or raise the queue's maximum-applications",
  });
}

function refuseStopped(queue: Queue | undefined): Reply<undefined> | undefined {
  for (let above = queue; above; above = above.parent) {
    if (above.configuration.state === "RUNNING") continue;
    return fail(
      "FAILED_PRECONDITION",
      `Queue ${above.path} is ${above.state}. Cannot accept submission of application`,
      { hint: `set its state to RUNNING: yarn.scheduler.capacity.${above.path}.state` },
    );
  }
  return undefined;
}

/** max-parallel-apps of queues and users: who waits, and who goes on when one ends. */
export class ParallelLimits {
  #limits: ApplicationLimits;
  readonly #byUser = new Map<string, number>();
  /** In the order in which they go on. */
  readonly #waiting: ApplicationAttempt[] = [];

  constructor(limits: ApplicationLimits) {
    this.#limits = limits;
  }

  /** Other limits, and nobody counted yet. */
  reset(limits: ApplicationLimits): void {
    this.#limits = limits;
    this.#byUser.clear();
    this.#waiting.length = 0;
  }

  add(attempt: ApplicationAttempt): void {
    const { index } = placeIn(this.#waiting, (other) => other.order - attempt.order || -1);
    this.#waiting.splice(index, 0, attempt);
    this.release();
  }

  remove(attempt: ApplicationAttempt): void {
    const { leaf, user } = attempt;
    const index = this.#waiting.indexOf(attempt);
    if (index >= 0) {
      this.#waiting.splice(index, 1);
      return;
    }
    if (leaf === undefined || user === undefined) return;
    leaf.removeParallel(attempt);
    for (const queue of leaf.lineage()) queue.parallelApplications -= 1;
    const left = (this.#byUser.get(user.name) ?? 0) - 1;
    if (left > 0) this.#byUser.set(user.name, left);
    else this.#byUser.delete(user.name);
    this.release();
  }

  /** Lets those go on whom the limits allow. */
  release(): void {
    for (const attempt of [...this.#waiting]) {
      const { leaf, user } = attempt;
      if (leaf === undefined || user === undefined) continue;
      if (this.whyWaiting(attempt) !== undefined) continue;
      this.#waiting.splice(this.#waiting.indexOf(attempt), 1);
      for (const queue of leaf.lineage()) queue.parallelApplications += 1;
      this.#byUser.set(user.name, (this.#byUser.get(user.name) ?? 0) + 1);
      leaf.addParallel(attempt);
    }
  }

  /** The limit that is reached, in words. */
  whyWaiting({ leaf, user }: ApplicationAttempt): string | undefined {
    if (leaf === undefined || user === undefined) return undefined;
    for (const queue of leaf.lineage()) {
      const { maxParallelApplications: most } = queue.configuration;
      if (queue.parallelApplications >= most) {
        return `queue ${queue.path} already runs ${most} applications (max-parallel-apps)`;
      }
    }
    const { maxParallelApplicationsOf, userMaxParallelApplications } = this.#limits;
    const most = maxParallelApplicationsOf[user.name] ?? userMaxParallelApplications;
    if ((this.#byUser.get(user.name) ?? 0) < most) return undefined;
    return `user ${user.name} already runs ${most} applications (max-parallel-apps)`;
  }
}
