/**
 * Sums of resources that are taken type by type and leave what they are made of as it is. Amounts
 * may be fractions.
 */
import { roundUp } from "./amounts.ts";

/** By the type's index in a `ResourceTypes`; a missing one is 0. */
export type ResourceVector = readonly number[];

export const NONE: ResourceVector = [];

export function amount(a: ResourceVector, type: number): number {
  return a[type] ?? 0;
}

export function plus(a: ResourceVector, b: ResourceVector): ResourceVector {
  const [longer, shorter] = a.length < b.length ? [b, a] : [a, b];
  return longer.map((value, type) => value + amount(shorter, type));
}

export function sum(vectors: readonly ResourceVector[]): ResourceVector {
  return vectors.reduce(plus, NONE);
}

/** Never below zero. */
export function without(a: ResourceVector, b: ResourceVector): ResourceVector {
  return a.map((value, type) => Math.max(0, value - amount(b, type)));
}

export function least(a: ResourceVector, b: ResourceVector): ResourceVector {
  return a.map((value, type) => Math.min(value, amount(b, type)));
}

export function most(a: ResourceVector, b: ResourceVector): ResourceVector {
  const [longer, shorter] = a.length < b.length ? [b, a] : [a, b];
  return longer.map((value, type) => Math.max(value, amount(shorter, type)));
}

export function times(a: ResourceVector, factor: number): ResourceVector {
  return a.map((value) => value * factor);
}

export function wholeUnits(a: ResourceVector): ResourceVector {
  return a.map((value) => roundUp(value, 1));
}

/** Whether there is anything of any type. */
export function isSome(a: ResourceVector): boolean {
  return a.some((value) => value > 0);
}

/** Whether `part` is not more than `whole` in any type. */
export function isWithin(part: ResourceVector, whole: ResourceVector): boolean {
  return part.every((value, type) => value <= amount(whole, type));
}

/** Whether both have something of one type. */
export function meets(a: ResourceVector, b: ResourceVector): boolean {
  return a.some((value, type) => value > 0 && amount(b, type) > 0);
}

/** The dominant share: the largest a / b; infinite where b has none of what a has. */
export function dominantRatio(a: ResourceVector, b: ResourceVector): number {
  let dominant = 0;
  for (const [type, value] of a.entries()) {
    if (value > 0) dominant = Math.max(dominant, value / amount(b, type));
  }
  return dominant;
}
