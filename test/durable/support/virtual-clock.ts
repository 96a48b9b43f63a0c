/**
 * Time in the hands of a test. `Date.now` of the whole isolate, and so of every Durable Object, goes
 * on by itself and can be moved forward; `advance` runs the alarms that fall due on the way, in
 * their order. The runtime's own alarms fire by the real clock: while the virtual one is ahead of
 * it, an alarm comes only when the test says so.
 */
import { runDurableObjectAlarm } from "cloudflare:test";
import { vi } from "vitest";
import { type EdgeCluster, OBJECTS, type ObjectName } from "./edge-cluster.ts";

/** Far enough for the runtime never to fire an alarm during a test. */
export const AHEAD_MS = 3_600_000;
/** An object that arms an alarm for the present again and again is broken. */
const ALARMS_MAX = 200;

export class VirtualClock {
  readonly #realNow = Date.now.bind(Date);
  #offsetMs: number;

  /** `aheadMs` 0 keeps it near the runtime's clock, which stamps the answers to pings. */
  constructor(aheadMs = AHEAD_MS) {
    this.#offsetMs = aheadMs;
    vi.spyOn(Date, "now").mockImplementation(() => this.#realNow() + this.#offsetMs);
  }

  /** Moves on without letting anything happen. */
  jump(ms: number): void {
    this.#offsetMs += ms;
  }

  /** Moves on to `timeMs`; there is no way back. */
  jumpTo(timeMs: number): void {
    this.#offsetMs += Math.max(0, timeMs - Date.now());
  }

  /** Moves on by `ms`, running each alarm of the cluster when it is due. Answers which ran. */
  async advance(cluster: EdgeCluster, ms: number): Promise<readonly ObjectName[]> {
    const untilMs = Date.now() + ms;
    const ran: ObjectName[] = [];
    while (ran.length < ALARMS_MAX) {
      const next = await nextAlarm(cluster);
      if (next === null || next.timeMs > untilMs) {
        this.jumpTo(untilMs);
        return ran;
      }
      this.jumpTo(next.timeMs);
      await runDurableObjectAlarm(cluster.stub(next.object));
      ran.push(next.object);
    }
    throw new Error(`${ALARMS_MAX} alarms in ${ms} ms: ${ran.slice(-5).join(", ")} …`);
  }
}

type Alarm = { readonly object: ObjectName; readonly timeMs: number };

async function nextAlarm(cluster: EdgeCluster): Promise<Alarm | null> {
  let next: Alarm | null = null;
  for (const object of OBJECTS) {
    const timeMs = await cluster.alarmOf(object);
    if (timeMs !== null && (next === null || timeMs < next.timeMs)) next = { object, timeMs };
  }
  return next;
}
