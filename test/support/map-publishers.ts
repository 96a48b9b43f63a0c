/** What the registry over a Map remembers of its publishers. */
import type { PublisherLog } from "../../src/core/registry/publishers.ts";
import type { PublicationNumber } from "../../src/shared/protocol/registry-operations.ts";

export class MapPublisherLog implements PublisherLog {
  readonly #heard = new Map<string, { readonly number: PublicationNumber; readonly ms: number }>();

  last(publisher: string): PublicationNumber | undefined {
    return this.#heard.get(publisher)?.number;
  }

  note(publisher: string, { life, count }: PublicationNumber, nowMs: number): void {
    this.#heard.set(publisher, { number: { life, count }, ms: nowMs });
  }

  forgetBefore(timeMs: number): void {
    for (const [publisher, { ms }] of this.#heard) if (ms < timeMs) this.#heard.delete(publisher);
  }
}
