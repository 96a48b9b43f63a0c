/**
 * Watching the registry from a program: the event stream of `?watch`, opened again wherever it
 * breaks, from the last event that was heard.
 */
import type { RegistryChangeType } from "../shared/protocol/registry-reader.ts";
import type { ServiceRecordDocument } from "../shared/registry.ts";
import { clusterUrl, type HttpOptions, pause } from "./http.ts";
import { failureOfBody, ProblemError } from "./problem-error.ts";
import { registryUrlPath } from "./registry.ts";

export type RegistryEvent =
  | {
      readonly type: RegistryChangeType;
      readonly path: string;
      /** Of the record; 0 for every other change. */
      readonly version: number;
      /** Of `bound`. */
      readonly record?: ServiceRecordDocument;
    }
  /** From here on nothing is missed: read now what is wanted, and then follow the events. */
  | { readonly type: "ready" }
  /** Events were lost: read again. */
  | { readonly type: "reset" };

/** Between two attempts to connect; doubled with each that fails, up to the second. */
const RETRY_MS = 500;
const RETRY_MS_MAX = 15_000;
/** The cluster says something every 20 s. */
const SILENCE_MS_MAX = 60_000;

/**
 * Events at the path and below it, until `options.signal` is aborted. Throws a `ProblemError` when
 * the cluster refuses; a cluster that cannot be reached is tried again. `ready` comes first, and
 * again after each break, behind the events that were missed.
 */
export async function* watchRegistry(
  options: HttpOptions,
  path: string,
): AsyncGenerator<RegistryEvent, void, undefined> {
  const url = `${clusterUrl(options.url, options.cluster)}${registryUrlPath(path)}?watch`;
  let lastEventId = "";
  for (let failures = 0; ; failures++) {
    try {
      for await (const { id, event, data } of connect(options, url, lastEventId)) {
        failures = 0;
        if (id !== undefined) lastEventId = id;
        yield { ...(JSON.parse(data) as object), type: event } as RegistryEvent;
      }
    } catch (error) {
      options.signal?.throwIfAborted();
      if (error instanceof ProblemError && !isPassing(error)) throw error;
    }
    const delayMs = Math.min(RETRY_MS_MAX, RETRY_MS * 2 ** Math.min(failures, 10));
    await pause(delayMs * (0.5 + Math.random()), options.signal);
  }
}

type StreamEvent = {
  readonly id: string | undefined;
  readonly event: string;
  readonly data: string;
};

async function* connect(
  options: HttpOptions,
  url: string,
  lastEventId: string,
): AsyncGenerator<StreamEvent, void, undefined> {
  const headers: Record<string, string> = { accept: "text/event-stream" };
  if (options.token !== undefined) headers["authorization"] = `Bearer ${options.token}`;
  if (lastEventId !== "") headers["last-event-id"] = lastEventId;
  const silence = new AbortController();
  const signals = [silence.signal, ...(options.signal ? [options.signal] : [])];
  const watchdog = () => setTimeout(() => silence.abort(new Error("silent")), SILENCE_MS_MAX);
  let timer = watchdog();
  try {
    const signal = AbortSignal.any(signals);
    const request = { headers, redirect: "manual", signal } as const;
    const response = await (options.fetch ?? fetch)(url, request);
    if (!response.ok || response.body === null) throw await refusal(response);
    let text = "";
    for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
      clearTimeout(timer);
      timer = watchdog();
      const blocks = (text + chunk).split("\n\n");
      text = blocks.pop() ?? "";
      for (const block of blocks) {
        const event = parseEvent(block);
        if (event !== null) yield event;
      }
    }
  } finally {
    clearTimeout(timer);
    silence.abort();
  }
}

/** The subset of the format that the cluster writes: one line of data; comments are no events. */
function parseEvent(block: string): StreamEvent | null {
  const fields = new Map(
    block.split("\n").map((line): [string, string] => {
      const at = line.indexOf(": ");
      return [line.slice(0, at), line.slice(at + 2)];
    }),
  );
  const data = fields.get("data");
  if (data === undefined) return null;
  return { id: fields.get("id"), event: fields.get("event") ?? "message", data };
}

async function refusal(response: Response): Promise<ProblemError> {
  const body: unknown = await response.json().catch(() => ({}));
  return new ProblemError(failureOfBody(body, response.status), {
    origin: "answer",
    status: response.status,
    requestId: response.headers.get("x-request-id"),
  });
}

function isPassing({ failure }: ProblemError): boolean {
  return ["UNAVAILABLE", "RESOURCE_EXHAUSTED", "INTERNAL"].includes(failure.code);
}
