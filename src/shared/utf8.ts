/** How long a text is in UTF-8, and where a piece of it may end, so that pieces can be shown one by one. */

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

/** Bytes of the text in UTF-8. */
export function utf8Length(text: string): number {
  if (ASCII.test(text)) return text.length;
  let bytes = 0;
  for (const character of text) {
    const codePoint = character.codePointAt(0) ?? 0;
    bytes += codePoint < 0x80 ? 1 : codePoint < 0x800 ? 2 : codePoint < 0x10000 ? 3 : 4;
  }
  return bytes;
}

/** Nearly all records are. */
const ASCII = /^[\0-\x7f]*$/;
