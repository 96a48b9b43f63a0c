/** What the ResourceManager does for the registry: purges, homes, and containers' credentials. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { servesRegistry } from "../../src/durable/env.ts";
import { Registry } from "../../src/durable/registry.ts";
import { ResourceManager } from "../../src/durable/resource-manager.ts";
import type { YarnEnd } from "../../src/shared/protocol/registry-operations.ts";
import { type EdgeCluster, env, openCluster } from "./support/edge-cluster.ts";
import type { TestAgent } from "./support/test-agent.ts";
import { isStable } from "./support/thread.ts";
import { VirtualClock } from "./support/virtual-clock.ts";

/** Longer than a node may be away, and than an object waits before it says something again. */
const PATIENCE_MS = 40_000;

let cluster: EdgeCluster;
let agent: TestAgent;
let clock: VirtualClock;

beforeEach(async () => {
  clock = new VirtualClock();
  cluster = await openCluster();
  agent = await cluster.startNode("a:8041");
});

afterEach(() => {
  cluster.dispose();
  vi.restoreAllMocks();
});

const registryOf = ({ name }: EdgeCluster) => env.REGISTRY.getByName(name);

/** An administrator's record at `/services/{name}`. */
async function bindTo(name: string, { yarnId, persistence }: YarnEnd): Promise<void> {
  const attributes = { "yarn:id": yarnId, "yarn:persistence": persistence };
  await cluster.call("/ws/v1/registry-operations/bind", {
    method: "POST",
    body: { path: `/services/${name}`, record: { ...attributes, external: [], internal: [] } },
  });
}

async function services(): Promise<readonly string[]> {
  const reply = await registryOf(cluster).list("/services");
  return reply.ok ? [...reply.value] : [];
}

/** Ids of the one application, its attempt and its first container. */
async function ids() {
  const [application] = await cluster.rows<{ applicationId: string; attemptId: string }>(
    "ResourceManager",
    "applications",
  );
  const [containerId = ""] = agent.running();
  return { containerId, attemptId: "", applicationId: "", ...application };
}

describe("a record that is bound to what has ended", () => {
  it("[RG16] goes with its container, and only then", async () => {
    await cluster.launch({ number_of_containers: 2 });
    await isStable(cluster, agent, 2);
    const [first = "", second = ""] = agent.running();
    await bindTo("first", { yarnId: first, persistence: "container" });
    await bindTo("second", { yarnId: second, persistence: "container" });
    agent.complete(first, 1);
    await cluster.until("the purge", async () => !(await services()).includes("first"));
    expect(await services()).toEqual(["second"]);
  });

  it("[RG16] goes with its application, its attempt, and their containers", async () => {
    await cluster.launch();
    await isStable(cluster, agent, 1);
    const { containerId, attemptId, applicationId } = await ids();
    await bindTo("c", { yarnId: containerId, persistence: "container" });
    await bindTo("t", { yarnId: attemptId, persistence: "application-attempt" });
    await bindTo("a", { yarnId: applicationId, persistence: "application" });
    await bindTo("p", { yarnId: applicationId, persistence: "container" });
    await cluster.destroy();
    await cluster.until("the container to end", () => agent.statuses.size === 0);
    await cluster.until("the purge", async () => (await services()).length <= 1);
    expect(await services()).toEqual(["p"]);
  });

  it("[RG16] goes though the registry could not be reached and the ResourceManager was lost", async () => {
    await cluster.launch();
    await isStable(cluster, agent, 1);
    const { containerId } = await ids();
    await bindTo("c", { yarnId: containerId, persistence: "container" });
    const purge = vi
      .spyOn(Registry.prototype, "purgeEnded")
      .mockRejectedValue(new Error("the registry cannot be reached"));
    agent.complete(containerId, 1);
    await cluster.until("an attempt to say it", () => purge.mock.calls.length > 0);
    expect(await services()).toEqual(["c"]);
    await cluster.crash("ResourceManager");
    purge.mockRestore();
    await clock.advance(cluster, PATIENCE_MS);
    await cluster.until("the purge", async () => (await services()).length === 0);
    await cluster.until("nothing to be said any more", async () => {
      return (await cluster.rows("ResourceManager", "purges")).length === 0;
    });
  });

  it("[RG16] is purged in one call with all that its node had when it was lost", async () => {
    await cluster.launch({ number_of_containers: 8 });
    await isStable(cluster, agent, 8);
    const purge = vi.spyOn(Registry.prototype, "purgeEnded");
    const ended = [...agent.running()].sort();
    agent.disconnect();
    await clock.advance(cluster, PATIENCE_MS);
    // Clusters of other tests may still have something to say.
    const told = await cluster.until("the purge", () =>
      purge.mock.calls
        .map(([ends]) => ends.map(({ yarnId }) => yarnId).sort())
        .find((ids) => ended.some((id) => ids.includes(id))),
    );
    expect(told).toEqual(ended);
  });
});

