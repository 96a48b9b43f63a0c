/**
 * Flow control of streams, which a WebSocket has none of: each side may have a window of bytes under
 * way that the other one has not consumed, and the consumer gives credit back as it goes on. All
 * frames count with their whole length but credit itself, so that nothing can be sent for nothing.
 */
import { LIMITS } from "./limits.ts";
import { creditOf } from "./stream-frame.ts";

/** What this side may still send. */
export class SendWindow {
  #left: number = LIMITS.streamWindowBytes;

  /** False, and nothing taken, where the frame has to wait for credit. */
  take(frameBytes: number): boolean {
    if (frameBytes > this.#left) return false;
    this.#left -= frameBytes;
    return true;
  }

  /** Credit that the other side has given. False: more than was under way, which is a mistake. */
  give(bytes: number): boolean {
    if (this.#left + bytes > LIMITS.streamWindowBytes) return false;
    this.#left += bytes;
    return true;
  }
}

/** What the other side has sent, and how much of it was consumed here. */
export class ReceiveWindow {
  /** Received and not given back. */
  #outstanding = 0;
  /** Consumed and not given back yet. */
  #consumed = 0;

  /** False: more than the window, by a side that does not keep to it. */
  receive(frameBytes: number): boolean {
    this.#outstanding += frameBytes;
    return this.#outstanding <= LIMITS.streamWindowBytes;
  }

  /**
   * A frame is done with. Answers the credit that is to be sent now, 0 for none yet: small frames are
   * given back together, and always before the other side could be waiting for them.
   */
  consume(frameBytes: number): number {
    this.#consumed += frameBytes;
    if (this.#consumed < LIMITS.streamWindowBytes / 4) return 0;
    const credit = this.#consumed;
    this.#outstanding -= credit;
    this.#consumed = 0;
    return credit;
  }
}

/** Bytes that each side of a relayed stream has sent and not got back. */
export type UnderWay = { readonly own: number; readonly other: number };

/**
 * The books of who relays a frame from one side to the other, after it. Null when the sender does not
 * keep to its window, or gives back what it never got: it is to be cut off, or it would fill the
 * relay's memory.
 */
export function relayed(frame: Uint8Array, { own, other }: UnderWay): UnderWay | null {
  const credit = creditOf(frame);
  if (credit !== null) {
    return credit === 0 || credit > other ? null : { own, other: other - credit };
  }
  const now = own + frame.length;
  const isFrame = frame.length > 0 && frame.length <= LIMITS.streamFrameBytesMax;
  return isFrame && now <= LIMITS.streamWindowBytes ? { own: now, other } : null;
}
