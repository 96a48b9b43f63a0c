/** Waiting until an assertion holds: long enough for a machine that is busy with other things. */
import { vi } from "vitest";

const TIMEOUT_MS = 20_000;
const INTERVAL_MS = 10;

/** Checks again and again until nothing is thrown, and answers what the check answers. */
export function eventually<T>(check: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(check, { timeout: TIMEOUT_MS, interval: INTERVAL_MS });
}
