/** Placement constraints: which nodes will do, by what runs there, by attributes and by spread. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BoundConstraint, type Requester } from "../../src/core/scheduler/placement-constraint.ts";
import { TagIndex, type Topology } from "../../src/core/scheduler/tag-counts.ts";
import type {
  PlacementConstraint,
  PlacementScope,
  PlacementTarget,
  TagNamespace,
} from "../../src/shared/placement.ts";

type Node = { rack: string; attributes: Record<string, string>; partition: string };
type Tagged = { slot: number; applicationId: string; tags: readonly string[] };

/** A cluster as plain lists; a node's slot is its place in the list. */
class Cluster implements Topology {
  version = 0;
  readonly nodes: Node[] = [];
  readonly containers: Tagged[] = [];
  readonly index = new TagIndex(this);

  addNode(node: Partial<Node> = {}): number {
    this.version += 1;
    return this.nodes.push({ rack: "/default", attributes: {}, partition: "", ...node }) - 1;
  }

  changeNode(slot: number, change: Partial<Node>): void {
    Object.assign(this.nodes[slot] as Node, change);
    this.version += 1;
    this.index.nodeChanged(slot);
  }

  run(slot: number, applicationId: string, ...tags: string[]): Tagged {
    const container = { slot, applicationId, tags };
    this.containers.push(container);
    this.index.add(slot, applicationId, tags);
    return container;
  }

  end(container: Tagged): void {
    this.containers.splice(this.containers.indexOf(container), 1);
    this.index.remove(container.slot, container.applicationId, container.tags);
  }

  bind(constraint: PlacementConstraint, requester: Partial<Requester> = {}): BoundConstraint {
    const whose = { applicationId: "app_1", tags: [], partition: "", ...requester };
    return new BoundConstraint(constraint, whose, this.index, this);
  }

  *slotsOf(partition: string): Iterable<number> {
    for (const [slot, node] of this.nodes.entries()) if (node.partition === partition) yield slot;
  }

  rackOf(slot: number): string {
    return (this.nodes[slot] as Node).rack;
  }

  attributeOf(slot: number, attribute: string): string | undefined {
    return this.nodes[slot]?.attributes[attribute];
  }

  visitTagged(visit: (slot: number, applicationId: string, tags: readonly string[]) => void) {
    for (const { slot, applicationId, tags } of this.containers) visit(slot, applicationId, tags);
  }
}

function clusterOf(...nodes: Partial<Node>[]): Cluster {
  const cluster = new Cluster();
  for (const node of nodes) cluster.addNode(node);
  return cluster;
}

type More = { scope?: PlacementScope; namespace?: TagNamespace; min?: number; max?: number };

function cardinality(tags: string[], more: More): PlacementConstraint {
  const { scope = "node", namespace = "self", min = 0, max } = more;
  const targets: PlacementTarget[] = [{ kind: "allocation-tags", namespace, tags }];
  return { type: "cardinality", scope, targets, min, ...(max === undefined ? {} : { max }) };
}

const near = (tag: string, more: More = {}) => cardinality([tag], { min: 1, ...more });
const awayFrom = (tag: string, more: More = {}) => cardinality([tag], { max: 0, ...more });

function attribute(operator: "EQ" | "NE", name: string, ...values: string[]): PlacementConstraint {
  const target = { kind: "node-attribute", attribute: name, operator, values } as const;
  return { type: "cardinality", scope: "node", targets: [target], min: 0 };
}

function spread(tag: string, scope: PlacementScope, maxSkew = 1): PlacementConstraint {
  return { type: "spread", scope, namespace: "self", tags: [tag], maxSkew };
}

function accepted(bound: BoundConstraint, cluster: Cluster): number[] {
  return [...cluster.nodes.keys()].filter((slot) => bound.check(slot) === undefined);
}

