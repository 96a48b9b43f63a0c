import { env, evictDurableObject, runInDurableObject } from "cloudflare:test";
import { exports } from "cloudflare:workers";
import { createLocalJWKSet, decodeProtectedHeader, type JWTPayload, jwtVerify } from "jose";
import { afterEach, describe, expect, it, vi } from "vitest";
import { ClusterKeys, type ClusterKeysOptions } from "../../src/durable/cluster-security.ts";
import type { ResourceManager } from "../../src/durable/resource-manager.ts";
import type { Reply } from "../../src/shared/errors.ts";
import type { VerificationKey } from "../../src/shared/protocol/resource-tracker.ts";

const objects = (env as unknown as { RESOURCE_MANAGER: DurableObjectNamespace<ResourceManager> })
  .RESOURCE_MANAGER;
const NODE_ID = "worker1.example.com:8041";
const START_MS = 1_800_000_000_000;
/** Set for the deployment by vitest.config.ts. */
const DEPLOYED_CODE = "test-claim-code";
let count = 0;

afterEach(() => {
  vi.restoreAllMocks();
});

type Clock = { nowMs: number };

/** Runs `test` on the keys of a new cluster, over an object's own SQLite. */
function withKeys<Result>(
  options: Partial<ClusterKeysOptions>,
  test: (keys: ClusterKeys, clock: Clock, again: () => ClusterKeys) => Promise<Result>,
): Promise<Result> {
  const object = objects.getByName(`keys-${++count}`);
  return runInDurableObject(object, (_, state) => {
    const clock = { nowMs: START_MS };
    const open = () =>
      new ClusterKeys(state.storage.sql, {
        cluster: "default",
        nowMs: () => clock.nowMs,
        ...options,
      });
    return test(open(), clock, open);
  });
}

function expectOk<Value>(reply: Reply<Value>): Value {
  if (!reply.ok) throw new Error(`${reply.error.code}: ${reply.error.message}`);
  return reply.value;
}

function codeOf(reply: Reply<unknown>): string {
  return reply.ok ? "ok" : reply.error.code;
}

async function claimsOf(
  token: string,
  keys: readonly VerificationKey[],
  nowMs = START_MS,
): Promise<JWTPayload> {
  const set = createLocalJWKSet({ keys: keys.map((key) => ({ ...key, alg: "EdDSA" })) });
  const { payload } = await jwtVerify(token, set, {
    issuer: "selvedge:default",
    currentDate: new Date(nowMs),
  });
  return payload;
}

/** The code that the log line shows to whoever may read the log. */
function codeIn(warn: { readonly mock: { readonly calls: readonly unknown[][] } }): string {
  const text = warn.mock.calls.map(([line]) => String(line)).join("\n");
  return /--claim (\S+)/.exec(text)?.[1] ?? "";
}

