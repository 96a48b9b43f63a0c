/**
 * A Durable Object as durable/shell.ts runs it, with the platform's guarantees and no others: rows
 * and the alarm are stored atomically with each command, everything else is gone after a crash.
 */
import type { Change, Table } from "../../src/core/table.ts";
import type { Network, Party } from "./network.ts";
import { Violation, type World } from "./world.ts";

const SAFETY_ALARM_MS = 10_000;
const RETRY_BASE_MS = 100;
const RETRY_MAX_MS = 30_000;

export type Keyed = { readonly key: string };

/** The pure part of an object, rebuilt from its rows in every life. */
export type Core = {
  // biome-ignore lint/suspicious/noExplicitAny: the tables of one object hold different rows
  readonly tables: readonly Table<any>[];
  drain(): Change[];
};

/** Called after every command whose changes were stored. */
export type CommitWatcher = (object: DurableObject<Core, Keyed>, name: string) => void;

export abstract class DurableObject<OwnCore extends Core, Work extends Keyed> implements Party {
  readonly name: string;
  readonly world: World;
  readonly network: Network;
  life = 0;
  unreachableUntilMs = 0;
  core: OwnCore;
  /** What storage holds: table → key → body. */
  readonly stored = new Map<string, Map<string, string>>();
  onCommit: CommitWatcher = () => undefined;
  readonly #inFlight = new Set<string>();
  readonly #held = new Map<string, { readonly untilMs: number; readonly failures: number }>();
  #alarmMs: number | null = null;
  #alarmOrder = 0;

  constructor(name: string, world: World, network: Network) {
    this.name = name;
    this.world = world;
    this.network = network;
    this.core = this.load();
  }

  /** An empty core. */
  protected abstract create(): OwnCore;
  /** Rebuilds what is derived from rows. */
  protected restore(_core: OwnCore): void {}
  protected abstract settle(nowMs: number): void;
  protected abstract nextDeadlineMs(): number | null;
  protected abstract work(): readonly Work[];
  /** Calls `settled` once with how long not to say it again (ms), or null when it failed. */
  protected abstract perform(work: Work, settled: (holdMs: number | null) => void): void;
  protected afterSave(): void {}
  /** What an object made of the same rows must have as well, as text. */
  abstract digest(core: OwnCore): string;

  /** A core made of what is stored, in the order of the keys, as SQLite gives them. */
  load(): OwnCore {
    const core = this.create();
    for (const table of core.tables) {
      const rows = this.stored.get(table.name);
      if (!rows) continue;
      for (const key of [...rows.keys()].sort()) table.load(rows.get(key) ?? "");
    }
    this.restore(core);
    return core;
  }

  run<Value>(name: string, command: (nowMs: number) => Value): Value {
    const value = command(this.world.nowMs);
    this.settle(this.world.nowMs);
    const changes = this.core.drain();
    this.#save(changes);
    if (changes.length > 0) this.onCommit(this, name);
    this.afterSave();
    this.pump();
    return value;
  }

  pump(): void {
    const { nowMs } = this.world;
    const work = this.work();
    if (this.#held.size > 0) {
      const keys = new Set(work.map(({ key }) => key));
      for (const key of this.#held.keys()) if (!keys.has(key)) this.#held.delete(key);
    }
    for (const item of work) {
      const heldUntilMs = this.#held.get(item.key)?.untilMs ?? 0;
      if (this.#inFlight.has(item.key) || heldUntilMs > nowMs) continue;
      this.#inFlight.add(item.key);
      this.perform(item, (holdMs) => this.#settled(item, holdMs));
    }
    this.#rearm(nowMs);
  }

  /** Memory is gone, and so is whatever the object waited for. Storage and alarm stay. */
  crash(): void {
    this.world.note(`${this.name} CRASHES`);
    this.life += 1;
    this.#inFlight.clear();
    this.#held.clear();
    this.core = this.load();
    this.woken();
  }

  /** The first thing of a new life. */
  protected woken(): void {}

  /** What it has to say, and what it waits to hear of. */
  unfinished(): readonly string[] {
    return [...this.work().map(({ key }) => key), ...this.#inFlight];
  }

  /** The clock has leapt: an alarm may be due. */
  clockLeapt(): void {
    if (this.#alarmMs !== null) this.#setAlarm(this.#alarmMs);
  }

  #settled(work: Work, holdMs: number | null): void {
    const { key } = work;
    if (holdMs === null || (holdMs === 0 && this.#isAsBefore(work))) {
      const failures = (this.#held.get(key)?.failures ?? 0) + 1;
      const delayMs = Math.min(RETRY_MAX_MS, RETRY_BASE_MS * 2 ** Math.min(failures, 10));
      const jitter = 0.5 + this.world.random.next() / 2;
      this.#held.set(key, { untilMs: this.world.nowMs + Math.floor(delayMs * jitter), failures });
    } else if (holdMs > 0) {
      this.#held.set(key, { untilMs: this.world.nowMs + holdMs, failures: 0 });
    } else {
      this.#held.delete(key);
    }
    this.#inFlight.delete(key);
    this.pump();
  }

  /** Work that is still the same after it was done would be done for ever. */
  #isAsBefore(work: Work): boolean {
    const again = this.work().find(({ key }) => key === work.key);
    if (again === undefined || JSON.stringify(again) !== JSON.stringify(work)) return false;
    throw new Violation("PROGRESS", `${this.name} has done ${work.key}, and has to do it again`);
  }

  #save(changes: readonly Change[]): void {
    for (const { table, key, body } of changes) {
      const rows = this.stored.get(table);
      if (body === null) rows?.delete(key);
      else if (rows) rows.set(key, body);
      else this.stored.set(table, new Map([[key, body]]));
    }
  }

  #rearm(nowMs: number): void {
    let next = this.nextDeadlineMs();
    const earlier = (timeMs: number) => {
      if (next === null || timeMs < next) next = timeMs;
    };
    if (this.#inFlight.size > 0) earlier(nowMs + SAFETY_ALARM_MS);
    for (const [key, { untilMs }] of this.#held) {
      if (!this.#inFlight.has(key)) earlier(Math.max(untilMs, nowMs));
    }
    if (next === null) this.#disarm(nowMs);
    else if (this.#alarmMs === null || this.#alarmMs > next) this.#setAlarm(next);
  }

  #disarm(nowMs: number): void {
    if (this.#alarmMs === null || this.#alarmMs <= nowMs + SAFETY_ALARM_MS) return;
    this.#alarmMs = null;
    this.#alarmOrder += 1;
  }

  /** Alarms come late, never early. */
  #setAlarm(timeMs: number): void {
    this.#alarmMs = timeMs;
    this.#alarmOrder += 1;
    const order = this.#alarmOrder;
    const lateMs = this.world.isCalm ? 0 : this.world.random.skewed(0, 2_000);
    const delayMs = Math.max(0, timeMs - this.world.nowMs) + lateMs;
    this.world.after(delayMs, `${this.name} alarm`, () => {
      if (order !== this.#alarmOrder) return;
      this.#alarmMs = null;
      this.run("alarm", () => undefined);
    });
  }
}
