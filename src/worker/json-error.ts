/**
 * Where a text stops being JSON (RFC 8259). `JSON.parse` decides whether it is; its messages name a
 * position only sometimes and quote the text, so the place is found here, once parsing has failed.
 */

const SPACE = /[ \t\n\r]*/y;
/** Between the quotes: no control character, no quote, no backslash but for an escape. */
const STRING = /"(?:[ !#-[\]-\uffff]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const SCALAR = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.+-])|(?:true|false|null)(?!\w)/y;

export type JsonError = {
  /** From 1. */
  readonly line: number;
  /** From 1, in UTF-16 units. */
  readonly column: number;
  readonly expected: string;
};

/** The first place where `text` cannot be continued as JSON, or null when it is JSON. */
export function findJsonError(text: string): JsonError | null {
  const open: ("{" | "[")[] = [];
  let at = 0;
  let expected: "value" | "value or ]" | "name" | "name or }" | ", or the end" = "value";

  const take = (pattern: RegExp): boolean => {
    pattern.lastIndex = at;
    const match = pattern.exec(text);
    if (match) at += match[0].length;
    return match !== null;
  };
  const takeCharacter = (character: string): boolean => {
    if (text[at] !== character) return false;
    at++;
    return true;
  };
  const failure = (what: string): JsonError => ({ ...placeOf(text, at), expected: what });

  for (;;) {
    take(SPACE);
    if (expected === ", or the end") {
      const inside = open.at(-1);
      if (inside === undefined) return at === text.length ? null : failure("the end of the text");
      if (takeCharacter(",")) expected = inside === "{" ? "name" : "value";
      else if (takeCharacter(inside === "{" ? "}" : "]")) open.pop();
      else return failure(inside === "{" ? '"," or "}"' : '"," or "]"');
    } else if (expected === "name" || expected === "name or }") {
      if (expected === "name or }" && takeCharacter("}")) {
        open.pop();
        expected = ", or the end";
      } else {
        if (!take(STRING)) return failure('a name in double quotes, such as "name"');
        take(SPACE);
        if (!takeCharacter(":")) return failure('":"');
        expected = "value";
      }
    } else if (expected === "value or ]" && takeCharacter("]")) {
      open.pop();
      expected = ", or the end";
    } else if (takeCharacter("{")) {
      open.push("{");
      expected = "name or }";
    } else if (takeCharacter("[")) {
      open.push("[");
      expected = "value or ]";
    } else if (take(STRING) || take(SCALAR)) {
      expected = ", or the end";
    } else {
      return failure("a value");
    }
  }
}

function placeOf(text: string, at: number): { readonly line: number; readonly column: number } {
  const before = text.slice(0, at);
  const lineStart = before.lastIndexOf("\n") + 1;
  return { line: before.split("\n").length, column: at - lineStart + 1 };
}
