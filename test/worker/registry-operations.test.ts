/** RegistryOperations over HTTP, with real tokens and the real rules behind the routes. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { LIMITS } from "../../src/shared/limits.ts";
import { CONTAINER_ID, CONTAINER_PATH, type FakeCluster, fakeCluster } from "./fake-cluster.ts";

const RECORD = { type: "JSONServiceRecord", description: "hbase", external: [], internal: [] };
const DEMO = "/users/joe/org-apache-hbase/demo1";

let cluster: FakeCluster;
let log: ReturnType<typeof vi.spyOn>;
beforeEach(async () => {
  log = vi.spyOn(console, "log").mockReturnValue();
  cluster = await fakeCluster();
});
afterEach(() => {
  log.mockRestore();
});

type Who = keyof FakeCluster["tokens"];
function write(
  operation: string,
  body: unknown,
  how: { as?: Who; headers?: Record<string, string> } = {},
) {
  const token = how.as === undefined ? {} : { token: cluster.tokens[how.as] };
  const headers = how.headers === undefined ? {} : { headers: how.headers };
  return cluster.ask("POST", `/ws/v1/registry-operations/${operation}`, {
    body,
    ...token,
    ...headers,
  });
}
const resolve = async (path: string) => (await cluster.ask("GET", `/registry/v1${path}`)).json;

describe("a user who publishes", () => {
  it("[RG1] makes a path, binds a record, replaces it, and deletes it", async () => {
    const made = await write("mknode", { path: "/users/joe" }, { as: "joe" });
    expect([made.status, made.json]).toEqual([200, { path: "/users/joe", created: true }]);
    const body = { path: DEMO, record: RECORD, createParents: true };
    const bound = await write("bind", body, { as: "joe" });
    expect(bound.status, bound.text).toBe(200);
    expect((await resolve(DEMO)).record.description).toBe("hbase");
    const again = await write("bind", body, { as: "joe" });
    expect([again.status, again.json.reason]).toEqual([409, "FileAlreadyExistsException"]);
    const removed = await write("delete", { path: DEMO }, { as: "joe" });
    expect(removed.json).toEqual({ path: DEMO, deleted: true });
    expect((await cluster.ask("GET", `/registry/v1${DEMO}`)).status).toBe(404);
  });

  it.each([
    ["mknode", { path: "/users/joe/a/b" }, 404, "PathNotFoundException"],
    ["mknode", { path: "/users/Joe" }, 400, "InvalidPathnameException"],
    ["bind", { path: "/users/joe", record: RECORD }, 403, "NoPathPermissionsException"],
    ["bind", { path: "/users/joe/a", record: { type: "x" } }, 400, "InvalidRecordException"],
    ["delete", { path: "/users/joe/none" }, 404, "PathNotFoundException"],
    ["delete", { path: "/users/joe/full" }, 409, "PathIsNotEmptyDirectoryException"],
    ["delete", { path: "/users" }, 409, undefined],
    ["bind", { path: "/services/a", record: RECORD }, 403, "NoPathPermissionsException"],
    ["bind", { path: "/users/eve/a", record: RECORD }, 403, "NoPathPermissionsException"],
    ["get-acl", { path: "/services" }, 403, "NoPathPermissionsException"],
  ])("[RG1] hears Java's reason: %s %j", async (operation, body, status, reason) => {
    await write("mknode", { path: "/users/joe/full/child", createParents: true }, { as: "joe" });
    const answer = await write(operation, body, { as: "joe" });
    expect([answer.status, answer.json.reason]).toEqual([status, reason]);
    expect(answer.headers.get("content-type")).toBe("application/problem+json");
  });

  it("[RG1] publishes a service with its components in one transaction, or not at all", async () => {
    const bindAt = (path: string) => ({ op: "bind", path, record: RECORD, createParents: true });
    const operations = [bindAt(DEMO), bindAt(`${DEMO}/components/c1`)];
    const done = await write("transact", { operations }, { as: "joe" });
    expect(done.json.results.map(({ op }: { op: string }) => op)).toEqual(["bind", "bind"]);
    const half = [bindAt(`${DEMO}/x`), { op: "delete", path: `${DEMO}/none` }];
    expect((await write("transact", { operations: half }, { as: "joe" })).status).toBe(404);
    expect((await resolve(DEMO)).children).toEqual(["components"]);
  });

  it("[RG1] hears which record of a transaction is none, and that it is not bound", async () => {
    const bindAt = (path: string, record: object) => ({ op: "bind", path, record });
    const operations = [bindAt("/users/joe/a", RECORD), bindAt("/users/joe/b", { type: "x" })];
    const answer = await write("transact", { operations }, { as: "joe" });
    expect([answer.status, answer.json.reason]).toEqual([400, "InvalidRecordException"]);
    expect(answer.json.detail).toContain("/users/joe/b: ");
    expect((await cluster.ask("GET", "/registry/v1/users/joe/a")).status).toBe(404);
  });

  it.each([
    ["mknode", {}],
    ["mknode", { path: "/users/joe/a", createParent: true }],
    ["bind", { path: "/users/joe/a" }],
    ["bind", { path: "/users/joe/a", record: [] }],
    ["bind", { path: "/users/joe/a", record: RECORD, ifVersion: -1 }],
    ["transact", { operations: [{ op: "purge", path: "/" }] }],
    ["set-acl", { path: "/users/joe", add: [{ scheme: "system", id: "yarn", permissions: "r" }] }],
  ])("[RG1] hears which field is wrong: %s %j", async (operation, body) => {
    const answer = await write(operation, body, { as: "joe" });
    expect(answer.status).toBe(400);
    expect(answer.json.findings.length).toBeGreaterThan(0);
  });

  it("[RG1] cannot shake the registry with a record nested without end", async () => {
    const deep = `{"path":"/users/joe/a","createParents":true,"record":{"a":${"[".repeat(100_000)}${"]".repeat(100_000)}}}`;
    const answer = await write("bind", deep, { as: "joe" });
    expect([answer.status, answer.json.findings[0].path]).toEqual([400, "a"]);
  });

  it("[RG1] cannot send more than a body may hold", async () => {
    const record = { ...RECORD, text: "x".repeat(LIMITS.requestBodyBytesMax) };
    expect((await write("bind", { path: "/users/joe/a", record }, { as: "joe" })).status).toBe(413);
  });
});

describe("compare and set", () => {
  const bindIf = (headers: Record<string, string>, more: object = {}) =>
    write("bind", { path: "/users/joe/a", record: RECORD, ...more }, { as: "joe", headers });

  it("[RG2] binds with If-Match in place of that version only", async () => {
    await write("mknode", { path: "/users/joe" }, { as: "joe" });
    const first = await bindIf({ "if-none-match": "*" });
    expect(first.headers.get("etag")).toBe(`"${first.json.version}"`);
    expect((await resolve("/users/joe/a")).stat.version).toBe(first.json.version);
    const match = { "if-match": `"${first.json.version}"` };
    const second = await bindIf(match, { record: { ...RECORD, description: "second" } });
    expect(second.json.version).toBeGreaterThan(first.json.version);
    const third = await bindIf(match, { record: { ...RECORD, description: "third" } });
    expect([third.status, third.json.reason]).toEqual([412, "VersionMismatch"]);
    expect((await bindIf({ "if-none-match": "*" })).status).toBe(412);
    expect((await resolve("/users/joe/a")).record.description).toBe("second");
  });

  it.each([
    [{ "if-match": "*" }, {}],
    [{ "if-match": 'W/"1"' }, {}],
    [{ "if-match": '"a-hash"' }, {}],
    [{ "if-none-match": '"1"' }, {}],
    [{ "if-match": '"1"', "if-none-match": "*" }, {}],
    [{ "if-match": '"1"' }, { ifVersion: 1 }],
  ])("[RG2] refuses a condition that it cannot read: %j %j", async (headers, more) => {
    const answer = await bindIf(headers, more);
    expect([answer.status, answer.json.hint]).toEqual([
      400,
      expect.stringContaining("stat.version"),
    ]);
  });
});

describe("who may write", () => {
  it.each([
    ["/users/joe/x", ["admin", "joe"]],
    ["/users/eve/x", ["admin", "eve"]],
    ["/services/x", ["admin"]],
    ["/x", ["admin"]],
    [`${CONTAINER_PATH}/x`, ["admin", "joe", "container"]],
    ["/users/joe/yarn-service/other/x", ["admin", "joe"]],
  ])("[RG5] at %s: %j", async (path, allowed) => {
    for (const as of ["admin", "joe", "eve", "container", "node", "join"] as const) {
      cluster = await fakeCluster();
      await write("mknode", { path: "/users/joe" }, { as: "joe" });
      const answer = await write("mknode", { path, createParents: true }, { as });
      const refused = as === "node" || as === "join" ? 401 : 403;
      expect(`${as} ${answer.status}`).toBe(`${as} ${allowed.includes(as) ? 200 : refused}`);
    }
  });

  it("[RG5] nobody without a token, and nobody in a cluster that is not claimed", async () => {
    expect((await write("mknode", { path: "/users/joe" })).status).toBe(401);
    cluster = await fakeCluster({ claimed: false });
    const headers = { "X-Registry-Accessor": "app:s3cret-of-app" };
    expect((await write("mknode", { path: "/users/joe" }, { headers })).status).toBe(503);
  });

  it("[RG9] a container's credential is good for the registry and for nothing else", async () => {
    const token = cluster.tokens.container;
    expect((await cluster.ask("GET", "/app/v1/services", { token })).status).toBe(401);
    expect((await cluster.ask("GET", "/ws/v1/security/whoami", { token })).status).toBe(401);
    const wrong = await cluster.keys.sign({ aud: "registry", sub: "joe", path: CONTAINER_PATH });
    const answer = await cluster.ask("POST", "/ws/v1/registry-operations/mknode", {
      token: wrong,
      body: { path: `${CONTAINER_PATH}/x` },
    });
    expect(answer.status).toBe(401);
  });

  it("[RG9] what a container has made goes when an administrator purges it", async () => {
    await write("mknode", { path: "/users/joe" }, { as: "joe" });
    const path = `${CONTAINER_PATH}/jmx`;
    await write("bind", { path, record: RECORD, createParents: true }, { as: "container" });
    const ended = { yarnId: CONTAINER_ID, persistence: "container" };
    expect((await write("purge", ended, { as: "joe" })).status).toBe(403);
    expect((await write("purge", ended, { as: "admin" })).json).toEqual({ purged: 1 });
  });

  it("[RG7] whom the owner lets in", async () => {
    const path = "/users/joe/shared";
    await write("mknode", { path, createParents: true }, { as: "joe" });
    const add = [{ scheme: "user", id: "eve", permissions: "c" }];
    const acl = await write("set-acl", { path, add }, { as: "joe" });
    expect(acl.json.entries).toContainEqual({ ...add[0], implied: false });
    expect((await write("mknode", { path: `${path}/x` }, { as: "eve" })).status).toBe(200);
    expect((await write("get-acl", { path }, { as: "joe" })).json).toEqual(acl.json);
    expect((await write("get-acl", { path }, { as: "eve" })).status).toBe(403);
  });
});

describe("accessors", () => {
  const APP = { "X-Registry-Accessor": "app:s3cret-of-app" };

  it("[RG8] in the header let a program without a token write where they are named", async () => {
    const made = { path: "/users/joe/app", createParents: true };
    await write("mknode", made, { as: "joe", headers: APP });
    const path = "/users/joe/app/c1";
    expect((await write("bind", { path, record: RECORD }, { headers: APP })).status).toBe(200);
    const wrong = { "X-Registry-Accessor": "app:s3cret-of-apq" };
    expect((await write("delete", { path }, { headers: wrong })).status).toBe(403);
    const several = { "X-Registry-Accessor": "other:other-s3cret, app:s3cret-of-app" };
    expect((await write("delete", { path }, { headers: several })).status).toBe(200);
  });

  it("[RG8] never appear in an answer or in the log", async () => {
    await write(
      "mknode",
      { path: "/users/joe/app", createParents: true },
      { as: "joe", headers: APP },
    );
    const acl = await write("get-acl", { path: "/users/joe/app" }, { as: "joe", headers: APP });
    expect(acl.json.entries).toContainEqual({
      scheme: "digest",
      id: "app",
      permissions: "rwcda",
      implied: false,
    });
    expect(acl.text + JSON.stringify(log.mock.calls)).not.toMatch(/s3cret|pbkdf2/);
  });

  it.each([
    "app",
    "app:short",
    ":s3cret-of-app",
    "a b:s3cret-of-app",
    "app:s3cret:of:app",
    "app:sécret-of-app",
    "",
    "a:s3cret-1,a:s3cret-2",
    "a:s3cret-1,b:s3cret-1,c:s3cret-1,d:s3cret-1,e:s3cret-1",
  ])("[RG8] are refused when they are none: %j", async (accessor) => {
    const headers = { "X-Registry-Accessor": accessor };
    const answer = await write("mknode", { path: "/users/joe" }, { as: "joe", headers });
    expect([answer.status, answer.json?.reason]).toEqual([400, "InvalidAccessor"]);
  });
});
