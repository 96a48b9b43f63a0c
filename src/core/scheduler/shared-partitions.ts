/**
 * Non-exclusive partitions (facts §3.9): room on labelled nodes that nobody with the label wants
 * serves requests of the default partition, last, and after they have waited as long as YARN lets
 * them: one opportunity of every node, which here is a second. Such a container counts in the default
 * partition, and is the first to be preempted.
 */
import type { Placer } from "./allocation-pass.ts";
import type { ApplicationAttempt } from "./application-attempt.ts";
import type { Ledger } from "./ledger.ts";
import type { Locality } from "./locality.ts";
import { chooseAllowed, slotsFrom } from "./node-choice.ts";
import type { OutstandingAsk } from "./outstanding-ask.ts";
import type { Partition } from "./partition.ts";
import { compareShares } from "./queue.ts";
import type { Queues } from "./queues.ts";
import type { RequestClass } from "./request-class.ts";

const WAIT_MS = 1_000;

export class SharedPartitions {
  readonly #ledger: Ledger;
  readonly #locality: Locality;
  /** For asks of the default partition: the same size in the shared one. */
  readonly #classes = new Map<OutstandingAsk, Map<Partition, RequestClass>>();
  /** Since when an ask could have gone to a shared partition. */
  readonly #sinceMs = new Map<OutstandingAsk, number>();

  constructor(ledger: Ledger, locality: Locality) {
    this.#ledger = ledger;
    this.#locality = locality;
  }

  /** Places what the default partition has no room for. */
  place(queues: Queues, nowMs: number, placer: Placer, isFull: () => boolean): void {
    const shared = this.#shared();
    const [own] = this.#ledger.nodes.partitions;
    if (shared.length === 0 || own === undefined) return;
    const leaves = [...queues.leaves()].filter((leaf) => leaf.share(own).mask !== 0);
    leaves.sort((a, b) => compareShares(a.share(own), b.share(own), false));
    for (const leaf of leaves) {
      for (const attempt of [...leaf.waiting]) {
        for (const ask of [...attempt.asks]) {
          if (ask.requestClass.partition !== own || ask.requestClass.isOpportunistic) continue;
          if (ask.places !== undefined) continue;
          for (const partition of shared) {
            while (!isFull() && this.#placeOne(attempt, ask, partition, nowMs, placer));
          }
        }
      }
    }
  }

  /** The ask is over. */
  forget(ask: OutstandingAsk): void {
    if (this.#classes.size === 0) return;
    this.#sinceMs.delete(ask);
    for (const shared of this.#classes.get(ask)?.values() ?? []) {
      this.#ledger.classes.endAsk(shared);
    }
    this.#classes.delete(ask);
  }

  /** When some ask has waited long enough, after `nowMs`. */
  wakeAtMs(nowMs: number): number | undefined {
    let earliest: number | undefined;
    for (const sinceMs of this.#sinceMs.values()) {
      const atMs = sinceMs + WAIT_MS;
      if (atMs > nowMs && (earliest === undefined || atMs < earliest)) earliest = atMs;
    }
    return earliest;
  }

  #shared(): Partition[] {
    return this.#ledger.nodes.partitions.filter(
      ({ name, isExclusive, size }) => name !== "" && !isExclusive && size > 0,
    );
  }

  #placeOne(
    attempt: ApplicationAttempt,
    ask: OutstandingAsk,
    partition: Partition,
    nowMs: number,
    placer: Placer,
  ): boolean {
    const { demand } = ask.requestClass.size;
    if (ask.count === 0 || demand === undefined || attempt.leaf === undefined) return false;
    const { feasible } = this.#classOf(ask, partition);
    if (feasible.size === 0) return false;
    const sinceMs = this.#sinceMs.get(ask) ?? nowMs;
    this.#sinceMs.set(ask, sinceMs);
    if (nowMs - sinceMs < WAIT_MS) return false;
    if (attempt.leaf.share(ask.requestClass.partition).limitedBy(demand)) return false;
    const seed = attempt.seed + attempt.containers;
    const slot = chooseAllowed(
      this.#ledger.nodes,
      slotsFrom(partition, feasible, seed),
      (candidate) => this.#locality.whyNot(attempt, ask, candidate) === undefined,
      { attempt, demand, seed },
    );
    if (slot === undefined) return false;
    placer.place(attempt, ask, { slot, locality: "OFF_SWITCH" });
    return true;
  }

  #classOf(ask: OutstandingAsk, partition: Partition): RequestClass {
    let classes = this.#classes.get(ask);
    if (classes === undefined) {
      classes = new Map();
      this.#classes.set(ask, classes);
    }
    let shared = classes.get(partition);
    if (shared === undefined) {
      const { resource } = ask.requestClass.size;
      shared = this.#ledger.classes.beginAsk(resource, partition, false);
      classes.set(partition, shared);
    }
    shared.catchUp(this.#ledger.nodes);
    return shared;
  }
}