describe("the cluster's key", () => {
  it("is made with the first token, and its private half is never shown", async () => {
    await withKeys({}, async (keys) => {
      expect(keys.verificationKeys()).toEqual([]);
      const { token } = expectOk(await keys.createToken({ user: "joe", role: "user" }, 60));
      const shown = await keys.getVerificationKeys();
      expect(shown).toEqual([
        { kid: expect.any(String), kty: "OKP", crv: "Ed25519", x: expect.any(String) },
      ]);
      expect(decodeProtectedHeader(token)).toEqual({ alg: "EdDSA", kid: shown[0]?.kid });
    });
  });

  it("is one, however many ask for the first token at once", async () => {
    await withKeys({}, async (keys, _, again) => {
      const other = again();
      const made = await Promise.all(
        [keys, other, keys, other, keys].map((each) =>
          each.createToken({ user: "joe", role: "user" }, 60),
        ),
      );
      const shown = keys.verificationKeys();
      expect(shown).toHaveLength(1);
      for (const reply of made) {
        expect((await claimsOf(expectOk(reply).token, shown)).sub).toBe("joe");
      }
    });
  });

  it("is the same after the object was evicted", async () => {
    const object = objects.getByName("evicted");
    const claimed = expectOk(await object.claim(DEPLOYED_CODE, "ann"));
    const before = await object.getVerificationKeys();
    await evictDurableObject(object);
    expect(await object.getVerificationKeys()).toEqual(before);
    expect(await object.isClaimed()).toBe(true);
    const { payload } = await jwtVerify(
      claimed.token,
      createLocalJWKSet({ keys: before.map((key) => ({ ...key, alg: "EdDSA" })) }),
      { issuer: "selvedge:evicted" },
    );
    expect(payload).toMatchObject({ aud: "user", sub: "ann", role: "admin" });
  });

  it("can be replaced, and what the old one signed stays valid", async () => {
    await withKeys({}, async (keys) => {
      const sign = async () =>
        expectOk(await keys.createToken({ user: "joe", role: "user" }, 60)).token;
      const old = await sign();
      const { kid } = await keys.rotateKey();
      const fresh = await sign();
      expect(decodeProtectedHeader(fresh).kid).toBe(kid);
      expect(decodeProtectedHeader(old).kid).not.toBe(kid);
      const shown = keys.verificationKeys();
      expect((await claimsOf(old, shown)).sub).toBe("joe");
      expect((await claimsOf(fresh, shown)).sub).toBe("joe");
    });
  });
});

describe("tokens", () => {
  it("say who they are for, of which cluster, and when they end", async () => {
    await withKeys({}, async (keys) => {
      const reply = await keys.createToken({ user: "joe", role: "user" }, 3_600);
      const { token, expiresMs } = expectOk(reply);
      expect(expiresMs).toBe(START_MS + 3_600_000);
      expect(await claimsOf(token, keys.verificationKeys())).toEqual({
        iss: "selvedge:default",
        aud: "user",
        sub: "joe",
        role: "user",
        jti: expect.any(String),
        iat: START_MS / 1_000,
        exp: START_MS / 1_000 + 3_600,
      });
    });
  });

  it.each([
    [{ user: "Joe", role: "user" }, 60],
    [{ user: "joe/../ann", role: "user" }, 60],
    [{ user: "joe", role: "user" }, 0],
    [{ user: "joe", role: "user" }, 1.5],
    [{ user: "joe", role: "user" }, Number.NaN],
    [{ user: "joe", role: "user" }, 367 * 86_400],
  ] as const)("are not made for %j living %d seconds", async (principal, lifetimeSeconds) => {
    await withKeys({}, async (keys) => {
      const reply = await keys.createToken(principal, lifetimeSeconds);
      expect(codeOf(reply)).toBe("INVALID_ARGUMENT");
    });
  });

  it("of containers are in the order asked, each for one container on one node", async () => {
    await withKeys({}, async (keys) => {
      const grants = ["000001", "000002"].map((sequence) => ({
        containerId: `container_e01_1503963985568_0002_01_${sequence}`,
        nodeId: NODE_ID,
        user: "joe",
        resource: { memoryMb: 256, vcores: 1 },
        version: 0,
      }));
      const tokens = await keys.signContainerTokens(grants, 600);
      const claims = await Promise.all(
        tokens.map((token) => claimsOf(token, keys.verificationKeys())),
      );
      expect(claims).toMatchObject(grants.map((grant) => ({ aud: "container", ...grant })));
      expect(claims[0]?.exp).toBe(START_MS / 1_000 + 600);
    });
  });
});

