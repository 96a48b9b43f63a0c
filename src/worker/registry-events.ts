/**
 * A watch of the registry as clients get it: a stream of server-sent events, or one long poll. The
 * stream's heartbeats are made here, so that a quiet registry sleeps. A client that reads too slowly
 * is told to read anew: nothing waits for it without bound.
 */
import { ok, type Reply } from "../shared/errors.ts";
import { LIMITS } from "../shared/limits.ts";
import type {
  RegistryChange,
  RegistryWatch,
  RegistryWatchMessage,
} from "../shared/protocol/registry-reader.ts";
import { formatServiceRecordForReaders } from "../shared/registry.ts";

/** Proxies end connections that are silent for 30 to 100 s. */
const HEARTBEAT_INTERVAL_MS = 20_000;
/** A client whose connection broke comes back after this time. */
const RETRY_MS = 2_000;

export type WatchRequest = {
  readonly path: string;
  readonly after: number | null;
  readonly reader: string | null;
};

/** The body of an event stream. It ends when the registry restarts; the client then comes back. */
export async function openEventStream(
  registry: RegistryWatch,
  { path, after, reader }: WatchRequest,
): Promise<Reply<ReadableStream<Uint8Array>>> {
  const stream = new EventStream();
  const opened = await registry.watch(path, after, reader, stream);
  if (!opened.ok) return opened;
  stream.opened(() => opened.value.close());
  return ok(stream.body);
}

const encoder = new TextEncoder();
const HEARTBEAT = encoder.encode(": still here\n\n");
const RETRY = encoder.encode(`retry: ${RETRY_MS}\n\n`);

/** As events, for each message once: watchers of one path are given the same message. */
const written = new WeakMap<RegistryWatchMessage, Uint8Array>();

function eventsOf(message: RegistryWatchMessage): Uint8Array {
  const bytes = written.get(message) ?? encoder.encode(formatMessage(message));
  written.set(message, bytes);
  return bytes;
}

/** Events wait in the body's own queue while the client does not read; their length is bounded. */
class EventStream {
  /** Null: it is over. */
  #controller: ReadableStreamDefaultController<Uint8Array> | null = null;
  #timer: ReturnType<typeof setInterval> | null = null;
  #closeWatch: () => void = () => undefined;
  readonly body = new ReadableStream<Uint8Array>(
    {
      start: (controller) => {
        this.#controller = controller;
        controller.enqueue(RETRY);
      },
      cancel: () => {
        this.#end();
        this.#closeWatch();
      },
    },
    new ByteLengthQueuingStrategy({ highWaterMark: LIMITS.registryWatchBufferMax }),
  );

  /** `close` closes the registry's watch. */
  opened(close: () => void): void {
    this.#closeWatch = close;
    if (this.#controller === null) return;
    this.#timer = setInterval(() => {
      const isWaiting = this.#room < LIMITS.registryWatchBufferMax;
      if (!isWaiting) this.#controller?.enqueue(HEARTBEAT);
    }, HEARTBEAT_INTERVAL_MS);
  }

  message(message: RegistryWatchMessage): void {
    this.#controller?.enqueue(eventsOf(message));
    if (this.#room >= 0) return;
    this.#controller?.enqueue(eventsOf({ sequence: message.sequence, reset: true }));
    this.closed();
    this.#closeWatch();
  }

  closed(): void {
    this.#controller?.close();
    this.#end();
  }

  get #room(): number {
    return this.#controller?.desiredSize ?? 0;
  }

  #end(): void {
    this.#controller = null;
    if (this.#timer !== null) clearInterval(this.#timer);
  }
}

/**
 * The last event of a transaction carries its number: whoever comes back with it has heard all of
 * that transaction, and whoever was cut off in between hears all of it again.
 */
function formatMessage(message: RegistryWatchMessage): string {
  const { sequence } = message;
  if ("reset" in message) return `id: ${sequence}\nevent: reset\ndata: {}\n\n`;
  if (message.changes.length === 0) return `id: ${sequence}\nevent: ready\ndata: {}\n\n`;
  return message.changes
    .map((change, index) => {
      const isLast = index === message.changes.length - 1;
      const data = JSON.stringify(documentOf(change));
      return `${isLast ? `id: ${sequence}\n` : ""}event: ${change.type}\ndata: ${data}\n\n`;
    })
    .join("");
}

export type RegistryPoll = {
  readonly events: readonly object[];
  /** Events were lost: read the path anew. */
  readonly reset?: true;
  /** `after` of the next poll. */
  readonly next: number;
};

/** Answers as soon as there is something, or after `waitMs`; at once when nothing is resumed. */
export async function poll(
  registry: RegistryWatch,
  { path, after, reader }: WatchRequest,
  waitMs: number,
): Promise<Reply<RegistryPoll>> {
  const messages: RegistryWatchMessage[] = [];
  const { promise: answered, resolve } = Promise.withResolvers<void>();
  const opened = await registry.watch(path, after, reader, {
    message(message) {
      messages.push(message);
      const hasNews = "reset" in message || message.changes.length > 0;
      if (hasNews || after === null || waitMs === 0) resolve();
    },
    closed: resolve,
  });
  if (!opened.ok) return opened;
  const timer = setTimeout(resolve, Math.max(waitMs, FIRST_MESSAGE_MS));
  await answered;
  clearTimeout(timer);
  opened.value.close();
  const events = messages.flatMap((each) => ("reset" in each ? [] : each.changes.map(documentOf)));
  const next = messages.at(-1)?.sequence ?? after ?? 0;
  return ok(
    messages.some((each) => "reset" in each) ? { events: [], reset: true, next } : { events, next },
  );
}

/** Even a poll that does not wait hears what the registry says when it opens. */
const FIRST_MESSAGE_MS = 5_000;

function documentOf(change: RegistryChange): object {
  const { record } = change;
  return record === undefined
    ? change
    : { ...change, record: formatServiceRecordForReaders(record) };
}
