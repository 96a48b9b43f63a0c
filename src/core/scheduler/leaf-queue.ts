/**
 * A leaf queue: its users, its applications in the order in which they are served, and who of them
 * is active. An application is activated when its ApplicationMaster fits into the queue's and the
 * user's share of ApplicationMasters (facts §3.5); until then it gets nothing.
 */
import {
  type Amounts,
  addAmounts,
  amountOf,
  type Demand,
  dominantShare,
  roundUp,
} from "./amounts.ts";
import type { ApplicationAttempt } from "./application-attempt.ts";
import type { QueueConfiguration } from "./configuration.ts";
import { placeIn } from "./outstanding-ask.ts";
import type { Partition } from "./partition.ts";
import { type ParentQueue, Queue } from "./queue.ts";
import { capacityIn } from "./queue-capacities.ts";
import { type LimitedUser, UserLimits, type UserUse } from "./user-limits.ts";

export class User implements LimitedUser {
  readonly name: string;
  readonly weight: number;
  readonly uses: UserUse[] = [];
  applications = 0;
  activeApplications = 0;
  /** Active applications that ask for something. */
  waitingApplications = 0;
  readonly masterUsed: Amounts = [0, 0];

  constructor(name: string, weight: number) {
    this.name = name;
    this.weight = weight;
  }

  get isActive(): boolean {
    return this.waitingApplications > 0;
  }
}

export class LeafQueue extends Queue {
  readonly users = new Map<string, User>();
  /** Active applications that ask for something, in the order of submission and priority. */
  readonly waiting: ApplicationAttempt[] = [];
  /** Those that wait for the share of ApplicationMasters, in the order in which they get it. */
  readonly pendingMasters: ApplicationAttempt[] = [];
  activeApplications = 0;
  activeUserWeights = 0;
  activeUsers = 0;
  readonly masterUsed: Amounts = [0, 0];
  /** That of requests which name none, and of ApplicationMasters. */
  readonly defaultPartition: Partition;
  /** Since when it is without applications; undefined: it has some. Of dynamic queues. */
  emptySinceMs: number | undefined;
  readonly #minimumAllocation: Amounts;
  readonly #limits: UserLimits[] = [];

  constructor(
    configuration: QueueConfiguration,
    parent: ParentQueue | undefined,
    isDynamic: boolean,
    defaultPartition: Partition,
    minimumAllocation: Amounts,
  ) {
    super(configuration, parent, isDynamic);
    this.defaultPartition = defaultPartition;
    this.#minimumAllocation = minimumAllocation;
  }

  *leaves(): Generator<LeafQueue> {
    yield this;
  }

