/** Event streams of one path, and when each of them hears of a change. */
import { connect, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { httpRequest } from "./http-load.ts";

const CHANGE_HEARD_MAX_MS = 30_000;

/** Event streams of one path, each on a connection of its own. */
export class Watchers {
  readonly #sockets: Socket[] = [];
  readonly #tails = new Map<Socket, string>();
  readonly #path: string;
  #heard: (() => void) | null = null;

  constructor(path: string) {
    this.#path = path;
  }

  async open(port: number, count: number): Promise<void> {
    const ready = this.#eventOfEach(count);
    for (let index = 0; index < count; index++) {
      const socket = connect({ port, host: "127.0.0.1", noDelay: true });
      this.#sockets.push(socket);
      // A stream that breaks is noticed: its event never comes.
      socket.on("error", () => undefined);
      socket.on("data", (chunk) => this.#receive(socket, chunk));
      socket.write(httpRequest("GET", `/registry/v1${this.#path}?watch`));
    }
    await ready;
  }

  /** When each of them heard the next event. */
  heardByAll(): Promise<readonly number[]> {
    return this.#eventOfEach(this.#sockets.length);
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async #eventOfEach(count: number): Promise<readonly number[]> {
    const timesMs: number[] = [];
    const { promise, resolve } = Promise.withResolvers<"heard">();
    this.#heard = () => {
      if (timesMs.push(performance.now()) === count) resolve("heard");
    };
    const late = delay(CHANGE_HEARD_MAX_MS, "late" as const, { ref: false });
    const outcome = await Promise.race([promise, late]);
    if (outcome === "late")
      throw new Error(`${timesMs.length} of ${count} watchers heard a change`);
    return timesMs;
  }

  #receive(socket: Socket, chunk: Buffer): void {
    const text = `${this.#tails.get(socket) ?? ""}${chunk.toString("latin1")}`;
    const parts = text.split("\nevent: ");
    for (let index = 1; index < parts.length; index++) this.#heard?.();
    this.#tails.set(socket, (parts.at(-1) ?? "").slice(-"\nevent: ".length + 1));
  }
}