describe("affinity and anti-affinity", () => {
  it("[CS70] affinity goes to the nodes, or the racks, where the tag runs", () => {
    const cluster = clusterOf({ rack: "/a" }, { rack: "/a" }, { rack: "/b" });
    cluster.run(0, "app_1", "cache");
    const onNode = cluster.bind(near("cache"));
    expect(accepted(onNode, cluster)).toEqual([0]);
    expect(onNode.check(1)).toBe("affinity: no cache on this node");
    const inRack = cluster.bind(near("cache", { scope: "rack" }));
    expect(accepted(inRack, cluster)).toEqual([0, 1]);
    expect(inRack.check(2)).toBe("affinity: no cache in this rack");
  });

  it("[CS70] anti-affinity avoids them, and says with whom", () => {
    const cluster = clusterOf({ rack: "/a" }, { rack: "/a" }, { rack: "/b" });
    cluster.run(0, "app_1", "web");
    expect(accepted(cluster.bind(awayFrom("web")), cluster)).toEqual([1, 2]);
    expect(cluster.bind(awayFrom("web")).check(0)).toBe("anti-affinity with web on this node");
    expect(accepted(cluster.bind(awayFrom("web", { scope: "rack" })), cluster)).toEqual([2]);
  });

  it("[CS70] a group may be all nodes with one value of an attribute; others are in none", () => {
    const cluster = clusterOf(
      { attributes: { zone: "east" } },
      { attributes: { zone: "east" } },
      { attributes: { zone: "west" } },
      {},
    );
    cluster.run(0, "app_1", "db");
    cluster.run(3, "app_1", "db");
    expect(accepted(cluster.bind(near("db", { scope: "zone" })), cluster)).toEqual([0, 1]);
    expect(accepted(cluster.bind(awayFrom("db", { scope: "zone" })), cluster)).toEqual([2, 3]);
  });

  it("[CS71] a minimum and a maximum count what is there before the container comes", () => {
    const cluster = clusterOf({}, {}, {}, {});
    for (const slot of [1, 2, 2, 3, 3, 3]) cluster.run(slot, "app_1", "spark");
    const oneOrTwo = cluster.bind(cardinality(["spark"], { min: 1, max: 2 }));
    expect(accepted(oneOrTwo, cluster)).toEqual([1, 2]);
    expect(oneOrTwo.check(3)).toBe("more than 2 spark on this node");
    const three = cluster.bind(cardinality(["spark"], { min: 3 }));
    expect(three.check(2)).toBe("fewer than 3 spark on this node");
  });

  it("[CS71] of several tags the rarest must reach the minimum, the commonest keep the maximum", () => {
    const cluster = clusterOf({}, {});
    cluster.run(0, "app_1", "a", "b");
    cluster.run(0, "app_1", "a");
    cluster.run(1, "app_1", "a");
    expect(accepted(cluster.bind(cardinality(["a", "b"], { min: 1 })), cluster)).toEqual([0]);
    expect(accepted(cluster.bind(cardinality(["a", "b"], { max: 1 })), cluster)).toEqual([1]);
  });

  it("[CS72] tags of the same application count, or of others, of one, or of all", () => {
    const cluster = clusterOf({}, {}, {});
    cluster.run(0, "app_1", "web");
    cluster.run(1, "app_2", "web");
    const nodesBeside = (namespace: TagNamespace) =>
      accepted(cluster.bind(near("web", { namespace })), cluster);
    expect(nodesBeside("self")).toEqual([0]);
    expect(nodesBeside("not-self")).toEqual([1]);
    expect(nodesBeside("all")).toEqual([0, 1]);
    expect(nodesBeside({ applicationId: "app_2" })).toEqual([1]);
  });
});

