/**
 * The rules of the CapacityScheduler once more: slow, obvious, and from the description alone
 * (facts/yarn-rm-nm-scheduler.md §3). It looks at everything each time and remembers nothing. It says
 * whose request is served next, and on which nodes it may be.
 *
 * On purpose unlike YARN: all nodes are looked at together; a queue or user that may have everything
 * is limited by nodes alone; nothing is kept back for a request that is larger than its queue may
 * ever be; what a draining node still holds counts in no queue. Left out: partitions, locality,
 * constraints, shares of ApplicationMasters, capacities in resources; they have tests of their own.
 */
import type {
  Capacity,
  QueueConfiguration,
  SchedulerConfiguration,
} from "../../src/core/scheduler/configuration.ts";
import type {
  Ask,
  BookedContainer,
  SchedulerApplication,
  SchedulerNode,
} from "../../src/core/scheduler/request.ts";
import type { Resource } from "../../src/shared/resource.ts";

/** What is true now. */
export type Facts = {
  readonly configuration: SchedulerConfiguration;
  readonly nodes: ReadonlyMap<string, SchedulerNode>;
  readonly draining: ReadonlySet<string>;
  readonly applications: ReadonlyMap<string, SchedulerApplication>;
  readonly asks: ReadonlyMap<string, ReadonlyMap<string, Ask>>;
  readonly containers: ReadonlyMap<string, BookedContainer>;
  /** By application, which has one at most: a node that is kept for it, §3.8. */
  readonly reservations: ReadonlyMap<string, Reservation>;
};

export type Reservation = { readonly nodeId: string; readonly resource: Resource };

export type Decision = {
  readonly attemptId: string;
  readonly priority: number;
  readonly allocationRequestId: number;
  /** Each would be right. */
  readonly nodes: readonly string[];
};

/** Memory and vcores. */
type Amount = readonly [memoryMb: number, vcores: number];

type Queue = {
  readonly configuration: QueueConfiguration;
  readonly children: readonly Queue[];
  /** Shares of the whole cluster, §3.2. */
  readonly absolute: number;
  readonly guaranteed: Amount;
  readonly maximum: Amount;
  /**
   * The maximum, where it is less than everything. Unlike in YARN a queue that may have all is
   * limited by nodes alone: not by reservations, or by what outgrew a node that became smaller.
   */
  readonly limit: Amount;
  readonly used: Amount;
  /** Part of what is used. */
  readonly reserved: Amount;
};

type Held = Pick<BookedContainer, "attemptId" | "nodeId" | "resource">;

/** What a queue answered when it was asked to place something. */
type Answer =
  | { readonly kind: "placed"; readonly decision: Decision }
  | { readonly kind: "nothing" }
  /** Its first request does not fit below a ceiling: what it still had free is kept for it. */
  | { readonly kind: "queue-limit"; readonly blocked: Amount };

const NOTHING: Answer = { kind: "nothing" };
const NONE: Amount = [0, 0];
const UNLIMITED: Amount = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];

/** What comes next; undefined: nothing can be placed. */
export function decide(facts: Facts): Decision | undefined {
  return new Oracle(facts).decide();
}

/** §3.10: at least the minimum allocation, and a multiple of it. */
export function normalised(resource: Resource, { minimumAllocation }: SchedulerConfiguration) {
  const upTo = (amount: number, step: number) => Math.max(1, Math.ceil(amount / step)) * step;
  return {
    memoryMb: upTo(resource.memoryMb, minimumAllocation.memoryMb),
    vcores: upTo(resource.vcores, minimumAllocation.vcores),
  };
}

class Oracle {
  readonly #facts: Facts;
  readonly #total: Amount;
  readonly #step: Amount;
  readonly #root: Queue;
  /** Containers and reservations on active nodes: what counts as used. */
  readonly #held: readonly Held[];

