/**
 * `--since` line by line. A line that begins with a time is shown or left out by it, and those without
 * one, such as a stack trace, as the line before them. Of a log whose lines carry no time only that is
 * left out which its node or the store knows to be older; then it is said that this is rough.
 */
import { timeOfLine } from "./line-time.ts";

type Seen = {
  isShown: boolean;
  lines: number;
  timedLines: number;
  shownLines: number;
  /** Epoch ms of the latest line whose time had no zone. */
  latestZonelessMs: number | undefined;
};

export class SinceFilter {
  readonly #sinceMs: number;
  readonly #seen = new Map<string, Seen>();

  constructor(sinceMs: number) {
    this.#sinceMs = sinceMs;
  }

  /** `nowMs` tells the year of times that have none. */
  isWanted(containerId: string, line: string, nowMs: number): boolean {
    const seen = this.#seenOf(containerId);
    const time = timeOfLine(line, nowMs);
    seen.lines += 1;
    if (time !== undefined) {
      seen.timedLines += 1;
      seen.isShown = time.timeMs >= this.#sinceMs;
      if (!time.isZoned) seen.latestZonelessMs = time.timeMs;
    }
    if (seen.isShown) seen.shownLines += 1;
    return seen.isShown;
  }

  /** What a reader of the container's log has to know; undefined when nothing is in doubt. */
  doubt(containerId: string): string | undefined {
    const { lines, timedLines, shownLines, latestZonelessMs } = this.#seenOf(containerId);
    if (lines > 0 && timedLines === 0) {
      return "its lines begin with no time that is understood; only what is surely older was left out";
    }
    if (shownLines > 0 || latestZonelessMs === undefined) return undefined;
    const latest = new Date(latestZonelessMs).toISOString();
    return `its latest line is of ${latest}, if its times, which name no zone, are UTC`;
  }

  #seenOf(containerId: string): Seen {
    const known = this.#seen.get(containerId);
    if (known !== undefined) return known;
    const seen: Seen = {
      ...{ isShown: true, lines: 0, timedLines: 0, shownLines: 0, latestZonelessMs: undefined },
    };
    this.#seen.set(containerId, seen);
    return seen;
  }
}
