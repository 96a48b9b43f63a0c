/**
 * Preemption within one leaf queue (facts/yarn-rm-nm-scheduler.md §3.15, YARN's
 * FifoIntraQueuePreemptionPlugin): what the queue uses is dealt out again to its applications in the
 * order of service, within their users' limits. Applications that would get more than they have take
 * it from those that have more than they would get, the last served first.
 *
 * ApplicationMasters are left out of it. An equally or more important application of the same user
 * is never a victim. Under userlimit_first another user's is one only above that user's limit, and
 * that user stays above it.
 */
import type { PreemptionConfiguration } from "./configuration.ts";
import type { LeafShare } from "./preemption-ideal.ts";
import {
  byReverseService,
  isOpen,
  isOrdinary,
  type Selection,
  type Target,
} from "./preemption-selection.ts";
import type {
  PreemptionApplication,
  PreemptionContainer,
  PreemptionLeaf,
} from "./preemption-snapshot.ts";
import {
  amount,
  dominantRatio,
  isSome,
  least,
  most,
  NONE,
  plus,
  type ResourceVector,
  sum,
  times,
  without,
} from "./resource-vector.ts";

export type IntraQueueRound = {
  readonly share: LeafShare;
  /** Selected in this queue for other queues. */
  readonly taken: ResourceVector;
  readonly minimumAllocation: ResourceVector;
  readonly selection: Selection;
  readonly configuration: PreemptionConfiguration;
  /** Containers asked for in an earlier round go first. */
  readonly isAsked: (container: PreemptionContainer) => boolean;
};

/** What one application should have, all without its master. */
type ApplicationShare = {
  readonly application: PreemptionApplication;
  readonly user: UserShare;
  readonly used: ResourceVector;
  /** Should get from others. */
  missing: ResourceVector;
  /** Could give to others. */
  spare: ResourceVector;
  /** Gives to the same user's, and to other users'. */
  toOwn: ResourceVector;
  toOthers: ResourceVector;
};

type UserShare = {
  /** Without masters. */
  readonly limit: ResourceVector;
  /** Less what was selected. */
  used: ResourceVector;
  ideal: ResourceVector;
  /** Above the limit, and not yet promised to others. */
  surplus: ResourceVector;
};

export function preemptWithin(round: IntraQueueRound): void {
  const { share, taken, selection, configuration } = round;
  const { leaf } = share;
  if (leaf.intraQueuePreemptionDisabled || leaf.applications.length < 2) return;
  const usedCapacity = dominantRatio(share.used, share.guaranteed);
  if (usedCapacity < configuration.intraQueueMinimumThreshold) return;

  const applications = dealAgain(leaf, round);
  const ofQueue = times(share.guaranteed, configuration.intraQueueMaxAllowableLimit);
  let limit = least(without(ofQueue, taken), selection.allowance);
  for (const application of [...applications].reverse()) {
    application.spare = least(application.spare, limit);
    limit = without(limit, application.spare);
  }
  const asked = match(applications, configuration);
  if (!isSome(asked)) return;
  selection.askFor(asked);
  for (const application of [...applications].reverse()) select(application, round);
}

/** In the order of service. */
function dealAgain(leaf: PreemptionLeaf, round: IntraQueueRound): ApplicationShare[] {
  const { selection, share, taken, configuration, minimumAllocation } = round;
  const { types } = selection;
  const users = userShares(leaf, round);
  const masters = leaf.applications.map(({ masterUsed }) => types.amounts(masterUsed));
  let pool = without(share.used, plus(taken, sum(masters)));
  return leaf.applications.flatMap((application, index) => {
    const user = users.get(application.user);
    if (user === undefined) return [];
    const selected = selection.selectedOf(application.attemptId);
    const master = masters[index] ?? NONE;
    const used = without(types.amounts(application.used), plus(master, selected));
    const demand = plus(used, types.amounts(application.pending));
    const ideal = least(least(pool, without(user.limit, user.ideal)), demand);
    pool = without(pool, ideal);
    user.ideal = plus(user.ideal, ideal);
    const isKept = configuration.intraQueueOrder === "userlimit_first";
    const kept = isKept ? most(ideal, minimumAllocation) : ideal;
    return {
      application,
      user,
      used,
      missing: without(ideal, used),
      spare: without(used, kept),
      toOwn: NONE,
      toOthers: NONE,
    };
  });
}