describe("SELVEDGE_REGISTRY_RM_ENABLED", () => {
  it("[RG16] is on with any value but false, and with none", () => {
    const setting = (value: string) =>
      servesRegistry({ ...env, SELVEDGE_REGISTRY_RM_ENABLED: value });
    expect([servesRegistry(env), setting("true"), setting("false")]).toEqual([true, true, false]);
  });
});

describe("the home of a user", () => {
  it("[RG17] is there once the user has submitted something", async () => {
    const home = () => registryOf(cluster).exists("/users/ann");
    expect(await home()).toEqual({ ok: true, value: false });
    vi.spyOn(Registry.prototype, "publish").mockRejectedValue(new Error("not this way"));
    await cluster.launch();
    await cluster.until("the home", async () => {
      const reply = await home();
      return reply.ok && reply.value;
    });
    await cluster.until("it to be noted", async () => {
      const [row] = await cluster.rows<{ hasHome: boolean }>("ResourceManager", "users");
      return row?.hasHome === true;
    });
  });
});

describe("a container's credential", () => {
  async function credential() {
    await cluster.launch();
    await isStable(cluster, agent, 1);
    const [containerId = ""] = agent.running();
    const registry = agent.registryOf(containerId);
    const bind = async (path: string) => {
      const body = { path, record: { external: [], internal: [] }, createParents: true };
      const { token } = registry;
      const options = { method: "POST", body, token };
      const response = await cluster.fetch("/ws/v1/registry-operations/bind", options);
      await response.text();
      return response.status;
    };
    return { ...registry, containerId, bind };
  }

  it("[RG19] writes below its own path and nowhere else", async () => {
    const { bind, path, containerId } = await credential();
    const element = containerId.replace("container", "ctr").replaceAll("_", "-");
    expect(path).toBe(`/users/ann/yarn-service/${cluster.service}/components/${element}`);
    expect(await bind(`${path}/rest`)).toBe(200);
    for (const elsewhere of [path, `${path}x/rest`, "/services/web", "/users/ann/web"]) {
      expect(await bind(elsewhere), elsewhere).toBe(403);
    }
  });

  it("[RG19] ends with its container, and so does what was written with it", async () => {
    const { bind, path, containerId } = await credential();
    await bind(`${path}/rest`);
    agent.complete(containerId, 1);
    await cluster.until("the purge", async () => {
      const reply = await registryOf(cluster).exists(path);
      return reply.ok && !reply.value;
    });
    expect(await bind(`${path}/rest`)).toBe(401);
    expect(await registryOf(cluster).exists(path)).toEqual({ ok: true, value: false });
  });

  it("[RG19] writes nothing when its container ends while it is looked at", async () => {
    const { bind, path, containerId } = await credential();
    vi.spyOn(ResourceManager.prototype, "findLiveContainer").mockImplementation(async () => {
      await registryOf(cluster).purgeEnded([{ yarnId: containerId, persistence: "container" }]);
      return { user: "ann" };
    });
    expect(await bind(`${path}/rest`)).toBe(401);
  });

  it("[RG19] writes nothing in the home of another user whose name makes the same path", async () => {
    const { bind, path } = await credential();
    vi.spyOn(ResourceManager.prototype, "findLiveContainer").mockResolvedValue({ user: "an.n" });
    expect(await bind(`${path}/rest`)).toBe(403);
  });

  it("[RG19] is kept by nobody once the node has it", async () => {
    const { token } = await credential();
    await cluster.until("the tracker to forget it", async () => {
      return !JSON.stringify(await cluster.contents("ResourceTracker")).includes(token);
    });
    for (const object of ["ResourceManager", "ServiceMaster", "Registry"] as const) {
      expect(JSON.stringify(await cluster.contents(object)), object).not.toContain(token);
    }
  });
});
