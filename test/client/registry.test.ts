/** The typed client against the real application on a real port. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { createHttp } from "../../src/client/http.ts";
import { type RegistryClient, registryClient } from "../../src/client/registry.ts";
import {
  currentUser,
  extractServiceRecords,
  homePathForCurrentUser,
  listServiceRecords,
  statChildren,
} from "../../src/client/registry-records.ts";
import { type Served, serve } from "../support/serve.ts";
import { inTwoIsolates } from "../support/two-isolates.ts";
import { type FakeCluster, fakeCluster } from "../worker/fake-cluster.ts";

let cluster: FakeCluster;
let server: Served;
beforeEach(async () => {
  vi.spyOn(console, "log").mockReturnValue();
  cluster = await fakeCluster();
  server = await serve(cluster.app);
});
afterEach(async () => {
  await server.close();
  vi.restoreAllMocks();
});

const http = (who?: "joe" | "eve") =>
  createHttp({ url: server.url, ...(who === undefined ? {} : { token: cluster.tokens[who] }) });
const reasonOf = async (work: Promise<unknown>) =>
  work.then(
    () => "ok",
    (error: { failure: { reason?: string } }) => error.failure.reason,
  );

describe("RegistryOperations", () => {
  let registry: RegistryClient;
  beforeEach(() => {
    registry = registryClient(http("joe"));
  });

  it("[RG13] has Java's methods, with Java's answers", async () => {
    const path = "/users/joe/db";
    expect(await registry.mknode("/users/joe")).toBe(true);
    expect(await registry.mknode("/users/joe", true)).toBe(false);
    const version = await registry.bind(path, { description: "one" });
    expect(await registry.exists(path)).toBe(true);
    expect(await registry.stat(path)).toMatchObject({ path: "db", version, children: 0 });
    expect((await registry.resolve(path)).description).toBe("one");
    expect(await registry.list("/users/joe")).toEqual(["db"]);
    expect(await registry.delete(path)).toBe(true);
    expect(await registry.exists(path)).toBe(false);
  });

  it("[RG61] shows what it has written itself, where others may see what was before", async () => {
    const edge = await serve(inTwoIsolates(cluster));
    const client = (token?: string) =>
      registryClient(createHttp({ url: edge.url, ...(token === undefined ? {} : { token }) }));
    const [writer, other] = [client(cluster.tokens.joe), client()];
    const path = "/users/joe/db";
    await writer.bind(path, { description: "one" }, { createParents: true });
    expect((await other.resolve(path)).description).toBe("one");
    await writer.bind(path, { description: "two" }, { overwrite: true });
    expect((await writer.resolve(path)).description).toBe("two");
    expect(await reasonOf(writer.bind(path, {}))).toBe("FileAlreadyExistsException");
    await edge.close();
  });

  it("[RG13] throws with the names of Java's exceptions", async () => {
    const path = "/users/joe/db";
    expect(await reasonOf(registry.delete(path))).toBe("PathNotFoundException");
    expect(await reasonOf(registry.resolve("/users"))).toBe("NoRecordException");
    expect(await reasonOf(registry.mknode("/services/x"))).toBe("NoPathPermissionsException");
    await registry.bind(path, {}, { createParents: true });
    expect(await reasonOf(registry.bind(path, {}))).toBe("FileAlreadyExistsException");
    const stale = registry.bind(path, {}, { ifVersion: 1 });
    expect(await reasonOf(stale)).toBe("VersionMismatch");
  });

  it("[RG13] does several operations at once, or none", async () => {
    const results = await registry.transact([
      { op: "bind", path: "/users/joe/a", record: {}, createParents: true },
      { op: "delete", path: "/users/joe/none", missingOk: true },
    ]);
    expect(results.map(({ op }) => op)).toEqual(["bind", "delete"]);
  });

  it("[RG13] shows the accessors that it holds with every write, until they are cleared", async () => {
    expect(registry.addWriteAccessor("app", "s3cret-of-app")).toBe(true);
    await registry.mknode("/users/joe/app", true);
    const program = registryClient(http());
    expect(await reasonOf(program.mknode("/users/joe/app/c1"))).toBeUndefined();
    program.addWriteAccessor("app", "s3cret-of-app");
    expect(await program.mknode("/users/joe/app/c1")).toBe(true);
    program.clearWriteAccessors();
    expect(await reasonOf(program.mknode("/users/joe/app/c2"))).toBeUndefined();
    expect(() => program.addWriteAccessor("app", "a:b")).toThrow("accessor");
    const { entries } = await registry.setAcl(
      "/users/joe/app",
      [],
      [{ scheme: "digest", id: "app" }],
    );
    expect(entries.filter(({ implied }) => !implied)).toEqual([]);
    expect((await registry.getAcl("/users/joe/app")).entries).toEqual(entries);
  });
});

describe("RegistryUtils", () => {
  it("[RG13] lists the records and the status of a path's children", async () => {
    const registry = registryClient(http("joe"));
    await registry.bind("/users/joe/a", { description: "a" }, { createParents: true });
    await registry.mknode("/users/joe/b/below", true);
    await registry.bind("/users/joe/c", { description: "c" });
    const records = await listServiceRecords(registry, "/users/joe/");
    expect([...records].map(([path, { description }]) => [path, description])).toEqual([
      ["/users/joe/a", "a"],
      ["/users/joe/c", "c"],
    ]);
    const statuses = await statChildren(registry, "/users/joe");
    expect([...statuses].map(([name, { children }]) => [name, children])).toEqual([
      ["a", 0],
      ["b", 1],
      ["c", 0],
    ]);
    const some = await extractServiceRecords(registry, "/users/joe", ["c", "gone"]);
    expect([...some.keys()]).toEqual(["/users/joe/c"]);
  });

  it("[RG13] knows whose token it has, and that user's home", async () => {
    expect(await currentUser(http("joe"))).toBe("joe");
    expect(await homePathForCurrentUser(http("eve"))).toBe("/users/eve");
  });
});
