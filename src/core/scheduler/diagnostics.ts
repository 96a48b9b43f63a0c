/**
 * Why a request waits, or can never be placed, in one counted sentence. The same sentence reaches
 * the ApplicationMaster, REST, the command line and the UI. It walks all nodes, so it is made when
 * somebody asks and never while scheduling.
 */
import { assert, fail, ok, type Reply } from "../../shared/errors.ts";
import { fitsIn, formatResource, type Resource } from "../../shared/resource.ts";
import type { Need, NodeTable } from "./node-table.ts";

/** The largest container that registered nodes could hold, type by type. */
export function maximumCapability(nodes: NodeTable): Resource {
  const registered = nodes.order;
  return nodes.resource(({ total }) =>
    registered.reduce((most, slot) => Math.max(most, total[slot] as number), 0),
  );
}

/** Undefined when some registered node could hold it if it were empty, or there is no node yet. */
export function whyTooLarge(nodes: NodeTable, resource: Resource): string | undefined {
  if (nodes.size === 0) return undefined;
  const needs = nodes.findNeeds(resource);
  if (needs && nodes.order.some((slot) => nodes.isLargeEnough(slot, needs))) return undefined;
  const maximum = maximumCapability(nodes);
  const unknown = Object.keys(resource.extra ?? {}).find((name) => !maximum.extra?.[name]);
  if (unknown !== undefined) return `no node has ${unknown}`;
  const largest = formatResource(maximum);
  return fitsIn(resource, maximum)
    ? `no single node has all of it: type by type the most is ${largest}`
    : `no node is large enough: the largest has ${largest}`;
}

/** FAILED_PRECONDITION, not INVALID_ARGUMENT: a larger node makes the same request right. */
export function admit(nodes: NodeTable, resource: Resource): Reply<undefined> {
  const reason = whyTooLarge(nodes, resource);
  if (reason === undefined) return ok();
  return fail("FAILED_PRECONDITION", `${formatResource(resource)} cannot be placed: ${reason}`, {
    reason: "InvalidResourceRequestException",
    hint: "ask for less, or start a NodeManager on a larger machine",
  });
}

/** `0/12 nodes: 7 too little memory, 5 too few vcores`. Takes a resource that has no room now. */
export function whyWaiting(nodes: NodeTable, resource: Resource): string {
  if (nodes.size === 0) return "no nodes are registered";
  const tooLarge = whyTooLarge(nodes, resource);
  if (tooLarge !== undefined) return tooLarge;
  const needs = nodes.findNeeds(resource) ?? [];
  const counts = new Map<string, number>();
  for (const slot of nodes.order) {
    const lack = firstLack(nodes, slot, needs);
    counts.set(lack, (counts.get(lack) ?? 0) + 1);
  }
  const parts = [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
  return `0/${nodes.size} nodes: ${parts.map(([lack, count]) => `${count} ${lack}`).join(", ")}`;
}

/** Each node counts once: memory is looked at first, then vcores, then extra types by name. */
function firstLack(nodes: NodeTable, slot: number, needs: readonly Need[]): string {
  const need = needs.find(({ column, amount }) => (column.free[slot] as number) < amount);
  assert(need !== undefined, "a node without room lacks something");
  const { column } = need;
  if (column === nodes.memoryMb) return "too little memory";
  return column.total[slot] === 0 ? `without ${column.name}` : `too few ${column.name}`;
}
