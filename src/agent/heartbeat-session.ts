/**
 * The HTTP fallback: `POST {url}/ws/v1/node/heartbeat` carries the agent's messages up and brings
 * the tracker's down, often while containers change, rarely while they do not. The first one
 * registers. Any failure ends the session, and the next session registers again.
 */
import type { AgentMessage } from "../shared/protocol/resource-tracker.ts";
import { messageOf } from "./log.ts";
import type { UpdaterTimings } from "./node-status-updater.ts";
import { heartbeatResponseSchema } from "./tracker-messages.ts";
import type { SessionOptions } from "./tracker-socket.ts";

const MESSAGES_MAX = 64;
const POST_TIMEOUT_MS = 10_000;
/** Quiet heartbeats before they become rare: what has just ended is often replaced a moment later. */
const QUIET_HEARTBEATS = 3;

/** `time`: it worked until it was time to try the socket again. */
export type HeartbeatEnd = "time" | "failed";

export class HeartbeatSession {
  readonly #options: SessionOptions;
  readonly #timings: UpdaterTimings;
  readonly #closed = new AbortController();
  readonly #outbox: AgentMessage[] = [];
  #wake: () => void = () => undefined;

  constructor(options: SessionOptions, timings: UpdaterTimings) {
    this.#options = options;
    this.#timings = timings;
  }

  /** Goes up with the next heartbeat, which comes soon. */
  send(message: AgentMessage): void {
    this.#outbox.push(message);
    this.#wake();
  }

  async run(): Promise<HeartbeatEnd> {
    const { node, log, url } = this.#options;
    const timings = this.#timings;
    const closed = this.#closed.signal;
    const untilMs = Date.now() + timings.socketRetryMs;
    let messages: AgentMessage[] = [node.registration()];
    let quiet = 0;
    for (let isFirst = true; !closed.aborted; isFirst = false) {
      if (!(await this.#post(messages))) return "failed";
      if (isFirst) log({ event: "connection.up", outcome: "ok", url, by: "heartbeat" });
      await this.#pause(timings.heartbeatBusyMs);
      quiet = this.#outbox.length || node.isBusy() ? 0 : quiet + 1;
      if (quiet >= QUIET_HEARTBEATS)
        await this.#pause(timings.heartbeatIdleMs - timings.heartbeatBusyMs, true);
      if (Date.now() >= untilMs) break;
      messages = this.#outbox.splice(0, MESSAGES_MAX);
    }
    return "time";
  }

  /** Says `last` and ends the session. */
  async finish(last: AgentMessage | undefined): Promise<void> {
    this.#closed.abort();
    if (last) await this.#post([...this.#outbox.splice(0, MESSAGES_MAX - 1), last]);
  }

  /** One heartbeat; false when it failed. */
  async #post(messages: readonly AgentMessage[]): Promise<boolean> {
    const { url, credential, connection, node, log } = this.#options;
    try {
      const response = await fetch(`${url}/ws/v1/node/heartbeat`, {
        method: "POST",
        headers: { authorization: `Bearer ${credential}`, "content-type": "application/json" },
        body: JSON.stringify({ messages }),
        signal: AbortSignal.timeout(POST_TIMEOUT_MS),
      });
      if (!response.ok) {
        await response.body?.cancel();
        throw new Error(`the tracker answered ${response.status}`);
      }
      const body = heartbeatResponseSchema.parse(await response.json());
      for (const message of body.messages) node.receive(message, connection);
      return true;
    } catch (error) {
      log({ event: "connection.heartbeat", outcome: messageOf(error), url });
      return false;
    }
  }

  /** `isWoken`: a message to send ends it early. Closing always does. */
  #pause(durationMs: number, isWoken = false): Promise<void> {
    const closed = this.#closed.signal;
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        closed.removeEventListener("abort", done);
        this.#wake = () => undefined;
        resolve();
      };
      const timer = setTimeout(done, Math.max(0, durationMs));
      closed.addEventListener("abort", done);
      if (isWoken) this.#wake = done;
      if (closed.aborted) done();
    });
  }
}
