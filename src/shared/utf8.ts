/** Where a piece of UTF-8 may end, so that pieces of a text can be shown one by one. */

/** The largest length that does not end within a character; bytes that are no UTF-8 all count. */
export function wholeCharacters(bytes: Uint8Array, length = bytes.length): number {
  let start = length - 1;
  while (start > 0 && length - start < 4 && isContinuation(bytes[start])) start--;
  const first = bytes[start] ?? 0;
  const needed = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
  return start >= 0 && needed > length - start ? start : length;
}

/** True for a byte that a character goes on with. */
export function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xc0) === 0x80;
}
