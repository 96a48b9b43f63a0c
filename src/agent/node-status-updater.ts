/**
 * NodeStatusUpdater: keeps the node in touch with its tracker. One WebSocket, opened again whenever
 * it breaks (exponential back-off with full jitter); where no socket passes, the same messages by
 * HTTP heartbeat until a socket passes again.
 *
 * Every connection begins with the full truth (`register`), so whatever is said while there is no
 * connection may be dropped.
 */
import { setTimeout as delay } from "node:timers/promises";
import type {
  AgentMessage,
  RegisterNodeManager,
  TrackerMessage,
} from "../shared/protocol/resource-tracker.ts";
import { type HeartbeatEnd, HeartbeatSession } from "./heartbeat-session.ts";
import type { Log } from "./log.ts";
import { type SessionOptions, type SocketEnd, TrackerSocket } from "./tracker-socket.ts";

export type UpdaterTimings = {
  readonly backoffMinMs: number;
  readonly backoffMaxMs: number;
  /** Failed sockets in a row before HTTP heartbeats are tried. */
  readonly socketAttemptsMax: number;
  /** How long heartbeats go on before the socket is tried again. */
  readonly socketRetryMs: number;
  readonly heartbeatBusyMs: number;
  readonly heartbeatIdleMs: number;
};
export const UPDATER_TIMINGS: UpdaterTimings = {
  backoffMinMs: 100,
  // Half a tracker's grace period: however long the tracker was away, nobody comes back too late.
  backoffMaxMs: 5_000,
  socketAttemptsMax: 5,
  socketRetryMs: 60_000,
  heartbeatBusyMs: 1_000,
  heartbeatIdleMs: 10_000,
};

/** A connection shorter than this does not make the next one come any sooner. */
const STABLE_CONNECTION_MS = 1_000;

/** The node as the updater needs it. */
export type NodeSide = {
  registration(): RegisterNodeManager;
  /** `connection` grows by one with every connection. */
  receive(message: TrackerMessage, connection: number): void;
  /** Containers are changing, so that heartbeats should come often. */
  isBusy(): boolean;
  /** The credential was refused; a new one, or undefined when there is none to be had. */
  renewCredential(): Promise<string | undefined>;
};

export class NodeStatusUpdater {
  readonly #url: string;
  #credential: string;
  readonly #node: NodeSide;
  readonly #log: Log;
  readonly #timings: UpdaterTimings;
  readonly #closed = new AbortController();
  #connection = 0;
  #session: TrackerSocket | HeartbeatSession | undefined;
  #finished: Promise<void> | undefined;

  /** `url` is the cluster's, with its path prefix if it has one. */
  constructor(
    url: string,
    credential: string,
    node: NodeSide,
    log: Log,
    timings: UpdaterTimings = UPDATER_TIMINGS,
  ) {
    this.#url = url.replace(/\/+$/, "");
    this.#credential = credential;
    this.#node = node;
    this.#log = log;
    this.#timings = timings;
  }

  start(): void {
    this.#finished = this.#run();
  }

  /** Dropped without a connection: the next `register` says it. */
  send(message: AgentMessage): void {
    this.#session?.send(message);
  }

  /** Says `last`, if there is a connection to say it on, and ends for good. */
  async close(last?: AgentMessage): Promise<void> {
    const session = this.#session;
    const finished = session?.finish(last);
    this.#closed.abort();
    await finished;
    await this.#finished;
  }

  async #run(): Promise<void> {
    const { signal } = this.#closed;
    let failures = 0;
    while (!signal.aborted) {
      const startedMs = Date.now();
      const end = await this.#connect();
      if (signal.aborted) return;
      const isStable = end === "registered" && Date.now() - startedMs >= STABLE_CONNECTION_MS;
      failures = isStable ? 0 : failures + 1;
      if (end === "refused") await this.#renewCredential();
      if (end === "failed" && failures >= this.#timings.socketAttemptsMax) {
        if ((await this.#heartbeat()) === "time") continue;
      }
      await this.#backOff(failures);
    }
  }

  async #connect(): Promise<SocketEnd> {
    const session = new TrackerSocket(this.#nextSession());
    this.#session = session;
    const end = await session.run();
    this.#session = undefined;
    return end;
  }

  async #heartbeat(): Promise<HeartbeatEnd> {
    const session = new HeartbeatSession(this.#nextSession(), this.#timings);
    this.#session = session;
    const end = await session.run();
    this.#session = undefined;
    return end;
  }

  #nextSession(): SessionOptions {
    return {
      url: this.#url,
      credential: this.#credential,
      connection: ++this.#connection,
      node: this.#node,
      log: this.#log,
    };
  }

  async #renewCredential(): Promise<void> {
    const renewed = await this.#node.renewCredential();
    if (renewed !== undefined) this.#credential = renewed;
  }

  /** Full jitter: a thousand agents that lost one tracker do not come back in one moment. */
  async #backOff(failures: number): Promise<void> {
    const { backoffMinMs, backoffMaxMs } = this.#timings;
    const { signal } = this.#closed;
    const limitMs = Math.min(backoffMaxMs, backoffMinMs * 2 ** Math.min(failures, 20));
    await delay(Math.random() * limitMs, undefined, { signal }).catch(() => undefined);
  }
}
