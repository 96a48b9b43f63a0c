/**
 * Slowing down the rude (seed 000 "Rate of Update", "Rate of Polling"): token buckets in memory,
 * which a restart may forget. One object serves a whole cluster; nobody may take it for himself.
 */
import { fail, ok, type Reply } from "../../shared/errors.ts";
import type { RegistrySession } from "../../shared/protocol/registry-operations.ts";
import type { RegistryReaderId } from "../../shared/protocol/registry-reader.ts";

/** `burst` tokens at first, and `perSecond` more each second up to that. */
export type Rate = { readonly burst: number; readonly perSecond: number };

/**
 * One object answers about 1,000 requests a second. One client gets at most a fifth of that, and a
 * tenth of its share for the same path, which it could watch instead. Offices behind one address,
 * and pages that ask once a second, fit in.
 */
export const READS_PER_CLIENT: Rate = { burst: 1_000, perSecond: 200 };
export const READS_PER_CLIENT_AND_PATH: Rate = { burst: 200, perSecond: 20 };
/** A record that changes more often than this is a data stream, not a binding. */
export const WRITES_PER_CALLER_AND_PATH: Rate = { burst: 100, perSecond: 10 };
/** What a search or a subtree, and a new watch cost, in plain reads. */
export const COST = { read: 1, search: 2, watch: 1 } as const;

/** 50,000 buckets are about 5 MB; more clients than that at once are refilled early, not refused. */
const BUCKETS_MAX = 50_000;

type Bucket = { readonly tokens: number; readonly atMs: number };

export class TokenBuckets {
  readonly #rate: Rate;
  readonly #buckets = new Map<string, Bucket>();

  constructor(rate: Rate) {
    this.#rate = rate;
  }

  /** Takes `cost` tokens and answers 0, or takes none and answers how many ms to wait. */
  take(key: string, cost: number, nowMs: number): number {
    const { burst, perSecond } = this.#rate;
    const bucket = this.#buckets.get(key) ?? { tokens: burst, atMs: nowMs };
    const elapsedMs = Math.max(0, nowMs - bucket.atMs);
    const tokens = Math.min(burst, bucket.tokens + (elapsedMs / 1_000) * perSecond);
    if (tokens < cost) return Math.ceil(((cost - tokens) / perSecond) * 1_000);
    // Deleted first, so that the map's order is that of the last use.
    this.#buckets.delete(key);
    this.#buckets.set(key, { tokens: tokens - cost, atMs: nowMs });
    if (this.#buckets.size > BUCKETS_MAX) {
      for (const oldest of this.#buckets.keys()) {
        this.#buckets.delete(oldest);
        break;
      }
    }
    return 0;
  }
}

export class RegistryThrottle {
  readonly #clients = new TokenBuckets(READS_PER_CLIENT);
  readonly #polled = new TokenBuckets(READS_PER_CLIENT_AND_PATH);
  readonly #written = new TokenBuckets(WRITES_PER_CALLER_AND_PATH);

  /** Fails with RESOURCE_EXHAUSTED when the reader has to wait. */
  read(reader: RegistryReaderId, path: string, cost: number, nowMs: number): Reply<undefined> {
    if (reader === null) return ok();
    const waitMs =
      this.#clients.take(reader, cost, nowMs) ||
      this.#polled.take(keyOf(reader, path), cost, nowMs);
    if (waitMs === 0) return ok();
    return fail("RESOURCE_EXHAUSTED", "the registry is read too often from your address", {
      reason: "RateOfPolling",
      hint: "watch a path (?watch) instead of asking again and again, and send If-None-Match",
      retryAfterMs: waitMs,
    });
  }

  /** The same for a writer who has shown who it is. The cluster's own objects never wait. */
  write(session: RegistrySession, paths: Iterable<string>, nowMs: number): Reply<undefined> {
    const writer = writerOf(session);
    if (writer === null) return ok();
    for (const path of paths) {
      const waitMs = this.#written.take(keyOf(writer, path), 1, nowMs);
      if (waitMs === 0) continue;
      return fail("RESOURCE_EXHAUSTED", `${path.slice(0, 256)} is changed too often`, {
        reason: "RateOfUpdate",
        hint: "a record says where a service is, not how it feels: bind it when that changes",
        retryAfterMs: waitMs,
      });
    }
    return ok();
  }
}

function writerOf({ caller, accessors }: RegistrySession): string | null {
  switch (caller.kind) {
    case "service":
      return null;
    case "user":
      return `user ${caller.user}`;
    case "container":
      return `container ${caller.containerId}`;
    case "anonymous":
      return `accessor ${accessors.map(({ id }) => id).join()}`;
  }
}

/** Paths come from outside: what is remembered of one is bounded. */
function keyOf(who: string, path: string): string {
  return `${who} ${path.slice(0, 256)}`;
}