  limits(partition: Partition): UserLimits {
    const known = this.#limits[partition.id];
    if (known) return known;
    const limits = new UserLimits(this.share(partition), this.#minimumAllocation);
    this.#limits[partition.id] = limits;
    return limits;
  }

  /** After the partition's total or the configuration changed. */
  capacitiesChanged(partition: Partition): void {
    this.limits(partition).refresh(this.users.values());
    this.activate();
  }

  user(name: string): User {
    const known = this.users.get(name);
    if (known) return known;
    const user = new User(name, this.configuration.userWeights[name] ?? 1);
    this.users.set(name, user);
    return user;
  }

  charge(partition: Partition, user: User, demand: Demand, times: number): void {
    this.share(partition).charge(demand, times);
    this.limits(partition).charge(user, demand, times);
  }

  chargeReserved(partition: Partition, user: User, demand: Demand, times: number): void {
    this.share(partition).chargeReserved(demand, times);
    this.limits(partition).charge(user, demand, times);
    for (const queue of this.lineage()) queue.reservedContainers += times;
  }

  /** Within max-parallel-apps: from now on it waits for its ApplicationMaster's share, if any. */
  addParallel(attempt: ApplicationAttempt): void {
    attempt.activation = "master";
    const { index } = placeIn(this.pendingMasters, (other) => compareFifo(other, attempt));
    this.pendingMasters.splice(index, 0, attempt);
    this.activate();
  }

  removeParallel(attempt: ApplicationAttempt): void {
    if (attempt.activation === "active") {
      this.setWaiting(attempt, false);
      this.#countActive(attempt, -1);
    } else {
      removeFrom(this.pendingMasters, attempt);
    }
    attempt.activation = "parallel";
    this.activate();
  }

  /** Activates whom the shares of ApplicationMasters allow. */
  activate(): void {
    if (this.pendingMasters.length === 0) return;
    for (const attempt of [...this.pendingMasters]) {
      if (this.whyNotActive(attempt) !== undefined) continue;
      removeFrom(this.pendingMasters, attempt);
      attempt.activation = "active";
      this.#countActive(attempt, 1);
      if (attempt.asks.length > 0) this.setWaiting(attempt, true);
    }
  }

  /** Which share of ApplicationMasters is used up; undefined: the application may start. */
  whyNotActive(attempt: ApplicationAttempt): "queue" | "user" | undefined {
    const isFirst = this.activeApplications === 0 || this.masterUsed.every((amount) => amount <= 0);
    if (isFirst || attempt.master.every((amount) => amount === 0)) return undefined;
    const { total } = this.defaultPartition;
    const limit = this.masterLimit();
    const fits = (used: Amounts, most: Amounts) => {
      const after = [...used];
      addAmounts(after, attempt.master, 1);
      return dominantShare(after, total) <= dominantShare(most, total) + 1e-12;
    };
    if (!fits(this.masterUsed, limit)) return "queue";
    const user = attempt.user;
    if (user && !fits(user.masterUsed, this.#userMasterLimit(user, limit))) {
      return "user";
    }
    return undefined;
  }

  /** What ApplicationMasters may use of the queue in all. */
  masterLimit(): Amounts {
    const partition = this.defaultPartition;
    const share = this.share(partition);
    const fraction = capacityIn(this, partition).maximumAmResourceFraction;
    return partition.total.map((total, type) => {
      const ceiling = Math.min(total, amountOf(share.used, type) + share.headroom(type));
      const base = Math.max(amountOf(share.minimum, type), ceiling);
      return roundUp(base * fraction, amountOf(this.#minimumAllocation, type));
    });
  }

  #userMasterLimit(user: User, queueLimit: Amounts): Amounts {
    const partition = this.defaultPartition;
    const { minimumUserLimit, userLimitFactor } = this.configuration;
    const fraction = capacityIn(this, partition).maximumAmResourceFraction;
    const equal = Math.max(minimumUserLimit, 1 / Math.max(1, this.activeUsers));
    const part = userLimitFactor < 0 ? 1 : Math.min(equal * user.weight, 1) * userLimitFactor;
    return this.share(partition).minimum.map((amount, type) =>
      Math.min(
        roundUp(amount * fraction * part, amountOf(this.#minimumAllocation, type)),
        amountOf(queueLimit, type),
      ),
    );
  }

  /** Into or out of the line of those that are served, after its asks have changed. */
  setWaiting(attempt: ApplicationAttempt, isWaiting: boolean): void {
    const { index, found } = placeIn(this.waiting, (other) => compareFifo(other, attempt));
    if (isWaiting === (found !== undefined)) return;
    if (isWaiting) this.waiting.splice(index, 0, attempt);
    else this.waiting.splice(index, 1);
    const { user } = attempt;
    if (user === undefined) return;
    const wasActive = user.isActive;
    if (isWaiting) {
      user.waitingApplications += 1;
      if (!wasActive) this.#countActiveUser(user, 1);
    } else {
      user.waitingApplications -= 1;
      if (wasActive && !user.isActive) this.#countActiveUser(user, -1);
    }
  }

  #countActiveUser(user: User, times: 1 | -1): void {
    this.activeUserWeights += times * user.weight;
    this.activeUsers += times;
    for (const limits of this.#limits) limits?.countActive(user, times);
  }

  #countActive(attempt: ApplicationAttempt, times: 1 | -1): void {
    this.activeApplications += times;
    addAmounts(this.masterUsed, attempt.master, times);
    if (attempt.user === undefined) return;
    attempt.user.activeApplications += times;
    addAmounts(attempt.user.masterUsed, attempt.master, times);
  }

  /** A user without applications and containers is not a user of the queue any more. */
  forgetUnused(user: User): void {
    if (user.applications > 0) return;
    if (user.uses.some((use) => use?.used.some((amount) => amount > 0))) return;
    this.users.delete(user.name);
  }
}

/** Larger application priority first, then the order of submission. */
export function compareFifo(a: ApplicationAttempt, b: ApplicationAttempt): number {
  return (
    b.priority - a.priority ||
    a.order - b.order ||
    (a.attemptId < b.attemptId ? -1 : a === b ? 0 : 1)
  );
}

function removeFrom<Item>(items: Item[], item: Item): void {
  const index = items.indexOf(item);
  if (index >= 0) items.splice(index, 1);
}
