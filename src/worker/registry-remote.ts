/**
 * The registry of another deployment, read over its read-only REST for `/net` (registry-net.ts).
 * Whoever answers there is not trusted: the answer has a time, a size and a shape, and nothing of
 * the reader's request goes along but the question. When the other side fails, the last good answer
 * is given again, with its age.
 */
import * as z from "zod";
import { fail, ok, type Reply } from "../shared/errors.ts";
import { LIMITS } from "../shared/limits.ts";
import { STATUS, SUCCESS } from "./problem.ts";
import type { RegistryAnswer } from "./registry-answer.ts";
import type { RegistryReading } from "./registry-query.ts";

/** Sent along, so that a registry that is asked by another one asks no third. */
export const NET_HEADER = "Selvedge-Net";

/** A page of 4 million characters, and what JSON adds to it. */
const ANSWER_BYTES_MAX = 8_388_608;
const ANSWER_MAX_MS = 5_000;
/** As long as `selvedge dns` goes on telling what it knows (RFC 8767). */
const STALE_MAX_MS = 3_600_000;
/** Of one deployment in one isolate. */
const KEPT_ANSWERS_MAX = 512;
const KEPT_LENGTH_MAX = 4_194_304;

type View = RegistryReading["view"];
type Kept = { readonly document: object; readonly length: number; readonly atMs: number };

/** The clock in ms, and how long an answer may take. */
export type RemoteOptions = { readonly now?: () => number; readonly answerMaxMs?: number };

export class RemoteRegistry {
  readonly #base: string;
  readonly #now: () => number;
  readonly #answerMaxMs: number;
  readonly #kept = new Map<string, Kept>();
  #keptLength = 0;

  /** `url` is the other cluster's base URL, as its clients use it. */
  constructor(url: string, { now = Date.now, answerMaxMs = ANSWER_MAX_MS }: RemoteOptions = {}) {
    this.#base = `${url.replace(/\/+$/, "")}/registry/v1`;
    this.#now = now;
    this.#answerMaxMs = answerMaxMs;
  }

  /** `view` is the view that `query` asks for. */
  async read(view: View, path: string, query: URLSearchParams): Promise<Reply<RegistryAnswer>> {
    const question = `${path}?${query}`;
    const answer = await this.#ask(view, question);
    if (answer.ok) {
      this.#keep(question, answer.value);
      return ok({ document: answer.value.document, ageMs: null });
    }
    const { code } = answer.error;
    if (code === "NOT_FOUND" || code === "INVALID_ARGUMENT") {
      this.#drop(question);
      return answer;
    }
    const kept = this.#kept.get(question);
    const ageMs = kept === undefined ? Number.POSITIVE_INFINITY : this.#now() - kept.atMs;
    return kept !== undefined && ageMs <= STALE_MAX_MS
      ? ok({ document: kept.document, ageMs })
      : answer;
  }

