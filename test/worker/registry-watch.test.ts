/** Watching the registry over HTTP: server-sent events, their resumption, and the long poll. */
import { Hono } from "hono";
import { describe, expect, it, vi } from "vitest";
import { fail } from "../../src/shared/errors.ts";
import { LIMITS } from "../../src/shared/limits.ts";
import type { RegistryOperation } from "../../src/shared/protocol/registry-operations.ts";
import type {
  RegistryWatch,
  RegistryWatchListener,
} from "../../src/shared/protocol/registry-reader.ts";
import { registryRoutes } from "../../src/worker/routes/registry.ts";
import { mapRegistry } from "../support/map-registry.ts";
import { NO_NET } from "../support/no-net.ts";
import { recordNamed } from "../support/registry-contract.ts";

const bind = (path: string, description = "x"): RegistryOperation => ({
  op: "bind",
  path,
  record: recordNamed(description),
  overwrite: true,
  createParents: true,
});
const remove = (path: string): RegistryOperation => ({
  op: "delete",
  path,
  recursive: true,
  missingOk: false,
});

function open(watch?: RegistryWatch) {
  const registry = mapRegistry();
  const app = new Hono();
  app.route(
    "/registry/v1",
    registryRoutes(() => ({ registry, registryWatch: watch ?? registry }), NO_NET),
  );
  return { app, registry };
}

type Event = { readonly id: string | undefined; readonly event: string; readonly data: unknown };

/** The events of a stream, one at a time, as a browser takes them apart. */
function eventsOf(response: Response) {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  return {
    async next(): Promise<Event | null> {
      for (;;) {
        const end = text.indexOf("\n\n");
        if (end < 0) {
          const chunk = await reader?.read();
          if (chunk?.value === undefined) return null;
          text += chunk.value;
          continue;
        }
        const lines = text.slice(0, end).split("\n");
        text = text.slice(end + 2);
        const field = (name: string) =>
          lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
        const data = field("data");
        if (data === undefined) continue;
        return { id: field("id"), event: field("event") ?? "message", data: JSON.parse(data) };
      }
    },
    close: () => reader?.cancel(),
  };
}

