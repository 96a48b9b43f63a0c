/**
 * What one round of preemption has selected so far in one partition, and what still bounds it: the
 * round's total, and what others ask for.
 */
import type { ApplicationAttemptId, ContainerId } from "../../shared/ids.ts";
import type { ResourceTypes } from "./amounts.ts";
import type { PreemptionContainer, PreemptionReservation } from "./preemption-snapshot.ts";
import {
  amount,
  isSome,
  isWithin,
  meets,
  NONE,
  plus,
  type ResourceVector,
  without,
} from "./resource-vector.ts";

/** What to take from one queue or application, and what it has to keep of it. */
export type Target = {
  obtain: ResourceVector;
  /** Less what was selected. */
  used: ResourceVector;
  readonly keep: ResourceVector;
};

/** What a round wants of everybody, in the order of selection. */
export type Selected = {
  readonly containers: Map<ContainerId, ApplicationAttemptId>;
  readonly reservations: Set<string>;
};

export class Selection {
  readonly types: ResourceTypes;
  readonly #selected: Selected;
  readonly #byApplication = new Map<ApplicationAttemptId, ResourceVector>();
  #allowance: ResourceVector;
  #asked: ResourceVector;

  /** Takes at most `allowance`, and nothing more once `asked` is covered. Adds to `selected`. */
  constructor(
    types: ResourceTypes,
    allowance: ResourceVector,
    asked: ResourceVector,
    selected: Selected,
  ) {
    this.types = types;
    this.#allowance = allowance;
    this.#asked = asked;
    this.#selected = selected;
  }

  /** What the round may still take. */
  get allowance(): ResourceVector {
    return this.#allowance;
  }

  /** More is asked for, by somebody who is served next: what was asked before is settled. */
  askFor(asked: ResourceVector): void {
    this.#asked = asked;
  }

  has(containerId: ContainerId): boolean {
    return this.#selected.containers.has(containerId);
  }

  /** Of one application, with its reservations. */
  selectedOf(attemptId: ApplicationAttemptId): ResourceVector {
    return this.#byApplication.get(attemptId) ?? NONE;
  }

  takeContainer(
    container: PreemptionContainer,
    attemptId: ApplicationAttemptId,
    target: Target,
  ): boolean {
    if (this.has(container.containerId)) return false;
    if (!this.#take(this.types.amounts(container.resource), attemptId, target)) return false;
    this.#selected.containers.set(container.containerId, attemptId);
    return true;
  }

  takeReservation(
    reservation: PreemptionReservation,
    attemptId: ApplicationAttemptId,
    target: Target,
  ): boolean {
    if (this.#selected.reservations.has(reservation.key)) return false;
    if (!this.#take(this.types.amounts(reservation.resource), attemptId, target)) return false;
    this.#selected.reservations.add(reservation.key);
    return true;
  }

  /** Whether it helps, is within the round's total, and leaves what the target has to keep. */
  #take(size: ResourceVector, attemptId: ApplicationAttemptId, target: Target): boolean {
    const { obtain, used, keep } = target;
    if (!meets(size, obtain) || !meets(size, this.#asked)) return false;
    if (!isWithin(size, this.#allowance)) return false;
    const isKept = obtain.every(
      (value, at) => value <= 0 || amount(used, at) - amount(size, at) >= amount(keep, at),
    );
    if (!isKept) return false;
    target.obtain = without(obtain, size);
    target.used = without(used, size);
    this.#allowance = without(this.#allowance, size);
    this.#asked = without(this.#asked, size);
    this.#byApplication.set(attemptId, plus(this.selectedOf(attemptId), size));
    return true;
  }
}

export function isOpen({ obtain }: Target): boolean {
  return isSome(obtain);
}

/** Neither a master nor opportunistic: those are no queue's use, and give way without a round. */
export function isOrdinary({ isMaster, isOpportunistic }: PreemptionContainer): boolean {
  return !isMaster && !isOpportunistic;
}

/** The least urgent first, and of those the newest. */
export function byReverseService(a: PreemptionContainer, b: PreemptionContainer): number {
  if (a.priority !== b.priority) return b.priority - a.priority;
  // Sequence numbers are padded to a width that large ones exceed.
  const byLength = b.containerId.length - a.containerId.length;
  if (byLength !== 0) return byLength;
  return a.containerId < b.containerId ? 1 : -1;
}