  async #ask(view: View, question: string): Promise<Reply<Kept>> {
    const atMs = this.#now();
    let text: string | null;
    let status: number;
    try {
      const response = await fetch(this.#base + question, {
        headers: { accept: "application/json", [NET_HEADER]: "1" },
        redirect: "manual",
        signal: AbortSignal.timeout(this.#answerMaxMs),
      });
      status = response.status;
      text = await readBounded(response);
    } catch (error) {
      return this.#noAnswer(error);
    }
    if (text === null) return this.#strange(`its answer has more than ${ANSWER_BYTES_MAX} bytes`);
    const json = parseJson(text);
    if (status !== SUCCESS.OK) return this.#refusal(status, json);
    const document = DOCUMENTS[view].safeParse(json);
    if (!document.success) return this.#strange("its answer is not one of a registry");
    return ok({ document: document.data, length: text.length, atMs });
  }

  #noAnswer(error: unknown): Reply<never> {
    if (error instanceof Error && error.name === "TimeoutError") {
      const message = `it did not answer within ${this.#answerMaxMs / 1_000} s`;
      return fail("UNAVAILABLE", message, { reason: "RemoteRegistryTimeout", hint: TRY_AGAIN });
    }
    return this.#strange("it cannot be reached");
  }

  /** What the other registry says about the path or the question is for the reader to know. */
  #refusal(status: number, json: unknown): Reply<never> {
    const problem = problemSchema.safeParse(json);
    const isAnswer = status === STATUS.NOT_FOUND || status === STATUS.INVALID_ARGUMENT;
    if (!problem.success || !isAnswer) return this.#strange(`it answers with status ${status}`);
    const code = status === STATUS.NOT_FOUND ? "NOT_FOUND" : "INVALID_ARGUMENT";
    const { detail, ...more } = problem.data;
    return { ok: false, error: { code, message: detail, ...more } };
  }

  #strange(what: string): Reply<never> {
    const message = `its registry cannot be read: ${what}`;
    return fail("UNAVAILABLE", message, { reason: "RemoteRegistryFailed", hint: TRY_AGAIN });
  }

  #keep(question: string, kept: Kept): void {
    this.#drop(question);
    this.#kept.set(question, kept);
    this.#keptLength += kept.length;
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= KEPT_ANSWERS_MAX && this.#keptLength <= KEPT_LENGTH_MAX) return;
      this.#drop(oldest);
    }
  }

  #drop(question: string): void {
    this.#keptLength -= this.#kept.get(question)?.length ?? 0;
    this.#kept.delete(question);
  }
}

const TRY_AGAIN = "try again later; the deployment's variable SELVEDGE_NET says where it is";

/** Null for a body that is longer than it may be. */
async function readBounded(response: Response): Promise<string | null> {
  const reader = response.body?.getReader();
  if (reader === undefined) return "";
  const decoder = new TextDecoder();
  let text = "";
  for (let bytes = 0; ; ) {
    const { value, done } = await reader.read();
    if (done) return text + decoder.decode();
    bytes += value.length;
    if (bytes > ANSWER_BYTES_MAX) {
      await reader.cancel();
      return null;
    }
    text += decoder.decode(value, { stream: true });
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const pathSchema = z.string().startsWith("/").max(LIMITS.registryPathLengthMax);
/** Dates end there. */
const TIME_MS_MAX = 8.64e15;
const statSchema = z.object({
  path: z.string(),
  time: z.int().min(0).max(TIME_MS_MAX),
  size: z.int().min(0),
  children: z.int().min(0),
  version: z.int().min(0),
});
const endpointsSchema = z.array(
  z.looseObject({
    api: z.string(),
    addressType: z.string(),
    protocolType: z.string(),
    addresses: z.array(z.record(z.string(), z.string())),
  }),
);
const recordSchema = z.looseObject({
  type: z.literal("JSONServiceRecord"),
  description: z.string().optional(),
  external: endpointsSchema,
  internal: endpointsSchema,
});
const DOCUMENTS = {
  node: z.object({
    path: pathSchema,
    stat: statSchema,
    record: recordSchema.optional(),
    children: z.array(z.string()),
  }),
  list: z.object({
    path: pathSchema,
    children: z.array(statSchema.extend({ hasRecord: z.boolean() })),
    next: z.string().optional(),
  }),
  subtree: z.object({
    path: pathSchema,
    depth: z.int(),
    nodes: z.array(
      z.object({ path: pathSchema, stat: statSchema, record: recordSchema.optional() }),
    ),
    truncated: z.boolean(),
    next: z.string().optional(),
  }),
  find: z.object({
    matches: z.array(z.object({ path: pathSchema, record: recordSchema })),
    next: z.string().optional(),
  }),
} as const;

const problemSchema = z.object({
  type: z.string().startsWith("urn:selvedge:problem:"),
  detail: z.string(),
  reason: z.string().optional(),
  hint: z.string().optional(),
  findings: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
});
