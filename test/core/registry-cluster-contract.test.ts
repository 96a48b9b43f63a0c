import { describe, expect, it } from "vitest";
import { PUBLISHER_MEMORY_MS } from "../../src/core/registry/publishers.ts";
import { mapRegistry } from "../support/map-registry.ts";
import { describeRegistryOfCluster } from "../support/registry-cluster-contract.ts";

describeRegistryOfCluster("the registry over a Map", () => mapRegistry());

describe("a publisher that was not heard of for an hour", () => {
  it("[RG18] is forgotten when a new one comes", async () => {
    let nowMs = 0;
    const registry = mapRegistry(() => nowMs);
    const publish = (publisher: string, life: number) =>
      registry.publish({ publisher, user: "joe", life, count: 1, operations: [] });
    await publish("old", 2);
    expect(await publish("old", 1)).toMatchObject({ value: { overtaken: true } });
    nowMs += PUBLISHER_MEMORY_MS + 1;
    await publish("new", 1);
    expect(await publish("old", 1)).toMatchObject({ value: { overtaken: false } });
  });
});
