/**
 * Resources as the scheduler counts with them: one number for each resource type, by the type's
 * index. What people and messages see are Resources; what is added up a million times is Amounts.
 */
import type { Resource } from "../../shared/resource.ts";

/** By type index; a missing one is 0. */
export type Amounts = number[];

/** What one container needs: the types of which it needs more than 0, and how much of each. */
export type Demand = {
  readonly types: readonly number[];
  readonly amounts: readonly number[];
  /** Of memory and of vcores and of nothing else, as nearly all: compared without a loop. */
  readonly isPlain: boolean;
  readonly memory: number;
  readonly vcores: number;
};

export const MEMORY = 0;
export const VCORES = 1;

/** `types` in rising order; `amounts` beside them. */
export function newDemand(types: readonly number[], amounts: readonly number[]): Demand {
  const isPlain = types.length === 2 && types[0] === MEMORY && types[1] === VCORES;
  const [memory = 0, vcores = 0] = isPlain ? amounts : [];
  return { types, amounts, isPlain, memory, vcores };
}

/** Resource types by name: memory, vcores, and every extra type that a node or container has had. */
export class ResourceTypes {
  readonly names: string[] = ["memory", "vcores"];
  readonly #indexes = new Map<string, number>();

  get size(): number {
    return this.names.length;
  }

  find(name: string): number | undefined {
    return this.#indexes.get(name);
  }

  intern(name: string): number {
    const known = this.#indexes.get(name);
    if (known !== undefined) return known;
    const index = this.names.length;
    this.names.push(name);
    this.#indexes.set(name, index);
    return index;
  }

