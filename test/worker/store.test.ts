/** A deployment whose account has no R2: what it says, and what it still does. */
import { beforeEach, expect, it, vi } from "vitest";
import { CONTAINER_ID, fakeCluster, PACKAGE, serviceOf } from "./fake-cluster.ts";

beforeEach(() => {
  vi.spyOn(console, "log").mockReturnValue();
});

const APPLICATION = "application_1503963985568_0002";

it.each([
  ["/ws/v1/packages", "joe"],
  ["/ws/v1/packages/joe/web/1.0", "joe"],
  [`/ws/v1/logs/${APPLICATION}`, "joe"],
  [`/ws/v1/logs/${CONTAINER_ID}/files/stdout`, "joe"],
  [`/ws/v1/node/packages/${PACKAGE.sha256}`, "node"],
  [`/ws/v1/node/logs/${CONTAINER_ID}?user=joe`, "node"],
] as const)(
  "[NM77] without a store, %s says what is missing and who can help",
  async (path, who) => {
    const cluster = await fakeCluster({ hasStore: false });
    const answer = await cluster.ask("GET", path, { token: cluster.tokens[who] });
    expect(answer.status).toBe(503);
    expect(answer.json.hint).toContain("R2 bucket STORE");
  },
);

it("[NM77] without a store, the logs of what runs are read as ever", async () => {
  const cluster = await fakeCluster({ hasStore: false });
  cluster.services.set("joe/web", serviceOf("joe", "web"));
  const path = "/app/v1/services/web/logs?instance=hello-0";
  const answer = await cluster.ask("GET", path, { token: cluster.tokens.joe });
  expect(answer.json).toMatchObject({ data: "hello\n" });
});
