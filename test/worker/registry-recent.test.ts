import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { keepRecent } from "../../src/worker/registry-recent.ts";
import { fakeCluster } from "./fake-cluster.ts";

const URL_OF_JOE = "http://selvedge.test/registry/v1/users/joe";
const WRITE = "http://selvedge.test/ws/v1/registry-operations/bind";
const PUBLIC = { "cache-control": "public, max-age=1" };

/** An application that says how often it was asked; `state.answer` may be replaced. */
function remembered() {
  const state = {
    nowMs: 1_000_000,
    asked: 0,
    answer: async (_: Request) => new Response(`${state.asked}`, { headers: PUBLIC }),
  };
  const fetch = keepRecent(
    (request) => {
      state.asked += 1;
      return state.answer(request);
    },
    () => state.nowMs,
  );
  const get = (headers: Record<string, string> = {}, url = URL_OF_JOE) =>
    Promise.resolve(fetch(new Request(url, { headers })));
  const text = async (headers?: Record<string, string>, url?: string) =>
    (await get(headers, url)).text();
  const write = () => Promise.resolve(fetch(new Request(WRITE, { method: "POST" })));
  return { state, fetch, get, text, write };
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
    state.answer = async () => new Response(`${state.asked}`, { headers: PUBLIC });
    await write();
    read.resolve(new Response("as it was before", { headers: PUBLIC }));
    expect(await (await slow).text()).toBe("as it was before");
    expect(await text()).toBe("6");
  });

  it("[RG60] is never older than a second, whatever happens in between", async () => {
    const step = fc.oneof(
      fc.record({ op: fc.constant("read" as const), fresh: fc.boolean() }),
      fc.record({ op: fc.constant("write" as const) }),
      fc.record({ op: fc.constant("change elsewhere" as const) }),
      fc.record({ op: fc.constant("wait" as const), ms: fc.integer({ min: 1, max: 1_500 }) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
        const { state, text, write } = remembered();
        const changes = [{ atMs: state.nowMs, value: 0 }];
        const valueNow = () => changes.at(-1)?.value ?? 0;
        state.answer = async () => new Response(`${valueNow()}`, { headers: PUBLIC });
        let ownWrite = 0;
        for (const each of steps) {
          if (each.op === "wait") state.nowMs += each.ms;
          else if (each.op === "read") {
            const seen = Number(await text(each.fresh ? { "cache-control": "no-cache" } : {}));
            const oldest = changes.findLast(({ atMs }) => atMs <= state.nowMs - 1_000)?.value ?? 0;
            expect(seen).toBeGreaterThanOrEqual(each.fresh ? valueNow() : oldest);
            expect(seen).toBeGreaterThanOrEqual(ownWrite);
          } else {
            changes.push({ atMs: state.nowMs, value: valueNow() + 1 });
            if (each.op === "write") {
              await write();
              ownWrite = valueNow();
            }
          }
        }
      }),
    );
  });

  it("[RG60] takes a bounded place: the oldest goes first", async () => {
    const { state, text } = remembered();
    const urlOf = (index: number) => `${URL_OF_JOE}/s${index}`;
    for (let index = 0; index <= 16_384; index++) await text({}, urlOf(index));
    const { asked } = state;
    await text({}, urlOf(1));
    expect(state.asked).toBe(asked);
    await text({}, urlOf(0));
    expect(state.asked).toBe(asked + 1);
  });

  it("[RG60] of 17 MB in all is not kept, nor one of more than 64 KB", async () => {
    const { state, text } = remembered();
    const body = "x".repeat(65_000);
    state.answer = async () => new Response(body, { headers: PUBLIC });
    for (let index = 0; index < 300; index++) await text({}, `${URL_OF_JOE}/s${index}`);
    await text({}, `${URL_OF_JOE}/s0`);
    expect(state.asked).toBe(301);
    state.answer = async () => new Response(`${body}${body}`, { headers: PUBLIC });
    await text({}, `${URL_OF_JOE}/large`);
    await text({}, `${URL_OF_JOE}/large`);
    expect(state.asked).toBe(303);
  });

  it("[RG60] is for no stranger where readers have to say who they are", async () => {
    const { app, tokens } = await fakeCluster({ registryReaders: "authenticated" });
    const fetch = keepRecent(app.fetch);
    const read = (headers: Record<string, string>) =>
      fetch(new Request("http://selvedge.test/registry/v1/users", { headers }));
    expect((await read({ authorization: `Bearer ${tokens.joe}` })).status).toBe(200);
    expect((await read({})).status).toBe(401);
  });
});
