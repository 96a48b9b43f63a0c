/**
 * Records as agents up to 0.1 kept them, a file for each: `{directory}/{name}.json`. They are read
 * when an agent starts, and removed as soon as they are in its journal (durable-records.ts).
 */
import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { codeOf } from "./log.ts";

const EXTENSION = ".json";
const UNFINISHED = ".json.tmp";
/** No record of the agent's. */
const FORMAT_FILE = "format.json";

/** What was kept, by name; undefined for what is no JSON. */
export async function readFormerFiles(directory: string): Promise<Map<string, unknown>> {
  const records = new Map<string, unknown>();
  for (const name of await formerFiles(directory)) {
    if (!name.endsWith(EXTENSION)) continue;
    const text = await readFile(join(directory, name), "utf8");
    records.set(name.slice(0, -EXTENSION.length), parse(text));
  }
  return records;
}

/** What was half-written goes, too. */
export async function removeFormerFiles(directory: string): Promise<void> {
  for (const name of await formerFiles(directory)) await rm(join(directory, name), { force: true });
}

/** The format that the directory's records have; undefined: that of agents up to 0.1. */
export async function readFormat(directory: string): Promise<number | undefined> {
  try {
    return JSON.parse(await readFile(join(directory, FORMAT_FILE), "utf8")).format;
  } catch (error) {
    if (codeOf(error) === "ENOENT" || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** An agent up to 0.1 takes it for the record of a later one, and does not start. */
export async function writeFormat(directory: string, format: number): Promise<void> {
  await writeFile(join(directory, FORMAT_FILE), JSON.stringify({ format }), { mode: 0o600 });
}

async function formerFiles(directory: string): Promise<string[]> {
  const names = await readdir(directory);
  return names.filter(
    (name) => name !== FORMAT_FILE && (name.endsWith(EXTENSION) || name.endsWith(UNFINISHED)),
  );
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
