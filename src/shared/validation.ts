/**
 * From a zod schema's issues to sentences for people: every finding at once, each with the path of
 * its field as one would write it (`components[0].resource.cpus`) and what would be right.
 *
 * `validate` never throws, whatever the input; what it accepts holds no `__proto__` key, so that
 * its values may be copied into other objects safely.
 */
import * as z from "zod";
import { didYouMeanClause } from "./did-you-mean.ts";
import { type Finding, fail, ok, type Reply } from "./errors.ts";

/** A body of garbage is answered with a page, not with a book; the message counts the rest. */
const FINDINGS_MAX = 100;
const SHOWN_TEXT_LENGTH_MAX = 60;

/** Parses `input` by `schema`; fails with INVALID_ARGUMENT and all findings otherwise. */
export function validate<Schema extends z.ZodType>(
  schema: Schema,
  input: unknown,
): Reply<z.output<Schema>> {
  const unsafe = findUnsafeKey(input);
  if (unsafe) return invalid([unsafe]);
  const parsed = schema.safeParse(input, { error: describeIssue, reportInput: true });
  if (parsed.success) return ok(parsed.data);
  const findings: Finding[] = [];
  for (const issue of parsed.error.issues) addFindings(findings, schema, issue);
  return invalid(findings);
}

/** The reply for one or more findings: INVALID_ARGUMENT, the first of them as its message. */
export function invalid(findings: readonly Finding[]): Reply<never> {
  const [first, ...others] = findings;
  const sentence = first === undefined ? "invalid" : describeFinding(first);
  const plural = others.length === 1 ? "" : "s";
  const more = others.length === 0 ? "" : ` (and ${others.length} more finding${plural})`;
  return fail("INVALID_ARGUMENT", `${sentence}${more}`, {
    findings: findings.slice(0, FINDINGS_MAX),
  });
}

function describeFinding({ path, message }: Finding): string {
  return path === "" ? message : `${path}: ${message}`;
}

/** `components[0].configuration.env["a.b"]`: names that could be misread are quoted. */
export function formatPath(path: readonly PropertyKey[]): string {
  return path.reduce<string>((before, key) => {
    if (typeof key === "number") return `${before}[${key}]`;
    const name = String(key);
    if (!/^[A-Za-z_][\w-]*$/.test(name)) return `${before}[${quote(name)}]`;
    return before === "" ? name : `${before}.${name}`;
  }, "");
}

/** Text for a message, cut so that a message never carries kilobytes of input. */
export function quote(text: string): string {
  const shown =
    text.length > SHOWN_TEXT_LENGTH_MAX ? `${text.slice(0, SHOWN_TEXT_LENGTH_MAX)}…` : text;
  return JSON.stringify(shown);
}

/** "a list", "an object", "12", "null", `"text"`: how a message names a value of the input. */
export function describeValue(value: unknown): string {
  if (typeof value === "string") return quote(value);
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object" && value !== null) return "an object";
  return String(value);
}

/** Whether a value says nothing: null, "", false, [], {} and objects of only such values. */
export function isEmptyValue(value: unknown): boolean {
  if (value === undefined || value === null || value === "" || value === false) return true;
  if (Array.isArray(value)) return value.length === 0;
  return typeof value === "object" && Object.values(value).every(isEmptyValue);
}

/** "is missing" or "expects …, not …": the sentence about a value of a wrong kind. */
export function expects(what: string): (issue: { readonly input?: unknown }) => string {
  return ({ input }) => (input === undefined ? `is missing: expects ${what}` : wrong(what, input));
}

function wrong(what: string, input: unknown): string {
  return `expects ${what}, not ${describeValue(input)}`;
}

const KINDS: Readonly<Record<string, string>> = {
  string: "text",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "a list (in [ ], or each entry on a line with - in front)",
  object: "an object",
  record: "an object of names and values",
};

const describeIssue: z.core.$ZodErrorMap = (issue) => {
  if (issue.code === "invalid_type") {
    return expects(KINDS[issue.expected] ?? issue.expected)(issue);
  }
  if (issue.code === "invalid_value") {
    const values = issue.values.map(String);
    const guess = typeof issue.input === "string" ? didYouMeanClause(issue.input, values) : "";
    return `${expects(`one of ${values.join(", ")}`)(issue)}${guess}`;
  }
  return undefined;
};

/** An issue about unknown fields becomes one finding per field, at the field's own path. */
function addFindings(findings: Finding[], schema: z.ZodType, issue: z.core.$ZodIssue): void {
  if (issue.code !== "unrecognized_keys") {
    findings.push({ path: formatPath(issue.path), message: issue.message });
    return;
  }
  const known = fieldsAt(schema, issue.path);
  for (const key of issue.keys) {
    const path = formatPath([...issue.path, key]);
    const isShown = findings.length < FINDINGS_MAX;
    findings.push({ path, message: isShown ? describeUnknown(key, known) : "unknown field" });
  }
}

function describeUnknown(key: string, known: readonly string[]): string {
  const guess = didYouMeanClause(key, known);
  return `unknown field${guess === "" ? `; the fields here are ${known.join(", ")}` : guess}`;
}

/** The names of the fields which the schema knows at `path`. */
function fieldsAt(root: z.core.$ZodType, path: readonly PropertyKey[]): readonly string[] {
  let schema: z.core.$ZodType | undefined = bare(root);
  for (const key of path) {
    if (schema instanceof z.ZodArray) schema = bare(schema.element);
    else if (schema instanceof z.ZodRecord) schema = bare(schema.valueType);
    else if (schema instanceof z.ZodObject) schema = bare(schema.shape[String(key)]);
  }
  return schema instanceof z.ZodObject ? Object.keys(schema.shape) : [];
}

/** The schema without optional, nullable and transforming wrappers. */
function bare(schema: z.core.$ZodType): z.core.$ZodType {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable) {
    return bare(schema.unwrap());
  }
  return schema instanceof z.ZodPipe ? bare(schema.in) : schema;
}

type Place = { readonly key: PropertyKey; readonly inside: Place } | null;

/**
 * Copying a `__proto__` key with an assignment would change the copy's prototype. Walks without
 * recursion, since the depth of the input is not bounded here, and visits a shared value once.
 */
function findUnsafeKey(input: unknown): Finding | undefined {
  const seen = new Set<object>();
  const waiting: { readonly value: object; readonly place: Place }[] = [];
  if (typeof input === "object" && input !== null) waiting.push({ value: input, place: null });
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { value, place } = next;
    if (seen.has(value)) continue;
    seen.add(value);
    if (Object.hasOwn(value, "__proto__")) {
      const path = formatPath(pathOf({ key: "__proto__", inside: place }));
      return { path, message: "this name is not allowed" };
    }
    const isList = Array.isArray(value);
    for (const [key, child] of Object.entries(value)) {
      if (typeof child !== "object" || child === null) continue;
      waiting.push({ value: child, place: { key: isList ? Number(key) : key, inside: place } });
    }
  }
  return undefined;
}

function pathOf(place: Place): PropertyKey[] {
  const path: PropertyKey[] = [];
  for (let at = place; at !== null; at = at.inside) path.unshift(at.key);
  return path;
}
