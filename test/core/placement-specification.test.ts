/** `placement_policy` of a Yarnfile, as people write it. */
import { describe, expect, it } from "vitest";
import {
  allocationTagsOf,
  readPlacementPolicy,
} from "../../src/core/service/placement-specification.ts";
import type { Finding } from "../../src/shared/errors.ts";
import type { PlacementPolicy, PolicyConstraint } from "../../src/shared/service.ts";
import { parseYarnfile } from "../../src/shared/yarnfile.ts";

const OWNER = { component: "web", components: ["web", "db", "cache"] };
const PATH = ["components", 0, "placement_policy"];

function read(policy: PlacementPolicy) {
  const findings: Finding[] = [];
  const placement = readPlacementPolicy(policy, OWNER, PATH, findings);
  return { ...placement, findings: findings.map(({ path, message }) => `${path}: ${message}`) };
}

const readOne = (...constraints: PolicyConstraint[]) => read({ constraints });
const tags = (namespace: "self" | "all", ...names: string[]) => ({
  kind: "allocation-tags",
  namespace,
  tags: names,
});

describe("a placement_policy that is right", () => {
  it("[CS78] keeps a component's containers apart, as the examples of Hadoop do", () => {
    const anti = { name: "CA1", type: "ANTI_AFFINITY", scope: "NODE", target_tags: ["web"] };
    expect(readOne(anti)).toEqual({
      constraint: {
        type: "cardinality",
        scope: "node",
        targets: [tags("self", "web")],
        min: 0,
        max: 0,
      },
      nodeLabel: undefined,
      findings: [],
    });
  });

  it("[CS78] comes from a Yarnfile as it is parsed", () => {
    const placement_policy = {
      constraints: [{ type: "AFFINITY", scope: "rack", target_tags: ["db"] }],
    };
    const yarnfile = parseYarnfile({
      name: "shop",
      version: "1",
      components: [{ name: "web", placement_policy }],
    });
    const policy = yarnfile.ok ? yarnfile.value.components[0]?.placement_policy : undefined;
    expect(read(policy ?? {}).constraint).toEqual({
      type: "cardinality",
      scope: "rack",
      targets: [tags("self", "db")],
      min: 1,
    });
  });

  it("[CS78] may name a component of another service, which is found by its full name", () => {
    const near = { type: "AFFINITY", scope: "NODE", target_tags: ["db", "anna/shop/cache"] };
    expect(readOne(near).constraint).toMatchObject({
      type: "and",
      of: [{ targets: [tags("self", "db")] }, { targets: [tags("all", "anna/shop/cache")] }],
    });
    expect(allocationTagsOf("anna", "shop", "cache")).toEqual(["cache", "anna/shop/cache"]);
  });

  it("[CS78] counts the container itself: at most 3 of one's own kind is 2 before it comes", () => {
    const upTo3 = { type: "AFFINITY_WITH_CARDINALITY", scope: "NODE", max_cardinality: 3 };
    expect(readOne({ ...upTo3, target_tags: ["web"] }).constraint).toMatchObject({
      min: 0,
      max: 2,
    });
    expect(readOne({ ...upTo3, target_tags: ["db"] }).constraint).toMatchObject({ min: 0, max: 3 });
    expect(readOne({ ...upTo3, target_tags: ["web", "db"] }).constraint).toMatchObject({
      of: [
        { targets: [tags("self", "web")], max: 2 },
        { targets: [tags("self", "db")], max: 3 },
      ],
    });
  });

  it("[CS78] demands node attributes besides tags, and their absence for ANTI_AFFINITY", () => {
    const node_attributes = { zone: ["east", "west"] };
    const both = { type: "AFFINITY", scope: "NODE", target_tags: ["db"], node_attributes };
    expect(readOne(both).constraint).toMatchObject({
      type: "and",
      of: [
        { targets: [{ attribute: "zone", operator: "EQ", values: ["east", "west"] }], min: 0 },
        { targets: [tags("self", "db")], min: 1 },
      ],
    });
    expect(readOne({ type: "ANTI_AFFINITY", node_attributes }).constraint).toMatchObject({
      targets: [{ attribute: "zone", operator: "NE", values: ["east", "west"] }],
    });
  });

  it("[CS78] chooses the partition, alone or for several constraints", () => {
    const inGpu = { type: "AFFINITY", node_partitions: ["gpu"] };
    expect(readOne(inGpu, inGpu)).toEqual({
      constraint: undefined,
      nodeLabel: "gpu",
      findings: [],
    });
    expect(read({ label: "gpu" })).toEqual({
      constraint: undefined,
      nodeLabel: "gpu",
      findings: [],
    });
  });

  it("[CS78] spreads the component itself when nothing else is named, one apart", () => {
    expect(readOne({ type: "SPREAD", scope: "RACK" }).constraint).toEqual({
      type: "spread",
      scope: "rack",
      namespace: "self",
      tags: ["web"],
      maxSkew: 1,
    });
    const loose = { type: "SPREAD", scope: "node", target_tags: ["db"], max_skew: 3 };
    expect(readOne(loose).constraint).toMatchObject({ tags: ["db"], maxSkew: 3 });
  });
});

