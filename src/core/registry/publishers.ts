/**
 * Who has published what last. A request can be carried out long after its sender has given it up
 * and said something newer; then it must change nothing, however often it comes.
 */
import type { PublicationNumber } from "../../shared/protocol/registry-operations.ts";

/** Nothing is under way for this long; what a publisher said last need not be remembered longer. */
export const PUBLISHER_MEMORY_MS = 3_600_000;

/** Its writes are part of the tree's transaction. */
export interface PublisherLog {
  last(publisher: string): PublicationNumber | undefined;
  note(publisher: string, number: PublicationNumber, nowMs: number): void;
  /** Publishers last heard before that time (epoch ms). */
  forgetBefore(timeMs: number): void;
}

export function isLater(a: PublicationNumber, b: PublicationNumber): boolean {
  return a.life > b.life || (a.life === b.life && a.count > b.count);
}

export function isSame(a: PublicationNumber, b: PublicationNumber): boolean {
  return a.life === b.life && a.count === b.count;
}
