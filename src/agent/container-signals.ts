/**
 * signalToContainer: a signal reaches a process once and in time, or never. It cannot be made
 * good for, so nothing is kept of it when it fails, and an order that waited somewhere on its way
 * (a machine that slept) is refused when it arrives.
 */
import { fail, type Reply } from "../shared/errors.ts";
import type { ContainerId } from "../shared/ids.ts";
import type { NodeQuery, SignalContainerCommand } from "../shared/protocol/node-query.ts";
import type { ContainerSignal } from "./container-runtime.ts";

const SIGNALS = {
  OUTPUT_THREAD_DUMP: "SIGQUIT",
  GRACEFUL_SHUTDOWN: "SIGTERM",
  FORCEFUL_SHUTDOWN: "SIGKILL",
} as const satisfies Record<SignalContainerCommand, ContainerSignal>;

type SignalQuery = Extract<NodeQuery, { type: "signal" }>;
type Signalled = { signal(signal: ContainerSignal): Reply<undefined> };

export class ContainerSignals {
  readonly #find: (containerId: ContainerId) => Signalled | undefined;
  readonly #nowMs: () => number;
  /** What was answered, by request, until it would be refused as too late anyway. */
  readonly #answered = new Map<string, { expiresMs: number; reply: Reply<undefined> }>();

  constructor(find: (containerId: ContainerId) => Signalled | undefined, nowMs: () => number) {
    this.#find = find;
    this.#nowMs = nowMs;
  }

  /** NOT_FOUND: no such container. FAILED_PRECONDITION: too late, or it has no process. */
  send(requestId: string, { containerId, command, expiresMs }: SignalQuery): Reply<undefined> {
    const nowMs = this.#nowMs();
    for (const [id, answered] of this.#answered) {
      if (answered.expiresMs < nowMs) this.#answered.delete(id);
    }
    if (expiresMs < nowMs) {
      const message = `${command} for ${containerId} came ${nowMs - expiresMs} ms too late`;
      return fail("FAILED_PRECONDITION", message, {
        hint: "it was not sent; send it again, and if that is late too, look at the node's clock",
      });
    }
    const before = this.#answered.get(requestId);
    if (before) return before.reply;
    const reply =
      this.#find(containerId)?.signal(SIGNALS[command]) ??
      fail("NOT_FOUND", `${containerId} is not on this node`);
    this.#answered.set(requestId, { expiresMs, reply });
    return reply;
  }
}
