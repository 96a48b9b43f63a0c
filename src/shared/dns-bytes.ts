/**
 * The bytes of a DNS message: one cursor that reads and one that writes. The reader never throws:
 * what goes beyond the end makes it unsound, and from then on everything is empty or 0. Names as in
 * shared/dns.ts; texts are one character for each byte.
 */
import { assert } from "./errors.ts";

const LABEL_BYTES_MAX = 63;
/** With the length bytes and the root's. */
const NAME_BYTES_MAX = 255;
const POINTER = 0xc0;
const DOT = 0x2e;
const BACKSLASH = 0x5c;
/** Offsets that a pointer can say. */
const POINTER_LIMIT = 0x4000;
/** No encoder needs more than a few; each costs a hostile sender two bytes. */
const POINTERS_PER_NAME_MAX = 32;

export class MessageReader {
  readonly #bytes: Uint8Array;
  #offset = 0;
  #sound = true;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get isSound(): boolean {
    return this.#sound;
  }

  get isAtEnd(): boolean {
    return this.#offset === this.#bytes.length;
  }

  get offset(): number {
    return this.#offset;
  }

  fail(): void {
    this.#sound = false;
    this.#offset = this.#bytes.length;
  }

  byte(): number {
    const value = this.#bytes[this.#offset];
    if (value === undefined) {
      this.fail();
      return 0;
    }
    this.#offset += 1;
    return value;
  }

  word(): number {
    return this.byte() * 0x100 + this.byte();
  }

  long(): number {
    return this.word() * 0x1_0000 + this.word();
  }

  /** Where the next `length` bytes end. */
  endAfter(length: number): number {
    const end = this.#offset + length;
    if (end > this.#bytes.length) this.fail();
    return Math.min(end, this.#bytes.length);
  }

  skipTo(end: number): void {
    if (this.#sound) this.#offset = end;
  }

  take(end: number): readonly number[] {
    const taken = [...this.#bytes.subarray(this.#offset, end)];
    this.skipTo(end);
    return taken;
  }

  /** A length byte and that many bytes. */
  string(): string {
    const end = this.endAfter(this.byte());
    return String.fromCharCode(...this.take(end));
  }

  name(): string {
    const labels: string[] = [];
    let bytesLeft = NAME_BYTES_MAX - 1;
    let pointersLeft = POINTERS_PER_NAME_MAX;
    let before = this.#offset;
    let resumeAt: number | null = null;
    for (let length = this.byte(); length !== 0 && this.#sound; length = this.byte()) {
      if (length >= POINTER) {
        const target = (length - POINTER) * 0x100 + this.byte();
        resumeAt ??= this.#offset;
        pointersLeft -= 1;
        // Only what stands before may be pointed to, so that no pointer ever comes around.
        if (target >= before || pointersLeft < 0) this.fail();
        before = target;
        this.skipTo(target);
      } else {
        bytesLeft -= length + 1;
        if (length > LABEL_BYTES_MAX || bytesLeft < 0) this.fail();
        labels.push(this.#label(this.endAfter(length)));
      }
    }
    if (resumeAt !== null) this.skipTo(resumeAt);
    return labels.join(".");
  }

  #label(end: number): string {
    let label = "";
    for (let at = this.#offset; at < end; at++) {
      const byte = this.#bytes[at] ?? 0;
      label += isPlain(byte) ? String.fromCharCode(byte) : escapeByte(byte);
    }
    this.skipTo(end);
    return label;
  }
}

/** Characters of a label that stand for themselves. */
function isPlain(byte: number): boolean {
  return byte > 0x20 && byte < 0x7f && byte !== DOT && byte !== BACKSLASH;
}

export class MessageWriter {
  readonly #bytes: number[] = [];
  /** Every name's suffix that was written, and where. */
  readonly #written = new Map<string, number>();

  get length(): number {
    return this.#bytes.length;
  }

  bytes(): Uint8Array {
    return Uint8Array.from(this.#bytes);
  }

  byte(value: number): void {
    this.#bytes.push(value & 0xff);
  }

  word(value: number): void {
    this.byte(value >>> 8);
    this.byte(value);
  }

  long(value: number): void {
    this.word(value >>> 16);
    this.word(value);
  }

  /** What `write` writes, with its length in front. */
  sized(write: () => void): void {
    const at = this.#bytes.length;
    this.word(0);
    write();
    const length = this.#bytes.length - at - 2;
    this.#bytes[at] = length >>> 8;
    this.#bytes[at + 1] = length & 0xff;
  }

  string(text: string): void {
    assert(text.length <= 255, "a string of a DNS record has at most 255 bytes");
    this.byte(text.length);
    for (let at = 0; at < text.length; at++) this.byte(text.charCodeAt(at));
  }

  /** Points to an earlier occurrence where there is one, in any case (RFC 1035 §4.1.4). */
  name(name: string): void {
    this.#name(name, true);
  }

  /** Without pointers. */
  wholeName(name: string): void {
    this.#name(name, false);
  }

  #name(name: string, mayPoint: boolean): void {
    const labels = labelsOf(name);
    assert(labels !== null, `${JSON.stringify(name)} is not a name of DNS`);
    for (let at = 0; at < labels.length; at++) {
      // No character of a label is above a byte, so that this one only ever separates.
      const suffix = labels.slice(at).join("\u0100").toLowerCase();
      const earlier = this.#written.get(suffix);
      if (mayPoint && earlier !== undefined) {
        this.word(POINTER * 0x100 + earlier);
        return;
      }
      if (this.#bytes.length < POINTER_LIMIT) this.#written.set(suffix, this.#bytes.length);
      this.string(labels[at] ?? "");
    }
    this.byte(0);
  }
}

/** Whether a message can carry the name: labels of 1 to 63 bytes, 255 bytes in all. */
export function isEncodableName(name: string): boolean {
  return labelsOf(name) !== null;
}

/** The labels, one character for each byte; null for text that is no name. */
function labelsOf(name: string): readonly string[] | null {
  if (name === "") return [];
  if (name.length > 4 * NAME_BYTES_MAX) return null;
  const labels = name.includes("\\") ? unescapedLabels(name) : name.split(".");
  if (labels === null || MORE_THAN_A_BYTE.test(name)) return null;
  const bytes = labels.reduce((sum, label) => sum + label.length + 1, 1);
  const fits = labels.every((label) => label.length >= 1 && label.length <= LABEL_BYTES_MAX);
  return fits && bytes <= NAME_BYTES_MAX ? labels : null;
}

const MORE_THAN_A_BYTE = /[\u0100-\uffff]/;

function unescapedLabels(name: string): readonly string[] | null {
  const labels: string[] = [""];
  for (const [, digits, escaped, plain] of name.matchAll(/\\(\d{3})|\\(.)|(.)/gsu)) {
    const code = digits === undefined ? (escaped ?? plain ?? "").charCodeAt(0) : Number(digits);
    if (code > 0xff || (escaped ?? plain ?? "").length > 1) return null;
    if (plain === ".") labels.push("");
    else labels[labels.length - 1] += String.fromCharCode(code);
  }
  return labels;
}

function escapeByte(byte: number): string {
  const isVisible = byte === DOT || byte === BACKSLASH;
  return `\\${isVisible ? String.fromCharCode(byte) : String(byte).padStart(3, "0")}`;
}
