/** `selvedge registry …` against the real application on a real port, with real tokens. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type Served, serve } from "../support/serve.ts";
import { inTwoIsolates } from "../support/two-isolates.ts";
import { type FakeCluster, fakeCluster } from "../worker/fake-cluster.ts";
import { createDesk, type Desk } from "./command.ts";

const HBASE = "/users/joe/org-apache-hbase/demo1";

let cluster: FakeCluster;
let server: Served;
let desk: Desk;
beforeEach(async () => {
  vi.spyOn(console, "log").mockReturnValue();
  cluster = await fakeCluster();
  server = await serve(cluster.app);
  desk = createDesk(server.url);
});
afterEach(async () => {
  desk.clear();
  await server.close();
  vi.restoreAllMocks();
});

/** As joe, unless said otherwise. */
const registry = (argv: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  desk.run(["registry", ...argv], { env: { SELVEDGE_TOKEN: cluster.tokens.joe, ...env } });

async function resolve(path: string) {
  const { stdout } = await registry(["resolve", path, "-o", "json"]);
  return JSON.parse(stdout);
}

describe("looking up", () => {
  it("[RG61] shows what the command before has done, wherever it was done", async () => {
    const edge = await serve(inTwoIsolates(cluster));
    desk = createDesk(edge.url);
    const bind = ["bind", "-p", HBASE, "--api", "org.apache.hbase", "--rest"];
    for (const uri of ["http://one/", "http://two/", "http://three/"]) {
      expect(await registry([...bind, uri])).toMatchObject({ exitCode: 0 });
      expect(await resolve(HBASE)).toMatchObject({ external: [{ addresses: [{ uri }] }] });
    }
    await edge.close();
  });

  it("[RG63] shows other clusters below /net", async () => {
    await registry(["bind", "-p", HBASE, "--api", "org.example.elsewhere", "--rest", "http://h/"]);
    expect((await registry(["ls", "/net"])).stdout).toBe("blue\ndefault\n");
    expect(await resolve(`/net/blue${HBASE}`)).toMatchObject({
      external: [{ api: "org.example.elsewhere" }],
    });
    const found = await registry(["find", "/net/blue", "--text", "elsewhere", "-o", "json"]);
    expect(JSON.parse(found.stdout)).toMatchObject([{ path: `/net/blue${HBASE}` }]);
  });

  it("[RG64] refuses to write below /net", async () => {
    const { exitCode, stderr } = await registry(["mknode", "-p", "/net/blue/users/joe/x"]);
    expect(exitCode).not.toBe(0);
    expect(stderr).toContain("can only be read");
  });
});

describe("publishing", () => {
  it("[RG12] makes paths, and says whether they were there", async () => {
    const alone = await registry(["mknode", HBASE]);
    expect([alone.exitCode, alone.stderr]).toEqual([44, expect.stringContaining("hint: ")]);
    const made = await registry(["mknode", "-p", HBASE]);
    expect(made).toEqual({ exitCode: 0, stdout: `${HBASE} was made\n`, stderr: "" });
    const again = await registry(["mknode", HBASE, "-o", "json"]);
    expect(JSON.parse(again.stdout)).toEqual({ path: HBASE, created: false });
  });

  it.each([
    [
      ["--inet", "--host", "h1", "--port", "60000"],
      "hadoop/IPC",
      "host/port",
      { host: "h1", port: "60000" },
    ],
    [["--webui", "http://h1:60010/"], "webui", "uri", { uri: "http://h1:60010/" }],
    [["--rest", "http://h1:8080/v1"], "REST", "uri", { uri: "http://h1:8080/v1" }],
  ])("[RG12] binds one endpoint with %j", async (options, protocolType, addressType, address) => {
    const bound = await registry(["bind", ...options, "--api", "org.apache.hbase", "-p", HBASE]);
    expect([bound.exitCode, bound.stderr]).toEqual([0, ""]);
    expect((await resolve(HBASE)).external).toEqual([
      expect.objectContaining({
        api: "org.apache.hbase",
        protocolType,
        addressType,
        addresses: [address],
      }),
    ]);
  });

  it("[RG12] binds a whole record from a file, and replaces only the version it has seen", async () => {
    const record = { description: "from a file", "yarn:id": "application_1_0001" };
    writeFileSync(join(desk.directory, "record.json"), JSON.stringify(record));
    const file = ["bind", "--file", "record.json"];
    const bound = await registry([...file, "-p", "--if-version", "absent", "-o", "json", HBASE]);
    const { version } = JSON.parse(bound.stdout);
    expect(await resolve(HBASE)).toMatchObject(record);
    const stat = await registry(["stat", HBASE, "-o", "json"]);
    expect(JSON.parse(stat.stdout)).toMatchObject({ path: "demo1", children: 0, version });
    const stale = await registry([...file, "--if-version", "1", HBASE]);
    expect([stale.exitCode, stale.stderr]).toEqual([49, expect.stringContaining("version 1")]);
    expect((await registry([...file, "--if-version", String(version), HBASE])).exitCode).toBe(0);
    expect((await registry([...file, HBASE])).exitCode).toBe(0);
  });

  it.each([
    [[HBASE], "does not say what to bind"],
    [["--inet", "--rest", "http://h", HBASE], "several things"],
    [["--rest", "http://h", HBASE], "needs --api"],
    [["--rest", "not a uri", "--api", "a", HBASE], "is not a URI"],
    [["--inet", "--host", "h", "--api", "a", HBASE], "needs --host and --port"],
    [["--inet", "--host", "h", "--port", "65536", "--api", "a", HBASE], "1 to 65535"],
  ])("[RG12] refuses to bind %j", async (argv, message) => {
    const { exitCode, stderr } = await registry(["bind", ...argv]);
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining(message)]);
  });

  it.each([
    ["missing.json", null, 44],
    ["list.json", "[]", 40],
    ["broken.json", "{", 40],
    ["other.json", '{"type": "Other"}', 40],
  ])("[RG12] says what is wrong with the file %s", async (name, text, expected) => {
    await registry(["mknode", "-p", "/users/joe"]);
    if (text !== null) writeFileSync(join(desk.directory, name), text);
    const { exitCode, stderr } = await registry(["bind", "--file", name, "/users/joe/a"]);
    expect([exitCode, stderr]).toEqual([expected, expect.stringContaining("error: ")]);
  });

  it("[RG12] removes paths", async () => {
    await registry(["mknode", "-p", HBASE]);
    expect((await registry(["rm", "/users/joe/org-apache-hbase"])).exitCode).toBe(49);
    const removed = await registry(["rm", "-r", "/users/joe/org-apache-hbase"]);
    expect(removed.stdout).toBe("/users/joe/org-apache-hbase is deleted\n");
    expect((await registry(["rm", HBASE])).exitCode).toBe(44);
    expect((await registry(["rm", "-f", HBASE])).stdout).toBe(`${HBASE} was not there\n`);
  });
});