  constructor(facts: Facts) {
    this.#facts = facts;
    const active = [...facts.nodes.values()].filter(({ nodeId }) => !facts.draining.has(nodeId));
    this.#total = sum(active.map(({ capability }) => amountOf(capability)));
    this.#step = amountOf(facts.configuration.minimumAllocation);
    const ids = new Set(active.map(({ nodeId }) => nodeId));
    const reserved = [...facts.reservations].map(([attemptId, one]) => ({ ...one, attemptId }));
    this.#held = [...facts.containers.values(), ...reserved].filter(({ nodeId }) =>
      ids.has(nodeId),
    );
    this.#root = this.#queue(facts.configuration.root, 1, this.#total, this.#total);
  }

  decide(): Decision | undefined {
    const answer = this.#askQueue(this.#root, this.#root.limit);
    return answer.kind === "placed" ? answer.decision : undefined;
  }

  // §3.2 Capacity arithmetic

  #queue(
    configuration: QueueConfiguration,
    absolute: number,
    guaranteed: Amount,
    maximum: Amount,
  ): Queue {
    const { children } = configuration;
    const weights = children.reduce((all, child) => all + weightOf(child.capacity), 0);
    const queues = children.map((child) => {
      const share = absolute * shareOf(child.capacity, weights);
      const mostOf = fractionOf(child.maximumCapacity);
      return this.#queue(child, share, scale(this.#total, share), scale(maximum, mostOf));
    });
    const isInside = (one: Held) => `${this.#queueOf(one)}.`.startsWith(`${configuration.path}.`);
    const used = this.#usedBy(isInside);
    const reserved = this.#usedBy((one) => isInside(one) && !("containerId" in one));
    const limit = fits(this.#total, maximum) ? UNLIMITED : maximum;
    return {
      configuration,
      children: queues,
      absolute,
      guaranteed,
      maximum,
      limit,
      used,
      reserved,
    };
  }

  // §3.6 Order of service: parent to child

  #askQueue(queue: Queue, ceiling: Amount): Answer {
    // A queue at its ceiling is refused, unless giving up reservations helps.
    if (this.#compare(minus(queue.used, queue.reserved), ceiling) >= 0) return NOTHING;
    if (queue.children.length === 0) return this.#askLeaf(queue, ceiling);
    let blocked = NONE;
    let isLimited = false;
    for (const child of this.#inOrder(queue)) {
      const answer = this.#askQueue(child, this.#childCeiling(queue, child, ceiling, blocked));
      if (answer.kind === "placed") return answer;
      if (answer.kind === "nothing") continue;
      isLimited = true;
      blocked = plus(blocked, answer.blocked);
    }
    return isLimited ? { kind: "queue-limit", blocked } : NOTHING;
  }

  /**
   * What the parent may still use and does not, what the child has, less what is kept for others. YARN
   * also rounds it down to the minimum allocation, of which everything is a multiple until that is
   * changed.
   */
  #childCeiling(parent: Queue, child: Queue, ceiling: Amount, blocked: Amount): Amount {
    const ofParent = least(ceiling, parent.limit);
    const room = minus(plus(minus(ofParent, parent.used), child.used), blocked);
    return least(room, child.limit);
  }

  /** The least used of its guarantee first; §3.6. */
  #inOrder({ configuration, children }: Queue): Queue[] {
    const byPriority = configuration.ordering.policy === "priority-utilization";
    return [...children].sort((a, b) => {
      const [first, second] = [this.#usedCapacity(a), this.#usedCapacity(b)];
      if (a.absolute > 0 !== b.absolute > 0) return a.absolute > 0 ? -1 : 1;
      const isSameSide = first < 1 === second < 1;
      const priorities = b.configuration.priority - a.configuration.priority;
      if (byPriority && isSameSide && priorities !== 0) return priorities;
      const byName = a.configuration.path < b.configuration.path ? -1 : 1;
      return first - second || b.absolute - a.absolute || byName;
    });
  }

  #usedCapacity({ used, guaranteed, absolute }: Queue): number {
    if (absolute === 0) return Math.max(...this.#shares(used));
    const base = most(guaranteed, this.#step);
    return Math.max(...used.map((amount, type) => ratio(amount, base[type] ?? 0)));
  }

  // §3.6 Apps in a leaf

  #askLeaf(queue: Queue, ceiling: Amount): Answer {
    for (const application of this.#applicationsOf(queue)) {
      const reserved = this.#reservedBy(application.attemptId);
      for (const ask of this.#asksOf(application)) {
        const size = amountOf(ask.capability);
        const nodes = this.#feasible(size);
        if (nodes.length === 0) continue;
        // §3.8 Continue looking: limits that only the own reservation hits are none.
        const isWithinUserLimit = [NONE, reserved].some((less) =>
          this.#isWithinUserLimit(queue, application.user, less),
        );
        if (!isWithinUserLimit) break;
        const isWithinCeiling = [NONE, reserved].some((less) =>
          fits(plus(size, minus(queue.used, less)), ceiling),
        );
        if (isWithinCeiling) {
          const { priority, allocationRequestId } = ask;
          const { attemptId } = application;
          return { kind: "placed", decision: { attemptId, priority, allocationRequestId, nodes } };
        }
        // What is larger than the queue may ever be waits in vain; nothing is kept for it.
        if (!fits(size, queue.maximum)) continue;
        return { kind: "queue-limit", blocked: most(NONE, minus(ceiling, queue.used)) };
      }
    }
    return NOTHING;
  }

  /** fifo: the higher priority, then the earlier. fair: who has least memory, then as fifo. */
  #applicationsOf({ configuration }: Queue): SchedulerApplication[] {
    const mine = [...this.#facts.applications.values()].filter(
      ({ queue }) => queue === configuration.path,
    );
    const memory = ({ attemptId }: SchedulerApplication) =>
      [...this.#facts.containers.values()]
        .filter((one) => one.attemptId === attemptId)
        .reduce((all, { resource }) => all + resource.memoryMb, 0);
    const isFair = configuration.ordering.policy === "fair";
    return mine.sort(
      (a, b) =>
        (isFair ? memory(a) - memory(b) : 0) || b.priority - a.priority || a.order - b.order,
    );
  }

  /** The smaller priority first, then the smaller id. */
  #asksOf({ attemptId }: SchedulerApplication): Ask[] {
    return [...(this.#facts.asks.get(attemptId)?.values() ?? [])].sort(
      (a, b) => a.priority - b.priority || a.allocationRequestId - b.allocationRequestId,
    );
  }

  /** Active nodes with room, that are kept for nobody. */
  #feasible(size: Amount): string[] {
    const { nodes, draining, containers, reservations } = this.#facts;
    const kept = [...reservations.values()].map(({ nodeId }) => nodeId);
    return [...nodes.values()]
      .filter(({ nodeId }) => !draining.has(nodeId) && !kept.includes(nodeId))
      .filter(({ nodeId, capability }) => {
        const here = [...containers.values()].filter((one) => one.nodeId === nodeId);
        const used = sum(here.map(({ resource }) => amountOf(resource)));
        return fits(size, minus(amountOf(capability), used));
      })
      .map(({ nodeId }) => nodeId);
  }

  // §3.4 User limit

  /** Whoever is over the limit gets nothing; so one container may go beyond it. */
  #isWithinUserLimit(queue: Queue, user: string, less: Amount): boolean {
    const used = minus(
      this.#usedBy((one) => this.#isUsersIn(one, queue, user)),
      less,
    );
    const limit = this.#userLimit(queue, user);
    // Who may have everything is limited by nodes alone, like a queue.
    return fits(this.#total, limit) || this.#compare(used, limit) <= 0;
  }

  #userLimit(queue: Queue, user: string): Amount {
    const { minimumUserLimit, userLimitFactor, userWeights } = queue.configuration;
    const users = this.#usersIn(queue);
    const usedOf = (name: string) => this.#usedBy((one) => this.#isUsersIn(one, queue, name));
    const weight = (name: string) => userWeights[name] ?? 1;
    const guaranteed = most(queue.guaranteed, this.#step);
    const shares = users.reduce((all, name) => all + Math.max(...this.#shares(usedOf(name))), 0);
    const consumed = this.#roundUp(each(this.#total, (amount) => amount * shares));
    const current =
      this.#compare(consumed, guaranteed) < 0 ? guaranteed : plus(consumed, this.#step);
    const active = users.filter((name) => this.#isActive(queue, name));
    const base = plus(sum(active.map(usedOf)), this.#step);
    const divisor = active.reduce((all, name) => all + weight(name), 0) || 1;
    const equal = each(base, (amount) => Math.ceil(amount / divisor));
    const minimum = each(current, (amount) =>
      Math.ceil(Math.floor(amount * 100 * minimumUserLimit) / 100),
    );
    const limit = this.#compare(equal, minimum) >= 0 ? equal : minimum;
    const cap =
      userLimitFactor < 0
        ? this.#roundDown(queue.maximum)
        : each(guaranteed, (amount) => Math.floor(amount * userLimitFactor));
    const result = this.#roundUp(this.#compare(limit, cap) <= 0 ? limit : cap);
    return each(result, (amount) => Math.floor(amount * weight(user)));
  }

  #usersIn({ configuration }: Queue): string[] {
    const applications = [...this.#facts.applications.values()];
    return [
      ...new Set(
        applications.filter(({ queue }) => queue === configuration.path).map(({ user }) => user),
      ),
    ];
  }

  /** Has an unsatisfied request. */
  #isActive({ configuration }: Queue, user: string): boolean {
    return [...this.#facts.applications.values()].some(
      (one) =>
        one.queue === configuration.path && one.user === user && this.#asksOf(one).length > 0,
    );
  }

  #isUsersIn({ attemptId }: Held, { configuration }: Queue, user: string): boolean {
    const application = this.#facts.applications.get(attemptId);
    return application?.queue === configuration.path && application.user === user;
  }

  #usedBy(isOne: (one: Held) => boolean): Amount {
    return sum(this.#held.filter(isOne).map(({ resource }) => amountOf(resource)));
  }

  #queueOf({ attemptId }: Held): string {
    return this.#facts.applications.get(attemptId)?.queue ?? "";
  }

  #reservedBy(attemptId: string): Amount {
    const reservation = this.#facts.reservations.get(attemptId);
    return reservation === undefined ? NONE : amountOf(reservation.resource);
  }

  // §3.10 Dominant resource calculator

  /** By the dominant share of the cluster, then by the other. */
  #compare(a: Amount, b: Amount): number {
    const [first, second] = [this.#shares(a), this.#shares(b)];
    return Math.max(...first) - Math.max(...second) || Math.min(...first) - Math.min(...second);
  }

  #shares(amount: Amount): number[] {
    return amount.map((value, type) => ratio(value, this.#total[type] ?? 0));
  }

  #roundUp(amount: Amount): Amount {
    return each(amount, (value, type) => {
      const step = this.#step[type] ?? 1;
      return Math.ceil(value / step - 1e-9) * step;
    });
  }

  #roundDown(amount: Amount): Amount {
    return each(amount, (value, type) => {
      const step = this.#step[type] ?? 1;
      return Math.floor(value / step + 1e-9) * step;
    });
  }
}