describe("node attributes", () => {
  it("[CS73] EQ wants one of the values; NE also accepts a node that lacks the attribute", () => {
    const cluster = clusterOf(
      { attributes: { disk: "ssd" } },
      { attributes: { disk: "hdd" } },
      { attributes: { disk: "tape" } },
      {},
    );
    expect(accepted(cluster.bind(attribute("EQ", "disk", "ssd", "hdd")), cluster)).toEqual([0, 1]);
    expect(accepted(cluster.bind(attribute("NE", "disk", "ssd")), cluster)).toEqual([1, 2, 3]);
    expect(cluster.bind(attribute("EQ", "disk", "ssd", "hdd")).check(2)).toBe(
      "attribute disk is not ssd or hdd",
    );
    expect(cluster.bind(attribute("NE", "disk", "ssd")).check(0)).toBe("attribute disk is ssd");
  });
});

describe("affinity to itself", () => {
  it("[CS74] the first container goes anywhere, the others go where it is", () => {
    const cluster = clusterOf({}, {}, {});
    const bound = cluster.bind(near("web"), { tags: ["web"] });
    expect(accepted(bound, cluster)).toEqual([0, 1, 2]);
    expect(bound.candidates()).toBeUndefined();
    const first = cluster.run(1, "app_1", "web");
    expect(accepted(bound, cluster)).toEqual([1]);
    cluster.end(first);
    expect(accepted(bound, cluster)).toEqual([0, 1, 2]);
  });

  it("[CS74] with a minimum of more the fullest nodes grow until one has it", () => {
    const cluster = clusterOf({}, {}, {});
    const bound = cluster.bind(cardinality(["web"], { min: 2 }), { tags: ["web"] });
    cluster.run(0, "app_1", "web");
    expect(accepted(bound, cluster)).toEqual([0]);
    cluster.run(0, "app_1", "web");
    cluster.run(0, "app_1", "web");
    cluster.run(1, "app_1", "web");
    cluster.run(1, "app_1", "web");
    expect(accepted(bound, cluster)).toEqual([0, 1]);
  });

  it("[CS74] a container that does not carry the tag, or looks at others', waits for it", () => {
    const cluster = clusterOf({});
    expect(cluster.bind(near("web"), { tags: ["db"] }).check(0)).toBeDefined();
    const others = near("web", { namespace: "not-self" });
    expect(cluster.bind(others, { tags: ["web"] }).check(0)).toBeDefined();
    const one = near("web", { namespace: { applicationId: "app_2" } });
    expect(cluster.bind(one, { tags: ["web"] }).check(0)).toBeDefined();
  });
});

describe("spread", () => {
  it("[CS75] no rack gets more than max_skew ahead of the emptiest", () => {
    const cluster = clusterOf({ rack: "/a" }, { rack: "/a" }, { rack: "/b" });
    const bound = cluster.bind(spread("web", "rack"), { tags: ["web"] });
    expect(accepted(bound, cluster)).toEqual([0, 1, 2]);
    cluster.run(0, "app_1", "web");
    expect(accepted(bound, cluster)).toEqual([2]);
    expect(bound.check(1)).toBe("spread: over 1 more web in this rack than elsewhere");
    const loose = cluster.bind(spread("web", "rack", 2), { tags: ["web"] });
    expect(accepted(loose, cluster)).toEqual([0, 1, 2]);
    cluster.run(2, "app_1", "web");
    expect(accepted(bound, cluster)).toEqual([0, 1, 2]);
  });

  it("[CS75] a container that does not carry the tag does not add to it", () => {
    const cluster = clusterOf({ rack: "/a" }, { rack: "/b" });
    cluster.run(0, "app_1", "web");
    expect(accepted(cluster.bind(spread("web", "rack")), cluster)).toEqual([0, 1]);
  });

  it("[CS75] a new, empty rack has to be filled first", () => {
    const cluster = clusterOf({ rack: "/a" });
    const bound = cluster.bind(spread("web", "rack"), { tags: ["web"] });
    cluster.run(0, "app_1", "web");
    expect(accepted(bound, cluster)).toEqual([0]);
    cluster.addNode({ rack: "/b" });
    expect(accepted(bound, cluster)).toEqual([1]);
  });

  it("[CS75] racks without a node for the request do not count", () => {
    const cluster = clusterOf(
      { rack: "/a", attributes: { disk: "ssd" } },
      { rack: "/b", attributes: { disk: "hdd" } },
      { rack: "/c", partition: "gpu" },
    );
    const both: PlacementConstraint = {
      type: "and",
      of: [spread("web", "rack"), attribute("EQ", "disk", "ssd")],
    };
    const bound = cluster.bind(both, { tags: ["web"] });
    const nested: PlacementConstraint = {
      type: "and",
      of: [attribute("EQ", "disk", "ssd"), { type: "and", of: [spread("web", "rack")] }],
    };
    const inside = cluster.bind(nested, { tags: ["web"] });
    cluster.run(0, "app_1", "web");
    expect(accepted(bound, cluster)).toEqual([0]);
    expect(accepted(inside, cluster)).toEqual([0]);
  });

  it("[CS75] a node without the attribute is in no group", () => {
    const cluster = clusterOf({});
    const bound = cluster.bind(spread("web", "zone"), { tags: ["web"] });
    expect(bound.check(0)).toBe("spread: the node has no attribute zone");
  });
});

