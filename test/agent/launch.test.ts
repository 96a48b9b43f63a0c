import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { EXIT } from "../../src/shared/container.ts";
import { eventually } from "../support/eventually.ts";
import { storedRecord, storedRecords } from "../support/journal.ts";
import { TestNode } from "./test-node.ts";
import { launchContext, signingKey } from "./test-tracker.ts";

let node: TestNode;
beforeEach(async () => {
  node = await TestNode.create();
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await node.close();
});

it("registers with its facts and runs what it is told to, reporting every step", async () => {
  await node.start({ rack: "/rack7", labels: ["ssd"] });
  const register = node.tracker.received[0];
  expect(register).toMatchObject({
    type: "register",
    node: { nodeId: "127.0.0.1:8041", host: "127.0.0.1", rack: "/rack7", labels: ["ssd"] },
    containers: [],
  });
  const id = await node.run(1, launchContext("echo hello; exit 0"));
  const status = await node.tracker.untilState(id, "COMPLETE");
  expect(status).toMatchObject({ exitStatus: 0, diagnostics: "", host: "127.0.0.1" });
  expect(node.stdout(id)).toBe("hello\n");
  const states = node.tracker.history.map(({ state }) => state);
  expect(states.filter((state) => state !== "NEW")).toEqual(["RUNNING", "COMPLETE"]);
});

it("gives the container YARN's variables, resolved tokens and none of the agent's secrets", async () => {
  vi.stubEnv("SELVEDGE_TOKEN", "very-secret");
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", "very-secret");
  vi.stubEnv("HADOOP_CONF_DIR", "/etc/hadoop");
  await node.start();
  const launch = launchContext(`env; echo port=\${PORT.http} host=\${THIS_HOST} log=<LOG_DIR>`, {
    environment: {
      GREETING: `it's {{USER}} on \${PORT.http}`,
      HOME: "/somewhere/else",
      MULTILINE: "a\nb $HOME",
    },
    ports: ["http", "admin-http"],
  });
  const id = await node.run(1, launch);
  const { ports } = await node.tracker.untilState(id, "COMPLETE");
  const http = ports?.["http"];
  const output = node.stdout(id);
  const lines = output.split("\n");
  expect(lines).toContain(`GREETING=it's alice on ${http}`);
  expect(output).toContain("MULTILINE=a\nb $HOME\n");
  expect(lines).toContain(`HOME=${node.workDirectory(id)}`);
  expect(lines).toContain(`PWD=${node.workDirectory(id)}`);
  expect(lines).toContain(`CONTAINER_ID=${id}`);
  expect(lines).toContain("NM_HOST=127.0.0.1");
  expect(lines).toContain("NM_PORT=8041");
  expect(lines).toContain(`LOG_DIRS=${node.logDirectory(id)}`);
  expect(lines).toContain(`PORT_HTTP=${http}`);
  expect(lines).toContain(`PORT_ADMIN_HTTP=${ports?.["admin-http"]}`);
  expect(lines).toContain("HADOOP_CONF_DIR=/etc/hadoop");
  expect(lines).toContain(`port=${http} host=127.0.0.1 log=${node.logDirectory(id)}`);
  expect(output).not.toContain("very-secret");
});

it("[RG19] gives the container the way to the registry, and its credential where only it sees it", async () => {
  await node.start();
  const registry = { path: "/users/alice/yarn-service/web/components/ctr-1", token: "ey.secret" };
  const command = "env; tr '\\0' ' ' < /proc/$$/cmdline; echo {{SELVEDGE_REGISTRY_TOKEN}}";
  const environment = {
    COPY: "{{SELVEDGE_REGISTRY_TOKEN}}",
    SELVEDGE_REGISTRY_TOKEN: "of the Yarnfile",
  };
  const id = await node.run(1, launchContext(command, { environment, registry }));
  await node.tracker.untilState(id, "COMPLETE");
  const lines = node.stdout(id).split("\n");
  expect(lines).toContain(`SELVEDGE_REGISTRY_URL=${node.tracker.url}`);
  expect(lines).toContain(`SELVEDGE_REGISTRY_PATH=${registry.path}`);
  const told = lines.filter((line) => line.includes("secret"));
  expect(told).toEqual(["SELVEDGE_REGISTRY_TOKEN=ey.secret"]);
  expect(readFileSync(node.state("journal"), "utf8")).not.toContain("secret");
});

