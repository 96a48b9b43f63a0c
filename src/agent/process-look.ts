/**
 * One look at the machine's processes for all who ask at about the same time. A look is taken after
 * it was asked for, and at once as a rule; when many containers end, looking takes no more than a
 * fiftieth of the agent's time.
 */
import { type ProcessStat, readProcesses } from "./process-table.ts";

const TIME_SHARE = 0.02;

export class ProcessLook {
  readonly #waiting: ((processes: readonly ProcessStat[]) => void)[] = [];
  #timer: NodeJS.Timeout | undefined;
  #nextAtMs = 0;

  /** `seen` is called with the processes that there are at a later moment. */
  ask(seen: (processes: readonly ProcessStat[]) => void): void {
    this.#waiting.push(seen);
    const delayMs = Math.max(0, this.#nextAtMs - performance.now());
    this.#timer ??= setTimeout(() => this.look(), delayMs);
  }

  /** Answers those who wait now. */
  look(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const waiting = this.#waiting.splice(0);
    if (waiting.length === 0) return;
    const startedMs = performance.now();
    const processes = readProcesses();
    for (const seen of waiting) seen(processes);
    const endedMs = performance.now();
    this.#nextAtMs = endedMs + (endedMs - startedMs) * (1 / TIME_SHARE - 1);
  }
}
