/**
 * What the local cluster needs to know from wrangler.toml, so that these settings live in one place.
 * Loading wrangler only to parse the file would more than double the time until the Worker answers;
 * this reads just the lines that are needed, and test/architecture/wrangler-config.test.ts holds the
 * result against wrangler's own reading of the same file.
 */
import { readFileSync } from "node:fs";

export type WorkerSettings = {
  readonly name: string;
  readonly compatibilityDate: string;
  readonly compatibilityFlags: readonly string[];
  /** Class name by binding name; all of them keep their state in SQLite. */
  readonly durableObjects: Readonly<Record<string, string>>;
  /** Bucket name by binding name. */
  readonly r2Buckets: Readonly<Record<string, string>>;
};

const WRANGLER_TOML = new URL("../wrangler.toml", import.meta.url);

/** Throws, naming the setting, where wrangler.toml does not hold what is needed. */
export function readWorkerSettings(toml = readFileSync(WRANGLER_TOML, "utf8")): WorkerSettings {
  const bindings = tables(toml, "durable_objects.bindings").map(
    (body) => [text(body, "name"), text(body, "class_name")] as const,
  );
  return {
    name: text(toml, "name"),
    compatibilityDate: text(toml, "compatibility_date"),
    compatibilityFlags: [...line(toml, "compatibility_flags").matchAll(/"([^"]*)"/g)].map(
      ([, flag]) => flag ?? "",
    ),
    durableObjects: Object.fromEntries(bindings),
    r2Buckets: Object.fromEntries(
      tables(toml, "r2_buckets").map((body) => [text(body, "binding"), text(body, "bucket_name")]),
    ),
  };
}

/** The bodies of every `[[name]]` table. */
function tables(toml: string, name: string): string[] {
  return toml
    .split(/^(?=\[)/m)
    .filter((part) => part.startsWith(`[[${name}]]`))
    .map((part) => part.slice(part.indexOf("\n")));
}

function text(toml: string, key: string): string {
  return line(toml, key).replace(/^"|"$/g, "");
}

function line(toml: string, key: string): string {
  const value = new RegExp(`^${key} *= *(.+)$`, "m").exec(toml)?.[1];
  if (value === undefined) throw new Error(`wrangler.toml has no line "${key} = …".`);
  return value.trim();
}
