/**
 * Reading a Yarnfile on the caller's side: JSON or YAML, told apart by content. What was written is
 * sent as it is, so that the cluster's findings speak of the caller's own lines; only options that
 * override a field change it, and then that field alone.
 */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { parseDocument } from "yaml";
import { TextBody } from "../client/http.ts";
import { LIMITS } from "../shared/limits.ts";
import type { UpgradeMode } from "../shared/protocol/service.ts";
import { parseYaml } from "../shared/yaml.ts";
import { type CliError, cliError } from "./errors.ts";
import { EXIT_CODE } from "./exit-codes.ts";
import { type Io, readStdin } from "./io.ts";

/** Top-level fields of the Yarnfile that options may set. */
export type YarnfileOverrides = {
  readonly name?: string | undefined;
  /** Seconds. */
  readonly lifetime?: number | undefined;
  readonly queue?: string | undefined;
  readonly state?: "STOPPED" | UpgradeMode | undefined;
};

export type Yarnfile = {
  readonly body: TextBody;
  /** Undefined when the file names none; the cluster then says so. */
  readonly name: string | undefined;
};

/** `file` is relative to the working directory; `-` is standard input. */
export async function readYarnfile(
  file: string,
  overrides: YarnfileOverrides,
  io: Io,
): Promise<Yarnfile> {
  const shown = file === "-" ? "standard input" : file;
  const text = file === "-" ? await readStdin(io) : readText(file, io);
  if (text.trim() === "") throw invalid(`${shown} is empty`);
  if (Buffer.byteLength(text) > LIMITS.requestBodyBytesMax) {
    throw invalid(`${shown} is larger than a Yarnfile may be, ${LIMITS.requestBodyBytesMax} bytes`);
  }
  const changes = Object.entries(overrides).filter(([, value]) => value !== undefined);
  const json = parseJsonObject(text);
  if (json !== undefined) {
    const changed = { ...json, ...Object.fromEntries(changes) };
    const sent = changes.length === 0 ? text : JSON.stringify(changed, null, 2);
    return describe(new TextBody("application/json", sent), changed);
  }
  const fields = { ...parseYamlObject(text, shown), ...Object.fromEntries(changes) };
  const sent = changes.length === 0 ? text : editYaml(text, changes);
  return describe(new TextBody("application/yaml", sent), fields);
}

function describe(body: TextBody, fields: Readonly<Record<string, unknown>>): Yarnfile {
  const { name } = fields;
  return { body, name: typeof name === "string" ? name : undefined };
}

function readText(file: string, io: Io): string {
  try {
    return readFileSync(resolve(io.cwd, file), "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why: Readonly<Record<string, string>> = {
      ENOENT: "there is no such file",
      EISDIR: "it is a directory",
      EACCES: "reading it is not allowed",
    };
    throw cliError(
      code === "ENOENT" ? EXIT_CODE.NOT_FOUND : EXIT_CODE.INVALID_ARGUMENT,
      code === "ENOENT" ? "NOT_FOUND" : "INVALID_ARGUMENT",
      `cannot read ${file}: ${why[code ?? ""] ?? code ?? "unknown error"}`,
      "a Yarnfile is a JSON or YAML file; `-` reads it from standard input",
    );
  }
}

function parseJsonObject(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Readonly<Record<string, unknown>>)
      : undefined;
  } catch {
    return undefined;
  }
}

function parseYamlObject(text: string, shown: string): Readonly<Record<string, unknown>> {
  const parsed = parseYaml(text);
  if (!parsed.ok) throw invalid(`${shown} is neither JSON nor YAML: ${parsed.error.message}`);
  const { value } = parsed;
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw invalid(`${shown} is not a Yarnfile: an object with a name and components is expected`);
  }
  return value as Readonly<Record<string, unknown>>;
}

/** Sets top-level fields and leaves all else, comments included, as it was written. */
function editYaml(text: string, changes: readonly (readonly [string, unknown])[]): string {
  const document = parseDocument(text);
  for (const [field, value] of changes) document.set(field, value);
  return document.toString();
}

function invalid(message: string): CliError {
  return cliError(EXIT_CODE.INVALID_ARGUMENT, "INVALID_ARGUMENT", message);
}
