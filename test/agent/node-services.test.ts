/** What a whole agent makes of its health, its auxiliary services and the questions to it. */
import { chmodSync, copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { NodeAnswer } from "../../src/shared/protocol/node-query.ts";
import { eventually } from "../support/eventually.ts";
import { containerId, TestNode } from "./test-node.ts";
import { launchContext } from "./test-tracker.ts";

const EXAMPLE = new URL("../../examples/auxiliary-service/file-server.mjs", import.meta.url);
const RUNNING = launchContext("echo hello; exec sleep 60");

let node: TestNode;
beforeEach(async () => {
  node = await TestNode.create();
});
afterEach(() => node.close());

function bodyOf({ body = "null", error }: NodeAnswer) {
  expect(error).toBe(undefined);
  return JSON.parse(body);
}

/** The last word about the node's health that the tracker has heard. */
function toldHealth(): { healthy: boolean; healthReport: string } | undefined {
  const told: { healthy: boolean; healthReport: string }[] = [];
  for (const message of node.tracker.received) {
    if (message.type === "health") told.push(message);
    if (message.type === "register") told.push(message.node);
  }
  return told.at(-1);
}

it("[NM85] a node that falls ill says so at once, says it when it registers, and recovers", async () => {
  const trouble = join(node.home, "trouble");
  const path = join(node.home, "check.sh");
  writeFileSync(path, `#!/bin/sh\n[ -e ${trouble} ] && echo ERROR the fan stands still\n`);
  chmodSync(path, 0o755);
  const script = { name: "fan", path, arguments: [], intervalMs: 20, timeoutMs: 10_000 };
  const health = { disks: { usedPercentMax: 100 }, scripts: [script] };
  await node.start({ health });
  expect(toldHealth()).toMatchObject({ healthy: true, healthReport: "" });

  writeFileSync(trouble, "");
  const ill = { healthy: false, healthReport: "ERROR the fan stands still" };
  await node.tracker.until("the illness", () => toldHealth()?.healthy === false);
  expect(toldHealth()).toMatchObject(ill);
  const before = node.registrations;
  node.tracker.closeConnections(1_012, "restarting");
  await node.tracker.until("another registration", () => node.registrations > before);
  const registered = node.tracker.received.findLast(({ type }) => type === "register");
  expect(registered).toMatchObject({ node: ill });

  rmSync(trouble);
  await node.tracker.until("the recovery", () => toldHealth()?.healthy === true);
});

it("[NM84] a container that finds no good disk ends with -101, and the node is unhealthy", async () => {
  const disk = join(node.home, "disk");
  await node.start({
    localDirectories: [disk],
    health: { disks: { usedPercentMax: 100 }, diskIntervalMs: 20 },
  });
  rmSync(disk, { recursive: true, force: true });
  await node.tracker.until("the illness", () => toldHealth()?.healthy === false);
  expect(toldHealth()?.healthReport).toContain(`1/1 local-dirs are bad: [ ${disk} : `);
  const id = await node.run(1, RUNNING);
  const status = await node.tracker.untilState(id, "COMPLETE");
  expect(status.exitStatus).toBe(-101);

  mkdirSync(disk);
  await node.tracker.until("the recovery", () => toldHealth()?.healthy === true);
  await node.tracker.untilState(await node.run(2, RUNNING), "RUNNING");
});

it("[NM91] a node tells of its containers and their logs through its connection", async () => {
  await node.start();
  const id = await node.run(1, RUNNING, { memoryMb: 64 });
  await eventually(() => expect(node.stdout(id)).toBe("hello\n"));
  const get = async (path: string) => bodyOf(await node.tracker.query({ type: "get", path }));
  expect(await get(`/ws/v1/node/containers/${id}`)).toMatchObject({
    json: {
      container: { id, state: "RUNNING", user: RUNNING.user, totalMemoryNeededMB: 64 },
    },
  });
  expect(await get("/ws/v1/node/apps?state=RUNNING")).toMatchObject({
    json: { apps: { app: [{ user: RUNNING.user, containerids: [id] }] } },
  });
  expect(await get(`/ws/v1/node/containers/${id}/logs/stdout?size=-3`)).toEqual({
    text: "lo\n",
    nextOffset: 6,
  });
  expect(await get("/ws/v1/node/info")).toMatchObject({
    json: { nodeInfo: { id: node.nodeId, nodeHealthy: true, totalPmemAllocatedContainersMB: 64 } },
  });
  const refused = await node.tracker.query({ type: "get", path: "/ws/v1/node/containers/x" });
  expect(refused.error).toMatchObject({ code: "NOT_FOUND" });
});

it("[NM86] a node tells what its containers use when it is asked, and never by itself", async () => {
  await node.start({ monitorIntervalMs: 10 });
  const id = await node.run(1, RUNNING);
  await node.run(2, launchContext("exec sleep 60"));
  const usage = async (containerId?: string) => {
    const query = { type: "usage", ...(containerId === undefined ? {} : { containerId }) } as const;
    return bodyOf(await node.tracker.query(query));
  };
  await node.tracker.untilState(containerId(2), "RUNNING");
  let all = await usage();
  // Two rounds of the monitor, which nothing but asking shows.
  while (all.containers.length < 2 || all.containers[0].cpuPercent === undefined) {
    all = await usage();
  }
  expect(all.node.memoryBytes).toBeGreaterThan(all.node.containersPhysicalBytes);
  const one = await usage(id);
  expect(one.containers).toEqual([
    expect.objectContaining({ containerId: id, processes: expect.any(Number) }),
  ]);
  const sent = node.tracker.received.filter(({ type }) => type !== "node-answer");
  expect(sent.map(({ type }) => type).filter((type) => type === "health")).toEqual([]);
  expect(JSON.stringify(sent)).not.toContain("physicalBytes");
});

it("[NM88] a container finds the auxiliary service that it names in its environment", async () => {
  const directory = join(node.home, "plugins");
  mkdirSync(directory, { mode: 0o755 });
  copyFileSync(EXAMPLE, join(directory, "file-server.mjs"));
  chmodSync(join(directory, "file-server.mjs"), 0o644);
  const services = [{ name: "file_server", path: "file-server.mjs" }];
  await node.start({ auxiliaryServices: { directory, services } });
  const token = Buffer.alloc(16, 7).toString("base64");
  const leave = 'echo sorted > "$NM_AUX_SERVICE_file_server_DIR/part-0"; ';
  const id = await node.run(
    1,
    launchContext(`${leave} echo "$NM_AUX_SERVICE_file_server"`, {
      serviceData: { file_server: token },
    }),
  );
  // What it has left is still there when it has ended.
  const { auxiliaryServices } = await node.tracker.untilState(id, "COMPLETE");
  const metaData = node.stdout(id).trim();
  // As its ApplicationMaster hears it.
  expect(auxiliaryServices).toEqual({ file_server: metaData });
  const port = Buffer.from(metaData, "base64").toString();
  const url = `http://127.0.0.1:${port}/application_1700000000000_0001/part-0`;
  const answer = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
  expect(await answer.text()).toBe("sorted\n");

  const other = await node.run(2, launchContext("true", { serviceData: { shuffle: token } }));
  const status = await node.tracker.untilState(other, "COMPLETE");
  expect(status.diagnostics).toContain(
    "The auxService:shuffle does not exist on this node, which has file_server",
  );
});

it("[NM93] a node that is configured so offers its REST on a port", async () => {
  await node.start({ web: { port: 0 } });
  const started = node.lines.find(({ event }) => event === "node-web.started");
  const token = readFileSync(join(node.home, "node-web.token"), "utf8").trim();
  const answer = await fetch(`http://127.0.0.1:${started?.["port"]}/ws/v1/node`, {
    headers: { authorization: `Bearer ${token}` },
  });
  expect(await answer.json()).toHaveProperty("nodeInfo.id", node.nodeId);
  await expect(
    node.start({ home: `${node.home}/other`, web: { port: Number(started?.["port"]) } }),
  ).rejects.toThrow("the node's REST cannot be offered");
});