describe("together", () => {
  it("[CS76] all of `and` must hold, and one of `or`", () => {
    const cluster = clusterOf({ attributes: { disk: "ssd" } }, { attributes: { disk: "ssd" } }, {});
    cluster.run(0, "app_1", "web");
    const of = [awayFrom("web"), attribute("EQ", "disk", "ssd")];
    expect(accepted(cluster.bind({ type: "and", of }), cluster)).toEqual([1]);
    expect(accepted(cluster.bind({ type: "or", of }), cluster)).toEqual([0, 1, 2]);
    const neither = cluster.bind({ type: "or", of: [near("db"), near("cache")] });
    expect(neither.check(0)).toBe("none of the alternatives holds on this node");
  });

  it("[CS79] affinity to few nodes names them, so that nobody looks at the others", () => {
    const cluster = clusterOf({}, {}, {}, {});
    for (const slot of [1, 3, 3]) cluster.run(slot, "app_1", "cache");
    cluster.run(2, "app_1", "db");
    expect(cluster.bind(near("cache")).candidates()).toEqual([1, 3]);
    expect(cluster.bind(cardinality(["cache"], { min: 2 })).candidates()).toEqual([3]);
    const both: PlacementConstraint = { type: "and", of: [near("cache"), near("db")] };
    expect(cluster.bind(both).candidates()).toEqual([2]);
    const swapped: PlacementConstraint = { type: "and", of: [near("db"), near("cache")] };
    expect(cluster.bind(swapped).candidates()).toEqual([2]);
    const either: PlacementConstraint = { type: "or", of: [near("cache"), near("db")] };
    expect(cluster.bind(either).candidates()).toEqual([1, 3, 2]);
    const open: PlacementConstraint = { type: "or", of: [near("cache"), awayFrom("db")] };
    expect(cluster.bind(open).candidates()).toBeUndefined();
  });
});

