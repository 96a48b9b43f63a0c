import { renameSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { ReadinessCheck } from "../../src/shared/container.ts";
import { TestNode } from "./test-node.ts";
import { launchContext } from "./test-tracker.ts";

let node: TestNode;
beforeEach(async () => {
  node = await TestNode.create();
});
afterEach(() => node.close());

const check = (more: Partial<ReadinessCheck>): ReadinessCheck => ({
  type: "HTTP",
  minSuccess: 200,
  maxSuccess: 299,
  timeoutMs: 1_000,
  intervalMs: 50,
  ...more,
});

/** A web server on its container's port that answers as the file `answer` says, else with 503. */
const SERVER = `${process.execPath} -e '
  const { existsSync, readFileSync } = require("fs");
  require("http").createServer((request, response) => {
    if (request.url === "/old") return response.writeHead(302, { location: "/new" }).end();
    const status = existsSync("answer") ? Number(readFileSync("answer", "utf8")) : 503;
    response.writeHead(status).end("x");
  }).listen(process.env.PORT_HTTP);
'`;

it("is ready as soon as the process runs when there is no check", async () => {
  await node.start();
  const id = await node.run(1, launchContext("sleep 60"));
  expect(await node.tracker.untilState(id, "RUNNING")).toMatchObject({ ready: true });
});

it("HTTP: is ready once the answer is good, follows redirects, and says when it turns bad", async () => {
  await node.start();
  const launch = launchContext(SERVER, {
    ports: ["http"],
    readinessCheck: check({ url: `http://\${THIS_HOST}:\${PORT.http}/old` }),
  });
  const id = await node.run(1, launch);
  const turned = (what: string, ready: boolean, readiness?: RegExp) =>
    node.tracker.until(what, () => {
      const status = node.tracker.statuses.get(id);
      return status?.ready === ready && (!readiness || readiness.test(status.readiness ?? ""));
    });
  const answer = (status: number) => {
    const path = join(node.workDirectory(id), "answer");
    writeFileSync(`${path}.tmp`, String(status));
    renameSync(`${path}.tmp`, path);
  };
  await turned("a first no", false, /^HTTP GET http:\/\/127.0.0.1:\d+\/old/);
  answer(204);
  await turned("ready", true);
  answer(500);
  await turned("unready", false, /answered 500/);
  const reports = node.tracker.history.filter(({ state }) => state === "RUNNING");
  expect(reports.map(({ ready }) => ready)).toEqual([false, false, true, false]);
});

it("PORT: is ready once somebody listens", async () => {
  await node.start();
  const server = `${process.execPath} -e 'require("net").createServer().listen(process.env.PORT_DB)'`;
  const launch = launchContext(`while [ ! -e go ]; do sleep 0.02; done; ${server}`, {
    ports: ["db"],
    readinessCheck: check({ type: "PORT", port: `\${PORT.db}` }),
  });
  const id = await node.run(1, launch);
  await node.tracker.until("a reason", () =>
    node.tracker.statuses.get(id)?.readiness?.includes("ECONNREFUSED"),
  );
  writeFileSync(join(node.workDirectory(id), "go"), "");
  await node.tracker.until("ready", () => node.tracker.statuses.get(id)?.ready);
});

it("HTTP: gives up on a server that does not answer in time", async () => {
  const silent = createServer(() => undefined);
  await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
  try {
    await node.start();
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}/`;
    const readinessCheck = check({ url, timeoutMs: 50 });
    const id = await node.run(1, launchContext("sleep 60", { readinessCheck }));
    const status = await node.tracker.until("a reason", () => {
      const heard = node.tracker.statuses.get(id);
      return heard?.readiness !== undefined && heard;
    });
    expect(status.readiness).toContain("no answer within 50 ms");
  } finally {
    silent.closeAllConnections();
    silent.close();
  }
});

it("probes again after the agent was restarted, before it registers", async () => {
  const first = await node.start();
  const launch = launchContext(`echo 200 > answer; ${SERVER}`, {
    ports: ["http"],
    readinessCheck: check({ url: `http://127.0.0.1:\${PORT.http}/` }),
  });
  const id = await node.run(1, launch);
  await node.tracker.until("ready", () => node.tracker.statuses.get(id)?.ready);
  await first.close();
  const heard = node.tracker.history.length;
  await node.start();
  expect(node.tracker.history.slice(heard).every(({ ready }) => ready)).toBe(true);
});