describe("claiming a cluster with the code in its log", () => {
  it("prints the code once, with the command, and stores only its hash", async () => {
    const warn = vi.spyOn(console, "warn").mockReturnValue();
    const object = objects.getByName(`keys-${++count}`);
    await runInDurableObject(object, async (_, state) => {
      const options = { cluster: "blue", nowMs: () => START_MS };
      const keys = new ClusterKeys(state.storage.sql, options);
      await Promise.all([keys.isClaimed(), keys.isClaimed()]);
      expect(await new ClusterKeys(state.storage.sql, options).isClaimed()).toBe(false);
      expect(warn).toHaveBeenCalledTimes(1);
      expect(warn.mock.calls[0]?.[0]).toMatch(
        /selvedge login --url \S+ --cluster blue --claim [0-9A-Z]{4}(-[0-9A-Z]{4}){4}$/,
      );
      const stored = JSON.stringify(
        state.storage.sql.exec("SELECT * FROM security_claim").toArray(),
      );
      expect(stored).not.toContain(codeIn(warn).replaceAll("-", ""));
    });
  });

  it("takes the code as people retype it, and makes the first to send it administrator", async () => {
    const warn = vi.spyOn(console, "warn").mockReturnValue();
    await withKeys({}, async (keys) => {
      await keys.isClaimed();
      const typed = codeIn(warn).toLowerCase().replaceAll("-", " ").replaceAll("0", "o");
      const { token } = expectOk(await keys.claim(typed, "ann"));
      expect(await claimsOf(token, keys.verificationKeys())).toMatchObject({
        aud: "user",
        sub: "ann",
        role: "admin",
      });
      expect(await keys.isClaimed()).toBe(true);
      expect(codeOf(await keys.claim(typed, "eve"))).toBe("ALREADY_EXISTS");
    });
  });

  it("has one winner among those who send it at the same time", async () => {
    const warn = vi.spyOn(console, "warn").mockReturnValue();
    await withKeys({}, async (keys) => {
      await keys.isClaimed();
      const code = codeIn(warn);
      const users = ["ann", "bob", "eve"];
      const replies = await Promise.all(users.map((user) => keys.claim(code, user)));
      expect(replies.map(codeOf).sort()).toEqual(["ALREADY_EXISTS", "ALREADY_EXISTS", "ok"]);
    });
  });

  it("makes the code even for who sends one before there is any", async () => {
    const warn = vi.spyOn(console, "warn").mockReturnValue();
    await withKeys({}, async (keys) => {
      for (const code of ["", "undefined", "null"]) {
        expect(codeOf(await keys.claim(code, "eve"))).toBe("PERMISSION_DENIED");
      }
      expect(warn).toHaveBeenCalledTimes(1);
      expect(codeOf(await keys.claim(codeIn(warn), "ann"))).toBe("ok");
    });
  });

  it("cannot be tried often", async () => {
    const warn = vi.spyOn(console, "warn").mockReturnValue();
    await withKeys({}, async (keys, clock) => {
      await keys.isClaimed();
      for (let attempt = 0; attempt < 10; attempt++) {
        expect(codeOf(await keys.claim(`WRONG-${attempt}`, "eve"))).toBe("PERMISSION_DENIED");
      }
      const code = codeIn(warn);
      expect(codeOf(await keys.claim(code, "ann"))).toBe("RESOURCE_EXHAUSTED");
      clock.nowMs += 59_999;
      expect(codeOf(await keys.claim(code, "ann"))).toBe("RESOURCE_EXHAUSTED");
      clock.nowMs += 1;
      expect(codeOf(await keys.claim(code, "ann"))).toBe("ok");
    });
  });
});

describe("guessing the claim code", () => {
  it("gains nothing by trying many at the same time", async () => {
    await withKeys({ claimCode: "Correct-Horse" }, async (keys) => {
      const guesses = Array.from({ length: 50 }, (_, number) =>
        keys.claim(`guess-${number}`, "eve"),
      );
      const codes = (await Promise.all(guesses)).map(codeOf);
      expect(codes.filter((code) => code === "PERMISSION_DENIED")).toHaveLength(10);
      expect(codes.filter((code) => code === "RESOURCE_EXHAUSTED")).toHaveLength(40);
    });
  });
});

