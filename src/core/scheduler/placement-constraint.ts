/**
 * Placement constraints (facts/yarn-rm-nm-scheduler.md §6.6): which nodes a request may go to, by
 * what runs there already, by node attributes, and by how evenly its group is spread. They are
 * hard: a request that no node satisfies waits.
 *
 * A constraint is bound once to the request that has it, and then asked for node after node; that
 * allocates nothing. What it answers follows the index and the topology at once.
 *
 * Affinity to itself begins somewhere, where YARN's request waits for ever: as long as no group has
 * the minimum of a tag that the request's own containers carry, the fullest groups are good enough;
 * when there is none yet, any is. So a first container is placed, and the others follow it.
 */
import type { ApplicationId } from "../../shared/ids.ts";
import type {
  PlacementConstraint,
  PlacementScope,
  PlacementTarget,
  TagNamespace,
} from "../../shared/placement.ts";
import { type Group, groupOf, type TagCount, type TagIndex, type Topology } from "./tag-counts.ts";

/** Whose constraint it is. */
export type Requester = {
  readonly applicationId: ApplicationId;
  /** Tags that the request's containers will carry. */
  readonly tags: readonly string[];
  /** Spread looks at this partition's nodes only. */
  readonly partition: string;
};

/** Undefined: the node will do. Otherwise why not, such as `anti-affinity with web on this node`. */
type Check = (slot: number) => string | undefined;

export class BoundConstraint {
  /** Undefined: the node satisfies the constraint. Otherwise why not, in a few words. */
  readonly check: Check;
  readonly #index: TagIndex;
  readonly #counts: readonly TagCount[];
  readonly #candidates: () => readonly number[] | undefined;

  constructor(
    constraint: PlacementConstraint,
    requester: Requester,
    index: TagIndex,
    topology: Topology,
  ) {
    const binding = new Binding(requester, index, topology);
    const { check, candidates } = binding.bind(constraint, []);
    this.check = check;
    this.#candidates = candidates;
    this.#counts = binding.counts;
    this.#index = index;
  }

  /**
   * The only nodes worth a look, when the constraint names few: those where a tag runs already. Some
   * of them may still be refused, or not be registered. Undefined: any node may do.
   */
  candidates(): readonly number[] | undefined {
    return this.#candidates();
  }

  /** The request is gone. The constraint must not be asked any more. */
  release(): void {
    for (const count of this.#counts) this.#index.release(count);
  }
}

type Bound = { readonly check: Check; readonly candidates: () => readonly number[] | undefined };

const ANY_NODE = () => undefined;

/** Binds one constraint and remembers which counts it uses. */
class Binding {
  readonly counts: TagCount[] = [];
  readonly #requester: Requester;
  readonly #index: TagIndex;
  readonly #topology: Topology;

  constructor(requester: Requester, index: TagIndex, topology: Topology) {
    this.#requester = requester;
    this.#index = index;
    this.#topology = topology;
  }

