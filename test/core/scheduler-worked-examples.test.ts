/**
 * The worked examples of docs/scheduler.md: its cluster, its configuration as it stands there, and
 * the numbers that it says.
 */
import { describe, expect, it } from "vitest";
import type { SchedulerConfiguration } from "../../src/core/scheduler/configuration.ts";
import { readSchedulerDocument } from "../../src/core/scheduler/configuration-document.ts";
import { parseSchedulerProperties } from "../../src/core/scheduler/configuration-properties.ts";
import { parseYaml } from "../../src/shared/yaml.ts";
import { readProjectFile } from "../support/source-files.ts";
import { gb, SchedulerWorld } from "./scheduler-world.ts";

const PROD = "root.prod";
const DEV = "root.dev";

function configurationOfThePage(): SchedulerConfiguration {
  const [, yaml = ""] = /```yaml\n([\s\S]*?)```/.exec(readProjectFile("docs/scheduler.md")) ?? [];
  const parsed = parseYaml(yaml);
  const properties = parsed.ok ? readSchedulerDocument(parsed.value) : parsed;
  const configuration = properties.ok ? parseSchedulerProperties(properties.value) : properties;
  if (!configuration.ok) throw new Error(configuration.error.message);
  return configuration.value;
}

/** Ten nodes of 16 GB: n0 to n9. */
function cluster(more: Partial<SchedulerConfiguration> = {}): SchedulerWorld {
  const nodes = Array.from({ length: 10 }, (_, index) => [`n${index}`, gb(16)] as const);
  return new SchedulerWorld(Object.fromEntries(nodes), { ...configurationOfThePage(), ...more });
}

describe("the page's cluster", () => {
  it("[CS1] guarantees 96 GB to prod and 64 GB to dev, which may grow to 120 GB", () => {
    const world = cluster();
    const [prod] = world.queue(PROD).partitions;
    const [dev] = world.queue(DEV).partitions;
    expect(prod?.guaranteed.memoryMb).toBe(96 * 1_024);
    expect(dev?.guaranteed.memoryMb).toBe(64 * 1_024);
    expect(dev?.maximum.memoryMb).toBe(120 * 1_024);
  });

  it("[CS4] gives dev what prod leaves, up to 120 GB, and says what stops it", () => {
    const world = cluster();
    world.submit("etl", { queue: DEV, user: "ann" }, { count: 200 });
    expect(world.served()).toEqual({ etl: 120 });
    expect(world.reasons("etl")).toEqual(["queue root.dev is at 100 % of its maximum"]);
  });

  it("[CS2] serves dev first, at 37.5 % of its guarantee, and prod, at 50 %, then", () => {
    const world = cluster();
    world.submit("shop", { queue: PROD }, { count: 48 });
    world.submit("etl", { queue: DEV }, { count: 24 });
    world.schedule();
    world.ask("shop", { count: 10 });
    world.ask("etl", { count: 10 });
    expect(world.served(1)).toEqual({ etl: 1 });
  });

  it("[CS10] limits two users who have 20 GB each to 21 GB, and so on, in turn", () => {
    const world = cluster();
    world.submit("etl", { queue: DEV, user: "ann" }, { count: 20 });
    world.submit("report", { queue: DEV, user: "bob" }, { count: 20 });
    world.schedule();
    world.ask("etl", { count: 90 });
    world.ask("report", { count: 90 });
    const limits = world.queue(DEV).users?.map(({ limit }) => limit.memoryMb / 1_024);
    expect(limits).toEqual([21, 21]);
    world.schedule();
    const [etl = 0, report = 0] = world.gigabytes("etl", "report");
    expect(etl + report).toBe(120);
    expect(Math.abs(etl - report)).toBeLessThanOrEqual(2);
  });

  it("[CS11] starts six ApplicationMasters of 2 GB in dev, and no seventh", () => {
    const world = cluster();
    for (let number = 1; number <= 7; number += 1) {
      world.submit(`spark${number}`, { queue: DEV, user: "ann", master: gb(2) }, { count: 1 });
    }
    expect(Object.keys(world.served())).toHaveLength(6);
    expect(world.reasons("spark7")).toEqual([
      expect.stringMatching(/^Queue's AM resource limit exceeded: queue root.dev may use 12288 MB/),
    ]);
  });

  it("[CS5] admits 4,000 applications to dev, 2,000 of one user", () => {
    expect(cluster().queue(DEV)).toMatchObject({
      maximumApplications: 4_000,
      maximumApplicationsPerUser: 2_000,
    });
  });

  it("[CS18] keeps a node for 8 GB until eight containers of 1 GB have ended there", () => {
    const world = cluster();
    world.submit("shop", { queue: PROD }, { count: 96 });
    world.submit("etl", { queue: DEV, user: "ann" }, { count: 64 });
    const placed = world.schedule();
    expect(placed).toHaveLength(160);
    world.submit("train", { queue: DEV, user: "bob" }, { capability: gb(8) });
    world.submit("small", { queue: DEV, user: "eve" }, { count: 20 });
    world.schedule();
    const [reason = ""] = world.reasons("train");
    const kept = /node (n\d:1) is reserved for it/.exec(reason)?.[1];
    const there = placed.filter(({ nodeId }) => nodeId === kept);
    const served = there.slice(0, 8).map(({ containerId }) => {
      world.scheduler.release(containerId);
      return world.served();
    });
    expect(served).toEqual([...Array(7).fill({}), { train: 1 }]);
  });

  it("[PR5] [PR6] asks dev for 4 GB in a round, and takes them 15 s later", () => {
    const { preemption } = configurationOfThePage();
    const world = cluster({ preemption: { ...preemption, enabled: true } });
    world.submit("etl", { queue: DEV, user: "ann" }, { count: 200 });
    world.schedule();
    world.submit("shop", { queue: PROD }, { count: 96 });
    expect(world.served()).toEqual({ shop: 40 });
    world.nowMs = 3_000;
    const first = world.scheduler.preempt(world.nowMs);
    expect(first.asked.get("etl")).toHaveLength(4);
    expect(first.kill).toEqual([]);
    world.nowMs = 18_000;
    expect(world.scheduler.preempt(world.nowMs).kill).toHaveLength(4);
  });
});