it("[NM209] launches no process where the operator allows images only, and says so", async () => {
  await node.start({ allowsProcesses: false });
  const id = await node.run(1, launchContext("echo up"));
  const { exitStatus, diagnostics } = await node.tracker.untilState(id, "COMPLETE");
  expect(exitStatus).toBe(EXIT.INVALID);
  expect(diagnostics).toContain(
    "node 127.0.0.1:8041 runs images only: its operator has left default out of " +
      "yarn.nodemanager.runtime.linux.allowed-runtimes",
  );
});

it("keeps directories, scripts and logs for their owner's eyes only", async () => {
  await node.start();
  const id = await node.run(1, launchContext("sleep 60"));
  await node.tracker.untilState(id, "RUNNING");
  const mode = (path: string) => (statSync(path).mode & 0o777).toString(8);
  expect(mode(node.workDirectory(id))).toBe("700");
  expect(mode(join(node.workDirectory(id), "launch_container.sh"))).toBe("700");
  expect(mode(node.logDirectory(id))).toBe("700");
  expect(mode(join(node.logDirectory(id), "stdout"))).toBe("600");
  expect(mode(node.state("journal"))).toBe("600");
});

it("reports a failure with its exit code and the end of stderr", async () => {
  await node.start();
  const id = await node.run(1, launchContext("echo 'no such table' >&2; exit 42"));
  const status = await node.tracker.untilState(id, "COMPLETE");
  expect(status.exitStatus).toBe(42);
  expect(status.diagnostics).toContain("non-zero exit code 42");
  expect(status.diagnostics).toContain("no such table");
});

it("reports 128 + signal for a process killed from outside", async () => {
  await node.start();
  const id = await node.run(1, launchContext("kill -9 $$"));
  const status = await node.tracker.untilState(id, "COMPLETE");
  expect(status.exitStatus).toBe(137);
  expect(status.diagnostics).toContain("exit code is 137");
});

it("kills what a container leaves running in the background when it ends", async () => {
  await node.start();
  const id = await node.run(1, launchContext("sleep 300 & echo $!"));
  await node.tracker.untilState(id, "COMPLETE");
  const left = Number(node.stdout(id));
  await eventually(() => expect(existsSync(`/proc/${left}/cwd`)).toBe(false));
});

it("forgets an acknowledged container: the work directory goes, the logs stay", async () => {
  await node.start();
  const id = await node.run(1, launchContext("echo done"));
  await node.tracker.untilState(id, "COMPLETE");
  node.tracker.acknowledge(id);
  await eventually(() => expect(existsSync(node.workDirectory(id))).toBe(false));
  expect(node.stdout(id)).toBe("done\n");
  node.tracker.dropConnections();
  await node.tracker.until("a second registration", () => node.registrations === 2);
  expect(node.tracker.statuses.has(id)).toBe(false);
});

it("never launches a container twice, not even a forgotten one", async () => {
  await node.start();
  const id = await node.run(1, launchContext("echo once >> $HOME/../count; echo once"));
  const run = node.tracker.desired.get(id);
  await node.tracker.untilState(id, "COMPLETE");
  node.tracker.acknowledge(id);
  node.tracker.statuses.clear();
  if (run) node.tracker.put(run);
  const again = await node.tracker.untilState(id, "COMPLETE");
  expect(again.exitStatus).toBe(0);
  expect(node.stdout(id)).toBe("once\n");
});

