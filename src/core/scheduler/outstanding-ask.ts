/** One scheduler key of YARN, (priority, allocationRequestId), with what is still wanted for it. */
import type { BookingKind } from "./bookings.ts";
import type { BoundConstraint } from "./placement-constraint.ts";
import type { Ask } from "./request.ts";
import type { RequestClass } from "./request-class.ts";

export type Place = { count: number; readonly isRelaxed: boolean };

export type OutstandingAsk = {
  /** As it was said, but for the counts. */
  readonly ask: Ask;
  readonly priority: number;
  readonly allocationRequestId: number;
  readonly requestClass: RequestClass;
  /** Above 0 but for the moment in which the last one is placed. */
  count: number;
  /** Hosts and racks; undefined: anywhere (`*`) only. */
  readonly places: Map<string, Place> | undefined;
  readonly constraint: BoundConstraint | undefined;
  /** Since when it waits for a better place (ms); undefined: it does not. */
  waitingSinceMs: number | undefined;
  /** Kind of the containers placed for it. */
  kind: BookingKind | undefined;
};

/** As its owner would say it now. */
export function outstanding({ ask, count, places, requestClass }: OutstandingAsk): Ask {
  const now = { ...ask, capability: requestClass.size.resource, count };
  if (ask.places === undefined || places === undefined) return now;
  return {
    ...now,
    places: ask.places.map((place) => ({ ...place, count: places.get(place.name)?.count ?? 0 })),
  };
}

/** Where `item` stands, or belongs, in a list sorted by `compare`. */
export function placeIn<Item>(
  items: readonly Item[],
  compare: (item: Item) => number,
): { readonly index: number; readonly found: Item | undefined } {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (compare(items[middle] as Item) < 0) low = middle + 1;
    else high = middle;
  }
  const item = items[low];
  return { index: low, found: item !== undefined && compare(item) === 0 ? item : undefined };
}
