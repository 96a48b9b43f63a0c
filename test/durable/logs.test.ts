/** Aggregated logs over real R2, through the Worker: what nodes may write, and what users read. */
import { beforeEach, describe, expect, it } from "vitest";
import { eventually } from "../support/eventually.ts";
import { type EdgeCluster, openCluster } from "./support/edge-cluster.ts";
import { isStable } from "./support/thread.ts";

const NODE = "a:8041";
let cluster: EdgeCluster;
let containerId: string;
let applicationId: string;
let node: string;

beforeEach(async () => {
  cluster = await openCluster();
  const agent = await cluster.startNode(NODE);
  await cluster.launch();
  await isStable(cluster, agent, 1);
  const view = await cluster.view();
  containerId = view.components[0]?.containers[0]?.id ?? "";
  applicationId = view.id ?? "";
  node = await cluster.join(NODE);
});

const announce = (token = node, user = "ann", complete = false) =>
  cluster.fetch(`/ws/v1/node/logs/${containerId}`, {
    method: "PUT",
    token,
    body: { user, instance: "hello-0", complete },
  });

async function packed(text: string): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** `bytes` are what is said, `sent` is what goes over the wire. */
async function put(
  start: number,
  text: string,
  { token = node, file = "stdout", sent = text, follows = start } = {},
) {
  const end = start + new TextEncoder().encode(text).length;
  const query = `user=ann&end=${end}${follows === start ? "" : `&follows=${follows}`}`;
  const path = `/ws/v1/node/logs/${containerId}/${file}/${start}?${query}`;
  return cluster.send(path, await packed(sent), token);
}

const stored = async () => {
  const path = `/ws/v1/node/logs/${containerId}?user=ann`;
  const { files } = await cluster.call<{ files: { name: string; sizeBytes: number }[] }>(path, {
    token: node,
  });
  return Object.fromEntries(files.map(({ name, sizeBytes }) => [name, sizeBytes]));
};

const read = (offset: number, length = 1_000, token?: string) =>
  cluster.fetch(
    `/ws/v1/logs/${containerId}/files/stdout?offset=${offset}&length=${length}`,
    token === undefined ? {} : { token },
  );

async function tokenOf(user: string, groups: readonly string[] = []): Promise<string> {
  const options = { method: "POST", body: { user, role: "user", groups } };
  return (await cluster.call<{ token: string }>("/ws/v1/security/tokens", options)).token;
}

describe("a node", () => {
  it("[NM70] writes the logs of containers that run on it, and of no others", async () => {
    const stranger = await cluster.join("b:8041");
    expect((await announce(stranger)).status).toBe(403);
    expect((await announce(node, "joe")).status).toBe(403);
    expect((await put(0, "before it was announced")).status).toBe(403);
    expect((await announce()).status).toBe(204);
    expect((await put(0, "lie", { token: stranger })).status).toBe(403);
    expect((await put(0, "truth")).status).toBe(204);
    expect((await cluster.fetch(`/ws/v1/node/logs/${containerId}`, { method: "PUT" })).status).toBe(
      401,
    );
  });

  it("[NM70] goes on when the cluster has forgotten the container", async () => {
    await announce();
    await cluster.destroy();
    await cluster.until("the container to be forgotten", async () => {
      const [status] = await cluster.nodeList();
      return status?.numContainers === 0;
    });
    expect((await put(0, "late\n")).status).toBe(204);
    expect((await announce(node, "ann", true)).status).toBe(204);
    expect(await (await read(0)).json()).toEqual({ data: "late\n", nextOffset: 5, end: true });
  });

  it("[NM71] that says a chunk twice, or again with more, is heard once", async () => {
    await announce();
    await put(0, "one\n");
    await put(0, "one\n");
    await put(4, "two\n");
    await put(4, "two\nthree\n");
    await put(4, "two\n");
    expect(await stored()).toEqual({ stdout: 14 });
    expect(await (await read(0)).json()).toEqual({ data: "one\n", nextOffset: 4, end: false });
    expect(await (await read(4)).json()).toEqual({
      data: "two\nthree\n",
      nextOffset: 14,
      end: false,
    });
  });

  it("[NM71] learns where to go on: behind the last byte without a gap", async () => {
    await announce();
    await put(0, "0123456789");
    await put(20, "after a gap");
    await put(0, "err", { file: "stderr" });
    expect(await stored()).toEqual({ stdout: 10, stderr: 3 });
  });

  it("[NM183] goes on behind what it has dropped, when it says so", async () => {
    await announce();
    await put(0, "0123456789");
    await put(2_000_000, "after", { follows: 10 });
    expect(await stored()).toEqual({ stdout: 2_000_005 });
    expect((await put(5, "late", { follows: 6 })).status).toBe(400);
  });

  it.each([
    [5, "", 400],
    [0, "x".repeat(1_048_577), 400],
  ])("[NM71] cannot store a chunk at %s of a wrong size", async (start, text, status) => {
    await announce();
    expect((await put(start, text)).status).toBe(status);
  });
});

