/**
 * Replacing `${NAME}` in a text (facts/yarn-services.md §4.9). One pass: what a value brings in is
 * not looked at again, so that no value can stand for more than itself. A name that is not known
 * stays as it is: it may be the shell's, or the NodeManager's.
 */

const TOKEN = /\$\{([^{}]+)\}/g;

/** Only the node knows these: the container's address, and the ports that it allocates. */
const OF_THE_NODE = /^(?:THIS_HOST$|PORT\.)/;

/** Values by token name, without `${` and `}`. */
export type Tokens = ReadonlyMap<string, string>;

export function substitute(text: string, tokens: Tokens): string {
  return text.replaceAll(TOKEN, (token, name: string) => replacementOf(name, tokens) ?? token);
}

/**
 * The most characters that `text` can come to, without building it: a short text may name a long
 * value thousands of times. `longest` answers for tokens whose values are not known yet.
 */
export function substitutedLength(
  text: string,
  tokens: Tokens,
  longest: (name: string) => number | undefined,
): number {
  let length = text.length;
  for (const [token, name = ""] of text.matchAll(TOKEN)) {
    length += (replacementOf(name, tokens)?.length ?? longest(name) ?? token.length) - token.length;
  }
  return length;
}

function replacementOf(name: string, tokens: Tokens): string | undefined {
  return OF_THE_NODE.test(name) ? undefined : tokens.get(name);
}
