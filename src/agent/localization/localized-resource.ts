/**
 * LocalizedResource: one copy on the node, from the first request to its removal.
 *
 *   INIT ─ a slot is free ─▶ DOWNLOADING ─ verified, in place ─▶ LOCALIZED
 *     └──────────────────────────┴─ refused, broken, released ─▶ FAILED
 *
 * It counts who uses it; only an unused one is ever evicted.
 */
import type { ContainerId } from "../../shared/ids.ts";
import type { LocalResourceRequest } from "./local-resource-request.ts";

export type LocalizedResourceState = "INIT" | "DOWNLOADING" | "LOCALIZED" | "FAILED";

/** What is known of a copy; all that is left of its request after a restart. */
export type ResourceIdentity = Pick<LocalResourceRequest, "key" | "scope" | "displayUrl">;

export class LocalizedResource {
  readonly identity: ResourceIdentity;
  /** Containers that use it or wait for it. */
  readonly references = new Set<ContainerId>();
  readonly #stop = new AbortController();
  readonly #done = Promise.withResolvers<string>();
  #state: LocalizedResourceState = "INIT";
  #path: string | undefined;
  #diagnostics: string | undefined;
  #bytesDone = 0;
  #bytesTotal: number | undefined;
  #sizeBytes = 0;
  #lastUsedMs = 0;

  constructor(identity: ResourceIdentity) {
    this.identity = identity;
    // Whoever waits is told; if nobody does any more, it is no unhandled rejection.
    this.#done.promise.catch(() => undefined);
  }

  /** A copy found at a restart. */
  static recovered(
    identity: ResourceIdentity,
    copy: { readonly path: string; readonly sizeBytes: number; readonly lastUsedMs: number },
  ): LocalizedResource {
    const resource = new LocalizedResource(identity);
    resource.localized(copy.path, copy.sizeBytes);
    resource.usedAt(copy.lastUsedMs);
    return resource;
  }

  get state(): LocalizedResourceState {
    return this.#state;
  }
  /** Of the localized file or directory. */
  get path(): string | undefined {
    return this.#path;
  }
  get diagnostics(): string | undefined {
    return this.#diagnostics;
  }
  get bytesDone(): number {
    return this.#bytesDone;
  }
  /** Undefined while the source has not said it. */
  get bytesTotal(): number | undefined {
    return this.#bytesTotal;
  }
  /** On the disk, once LOCALIZED. */
  get sizeBytes(): number {
    return this.#sizeBytes;
  }
  get lastUsedMs(): number {
    return this.#lastUsedMs;
  }
  /** The path, when it is there. Rejects when it cannot be localized. */
  get done(): Promise<string> {
    return this.#done.promise;
  }
  /** Aborted when nobody wants it any more. */
  get signal(): AbortSignal {
    return this.#stop.signal;
  }
  get isPending(): boolean {
    return this.#state === "INIT" || this.#state === "DOWNLOADING";
  }

  downloading(): void {
    this.#state = "DOWNLOADING";
  }

  received(bytesDone: number, bytesTotal: number | undefined): void {
    this.#bytesDone = bytesDone;
    this.#bytesTotal = bytesTotal;
  }

  localized(path: string, sizeBytes: number): void {
    this.#state = "LOCALIZED";
    this.#path = path;
    this.#sizeBytes = sizeBytes;
    this.#done.resolve(path);
  }

  failed(failure: Error): void {
    this.#state = "FAILED";
    this.#diagnostics = failure.message;
    this.#done.reject(failure);
  }

  usedAt(nowMs: number): void {
    this.#lastUsedMs = nowMs;
  }

  stop(reason: Error): void {
    this.#stop.abort(reason);
  }
}
