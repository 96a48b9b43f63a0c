/**
 * The clusters' public keys, kept in the isolate so that a request costs the ResourceManager
 * nothing. A token decides which key is asked for, and anybody can write a token: so keys are
 * fetched again for an unknown key id at most once a second for each cluster, whatever is sent.
 */
import { importJWK } from "jose";
import type { VerificationKey } from "../shared/protocol/resource-tracker.ts";

/** A key that was withdrawn is trusted this much longer. */
const KEYS_LIFETIME_MS = 60_000;
/** A new key is noticed this much later at worst. */
const REFETCH_INTERVAL_MS = 1_000;
/** Clusters remembered by one isolate; the oldest is forgotten first. */
const CLUSTERS_MAX = 256;

type ImportedKey = Awaited<ReturnType<typeof importJWK>>;
type KnownKeys = {
  readonly keys: ReadonlyMap<string, ImportedKey>;
  readonly fetchedMs: number;
};

export class VerificationKeys {
  readonly #known = new Map<string, KnownKeys>();

  /** The key named `kid`, or null when the cluster has none of that name. */
  async find(
    cluster: string,
    kid: string,
    fetchKeys: () => Promise<readonly VerificationKey[]>,
  ): Promise<ImportedKey | null> {
    const known = this.#known.get(cluster);
    const ageMs = known === undefined ? Number.POSITIVE_INFINITY : Date.now() - known.fetchedMs;
    const key = known?.keys.get(kid);
    if (key !== undefined && ageMs < KEYS_LIFETIME_MS) return key;
    if (key === undefined && ageMs < REFETCH_INTERVAL_MS) return null;
    const fetched = await importAll(await fetchKeys());
    this.#remember(cluster, fetched);
    return fetched.get(kid) ?? null;
  }

  /** The next request fetches again: called when the cluster has just made its first key. */
  forget(cluster: string): void {
    this.#known.delete(cluster);
  }

  #remember(cluster: string, keys: ReadonlyMap<string, ImportedKey>): void {
    this.#known.delete(cluster);
    this.#known.set(cluster, { keys, fetchedMs: Date.now() });
    const oldest = this.#known.keys().next();
    if (this.#known.size > CLUSTERS_MAX && !oldest.done) this.#known.delete(oldest.value);
  }
}

async function importAll(
  keys: readonly VerificationKey[],
): Promise<ReadonlyMap<string, ImportedKey>> {
  const imported = new Map<string, ImportedKey>();
  for (const { kid, kty, crv, x } of keys) {
    imported.set(kid, await importJWK({ kty, crv, x }, "EdDSA"));
  }
  return imported;
}
