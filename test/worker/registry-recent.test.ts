import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import type { RegistryNodeView } from "../../src/shared/protocol/registry-operations.ts";
import type { RegistryEdge } from "../../src/shared/protocol/registry-reader.ts";
import { keepRecent } from "../../src/worker/registry-recent.ts";
import { LATER } from "../support/two-isolates.ts";
import { fakeCluster } from "./fake-cluster.ts";

const URL_OF_JOE = "http://selvedge.test/registry/v1/users/joe";
const WRITE = "http://selvedge.test/ws/v1/registry-operations/bind";
const PUBLIC = { "cache-control": "public, max-age=1" };

const PATHS = ["/users/joe", "/users/joe/a", "/users/joe/a/b", "/users/sue"];

type Change = { readonly type: "bound" | "deleted"; readonly path: string };

/**
 * An application that says how often it was asked, and the registry behind it, whose changes are
 * what a test puts into `state.changes`. `state.answer` may be replaced.
 */
function remembered() {
  const state = {
    nowMs: 1_000_000,
    asked: 0,
    news: 0,
    changes: [] as Change[],
    /** Paths of the registry, which are copied one by one, and after which of them that was done. */
    tree: [] as string[],
    copied: [] as (string | null)[],
    answer: async (_: Request) => new Response(`${state.asked}`, { headers: PUBLIC }),
  };
  const registry: RegistryEdge = {
    newsSince: async (sequence) => {
      state.news += 1;
      const changes = sequence === null ? null : state.changes.slice(sequence);
      return { sequence: state.changes.length, changes };
    },
    copy: async (after) => {
      state.copied.push(after);
      const at = after === null ? -1 : state.tree.indexOf(after);
      const [first, ...others] = state.tree.slice(at + 1);
      const next = others.length > 0 && first !== undefined ? first : null;
      const node = { createdMs: 1, record: null, version: 0, children: [] };
      return { nodes: first === undefined ? [] : [{ ...node, path: first }], next };
    },
  };
  const answer = keepRecent(
    (request) => {
      state.asked += 1;
      return state.answer(request);
    },
    () => registry,
    () => state.nowMs,
  );
  const later: Promise<unknown>[] = [];
  const fetch = (request: Request) =>
    Promise.resolve(answer(request, { waitUntil: (work) => void later.push(work) }));
  const get = (headers: Record<string, string> = {}, url = URL_OF_JOE) =>
    fetch(new Request(url, { headers }));
  const text = async (headers?: Record<string, string>, url?: string) =>
    (await get(headers, url)).text();
  const write = () => fetch(new Request(WRITE, { method: "POST" }));
  return { state, fetch, get, text, write, registry, settled: () => Promise.all(later) };
}

function nodeOf(path: string): RegistryNodeView {
  const stat = { path: path.split("/").at(-1) ?? "", time: 1, size: 0, children: 0, version: 0 };
  return { path, stat, record: null, children: [] };
}

/** The next answers of the path are renewed for as long as nothing touches them. */
async function renewable(fixture: ReturnType<typeof remembered>, url?: string) {
  await fixture.text({}, url);
  fixture.state.nowMs += 1_000;
  return fixture.text({}, url);
}

