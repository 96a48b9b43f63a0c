/** A container that is changed while it runs: another launch context, another resource. */

import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { ContainerLaunchContext } from "../../src/shared/container.ts";
import { SIGNAL_LIFETIME_MS } from "../../src/shared/protocol/node-query.ts";
import { eventually } from "../support/eventually.ts";
import { TestNode } from "./test-node.ts";
import { launchContext } from "./test-tracker.ts";

let node: TestNode;
beforeEach(async () => {
  node = await TestNode.create();
  await node.start({ monitorIntervalMs: 50 });
});
afterEach(() => node.close());

/** Says its version to stdout, and goes on. */
function version(number: number, more: Partial<ContainerLaunchContext> = {}) {
  return launchContext(`echo v${number}; exec sleep 60`, { version: number, ...more });
}

async function running(): Promise<string> {
  const files = { "old.conf": { content: "old" } };
  const id = await node.run(1, version(1, { files, ports: ["http"] }));
  await node.tracker.untilState(id, "RUNNING");
  await eventually(() => expect(node.stdout(id)).toBe("v1\n"));
  return id;
}

it("[NM8] an upgrade in place keeps the container, its directory and its ports", async () => {
  const id = await running();
  const before = node.tracker.statuses.get(id);
  const files = { "new.conf": { content: "new" } };
  const launch = version(2, { files, ports: ["http", "admin"] });
  const status = await node.tracker.update(id, 1, { launch });
  expect(status).toMatchObject({ state: "RUNNING", launchVersion: 2, ready: true });
  expect(status.ports?.["http"]).toBe(before?.ports?.["http"]);
  expect(status.ports?.["admin"]).toBeGreaterThan(0);
  await eventually(() => expect(node.stdout(id)).toBe("v1\nv2\n"));
  expect(readFileSync(join(node.workDirectory(id), "new.conf"), "utf8")).toBe("new");
  expect(existsSync(join(node.workDirectory(id), "old.conf"))).toBe(false);
});

it("[RG19] what takes the place of a process in place has the container's registry credential", async () => {
  const registry = { path: "/users/alice/yarn-service/web/components/ctr-1", token: "ey.secret" };
  const show = 'echo "$SELVEDGE_REGISTRY_PATH $SELVEDGE_REGISTRY_TOKEN"; exec sleep 60';
  const id = await node.run(1, launchContext(show, { registry }));
  const line = `${registry.path} ${registry.token}\n`;
  await eventually(() => expect(node.stdout(id)).toBe(line));
  await node.tracker.update(id, 1, { launch: launchContext(show, { version: 2 }) });
  await eventually(() => expect(node.stdout(id)).toBe(line + line));
  await node.tracker.update(id, 2, { launch: launchContext(show, { version: 3 }) });
  await eventually(() => expect(node.stdout(id)).toBe(line + line + line));
});

it("[NM8] an upgrade is carried out once, however often it is said", async () => {
  const id = await running();
  await node.tracker.update(id, 1, { launch: version(2) });
  await node.tracker.update(id, 2, { launch: version(2) });
  node.tracker.dropConnections();
  await node.tracker.until("a second registration", () => node.registrations === 2);
  node.tracker.stop(id);
  await node.tracker.untilState(id, "COMPLETE");
  expect(node.stdout(id)).toBe("v1\nv2\n");
});

it("[NM8] an upgrade whose resources cannot come leaves the container as it is", async () => {
  const id = await running();
  const localResources = {
    data: { url: "file:///etc/hostname", type: "FILE", visibility: "PUBLIC" },
  } as const;
  const status = await node.tracker.update(id, 1, { launch: version(2, { localResources }) });
  expect(status).toMatchObject({ state: "RUNNING", subState: "RUNNING" });
  expect(status.launchVersion).toBeUndefined();
  expect(status.diagnostics).toContain(
    "Container update refused: cannot localize file:///etc/hostname",
  );
  expect(node.stdout(id)).toBe("v1\n");
});

it("[NM9] an upgrade that fails before it is committed is rolled back", async () => {
  const id = await running();
  const launch = launchContext("echo broken; exit 3", { version: 2 });
  await node.tracker.update(id, 1, { launch, reInitialization: "PENDING" });
  await eventually(() => expect(node.stdout(id)).toBe("v1\nbroken\nv1\n"));
  const status = await node.tracker.until("it runs again", () => {
    const latest = node.tracker.statuses.get(id);
    return latest?.subState === "RUNNING" && latest.diagnostics !== "" && latest;
  });
  expect(status.launchVersion).toBeUndefined();
  expect(status.diagnostics).toContain("rolled back: Container exited with a non-zero exit code 3");
  expect(readFileSync(join(node.workDirectory(id), "old.conf"), "utf8")).toBe("old");
});

