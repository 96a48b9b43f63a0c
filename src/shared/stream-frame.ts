/**
 * The frames of a stream between a user and a container: one byte that says the kind, then the
 * payload. The same for exec and for port forwarding, in both directions; who reads them knows which
 * kinds to expect. A WebSocket message is one frame.
 */
import { LIMITS } from "./limits.ts";

/** The first byte of each; numbers are never given to another kind. */
export const FRAME_KIND = {
  /** Bytes for the program, or for the port. */
  stdin: 0,
  /** Bytes of the program, or of the port. */
  stdout: 1,
  stderr: 2,
  /** Of the user's terminal: columns and rows, two bytes each. */
  resize: 3,
  /** The program has ended: its exit code, one byte (128 + signal when a signal ended it). */
  exit: 4,
  /** Nothing follows in this direction; the other one goes on. */
  eof: 5,
  /** So many bytes of frames were consumed, four bytes: as many more may be sent. */
  credit: 6,
  /** It cannot go on: a sentence for people, in UTF-8. The connection ends. */
  error: 7,
} as const;

export type DataKind = "stdin" | "stdout" | "stderr" | "error";

export type StreamFrame =
  | { readonly kind: DataKind; readonly bytes: Uint8Array }
  | { readonly kind: "resize"; readonly columns: number; readonly rows: number }
  | { readonly kind: "exit"; readonly exitCode: number }
  | { readonly kind: "eof" }
  | { readonly kind: "credit"; readonly bytes: number };

/** How much of a data frame may be bytes of the program's. */
export const FRAME_DATA_BYTES_MAX = LIMITS.streamFrameBytesMax - 1;

const SIZE_MAX = 0xffff;
const CREDIT_MAX = 0xffff_ffff;

/** Data is at most FRAME_DATA_BYTES_MAX bytes. */
export function encodeFrame(frame: StreamFrame): Uint8Array<ArrayBuffer> {
  switch (frame.kind) {
    case "stdin":
    case "stdout":
    case "stderr":
    case "error":
      return withPayload(frame.kind, frame.bytes);
    case "resize": {
      const encoded = withPayload("resize", new Uint8Array(4));
      const view = viewOf(encoded);
      view.setUint16(1, Math.min(frame.columns, SIZE_MAX));
      view.setUint16(3, Math.min(frame.rows, SIZE_MAX));
      return encoded;
    }
    case "exit":
      return Uint8Array.of(FRAME_KIND.exit, frame.exitCode & 0xff);
    case "eof":
      return Uint8Array.of(FRAME_KIND.eof);
    case "credit": {
      const encoded = withPayload("credit", new Uint8Array(4));
      viewOf(encoded).setUint32(1, Math.min(frame.bytes, CREDIT_MAX));
      return encoded;
    }
  }
}

/** Null for what is no frame: unknown kind, wrong length, no data. Data is not copied. */
export function decodeFrame(encoded: Uint8Array): StreamFrame | null {
  if (encoded.length > LIMITS.streamFrameBytesMax) return null;
  const payload = encoded.subarray(1);
  switch (encoded[0]) {
    case FRAME_KIND.stdin:
      return dataFrame("stdin", payload);
    case FRAME_KIND.stdout:
      return dataFrame("stdout", payload);
    case FRAME_KIND.stderr:
      return dataFrame("stderr", payload);
    case FRAME_KIND.resize: {
      if (payload.length !== 4) return null;
      const view = viewOf(payload);
      return { kind: "resize", columns: view.getUint16(0), rows: view.getUint16(2) };
    }
    case FRAME_KIND.exit:
      return payload.length === 1 ? { kind: "exit", exitCode: payload[0] ?? 0 } : null;
    case FRAME_KIND.eof:
      return payload.length === 0 ? { kind: "eof" } : null;
    case FRAME_KIND.credit: {
      const bytes = creditOf(encoded);
      return bytes === null || bytes === 0 ? null : { kind: "credit", bytes };
    }
    case FRAME_KIND.error:
      return dataFrame("error", payload);
    default:
      return null;
  }
}

/** The bytes that a credit frame gives back; null for every other frame. For those who only relay. */
export function creditOf(encoded: Uint8Array): number | null {
  if (encoded[0] !== FRAME_KIND.credit || encoded.length !== 5) return null;
  return viewOf(encoded).getUint32(1);
}

function dataFrame(kind: DataKind, bytes: Uint8Array): StreamFrame | null {
  return bytes.length === 0 ? null : { kind, bytes };
}

function withPayload(kind: keyof typeof FRAME_KIND, payload: Uint8Array): Uint8Array<ArrayBuffer> {
  const encoded = new Uint8Array(payload.length + 1);
  encoded[0] = FRAME_KIND[kind];
  encoded.set(payload, 1);
  return encoded;
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