function weightOf(capacity: Capacity): number {
  return capacity.mode === "weight" ? capacity.weight : 0;
}

function shareOf(capacity: Capacity, weights: number): number {
  if (capacity.mode === "absolute") throw new Error("histories have no absolute capacities");
  return capacity.mode === "weight" ? capacity.weight / weights : capacity.percent / 100;
}

function fractionOf(maximum: Capacity): number {
  if (maximum.mode !== "percentage") throw new Error("histories have maxima in percent");
  return maximum.percent / 100;
}

function amountOf({ memoryMb, vcores }: { memoryMb: number; vcores: number }): Amount {
  return [memoryMb, vcores];
}

function each(amount: Amount, change: (value: number, type: number) => number): Amount {
  return [change(amount[0], 0), change(amount[1], 1)];
}

function combine(a: Amount, b: Amount, how: (a: number, b: number) => number): Amount {
  return [how(a[0], b[0]), how(a[1], b[1])];
}

const plus = (a: Amount, b: Amount) => combine(a, b, (one, other) => one + other);
const minus = (a: Amount, b: Amount) => combine(a, b, (one, other) => one - other);
const least = (a: Amount, b: Amount) => combine(a, b, Math.min);
const most = (a: Amount, b: Amount) => combine(a, b, Math.max);
const sum = (amounts: readonly Amount[]) => amounts.reduce(plus, NONE);
/** Whole MB and vcores: what is left of one is lost. */
const scale = (amount: Amount, factor: number) =>
  each(amount, (value) => Math.floor(value * factor + 1e-6));
const fits = (small: Amount, large: Amount) => small[0] <= large[0] && small[1] <= large[1];

/** Of a type that there is none of, nothing is anything. */
function ratio(amount: number, whole: number): number {
  return whole > 0 ? amount / whole : 0;
}