describe("rights", () => {
  it("[RG12] says which right is missing", async () => {
    const { exitCode, stderr } = await registry(["mknode", "/services/hdfs"]);
    expect(exitCode).toBe(41);
    expect(stderr).toContain("the missing right: c on /services");
  });

  it("[RG12] are shown and changed", async () => {
    await registry(["mknode", "-p", HBASE]);
    const shown = await registry(["acl", HBASE]);
    expect(shown.stdout).toMatch(
      /^SCHEME +ID +PERMISSIONS +HOW\n(?:.*\n)*user +joe +rwcda +by its/,
    );
    await registry(["acl", "--add", "user:eve:wc", HBASE]);
    const eve = { SELVEDGE_TOKEN: cluster.tokens.eve };
    expect((await registry(["mknode", `${HBASE}/hers`], eve)).exitCode).toBe(0);
    await registry(["acl", "--remove", "user:eve", HBASE]);
    expect((await registry(["mknode", `${HBASE}/more`], eve)).exitCode).toBe(41);
    expect((await registry(["acl", "--add", "eve", HBASE])).exitCode).toBe(2);
  });

  it("[RG12] of an accessor are used without being shown", async () => {
    const env = { SELVEDGE_REGISTRY_ACCESSOR: "app:s3cret-of-app" };
    await registry(["mknode", "-p", HBASE], env);
    const ran = await registry(["mknode", `${HBASE}/c1`, "--verbose"], {
      ...env,
      SELVEDGE_TOKEN: cluster.tokens.eve,
    });
    expect([ran.exitCode, ran.stdout]).toEqual([0, `${HBASE}/c1 was made\n`]);
    const wrong = await registry(["mknode", "/users/joe/x", "--verbose"], {
      SELVEDGE_REGISTRY_ACCESSOR: "app:bad",
    });
    expect(wrong.exitCode).toBe(40);
    expect(wrong.stderr).not.toContain("app:bad");
  });
});
