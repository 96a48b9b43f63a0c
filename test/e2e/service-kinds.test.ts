/**
 * Services of every kind on one cluster: work that ends, work that keeps failing, components that
 * wait for each other, and what does not fit.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ROOT } from "../../scripts/run.ts";
import { TextBody } from "../../src/client/http.ts";
import { startCluster, type TestCluster } from "../support/cluster.ts";
import { containerIds, containersOf, haveEnded, sleeper, sleepers } from "../support/containers.ts";
import { waitFor } from "../support/wait-for.ts";

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await startCluster({ nodes: 2, memoryMb: 2_048 });
});

afterAll(async () => {
  await cluster.dispose();
});

async function launchExample(name: string): Promise<void> {
  const yarnfile = readFileSync(join(ROOT, "examples", name, "Yarnfile.yaml"), "utf8");
  await cluster.services.create(new TextBody("application/yaml", yarnfile));
}

describe("work that ends", () => {
  it("the example batch SUCCEEDED, stays to be looked at, and its logs have the result", async () => {
    await launchExample("batch");
    const service = await cluster.serviceIs("count-primes", "SUCCEEDED");
    const parts = containersOf(service);
    expect(parts.map(({ state }) => state)).toEqual(Array(4).fill("SUCCEEDED"));
    const logs = await Promise.all(
      parts.map(({ id }) =>
        cluster.services.log("count-primes", {
          containerId: id,
          file: "stdout",
          offset: 0,
          length: 1_000,
          waitMs: 0,
        }),
      ),
    );
    const counts = logs.map(({ data }) => Number(/: (\d+) primes/.exec(data)?.[1]));
    expect(counts.reduce((sum, count) => sum + count)).toBe(283_146);
    expect((await cluster.cluster.application(service.id ?? "")).finalStatus).toBe("SUCCEEDED");
    await cluster.services.destroy("count-primes");
  });

  it("with NEVER, one container that fails makes the service FAILED, and says how", async () => {
    const once = (name: string, command: string) =>
      sleeper({ name, restart_policy: "NEVER", launch_command: command });
    const components = [once("good", "exit 0"), once("bad", "echo no such table >&2; exit 3")];
    await cluster.launch({ name: "once", version: "1", components });
    const service = await cluster.serviceIs("once", "FAILED");
    expect(service.diagnostics).toContain("bad");
    const [good, bad] = containersOf(service);
    expect(good).toMatchObject({ component_instance_name: "good-0", state: "SUCCEEDED" });
    expect(bad).toMatchObject({ component_instance_name: "bad-0", state: "FAILED" });
    expect(bad?.diagnostics).toContain("no such table");
    await cluster.services.destroy("once");
  });
});

describe("a component that keeps failing", () => {
  it("is restarted at once, then after a pause that is shown, and FAILED in the end", async () => {
    const threshold = "yarn.service.container-failure-per-component.threshold";
    await cluster.launch({
      ...sleepers("crash", { launch_command: "echo no license >&2; exit 1" }),
      configuration: { properties: { [threshold]: "2" } },
    });
    const waiting = await waitFor(
      async () => {
        const { diagnostics } = await cluster.services.get("crash");
        return diagnostics.includes("is restarted in") && diagnostics;
      },
      { what: "the pause to be shown" },
    );
    expect(waiting).toMatch(/^sleeper: sleeper-0 is restarted in [01] s after: \S/);
    const { diagnostics } = await cluster.serviceIs("crash", "FAILED");
    expect(diagnostics).toBe("component sleeper failed 3 times, which is too often");
    const ends = (await cluster.services.events("crash")).filter(
      ({ type }) => type === "CONTAINER_COMPLETED",
    );
    const [first = 0, second = 0, third = 0] = ends.map(({ timeMs }) => timeMs);
    expect(ends).toHaveLength(3);
    expect(third - second).toBeGreaterThanOrEqual(1_000);
    expect(second - first).toBeLessThan(third - second);
    expect(ends[0]?.message).toContain("no license");
    await cluster.services.destroy("crash");
  });
});

describe("a component that depends on another", () => {
  it("starts after it is ready, and knows its address", async () => {
    await launchExample("web-and-worker");
    const service = await cluster.serviceIs("web-and-worker", "STABLE");
    expect(service.lifetime).toBeGreaterThan(3_500);
    const events = await cluster.services.events("web-and-worker");
    const order = events
      .filter(({ type }) => ["COMPONENT_STARTED", "INSTANCE_READY"].includes(type))
      .map(({ type, component, instance }) => `${type} ${instance ?? component}`);
    expect(order.slice(0, 3)).toEqual([
      "COMPONENT_STARTED web",
      "INSTANCE_READY web-0",
      "COMPONENT_STARTED worker",
    ]);
    expect(order.slice(3).toSorted()).toEqual([
      "INSTANCE_READY worker-0",
      "INSTANCE_READY worker-1",
    ]);
    const [web] = containersOf(service);
    const [port] = web?.exposed_ports["http"] ?? [];
    await waitFor(
      async () => {
        const response = await fetch(`http://${port?.HostIp}:${port?.HostPort}/`);
        const reports = (await response.json()) as Record<string, number>;
        return reports["worker-0"] !== undefined && reports["worker-1"] !== undefined;
      },
      { what: "both workers to report to the web server" },
    );
    await cluster.services.destroy("web-and-worker");
    await haveEnded(Object.values(containerIds(service)));
  });
});

describe("what does not fit", () => {
  it("waits, says for what, and runs as soon as another node joins", async () => {
    await waitFor(async () => (await cluster.cluster.metrics()).containersAllocated === 0, {
      what: "the nodes to be free",
    });
    const resource = { cpus: 1, memory: "1500" };
    await cluster.launch(sleepers("large", { number_of_containers: 3, resource }));
    const waiting = await waitFor(
      async () => {
        const service = await cluster.services.get("large");
        const running = containersOf(service).filter(({ state }) => state === "READY");
        return running.length === 2 && service.diagnostics !== "" && service;
      },
      { what: "two of three to run" },
    );
    expect(waiting.state).toBe("STARTED");
    expect(waiting.diagnostics).toMatch(
      /^sleeper: 1 of 3 wait for a container: .*\b2\b.* too little memory/,
    );
    const before = containerIds(waiting);
    await cluster.startNode(3);
    const stable = await cluster.serviceIs("large", "STABLE");
    expect(stable.diagnostics).toBe("");
    expect(containerIds(stable)).toMatchObject(before);
    await cluster.services.destroy("large");
  });

  it("is refused at once when no node could ever hold it", async () => {
    const resource = { cpus: 1, memory: "4096" };
    const launch = cluster.launch(sleepers("too-large", { resource }));
    await expect(launch).rejects.toMatchObject({
      status: 400,
      failure: {
        reason: "InvalidResourceRequestException",
        message: expect.stringMatching(/4096 MB.*the largest has 2048 MB/),
      },
    });
    await expect(cluster.services.get("too-large")).rejects.toMatchObject({ status: 404 });
  });
});
