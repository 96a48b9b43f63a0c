/**
 * ETags (RFC 9110 §8.8.3): two FNV-1a hashes of a text, and its length. They tell versions of one
 * answer apart and protect nothing: a digest, which is asynchronous and costs more than the rest of
 * an answer, would be wasted on them.
 */
const PRIMES = [0x01000193, 0x01000197] as const;
const START = 0x811c9dc5;

export function contentTag(text: string): string {
  let first = START;
  let second = START;
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    first = Math.imul(first ^ unit, PRIMES[0]);
    second = Math.imul(second ^ unit, PRIMES[1]);
  }
  return `"${hex(first)}${hex(second)}${text.length.toString(16)}"`;
}

/** Whether an `If-None-Match` names the tag, compared weakly (RFC 9110 §13.1.2). */
export function namesTag(ifNoneMatch: string | null | undefined, tag: string): boolean {
  if (ifNoneMatch === null || ifNoneMatch === undefined) return false;
  return ifNoneMatch.split(",").some((each) => {
    const text = each.trim();
    return text === "*" || text.replace(/^W\//, "") === tag;
  });
}

function hex(number: number): string {
  return (number >>> 0).toString(16).padStart(8, "0");
}