describe("the counts", () => {
  it("[CS77] containers with tags that no constraint names are not counted at all", () => {
    const cluster = clusterOf({});
    let visits = 0;
    const topology = new Proxy(cluster, {
      get: (target, name) => {
        if (name === "visitTagged" || name === "rackOf") visits += 1;
        return Reflect.get(target, name);
      },
    });
    const index = new TagIndex(topology);
    index.add(0, "app_1", ["web"]);
    index.nodeChanged(0);
    index.remove(0, "app_1", ["web"]);
    expect(visits).toBe(0);
  });

  it("[CS77] whatever comes, goes and moves, they are what a naive recount finds", () => {
    const tag = fc.constantFrom("a", "b", "c");
    const step = fc.oneof(
      fc.record({
        type: fc.constant("run" as const),
        slot: fc.nat(3),
        app: fc.constantFrom("app_1", "app_2"),
        tags: fc.uniqueArray(tag, { minLength: 1 }),
      }),
      fc.record({ type: fc.constant("end" as const), pick: fc.nat(99) }),
      fc.record({
        type: fc.constant("move" as const),
        slot: fc.nat(3),
        rack: fc.constantFrom("/x", "/y"),
        zone: fc.option(fc.constantFrom("e", "w"), { nil: undefined }),
      }),
      fc.record({
        type: fc.constant("look" as const),
        tag,
        scope: fc.constantFrom("node", "rack", "zone"),
      }),
      fc.record({ type: fc.constant("drop" as const), pick: fc.nat(99) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const cluster = clusterOf({}, {}, {}, {});
        const counts: ReturnType<TagIndex["acquire"]>[] = [];
        for (const each of steps) {
          if (each.type === "run") cluster.run(each.slot, each.app, ...each.tags);
          if (each.type === "look") counts.push(cluster.index.acquire(each.tag, each.scope));
          if (each.type === "move") {
            const attributes: Record<string, string> = each.zone ? { zone: each.zone } : {};
            cluster.changeNode(each.slot, { rack: each.rack, attributes });
          }
          if (each.type === "end" && cluster.containers.length > 0) {
            cluster.end(cluster.containers[each.pick % cluster.containers.length] as Tagged);
          }
          if (each.type === "drop" && counts.length > 0) {
            const [gone] = counts.splice(each.pick % counts.length, 1);
            if (gone) cluster.index.release(gone);
          }
          for (const count of counts) {
            const { all, own } = recount(cluster, count.tag, count.scope);
            expect(sorted(count.all)).toEqual(sorted(all));
            expect(sorted(count.of("app_1"))).toEqual(sorted(own));
          }
        }
      }),
    );
  });

  it("[CS77] a count that is used again stays, however many others are not", () => {
    const cluster = clusterOf({}, {});
    cluster.bind(near("web")).release();
    const bound = cluster.bind(near("web"));
    for (let at = 0; at < 200; at += 1) cluster.bind(near(`tag-${at}`)).release();
    cluster.run(1, "app_1", "web");
    expect(accepted(bound, cluster)).toEqual([1]);
  });

  it("[CS77] a node that moves to another rack takes its containers along", () => {
    const cluster = clusterOf({ rack: "/a" }, { rack: "/b" }, { rack: "/c" });
    for (const slot of [0, 1, 2]) cluster.run(slot, "app_1", "web");
    const pair = cluster.bind(cardinality(["web"], { min: 2, scope: "rack" }), { tags: ["web"] });
    expect(accepted(pair, cluster)).toEqual([0, 1, 2]);
    cluster.changeNode(1, { rack: "/a" });
    expect(accepted(pair, cluster)).toEqual([0, 1]);
  });

  it("[CS77] counts that many constraints once used are forgotten, and right when used again", () => {
    const cluster = clusterOf({}, {});
    cluster.run(0, "app_1", "web");
    cluster.bind(near("web")).release();
    for (let at = 0; at < 200; at += 1) cluster.bind(near(`tag-${at}`)).release();
    cluster.run(1, "app_1", "web");
    expect(accepted(cluster.bind(near("web")), cluster)).toEqual([0, 1]);
  });
});

function recount(cluster: Cluster, tag: string, scope: PlacementScope) {
  const all = new Map<number | string, number>();
  const own = new Map<number | string, number>();
  for (const { slot, applicationId, tags } of cluster.containers) {
    if (!tags.includes(tag)) continue;
    const zone = cluster.attributeOf(slot, "zone");
    const group = scope === "node" ? slot : scope === "rack" ? cluster.rackOf(slot) : zone;
    if (group === undefined) continue;
    all.set(group, (all.get(group) ?? 0) + 1);
    if (applicationId === "app_1") own.set(group, (own.get(group) ?? 0) + 1);
  }
  return { all, own };
}

function sorted(counts: ReadonlyMap<number | string, number>) {
  return [...counts].sort(([a], [b]) => (String(a) < String(b) ? -1 : 1));
}