  /** Undefined when it has a type that was never seen. */
  findDemand(resource: Resource): Demand | undefined {
    for (const [name, amount] of Object.entries(resource.extra ?? {})) {
      if (amount > 0 && !this.#indexes.has(name)) return undefined;
    }
    return this.demand(resource);
  }

  demand(resource: Resource): Demand {
    const types: number[] = [];
    const amounts: number[] = [];
    for (const [type, amount] of this.amounts(resource).entries()) {
      if (amount === 0) continue;
      types.push(type);
      amounts.push(amount);
    }
    return newDemand(types, amounts);
  }

  amounts(resource: Resource): Amounts {
    const amounts: Amounts = [resource.memoryMb, resource.vcores];
    for (const [name, amount] of Object.entries(resource.extra ?? {})) {
      if (amount > 0) setAmount(amounts, this.intern(name), amount);
    }
    return amounts;
  }

  /** Amounts below zero show as 0, fractions rounded down; extra types by name, none that is 0. */
  resource(amounts: Amounts): Resource {
    const extra: [string, number][] = [];
    for (let type = 2; type < amounts.length; type += 1) {
      const amount = Math.floor(amountOf(amounts, type));
      if (amount > 0) extra.push([this.names[type] as string, amount]);
    }
    const memoryMb = Math.max(0, Math.floor(amountOf(amounts, MEMORY)));
    const vcores = Math.max(0, Math.floor(amountOf(amounts, VCORES)));
    if (extra.length === 0) return { memoryMb, vcores };
    extra.sort(([a], [b]) => (a < b ? -1 : 1));
    return { memoryMb, vcores, extra: Object.fromEntries(extra) };
  }
}

export function amountOf(amounts: Amounts, type: number): number {
  return type < amounts.length ? (amounts[type] as number) : 0;
}

export function setAmount(amounts: Amounts, type: number, amount: number): void {
  while (amounts.length <= type) amounts.push(0);
  amounts[type] = amount;
}

/** Adds `times` the demand, in place. */
export function addDemand(amounts: Amounts, demand: Demand, times: number): void {
  const { types, isPlain } = demand;
  if (isPlain && amounts.length > VCORES) {
    amounts[MEMORY] = (amounts[MEMORY] as number) + times * demand.memory;
    amounts[VCORES] = (amounts[VCORES] as number) + times * demand.vcores;
    return;
  }
  for (let index = 0; index < types.length; index += 1) {
    const type = types[index] as number;
    const amount = times * (demand.amounts[index] as number);
    if (type < amounts.length) amounts[type] = (amounts[type] as number) + amount;
    else setAmount(amounts, type, amount);
  }
}

/** Adds `times` of `more`, in place. */
export function addAmounts(amounts: Amounts, more: Amounts, times: number): void {
  for (let type = 0; type < more.length; type += 1) {
    setAmount(amounts, type, amountOf(amounts, type) + times * (more[type] as number));
  }
}

/** The largest share of any type that `total` has; types that it lacks do not count. */
export function dominantShare(amounts: Amounts, total: Amounts): number {
  let dominant = 0;
  const types = Math.min(amounts.length, total.length);
  for (let type = 0; type < types; type += 1) {
    const whole = total[type] as number;
    if (whole <= 0) continue;
    const share = (amounts[type] as number) / whole;
    if (share > dominant) dominant = share;
  }
  return dominant;
}

/** Shares are quotients; two that are equal on paper differ by less. */
export const SHARE_ROUNDING = 1e-12;

/**
 * YARN's DominantResourceCalculator: by the largest share of `total`, then by the next, and so on.
 * Below 0: `a` is less.
 */
export function compareByShares(a: Amounts, b: Amounts, total: Amounts): number {
  const first = dominantShare(a, total) - dominantShare(b, total);
  if (Math.abs(first) > SHARE_ROUNDING) return first;
  if (total.length === 2) {
    const second = lesserShare(a, total) - lesserShare(b, total);
    return Math.abs(second) > SHARE_ROUNDING ? second : 0;
  }
  const others = sortedShares(b, total);
  for (const [index, share] of sortedShares(a, total).entries()) {
    const difference = share - (others[index] as number);
    if (Math.abs(difference) > SHARE_ROUNDING) return difference;
  }
  return 0;
}

/** Of memory and vcores alone; it runs often, as users stand exactly at their limits. */
function lesserShare(amounts: Amounts, total: Amounts): number {
  const [memory = 0, vcores = 0] = total;
  const ofMemory = memory > 0 ? amountOf(amounts, MEMORY) / memory : 0;
  const ofVcores = vcores > 0 ? amountOf(amounts, VCORES) / vcores : 0;
  return Math.min(ofMemory, ofVcores);
}

/** The largest first. */
function sortedShares(amounts: Amounts, total: Amounts): number[] {
  const shares = total.map((whole, type) => (whole > 0 ? amountOf(amounts, type) / whole : 0));
  return shares.sort((a, b) => b - a);
}

/** Type by type. */
export function combineAmounts(
  a: Amounts,
  b: Amounts,
  combine: (a: number, b: number) => number,
): Amounts {
  const combined: Amounts = [];
  const types = Math.max(a.length, b.length);
  for (let type = 0; type < types; type += 1) {
    combined.push(combine(amountOf(a, type), amountOf(b, type)));
  }
  return combined;
}

/** Up to a multiple of `step`, type by type; a step of 0 only makes it whole. */
export function roundUp(amount: number, step: number): number {
  return step > 0 ? Math.ceil(amount / step - 1e-9) * step : Math.ceil(amount - 1e-9);
}

export function roundDown(amount: number, step: number): number {
  return step > 0 ? Math.floor(amount / step + 1e-9) * step : Math.floor(amount + 1e-9);
}

/** One form for equal resources: extra types in the order of their names, none that is zero. */
export function canonicalResource(resource: Resource): Resource {
  const { memoryMb, vcores } = resource;
  if (resource.extra === undefined) return { memoryMb, vcores };
  const extra = Object.entries(resource.extra).filter(([, amount]) => amount > 0);
  if (extra.length === 0) return { memoryMb, vcores };
  extra.sort(([a], [b]) => (a < b ? -1 : 1));
  return { memoryMb, vcores, extra: Object.fromEntries(extra) };
}
