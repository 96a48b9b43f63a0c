import { statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type StartNodeManagerOptions, startNodeManager } from "../../src/agent/main.ts";
import { UPDATER_TIMINGS } from "../../src/agent/node-status-updater.ts";
import { ProblemError } from "../../src/client/problem-error.ts";
import { NODE_GRACE_MS } from "../../src/core/cluster/tracker-node.ts";
import { TestNode } from "./test-node.ts";
import { JOIN_TOKEN, launchContext } from "./test-tracker.ts";

let node: TestNode;
beforeEach(async () => {
  node = await TestNode.create();
});
afterEach(() => node.close());

const QUICK = {
  ...UPDATER_TIMINGS,
  backoffMinMs: 5,
  backoffMaxMs: 50,
  heartbeatBusyMs: 20,
  heartbeatIdleMs: 100,
};

it("connects again whenever the connection breaks, and says then what happened meanwhile", async () => {
  await node.start({ timings: QUICK });
  const id = await node.run(1, launchContext("while [ ! -e go ]; do sleep 0.02; done; exit 6"));
  await node.tracker.untilState(id, "RUNNING");
  node.tracker.isSocketRefused = true;
  node.tracker.dropConnections();
  await node.tracker.until("a fallback or two", () => node.registrations >= 2);
  writeFileSync(join(node.workDirectory(id), "go"), "");
  node.tracker.isSocketRefused = false;
  expect((await node.tracker.untilState(id, "COMPLETE")).exitStatus).toBe(6);
});

it("never waits so long that a tracker which was away takes the node for lost", () => {
  expect(UPDATER_TIMINGS.backoffMaxMs).toBeLessThanOrEqual(NODE_GRACE_MS / 2);
});

it("falls back to HTTP heartbeats where no socket passes, and returns to the socket", async () => {
  node.tracker.isSocketRefused = true;
  const timings = { ...QUICK, socketRetryMs: 200 };
  await node.start({ timings });
  expect(node.tracker.connections).toBe(0);
  const id = await node.run(1, launchContext("echo by heartbeat; exit 2"));
  const status = await node.tracker.untilState(id, "COMPLETE");
  expect(status.exitStatus).toBe(2);
  node.tracker.isSocketRefused = false;
  await node.tracker.until("a socket", () => node.tracker.connections > 0);
  expect(node.lines).toContainEqual(expect.objectContaining({ by: "heartbeat" }));
});

it("pings as often as it is told, and drops a connection that does not answer", async () => {
  node.tracker.pingIntervalMs = 20;
  await node.start({ timings: QUICK });
  await node.tracker.until("some pings", () => node.tracker.pings >= 3);
  expect(node.tracker.connections).toBe(1);
  node.tracker.isPingAnswered = false;
  await node.tracker.until("a new connection", () => node.tracker.connections >= 2);
  expect(node.lines).toContainEqual(
    expect.objectContaining({ event: "connection.down", outcome: "no answer to ping" }),
  );
});

it("joins with a join token once, and keeps the credential for its owner's eyes only", async () => {
  const { credential: _, ...withoutCredential } = node.options;
  const options = { ...withoutCredential, log: () => undefined };
  await expect(startNodeManager(options)).rejects.toThrow("has no credential");
  await expect(startNodeManager({ ...options, joinToken: "wrong" })).rejects.toThrow(
    "no such token",
  );
  for (const registrations of [1, 2]) {
    const agent = await startNodeManager({ ...options, joinToken: JOIN_TOKEN });
    await node.tracker.until("a registration", () => node.registrations === registrations);
    await agent.close();
  }
  expect(node.tracker.joins).toEqual([node.nodeId]);
  expect(statSync(join(node.home, "credential.json")).mode & 0o777).toBe(0o600);
});

it("joins anew when its stored credential is refused and it was given a join token", async () => {
  await node.start({ credential: "of a cluster long gone", joinToken: JOIN_TOKEN });
  expect(node.tracker.joins).toEqual([node.nodeId]);
});

