/**
 * Asks a running container whether it is ready, by HTTP or by a TCP connection: often at first, so
 * that a quick start is seen quickly, then every `intervalMs`. Tells only when the answer flips,
 * and once why the first one was no.
 */
import { once } from "node:events";
import { connect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import type { ReadinessCheck } from "../shared/container.ts";
import { messageOf } from "./log.ts";

/** Delay before the second probe; doubled until the container is ready or `intervalMs` is met. */
const FIRST_DELAY_MS = 25;
const REASON_LENGTH_MAX = 500;

export type Readiness = { readonly ready: boolean; readonly readiness?: string };

export class ReadinessProber {
  readonly #check: ReadinessCheck;
  readonly #host: string;
  readonly #changed: (readiness: Readiness) => void;
  readonly #stopped = new AbortController();
  #last: Readiness | undefined;

  /** `host` is where PORT connects to; the check's tokens are resolved. */
  constructor(check: ReadinessCheck, host: string, changed: (readiness: Readiness) => void) {
    this.#check = check;
    this.#host = host;
    this.#changed = changed;
  }

  /** Begins to probe. Resolves after the first answer, or when stopped. */
  start(): Promise<void> {
    return new Promise((resolve) => void this.#run(resolve));
  }

  stop(): void {
    this.#stopped.abort();
  }

  async #run(firstAnswered: () => void): Promise<void> {
    const { intervalMs } = this.#check;
    const { signal } = this.#stopped;
    let delayMs = Math.min(FIRST_DELAY_MS, intervalMs);
    while (!signal.aborted) {
      const readiness = await probe(this.#check, this.#host, signal);
      if (!signal.aborted) this.#tell(readiness);
      firstAnswered();
      if (signal.aborted) return;
      const pauseMs = readiness.ready ? intervalMs : delayMs;
      await delay(pauseMs, undefined, { signal }).catch(() => undefined);
      delayMs = readiness.ready ? intervalMs : Math.min(delayMs * 2, intervalMs);
    }
    firstAnswered();
  }

  #tell(readiness: Readiness): void {
    if (this.#last?.ready === readiness.ready) return;
    this.#last = readiness;
    this.#changed(readiness);
  }
}

/** One probe. Never rejects. */
export async function probe(
  check: ReadinessCheck,
  host: string,
  stopped: AbortSignal,
): Promise<Readiness> {
  if (check.type === "DEFAULT") return { ready: true };
  const what =
    check.type === "HTTP" ? `HTTP GET ${check.url ?? ""}` : `TCP ${host}:${check.port ?? ""}`;
  const signal = AbortSignal.any([AbortSignal.timeout(check.timeoutMs), stopped]);
  try {
    if (check.type === "HTTP") return await probeHttp(check, what, signal);
    await probePort(Number(check.port), host, signal);
    return { ready: true };
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    const timedOut = signal.aborted ? `no answer within ${check.timeoutMs} ms` : messageOf(cause);
    return { ready: false, readiness: `${what}: ${timedOut}`.slice(0, REASON_LENGTH_MAX) };
  }
}

async function probeHttp(
  check: ReadinessCheck,
  what: string,
  signal: AbortSignal,
): Promise<Readiness> {
  const response = await fetch(check.url ?? "", { redirect: "follow", signal });
  await response.body?.cancel();
  const { status } = response;
  if (status >= check.minSuccess && status <= check.maxSuccess) return { ready: true };
  return { ready: false, readiness: `${what} answered ${status}`.slice(0, REASON_LENGTH_MAX) };
}

async function probePort(port: number, host: string, signal: AbortSignal): Promise<void> {
  const socket = connect({ port, host });
  try {
    await once(socket, "connect", { signal });
  } finally {
    socket.destroy();
  }
}
