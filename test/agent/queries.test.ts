/** What is asked of a node through its connection. */
import { afterEach, beforeEach, expect, it } from "vitest";
import { fail, ok } from "../../src/shared/errors.ts";
import {
  SIGNAL_LIFETIME_MS,
  type SignalContainerCommand,
} from "../../src/shared/protocol/node-query.ts";
import { eventually } from "../support/eventually.ts";
import { containerId, TestNode } from "./test-node.ts";
import { launchContext } from "./test-tracker.ts";

let node: TestNode;
beforeEach(async () => {
  node = await TestNode.create();
});
afterEach(() => node.close());

/** In time, by this machine's clock. */
const signalOf = (container: string, command: SignalContainerCommand) => ({
  ...{ type: "signal" as const, containerId: container, command },
  expiresMs: Date.now() + SIGNAL_LIFETIME_MS,
});

it.each([
  ["OUTPUT_THREAD_DUMP", "QUIT"],
  ["GRACEFUL_SHUTDOWN", "TERM"],
] as const)("[NM11] %s reaches the container as SIG%s", async (command, signal) => {
  await node.start();
  const loop = "while :; do sleep 0.02; done";
  const id = await node.run(
    1,
    launchContext(`trap 'echo got ${signal}' ${signal}; echo up; ${loop}`),
  );
  await eventually(() => expect(node.stdout(id)).toBe("up\n"));
  expect(await node.tracker.query(signalOf(id, command))).toMatchObject({ body: "null" });
  await eventually(() => expect(node.stdout(id)).toBe(`up\ngot ${signal}\n`));
});

it("[NM11] FORCEFUL_SHUTDOWN kills the container, which ends as a killed process does", async () => {
  await node.start();
  const id = await node.run(1, launchContext("trap '' TERM; echo up; exec sleep 60"));
  await eventually(() => expect(node.stdout(id)).toBe("up\n"));
  await node.tracker.query(signalOf(id, "FORCEFUL_SHUTDOWN"));
  const status = await node.tracker.untilState(id, "COMPLETE");
  expect(status.exitStatus).toBe(137);
});

it("[NM11] says which container is not there, or has no process", async () => {
  await node.start();
  const unknown = await node.tracker.query(signalOf(containerId(9), "GRACEFUL_SHUTDOWN"));
  expect(unknown.error).toMatchObject({ code: "NOT_FOUND" });
  const id = await node.run(1, launchContext("true"));
  await node.tracker.untilState(id, "COMPLETE");
  const over = await node.tracker.query(signalOf(id, "GRACEFUL_SHUTDOWN"));
  expect(over.error).toMatchObject({ code: "FAILED_PRECONDITION" });
});

/** Says which signals it gets, and ends at SIGTERM. */
const TELLTALE =
  "trap 'echo quit' QUIT; trap 'echo term; exit' TERM; echo up; while :; do sleep 0.02; done";

it("[NM160] a signal that comes too late is refused, and reaches no process", async () => {
  await node.start();
  const id = await node.run(1, launchContext(TELLTALE));
  await eventually(() => expect(node.stdout(id)).toBe("up\n"));
  const late = { ...signalOf(id, "OUTPUT_THREAD_DUMP"), expiresMs: Date.now() - 1 };
  expect((await node.tracker.query(late)).error).toMatchObject({
    code: "FAILED_PRECONDITION",
    message: expect.stringContaining("ms too late"),
  });
  await node.tracker.query(signalOf(id, "GRACEFUL_SHUTDOWN"));
  await node.tracker.untilState(id, "COMPLETE");
  expect(node.stdout(id)).toBe("up\nterm\n");
});

it("[NM160] an order for a signal that arrives twice signals once", async () => {
  await node.start();
  const id = await node.run(1, launchContext(TELLTALE));
  await eventually(() => expect(node.stdout(id)).toBe("up\n"));
  const query = signalOf(id, "OUTPUT_THREAD_DUMP");
  const order = { type: "node-query", requestId: "twice", query } as const;
  node.tracker.send(order);
  await eventually(() => expect(node.stdout(id)).toBe("up\nquit\n"));
  node.tracker.send(order);
  await eventually(() => expect(node.tracker.answers).toHaveLength(2));
  await node.tracker.query(signalOf(id, "GRACEFUL_SHUTDOWN"));
  await node.tracker.untilState(id, "COMPLETE");
  expect(node.stdout(id)).toBe("up\nquit\nterm\n");
  expect(node.tracker.answers.map(({ body }) => body)).toEqual(["null", "null", "null"]);
});

it("[NM12] answers as JSON what its handler says, and its failures with code and hint", async () => {
  await node.start({
    onQuery: async (query) =>
      query.type === "get"
        ? ok({ asked: query.path })
        : fail("NOT_FOUND", "no usage", { hint: "ask later" }),
  });
  const info = await node.tracker.query({ type: "get", path: "/ws/v1/node/info" });
  expect(info.body).toBe('{"asked":"/ws/v1/node/info"}');
  const usage = await node.tracker.query({ type: "usage" });
  expect(usage.error).toEqual({ code: "NOT_FOUND", message: "no usage", hint: "ask later" });
});

it("[NM12] an answer that is too long, or a handler that fails, is an error", async () => {
  await node.start({
    onQuery: async ({ type }) => {
      if (type === "usage") throw new Error("broken");
      return ok("x".repeat(1_048_576));
    },
  });
  const long = await node.tracker.query({ type: "get", path: "/ws/v1/node" });
  expect(long.error).toMatchObject({ code: "RESOURCE_EXHAUSTED" });
  const broken = await node.tracker.query({ type: "usage" });
  expect(broken.error).toMatchObject({ code: "INTERNAL", message: "broken" });
});
