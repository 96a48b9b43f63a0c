/** Upgrades over HTTP: what reaches the service's master, and what is refused before. */
import { beforeEach, describe, expect, it, vi } from "vitest";
import { fakeCluster, serviceOf, yarnfile } from "./fake-cluster.ts";

beforeEach(() => {
  vi.spyOn(console, "log").mockReturnValue();
});

async function clusterWithWeb() {
  const cluster = await fakeCluster();
  cluster.services.set("joe/web", serviceOf("joe", "web"));
  const ask = (method: string, path: string, body: unknown) =>
    cluster.ask(method, `/app/v1/services${path}`, { token: cluster.tokens.joe, body });
  return { cluster, ask };
}

describe("an upgrade of a service", () => {
  it.each(["UPGRADING", "UPGRADING_AUTO_FINALIZE", "EXPRESS_UPGRADING"])(
    "[UP1] is begun by PUT with the whole Yarnfile and state %s",
    async (state) => {
      const { cluster, ask } = await clusterWithWeb();
      const { name: _, ...nameless } = yarnfile("web", { version: "2.0.0" });
      const answer = await ask("PUT", "/web", { ...nameless, state });
      expect(answer).toMatchObject({
        status: 202,
        json: { state: "ACCEPTED", diagnostics: expect.stringContaining("1.0.0 to 2.0.0") },
      });
      expect(cluster.reached()).toEqual(["upgrade"]);
      expect(cluster.services.get("joe/web")?.state).toBe(state);
    },
  );

  it("[UP4] is cancelled by state CANCEL_UPGRADING", async () => {
    const { cluster, ask } = await clusterWithWeb();
    const answer = await ask("PUT", "/web", { state: "CANCEL_UPGRADING" });
    expect(answer.status).toBe(202);
    expect(cluster.reached()).toEqual(["cancelUpgrade"]);
  });

  it("[UP10] is planned by POST, which changes nothing", async () => {
    const { cluster, ask } = await clusterWithWeb();
    const answer = await ask("POST", "/web/plan", yarnfile("web", { version: "2.0.0" }));
    expect(answer).toMatchObject({ status: 200, json: { from: "1.0.0", to: "2.0.0" } });
    expect(cluster.reached()).toEqual(["planUpgrade"]);
  });

  it.each([
    ["PUT", "/web/components/hello", { state: "UPGRADING" }, "hello-0"],
    ["PUT", "/web/components", [{ name: "hello", state: "UPGRADING" }], "hello-0"],
    [
      "PUT",
      "/web/component-instances",
      [{ component_instance_name: "hello-1", state: "UPGRADING" }],
      "hello-1",
    ],
    ["PUT", "/web/components/hello/component-instances/hello-1", { state: "UPGRADING" }, "hello-1"],
  ])("[UP2] is asked for part by part: %s %s", async (method, path, body, instance) => {
    const { cluster, ask } = await clusterWithWeb();
    const answer = await ask(method, path, body);
    expect(answer).toMatchObject({
      status: 202,
      json: { state: "ACCEPTED", diagnostics: `Upgrading instance ${instance}` },
    });
    expect(cluster.reached()).toEqual(["upgradeInstances"]);
  });

  it.each([
    ["/web", { ...yarnfile("other", { version: "2" }), state: "UPGRADING" }],
    ["/web", { ...yarnfile("web", { versoin: "2" }), state: "UPGRADING" }],
    ["/web/components", []],
    ["/web/components", [{ name: "hello" }]],
    ["/web/components", [{ state: "UPGRADING" }]],
    ["/web/components", { name: "hello", state: "UPGRADING" }],
    ["/web/components/hello", { name: "other", state: "UPGRADING" }],
    ["/web/component-instances", [{ component_instance_name: "hello-0", state: "READY" }]],
    ["/web/components/hello/component-instances/hello-0", {}],
    ["/web/components/hello/component-instances/world-0", { state: "UPGRADING" }],
  ])("[UP11] is refused whole when part of it makes no sense: %s %j", async (path, body) => {
    const { cluster, ask } = await clusterWithWeb();
    expect((await ask("PUT", path, body)).status).toBe(400);
    expect(cluster.reached()).toEqual([]);
  });
});
