/**
 * LocalResourcesTracker: all copies on the node by their key, who uses which, and which ones go when
 * space is needed: the longest unused first, and only PUBLIC and PRIVATE ones that nobody uses.
 * Pure bookkeeping; whoever takes a copy out removes it from the disk.
 */
import type { ContainerId } from "../../shared/ids.ts";
import { LocalizedResource, type ResourceIdentity } from "./localized-resource.ts";

export class LocalResourcesTracker {
  readonly #byKey = new Map<string, LocalizedResource>();

  find(key: string): LocalizedResource | undefined {
    return this.#byKey.get(key);
  }

  /** The copy for this identity, referenced by the container; a new one in INIT if there is none. */
  request(identity: ResourceIdentity, containerId: ContainerId): LocalizedResource {
    const resource = this.#byKey.get(identity.key) ?? new LocalizedResource(identity);
    this.#byKey.set(identity.key, resource);
    resource.references.add(containerId);
    return resource;
  }

  /** Adds a copy found at a restart. */
  add(resource: LocalizedResource): void {
    this.#byKey.set(resource.identity.key, resource);
  }

  /** Drops the reference. A copy that is still on its way to nobody is stopped. */
  release(resource: LocalizedResource, containerId: ContainerId, nowMs: number): void {
    if (!resource.references.delete(containerId)) return;
    resource.usedAt(nowMs);
    if (resource.references.size > 0 || !resource.isPending) return;
    resource.stop(new Error("nobody waits for it any more"));
    this.forget(resource);
  }

  /** Another request makes a new one. */
  forget(resource: LocalizedResource): void {
    if (this.#byKey.get(resource.identity.key) === resource) {
      this.#byKey.delete(resource.identity.key);
    }
  }

  ofApplication(applicationId: string): LocalizedResource[] {
    return [...this.#byKey.values()].filter(
      ({ identity: { scope } }) =>
        scope.visibility === "APPLICATION" && scope.applicationId === applicationId,
    );
  }

  /** Bytes of all PUBLIC and PRIVATE copies: what the target size is about. */
  cacheBytes(): number {
    return this.#cached().reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  }

  /**
   * Takes out copies until `bytes` are freed or all that may go are gone. `prefix`: only copies
   * whose paths begin with it.
   */
  evict(bytes: number, prefix = ""): LocalizedResource[] {
    const candidates = this.#cached()
      .filter(({ references }) => references.size === 0)
      .filter(({ path }) => path?.startsWith(prefix))
      .toSorted((a, b) => a.lastUsedMs - b.lastUsedMs);
    const evicted: LocalizedResource[] = [];
    let freed = 0;
    for (const resource of candidates) {
      if (freed >= bytes) break;
      freed += resource.sizeBytes;
      this.forget(resource);
      evicted.push(resource);
    }
    return evicted;
  }

  #cached(): LocalizedResource[] {
    return [...this.#byKey.values()].filter(
      ({ state, identity }) => state === "LOCALIZED" && identity.scope.visibility !== "APPLICATION",
    );
  }
}
