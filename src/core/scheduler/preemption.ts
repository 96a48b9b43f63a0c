/**
 * Preemption (facts/yarn-rm-nm-scheduler.md §3.15): queues that are short of their guarantees get
 * back what others have above theirs, and within a queue what one user or priority has too much of.
 * A pure function of a snapshot and of what was selected before.
 *
 * Two steps: a container that is selected for the first time is asked for (PreemptionContract), so
 * that its application may give it up in its own way; one that is still selected after
 * max_wait_before_kill is ended. What is selected stays selected while the reason lasts.
 */
import type { ApplicationAttemptId, ContainerId } from "../../shared/ids.ts";
import { addResource, fitsIn, type Resource, subtractResource } from "../../shared/resource.ts";
import { ResourceTypes } from "./amounts.ts";
import type { PreemptionConfiguration } from "./configuration.ts";
import { idealShares, type LeafShare, leavesOf, toObtain } from "./preemption-ideal.ts";
import { preemptWithin } from "./preemption-intra-queue.ts";
import {
  byReverseService,
  isOpen,
  isOrdinary,
  type Selected,
  Selection,
  type Target,
} from "./preemption-selection.ts";
import type {
  PreemptionApplication,
  PreemptionContainer,
  PreemptionLeaf,
  PreemptionPartition,
  PreemptionSnapshot,
} from "./preemption-snapshot.ts";
import type { PreemptionRound } from "./request.ts";
import {
  isSome,
  NONE,
  type ResourceVector,
  sum,
  times,
  wholeUnits,
  without,
} from "./resource-vector.ts";

/** Since when each container is selected, epoch ms. */
export type PreemptionMemory = ReadonlyMap<ContainerId, number>;

export const NO_MEMORY: PreemptionMemory = new Map();

export type PreemptionDecision = {
  readonly round: PreemptionRound;
  /** Keys of reservations to drop at once: nothing runs there yet. */
  readonly unreserve: readonly string[];
  /** Everything selected, also under observe_only, where the rest is empty. */
  readonly selected: readonly ContainerId[];
  /** For the next round. */
  readonly memory: PreemptionMemory;
};

/**
 * One round, to be run every monitoring_interval while something is pending. `nowMs` does not go
 * back between rounds.
 */
export function preemptionRound(
  snapshot: PreemptionSnapshot,
  configuration: PreemptionConfiguration,
  nowMs: number,
  memory: PreemptionMemory,
): PreemptionDecision {
  const selected: Selected = { containers: new Map(), reservations: new Set() };
  if (configuration.enabled) {
    for (const partition of snapshot.partitions) {
      selectIn(partition, configuration, memory, selected);
    }
  }
  return decide(selected, configuration, nowMs, memory);
}

function decide(
  { containers, reservations }: Selected,
  configuration: PreemptionConfiguration,
  nowMs: number,
  memory: PreemptionMemory,
): PreemptionDecision {
  const selected = [...containers.keys()];
  if (configuration.observeOnly) {
    return { round: { asked: new Map(), kill: [] }, unreserve: [], selected, memory: NO_MEMORY };
  }
  const asked = new Map<ApplicationAttemptId, ContainerId[]>();
  const kill: ContainerId[] = [];
  const next = new Map<ContainerId, number>();
  for (const [containerId, attemptId] of containers) {
    const sinceMs = memory.get(containerId) ?? nowMs;
    next.set(containerId, sinceMs);
    if (nowMs - sinceMs >= configuration.maxWaitBeforeKillMs) {
      kill.push(containerId);
      continue;
    }
    const ofApplication = asked.get(attemptId) ?? [];
    ofApplication.push(containerId);
    asked.set(attemptId, ofApplication);
  }
  return { round: { asked, kill }, unreserve: [...reservations], selected, memory: next };
}

