/**
 * How much one user may have of a leaf queue in one partition: YARN's UsersManager (facts §3.4).
 * Sums are kept as containers come and go; the limit itself is computed again when it is next
 * looked at after something changed.
 */
import {
  type Amounts,
  addAmounts,
  addDemand,
  amountOf,
  compareByShares,
  type Demand,
  dominantShare,
  roundUp,
  SHARE_ROUNDING,
} from "./amounts.ts";
import type { QueueShare } from "./queue.ts";

/** Whose limit it is: what is added up over users. */
export type LimitedUser = {
  readonly weight: number;
  /** Has an active application with unsatisfied requests. */
  readonly isActive: boolean;
  /** By partition. */
  readonly uses: UserUse[];
};

export type UserUse = { readonly used: Amounts; share: number };

export class UserLimits {
  readonly #share: QueueShare;
  readonly #minimumAllocation: Amounts;
  /** Σ of the users' dominant shares of the partition. */
  #shares = 0;
  readonly #activeUsed: Amounts = [0, 0];
  readonly #limit: Amounts = [];
  #isStale = true;
  #limitShare = 0;
  /** A limit of all that there is: only nodes limit the user. */
  #isUnlimited = false;
  /** What `#compute` compares. */
  readonly #equal: Amounts = [];
  readonly #least: Amounts = [];
  readonly #most: Amounts = [];

  constructor(share: QueueShare, minimumAllocation: Amounts) {
    this.#share = share;
    this.#minimumAllocation = minimumAllocation;
  }

  /** The limit has to be computed again: users, capacities or configuration changed. */
  invalidate(): void {
    this.#isStale = true;
  }

  useOf(user: LimitedUser): UserUse {
    const { id } = this.#share.partition;
    const known = user.uses[id];
    if (known) return known;
    const use = { used: [0, 0], share: 0 };
    user.uses[id] = use;
    return use;
  }

  charge(user: LimitedUser, demand: Demand, times: number): void {
    const use = this.useOf(user);
    addDemand(use.used, demand, times);
    if (user.isActive) addDemand(this.#activeUsed, demand, times);
    const share = dominantShare(use.used, this.#share.partition.total);
    this.#shares += share - use.share;
    use.share = share;
    this.#isStale = true;
  }

  /** The user became active (1) or is so no longer (-1). */
  countActive(user: LimitedUser, times: 1 | -1): void {
    addAmounts(this.#activeUsed, this.useOf(user).used, times);
    this.#isStale = true;
  }

  /** The partition's total changed: shares of it have to be computed again. */
  refresh(users: Iterable<LimitedUser>): void {
    this.#shares = 0;
    for (const user of users) {
      const use = this.useOf(user);
      use.share = dominantShare(use.used, this.#share.partition.total);
      this.#shares += use.share;
    }
    this.#isStale = true;
  }

  /** Over the limit already, so that nothing more is placed. One container may go beyond it. */
  isOver(user: LimitedUser, activeWeights: number): boolean {
    const limit = this.#limitOfWeightOne(activeWeights);
    if (this.#isUnlimited && user.weight >= 1) return false;
    const { share, used } = this.useOf(user);
    const { total } = this.#share.partition;
    const own = user.weight === 1 ? limit : weighted(limit, user.weight);
    const limitShare = user.weight === 1 ? this.#limitShare : dominantShare(own, total);
    if (Math.abs(share - limitShare) > SHARE_ROUNDING) return share > limitShare;
    return compareByShares(used, own, total) > 0;
  }

  limitOf(user: LimitedUser, activeWeights: number): Amounts {
    return weighted([...this.#limitOfWeightOne(activeWeights)], user.weight);
  }

  #limitOfWeightOne(activeWeights: number): Amounts {
    if (this.#isStale) this.#compute(activeWeights);
    return this.#limit;
  }

  /** In place and without closures: it runs for nearly every container. */
  #compute(activeWeights: number): void {
    const { partition, guarantee, maximum, queue } = this.#share;
    const { total } = partition;
    const { minimumUserLimit, userLimitFactor } = queue.configuration;
    const divisor = activeWeights > 0 ? activeWeights : 1;
    const isBelow = this.#isBelowGuarantee(total, guarantee);
    const percent = minimumUserLimit * 100;
    let equalShare = 0;
    let leastShare = 0;
    let mostShare = 0;
    for (let type = 0; type < total.length; type += 1) {
      const whole = total[type] as number;
      const step = amountOf(this.#minimumAllocation, type);
      const guaranteed = amountOf(guarantee, type);
      const current = isBelow ? guaranteed : roundUp(whole * this.#shares, step) + step;
      const equal = Math.ceil((amountOf(this.#activeUsed, type) + step) / divisor - 1e-9);
      const least = Math.ceil(Math.floor(current * percent + 1e-6) / 100 - 1e-9);
      const most =
        userLimitFactor < 0
          ? amountOf(maximum, type)
          : Math.floor(guaranteed * userLimitFactor + 1e-6);
      this.#equal[type] = equal;
      this.#least[type] = least;
      this.#most[type] = most;
      if (whole <= 0) continue;
      equalShare = Math.max(equalShare, equal / whole);
      leastShare = Math.max(leastShare, least / whole);
      mostShare = Math.max(mostShare, most / whole);
    }
    const isEqualMore = isMore(equalShare, leastShare, this.#equal, this.#least, total);
    const wanted = isEqualMore ? this.#equal : this.#least;
    const wantedShare = isEqualMore ? equalShare : leastShare;
    const isTooMuch = isMore(wantedShare, mostShare, wanted, this.#most, total);
    const limit = isTooMuch ? this.#most : wanted;
    this.#isUnlimited = true;
    for (let type = 0; type < total.length; type += 1) {
      const amount = roundUp(limit[type] as number, amountOf(this.#minimumAllocation, type));
      this.#limit[type] = amount;
      if (amount < (total[type] as number)) this.#isUnlimited = false;
    }
    this.#limitShare = dominantShare(this.#limit, total);
    this.#isStale = false;
  }

  /** Whether what all users have, in whole steps, is less than the queue's guarantee. */
  #isBelowGuarantee(total: Amounts, guarantee: Amounts): boolean {
    let consumed = 0;
    for (let type = 0; type < total.length; type += 1) {
      const whole = total[type] as number;
      if (whole <= 0) continue;
      const step = amountOf(this.#minimumAllocation, type);
      consumed = Math.max(consumed, roundUp(whole * this.#shares, step) / whole);
    }
    return consumed < dominantShare(guarantee, total) - SHARE_ROUNDING;
  }
}

/** Whether `a`, with its dominant share, is more than `b`. */
function isMore(aShare: number, bShare: number, a: Amounts, b: Amounts, total: Amounts): boolean {
  const difference = aShare - bShare;
  if (Math.abs(difference) > SHARE_ROUNDING) return difference > 0;
  return compareByShares(a, b, total) > 0;
}

function weighted(limit: Amounts, weight: number): Amounts {
  return weight === 1 ? limit : limit.map((amount) => Math.floor(amount * weight + 1e-9));
}