describe("a user", () => {
  beforeEach(async () => {
    await announce();
  });

  it("[NM72] reads any part: from an offset, from before the end, never half a character", async () => {
    await put(0, "first €\n");
    await put(10, "second\n");
    await announce(node, "ann", true);
    expect(await (await read(0, 7)).json()).toEqual({ data: "first ", nextOffset: 6, end: false });
    expect(await (await read(6)).json()).toEqual({ data: "€\n", nextOffset: 10, end: false });
    expect(await (await read(-7)).json()).toEqual({ data: "second\n", nextOffset: 17, end: true });
    expect(await (await read(17)).json()).toEqual({ data: "", nextOffset: 17, end: true });
  });

  it("[NM183] is told how much was dropped before it was stored, and reads on behind it", async () => {
    await put(0, "first\n");
    await put(2_000_000, "later\n", { follows: 6 });
    await announce(node, "ann", true);
    expect(await (await read(0)).json()).toEqual({ data: "first\n", nextOffset: 6, end: false });
    const later = { data: "later\n", nextOffset: 2_000_006, end: true };
    expect(await (await read(6)).json()).toEqual({ ...later, droppedBytes: 1_999_994 });
    expect(await (await read(1_000_000)).json()).toEqual({ ...later, droppedBytes: 1_000_000 });
    expect(await (await read(-6)).json()).toEqual(later);
  });

  it("[NM72] finds the containers of an application, and their files", async () => {
    await put(0, "x");
    const { containers } = await cluster.call<{ containers: unknown[] }>(
      `/ws/v1/logs/${applicationId}`,
    );
    expect(containers).toEqual([
      expect.objectContaining({ containerId, instance: "hello-0", nodeId: NODE, complete: false }),
    ]);
    expect(await cluster.call(`/ws/v1/logs/${containerId}/files`)).toEqual({
      files: [{ name: "stdout", sizeBytes: 1 }],
    });
  });

  it("[NM185] who wants what is new is spared what was stored before", async () => {
    await put(0, "before\n");
    const since = await eventually(async () => {
      const [container] = (
        await cluster.call<{ containers: { announcedMs: number }[] }>(
          `/ws/v1/logs/${applicationId}`,
        )
      ).containers;
      const nowMs = Date.now();
      expect(nowMs).toBeGreaterThan((container?.announcedMs ?? nowMs) + 20);
      return nowMs;
    });
    await eventually(() => expect(Date.now()).toBeGreaterThan(since + 20));
    await put(7, "after\n");
    const path = `/ws/v1/logs/${containerId}/files/stdout?since=`;
    expect(await cluster.call(`${path}${since}`)).toMatchObject({
      data: "after\n",
      nextOffset: 13,
    });
    expect(await cluster.call(`${path}1`)).toMatchObject({ data: "before\n" });
    expect(await cluster.call(`${path}${since + 9_000_000}`)).toMatchObject({
      data: "",
      nextOffset: 13,
    });
    expect((await cluster.fetch(`${path}yesterday`)).status).toBe(400);
  });

  it("[NM72] cannot read another's; an administrator says whose are meant", async () => {
    await put(0, "secret");
    const joe = await tokenOf("joe");
    expect((await read(0, 10, joe)).status).toBe(404);
    const path = `/ws/v1/logs/${containerId}/files/stdout?user=ann`;
    expect((await cluster.fetch(path, { token: joe })).status).toBe(403);
    expect((await cluster.fetch(path)).status).toBe(200);
  });

  it("[NM72] is told of a log that is damaged", async () => {
    const path = `/ws/v1/node/logs/${containerId}/stdout/0?user=ann&end=5`;
    await cluster.send(path, new Uint8Array([1, 2, 3, 4, 5]), node);
    const response = await read(0);
    expect(response.status).toBe(409);
    expect(await response.text()).toContain("damaged");
  });

  it("[NM73] reads a service's log from the store when its node is gone", async () => {
    await put(0, "kept\n");
    const [agent] = cluster.agents;
    agent?.dispose();
    const log = await cluster.until("the node to be away", async () => {
      const path = `/app/v1/services/${cluster.service}/logs?containerId=${containerId}`;
      const response = await cluster.fetch(path);
      return response.ok && ((await response.json()) as { data: string });
    });
    expect(log.data).toBe("kept\n");
  });
});

