/**
 * How every typed client speaks to a cluster: JSON over HTTP below one base URL, with a bearer
 * token. Failures become a `ProblemError` whose sentence a person can act on. Only GETs are ever
 * sent twice; a write that got no answer is for its caller to judge. The token goes to the base
 * URL and nowhere else: redirects are reported, not followed.
 */
import { codeOfStatus, failureOfBody, ProblemError } from "./problem-error.ts";

export interface Http {
  /**
   * Sends one request; `path` begins with `/` and is below the cluster's prefix. Answers the parsed
   * JSON, or undefined for an empty answer. A `TextBody` or bytes are sent as they are, anything
   * else as JSON.
   */
  request<T>(
    method: string,
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ): Promise<T>;
}

export type HttpOptions = {
  /** `https://cluster.example.com`, with or without a path. */
  readonly url: string;
  readonly token?: string | undefined;
  /** Name of a cluster; the API is then below `/clusters/{name}`. */
  readonly cluster?: string | undefined;
  readonly fetch?: typeof fetch | undefined;
  /** Ends whatever is under way; its reason is thrown as it is. */
  readonly signal?: AbortSignal | undefined;
  /** For an answer, in ms (60,000); Node.js itself waits 300,000. */
  readonly timeoutMs?: number | undefined;
  /** Pauses before a GET is sent again, in ms; as many as there may be repetitions. */
  readonly retryDelaysMs?: readonly number[] | undefined;
};

/** A body that is sent as written, so that line numbers in the answer are those of the file. */
export class TextBody {
  readonly contentType: string;
  readonly text: string;
  constructor(contentType: string, text: string) {
    this.contentType = contentType;
    this.text = text;
  }
}

/** Long polls answer within 20 s; whatever takes longer than this has no living peer. */
const REQUEST_TIMEOUT_MS = 60_000;
/** Together below a second: a restart of the control plane is over by then, a person still waits. */
const RETRY_DELAYS_MS = [100, 200, 400];

/** Throws a `ProblemError` at once when the URL is not one. */
export function createHttp(options: HttpOptions): Http {
  const base = clusterUrl(options.url, options.cluster);
  const delaysMs = options.retryDelaysMs ?? RETRY_DELAYS_MS;
  return {
    async request<T>(
      method: string,
      path: string,
      body?: unknown,
      headers: Readonly<Record<string, string>> = {},
    ): Promise<T> {
      for (let attempt = 0; ; attempt++) {
        try {
          return (await send(options, base, { method, path, body, headers })) as T;
        } catch (error) {
          const delayMs = delaysMs[attempt];
          if (method !== "GET" || delayMs === undefined || !mayPass(error)) throw error;
          await pause(delayMs * (0.5 + Math.random()), options.signal);
        }
      }
    },
  };
}

/** The base URL of a cluster's API, without a slash at its end. */
export function clusterUrl(url: string, cluster?: string): string {
  const invalid = (message: string) =>
    new ProblemError(
      {
        code: "INVALID_ARGUMENT",
        message,
        hint: "a cluster's URL looks like http://127.0.0.1:8088 or https://cluster.example.com",
      },
      { origin: "connection" },
    );
  const parsed = URL.canParse(url) ? new URL(url) : null;
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) {
    throw invalid(`${JSON.stringify(url)} is not an http or https URL`);
  }
  if (parsed.username !== "" || parsed.password !== "") {
    throw invalid(`the URL of ${parsed.host} holds a user name or a password`);
  }
  const base = parsed.origin + parsed.pathname.replace(/\/+$/, "");
  return cluster === undefined ? base : `${base}/clusters/${encodeURIComponent(cluster)}`;
}

type Request = {
  readonly method: string;
  readonly path: string;
  readonly body: unknown;
  readonly headers: Readonly<Record<string, string>>;
};

async function send(options: HttpOptions, base: string, request: Request): Promise<unknown> {
  const { method, path, body } = request;
  const headers: Record<string, string> = { ...request.headers, accept: "application/json" };
  if (options.token !== undefined) headers["authorization"] = `Bearer ${options.token}`;
  let payload: string | Uint8Array<ArrayBuffer> | null = null;
  if (body instanceof TextBody) {
    headers["content-type"] = body.contentType;
    payload = body.text;
  } else if (body instanceof Uint8Array) {
    headers["content-type"] = "application/octet-stream";
    payload = body as Uint8Array<ArrayBuffer>;
  } else if (body !== undefined) {
    headers["content-type"] = "application/json";
    payload = JSON.stringify(body);
  }
  const timeoutMs = options.timeoutMs ?? REQUEST_TIMEOUT_MS;
  const timeout = AbortSignal.timeout(timeoutMs);
  const signal = options.signal ? AbortSignal.any([options.signal, timeout]) : timeout;
  try {
    const response = await (options.fetch ?? fetch)(base + path, {
      method,
      headers,
      body: payload,
      redirect: "manual",
      signal,
    });
    return readAnswer(base, response, await response.text());
  } catch (error) {
    if (error instanceof ProblemError) throw error;
    options.signal?.throwIfAborted();
    throw connectionProblem(base, error, timeoutMs);
  }
}

