/**
 * Calls between Durable Objects, and what the adversary does to them: lost requests, lost replies,
 * late ones, and requests that are carried out twice, the second time long after. A caller hears
 * of a failure as an error and cannot tell whether the call was carried out.
 */
import type { World } from "./world.ts";

/** One end of a call. `life` changes with every crash, and ends what an earlier life waited for. */
export type Party = {
  readonly name: string;
  readonly life: number;
  /** Refuses calls until then (a deployment, an overload). */
  readonly unreachableUntilMs: number;
  crash(): void;
};

export type Call<Value> = {
  readonly from: Party;
  readonly to: Party;
  readonly what: string;
  readonly request: () => Value;
  readonly reply: (value: Value) => void;
  readonly failed: () => void;
  /** Carried out at most once, and never after the caller has crashed or heard of a failure. */
  readonly isOnce?: boolean;
};

export type NetworkFaults = {
  readonly loss: number;
  readonly doubling: number;
  readonly lateness: number;
  readonly crashing: number;
  readonly delayMaxMs: number;
  /** How long after the first time a doubled or late request may be carried out. */
  readonly lateMaxMs: number;
};

export const NO_FAULTS: NetworkFaults = {
  loss: 0,
  doubling: 0,
  lateness: 0,
  crashing: 0,
  delayMaxMs: 5,
  lateMaxMs: 0,
};

export class Network {
  readonly #world: World;
  readonly #stormy: NetworkFaults;

  constructor(world: World, faults: NetworkFaults) {
    this.#world = world;
    this.#stormy = faults;
  }

  get faults(): NetworkFaults {
    return this.#world.isCalm ? NO_FAULTS : this.#stormy;
  }

  call<Value>(call: Call<Value>): void {
    const { random } = this.#world;
    const { loss, doubling, lateness } = this.faults;
    const life = call.from.life;
    const isAlive = () => call.from.life === life;
    const fail = (delayMs: number) =>
      this.#world.after(delayMs, `${call.what} FAILED`, () => {
        if (isAlive()) call.failed();
      });
    if (random.chance(loss)) {
      fail(this.#delayMs());
      return;
    }
    if (!call.isOnce && random.chance(lateness)) {
      this.#again(call, "LATE");
      fail(this.#delayMs());
      return;
    }
    if (!call.isOnce && random.chance(doubling)) this.#again(call, "AGAIN");
    this.#world.after(this.#delayMs(), call.what, () => {
      if (call.isOnce && !isAlive()) return;
      if (call.to.unreachableUntilMs > this.#world.nowMs) return fail(this.#delayMs());
      const value = call.request();
      this.#mayCrash(call.to);
      if (random.chance(this.faults.loss)) return fail(this.#delayMs());
      this.#world.after(this.#delayMs(), `${call.what} replied`, () => {
        if (isAlive()) this.#mayCrash(call.from);
        if (isAlive()) call.reply(value);
      });
    });
  }

  /** Nobody hears the reply of a request that is carried out late or again. */
  #again<Value>(call: Call<Value>, how: string): void {
    const delayMs = this.#world.random.skewed(1, this.#stormy.lateMaxMs);
    this.#world.after(delayMs, `${call.what} ${how}`, () => {
      if (call.to.unreachableUntilMs <= this.#world.nowMs) call.request();
    });
  }

  #mayCrash(party: Party): void {
    if (this.#world.random.chance(this.faults.crashing)) party.crash();
  }

  #delayMs(): number {
    return this.#world.random.skewed(1, this.faults.delayMaxMs);
  }
}
