/**
 * Chooses a node for a request that is particular: it names hosts and racks, avoids some, or has a
 * placement constraint. Any other request never comes here.
 *
 * YARN waits for a better place by counting the nodes that have passed by (facts §3.7), one
 * heartbeat of each in a second. A pass here sees all nodes at once, so a delay of d opportunities in
 * a cluster of n nodes lasts 1000 ms × min(d, n) / n from the moment at which the request could first
 * have gone elsewhere.
 */
import type { ApplicationAttempt } from "./application-attempt.ts";
import type { SchedulerConfiguration } from "./configuration.ts";
import { chooseAllowed, slotsFrom } from "./node-choice.ts";
import type { NodeTable } from "./node-table.ts";
import type { OutstandingAsk } from "./outstanding-ask.ts";
import type { Assignment } from "./request.ts";

/** One scheduling opportunity of YARN is one heartbeat of one node. */
const HEARTBEAT_MS = 1_000;

export type NodeLocality = Assignment["locality"];
export type Spot = { readonly slot: number; readonly locality: NodeLocality };

type DelayConfiguration = Pick<
  SchedulerConfiguration,
  "nodeLocalityDelay" | "rackLocalityAdditionalDelay" | "rackLocalityFullReset"
>;

export function isParticular(attempt: ApplicationAttempt, ask: OutstandingAsk): boolean {
  return ask.places !== undefined || ask.constraint !== undefined || attempt.blacklist.size > 0;
}

export function isRack(name: string): boolean {
  return name.startsWith("/");
}

export class Locality {
  readonly #nodes: NodeTable;
  #delays: DelayConfiguration;
  /** Asks that wait for a better place. */
  readonly #waiting = new Set<OutstandingAsk>();

  constructor(nodes: NodeTable, delays: DelayConfiguration) {
    this.#nodes = nodes;
    this.#delays = delays;
  }

  configure(delays: DelayConfiguration): void {
    this.#delays = delays;
  }