it("[NM191] keeps nothing of a forgotten container once its token has expired", async () => {
  const agent = await node.start();
  const id = await node.run(1, launchContext("true"), { expiresInSeconds: 2 });
  const state = node.state("");
  const files = () => readdirSync(state).filter((name) => name.startsWith(id));
  await node.tracker.untilState(id, "COMPLETE");
  node.tracker.acknowledge(id);
  await eventually(() => expect(existsSync(node.workDirectory(id))).toBe(false));
  await agent.close();
  expect(files().length).toBeGreaterThan(0);
  // Its record says until when a doubled order must be recognised.
  const { tokenExpiresMs } = storedRecord(state, id);
  await eventually(() => expect(Date.now()).toBeGreaterThan(Number(tokenExpiresMs)));
  node.tracker.desired.clear();
  await node.start();
  expect(files()).toEqual([]);
  expect([...storedRecords(state)]).toEqual([]);
});

it("gives no two live containers the same port", async () => {
  await node.start();
  const names = Array.from({ length: 8 }, (_, index) => `p${index}`);
  const ids = await Promise.all(
    [1, 2, 3].map((sequence) => node.run(sequence, launchContext("sleep 60", { ports: names }))),
  );
  const statuses = await Promise.all(ids.map((id) => node.tracker.untilState(id, "RUNNING")));
  const ports = statuses.flatMap((status) => Object.values(status.ports ?? {}));
  expect(new Set(ports).size).toBe(24);
});

it("says clearly when a variable's name cannot be exported", async () => {
  await node.start();
  const id = await node.run(1, launchContext("true", { environment: { "a.b": "1" } }));
  const status = await node.tracker.untilState(id, "COMPLETE");
  expect(status.exitStatus).toBe(-1000);
  expect(status.diagnostics).toContain('"a.b" is no name for an environment variable');
});

it("reports -101 when the directories cannot be used", async () => {
  await node.start();
  writeFileSync(join(node.home, "local", "usercache"), "a file in the way");
  const id = await node.run(1, launchContext("true"));
  const status = await node.tracker.untilState(id, "COMPLETE");
  expect(status.exitStatus).toBe(-101);
});

it.each([
  ["a token of an unknown key", "unknown to this node"],
  ["a token for another node", "it is for node other.example.com:8041"],
  ["a token for another container", "it is for container"],
  ["a token for another user", "it is for user mallory"],
  ["an expired token", "it has expired"],
  ["a token with a forged signature", "signature verification failed"],
  ["nonsense", "refused"],
])("refuses %s", async (what, why) => {
  await node.start();
  const claims = {
    containerId: "container_e01_1700000000000_0001_01_000001",
    nodeId: node.nodeId,
    user: "alice",
  };
  const { key } = node.tracker;
  const tokens: Record<string, () => Promise<string>> = {
    "a token of an unknown key": async () => (await signingKey("k9")).sign(claims),
    "a token for another node": () => key.sign({ ...claims, nodeId: "other.example.com:8041" }),
    "a token for another container": () =>
      key.sign({ ...claims, containerId: "container_e01_1700000000000_0001_01_000002" }),
    "a token for another user": () => key.sign({ ...claims, user: "mallory" }),
    "an expired token": () => key.sign({ ...claims, expiresInSeconds: -5 }),
    "a token with a forged signature": async () => (await signingKey("k1")).sign(claims),
    nonsense: async () => "a.b.c",
  };
  const { containerId } = claims;
  const token = (await tokens[what]?.()) ?? "";
  const launch = launchContext("echo ran");
  node.tracker.put({ containerId, state: "RUN", token, launch });
  const status = await node.tracker.untilState(containerId, "COMPLETE");
  expect(status.exitStatus).toBe(-1000);
  expect(status.diagnostics).toContain(why);
  expect(existsSync(node.logDirectory(containerId))).toBe(false);
});

it("logs no tokens, environments or commands", async () => {
  await node.start();
  const launch = launchContext("true hunter2", { environment: { PASSWORD: "hunter2" } });
  const id = await node.run(1, launch);
  await node.tracker.untilState(id, "COMPLETE");
  expect(JSON.stringify(node.lines)).not.toContain("hunter2");
  expect(readFileSync(node.state("journal"), "utf8")).not.toContain("hunter2");
  const events = node.lines.map(({ event }) => event);
  expect(events).toEqual(
    expect.arrayContaining(["agent.started", "connection.up", "container.exited"]),
  );
});
