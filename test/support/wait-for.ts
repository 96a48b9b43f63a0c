/** Waiting on a condition rather than on time. */
import { setTimeout as delay } from "node:timers/promises";

const POLL_MS = 25;
const TIMEOUT_MS = 30_000;

export type WaitOptions = {
  /** Completes "waited … for": `hello-world to be STABLE`. */
  readonly what: string;
  /** 30 s unless told otherwise. */
  readonly timeoutMs?: number;
};

/**
 * Asks again and again until the condition answers something other than false, null or undefined,
 * and answers that. A condition that throws is asked again; what it said last is in the failure.
 */
export async function waitFor<T>(
  condition: () => T | Promise<T>,
  { what, timeoutMs = TIMEOUT_MS }: WaitOptions,
): Promise<Exclude<T, false | null | undefined>> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    let last: unknown;
    try {
      const value = await condition();
      if (value !== false && value !== null && value !== undefined) {
        return value as Exclude<T, false | null | undefined>;
      }
      last = value;
    } catch (error) {
      last = error;
    }
    if (Date.now() >= deadline) {
      throw new Error(`waited ${timeoutMs} ms for ${what}; the last answer was: ${String(last)}`, {
        cause: last,
      });
    }
    await delay(POLL_MS);
  }
}
