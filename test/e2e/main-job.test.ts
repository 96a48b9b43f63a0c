/**
 * The main job, as a person does it at a terminal: launch the Yarnfile of examples/hello-world, look
 * at it, flex it, stop and start it, let it end, destroy it and launch it again.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ContainerView } from "../../src/shared/service.ts";
import { startCluster, type TestCluster } from "../support/cluster.ts";
import { containerIds, containersOf, haveEnded } from "../support/containers.ts";
import { openTerminal, type Terminal } from "../support/terminal.ts";
import { waitFor } from "../support/wait-for.ts";

const YARNFILE = "examples/hello-world/Yarnfile.yaml";
const RECORDS = "/registry/v1/users/admin/yarn-service/hello-world";

let cluster: TestCluster;
let terminal: Terminal;

beforeAll(async () => {
  cluster = await startCluster({ nodes: 2 });
  terminal = openTerminal(cluster);
});

afterAll(async () => {
  await cluster.dispose();
});

/** A command that has to work; answers what it prints. */
async function selvedge(...args: readonly string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await terminal.selvedge(...args);
  expect(exitCode, stderr).toBe(0);
  return stdout;
}

async function instances(): Promise<readonly ContainerView[]> {
  return containersOf(await cluster.services.get("hello-world"));
}

async function registry(path: string): Promise<{ status: number; body: Record<string, unknown> }> {
  const response = await fetch(cluster.url + path);
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

function urlOf({ exposed_ports }: ContainerView): string {
  const [port] = exposed_ports["http"] ?? [];
  return `http://${port?.HostIp}:${port?.HostPort}`;
}

describe("the main job", () => {
  it("launches the example and waits until it is STABLE", async () => {
    const shown = await selvedge("service", "launch", YARNFILE, "--wait");
    expect(shown).toContain("STABLE");
    expect(await selvedge("service", "status", "hello-world")).toMatch(/hello-1\s+READY/);
    expect(await selvedge("service", "list", "--state", "stable", "--quiet")).toBe("hello-world\n");
    const events = await selvedge("service", "events", "hello-world");
    expect(events).toMatch(/hello-0 runs on [\s\S]*hello-0 is ready[\s\S]*the service is STABLE/);
  });

  it("serves: each container answers with its own name, and is found in the registry", async () => {
    const containers = await instances();
    await waitFor(
      async () => {
        const { body } = await registry(`${RECORDS}/components`);
        return (body["children"] as readonly string[]).length === containers.length;
      },
      { what: "all containers to be in the registry" },
    );
    const { body: service } = await registry(RECORDS);
    expect(service).toMatchObject({
      record: { type: "JSONServiceRecord", description: "Two small web servers" },
      children: ["components"],
    });
    for (const container of containers) {
      const name = container.component_instance_name;
      const element = container.id.replace("container", "ctr").replaceAll("_", "-");
      const { body } = await registry(`${RECORDS}/components/${element}`);
      expect(body["record"]).toMatchObject({
        description: name,
        "yarn:id": container.id,
        "yarn:persistence": "container",
        external: [{ api: "http://", addresses: [{ uri: urlOf(container) }] }],
      });
      const answer = await (await fetch(`${urlOf(container)}/who-are-you`)).text();
      expect(answer).toContain(`Hello from ${name}, ${container.id}`);
      await waitFor(
        async () =>
          (await selvedge("service", "logs", "hello-world", "--instance", name)).includes(
            "GET /who-are-you",
          ),
        { what: `the log of ${name} to have the request` },
      );
    }
  });

  it("flexes by +2, and by -1 gives up the highest instance", async () => {
    const before = containerIds(await cluster.services.get("hello-world"));
    await selvedge("service", "flex", "hello-world", "hello=+2", "--wait");
    const four = containerIds(await cluster.services.get("hello-world"));
    expect(Object.keys(four)).toEqual(["hello-0", "hello-1", "hello-2", "hello-3"]);
    expect(four).toMatchObject(before);

    await selvedge("service", "flex", "hello-world", "hello=-1", "--wait");
    const three = containerIds(await cluster.services.get("hello-world"));
    const { "hello-3": given, ...kept } = four;
    expect(three).toEqual(kept);
    await haveEnded([given ?? ""]);
  });

  it("stops: processes and records are gone, the service is still known", async () => {
    const { id } = await cluster.services.get("hello-world");
    const ids = Object.values(containerIds(await cluster.services.get("hello-world")));
    await selvedge("service", "stop", "hello-world", "--wait");
    await haveEnded(ids);
    await waitFor(async () => (await registry(RECORDS)).status === 404, { what: "no record" });
    expect(await cluster.services.get("hello-world")).toMatchObject({ id, state: "STOPPED" });
    expect(await instances()).toEqual([]);
    await waitFor(async () => (await cluster.cluster.metrics()).containersAllocated === 0, {
      what: "the nodes to be free again",
    });
  });

  it("starts again as a new application, with the definition as it was flexed", async () => {
    const { id } = await cluster.services.get("hello-world");
    await selvedge("service", "start", "hello-world", "--wait");
    const started = await cluster.services.get("hello-world");
    expect(started.id).not.toBe(id);
    expect(Object.keys(containerIds(started))).toEqual(["hello-0", "hello-1", "hello-2"]);
    for (const container of containersOf(started)) {
      expect(await (await fetch(urlOf(container))).text()).toContain(container.id);
    }
  });

  it("is destroyed, and launched again under the same name at once", async () => {
    const before = await cluster.services.get("hello-world");
    await selvedge("service", "destroy", "hello-world", "--yes");
    await selvedge("service", "launch", YARNFILE, "--wait");
    const after = await cluster.services.get("hello-world");
    expect(after.id).not.toBe(before.id);
    expect(Object.keys(containerIds(after))).toEqual(["hello-0", "hello-1"]);
    await haveEnded(Object.values(containerIds(before)));
  });

  it("is gone when its lifetime is over", async () => {
    const ids = Object.values(containerIds(await cluster.services.get("hello-world")));
    await cluster.http.request("PUT", "/app/v1/services/hello-world", { lifetime: 1 });
    await waitFor(
      async () => (await terminal.selvedge("service", "status", "hello-world")).exitCode === 70,
      { what: "the service to be unknown" },
    );
    expect(await cluster.services.list()).toEqual([]);
    await haveEnded(ids);
    await waitFor(async () => (await registry(RECORDS)).status === 404, { what: "no record" });
    const destroyed = await terminal.selvedge("service", "destroy", "hello-world", "--yes");
    expect(destroyed.exitCode).toBe(70);
    expect(destroyed.stderr).toContain("selvedge service list");
  });
});
