/**
 * A small directory of the registry as its callers may expect it: paths with a record or without
 * one, and versions that only rise. A part is one directory: a list and a transaction see several
 * of its paths at once, nothing sees two directories.
 */
import type { Model } from "./history.ts";

export type Condition = number | "absent" | null;

/** One change of a path; `value` is written nowhere else, null deletes the path. */
export type Change = {
  readonly name: string;
  readonly value: string | null;
  /** Only in place of the record with this version, or of none. */
  readonly condition: Condition;
};

export type RegistryInput = { readonly directory: string } & (
  | { readonly op: "read"; readonly name: string }
  | { readonly op: "list" }
  /** One change is a bind or a delete, several are a transaction. */
  | { readonly op: "write"; readonly changes: readonly Change[] }
);

export type Seen = { readonly value: string; readonly version: number };
export type RegistryOutput =
  | { readonly kind: "record"; readonly record: Seen | null }
  /** Name → version. */
  | { readonly kind: "names"; readonly versions: Readonly<Record<string, number>> }
  /** The version of each bind; whether each deleted path was there. */
  | { readonly kind: "done"; readonly results: readonly (number | boolean)[] }
  /** A condition was not met, and nothing was written. */
  | { readonly kind: "mismatch" };

/** `version` null: nobody was told, and it is above `above`. */
type Node = { readonly value: string; readonly version: number | null; readonly above: number };
export type Directory = {
  readonly nodes: ReadonlyMap<string, Node>;
  /** The highest version that anybody was told. */
  readonly newest: number;
};

export const REGISTRY: Model<Directory, RegistryInput, RegistryOutput> = {
  initial: { nodes: new Map(), newest: 0 },
  step(state, input, output) {
    switch (input.op) {
      case "read":
        return output === null ? state : afterRead(state, input.name, output);
      case "list":
        return output === null ? state : afterList(state, output);
      case "write":
        return afterWrite(state, input.changes, output);
    }
  },
  keyOf({ nodes, newest }) {
    const sorted = [...nodes].sort(([a], [b]) => (a < b ? -1 : 1));
    const texts = sorted.map(([name, { value, version, above }]) =>
      [name, value, version ?? `>${above}`].join(),
    );
    return `${texts.join(";")} ${newest}`;
  },
  partOf: ({ directory }) => directory,
  isReading: ({ op }, output) => op !== "write" || output?.kind === "mismatch",
  describe: (input, output) => `${describeInput(input)} → ${describeOutput(output)}`,
  describeState({ nodes }) {
    const texts = [...nodes].map(([name, node]) => `${name}=${describeSeen(node)}`);
    return texts.length === 0 ? "an empty directory" : texts.join(", ");
  },
};

function afterRead(state: Directory, name: string, output: RegistryOutput): Directory | null {
  if (output.kind !== "record") return null;
  const node = state.nodes.get(name);
  if (output.record === null || node === undefined) {
    return output.record === null && node === undefined ? state : null;
  }
  return node.value === output.record.value ? told(state, name, output.record.version) : null;
}

function afterList(state: Directory, output: RegistryOutput): Directory | null {
  if (output.kind !== "names") return null;
  const seen = Object.entries(output.versions);
  if (seen.length !== state.nodes.size) return null;
  let next: Directory | null = state;
  for (const [name, version] of seen) {
    next = next === null ? null : told(next, name, version);
  }
  return next;
}

function afterWrite(
  state: Directory,
  changes: readonly Change[],
  output: RegistryOutput | null,
): Directory | null {
  if (output?.kind === "mismatch") {
    // A version that nobody was told may be another one than that which was asked for.
    return changes.some(({ name, condition }) => isMet(state, name, condition) !== true)
      ? state
      : null;
  }
  if (output !== null && output.kind !== "done") return null;
  let next: Directory | null = state;
  for (const [at, change] of changes.entries()) {
    const result = output?.results[at];
    next = next === null ? null : afterChange(next, change, result);
  }
  return next;
}

function afterChange(
  state: Directory,
  { name, value, condition }: Change,
  result: number | boolean | undefined,
): Directory | null {
  if (isMet(state, name, condition) === false) return null;
  const nodes = new Map(state.nodes);
  if (value === null) {
    if (result !== undefined && result !== nodes.has(name)) return null;
    nodes.delete(name);
    return { ...state, nodes };
  }
  const met = typeof condition === "number" ? told(state, name, condition) : state;
  if (met === null || typeof result === "boolean") return null;
  if (result !== undefined && result <= met.newest) return null;
  nodes.set(name, { value, version: result ?? null, above: met.newest });
  return { nodes, newest: result ?? met.newest };
}

/** Null: it depends on a version that nobody was told. */
function isMet({ nodes }: Directory, name: string, condition: Condition): boolean | null {
  const node = nodes.get(name);
  if (condition === null) return true;
  if (condition === "absent" || node === undefined) {
    return (condition === "absent") === (node === undefined);
  }
  if (node.version !== null) return node.version === condition;
  return condition > node.above ? null : false;
}

/** The path has this version: it had, or it can have, and everybody knows from now on. */
function told(state: Directory, name: string, version: number): Directory | null {
  const node = state.nodes.get(name);
  if (node === undefined) return null;
  if (node.version !== null) return node.version === version ? state : null;
  if (version <= node.above) return null;
  const nodes = new Map(state.nodes).set(name, { ...node, version });
  return { nodes, newest: Math.max(state.newest, version) };
}

function describeInput(input: RegistryInput): string {
  if (input.op === "list") return "list";
  if (input.op === "read") return `read ${input.name}`;
  const texts = input.changes.map(({ name, value, condition }) => {
    const where = condition === null ? "" : ` if ${condition}`;
    return value === null ? `delete ${name}${where}` : `bind ${name}=${value}${where}`;
  });
  return texts.join(" and ");
}

function describeOutput(output: RegistryOutput | null): string {
  switch (output?.kind) {
    case undefined:
      return "no answer";
    case "record":
      return output.record === null ? "nothing" : describeSeen(output.record);
    case "names":
      return JSON.stringify(output.versions);
    case "done":
      return output.results.join(", ");
    case "mismatch":
      return "condition not met";
  }
}

function describeSeen({ value, version }: { value: string; version: number | null }): string {
  return `${value} (version ${version ?? "not known"})`;
}