describe("[RG60] an answer of the registry", () => {
  it("[RG60] is given again for a second, says its age, and has a request id of its own", async () => {
    const { state, get } = remembered();
    const first = await get();
    expect([await first.text(), first.headers.get("age")]).toEqual(["1", null]);
    state.nowMs += 999;
    const again = await get({ "x-request-id": "mine" });
    expect([await again.text(), again.headers.get("age")]).toEqual(["1", "1"]);
    expect(again.headers.get("x-request-id")).toBe("mine");
    expect(again.headers.get("cache-control")).toBe(PUBLIC["cache-control"]);
    state.nowMs += 1;
    expect(await (await get()).text()).toBe("2");
  });

  it("[RG75] is renewed by one question for all of them: whether anything has happened", async () => {
    const fixture = remembered();
    const { state, get, text } = fixture;
    const other = `${URL_OF_JOE}/db`;
    expect(await renewable(fixture)).toBe("2");
    expect(await text({}, other)).toBe("3");
    const { news } = state;
    state.nowMs += 5_000;
    const again = await get();
    expect([await again.text(), again.headers.get("age")]).toEqual(["2", "1"]);
    expect(await text({}, other)).toBe("3");
    expect([state.asked, state.news]).toEqual([3, news + 1]);
  });

  it.each<[string, Change, string]>([
    ["changes", { type: "bound", path: "/users/joe" }, "3"],
    ["gets something new below it", { type: "bound", path: "/users/joe/db/replica" }, "3"],
    ["is deleted with what is above it", { type: "deleted", path: "/users" }, "3"],
    ["stays while another changes", { type: "bound", path: "/users/sue" }, "2"],
    ["stays while what is above it changes", { type: "bound", path: "/users" }, "2"],
  ])("[RG75] of a path that %s: %o", async (_, change, expected) => {
    const fixture = remembered();
    await renewable(fixture);
    fixture.state.changes.push(change);
    fixture.state.nowMs += 1_000;
    expect(await fixture.text()).toBe(expected);
  });

  it("[RG75] that is known to be touched is read, and nothing else is asked", async () => {
    const fixture = remembered();
    const { state, text } = fixture;
    const other = "http://selvedge.test/registry/v1/users/sue";
    await renewable(fixture);
    await text({}, other);
    state.changes.push({ type: "bound", path: "/users/joe" });
    state.nowMs += 1_000;
    await text({}, other);
    const { asked, news } = state;
    await text();
    expect([state.asked, state.news]).toEqual([asked + 1, news]);
  });

  it("[RG75] is not renewed when there was news while it was read, which it may lack", async () => {
    const fixture = remembered();
    const { state, text } = fixture;
    await renewable(fixture);
    const slow = Promise.withResolvers<Response>();
    const { answer } = state;
    state.answer = () => slow.promise;
    const reading = text({}, `${URL_OF_JOE}/db`);
    await vi.waitUntil(() => state.asked === 3, { interval: 1 });
    state.answer = answer;
    state.changes.push({ type: "bound", path: "/users/joe/db" });
    state.nowMs += 1_000;
    await text();
    slow.resolve(new Response("as it was before", { headers: PUBLIC }));
    expect(await reading).toBe("as it was before");
    state.nowMs += 1_000;
    expect(await text({}, `${URL_OF_JOE}/db`)).toBe("5");
  });

  it("[RG75] is read anew when the registry no longer knows what has happened since", async () => {
    const fixture = remembered();
    const { state, text, registry } = fixture;
    await renewable(fixture);
    registry.newsSince = async () => ({ sequence: 9_999, changes: null });
    state.nowMs += 1_000;
    expect(await text()).toBe("3");
  });

  it("[RG75] is read when the registry cannot be asked what has happened", async () => {
    const fixture = remembered();
    const { state, text, registry } = fixture;
    await renewable(fixture);
    registry.newsSince = async () => {
      throw new Error("the registry is overloaded");
    };
    state.nowMs += 1_000;
    expect(await text()).toBe("3");
  });

  it("[RG75] is renewed before anybody has to wait for it", async () => {
    const fixture = remembered();
    const { state, text, settled } = fixture;
    await renewable(fixture);
    const { news } = state;
    state.nowMs += 600;
    expect([await text(), state.news]).toEqual(["2", news + 1]);
    await settled();
    state.nowMs += 600;
    expect([await text(), state.asked]).toEqual(["2", 2]);
  });

  it("[RG75] of another cluster, below /net, is not renewed", async () => {
    const fixture = remembered();
    const url = "http://selvedge.test/registry/v1/net/west/users";
    expect(await renewable(fixture, url)).toBe("2");
    fixture.state.nowMs += 1_000;
    expect(await fixture.text({}, url)).toBe("3");
  });

  it("[RG75] is copied in advance when many are asked for that are not kept", async () => {
    const { state, get, text, settled } = remembered();
    const headers = { ...PUBLIC, etag: '"a"', "content-type": "application/json" };
    state.answer = async () => new Response("{}", { headers });
    state.tree = ["/users/ann", "/users/joe/s32", "/users/joe/t", "/users/sue"];
    const crowd = async (from: number, to: number) => {
      for (let index = from; index <= to; index++) {
        await text({}, `${URL_OF_JOE}/s${index}`);
        await settled();
      }
    };
    await crowd(0, 31);
    expect(state.copied).toEqual([]);
    // Each part goes on after the one before, and the copy ends where all is there.
    await crowd(32, 35);
    expect(state.copied).toEqual(["/users/joe/s32", "/users/joe/t", null, "/users/ann"]);
    const next = await get({}, `${URL_OF_JOE}/t`);
    const { record: _, ...document } = nodeOf("/users/joe/t");
    expect(await next.json()).toEqual(document);
    expect(next.headers.get("etag")).not.toBe('"a"');
    expect(next.headers.get("content-type")).toBe("application/json");
    expect(state.asked).toBe(36);
  });

  it("[RG75] is given though the registry is too busy to be copied", async () => {
    const { state, text, settled, registry } = remembered();
    const headers = { ...PUBLIC, "content-type": "application/json" };
    state.answer = async () => new Response("{}", { headers });
    registry.copy = async () => {
      throw new Error("the registry is overloaded");
    };
    for (let index = 0; index < 34; index++) {
      expect(await text({}, `${URL_OF_JOE}/s${index}`)).toBe("{}");
      await settled();
    }
  });

  it("[RG75] that was copied is renewed like one that was read", async () => {
    const fixture = remembered();
    const { state, text, settled } = fixture;
    const headers = { ...PUBLIC, "content-type": "application/json" };
    state.answer = async () => new Response("{}", { headers });
    state.tree = ["/users/joe/t"];
    await renewable(fixture);
    for (let index = 0; index < 33; index++) await text({}, `${URL_OF_JOE}/s${index}`);
    await settled();
    const { asked } = state;
    state.nowMs += 1_000;
    await text({}, `${URL_OF_JOE}/t`);
    expect(state.asked).toBe(asked);
    state.changes.push({ type: "bound", path: "/users/joe/t" });
    state.nowMs += 1_000;
    await text({}, `${URL_OF_JOE}/t`);
    expect(state.asked).toBe(asked + 1);
  });

  it("[RG60] counts its age from before the registry was read", async () => {
    const { state, text } = remembered();
    state.answer = async () => {
      state.nowMs += 600;
      return new Response(`${state.asked}`, { headers: PUBLIC });
    };
    expect(await text()).toBe("1");
    state.nowMs += 399;
    expect(await text()).toBe("1");
    state.nowMs += 1;
    expect(await text()).toBe("2");
  });

  it.each(["no-cache", "max-age=0", "no-store"])("[RG60] is read anew with %s", async (control) => {
    const { text } = remembered();
    expect(await text()).toBe("1");
    expect(await text({ "cache-control": control })).toBe("2");
    expect(await text()).toBe("2");
  });

  it("[RG60] is not given for another question", async () => {
    const { text, fetch } = remembered();
    expect(await text()).toBe("1");
    expect(await text({ accept: "text/html" })).toBe("2");
    expect(await text({}, `${URL_OF_JOE}?list`)).toBe("3");
    const blue = URL_OF_JOE.replace("/registry", "/clusters/blue/registry");
    expect(await text({}, blue)).toBe("4");
    const body = new Uint8Array([0, 0]);
    const url = "http://selvedge.test/dns-query?name=x.joe.selvedge.internal";
    const query = { "content-type": "application/dns-message", "content-length": "2" };
    expect(await text({}, url)).toBe("5");
    const posted = await fetch(new Request(url, { method: "POST", headers: query, body }));
    expect(await posted.text()).toBe("6");
    expect(await text()).toBe("1");
  });

  it("[RG60] is the same for all who want JSON, however they say it", async () => {
    const { text } = remembered();
    for (const accept of ["application/json", "*/*", "application/json;q=0.9, */*"]) {
      expect(await text({ accept })).toBe("1");
    }
    const dns = "http://selvedge.test/dns-query?name=x.joe.selvedge.internal";
    expect(await text({ accept: "*/*" }, dns)).toBe("2");
    expect(await text({ accept: "image/png" }, dns)).toBe("3");
  });

  it("[RG60] costs no body for whoever has it", async () => {
    const { state, get } = remembered();
    const headers = { ...PUBLIC, etag: '"a"', "content-type": "application/json" };
    state.answer = async () => new Response("{}", { headers });
    await get();
    const known = await get({ "if-none-match": '"b", W/"a"' });
    expect([known.status, await known.text(), known.headers.get("etag")]).toEqual([304, "", '"a"']);
    expect(known.headers.has("content-type")).toBe(false);
    expect((await get({ "if-none-match": '"b"' })).status).toBe(200);
    expect(state.asked).toBe(1);
  });

  it.each<[string, () => Response]>([
    [
      "a refusal",
      () => new Response("", { status: 404, headers: { "cache-control": "no-store" } }),
    ],
    [
      "what is for one reader",
      () => new Response("", { headers: { "cache-control": "no-store" } }),
    ],
    ["what says nothing of caches", () => new Response("")],
  ])("[RG60] is not kept when it is %s", async (_, answer) => {
    const { state, get } = remembered();
    state.answer = async () => answer();
    await get();
    await get();
    expect(state.asked).toBe(2);
  });

  it("[RG60] is forgotten with a write, also one that was read while the write was done", async () => {
    const { state, get, text, write } = remembered();
    expect(await text()).toBe("1");
    await write();
    expect(await text()).toBe("3");
    const read = Promise.withResolvers<Response>();
    state.answer = () => read.promise;
    const slow = get({ "cache-control": "no-cache" });
    await vi.waitUntil(() => state.asked === 4, { interval: 1 });
    state.answer = async () => new Response(`${state.asked}`, { headers: PUBLIC });
    state.changes.push({ type: "bound", path: "/users/joe" });
    await write();
    read.resolve(new Response("as it was before", { headers: PUBLIC }));
    expect(await (await slow).text()).toBe("as it was before");
    expect(await text()).toBe("6");
  });

  it("[RG60] [RG75] is never older than a second, nor than an own write, in any order of events", async () => {
    const path = fc.constantFrom(...PATHS);
    const change = fc.record({ type: fc.constantFrom("bound" as const, "deleted"), path });
    const event = fc.oneof(
      { weight: 6, arbitrary: fc.record({ op: fc.constant("read" as const), path }) },
      { weight: 1, arbitrary: fc.record({ op: fc.constant("read anew" as const), path }) },
      { weight: 2, arbitrary: fc.record({ op: fc.constant("write" as const), change }) },
      { weight: 2, arbitrary: fc.record({ op: fc.constant("elsewhere" as const), change }) },
      {
        weight: 3,
        arbitrary: fc.record({
          op: fc.constant("wait" as const),
          ms: fc.constantFrom(1, 499, 1_000),
        }),
      },
    );
    // How far what is under way gets before the next event.
    const step = fc.record({ event, turns: fc.nat({ max: 5 }) });
    await fc.assert(
      fc.asyncProperty(
        fc.scheduler(),
        fc.array(step, { maxLength: 60, size: "max" }),
        async (s, steps) => {
          const { state, fetch, registry } = remembered();
          const changes: (Change & { readonly atMs: number })[] = [];
          state.changes = changes as Change[];
          // What an answer of the path shows: how many changes have touched it.
          const shown = (of: string, untilMs: number, least = changes.length) =>
            changes.filter(
              (each, index) =>
                (each.atMs <= untilMs || index < least) &&
                (each.path === of ||
                  each.path.startsWith(`${of}/`) ||
                  (each.type === "deleted" && of.startsWith(`${each.path}/`))),
            ).length;
          let writing: Change | null = null;
          state.answer = async (request) => {
            const own = writing;
            writing = null;
            await s.schedule(Promise.resolve());
            if (own !== null) changes.push({ ...own, atMs: state.nowMs });
            const of = request.url.split("/registry/v1")[1] ?? "";
            const body = `${shown(of, Number.POSITIVE_INFINITY)}`;
            await s.schedule(Promise.resolve());
            return new Response(body, { headers: PUBLIC });
          };
          const { newsSince } = registry;
          registry.newsSince = async (sequence) => {
            await s.schedule(Promise.resolve());
            const news = await newsSince(sequence);
            await s.schedule(Promise.resolve());
            return news;
          };
          let seenByAll = 0;
          const running: Promise<void>[] = [];
          const read = async (of: string, headers: Record<string, string>, oldestMs: number) => {
            const least = shown(of, oldestMs, seenByAll);
            const url = `http://selvedge.test/registry/v1${of}`;
            const response = await fetch(new Request(url, { headers }));
            expect(Number(await response.text())).toBeGreaterThanOrEqual(least);
          };
          const write = async (own: Change) => {
            writing = own;
            const done = fetch(new Request(WRITE, { method: "POST" }));
            await done;
            seenByAll = Math.max(
              seenByAll,
              changes.findLastIndex((each) => each.path === own.path) + 1,
            );
          };
          // At first all of them are kept, to be renewed.
          for (const waitMs of [0, 1_000]) {
            state.nowMs += waitMs;
            await s.waitFor(Promise.all(PATHS.map((each) => read(each, {}, 0))));
          }
          for (const { event: each, turns } of steps) {
            if (each.op === "wait") state.nowMs += each.ms;
            else if (each.op === "read") running.push(read(each.path, {}, state.nowMs - 1_000));
            else if (each.op === "read anew") {
              running.push(read(each.path, { "cache-control": "no-cache" }, state.nowMs));
            } else if (each.op === "write") running.push(write(each.change));
            else changes.push({ ...each.change, atMs: state.nowMs });
            for (let turn = 0; turn < turns && s.count() > 0; turn++) await s.waitOne();
          }
          await s.waitFor(Promise.all(running));
        },
      ),
      { numRuns: 500 },
    );
  });

  it("[RG60] takes a bounded place: the oldest goes first", async () => {
    const { state, text } = remembered();
    const urlOf = (index: number) => `${URL_OF_JOE}/s${index}`;
    for (let index = 0; index <= 65_536; index++) await text({}, urlOf(index));
    const { asked } = state;
    await text({}, urlOf(1));
    expect(state.asked).toBe(asked);
    await text({}, urlOf(0));
    expect(state.asked).toBe(asked + 1);
  });

  it("[RG60] of 52 MB in all is not kept, nor one of more than 64 KB", async () => {
    const { state, text } = remembered();
    const body = "x".repeat(65_000);
    state.answer = async () => new Response(body, { headers: PUBLIC });
    for (let index = 0; index < 800; index++) await text({}, `${URL_OF_JOE}/s${index}`);
    await text({}, `${URL_OF_JOE}/s0`);
    expect(state.asked).toBe(801);
    state.answer = async () => new Response(`${body}${body}`, { headers: PUBLIC });
    await text({}, `${URL_OF_JOE}/large`);
    await text({}, `${URL_OF_JOE}/large`);
    expect(state.asked).toBe(803);
  });

  it("[RG60] is for no stranger where readers have to say who they are", async () => {
    const { app, tokens, registry } = await fakeCluster({ registryReaders: "authenticated" });
    const answer = keepRecent(
      (request) => app.fetch(request),
      () => registry,
    );
    const fetch = async (request: Request) => answer(request, LATER);
    const read = (headers: Record<string, string>) =>
      fetch(new Request("http://selvedge.test/registry/v1/users", { headers }));
    expect((await read({ authorization: `Bearer ${tokens.joe}` })).status).toBe(200);
    expect((await read({})).status).toBe(401);
  });
});
