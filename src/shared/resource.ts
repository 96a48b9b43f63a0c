/**
 * A Resource as YARN counts it: memory in MB, virtual cores, and named extra types such as
 * `yarn.io/gpu` (facts/yarn-rm-nm-scheduler.md §3.10). Values are whole numbers, never negative.
 */
import * as z from "zod";
import { LIMITS } from "./limits.ts";

export type Resource = {
  readonly memoryMb: number;
  readonly vcores: number;
  /** Extra resource types by name; a missing name is 0. */
  readonly extra?: Readonly<Record<string, number>>;
};

const amount = z.int().min(0).max(LIMITS.resourceAmountMax);
/** `yarn.io/gpu`, `gpu`, `example.com/fpga`: YARN's rule for resource type names. */
export const RESOURCE_NAME = /^(?:[a-z0-9][a-z0-9.-]{0,62}\/)?[a-zA-Z][a-zA-Z0-9_.-]{0,62}$/;

export const resourceSchema = z.strictObject({
  memoryMb: amount,
  vcores: amount,
  extra: z.record(z.string().regex(RESOURCE_NAME), amount).optional(),
});

export const NO_RESOURCE: Resource = { memoryMb: 0, vcores: 0 };

export function addResource(a: Resource, b: Resource): Resource {
  return combine(a, b, 1);
}

export function subtractResource(a: Resource, b: Resource): Resource {
  return combine(a, b, -1);
}

function combine(a: Resource, b: Resource, sign: 1 | -1): Resource {
  const sum = { memoryMb: a.memoryMb + sign * b.memoryMb, vcores: a.vcores + sign * b.vcores };
  if (!a.extra && !b.extra) return sum;
  const extra: Record<string, number> = { ...a.extra };
  for (const [name, value] of Object.entries(b.extra ?? {})) {
    extra[name] = (extra[name] ?? 0) + sign * value;
  }
  return { ...sum, extra };
}

/** The larger of the two in every type. */
export function largerResource(a: Resource, b: Resource): Resource {
  const larger = {
    memoryMb: Math.max(a.memoryMb, b.memoryMb),
    vcores: Math.max(a.vcores, b.vcores),
  };
  if (!a.extra && !b.extra) return larger;
  const extra: Record<string, number> = { ...a.extra };
  for (const [name, value] of Object.entries(b.extra ?? {})) {
    extra[name] = Math.max(extra[name] ?? 0, value);
  }
  return { ...larger, extra };
}

/** Whether `small` fits into `large` in every type. */
export function fitsIn(small: Resource, large: Resource): boolean {
  if (small.memoryMb > large.memoryMb || small.vcores > large.vcores) return false;
  if (!small.extra) return true;
  return Object.entries(small.extra).every(([name, value]) => value <= (large.extra?.[name] ?? 0));
}

/** `512 MB, 1 vcore` or `512 MB, 2 vcores, 1 yarn.io/gpu`: for people. */
export function formatResource(resource: Resource): string {
  const parts = [
    `${resource.memoryMb} MB`,
    `${resource.vcores} vcore${resource.vcores === 1 ? "" : "s"}`,
  ];
  for (const [name, value] of Object.entries(resource.extra ?? {})) {
    if (value > 0) parts.push(`${value} ${name}`);
  }
  return parts.join(", ");
}