function readAnswer(base: string, response: Response, text: string): unknown {
  const { status } = response;
  const requestId = response.headers.get("x-request-id") ?? response.headers.get("cf-ray");
  if (status >= 300 && status < 400) throw redirectProblem(base, response, requestId);
  let body: unknown;
  try {
    body = text === "" ? undefined : JSON.parse(text);
  } catch (cause) {
    throw strangerProblem(base, response, requestId, cause);
  }
  if (response.ok) return body;
  if (body === undefined) throw strangerProblem(base, response, requestId);
  throw new ProblemError(failureOfBody(body, status), { origin: "answer", status, requestId });
}

function redirectProblem(base: string, response: Response, requestId: string | null): ProblemError {
  const location = response.headers.get("location");
  return new ProblemError(
    {
      code: "INVALID_ARGUMENT",
      message: `${base} sends its callers elsewhere${location === null ? "" : `, to ${location}`}`,
      hint: "give the cluster's final URL with --url; a token is never carried along to another",
    },
    { origin: "not-a-cluster", status: response.status, requestId },
  );
}

function strangerProblem(
  base: string,
  response: Response,
  requestId: string | null,
  cause?: unknown,
): ProblemError {
  const type = response.headers.get("content-type")?.split(";")[0] ?? "no content type";
  return new ProblemError(
    {
      code: response.ok ? "INTERNAL" : codeOfStatus(response.status),
      message: `${base} does not answer as a cluster does (status ${response.status}, ${type})`,
      hint: "is the URL right? another program, or a proxy in between, may be answering there",
    },
    { origin: "not-a-cluster", status: response.status, requestId, cause },
  );
}

/** Why a cluster could not be asked. */
export function connectionProblem(base: string, error: unknown, timeoutMs: number): ProblemError {
  const { code, message } = rootCause(error);
  const problem = (text: string, hint: string) =>
    new ProblemError(
      { code: "UNAVAILABLE", message: text, hint, ...(code === undefined ? {} : { reason: code }) },
      { origin: "connection", cause: error },
    );
  if (/CERT|SSL|TLS|SELF_SIGNED|UNABLE_TO_/.test(code ?? "") || /wrong version/i.test(message)) {
    return problem(
      `cannot make a secure connection to ${base}: ${message}`,
      "check http against https; name a private authority's certificate in NODE_EXTRA_CA_CERTS",
    );
  }
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") {
    return problem(`cannot reach ${base}: the host name is not known`, "is the URL spelled right?");
  }
  if (error instanceof Error && error.name === "TimeoutError") {
    return problem(
      `${base} did not answer within ${timeoutMs / 1_000} s`,
      "look at the cluster's own log, or try again",
    );
  }
  if (code === "ECONNREFUSED") {
    return problem(
      `cannot reach ${base}: is the cluster running?`,
      "start one with `npm start`, or name another with --url or `selvedge context use`",
    );
  }
  return problem(`cannot reach ${base}: ${message}`, "is the cluster running, and its URL right?");
}

/** `fetch failed` says nothing; its innermost cause does. */
function rootCause(error: unknown): {
  readonly code: string | undefined;
  readonly message: string;
} {
  let innermost: unknown = error;
  let code: string | undefined;
  for (let depth = 0; depth < 5 && innermost instanceof Error; depth++) {
    const own = (innermost as { code?: unknown }).code;
    if (typeof own === "string") code = own;
    const next: unknown =
      innermost instanceof AggregateError ? innermost.errors[0] : innermost.cause;
    if (!(next instanceof Error)) break;
    innermost = next;
  }
  return { code, message: innermost instanceof Error ? innermost.message : String(innermost) };
}

/** Whether asking again may give another answer. */
function mayPass(error: unknown): boolean {
  return error instanceof ProblemError && error.failure.code === "UNAVAILABLE";
}

/** Waits; rejects with the signal's reason as soon as it is aborted. */
export function pause(delayMs: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, delayMs);
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}