  /** `eligible`: what the constraint's surroundings demand of a node's attributes. */
  bind(constraint: PlacementConstraint, eligible: readonly Check[]): Bound {
    switch (constraint.type) {
      case "cardinality":
        return all(constraint.targets.map((target) => this.#bindTarget(constraint, target)));
      case "spread":
        return this.#bindSpread(constraint, eligible);
      case "and": {
        const within = [...eligible, ...constraint.of.flatMap((each) => this.#attributesOf(each))];
        return all(constraint.of.map((each) => this.bind(each, within)));
      }
      case "or":
        return any(constraint.of.map((each) => this.bind(each, eligible)));
    }
  }

  #bindTarget(constraint: Cardinality, target: PlacementTarget): Bound {
    if (target.kind === "node-attribute") {
      return { check: this.#attributeCheck(target), candidates: ANY_NODE };
    }
    return all(target.tags.map((tag) => this.#bindTag(constraint, target.namespace, tag)));
  }

  #bindTag({ scope, min, max }: Cardinality, namespace: TagNamespace, tag: string): Bound {
    const count = this.#acquire(tag, scope);
    const topology = this.#topology;
    const { applicationId } = this.#requester;
    const countOf = counter(count, namespace, applicationId);
    const bootstraps = min > 0 && this.#carries(namespace, tag);
    const needed = bootstraps
      ? cached(
          () => count.changes,
          () => Math.min(min, fullest(groupsOf(count, namespace, applicationId))),
        )
      : () => min;
    const place = placeOf(scope);
    const tooFew = min === 1 ? `affinity: no ${tag} ${place}` : `fewer than ${min} ${tag} ${place}`;
    const tooMany =
      max === 0 ? `anti-affinity with ${tag} ${place}` : `more than ${max} ${tag} ${place}`;
    const check: Check = (slot) => {
      const group = groupOf(topology, scope, slot);
      const found = group === undefined ? 0 : countOf(group);
      if (min > 0 && (group === undefined || found < needed())) return tooFew;
      return max !== undefined && found > max ? tooMany : undefined;
    };
    if (min === 0 || scope !== "node") return { check, candidates: ANY_NODE };
    const candidates = () => {
      const least = needed();
      if (least === 0) return undefined;
      const nodes: number[] = [];
      for (const group of groupsOf(count, namespace, applicationId).keys()) {
        if (typeof group === "number" && countOf(group) >= least) nodes.push(group);
      }
      return nodes;
    };
    return { check, candidates };
  }

  #bindSpread({ scope, namespace, tags, maxSkew }: Spread, eligible: readonly Check[]): Bound {
    const topology = this.#topology;
    const checks = tags.map((tag): Check => {
      const count = this.#acquire(tag, scope);
      const countOf = counter(count, namespace, this.#requester.applicationId);
      const emptiest = this.#emptiest(count, countOf, eligible);
      const added = this.#carries(namespace, tag) ? 1 : 0;
      const uneven = `spread: over ${maxSkew} more ${tag} ${placeOf(scope)} than elsewhere`;
      return (slot) => {
        const group = groupOf(topology, scope, slot);
        if (group === undefined) return `spread: the node has no attribute ${scope}`;
        return countOf(group) + added - emptiest() > maxSkew ? uneven : undefined;
      };
    });
    return all(checks.map((check) => ({ check, candidates: ANY_NODE })));
  }

  /** The least count of the groups that have a node for the request. */
  #emptiest(
    count: TagCount,
    countOf: (group: Group) => number,
    eligible: readonly Check[],
  ): () => number {
    const topology = this.#topology;
    const compute = () => {
      let least = Number.POSITIVE_INFINITY;
      for (const slot of topology.slotsOf(this.#requester.partition)) {
        const group = groupOf(topology, count.scope, slot);
        if (group === undefined || eligible.some((check) => check(slot) !== undefined)) continue;
        least = Math.min(least, countOf(group));
        if (least === 0) break;
      }
      return least;
    };
    return cached(() => count.changes + topology.version, compute);
  }

  #attributesOf(constraint: PlacementConstraint): Check[] {
    if (constraint.type !== "cardinality") return [];
    return constraint.targets.flatMap((target) =>
      target.kind === "node-attribute" ? [this.#attributeCheck(target)] : [],
    );
  }

  #attributeCheck({ attribute, operator, values }: NodeAttribute): Check {
    const topology = this.#topology;
    const wanted = new Set(values);
    const isWanted = operator === "EQ";
    const reason = `attribute ${attribute} is ${isWanted ? "not " : ""}${values.join(" or ")}`;
    return (slot) => {
      const value = topology.attributeOf(slot, attribute);
      const isAmong = value !== undefined && wanted.has(value);
      return isAmong === isWanted ? undefined : reason;
    };
  }

  #acquire(tag: string, scope: PlacementScope): TagCount {
    const count = this.#index.acquire(tag, scope);
    this.counts.push(count);
    return count;
  }

  /** Whether the request's own containers will count. */
  #carries(namespace: TagNamespace, tag: string): boolean {
    if (namespace === "not-self" || !this.#requester.tags.includes(tag)) return false;
    const { applicationId } = this.#requester;
    return typeof namespace === "string" || namespace.applicationId === applicationId;
  }
}

type Cardinality = Extract<PlacementConstraint, { readonly type: "cardinality" }>;
type Spread = Extract<PlacementConstraint, { readonly type: "spread" }>;
type NodeAttribute = Extract<PlacementTarget, { readonly kind: "node-attribute" }>;

function all(bound: readonly Bound[]): Bound {
  const [first, ...others] = bound;
  if (first !== undefined && others.length === 0) return first;
  return {
    check: (slot) => {
      for (const { check } of bound) {
        const reason = check(slot);
        if (reason !== undefined) return reason;
      }
      return undefined;
    },
    candidates: () => {
      let fewest: readonly number[] | undefined;
      for (const { candidates } of bound) {
        const nodes = candidates();
        if (nodes && (!fewest || nodes.length < fewest.length)) fewest = nodes;
      }
      return fewest;
    },
  };
}

function any(bound: readonly Bound[]): Bound {
  return {
    check: (slot) => {
      for (const { check } of bound) {
        if (check(slot) === undefined) return undefined;
      }
      return "none of the alternatives holds on this node";
    },
    candidates: () => {
      const nodes = new Set<number>();
      for (const { candidates } of bound) {
        const few = candidates();
        if (few === undefined) return undefined;
        for (const slot of few) nodes.add(slot);
      }
      return [...nodes];
    },
  };
}

function placeOf(scope: PlacementScope): string {
  return scope === "rack" ? "in this rack" : `on this ${scope}`;
}

/** How many containers of the namespace carry the tag in a group. */
function counter(
  count: TagCount,
  namespace: TagNamespace,
  applicationId: ApplicationId,
): (group: Group) => number {
  if (namespace !== "not-self") {
    return (group) => groupsOf(count, namespace, applicationId).get(group) ?? 0;
  }
  return (group) => (count.all.get(group) ?? 0) - (count.of(applicationId).get(group) ?? 0);
}

/** Counts by group; of `not-self`, those of all. */
function groupsOf(
  count: TagCount,
  namespace: TagNamespace,
  applicationId: ApplicationId,
): ReadonlyMap<Group, number> {
  if (typeof namespace === "object") return count.of(namespace.applicationId);
  return namespace === "self" ? count.of(applicationId) : count.all;
}

function fullest(groups: ReadonlyMap<Group, number>): number {
  let most = 0;
  for (const count of groups.values()) most = Math.max(most, count);
  return most;
}

/** Computes again only after `stamp` changed. */
function cached(stamp: () => number, compute: () => number): () => number {
  let known: { readonly stamp: number; readonly value: number } | undefined;
  return () => {
    const now = stamp();
    if (known?.stamp !== now) known = { stamp: now, value: compute() };
    return known.value;
  };
}
