/**
 * YAML 1.2 text to plain JSON values, for request bodies and the files of the command line. The
 * caller bounds the text's size; here aliases are bounded too, so that a small text cannot stand
 * for a huge value. Only what JSON can say is accepted, with line and column where it is not.
 */
import { isScalar, LineCounter, parseDocument, visit } from "yaml";
import { fail, ok, type Reply } from "./errors.ts";
import { LIMITS } from "./limits.ts";
import type { JsonValue } from "./registry.ts";

/** Anchors save a person from repeating an `env` a few times; more are a program's or an attack. */
const ALIASES_MAX = 20;
/** A Yarnfile nests eight levels. Parsers take time that grows faster than the depth. */
const DEPTH_MAX = 100;
/** `- - - - …`: block sequences nested on one line. */
const NESTED_ON_ONE_LINE = new RegExp(`^ *(?:[-?] +){${DEPTH_MAX}}`, "m");
/** What the text may come to when its aliases are written out. */
const EXPANDED_LENGTH_MAX = 4 * LIMITS.requestBodyBytesMax;

/**
 * Fails with INVALID_ARGUMENT for syntax errors, duplicate keys, several documents, explicit types
 * (`!!binary`), keys that are no text or `__proto__`, and aliases beyond measure.
 *
 * A number that is not written the way JSON would write it stays the text it is: `version: 1.10` is
 * "1.10", and `number_of_containers: +2` is "+2".
 */
export function parseYaml(text: string): Reply<JsonValue> {
  if (text.length > LIMITS.yamlLengthMax) {
    return fail("INVALID_ARGUMENT", `YAML of more than ${LIMITS.yamlLengthMax} characters`, {
      hint: "send a definition of this size as JSON",
    });
  }
  if (isNestedTooDeep(text)) {
    return fail("INVALID_ARGUMENT", `not valid YAML: nested more than ${DEPTH_MAX} levels deep`);
  }
  const lines = new LineCounter();
  const document = parseDocument(text, {
    lineCounter: lines,
    prettyErrors: false,
    resolveKnownTags: false,
    stringKeys: true,
    uniqueKeys: true,
  });
  const refuse = (offset: number | undefined, problem: string): Reply<never> => {
    const { line, col } = lines.linePos(offset ?? 0);
    return fail("INVALID_ARGUMENT", `not valid YAML at line ${line}, column ${col}: ${problem}`);
  };
  const [problem] = [...document.errors, ...document.warnings];
  if (problem) return refuse(problem.pos[0], sentence(problem));

  const found: { refusal?: Reply<never>; aliases: number } = { aliases: 0 };
  visit(document, {
    Alias: (_, alias) => {
      found.aliases++;
      const isTooMany = found.aliases > ALIASES_MAX;
      if (!isTooMany && alias.resolve(document) !== undefined) return undefined;
      const problem = isTooMany
        ? `more than ${ALIASES_MAX} aliases (*name)`
        : `nothing above is called &${alias.source}`;
      found.refusal = refuse(alias.range?.[0], problem);
      return visit.BREAK;
    },
    Pair: (_, { key }) => {
      if (!isScalar(key) || key.value !== "__proto__") return undefined;
      found.refusal = refuse(key.range?.[0], "the key __proto__ is not allowed");
      return visit.BREAK;
    },
    Scalar: (_, scalar) => {
      if (typeof scalar.value !== "number" || scalar.source === undefined) return;
      if (JSON.stringify(scalar.value) !== scalar.source) scalar.value = scalar.source;
    },
  });
  if (found.refusal) return found.refusal;
  return expand(() => document.toJS({ maxAliasCount: ALIASES_MAX }));
}

/**
 * Whether a parser would have to go deep. Brackets inside quoted text count as well, which matters
 * to nobody: text with a hundred brackets that are never closed is no command.
 */
function isNestedTooDeep(text: string): boolean {
  let depth = 0;
  for (const [bracket] of text.matchAll(/[[\]{}]/g)) {
    depth = bracket === "[" || bracket === "{" ? depth + 1 : Math.max(0, depth - 1);
    if (depth > DEPTH_MAX) return true;
  }
  return NESTED_ON_ONE_LINE.test(text);
}

/** Writes the aliases out: the result is a tree that shares nothing and has no cycle. */
function expand(toValue: () => unknown): Reply<JsonValue> {
  let json: string;
  try {
    json = JSON.stringify(toValue());
  } catch {
    return fail(
      "INVALID_ARGUMENT",
      "not valid YAML: an alias (*name) stands for itself or too much",
    );
  }
  if (json.length > EXPANDED_LENGTH_MAX) {
    return fail("INVALID_ARGUMENT", "not valid YAML: its aliases stand for too much text");
  }
  return ok<JsonValue>(JSON.parse(json));
}

function sentence({ code, message }: { readonly code: string; readonly message: string }): string {
  if (code === "DUPLICATE_KEY") return "this key stands here twice";
  if (code === "MULTIPLE_DOCS") return "only one document is allowed (a second --- begins here)";
  if (code === "NON_STRING_KEY") return "a key must be text";
  if (code === "TAG_RESOLVE_FAILED") return `explicit types such as !!binary are not allowed`;
  return message;
}
