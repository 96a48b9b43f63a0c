/**
 * The registry's examples and the commands of docs/registry.md, run as they stand there against a
 * real cluster that has the service which `npm start` launches.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isAvailable } from "../../scripts/prerequisites.ts";
import { ROOT } from "../../scripts/run.ts";
import { TextBody } from "../../src/client/http.ts";
import { registryClient } from "../../src/client/registry.ts";
import { startCluster, type TestCluster } from "../support/cluster.ts";
import { readProjectFile } from "../support/source-files.ts";
import { waitFor } from "../support/wait-for.ts";

const EXAMPLES = "examples/registry";
const COMPONENTS = "/users/admin/yarn-service/hello-world/components";

/** Something that each example prints only when it has shown what it is about. */
const SHOWN: Readonly<Record<string, readonly string[]>> = {
  "compare-and-set": ["somebody else was faster", "external  org.example.sql  hadoop/IPC  db4"],
  "container-binds-itself": [
    "bind /services/not-mine 403",
    "/jmx 200",
    "nothing below /users/admin/yarn-service matches",
  ],
  "digest-accessor": ["digest  tomcat", "http://rack4server3:43572", "(403)"],
  "find-by-api": ["/services/hbase", "/users/admin/org-apache-hbase/demo1", '{"matches":[{'],
  "publish-a-core-service": ["namenode1.example.com:8020", "namenode2", "stopped for maintenance"],
  "service-and-components": ["(403)", "http://loadbalancer2/", "rack1server28", '{"purged":1}'],
  "typed-client": ["regionserver1", "found /users/admin", "refused: VersionMismatch"],
  "watch-a-path": ["bound  /users/admin", "deleted  /users/admin", '"next":'],
};

let cluster: TestCluster;
let env: Readonly<Record<string, string>>;

beforeAll(async () => {
  cluster = await startCluster({ nodes: 1 });
  const home = join(cluster.home, "terminal");
  const tokenFile = join(home, "admin.token");
  mkdirSync(home);
  writeFileSync(tokenFile, cluster.token, { mode: 0o600 });
  env = {
    PATH: `${join(ROOT, "node_modules", ".bin")}:${process.env["PATH"] ?? ""}`,
    HOME: home,
    TMPDIR: home,
    SELVEDGE_URL: cluster.url,
    SELVEDGE_TOKEN_FILE: tokenFile,
  };
  const yarnfile = readFileSync(join(ROOT, "examples/hello-world/Yarnfile.yaml"), "utf8");
  await cluster.services.create(new TextBody("application/yaml", yarnfile));
  await cluster.serviceIs("hello-world", "STABLE");
  const registry = registryClient(cluster.http);
  await waitFor(async () => (await registry.list(COMPONENTS)).length === 2, {
    what: "both containers to be in the registry",
  });
});

afterAll(async () => {
  await cluster.dispose();
});

/** All that the command prints. It fails with that when its exit code is not 0. */
async function run(
  command: string,
  args: readonly string[],
  more: Readonly<Record<string, string>> = {},
): Promise<string> {
  const child = spawn(command, args, {
    cwd: ROOT,
    env: { ...env, ...more },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      printed += text;
    });
  }
  const [exitCode] = (await once(child, "close")) as [number | null];
  expect(exitCode, printed).toBe(0);
  return printed;
}

function runExample(name: string): Promise<string> {
  const folder = join(EXAMPLES, name);
  if (readdirSync(join(ROOT, folder)).includes("run.sh")) return run("sh", [`${folder}/run.sh`]);
  return run(process.execPath, [`${folder}/run.ts`], { SELVEDGE_TOKEN: cluster.token });
}

describe.skipIf(!isAvailable("curl"))("the registry's examples", () => {
  it("all say what they show", () => {
    expect(readdirSync(join(ROOT, EXAMPLES)).sort()).toEqual(Object.keys(SHOWN));
  });

  // Each has paths of its own.
  it.concurrent.each(Object.entries(SHOWN))("%s", async (name, shown) => {
    const printed = await runExample(name);
    for (const text of shown) expect(printed).toContain(text);
    expect(printed).not.toContain(cluster.token);
  });

  it("leave no record behind", async () => {
    const answer = await fetch(`${cluster.url}/registry/v1/?depth=32`);
    const { nodes } = (await answer.json()) as { nodes: { path: string; record?: object }[] };
    const left = nodes.filter(({ record }) => record !== undefined).map(({ path }) => path);
    expect(left.filter((path) => !path.startsWith("/users/admin/yarn-service/"))).toEqual([]);
  });
});

describe.skipIf(!isAvailable("curl"))("the commands of docs/registry.md", () => {
  const blocks = [...readProjectFile("docs/registry.md").matchAll(/```sh\n([\s\S]*?)```/g)];
  const script = blocks.map(([, block]) => block ?? "").join("");

  it("are found", () => {
    expect(blocks.length).toBeGreaterThan(5);
  });

  it("work, one after the other", async () => {
    const curl = 'curl() { command curl --silent --show-error --fail "$@"; }';
    const local = script
      .replaceAll("http://127.0.0.1:8088", cluster.url)
      .replaceAll(".selvedge/admin.token", env["SELVEDGE_TOKEN_FILE"] ?? "");
    const npx = 'npx() { shift; bin/selvedge.mjs "$@"; }';
    const printed = await run("sh", ["-euc", `${curl}\n${npx}\n${local}`]);
    for (const text of [
      "namenode.example.com:8020",
      '"hasRecord":true',
      '{"matches":[{"path":"/users/admin/yarn-service/hello-world/components/ctr-',
      '"data":"1 1 ',
      "joe       rw           granted",
      '{"purged":1}',
    ]) {
      expect(printed).toContain(text);
    }
    const services = await fetch(`${cluster.url}/registry/v1/services?list`);
    expect(await services.json()).toMatchObject({ children: [] });
  });
});
