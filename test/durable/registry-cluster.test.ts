import { env, evictDurableObject, runInDurableObject } from "cloudflare:test";
import { describe, expect, it, vi } from "vitest";
import { PUBLISHER_MEMORY_MS } from "../../src/core/registry/publishers.ts";
import type { Registry } from "../../src/durable/registry.ts";
import type { WholeRegistry } from "../support/registry-access-contract.ts";
import { describeRegistryOfCluster } from "../support/registry-cluster-contract.ts";

const registries = (env as unknown as { REGISTRY: DurableObjectNamespace<Registry> }).REGISTRY;
let count = 0;
const openObject = () => registries.getByName(`cluster-contract-${++count}`);

describeRegistryOfCluster(
  "the registry over SQLite",
  () => openObject() as unknown as WholeRegistry,
);

describe("what the registry remembers of its publishers", () => {
  const publication = { user: "joe", count: 1, operations: [] };

  it("[RG18] survives eviction", async () => {
    const registry = openObject();
    await registry.publish({ ...publication, publisher: "web", life: 2 });
    await evictDurableObject(registry);
    const late = await registry.publish({ ...publication, publisher: "web", life: 1 });
    expect(late).toEqual({ ok: true, value: { overtaken: true } });
  });

  it("[RG18] is one row for each that was heard in the last hour", async () => {
    const registry = openObject();
    const rows = () =>
      runInDurableObject(registry, (_, { storage }) =>
        Array.from(storage.sql.exec("SELECT publisher FROM registry_publisher")),
      );
    await registry.publish({ ...publication, publisher: "web", life: 1 });
    await registry.publish({ ...publication, publisher: "web", life: 2 });
    expect(await rows()).toEqual([{ publisher: "web" }]);
    const later = Date.now() + PUBLISHER_MEMORY_MS + 1;
    const clock = vi.spyOn(Date, "now").mockReturnValue(later);
    await registry.publish({ ...publication, publisher: "batch", life: 1 });
    clock.mockRestore();
    expect(await rows()).toEqual([{ publisher: "batch" }]);
  });
});
