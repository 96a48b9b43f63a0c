/** Searching and watching from a program, against the real routes over a registry in memory. */
import { Hono } from "hono";
import { describe, expect, it } from "vitest";
import { createHttp } from "../../src/client/http.ts";
import { findRecords } from "../../src/client/registry-find.ts";
import { type RegistryEvent, watchRegistry } from "../../src/client/registry-watch.ts";
import { registryRoutes } from "../../src/worker/routes/registry.ts";
import { mapRegistry } from "../support/map-registry.ts";
import { NO_NET } from "../support/no-net.ts";
import { recordNamed } from "../support/registry-contract.ts";

function open() {
  const registry = mapRegistry();
  const app = new Hono();
  app.route(
    "/registry/v1",
    registryRoutes(() => ({ registry, registryWatch: registry }), NO_NET),
  );
  const fetch: typeof globalThis.fetch = async (input, init) => app.request(String(input), init);
  return { registry, options: { url: "http://cluster.test", fetch } };
}

describe("[RG31] a program", () => {
  it("[RG31] finds every match, over as many pages as there are", async () => {
    const { registry, options } = open();
    for (let from = 0; from < 250; from += 50) {
      await registry.transact(
        Array.from({ length: 50 }, (_, n) => ({
          op: "bind" as const,
          path: `/users/joe/s${from + n}`,
          record: recordNamed(n % 2 === 0 ? "even" : "odd", { "a&b": "c=d" }),
          overwrite: false,
          createParents: true,
        })),
      );
    }
    const search = { text: "EVEN", attributes: { "a&b": "c=d" } };
    const paths = new Set<string>();
    for await (const { path, record } of findRecords(createHttp(options), "/users", search)) {
      expect(record.description).toBe("even");
      paths.add(path);
    }
    expect(paths.size).toBe(125);
    const none = { ...search, api: "http://" };
    expect(await findRecords(createHttp(options), "/users", none).next()).toMatchObject({
      done: true,
    });
  });

  it("[RG31] sees changes until it wants no more", async () => {
    const { registry, options } = open();
    const stop = new AbortController();
    const events: RegistryEvent[] = [];
    const watching = async () => {
      const watch = watchRegistry({ ...options, signal: stop.signal }, "/users");
      for await (const event of watch) {
        events.push(event);
        if (event.type === "ready") await registry.mknode("/users/joe", false);
        if (event.type === "created") return;
      }
    };
    await watching();
    expect(events).toEqual([
      { type: "ready" },
      { type: "created", path: "/users/joe", version: 0 },
    ]);
  });
});
