/**
 * The file of contexts: names for clusters, each with its URL and the token stored for it. It
 * holds secrets: readable by its owner only, written whole or not at all.
 */
import { chmodSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import * as z from "zod";
import { didYouMean } from "../shared/did-you-mean.ts";
import { cliError } from "./errors.ts";
import { EXIT_CODE } from "./exit-codes.ts";
import type { Io } from "./io.ts";

const contextSchema = z.strictObject({
  url: z.string(),
  cluster: z.string().optional(),
  /** Whose services are meant when no --user says otherwise. */
  user: z.string().optional(),
  token: z.string().optional(),
});
export type Context = z.infer<typeof contextSchema>;

const contextsSchema = z.strictObject({
  current: z.string().nullable(),
  contexts: z.record(z.string(), contextSchema),
});
export type Contexts = z.infer<typeof contextsSchema>;

const CONTEXT_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;

export function isContextName(text: string): boolean {
  return CONTEXT_NAME.test(text);
}

export function contextsFile(io: Io): string {
  const config = io.env["XDG_CONFIG_HOME"] || join(io.env["HOME"] || homedir(), ".config");
  return join(config, "selvedge", "contexts.json");
}

/** A missing file is a file without contexts; a damaged one is an error, never overwritten. */
export function readContexts(io: Io): Contexts {
  const file = contextsFile(io);
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return { current: null, contexts: {} };
    throw error;
  }
  const parsed = contextsSchema.safeParse(parseJson(text));
  if (parsed.success) return parsed.data;
  throw cliError(
    EXIT_CODE.INVALID_ARGUMENT,
    "INVALID_ARGUMENT",
    `${file} is not a file of contexts`,
    "mend it or remove it; `selvedge login` makes a new one",
  );
}

export function writeContexts(contexts: Contexts, io: Io): void {
  const file = contextsFile(io);
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const written = `${file}.${process.pid}`;
  writeFileSync(written, `${JSON.stringify(contexts, null, 2)}\n`, { mode: 0o600 });
  chmodSync(written, 0o600);
  renameSync(written, file);
}

/** The context of that name, or an error that names the nearest. */
export function getContext(contexts: Contexts, name: string): Context {
  const context = Object.hasOwn(contexts.contexts, name) ? contexts.contexts[name] : undefined;
  if (context !== undefined) return context;
  const near = didYouMean(name, Object.keys(contexts.contexts));
  throw cliError(
    EXIT_CODE.NOT_FOUND,
    "NOT_FOUND",
    `there is no context named ${JSON.stringify(name)}`,
    near === undefined ? "`selvedge context list` shows them all" : `did you mean ${near}?`,
  );
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