describe("a placement_policy that is wrong", () => {
  it("[CS78] hears of everything at once, with the place and the constraint's name", () => {
    const { findings } = readOne(
      { name: "apart", type: "ANTIAFFINITY", scope: "HOST", target_tags: ["wep"] },
      { type: "AFFINITY", target_tags: ["a/b"] },
    );
    const path = "components[0].placement_policy.constraints";
    expect(findings).toEqual([
      `${path}[0].type: expects AFFINITY, ANTI_AFFINITY, AFFINITY_WITH_CARDINALITY, SPREAD, not "ANTIAFFINITY"; did you mean ANTI_AFFINITY? (constraint "apart")`,
      `${path}[0].target_tags[0]: "wep" is not a component of this service; did you mean web? (constraint "apart")`,
      `${path}[0].scope: expects NODE or RACK, not "HOST" (constraint "apart")`,
      `${path}[1].target_tags[0]: expects a component of this service, or user/service/component, not "a/b"`,
      `${path}[1].scope: is missing: expects NODE or RACK`,
    ]);
  });

  const WRONG: [string, PolicyConstraint, string][] = [
    ["no type", { scope: "NODE", target_tags: ["db"] }, "type: is missing"],
    ["nothing to hold on to", { type: "AFFINITY", scope: "NODE" }, "expects target_tags"],
    [
      "bounds of another type",
      { type: "AFFINITY", scope: "NODE", target_tags: ["db"], max_cardinality: 2 },
      "max_cardinality: belongs to AFFINITY_WITH_CARDINALITY",
    ],
    [
      "no bounds where they are the point",
      { type: "AFFINITY_WITH_CARDINALITY", scope: "NODE", target_tags: ["db"] },
      "expects min_cardinality, max_cardinality or both",
    ],
    [
      "a maximum below the minimum",
      {
        type: "AFFINITY_WITH_CARDINALITY",
        scope: "NODE",
        target_tags: ["db"],
        min_cardinality: 3,
        max_cardinality: 2,
      },
      "max_cardinality: expects at least min_cardinality, 3, not 2",
    ],
    [
      "a negative minimum",
      {
        type: "AFFINITY_WITH_CARDINALITY",
        scope: "NODE",
        target_tags: ["db"],
        min_cardinality: -1,
      },
      "min_cardinality: expects 0 or more, not -1",
    ],
    [
      "bounds without anybody to count",
      {
        type: "AFFINITY_WITH_CARDINALITY",
        min_cardinality: 1,
        node_attributes: { zone: ["east"] },
      },
      "target_tags: is missing",
    ],
    ["no skew at all", { type: "SPREAD", scope: "NODE", max_skew: 0 }, "max_skew: expects 1"],
    [
      "skew elsewhere",
      { type: "AFFINITY", scope: "NODE", target_tags: ["db"], max_skew: 2 },
      "max_skew: belongs to SPREAD",
    ],
    [
      "an attribute without values",
      { type: "AFFINITY", node_attributes: { zone: [] } },
      "node_attributes.zone: expects at least one value",
    ],
    [
      "a name that is no attribute's",
      { type: "AFFINITY", node_attributes: { "a b": ["x"] } },
      'node_attributes["a b"]: expects the name of a node attribute',
    ],
    [
      "two partitions",
      { type: "AFFINITY", node_partitions: ["gpu", "ssd"] },
      "node_partitions[1]: expects one partition for all constraints, not gpu and ssd",
    ],
    [
      "a partition that no label can be",
      { type: "AFFINITY", node_partitions: ["gpu && ssd"] },
      "node_partitions[0]: expects a node label",
    ],
    [
      "a partition to avoid",
      { type: "ANTI_AFFINITY", node_partitions: ["gpu"] },
      "node_partitions: cannot be excluded",
    ],
  ];
  it.each(WRONG)("[CS78] is refused for %s", (_, constraint, expected) => {
    const { findings } = readOne(constraint);
    expect(findings).toHaveLength(1);
    expect(findings[0]).toContain(expected);
  });

  it("[CS78] is refused when it is a program's output", () => {
    const many = Array.from({ length: 17 }, () => ({ type: "SPREAD", scope: "NODE" }));
    expect(read({ constraints: many }).findings).toEqual([
      "components[0].placement_policy.constraints: expects at most 16 constraints, not 17",
    ]);
    const target_tags = Array.from({ length: 65 }, (_, at) => `anna/shop/c${at}`);
    const { findings } = readOne({ type: "AFFINITY", scope: "NODE", target_tags });
    expect(findings[0]).toContain("target_tags: expects at most 64 entries, not 65");
  });
});
