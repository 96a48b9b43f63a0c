/**
 * The imperative shell around a pure core: decide, persist in one transaction, then act, re-arm the
 * one alarm. It alone reads the clock.
 *
 * What is to be said to others is never queued: the core computes it from its rows (`work`) after
 * every command, and it stays computed until the answer was stored. The shell only sees to it that
 * each peer (`key`) is spoken to once at a time, and later again when that failed.
 */
import type { Change, Table } from "../core/table.ts";
import { RowStore } from "./store/row-store.ts";

/** An object that dies while a call is under way is woken by its alarm after this long. */
const SAFETY_ALARM_MS = 10_000;
const RETRY_BASE_MS = 100;
const RETRY_MAX_MS = 30_000;

export type Keyed = { readonly key: string };

export type Core<Work extends Keyed> = {
  // biome-ignore lint/suspicious/noExplicitAny: the tables of one object hold different rows
  readonly tables: readonly Table<any>[];
  drain(): Change[];
  /** After loading: rebuild what is derived from rows. */
  restore(): void;
  /** After every command and by the alarm: expiries and whatever else follows by itself. */
  settle(nowMs: number): void;
  nextDeadlineMs(): number | null;
  work(): readonly Work[];
  /** Says one piece of work and stores the answer. Answers how long not to say it again (ms). */
  perform(work: Work): Promise<number>;
  /** After storing: send what needs no answer, such as messages on sockets. */
  afterSave?(): void;
};

type Waiter = { readonly done: () => boolean; readonly resolve: () => void };

export class Shell<Work extends Keyed> {
  readonly #ctx: DurableObjectState;
  readonly #core: Core<Work>;
  readonly #store: RowStore;
  readonly #inFlight = new Set<string>();
  readonly #held = new Map<string, { readonly untilMs: number; readonly failures: number }>();
  #waiters: Waiter[] = [];
  #alarmMs: number | null = null;

  constructor(ctx: DurableObjectState, core: Core<Work>) {
    this.#ctx = ctx;
    this.#core = core;
    this.#store = new RowStore(ctx.storage.sql, core.tables);
    ctx.blockConcurrencyWhile(async () => {
      this.#store.load();
      core.restore();
      this.#alarmMs = await ctx.storage.getAlarm();
    });
  }

  /** Runs one command. Its changes are stored before anybody can see the answer. */
  run<Value>(name: string, command: (nowMs: number) => Value): Value {
    const nowMs = Date.now();
    let value: Value;
    try {
      value = command(nowMs);
      this.#core.settle(nowMs);
      const changes = this.#core.drain();
      if (changes.length > 0) {
        this.#ctx.storage.transactionSync(() => this.#store.save(changes));
        logCommand(name, changes);
      }
    } catch (error) {
      // Memory may be ahead of storage now: the next call starts from what is stored.
      console.error(JSON.stringify({ event: name, outcome: "aborted", error: String(error) }));
      this.#ctx.abort(`${name} failed: ${String(error)}`);
      throw error;
    }
    this.#core.afterSave?.();
    this.pump();
    return value;
  }

  /** Starts whatever is to be said and neither under way nor held back; re-arms the alarm. */
  pump(): void {
    this.#wake();
    const nowMs = Date.now();
    const work = this.#core.work();
    const keys = new Set(work.map(({ key }) => key));
    // What need not be said any more is not held back when it comes up anew.
    for (const key of this.#held.keys()) if (!keys.has(key)) this.#held.delete(key);
    for (const item of work) {
      if (this.#inFlight.has(item.key) || this.#heldUntilMs(item.key) > nowMs) continue;
      this.#inFlight.add(item.key);
      void this.#perform(item);
    }
    this.#rearm(nowMs);
  }

  #heldUntilMs(key: string): number {
    return this.#held.get(key)?.untilMs ?? 0;
  }

  async #perform(work: Work): Promise<void> {
    try {
      const holdMs = await this.#core.perform(work);
      if (holdMs === 0) this.#checkProgress(work);
      if (holdMs > 0) this.#held.set(work.key, { untilMs: Date.now() + holdMs, failures: 0 });
      else this.#held.delete(work.key);
    } catch (error) {
      const failures = (this.#held.get(work.key)?.failures ?? 0) + 1;
      const delayMs = Math.min(RETRY_MAX_MS, RETRY_BASE_MS * 2 ** Math.min(failures, 10));
      const untilMs = Date.now() + delayMs * (0.5 + Math.random() / 2);
      this.#held.set(work.key, { untilMs, failures });
      const message = error instanceof Error ? error.message : String(error);
      console.warn(JSON.stringify({ event: work.key, outcome: "retry", failures, error: message }));
    } finally {
      this.#inFlight.delete(work.key);
      this.pump();
    }
  }

  /** Work that is still the same after it was done would be done for ever, as fast as possible. */
  #checkProgress(work: Work): void {
    const again = this.#core.work().find(({ key }) => key === work.key);
    if (again === undefined || JSON.stringify(again) !== JSON.stringify(work)) return;
    throw new Error("it was answered, and yet it has to be said again");
  }

  /** The alarm handler's body. */
  alarm(): void {
    this.#alarmMs = null;
    this.run("alarm", () => undefined);
  }

  /** Waits until `done` or until the time is over; `done` is looked at after every change. */
  async until(done: () => boolean, timeoutMs: number): Promise<boolean> {
    if (done()) return true;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const waiter: Waiter = { done, resolve: () => resolve(true) };
    this.#waiters.push(waiter);
    const timer = setTimeout(() => resolve(false), timeoutMs);
    const result = await promise;
    clearTimeout(timer);
    this.#waiters = this.#waiters.filter((other) => other !== waiter);
    return result;
  }

  #wake(): void {
    for (const waiter of this.#waiters) if (waiter.done()) waiter.resolve();
  }

  /** The alarm may be early, never late: an early one finds nothing to do and costs one request. */
  #rearm(nowMs: number): void {
    let next = this.#core.nextDeadlineMs();
    const earlier = (timeMs: number) => {
      if (next === null || timeMs < next) next = timeMs;
    };
    if (this.#inFlight.size > 0) earlier(nowMs + SAFETY_ALARM_MS);
    // What is being said just now is held back no longer, and the alarm above looks after it.
    for (const [key, { untilMs }] of this.#held) {
      if (!this.#inFlight.has(key)) earlier(Math.max(untilMs, nowMs));
    }
    if (next === null) this.#disarm(nowMs);
    else if (this.#alarmMs === null || next < this.#alarmMs) {
      this.#alarmMs = next;
      void this.#ctx.storage.setAlarm(next);
    }
  }

  /**
   * Nothing is waited for. Waking for nothing costs more than the row that it takes to forget the
   * alarm, except in a busy object, which would set the next one a moment later.
   */
  #disarm(nowMs: number): void {
    if (this.#alarmMs === null || this.#alarmMs <= nowMs + SAFETY_ALARM_MS) return;
    this.#alarmMs = null;
    void this.#ctx.storage.deleteAlarm();
  }
}

function logCommand(event: string, changes: readonly Change[]): void {
  const tables = new Set(changes.map((change) => change.table));
  console.log(
    JSON.stringify({ event, outcome: "ok", changes: changes.length, tables: [...tables] }),
  );
}