describe("[RG26] ?watch", () => {
  it("[RG26] says where it begins, and then every change at and below the path, in order", async () => {
    const { app, registry } = open();
    await registry.transact([bind("/users/joe/a")]);
    const response = await app.request("/registry/v1/users/joe?watch");
    expect(response.headers.get("content-type")).toBe("text/event-stream");
    expect(response.headers.get("cache-control")).toBe("no-store");
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
    const events = eventsOf(response);
    expect(await events.next()).toEqual({ id: "1", event: "ready", data: {} });
    await registry.transact([bind("/users/ann/a")]);
    await registry.transact([bind("/users/joe/b", "new"), remove("/users/joe/a")]);
    await registry.mknode("/users/joe/c", false);
    await registry.transact([remove("/users/joe")]);
    expect(await events.next()).toEqual({
      id: undefined,
      event: "bound",
      data: {
        type: "bound",
        path: "/users/joe/b",
        version: expect.any(Number),
        record: { type: "JSONServiceRecord", description: "new", external: [], internal: [] },
      },
    });
    const rest = [await events.next(), await events.next(), await events.next()];
    expect(rest).toEqual([
      { id: "3", event: "deleted", data: { type: "deleted", path: "/users/joe/a", version: 0 } },
      { id: "4", event: "created", data: { type: "created", path: "/users/joe/c", version: 0 } },
      { id: "5", event: "deleted", data: { type: "deleted", path: "/users/joe", version: 0 } },
    ]);
    await events.close();
  });

  it("[RG26] tells who watches below a path that the path is gone", async () => {
    const { app, registry } = open();
    await registry.transact([bind("/users/joe/a/b")]);
    const events = eventsOf(await app.request("/registry/v1/users/joe/a/b?watch&after=1"));
    expect(await events.next()).toMatchObject({ event: "ready" });
    await registry.transact([remove("/users/joe")]);
    expect(await events.next()).toMatchObject({ event: "deleted", data: { path: "/users/joe" } });
    await events.close();
  });

  it("[RG26] goes on after the last event that was heard", async () => {
    const { app, registry } = open();
    await registry.transact([bind("/users/joe/a")]);
    await registry.transact([bind("/users/joe/b")]);
    await registry.transact([bind("/users/joe/c")]);
    const headers = { "Last-Event-ID": "1" };
    const events = eventsOf(await app.request("/registry/v1/users/joe?watch", { headers }));
    expect(await events.next()).toMatchObject({ id: "2", data: { path: "/users/joe/b" } });
    expect(await events.next()).toMatchObject({ id: "3", data: { path: "/users/joe/c" } });
    expect(await events.next()).toMatchObject({ id: "3", event: "ready" });
    await events.close();
    const lost = await app.request("/registry/v1/users?watch", {
      headers: { "Last-Event-ID": "99" },
    });
    expect(await eventsOf(lost).next()).toEqual({ id: "3", event: "reset", data: {} });
  });

  it.each([
    ["/users?watch", { "Last-Event-ID": "abc" }, 400],
    ["/users?watch&after=-1", {}, 400],
    ["/Users?watch", {}, 400],
  ])("[RG26] refuses %s with %j", async (rest, headers, status) => {
    const { app } = open();
    const response = await app.request(`/registry/v1${rest}`, { headers });
    expect(response.status).toBe(status);
    expect(response.headers.get("content-type")).toBe("application/problem+json");
  });

  it("[RG26] answers HEAD without opening a watch", async () => {
    const watch = vi.fn(async () => fail("INTERNAL", "opened"));
    const { app } = open({ watch });
    const response = await app.request("/registry/v1/users?watch", { method: "HEAD" });
    expect(response.headers.get("content-type")).toBe("text/event-stream");
    expect(watch).not.toHaveBeenCalled();
  });

  /** A watch whose registry is played by the test. */
  function played() {
    const listeners: RegistryWatchListener[] = [];
    const close = vi.fn();
    const watch: RegistryWatch = {
      watch: async (_path, _after, _reader, listener) => {
        listeners.push(listener);
        return { ok: true, value: { close } };
      },
    };
    return { ...open(watch), listeners, close };
  }

  it("[RG26] drops a client that reads too slowly, and tells it to read anew", async () => {
    const { app, listeners, close } = played();
    const response = await app.request("/registry/v1/users?watch");
    const change = { type: "created", path: `/users/${"x".repeat(60)}`, version: 0 } as const;
    const most = Math.ceil(LIMITS.registryWatchBufferMax / JSON.stringify(change).length);
    for (let sequence = 1; sequence <= most + 1; sequence++) {
      listeners[0]?.message({ sequence, changes: [change] });
      if (close.mock.calls.length > 0) break;
    }
    expect(close).toHaveBeenCalledOnce();
    const events = eventsOf(response);
    let last: Event | null = null;
    for (let event = await events.next(); event !== null; event = await events.next()) last = event;
    expect(last).toMatchObject({ event: "reset" });
  });

  it("[RG26] closes the registry's watch when the client goes, and the stream when the registry does", async () => {
    const { app, listeners, close } = played();
    const gone = await app.request("/registry/v1/users?watch");
    await gone.body?.cancel();
    expect(close).toHaveBeenCalledOnce();
    const ended = eventsOf(await app.request("/registry/v1/users?watch"));
    listeners[1]?.closed();
    expect(await ended.next()).toBeNull();
  });

  it("[RG26] keeps a silent connection alive", async () => {
    vi.useFakeTimers();
    try {
      const { app } = played();
      const response = await app.request("/registry/v1/users?watch");
      const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
      expect((await reader?.read())?.value).toBe("retry: 2000\n\n");
      const next = reader?.read();
      await vi.advanceTimersByTimeAsync(25_000);
      expect((await next)?.value).toBe(": still here\n\n");
      await reader?.cancel();
    } finally {
      vi.useRealTimers();
    }
  });
});

describe("[RG27] ?watch=poll", () => {
  const ask = async (app: Hono, query: string) => {
    const response = await app.request(`/registry/v1/users/joe?watch=poll${query}`);
    expect(response.headers.get("cache-control")).toBe("no-store");
    return response.json();
  };

  it("[RG27] answers at once where to begin, and then when there is something", async () => {
    const { app, registry } = open();
    await registry.transact([bind("/users/joe/a")]);
    expect(await ask(app, "")).toEqual({ events: [], next: 1 });
    expect(await ask(app, "&after=0")).toMatchObject({
      events: [{ type: "created" }, { type: "bound", path: "/users/joe/a", record: {} }],
      next: 1,
    });
    const waiting = ask(app, "&after=1&wait=20000");
    await registry.transact([bind("/users/joe/b")]);
    expect(await waiting).toMatchObject({ events: [{ path: "/users/joe/b" }], next: 2 });
  });

  it("[RG27] answers nothing when the time is over, and reset when events are lost", async () => {
    const { app, registry } = open();
    await registry.transact([bind("/users/ann")]);
    expect(await ask(app, "&after=0&wait=0")).toEqual({ events: [], next: 1 });
    expect(await ask(app, "&after=7")).toEqual({ events: [], reset: true, next: 1 });
  });
});
