/**
 * SchedulingMonitor: makes the snapshot for a round of preemption, keeps what the last round
 * selected, and says when the next one is due. What is preempted is decided in preemption.ts.
 */
import type { ApplicationAttemptId, ContainerId } from "../../shared/ids.ts";
import { type Amounts, addAmounts, addDemand, amountOf } from "./amounts.ts";
import type { ApplicationAttempt } from "./application-attempt.ts";
import type { Row } from "./bookings.ts";
import { LeafQueue } from "./leaf-queue.ts";
import type { Partition } from "./partition.ts";
import {
  NO_MEMORY,
  opportunisticVictims,
  type PreemptionMemory,
  preemptionRound,
} from "./preemption.ts";
import type {
  PreemptionApplication,
  PreemptionContainer,
  PreemptionLeaf,
  PreemptionQueue,
  PreemptionSnapshot,
} from "./preemption-snapshot.ts";
import { ParentQueue, type Queue } from "./queue.ts";
import type { PreemptionRound } from "./request.ts";
import type { SchedulerState } from "./scheduler-state.ts";

export class PreemptionMonitor {
  readonly #state: SchedulerState;
  #memory: PreemptionMemory = NO_MEMORY;
  #lastRoundMs: number | undefined;

  constructor(state: SchedulerState) {
    this.#state = state;
  }

