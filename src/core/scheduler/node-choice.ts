/**
 * Chooses a node among those with room: first the one with the fewest containers of the same
 * application, so that losing a node hurts each application least; then the one whose resources
 * stay in the best balance, so that none is left over that nobody can use; then the first by id. A
 * small cluster is looked at whole. In a large one a few nodes are drawn, which measures as good as
 * looking at all (facts/performance-and-reliability.md §A6).
 */
import type { Demand } from "./amounts.ts";
import type { ApplicationAttempt } from "./application-attempt.ts";
import type { NodeSet } from "./node-set.ts";
import type { NodeTable } from "./node-table.ts";
import type { Partition } from "./partition.ts";

/** Nodes up to which every feasible one is scored. */
const SCORE_ALL_MAX = 64;
/** Nodes drawn in a larger cluster. */
const DRAWS = 8;
/** How much a fuller node counts beside a better balanced one. */
const FILL_WEIGHT = 0.1;

/** What is chosen for: `seed` is a whole number from which the draws are made. */
export type Choice = {
  readonly attempt: ApplicationAttempt;
  readonly demand: Demand;
  readonly seed: number;
};

/** Of one choice. */
const candidates = new Int32Array(SCORE_ALL_MAX);

/** The slot to use. `feasible` has at least one member. Equal arguments choose equally. */
export function chooseNode(
  nodes: NodeTable,
  partition: Partition,
  feasible: NodeSet,
  attempt: ApplicationAttempt,
  demand: Demand,
  seed: number,
): number {
  const { order } = partition;
  const scoresAll = order.length <= SCORE_ALL_MAX || feasible.size <= DRAWS;
  const count = scoresAll ? feasible.size : DRAWS;
  // Drawn first and scored afterwards: so the draws do not wait for each other's memory.
  let position = -1;
  for (let index = 0; index < count; index += 1) {
    position = feasible.next(scoresAll ? position + 1 : mix(seed + index) % order.length);
    candidates[index] = order[position] as number;
  }
  let best = -1;
  let bestNeighbours = 0;
  let bestScore = 0;
  for (let index = 0; index < count; index += 1) {
    const slot = candidates[index] as number;
    const neighbours = attempt.containersOn(slot);
    if (best >= 0 && neighbours > bestNeighbours) continue;
    const score = nodes.imbalance(slot, demand, FILL_WEIGHT);
    if (best >= 0 && neighbours === bestNeighbours && score >= bestScore) continue;
    best = slot;
    bestNeighbours = neighbours;
    bestScore = score;
  }
  return best;
}

/**
 * The same among the given slots, of which `isAllowed` says which are good for the request. Of a large
 * cluster the first few of them are scored. Undefined: none.
 */
export function chooseAllowed(
  nodes: NodeTable,
  slots: Iterable<number>,
  isAllowed: (slot: number) => boolean,
  { attempt, demand }: Choice,
): number | undefined {
  const scoredMax = nodes.size <= SCORE_ALL_MAX ? SCORE_ALL_MAX : DRAWS;
  let best: number | undefined;
  let bestNeighbours = 0;
  let bestScore = 0;
  let scored = 0;
  for (const slot of slots) {
    if (!isAllowed(slot)) continue;
    const neighbours = attempt.containersOn(slot);
    const score = nodes.imbalance(slot, demand, FILL_WEIGHT);
    const isBetter =
      best === undefined ||
      neighbours < bestNeighbours ||
      (neighbours === bestNeighbours && score < bestScore);
    if (isBetter) {
      best = slot;
      bestNeighbours = neighbours;
      bestScore = score;
    }
    scored += 1;
    if (scored >= scoredMax) break;
  }
  return best;
}

/** The slots of a set, beginning somewhere that follows from the seed. */
export function* slotsFrom(partition: Partition, feasible: NodeSet, seed: number) {
  const { order } = partition;
  if (feasible.size === 0) return;
  const begin = order.length <= SCORE_ALL_MAX ? 0 : mix(seed) % order.length;
  let position = begin;
  for (let left = feasible.size; left > 0; left -= 1) {
    position = feasible.next(position);
    yield order[position] as number;
    position += 1;
    if (position >= order.length) position = 0;
  }
}

/** MurmurHash3's finalizer: neighbouring seeds give unrelated numbers, 0 to 2^31 - 1. */
export function mix(seed: number): number {
  let value = seed | 0;
  value = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  value = Math.imul(value ^ (value >>> 13), 0xc2b2ae35);
  return (value ^ (value >>> 16)) >>> 1;
}
