/**
 * A network that can be cut: a TCP proxy that, from one moment on, passes nothing on in either
 * direction and tells nobody, as a router does that has lost its power.
 */

import type { AddressInfo } from "node:net";
import { createConnection, createServer, type Server, type Socket } from "node:net";

export class DroppingProxy {
  readonly #server: Server;
  readonly #target: number;
  /** Both ends of every connection. */
  readonly #pairs = new Set<readonly [Socket, Socket]>();
  #isCut = false;

  private constructor(server: Server, target: number) {
    this.#server = server;
    this.#target = target;
    server.on("connection", (near) => this.#connect(near));
  }

  /** In front of a port of this machine. */
  static async start(target: number): Promise<DroppingProxy> {
    // A half-closed connection is passed on as one, and not closed by this end on its own.
    const server = createServer({ allowHalfOpen: true });
    const proxy = new DroppingProxy(server, target);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** What is on its way stays there. */
  cut(): void {
    this.#isCut = true;
    for (const [near, far] of this.#pairs) stop(near, far);
  }

  /** What was on its way arrives, on connections whose ends have not given up. */
  heal(): void {
    // Twice piped is twice said.
    if (!this.#isCut) return;
    this.#isCut = false;
    for (const pair of this.#pairs) {
      if (pair.some((socket) => socket.destroyed)) this.#end(pair);
      else flow(...pair);
    }
  }

  /** The far side learns that the connections are gone; the near side, if it is cut, does not. */
  dropFarSide(): void {
    for (const [, far] of this.#pairs) far.destroy();
  }

  async close(): Promise<void> {
    for (const pair of this.#pairs) this.#end(pair);
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #connect(near: Socket): void {
    const far = createConnection({ port: this.#target, host: "127.0.0.1", allowHalfOpen: true });
    const pair = [near, far] as const;
    this.#pairs.add(pair);
    for (const socket of pair) {
      // A reset is an end like others, which "close" tells of.
      socket.on("error", () => undefined);
      socket.on("close", () => {
        if (!this.#isCut) this.#end(pair);
      });
    }
    if (!this.#isCut) flow(near, far);
  }

  #end(pair: readonly [Socket, Socket]): void {
    this.#pairs.delete(pair);
    for (const socket of pair) socket.destroy();
  }
}

function flow(near: Socket, far: Socket): void {
  near.pipe(far);
  far.pipe(near);
}

function stop(near: Socket, far: Socket): void {
  near.unpipe(far).pause();
  far.unpipe(near).pause();
}
