/** Frames of streams, and the windows that keep their ends from filling each other's memory. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { LIMITS } from "../../src/shared/limits.ts";
import { formatExecHeader, parseExecHeader } from "../../src/shared/protocol/node-stream.ts";
import { ReceiveWindow, relayed, SendWindow, type UnderWay } from "../../src/shared/stream-flow.ts";
import {
  creditOf,
  decodeFrame,
  encodeFrame,
  FRAME_DATA_BYTES_MAX,
  type StreamFrame,
} from "../../src/shared/stream-frame.ts";

const WINDOW = LIMITS.streamWindowBytes;
const size = fc.integer({ min: 0, max: 65_535 });
const frames: fc.Arbitrary<StreamFrame> = fc.oneof(
  fc.record({
    kind: fc.constantFrom("stdin", "stdout", "stderr", "error"),
    bytes: fc.uint8Array({ minLength: 1, maxLength: 64 }),
  }),
  fc.record({ kind: fc.constant("resize"), columns: size, rows: size }),
  fc.record({ kind: fc.constant("exit"), exitCode: fc.integer({ min: 0, max: 255 }) }),
  fc.constant({ kind: "eof" } as const),
  fc.record({ kind: fc.constant("credit"), bytes: fc.integer({ min: 1, max: 2 ** 32 - 1 }) }),
);

describe("a frame", () => {
  it("[NM211] is read as it was written", () => {
    fc.assert(
      fc.property(frames, (frame) => {
        expect(decodeFrame(encodeFrame(frame))).toEqual(frame);
      }),
    );
  });

  it("[NM211] is read wherever it lies in its buffer", () => {
    const encoded = encodeFrame({ kind: "resize", columns: 300, rows: 2 });
    const within = Uint8Array.of(9, 9, ...encoded, 9).subarray(2, 2 + encoded.length);
    expect(decodeFrame(within)).toEqual({ kind: "resize", columns: 300, rows: 2 });
  });

  it("[NM211] that is none is never taken for one, and never throws", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 12 }), (bytes) => {
        const frame = decodeFrame(bytes);
        if (frame) expect(encodeFrame(frame)).toEqual(bytes);
      }),
    );
    const longest = encodeFrame({ kind: "stdout", bytes: new Uint8Array(FRAME_DATA_BYTES_MAX) });
    expect(longest).toHaveLength(LIMITS.streamFrameBytesMax);
    expect(decodeFrame(longest)).not.toBeNull();
    expect(decodeFrame(new Uint8Array(LIMITS.streamFrameBytesMax + 1).fill(1))).toBeNull();
  });
});

/** What a program, its reader, and the relay in between do, in any order. */
type Step = { readonly type: "send" | "arrive" | "consume" | "credit"; readonly bytes: number };
const steps = fc.array(
  fc.record({
    type: fc.constantFrom("send", "arrive", "consume", "credit"),
    bytes: fc.integer({ min: 1, max: LIMITS.streamFrameBytesMax }),
  }),
  { maxLength: 400 },
);

/** One direction of a stream: frames go by a relay to their reader, and credit comes back. */
class Direction {
  readonly #sending = new SendWindow();
  readonly #receiving = new ReceiveWindow();
  readonly #onTheWay: number[] = [];
  readonly #unread: number[] = [];
  readonly #credits: number[] = [];
  #books: UnderWay = { own: 0, other: 0 };
  /** Sent and not consumed. */
  underWay = 0;
  sent = 0;

  step({ type, bytes }: Step): void {
    if (type === "send") this.send(bytes);
    else if (type === "arrive") this.#arrive();
    else if (type === "consume") this.#consume();
    else this.#giveBack();
  }