  /** Undefined: no node will do, now. Starts the ask's waiting when some other node has room. */
  choose(
    attempt: ApplicationAttempt,
    ask: OutstandingAsk,
    seed: number,
    nowMs: number,
  ): Spot | undefined {
    const demand = ask.requestClass.size.demand;
    if (demand === undefined) return undefined;
    const { feasible, partition } = ask.requestClass;
    const choice = { attempt, demand, seed };
    const isAllowed = (slot: number) =>
      partition.has(slot) &&
      feasible.has(partition.positionOf(slot)) &&
      this.whyNot(attempt, ask, slot) === undefined;
    const chooseAmong = (slots: Iterable<number>) =>
      chooseAllowed(this.#nodes, slots, isAllowed, choice);
    const anywhere = () => ask.constraint?.candidates() ?? slotsFrom(partition, feasible, seed);
    if (ask.places === undefined) {
      const slot = chooseAmong(anywhere());
      return slot === undefined ? undefined : { slot, locality: "OFF_SWITCH" };
    }
    const onHost = chooseAmong(this.#hostSlots(ask));
    if (onHost !== undefined) return { slot: onHost, locality: "NODE_LOCAL" };
    ask.waitingSinceMs ??= nowMs;
    this.#waiting.add(ask);
    const waitedMs = nowMs - ask.waitingSinceMs;
    if (waitedMs >= this.#rackDelayMs()) {
      const inRack = chooseAmong(this.#rackSlots(ask));
      if (inRack !== undefined) return { slot: inRack, locality: "RACK_LOCAL" };
    }
    if (ask.ask.relaxLocality === false || waitedMs < this.#offSwitchDelayMs(ask)) return undefined;
    const elsewhere = chooseAmong(anywhere());
    return elsewhere === undefined ? undefined : { slot: elsewhere, locality: "OFF_SWITCH" };
  }

  /** Why the ask may not go to a node though it has room; undefined: it may. */
  whyNot(attempt: ApplicationAttempt, ask: OutstandingAsk, slot: number): string | undefined {
    const { blacklist } = attempt;
    if (blacklist.size > 0) {
      const names = [this.#nodes.hostOf(slot), this.#nodes.rackOf(slot), this.#nodes.idOf(slot)];
      if (names.some((name) => blacklist.has(name))) return "blacklisted";
    }
    return ask.constraint?.check(slot);
  }

  /** Whether the ask names the node's host, or may go to it for its rack or for being anywhere. */
  reaches(ask: OutstandingAsk, slot: number): boolean {
    if (ask.places === undefined || ask.ask.relaxLocality !== false) return true;
    const rack = ask.places.get(this.#nodes.rackOf(slot));
    if (rack === undefined || rack.count === 0) return false;
    return rack.isRelaxed || (ask.places.get(this.#nodes.hostOf(slot))?.count ?? 0) > 0;
  }

  /** How near a node that the ask reaches is to what it asked for. */
  localityOf({ places }: OutstandingAsk, slot: number): NodeLocality {
    const isAsked = (name: string) => (places?.get(name)?.count ?? 0) > 0;
    if (!isAsked(this.#nodes.rackOf(slot))) return "OFF_SWITCH";
    return isAsked(this.#nodes.hostOf(slot)) ? "NODE_LOCAL" : "RACK_LOCAL";
  }

  /** A container was placed for the ask: counts where, and when the next waiting begins. */
  placed(ask: OutstandingAsk, { slot, locality }: Spot): void {
    if (ask.places === undefined) return;
    if (locality === "OFF_SWITCH") return;
    countDown(ask.places.get(this.#nodes.rackOf(slot)));
    if (locality === "NODE_LOCAL") countDown(ask.places.get(this.#nodes.hostOf(slot)));
    if (locality === "NODE_LOCAL" || this.#delays.rackLocalityFullReset) this.forget(ask);
  }

  /** The ask waits no more. */
  forget(ask: OutstandingAsk): void {
    ask.waitingSinceMs = undefined;
    if (this.#waiting.size > 0) this.#waiting.delete(ask);
  }

  /** When time alone next opens more nodes to some ask, after `nowMs`. */
  wakeAtMs(nowMs: number): number | undefined {
    let earliest: number | undefined;
    for (const ask of this.#waiting) {
      for (const atMs of this.opensAtMs(ask)) {
        if (atMs > nowMs && (earliest === undefined || atMs < earliest)) earliest = atMs;
      }
    }
    return earliest;
  }

  /** When racks, and when all nodes, open to an ask that waits; nothing for one that does not. */
  opensAtMs(ask: OutstandingAsk): readonly number[] {
    const sinceMs = ask.waitingSinceMs;
    if (sinceMs === undefined || ask.places === undefined) return [];
    const hasRack = [...ask.places].some(
      ([name, place]) => isRack(name) && place.count > 0 && place.isRelaxed,
    );
    const rack = hasRack ? [sinceMs + this.#rackDelayMs()] : [];
    if (ask.ask.relaxLocality === false) return rack;
    return [...rack, sinceMs + this.#offSwitchDelayMs(ask)];
  }

  *#hostSlots({ places }: OutstandingAsk): Generator<number> {
    for (const [name, place] of places ?? []) {
      if (isRack(name) || place.count === 0) continue;
      for (const slot of this.#nodes.onHost(name)) {
        if ((places?.get(this.#nodes.rackOf(slot))?.count ?? 0) > 0) yield slot;
      }
    }
  }

  *#rackSlots({ places }: OutstandingAsk): Generator<number> {
    for (const [name, place] of places ?? []) {
      if (isRack(name) && place.count > 0 && place.isRelaxed) yield* this.#nodes.inRack(name);
    }
  }

  #rackDelayMs(): number {
    return this.#delayMs(this.#delays.nodeLocalityDelay);
  }

  #offSwitchDelayMs({ places, count }: OutstandingAsk): number {
    const { nodeLocalityDelay, rackLocalityAdditionalDelay } = this.#delays;
    if (rackLocalityAdditionalDelay > -1) {
      return this.#delayMs(nodeLocalityDelay + rackLocalityAdditionalDelay);
    }
    return this.#delayMs(count * Math.min((places?.size ?? 0) / this.#nodes.size, 1));
  }

  #delayMs(opportunities: number): number {
    const nodes = this.#nodes.size;
    return nodes === 0 ? 0 : (HEARTBEAT_MS * Math.min(opportunities, nodes)) / nodes;
  }
}

function countDown(place: { count: number } | undefined): void {
  if (place !== undefined && place.count > 0) place.count -= 1;
}
