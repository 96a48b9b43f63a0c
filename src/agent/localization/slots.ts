/** A number of slots, handed out first come, first served. */
export class Slots {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(count: number) {
    this.#free = count;
  }

  /** Runs the work in a slot; rejects with the signal's reason if it aborts while waiting. */
  async run<Value>(signal: AbortSignal, work: () => Promise<Value>): Promise<Value> {
    await this.#take(signal);
    try {
      return await work();
    } finally {
      this.#give();
    }
  }

  async #take(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.#free > 0) {
      this.#free -= 1;
      return;
    }
    await new Promise<void>((resolve, reject) => {
      const giveUp = () => {
        this.#waiting.delete(turn);
        reject(signal.reason);
      };
      const turn = () => {
        signal.removeEventListener("abort", giveUp);
        resolve();
      };
      this.#waiting.add(turn);
      signal.addEventListener("abort", giveUp, { once: true });
    });
  }

  /** The slot goes straight to who waits longest. */
  #give(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#free += 1;
      return;
    }
    this.#waiting.delete(next);
    next();
  }
}