  round(nowMs: number): PreemptionRound {
    this.#lastRoundMs = nowMs;
    const kill = this.#opportunistic();
    const { preemption } = this.#state.configuration;
    if (!preemption.enabled) return { asked: new Map(), kill };
    const decision = preemptionRound(this.#snapshot(), preemption, nowMs, this.#memory);
    this.#memory = decision.memory;
    for (const key of decision.unreserve) this.#state.reservations.dropOn(Number(key));
    const { asked, kill: preempted } = decision.round;
    return { asked, kill: [...new Set([...kill, ...preempted])] };
  }

  /** When the next round is due; undefined: nothing could be preempted for anybody. */
  dueMs(nowMs: number): number | undefined {
    if (this.#state.ledger.crowded.size > 0) return nowMs;
    const { enabled, monitoringIntervalMs } = this.#state.configuration.preemption;
    if (!enabled || !this.#isSomethingWaiting()) return undefined;
    return (this.#lastRoundMs ?? nowMs) + monitoringIntervalMs;
  }

  #isSomethingWaiting(): boolean {
    for (const leaf of this.#state.queues.leaves()) if (leaf.waiting.length > 0) return true;
    return false;
  }

  /** OPPORTUNISTIC containers that have to give way to GUARANTEED ones on their nodes. */
  #opportunistic(): ContainerId[] {
    const { ledger, nodes, types } = this.#state;
    const victims: ContainerId[] = [];
    for (const slot of ledger.crowded) {
      const crowding = nodes.crowdingOn(slot);
      if (crowding === undefined) {
        ledger.crowded.delete(slot);
        continue;
      }
      const containers: PreemptionContainer[] = [];
      for (const row of ledger.bookings.onSlot(slot)) {
        const container = this.#container(row);
        if (container.isOpportunistic) containers.push(container);
      }
      const needed = types.resource(crowding);
      victims.push(...(opportunisticVictims(needed, types.resource([]), containers) ?? []));
    }
    return victims;
  }

  #snapshot(): PreemptionSnapshot {
    const { nodes, types, queues } = this.#state;
    const partitions = nodes.partitions.filter((partition) => partition.size > 0);
    return {
      partitions: partitions.map((partition) => ({
        total: types.resource(partition.total),
        minimumAllocation: types.resource(queues.minimumAllocation),
        root: this.#queue(queues.root, partition, this.#rowsByAttempt(partition)),
      })),
    };
  }

  #rowsByAttempt(partition: Partition): ReadonlyMap<ApplicationAttempt, readonly Row[]> {
    const { ledger, nodes } = this.#state;
    const rows = new Map<ApplicationAttempt, Row[]>();
    for (const row of ledger.bookings.rows()) {
      const slot = ledger.bookings.slotOf(row);
      if (!nodes.isActive(slot) || ledger.partitionOf(row) !== partition) continue;
      const { attempt } = ledger.bookings.kindOf(row);
      const known = rows.get(attempt);
      if (known) known.push(row);
      else rows.set(attempt, [row]);
    }
    return rows;
  }

  #queue(
    queue: Queue,
    partition: Partition,
    rows: ReadonlyMap<ApplicationAttempt, readonly Row[]>,
  ): PreemptionQueue {
    const { types } = this.#state;
    const share = queue.share(partition);
    const { ordering } = queue.parent?.configuration ?? queue.configuration;
    return {
      path: queue.path,
      guaranteed: types.resource(share.minimum),
      maximum: types.resource(share.maximum),
      used: types.resource(share.used),
      priority: ordering.policy === "priority-utilization" ? queue.configuration.priority : 0,
      children:
        queue instanceof ParentQueue
          ? queue.children.map((child) => this.#queue(child, partition, rows))
          : [],
      ...(queue instanceof LeafQueue && { leaf: this.#leaf(queue, partition, rows) }),
    };
  }

  #leaf(
    leaf: LeafQueue,
    partition: Partition,
    rows: ReadonlyMap<ApplicationAttempt, readonly Row[]>,
  ): PreemptionLeaf {
    const { types, attempts } = this.#state;
    const limits = leaf.limits(partition);
    const ofLeaf = [...attempts.values()].filter((attempt) => attempt.leaf === leaf);
    const applications = ofLeaf
      .sort((a, b) => b.priority - a.priority || a.order - b.order)
      .map((attempt) => this.#application(attempt, partition, rows.get(attempt) ?? []));
    const users = [...leaf.users.values()].map((user) => {
      const used = types.resource(limits.useOf(user).used);
      const limit = types.resource(limits.limitOf(user, leaf.activeUserWeights));
      return [user.name, { used, limit }] as const;
    });
    return {
      pending: types.resource(this.#pendingWithinLimits(leaf, partition)),
      preemptionDisabled: leaf.configuration.preemptionDisabled,
      intraQueuePreemptionDisabled: leaf.configuration.intraQueuePreemptionDisabled,
      masterLimit: types.resource(leaf.masterLimit()),
      applications,
      users: new Map(users),
    };
  }

  /** For each user at most what its limit leaves. */
  #pendingWithinLimits(leaf: LeafQueue, partition: Partition): Amounts {
    const limits = leaf.limits(partition);
    const sum: Amounts = [0, 0];
    for (const user of leaf.users.values()) {
      const wanted: Amounts = [0, 0];
      for (const attempt of leaf.waiting) {
        if (attempt.user === user) addAmounts(wanted, pendingOf(attempt, partition), 1);
      }
      const limit = limits.limitOf(user, leaf.activeUserWeights);
      const { used } = limits.useOf(user);
      const allowed = wanted.map((amount, type) =>
        Math.max(0, Math.min(amount, amountOf(limit, type) - amountOf(used, type))),
      );
      addAmounts(sum, allowed, 1);
    }
    return sum;
  }

  #application(
    attempt: ApplicationAttempt,
    partition: Partition,
    rows: readonly Row[],
  ): PreemptionApplication {
    const { types, ledger } = this.#state;
    const used: Amounts = [0, 0];
    const masterUsed: Amounts = [0, 0];
    for (const row of rows) {
      const { size, isMaster, isOpportunistic } = ledger.bookings.kindOf(row);
      if (isOpportunistic) continue;
      addDemand(used, ledger.demandOf(size), 1);
      if (isMaster) addDemand(masterUsed, ledger.demandOf(size), 1);
    }
    const { reservation } = attempt;
    const isReserved = reservation?.partition === partition;
    if (isReserved) addDemand(used, reservation.demand, 1);
    return {
      attemptId: attempt.attemptId as ApplicationAttemptId,
      user: attempt.user?.name ?? "",
      priority: attempt.priority,
      used: types.resource(used),
      pending: types.resource(pendingOf(attempt, partition)),
      masterUsed: types.resource(masterUsed),
      reservations: isReserved
        ? [
            {
              key: String(reservation.slot),
              resource: reservation.ask.requestClass.size.resource,
            },
          ]
        : [],
      containers: () => rows.map((row) => this.#container(row)),
    };
  }

  #container(row: Row): PreemptionContainer {
    const { bookings } = this.#state.ledger;
    const { size, priority, isMaster, isOpportunistic, askedIn } = bookings.kindOf(row);
    return {
      containerId: bookings.idOf(row),
      resource: size.resource,
      priority,
      isMaster,
      isOpportunistic,
      ignoresExclusivity: askedIn !== undefined,
    };
  }
}

/** What it asks for in a partition, less what is reserved for it. */
function pendingOf(attempt: ApplicationAttempt, partition: Partition): Amounts {
  const pending: Amounts = [0, 0];
  if (attempt.activation !== "active") return pending;
  for (const ask of attempt.asks) {
    const { demand } = ask.requestClass.size;
    if (ask.requestClass.partition !== partition || demand === undefined) continue;
    const reserved = attempt.reservation?.ask === ask ? 1 : 0;
    addDemand(pending, demand, ask.count - reserved);
  }
  return pending;
}
