/**
 * Picks free TCP port numbers for containers (Slider's dynamic ports). The kernel says which are
 * free now; the ones handed to live containers that do not listen yet are kept here.
 */
import { once } from "node:events";
import { createServer, type Server } from "node:net";
import { assert } from "../shared/errors.ts";

const ATTEMPTS_MAX = 100;

export class PortAllocator {
  readonly #taken = new Set<number>();

  /** A number for each name; taken until released. Rejects when the machine has no free ports. */
  async allocate(names: readonly string[]): Promise<Record<string, number>> {
    const ports: Record<string, number> = {};
    const held: Server[] = [];
    try {
      // Every server stays open until all names have a number, so that no number comes twice.
      while (held.length < ATTEMPTS_MAX) {
        const name = names[Object.keys(ports).length];
        if (name === undefined) break;
        const server = createServer().listen(0);
        held.push(server);
        await once(server, "listening");
        const address = server.address();
        assert(address !== null && typeof address === "object", "a TCP server has a port");
        if (!this.#taken.has(address.port)) ports[name] = address.port;
      }
    } finally {
      await Promise.all(held.map((server) => new Promise((done) => server.close(done))));
    }
    if (Object.keys(ports).length < names.length) throw new Error("no free TCP port found");
    this.take(ports);
    return ports;
  }

  /** Marks numbers of containers found at a restart. */
  take(ports: Readonly<Record<string, number>>): void {
    for (const port of Object.values(ports)) this.#taken.add(port);
  }

  release(ports: Readonly<Record<string, number>>): void {
    for (const port of Object.values(ports)) this.#taken.delete(port);
  }
}