describe("claiming a cluster with the deployment's SELVEDGE_CLAIM_CODE", () => {
  it("takes exactly that code and prints none", async () => {
    const warn = vi.spyOn(console, "warn").mockReturnValue();
    await withKeys({ claimCode: "Correct-Horse" }, async (keys) => {
      expect(await keys.isClaimed()).toBe(false);
      expect(warn).not.toHaveBeenCalled();
      expect(codeOf(await keys.claim("correct-horse", "eve"))).toBe("PERMISSION_DENIED");
      expect(codeOf(await keys.claim("Correct-Horse", "ann"))).toBe("ok");
      expect(codeOf(await keys.claim("Correct-Horse", "eve"))).toBe("ALREADY_EXISTS");
    });
  });

  it("refuses a code that could be guessed", async () => {
    await withKeys({ claimCode: "admin" }, async (keys) => {
      expect(codeOf(await keys.claim("admin", "eve"))).toBe("FAILED_PRECONDITION");
    });
  });

  it("opens a claimed cluster once more when its owner has set a new one", async () => {
    const object = objects.getByName(`keys-${++count}`);
    await runInDurableObject(object, async (_, state) => {
      const open = (claimCode: string) =>
        new ClusterKeys(state.storage.sql, { cluster: "c", claimCode, nowMs: () => START_MS });
      expect(codeOf(await open("the-first-code").claim("the-first-code", "ann"))).toBe("ok");
      const renewed = open("the-second-code");
      expect(codeOf(await renewed.claim("the-first-code", "eve"))).toBe("PERMISSION_DENIED");
      expect(codeOf(await renewed.claim("the-second-code", "ann"))).toBe("ok");
      expect(codeOf(await renewed.claim("the-second-code", "eve"))).toBe("ALREADY_EXISTS");
    });
  });

  it("needs a user's name that is one", async () => {
    await withKeys({ claimCode: "Correct-Horse" }, async (keys) => {
      expect(codeOf(await keys.claim("Correct-Horse", "../ann"))).toBe("INVALID_ARGUMENT");
      expect(await keys.isClaimed()).toBe(false);
    });
  });
});

describe("join tokens", () => {
  const jtiOf = async (keys: ClusterKeys, token: string, nowMs = START_MS) => {
    const { aud, jti } = await claimsOf(token, keys.verificationKeys(), nowMs);
    expect(aud).toBe("node-join");
    return jti ?? "";
  };

  it("are worth their number of uses, also when all are used at once", async () => {
    await withKeys({}, async (keys) => {
      const { token } = expectOk(await keys.createJoinToken(3, 60));
      const jti = await jtiOf(keys, token);
      const replies = await Promise.all(
        [1, 2, 3, 4, 5].map((number) => keys.joinNode(jti, `worker${number}:8041`)),
      );
      expect(replies.map(codeOf).sort()).toEqual([
        "UNAUTHENTICATED",
        "UNAUTHENTICATED",
        "ok",
        "ok",
        "ok",
      ]);
      expect(codeOf(await keys.joinNode(jti, NODE_ID))).toBe("UNAUTHENTICATED");
    });
  });

  it("give the credential of one node", async () => {
    await withKeys({}, async (keys) => {
      const { token } = expectOk(await keys.createJoinToken(1, 60));
      const joined = expectOk(await keys.joinNode(await jtiOf(keys, token), NODE_ID));
      const claims = await claimsOf(joined.credential, keys.verificationKeys());
      expect(claims).toMatchObject({ aud: "node", sub: NODE_ID });
      expect(joined.expiresMs).toBe((claims.exp ?? 0) * 1_000);
    });
  });

  it("end when their time is over, and are forgotten when the next one is made", async () => {
    const object = objects.getByName(`keys-${++count}`);
    await runInDurableObject(object, async (_, state) => {
      const clock = { nowMs: START_MS };
      const options = { cluster: "default", nowMs: () => clock.nowMs };
      const keys = new ClusterKeys(state.storage.sql, options);
      const { token } = expectOk(await keys.createJoinToken(5, 60));
      const jti = await jtiOf(keys, token);
      clock.nowMs += 60_000;
      expect(codeOf(await keys.joinNode(jti, NODE_ID))).toBe("UNAUTHENTICATED");
      await keys.createJoinToken(1, 60);
      const rows = state.storage.sql.exec("SELECT jti FROM security_join_tokens").toArray();
      expect(rows).toHaveLength(1);
      expect(rows).not.toContainEqual({ jti });
    });
  });

  it("that nobody made are worth nothing", async () => {
    await withKeys({}, async (keys) => {
      expect(codeOf(await keys.joinNode("made-up", NODE_ID))).toBe("UNAUTHENTICATED");
    });
  });

  it.each([
    [0, 60],
    [1.5, 60],
    [100_001, 60],
    [1, 0],
    [1, 367 * 86_400],
  ])("have sensible limits: not %d uses in %d s", async (uses, lifetimeSeconds) => {
    await withKeys({}, async (keys) => {
      expect(codeOf(await keys.createJoinToken(uses, lifetimeSeconds))).toBe("INVALID_ARGUMENT");
    });
  });

  it("are not used up by a node id that is none", async () => {
    await withKeys({}, async (keys) => {
      const { token } = expectOk(await keys.createJoinToken(1, 60));
      const jti = await jtiOf(keys, token);
      expect(codeOf(await keys.joinNode(jti, "../etc"))).toBe("INVALID_ARGUMENT");
      expect(codeOf(await keys.joinNode(jti, NODE_ID))).toBe("ok");
    });
  });
});