describe("a service that lets somebody see it", () => {
  beforeEach(async () => {
    const [agent] = cluster.agents;
    await cluster.destroy();
    await cluster.until("the end of the first service", () => agent?.running().length === 0);
    const properties = { "yarn.service.acl.view-app": "joe ops" };
    await cluster.launch({}, { configuration: { properties } });
    await cluster.serviceIs("STABLE");
    const { components, id } = await cluster.view();
    containerId = components[0]?.containers[0]?.id ?? "";
    applicationId = id ?? "";
    await announce();
    await put(0, "for ops\n");
  });

  const statusOf = async (path: string, token: string) =>
    (await cluster.fetch(path, { token })).status;

  it("[NM167] shows itself and its aggregated logs to the users and groups of its ACL", async () => {
    const joe = await tokenOf("joe");
    const operator = await tokenOf("zoe", ["ops"]);
    const stranger = await tokenOf("eve", ["dev"]);
    const paths = [
      `/ws/v1/logs/${applicationId}?user=ann`,
      `/ws/v1/logs/${containerId}/files?user=ann`,
      `/ws/v1/logs/${containerId}/files/stdout?user=ann`,
      `/app/v1/services/${cluster.service}?user=ann`,
      `/app/v1/services/${cluster.service}/events?user=ann`,
      "/app/v1/services?user=ann",
    ];
    for (const path of paths) {
      expect(await statusOf(path, joe), path).toBe(200);
      expect(await statusOf(path, operator), path).toBe(200);
      expect(await statusOf(path, stranger), path).toBe(403);
    }
    const app = `/ws/v1/cluster/apps/${applicationId}`;
    expect(await statusOf(app, joe)).toBe(200);
    expect(await statusOf(app, stranger)).toBe(404);
    const kill = { method: "PUT", body: { state: "KILLED" }, token: joe };
    expect((await cluster.fetch(`${app}/state`, kill)).status).toBe(403);
  });

  it("[NM167] goes on to show its logs when the cluster has forgotten its containers", async () => {
    await cluster.destroy();
    await cluster.until("the container to be forgotten", async () => {
      const [status] = await cluster.nodeList();
      return status?.numContainers === 0;
    });
    expect((await announce(node, "ann", true)).status).toBe(204);
    const path = `/ws/v1/logs/${containerId}/files/stdout?user=ann`;
    expect(await statusOf(path, await tokenOf("joe"))).toBe(200);
    expect(await statusOf(path, await tokenOf("eve"))).toBe(403);
  });

  it("[NM167] lets nobody in because a node says so", async () => {
    const said = await cluster.fetch(`/ws/v1/node/logs/${containerId}`, {
      method: "PUT",
      token: node,
      body: { user: "ann", instance: "hello-0", complete: false, viewAcl: "*" },
    });
    expect(said.status).toBe(400);
    const path = `/ws/v1/logs/${containerId}/files/stdout?user=ann`;
    expect(await statusOf(path, await tokenOf("eve"))).toBe(403);
  });
});