/** Between queues first, then within queues; both share the round's total. */
function selectIn(
  partition: PreemptionPartition,
  configuration: PreemptionConfiguration,
  memory: PreemptionMemory,
  selected: Selected,
): void {
  const types = new ResourceTypes();
  const total = types.amounts(partition.total);
  const allowed = wholeUnits(times(total, configuration.totalPreemptionPerRound));
  const root = idealShares(partition, types, allowed);
  if (!isSome(root.pending)) return;
  const leaves = leavesOf(root);
  const asked = sum(leaves.map(({ ideal, used }) => without(ideal, used)));
  const selection = new Selection(types, allowed, asked, selected);
  const obtained = new Map<LeafShare, ResourceVector>();
  for (const share of leaves) {
    const { used, guaranteed } = share;
    const target = { obtain: toObtain(share, configuration), used, keep: guaranteed };
    if (isOpen(target)) selectFromLeaf(share.leaf, target, selection, memory);
    obtained.set(share, without(share.used, target.used));
  }
  if (!configuration.intraQueueEnabled) return;
  const minimumAllocation = types.amounts(partition.minimumAllocation);
  const isAsked = ({ containerId }: PreemptionContainer) => memory.has(containerId);
  for (const share of leaves) {
    const taken = obtained.get(share) ?? NONE;
    preemptWithin({ share, taken, minimumAllocation, selection, configuration, isAsked });
  }
}

/**
 * Those asked for before, so that nobody is asked twice for one thing; those that ignore
 * exclusivity; then application by application, the last served first: reservations, then the least
 * urgent and newest containers; ApplicationMasters at the very end.
 */
function selectFromLeaf(
  leaf: PreemptionLeaf,
  target: Target,
  selection: Selection,
  memory: PreemptionMemory,
): void {
  const applications = [...leaf.applications].reverse().map((application): Victims => {
    return { application, containers: application.containers() };
  });
  const stages: ((container: PreemptionContainer) => boolean)[] = [
    ({ containerId }) => memory.has(containerId),
    ({ ignoresExclusivity }) => ignoresExclusivity,
  ];
  for (const isDue of stages) {
    for (const victims of applications) selectContainers(victims, isDue, target, selection);
  }
  for (const victims of applications) {
    const { reservations, attemptId } = victims.application;
    for (const reservation of reservations) {
      selection.takeReservation(reservation, attemptId, target);
    }
    selectContainers(victims, () => true, target, selection);
  }
  selectMasters(applications, selection.types.amounts(leaf.masterLimit), target, selection);
}

type Victims = {
  readonly application: PreemptionApplication;
  readonly containers: readonly PreemptionContainer[];
};

function selectContainers(
  { application, containers }: Victims,
  isDue: (container: PreemptionContainer) => boolean,
  target: Target,
  selection: Selection,
): void {
  if (!isOpen(target)) return;
  const due = containers.filter((container) => isOrdinary(container) && isDue(container));
  for (const container of due.sort(byReverseService)) {
    if (!isOpen(target)) return;
    selection.takeContainer(container, application.attemptId, target);
  }
}

/** Only while masters together are above the queue's limit for them. */
function selectMasters(
  applications: readonly Victims[],
  limit: ResourceVector,
  target: Target,
  selection: Selection,
): void {
  const { types } = selection;
  const masters = applications.flatMap(({ application, containers }) =>
    containers
      .filter(({ isMaster }) => isMaster)
      .map((container) => ({ container, attemptId: application.attemptId })),
  );
  const sizes = masters.map(({ container }) => types.amounts(container.resource));
  let above = without(sum(sizes), limit);
  for (const { container, attemptId } of masters) {
    if (!isOpen(target) || !isSome(above)) return;
    if (!selection.takeContainer(container, attemptId, target)) continue;
    above = without(above, types.amounts(container.resource));
  }
}

/**
 * The opportunistic containers of one node that have to go for a guaranteed one to fit, at once and
 * without a contract: the least urgent and newest, and no more than needed. Empty: it fits already.
 * Undefined: it does not fit even then.
 */
export function opportunisticVictims(
  needed: Resource,
  free: Resource,
  opportunistic: readonly PreemptionContainer[],
): readonly ContainerId[] | undefined {
  const isEnough = (room: Resource) => fitsIn(needed, room);
  let room = free;
  const going: PreemptionContainer[] = [];
  for (const container of [...opportunistic].sort(byReverseService)) {
    if (isEnough(room)) break;
    going.push(container);
    room = addResource(room, container.resource);
  }
  if (!isEnough(room)) return undefined;
  // A large one that came later may have made an earlier one unnecessary.
  const spared = going.filter(({ resource }) => {
    const rest = subtractResource(room, resource);
    if (!isEnough(rest)) return false;
    room = rest;
    return true;
  });
  return going.filter((each) => !spared.includes(each)).map(({ containerId }) => containerId);
}
