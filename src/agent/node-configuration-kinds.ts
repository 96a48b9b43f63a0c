/**
 * Kinds of values that properties have. Hadoop's configuration is text throughout; JSON and YAML may
 * also write numbers, true and false, and lists, which mean the same.
 */

import { parsePortRange } from "./streams/stream-allow-list.ts";

/** As it stands in the file. */
export type RawValue = string | number | boolean | readonly string[];

export type Kind<Value> = {
  /** Completes "expects …". */
  readonly words: string;
  /** Undefined when the value is none of this kind. */
  readonly read: (raw: RawValue) => Value | undefined;
};

/** Whole numbers; `unit` is for people, such as MB. */
export function wholeNumber(
  least: number,
  unit = "",
  most = Number.MAX_SAFE_INTEGER,
): Kind<number> {
  return numberOf(/^-?\d+$/, "a whole number", least, unit, most);
}

export function decimal(least: number, unit = "", most = Number.MAX_VALUE): Kind<number> {
  return numberOf(/^-?\d+(?:\.\d+)?$/, "a number", least, unit, most);
}

function numberOf(
  pattern: RegExp,
  what: string,
  least: number,
  unit: string,
  most: number,
): Kind<number> {
  const isBounded = most < Number.MAX_SAFE_INTEGER;
  const range = isBounded ? `from ${least} to ${most}` : `from ${least}`;
  return {
    words: [what, unit && `of ${unit}`, range].filter(Boolean).join(" "),
    read: (raw) => {
      const text = String(raw).trim();
      const number = Number(text);
      return pattern.test(text) && number >= least && number <= most ? number : undefined;
    },
  };
}

export const trueOrFalse: Kind<boolean> = {
  words: "true or false",
  read: (raw) => {
    const text = String(raw).trim().toLowerCase();
    return text === "true" ? true : text === "false" ? false : undefined;
  },
};

/** Text that the pattern describes; blanks around it do not count. */
export function textLike(pattern: RegExp, words: string): Kind<string> {
  return {
    words,
    read: (raw) => {
      const text = String(raw).trim();
      return typeof raw !== "object" && pattern.test(text) ? text : undefined;
    },
  };
}

/** A JSON or YAML list, or text with commas between the entries; the empty text is no entry. */
export function listLike(pattern: RegExp, words: string): Kind<readonly string[]> {
  return {
    words: `${words}, separated by commas`,
    read: (raw) => {
      const entries = entriesOf(raw);
      return entries.every((entry) => pattern.test(entry)) ? entries : undefined;
    },
  };
}

/** Ports and ranges of them; an empty list is none. */
export const portRanges: Kind<readonly string[]> = {
  words: "ports and ranges such as 1024-65535, separated by commas",
  read: (raw) => {
    const entries = entriesOf(raw);
    return entries.every((entry) => parsePortRange(entry) !== null) ? entries : undefined;
  },
};

/** Absolute paths; as in Hadoop each may be written as a file: URL. */
export const paths: Kind<readonly string[]> = {
  words: "absolute paths, separated by commas",
  read: (raw) => {
    const entries = entriesOf(raw).map(withoutScheme);
    return entries.every(isPlainPath) ? entries : undefined;
  },
};

export const path: Kind<string> = {
  words: "an absolute path",
  read: (raw) => {
    const text = withoutScheme(String(raw).trim());
    return isPlainPath(text) ? text : undefined;
  },
};

/** One of the words; `YARN`'s class names count by their last part. */
export function oneOf<Word extends string>(...choices: readonly Word[]): Kind<Word> {
  return {
    words: `one of ${choices.join(", ")}`,
    read: (raw) => {
      const text = String(raw).trim();
      const last = text.slice(text.lastIndexOf(".") + 1);
      return choices.find((word) => word === text || word === last);
    },
  };
}

function entriesOf(raw: RawValue): readonly string[] {
  const entries = typeof raw === "object" ? raw : String(raw).split(",");
  return entries.map((entry) => entry.trim()).filter((entry) => entry !== "");
}

function withoutScheme(text: string): string {
  return text.replace(/^file:(?:\/\/)?(?=\/)/, "");
}

function isPlainPath(text: string): boolean {
  return text.startsWith("/") && !text.includes("\0") && !text.split("/").includes("..");
}
