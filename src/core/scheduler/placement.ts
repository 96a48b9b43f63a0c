/**
 * Chooses a node among the feasible ones: first the one with the fewest containers of the same
 * application, so that losing a node hurts each application least; then the one that stays least
 * used; then the first by id. A small cluster is looked at whole. In a large one a few nodes are
 * drawn, which measures as good as looking at all (facts/performance-and-reliability.md §A6).
 */
import type { ApplicationAttempt } from "./application-attempt.ts";
import type { Need, NodeTable } from "./node-table.ts";
import type { NodeSet } from "./request-class.ts";

/** Registered nodes up to which every feasible one is scored. */
const SCORE_ALL_MAX = 64;
/** Nodes drawn in a larger cluster. */
const DRAWS = 8;

/**
 * The slot of the node to use. `feasible` has at least one member. Equal arguments choose equally:
 * the draws are made from `seed`, a whole number.
 */
export function chooseNode(
  nodes: NodeTable,
  feasible: NodeSet,
  needs: readonly Need[],
  attempt: ApplicationAttempt,
  seed: number,
): number {
  const scoresAll = nodes.size <= SCORE_ALL_MAX || feasible.size <= DRAWS;
  const candidates = scoresAll ? feasible.size : DRAWS;
  let position = -1;
  let best = -1;
  let bestNeighbours = 0;
  let bestUse = 0;
  for (let index = 0; index < candidates; index += 1) {
    position = feasible.next(scoresAll ? position + 1 : mix(seed + index) % nodes.size);
    const slot = nodes.order[position] as number;
    const neighbours = attempt.containersBySlot.get(slot) ?? 0;
    if (best >= 0 && neighbours > bestNeighbours) continue;
    const use = dominantUse(slot, needs);
    if (best >= 0 && neighbours === bestNeighbours && use >= bestUse) continue;
    best = slot;
    bestNeighbours = neighbours;
    bestUse = use;
  }
  return best;
}

/** The dominant share, of the types asked for, that is used after the placement: 0 to 1. */
function dominantUse(slot: number, needs: readonly Need[]): number {
  let dominant = 0;
  for (const { column, amount } of needs) {
    const total = column.total[slot] as number;
    const use = (total - (column.free[slot] as number) + amount) / total;
    if (use > dominant) dominant = use;
  }
  return dominant;
}

/** MurmurHash3's finalizer: neighbouring seeds give unrelated numbers, 0 to 2^31 - 1. */
function mix(seed: number): number {
  let value = seed | 0;
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return (value ^ (value >>> 16)) >>> 1;
}