describe("a node that cannot join", () => {
  /** What a start ends with. */
  async function joinFailure(more: Partial<StartNodeManagerOptions>): Promise<ProblemError> {
    const { credential: _, ...options } = node.options;
    const start = startNodeManager({
      ...{ ...options, joinToken: JOIN_TOKEN, joinRetryDelaysMs: [], log: () => undefined },
      ...more,
    });
    const error = await start.then(
      () => undefined,
      (reason: unknown) => reason,
    );
    if (error instanceof ProblemError) return error;
    throw new Error(`it ended with ${error}`);
  }

  it.each([
    [401, "UNAUTHENTICATED", "join tokens are short-lived"],
    [404, "NOT_FOUND", "is it a cluster's URL"],
    [429, "RESOURCE_EXHAUSTED", "try again in a while"],
    [500, "INTERNAL", "try again in a while"],
    [502, "UNAVAILABLE", "try again in a while"],
    [503, "UNAVAILABLE", "try again in a while"],
  ])("[NM187] since it is answered %i says so, and what would help", async (status, code, hint) => {
    node.tracker.joinFailures.push([status, { detail: "the test says no" }]);
    const { failure, origin } = await joinFailure({});
    expect(failure.message).toBe(`cannot join ${node.tracker.url}: the test says no`);
    expect({ code: failure.code, origin }).toEqual({ code, origin: "answer" });
    expect(failure.hint).toContain(hint);
  });

  it("[NM187] since nobody is there says that, and not that its token is bad", async () => {
    const { failure, origin } = await joinFailure({ url: "http://127.0.0.1:1" });
    expect({ code: failure.code, origin }).toEqual({ code: "UNAVAILABLE", origin: "connection" });
    expect(failure.message).toContain("cannot reach http://127.0.0.1:1");
  });

  it("[NM187] at once tries again, unless its token is refused", async () => {
    const delays = { joinRetryDelaysMs: [1, 1, 1] };
    node.tracker.joinFailures.push([503, {}], [429, {}], [500, {}]);
    const { credential: _, ...options } = node.options;
    const started = { ...options, joinToken: JOIN_TOKEN, log: () => undefined, ...delays };
    await (await startNodeManager(started)).close();
    expect(node.tracker.joins).toEqual([node.nodeId]);
    node.tracker.joinFailures.push([401, {}], [503, {}]);
    const home = join(node.home, "other");
    expect((await joinFailure({ ...delays, home })).failure.code).toBe("UNAUTHENTICATED");
    expect(node.tracker.joinFailures).toHaveLength(1);
  });

  it("[NM187] anew keeps its token until it is refused", async () => {
    node.tracker.joinFailures.push([503, {}], [429, {}]);
    await node.start({
      ...{ credential: "of a cluster long gone", joinToken: JOIN_TOKEN, joinRetryDelaysMs: [] },
      timings: QUICK,
    });
    expect(node.tracker.joins).toEqual([node.nodeId]);
  });
});

it("ends when the tracker does not want it, and says why", async () => {
  const agent = await node.start();
  node.tracker.send({ type: "shutdown", reason: "node is excluded" });
  expect(await agent.closed).toBe("node is excluded");
});

it("says in its log why the tracker closed the connection", async () => {
  await node.start({ timings: QUICK });
  node.tracker.closeConnections(4000, "another connection of this node took over");
  await node.tracker.until("a new connection", () => node.tracker.connections === 2);
  expect(node.lines).toContainEqual(
    expect.objectContaining({
      event: "connection.down",
      outcome: "closed by the tracker: 4000 another connection of this node took over",
    }),
  );
});

it("ignores what it does not understand", async () => {
  await node.start();
  node.tracker.send(JSON.parse('{"type":"dance"}'));
  node.tracker.send(JSON.parse('{"type":"desired","generation":99,"put":[{"state":"RUN"}]}'));
  const id = await node.run(1, launchContext("true"));
  expect((await node.tracker.untilState(id, "COMPLETE")).exitStatus).toBe(0);
});

it.each([
  [{ nodeId: "worker1" }, "write host:port"],
  [{ url: "selvedge.example.com" }, "write it with its scheme"],
])("refuses %j with the right way to say it", async (wrong, hint) => {
  await expect(startNodeManager({ ...node.options, ...wrong })).rejects.toThrow(hint);
});