describe("through the Worker", () => {
  const ask = (path: string, token: string | null, init: RequestInit = {}) =>
    (exports as unknown as { default: Fetcher }).default.fetch(
      `https://cluster.example.com/clusters/edge${path}`,
      {
        ...init,
        headers: {
          ...(token === null ? {} : { Authorization: `Bearer ${token}` }),
          "Content-Type": "application/json",
          ...init.headers,
        },
      },
    );
  const post = async (path: string, token: string | null, body: unknown) => {
    const response = await ask(path, token, { method: "POST", body: JSON.stringify(body) });
    return { status: response.status, json: await response.json<Record<string, string>>() };
  };

  it("leads from the claim to a connected node, and no step can be left out", async () => {
    const join = "/ws/v1/security/join-tokens";
    expect((await post(join, null, {})).status).toBe(503);
    const claim = { code: DEPLOYED_CODE, user: "ann" };
    const { token = "" } = (await post("/ws/v1/security/claim", null, claim)).json;
    expect((await post(join, null, {})).status).toBe(401);
    const { token: joinToken = "" } = (await post(join, token, {})).json;
    const node = { nodeId: NODE_ID };
    expect((await post("/ws/v1/node/join", token, node)).status).toBe(401);
    const { credential = "" } = (await post("/ws/v1/node/join", joinToken, node)).json;
    expect((await post("/ws/v1/node/join", joinToken, node)).status).toBe(401);

    const upgrade = { headers: { Upgrade: "websocket" } };
    expect((await ask("/ws/v1/node/connect", token, upgrade)).status).toBe(401);
    const response = await ask("/ws/v1/node/connect", credential, upgrade);
    expect(response.status).toBe(101);
    expect(response.webSocket).not.toBeNull();
    response.webSocket?.accept();
    response.webSocket?.close();
  });

  it("answers with the same headers as everywhere", async () => {
    const response = await ask("/healthz", null);
    expect(await response.json()).toMatchObject({ status: "ok", cluster: "edge" });
    expect(response.headers.get("x-request-id")).not.toBeNull();
    expect(response.headers.get("x-frame-options")).toBe("DENY");
    const registry = await ask("/registry/v1/users", null);
    await registry.body?.cancel();
    expect(registry.headers.get("x-content-type-options")).toBe("nosniff");
  });
});