it("[NM9] an upgrade is rolled back when that is asked for, and not any more once committed", async () => {
  const id = await running();
  await node.tracker.update(id, 1, { launch: version(2), reInitialization: "PENDING" });
  await eventually(() => expect(node.stdout(id)).toBe("v1\nv2\n"));
  await node.tracker.update(id, 2, { reInitialization: "ROLLED_BACK" });
  await eventually(() => expect(node.stdout(id)).toBe("v1\nv2\nv1\n"));
  await node.tracker.update(id, 3, { launch: version(3), reInitialization: "PENDING" });
  await eventually(() => expect(node.stdout(id)).toBe("v1\nv2\nv1\nv3\n"));
  await node.tracker.update(id, 4, { reInitialization: "COMMITTED" });
  const status = await node.tracker.update(id, 5, { reInitialization: "ROLLED_BACK" });
  expect(status).toMatchObject({ state: "RUNNING", launchVersion: 3 });
  expect(node.stdout(id)).toBe("v1\nv2\nv1\nv3\n");
});

it("[NM9] a committed upgrade that fails is the container's end", async () => {
  const id = await running();
  node.tracker.put({
    ...{ containerId: id, state: "RUN", revision: 1 },
    launch: launchContext("exit 3", { version: 2 }),
  });
  const status = await node.tracker.untilState(id, "COMPLETE");
  expect(status.exitStatus).toBe(3);
});

it("[NM8] a container can be stopped while it is upgraded", async () => {
  const stubborn = "trap '' TERM; echo v1; while :; do sleep 0.05; done";
  const id = await node.run(1, launchContext(stubborn, { sigkillDelayMs: 60_000 }));
  await eventually(() => expect(node.stdout(id)).toBe("v1\n"));
  node.tracker.put({ containerId: id, state: "RUN", revision: 1, launch: version(2) });
  await node.tracker.until("the upgrade", () => {
    return node.tracker.statuses.get(id)?.revision === 1;
  });
  node.tracker.stop(id);
  await node.tracker.query({
    ...{ type: "signal", containerId: id, command: "FORCEFUL_SHUTDOWN" },
    expiresMs: Date.now() + SIGNAL_LIFETIME_MS,
  });
  const status = await node.tracker.untilState(id, "COMPLETE");
  expect(status.exitStatus).toBe(-105);
  expect(node.stdout(id)).toBe("v1\n");
});

it("[NM10] a token of a higher version changes what a running container may use", async () => {
  const id = await node.run(1, launchContext("exec sleep 60"), { memoryMb: 512 });
  await node.tracker.untilState(id, "RUNNING");
  const claims = { containerId: id, nodeId: node.nodeId, user: "alice" };
  const larger = await node.tracker.key.sign({ ...claims, memoryMb: 1_024, version: 1 });
  expect(await node.tracker.update(id, 1, { token: larger })).toMatchObject({ diagnostics: "" });
  // One MB is too little for any process: the smaller limit ends it.
  const smaller = await node.tracker.key.sign({ ...claims, memoryMb: 1, version: 2 });
  node.tracker.put({ containerId: id, state: "RUN", revision: 2, token: smaller });
  const status = await node.tracker.untilState(id, "COMPLETE");
  expect(status.exitStatus).toBe(-104);
});

it("[NM10] an older token, or one that was granted for something else, changes nothing", async () => {
  const id = await node.run(1, launchContext("exec sleep 60"), { memoryMb: 512, version: 5 });
  await node.tracker.untilState(id, "RUNNING");
  const claims = { containerId: id, nodeId: node.nodeId, user: "alice", memoryMb: 1 };
  const older = await node.tracker.key.sign({ ...claims, version: 4 });
  expect(await node.tracker.update(id, 1, { token: older })).toMatchObject({ diagnostics: "" });
  const foreign = await node.tracker.key.sign({ ...claims, version: 6, user: "mallory" });
  const status = await node.tracker.update(id, 2, { token: foreign });
  expect(status.state).toBe("RUNNING");
  expect(status.diagnostics).toContain("it is for user mallory");
});