function userShares(leaf: PreemptionLeaf, { selection }: IntraQueueRound): Map<string, UserShare> {
  const { types } = selection;
  const frozen = new Map<string, { masters: ResourceVector; selected: ResourceVector }>();
  for (const { user, attemptId, masterUsed } of leaf.applications) {
    const before = frozen.get(user) ?? { masters: NONE, selected: NONE };
    frozen.set(user, {
      masters: plus(before.masters, types.amounts(masterUsed)),
      selected: plus(before.selected, selection.selectedOf(attemptId)),
    });
  }
  const users = new Map<string, UserShare>();
  for (const [name, user] of leaf.users) {
    const { masters, selected } = frozen.get(name) ?? { masters: NONE, selected: NONE };
    const limit = without(types.amounts(user.limit), masters);
    const used = without(types.amounts(user.used), plus(masters, selected));
    users.set(name, { limit, used, ideal: NONE, surplus: without(used, limit) });
  }
  return users;
}

/** Who gives how much to whom; the sum is the answer. */
function match(
  applications: readonly ApplicationShare[],
  { intraQueueOrder }: PreemptionConfiguration,
): ResourceVector {
  const givers = [...applications].reverse();
  let promised = NONE;
  for (const taker of applications) {
    for (const giver of givers) {
      if (giver === taker || !isSome(taker.missing)) continue;
      const isOwn = giver.application.user === taker.application.user;
      const isLess = giver.application.priority < taker.application.priority;
      if (isOwn && !isLess) continue;
      const isBound = !isOwn && !(intraQueueOrder === "priority_first" && isLess);
      const spare = isBound ? least(giver.spare, giver.user.surplus) : giver.spare;
      const given = least(taker.missing, spare);
      taker.missing = without(taker.missing, given);
      giver.spare = without(giver.spare, given);
      if (isBound) giver.user.surplus = without(giver.user.surplus, given);
      if (isOwn) giver.toOwn = plus(giver.toOwn, given);
      else giver.toOthers = plus(giver.toOthers, given);
      promised = plus(promised, given);
    }
  }
  return promised;
}

function select(giver: ApplicationShare, round: IntraQueueRound): void {
  const { user, toOwn, toOthers } = giver;
  const isBound = round.configuration.intraQueueOrder === "userlimit_first";
  // Strictly above the limit, in whole units.
  const above = isBound ? user.limit.map((value) => Math.floor(value) + 1) : NONE;
  const forOthers = { obtain: toOthers, used: user.used, keep: above };
  take(giver, forOthers, round);
  user.used = forOthers.used;
  const forOwn = { obtain: toOwn, used: user.used, keep: NONE };
  take(giver, forOwn, round);
  user.used = forOwn.used;
}

/** Stops when enough of any type is selected: the other types alone would not be worth it. */
function take({ application }: ApplicationShare, target: Target, round: IntraQueueRound): void {
  if (!isOpen(target)) return;
  const { selection, isAsked } = round;
  const wanted = target.obtain;
  const containers = application
    .containers()
    .filter(isOrdinary)
    .sort((a, b) => Number(isAsked(b)) - Number(isAsked(a)) || byReverseService(a, b));
  for (const container of containers) {
    const isCovered = wanted.some((value, at) => value > 0 && amount(target.obtain, at) <= 0);
    if (isCovered) return;
    selection.takeContainer(container, application.attemptId, target);
  }
}
