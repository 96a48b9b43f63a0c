/**
 * Reading the values of properties: text in, a typed value or what would have been right out. Every
 * mistake becomes a finding under the property's full name, and reading goes on with the default.
 */
import { didYouMeanClause } from "../../shared/did-you-mean.ts";
import type { Finding } from "../../shared/errors.ts";
import { quote } from "../../shared/validation.ts";

/** `expects` ends the sentence "expects …, not …". */
export type Parsed<Value> = { readonly value: Value } | { readonly expects: string };
export type ValueParser<Value> = (text: string) => Parsed<Value>;

/** The properties below one prefix. Names are given without it. */
export class PropertyGroup {
  readonly #prefix: string;
  readonly #values: ReadonlyMap<string, string>;
  readonly #findings: Finding[];
  readonly #under: PropertyGroup | undefined;

  /**
   * `prefix` ends with a dot, or is empty. Mistakes are added to `findings`. `under` has the
   * properties that are not set in this group.
   */
  constructor(
    prefix: string,
    values: ReadonlyMap<string, string>,
    findings: Finding[],
    under?: PropertyGroup,
  ) {
    this.#prefix = prefix;
    this.#values = values;
    this.#findings = findings;
    this.#under = under;
  }

  names(): ReadonlySet<string> {
    return new Set([...this.#values.keys(), ...(this.#under?.names() ?? [])]);
  }

  /** Exactly as written, where blanks mean something (ACLs, labels). */
  raw(name: string): string | undefined {
    return this.#values.get(name) ?? this.#under?.raw(name);
  }

  /** Without blanks around it; one that is blank counts as not set. */
  text(name: string): string | undefined {
    return this.raw(name)?.trim() || undefined;
  }

  /** The value, or the fallback when it is not set or wrong. */
  read<Value, Fallback>(
    name: string,
    parse: ValueParser<Value>,
    fallback: Fallback,
  ): Value | Fallback {
    const text = this.text(name);
    if (text === undefined) return fallback;
    const parsed = parse(text);
    if ("value" in parsed) return parsed.value;
    this.report(name, `expects ${parsed.expects}, not ${quote(text)}`);
    return fallback;
  }

  /** A finding where the property stands, or would stand. */
  report(name: string, message: string): void {
    const isUnder = !this.#values.has(name) && this.#under?.raw(name) !== undefined;
    if (isUnder) this.#under?.report(name, message);
    else this.#findings.push({ path: `${this.#prefix}${name}`, message });
  }

  /** Those below a further prefix, such as a template's. */
  below(prefix: string): PropertyGroup {
    const inner = new Map<string, string>();
    for (const [name, value] of this.#values) {
      if (name.startsWith(prefix)) inner.set(name.slice(prefix.length), value);
    }
    const under = this.#under?.below(prefix);
    return new PropertyGroup(`${this.#prefix}${prefix}`, inner, this.#findings, under);
  }

  /** This group, with another's properties where this one has none. */
  over(under: PropertyGroup): PropertyGroup {
    return new PropertyGroup(this.#prefix, this.#values, this.#findings, under);
  }
}

const WHOLE_NUMBER = /^[-+]?\d{1,15}$/;
const DECIMAL = /^[-+]?(?:\d{1,15}(?:\.\d{0,15})?|\.\d{1,15})$/;

/** A whole number from `min` to `max`; `what` says its unit, such as "seconds". */
export function wholeNumber(
  min: number,
  max: number = Number.MAX_SAFE_INTEGER,
  what = "a whole number",
): ValueParser<number> {
  return (text) => {
    const value = WHOLE_NUMBER.test(text) ? Number(text) : Number.NaN;
    return value >= min && value <= max ? { value } : { expects: `${what} ${range(min, max)}` };
  };
}

/** A number with or without a fraction, from `min` to `max`. */
export function decimal(
  min: number,
  max: number = Number.POSITIVE_INFINITY,
  what = "a number",
): ValueParser<number> {
  return (text) => {
    const value = parseDecimal(text);
    return value >= min && value <= max ? { value } : { expects: `${what} ${range(min, max)}` };
  };
}

/** NaN for anything that is not a plain decimal number. */
export function parseDecimal(text: string): number {
  return DECIMAL.test(text) ? Number(text) : Number.NaN;
}

function range(min: number, max: number): string {
  const isOpen = max === Number.POSITIVE_INFINITY || max === Number.MAX_SAFE_INTEGER;
  return isOpen ? `from ${min}` : `from ${min} to ${max}`;
}

export const fraction: ValueParser<number> = decimal(0, 1, "a fraction (0.1 is 10 %)");

export const flag: ValueParser<boolean> = (text) => {
  const word = text.toLowerCase();
  if (word === "true" || word === "false") return { value: word === "true" };
  return { expects: "true or false" };
};

/** One of the words, which are compared without regard to case. */
export function oneOf<Word extends string>(words: readonly Word[]): ValueParser<Word> {
  return (text) => {
    const value = words.find((word) => word.toLowerCase() === text.toLowerCase());
    if (value !== undefined) return { value };
    return { expects: `one of ${words.join(", ")}${didYouMeanClause(text, words)}` };
  };
}

/** The parts of a list with commas, without blanks around them; empty parts are dropped. */
export function listOf(text: string): string[] {
  return text
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
}

/** A record without prototype: a user or label called `constructor` finds nothing of Object's. */
export function recordOf<Value>(
  entries: Iterable<readonly [string, Value]>,
): Readonly<Record<string, Value>> {
  const record: Record<string, Value> = Object.create(null);
  for (const [name, value] of entries) record[name] = value;
  return record;
}
