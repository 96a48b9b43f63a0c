/**
 * The registry's watchers: hibernating WebSockets from the Worker, which hands on what it hears to
 * clients. While nothing changes the object sleeps and every watch stays. A change is one pass over
 * the watchers it concerns; what a watcher has missed comes from the journal when it opens.
 */
import { concerns, type StoredChange } from "../core/registry/changes.ts";
import type { RegistryTree } from "../core/registry/tree.ts";
import { fail, type Reply } from "../shared/errors.ts";
import { LIMITS } from "../shared/limits.ts";
import type { RegistryChange } from "../shared/protocol/registry-reader.ts";
import { readStoredRecord } from "../shared/registry.ts";
import { lineage, parsePath, type RegistryPath } from "../shared/registry-path.ts";
import type { ChangeBatch, RegistryJournal } from "./store/registry-journal.ts";

type Attachment = { readonly path: RegistryPath };

/** Where the Worker opens a watch; the query is the same as `watchUrl` writes. */
const WATCH_URL = "https://registry/watch";

/** What the Worker fetches of the object to open a watch; `after` null resumes nothing. */
export function watchUrl(path: string, after: number | null, reader: string | null): string {
  const url = new URL(WATCH_URL);
  url.searchParams.set("path", path);
  if (after !== null) url.searchParams.set("after", String(after));
  if (reader !== null) url.searchParams.set("reader", reader);
  return url.href;
}

export class RegistryWatchers {
  readonly #context: DurableObjectState;
  readonly #tree: RegistryTree;
  readonly #journal: RegistryJournal;
  /** Filled from the sockets when the object wakes and something changes. */
  #watchers: Map<RegistryPath, Set<WebSocket>> | null = null;

  constructor(context: DurableObjectState, tree: RegistryTree, journal: RegistryJournal) {
    this.#context = context;
    this.#tree = tree;
    this.#journal = journal;
    journal.onChange = (batch) => this.#publish(batch);
  }

  /** The socket of a new watch, or the failure as JSON. Catching up and opening are one turn. */
  open(search: URLSearchParams): Response {
    const path = parsePath(search.get("path") ?? "");
    if (!path.ok) return failed(path);
    const sockets = this.#context.getWebSockets().length;
    if (sockets >= LIMITS.registryWatchersMax) {
      const message = `the registry has ${sockets} watchers, which is the maximum`;
      return failed(
        fail("RESOURCE_EXHAUSTED", message, {
          hint: "read the path from time to time instead, with If-None-Match",
          retryAfterMs: 60_000,
        }),
      );
    }
    const { 0: client, 1: server } = new WebSocketPair();
    this.#context.acceptWebSocket(server);
    server.serializeAttachment({ path: path.value } satisfies Attachment);
    if (this.#watchers !== null) add(this.#watchers, path.value, server);
    const after = search.get("after");
    for (const message of this.#catchUp(path.value, after)) send(server, message);
    return new Response(null, { status: SWITCHING_PROTOCOLS, webSocket: client });
  }

  forget(socket: WebSocket): void {
    const { path } = socket.deserializeAttachment() as Attachment;
    const sockets = this.#watchers?.get(path);
    sockets?.delete(socket);
    if (sockets?.size === 0) this.#watchers?.delete(path);
  }

  #catchUp(path: RegistryPath, after: string | null): readonly string[] {
    const now = this.#journal.sequence;
    const here = JSON.stringify({ sequence: now, changes: [] });
    if (after === null) return [here];
    const reset = [JSON.stringify({ sequence: now, reset: true })];
    const batches = this.#journal.since(Number(after));
    if (batches === null) return reset;
    const messages: string[] = [];
    let length = 0;
    for (const { sequence, changes } of batches) {
      const concerned = changes.filter((change) => concerns(change, path));
      if (concerned.length === 0) continue;
      const message = messageOf(
        sequence,
        concerned.map((change) => this.#textOf(change)),
      );
      length += message.length;
      if (length > LIMITS.registryWatchBufferMax) return reset;
      messages.push(message);
    }
    return [...messages, here];
  }

  #publish({ sequence, changes }: ChangeBatch): void {
    const watchers = this.#loadWatchers();
    if (watchers.size === 0) return;
    const heard = new Map<WebSocket, string[]>();
    for (const change of changes) {
      let text: string | null = null;
      for (const path of concernedPaths(watchers, change)) {
        text ??= this.#textOf(change);
        for (const socket of watchers.get(path) ?? []) {
          const texts = heard.get(socket);
          if (texts === undefined) heard.set(socket, [text]);
          else texts.push(text);
        }
      }
    }
    // Most watchers of one transaction hear the same; the text is made once.
    const messages = new Map<string, string>();
    for (const [socket, texts] of heard) {
      const key = texts.length === changes.length ? "all" : texts.join();
      const message = messages.get(key) ?? messageOf(sequence, texts);
      messages.set(key, message);
      send(socket, message);
    }
  }

  #loadWatchers(): Map<RegistryPath, Set<WebSocket>> {
    if (this.#watchers !== null) return this.#watchers;
    this.#watchers = new Map();
    for (const socket of this.#context.getWebSockets()) {
      const { path } = socket.deserializeAttachment() as Attachment;
      add(this.#watchers, path, socket);
    }
    return this.#watchers;
  }

  /** A record that has changed again since is shown as it is now: that change follows. */
  #textOf({ type, path, version }: StoredChange): string {
    const record = type === "bound" ? this.#tree.get(path)?.record : null;
    const change: RegistryChange = { type, path, version };
    return JSON.stringify(record ? { ...change, record: readStoredRecord(record) } : change);
  }
}

const SWITCHING_PROTOCOLS = 101;

function concernedPaths(
  watchers: ReadonlyMap<RegistryPath, unknown>,
  change: StoredChange,
): Iterable<RegistryPath> {
  if (change.type === "deleted") {
    return [...watchers.keys()].filter((path) => concerns(change, path));
  }
  return lineage(change.path).filter((path) => watchers.has(path));
}

function messageOf(sequence: number, changes: readonly string[]): string {
  return `{"sequence":${sequence},"changes":[${changes.join()}]}`;
}

function add(
  watchers: Map<RegistryPath, Set<WebSocket>>,
  path: RegistryPath,
  socket: WebSocket,
): void {
  const sockets = watchers.get(path);
  if (sockets === undefined) watchers.set(path, new Set([socket]));
  else sockets.add(socket);
}

/** A socket that is closing hears nothing more; its close event follows. */
function send(socket: WebSocket, message: string): void {
  try {
    socket.send(message);
  } catch (error) {
    console.warn(
      JSON.stringify({ event: "registry.watch", outcome: "failed", error: String(error) }),
    );
  }
}

/** The Worker knows it by its not being a socket. */
function failed(reply: Reply<unknown>): Response {
  return Response.json(reply);
}