  send(bytes: number): boolean {
    if (!this.#sending.take(bytes)) return false;
    this.#onTheWay.push(bytes);
    this.underWay += bytes;
    this.sent += 1;
    return true;
  }

  #arrive(): void {
    const bytes = this.#onTheWay.shift();
    if (bytes === undefined) return;
    const books = relayed(new Uint8Array(bytes).fill(1), this.#books);
    expect(books, "the relay cuts off who keeps to the rules").not.toBeNull();
    this.#books = books ?? this.#books;
    expect(this.#receiving.receive(bytes), "so does the reader").toBe(true);
    this.#unread.push(bytes);
  }

  #consume(): void {
    const bytes = this.#unread.shift();
    if (bytes === undefined) return;
    this.underWay -= bytes;
    const credit = this.#receiving.consume(bytes);
    if (credit > 0) this.#credits.push(credit);
  }

  #giveBack(): void {
    const bytes = this.#credits.shift();
    if (bytes === undefined) return;
    const { own, other } = this.#books;
    const books = relayed(encodeFrame({ kind: "credit", bytes }), { own: other, other: own });
    expect(books, "the relay takes credit that is due").not.toBeNull();
    if (books) this.#books = { own: books.other, other: books.own };
    expect(this.#sending.give(bytes), "so does the sender").toBe(true);
  }

  /** Everything that was sent arrives and is read. */
  settle(): void {
    for (let left = 2_000; left > 0; left--) {
      for (const type of ["arrive", "consume", "credit"] as const) this.step({ type, bytes: 1 });
    }
  }
}

describe("a window", () => {
  it("[NM204] is never exceeded, and never closes for good, whatever happens in whatever order", () => {
    fc.assert(
      fc.property(steps, (history) => {
        const direction = new Direction();
        for (const step of history) {
          direction.step(step);
          expect(direction.underWay).toBeLessThanOrEqual(WINDOW);
        }
        direction.settle();
        expect(direction.send(LIMITS.streamFrameBytesMax)).toBe(true);
      }),
      { numRuns: 200 },
    );
  });

  it("[NM204] lets a window's worth pass to a reader who does not read, and no more", () => {
    const direction = new Direction();
    while (direction.send(LIMITS.streamFrameBytesMax));
    expect(direction.sent).toBe(WINDOW / LIMITS.streamFrameBytesMax);
  });

  it("[NM204] is not widened by credit that nobody owes", () => {
    const sending = new SendWindow();
    expect(sending.give(1)).toBe(false);
    expect(sending.take(WINDOW)).toBe(true);
    expect(sending.give(WINDOW)).toBe(true);
    expect(sending.give(1)).toBe(false);
    const receiving = new ReceiveWindow();
    expect(receiving.receive(WINDOW)).toBe(true);
    expect(receiving.receive(1)).toBe(false);
  });

  it.each([
    ["credit that was never taken", encodeFrame({ kind: "credit", bytes: 101 })],
    ["credit of nothing", Uint8Array.of(6, 0, 0, 0, 0)],
    ["nothing", new Uint8Array(0)],
    ["more than a frame", new Uint8Array(LIMITS.streamFrameBytesMax + 1)],
    ["more than the window", new Uint8Array(1_001)],
  ])("[NM204] is closed by the relay to who sends %s", (_what, frame) => {
    expect(relayed(frame, { own: WINDOW - 1_000, other: 100 })).toBeNull();
  });

  it("[NM204] counts frames that only look like credit as what they are", () => {
    expect(creditOf(Uint8Array.of(6, 0, 0, 1))).toBeNull();
    expect(relayed(Uint8Array.of(6, 0, 0, 1), { own: 0, other: 9 })).toEqual({ own: 4, other: 9 });
  });
});

describe("what exec runs", () => {
  it("[NM202] travels in a header as words, whatever is in them", () => {
    const words = fc.array(
      fc.string({ unit: "binary" }).map((text) => text.replaceAll("\0", "")),
      {
        minLength: 1,
        maxLength: 5,
      },
    );
    fc.assert(
      fc.property(words, fc.boolean(), (command, stdin) => {
        const header = formatExecHeader({ command, stdin });
        expect(header).toMatch(/^[\x21-\x7e]*$/);
        expect(parseExecHeader(header)).toEqual({ ok: true, value: { command, stdin } });
      }),
    );
  });

  it.each([
    [undefined, "is missing"],
    ["%", "holds no percent-encoded JSON"],
    ["no json", "holds no percent-encoded JSON"],
    ["x".repeat(LIMITS.execHeaderLengthMax + 1), "too long"],
    [encodeURIComponent('{"command": []}'), "command"],
    [encodeURIComponent('{"command": ["a\\u0000b"]}'), "without NUL"],
    [
      encodeURIComponent('{"command": ["a"], "tty": {"columns": 0, "rows": 1, "term": "x"}}'),
      "columns",
    ],
  ])("[NM201] is refused with what is wrong in it: %s", (header, sentence) => {
    const reply = parseExecHeader(header);
    expect(reply).toMatchObject({ ok: false, error: { code: "INVALID_ARGUMENT" } });
    expect(!reply.ok && reply.error.message).toContain(sentence);
  });
});
