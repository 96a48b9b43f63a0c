/** Slowing down the rude: token buckets over a clock that the test drives. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  COST,
  READS_PER_CLIENT_AND_PATH,
  RegistryThrottle,
  TokenBuckets,
  WRITES_PER_CALLER_AND_PATH,
} from "../../src/core/registry/throttle.ts";
import type { RegistrySession } from "../../src/shared/protocol/registry-operations.ts";

describe("[RG28] a token bucket", () => {
  it("[RG28] lets through its burst and then its rate, and says how long to wait", () => {
    const buckets = new TokenBuckets({ burst: 2, perSecond: 4 });
    expect([buckets.take("a", 1, 0), buckets.take("a", 1, 0)]).toEqual([0, 0]);
    expect(buckets.take("a", 1, 0)).toBe(250);
    expect(buckets.take("b", 1, 0)).toBe(0);
    expect(buckets.take("a", 1, 125)).toBe(125);
    expect(buckets.take("a", 1, 250)).toBe(0);
    expect(buckets.take("a", 2, 60_000)).toBe(0);
    expect(buckets.take("a", 1, 60_000)).toBe(250);
  });

  it("[RG28] never lets through more than burst + rate × time, however it is asked", () => {
    const asks = fc.array(fc.tuple(fc.nat(300), fc.integer({ min: 1, max: 3 })), {
      maxLength: 200,
    });
    fc.assert(
      fc.property(asks, (steps) => {
        const buckets = new TokenBuckets({ burst: 5, perSecond: 10 });
        let [nowMs, taken] = [0, 0];
        for (const [elapsedMs, cost] of steps) {
          nowMs += elapsedMs;
          const waitMs = buckets.take("a", cost, nowMs);
          if (waitMs === 0) taken += cost;
        }
        expect(taken).toBeLessThanOrEqual(5 + (nowMs / 1_000) * 10 + 1e-6);
      }),
    );
  });
});

describe("[RG28] the registry's throttle", () => {
  it("[RG28] refuses a reader that polls one path, and never one that nobody knows", () => {
    const throttle = new RegistryThrottle();
    const { burst } = READS_PER_CLIENT_AND_PATH;
    for (let n = 0; n < burst; n++) {
      expect(throttle.read("192.0.2.1", "/a", COST.read, 0).ok).toBe(true);
      expect(throttle.read(null, "/a", COST.read, 0).ok).toBe(true);
    }
    expect(throttle.read("192.0.2.1", "/a", COST.read, 0)).toMatchObject({
      error: { code: "RESOURCE_EXHAUSTED", reason: "RateOfPolling", retryAfterMs: 50 },
    });
    expect(throttle.read("192.0.2.1", "/b", COST.read, 0).ok).toBe(true);
    expect(throttle.read(null, "/a", COST.read, 0).ok).toBe(true);
  });

  it("[RG28] refuses a writer that changes one path all the time, but not the cluster itself", () => {
    const throttle = new RegistryThrottle();
    const session = (caller: RegistrySession["caller"]): RegistrySession => ({
      caller,
      accessors: [],
    });
    const joe = session({ kind: "user", user: "joe", admin: false });
    const service = session({ kind: "service" });
    for (let n = 0; n < WRITES_PER_CALLER_AND_PATH.burst; n++) {
      expect(throttle.write(joe, ["/users/joe/a"], 0).ok).toBe(true);
      expect(throttle.write(service, ["/users/joe/a"], 0).ok).toBe(true);
    }
    expect(throttle.write(joe, ["/users/joe/a"], 0)).toMatchObject({
      error: { reason: "RateOfUpdate", retryAfterMs: 100 },
    });
    expect(throttle.write(joe, ["/users/joe/b"], 0).ok).toBe(true);
    expect(throttle.write(service, ["/users/joe/a"], 0).ok).toBe(true);
    expect(throttle.write(joe, ["/users/joe/a"], 100).ok).toBe(true);
  });
});
