import {
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import type { LocalResource } from "../../src/shared/container.ts";
import { eventually } from "../support/eventually.ts";
import { TestNode } from "./test-node.ts";
import { launchContext } from "./test-tracker.ts";

let node: TestNode;
beforeEach(async () => {
  node = await TestNode.create();
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await node.close();
});

const mode = (path: string) => (statSync(path).mode & 0o777).toString(8);

/** A resource from a directory that the operator allows. */
function source(name: string, content: string): { resource: LocalResource; allowed: string } {
  const allowed = join(node.home, "sources");
  mkdirSync(allowed, { recursive: true });
  writeFileSync(join(allowed, name), content);
  const url = `file://${join(allowed, name)}`;
  return { allowed, resource: { url, type: "FILE", visibility: "APPLICATION" } };
}

it("[NM1] a container's files are there before it starts, for its owner only", async () => {
  await node.start();
  const files = {
    "conf/app.yaml": { content: "port: 80\n" },
    "bin/run": { content: "#!/bin/sh\necho ran\n", executable: true },
  };
  const id = await node.run(1, launchContext("cat conf/app.yaml; bin/run", { files }));
  await node.tracker.untilState(id, "COMPLETE");
  expect(node.stdout(id)).toBe("port: 80\nran\n");
  expect(mode(join(node.workDirectory(id), "conf/app.yaml"))).toBe("600");
  expect(mode(join(node.workDirectory(id), "bin/run"))).toBe("700");
});

it.each([
  ["/etc/passwd", "it is absolute"],
  ["../outside", '".."'],
  ["a//b", "empty part"],
  ["launch_container.sh", "in the work directory already"],
])("[NM1] a file named %s is refused", async (path, why) => {
  await node.start();
  const files = { [path]: { content: "" } };
  const id = await node.run(1, launchContext("true", { files }));
  const status = await node.tracker.untilState(id, "COMPLETE");
  expect(status.exitStatus).toBe(-1000);
  expect(status.diagnostics).toContain(why);
});

it("[NM1] a file below a resource is refused: it would be written into the shared copy", async () => {
  const { resource, allowed } = source("lib", "shared");
  await node.start({ localization: { allowances: { directories: [allowed] } } });
  const files = { "lib/mine": { content: "" } };
  const id = await node.run(1, launchContext("true", { files, localResources: { lib: resource } }));
  const status = await node.tracker.untilState(id, "COMPLETE");
  expect(status.diagnostics).toContain('"lib/mine" lies below "lib"');
});

it("[NM2] a container's resources are linked into its work directory", async () => {
  const { resource, allowed } = source("words.txt", "hello\n");
  await node.start({ localization: { allowances: { directories: [allowed] } } });
  const localResources = { "data/words": resource };
  const id = await node.run(1, launchContext("cat data/words; sleep 60", { localResources }));
  await eventually(() => expect(node.stdout(id)).toBe("hello\n"));
  const target = realpathSync(join(node.workDirectory(id), "data/words"));
  expect(target).toContain("/appcache/application_1700000000000_0001/filecache/");
});

it("[NM2] a resource that cannot come fails the container with its URL and the reason", async () => {
  const { resource, allowed } = source("there", "");
  await node.start({ localization: { allowances: { directories: [allowed] } } });
  const url = resource.url.replace("there", "missing");
  const localResources = { data: { ...resource, url } };
  const id = await node.run(1, launchContext("true", { localResources }));
  const status = await node.tracker.untilState(id, "COMPLETE");
  expect(status.exitStatus).toBe(-1000);
  expect(status.diagnostics).toContain(`cannot localize ${url}`);
});

it("[NM3] credentials are in the file that HADOOP_TOKEN_FILE_LOCATION names, and nowhere else", async () => {
  vi.stubEnv("HADOOP_TOKEN_FILE_LOCATION", "/the/agent's/own");
  await node.start();
  const credentials = { registry: "s3cret" };
  const command = 'env; echo "$HADOOP_TOKEN_FILE_LOCATION" >&2';
  const id = await node.run(1, launchContext(command, { credentials }));
  const without = await node.run(2, launchContext("env"));
  await node.tracker.untilState(id, "COMPLETE");
  await node.tracker.untilState(without, "COMPLETE");
  const path = join(node.workDirectory(id), "container_tokens");
  expect(readFileSync(join(node.logDirectory(id), "stderr"), "utf8")).toBe(`${path}\n`);
  expect(JSON.parse(readFileSync(path, "utf8"))).toEqual(credentials);
  expect(mode(path)).toBe("600");
  expect(node.stdout(id)).not.toContain("s3cret");
  expect(node.stdout(without)).not.toContain("HADOOP_TOKEN_FILE_LOCATION");
});

it("[NM4] a container is told of every disk, and containers are spread over them", async () => {
  const disks = (kind: string) => [1, 2].map((number) => join(node.home, `${kind}${number}`));
  await node.start({ localDirectories: disks("local"), logDirectories: disks("logs") });
  const command = 'echo "$PWD"; echo "$LOCAL_DIRS"; echo "$LOCAL_USER_DIRS"; echo "$LOG_DIRS"';
  const ids = [
    await node.run(1, launchContext(command)),
    await node.run(2, launchContext(command)),
  ];
  const places = [];
  for (const id of ids) {
    await node.tracker.untilState(id, "COMPLETE");
    const logs = disks("logs").map((disk) => join(disk, "application_1700000000000_0001", id));
    const written = logs.filter((directory) => existsSync(join(directory, "stdout")));
    expect(written).toHaveLength(1);
    const [work = "", local = "", user = "", log = ""] = readFileSync(
      join(written[0] ?? "", "stdout"),
      "utf8",
    ).split("\n");
    expect(local.split(",")).toEqual(
      disks("local").map(
        (disk) => `${disk}/usercache/alice/appcache/application_1700000000000_0001`,
      ),
    );
    expect(user.split(",")).toEqual(disks("local").map((disk) => `${disk}/usercache/alice`));
    expect(log.split(",").sort()).toEqual(logs);
    expect(log.split(",")[0]).toBe(written[0]);
    places.push(work.slice(0, work.indexOf("/usercache")));
  }
  expect(places.sort()).toEqual(disks("local"));
});

it("[NM5] a container has the variables that YARN promises", async () => {
  vi.stubEnv("MALLOC_ARENA_MAX", "4");
  await node.start({ httpPort: 8042 });
  const id = await node.run(1, launchContext("env; echo pid=$$"));
  await node.tracker.untilState(id, "COMPLETE");
  const lines = node.stdout(id).split("\n");
  expect(lines).toContain("NM_HTTP_PORT=8042");
  expect(lines).toContain("MALLOC_ARENA_MAX=4");
  expect(lines).toContain("APPLICATION_WEB_PROXY_BASE=/proxy/application_1700000000000_0001");
  expect(lines).toContain("LOGNAME=alice");
  const pid = lines.find((line) => line.startsWith("pid="))?.slice(4);
  expect(lines).toContain(`JVM_PID=${pid}`);
});
