/**
 * Where containers with allocation tags run (facts/yarn-rm-nm-scheduler.md §6.6): how many carry a
 * tag on each node, rack or value of a node attribute, per application.
 *
 * Only what some constraint in use looks at is counted, one `TagCount` for each tag and scope. What
 * nobody looks at costs nothing: its containers are not even seen. The first constraint on a tag
 * counts the containers that there are; from then on the count follows them.
 */
import type { ApplicationId } from "../../shared/ids.ts";
import type { PlacementScope } from "../../shared/placement.ts";

/**
 * What constraints must know of nodes and containers. A slot is the dense whole number by which the
 * scheduler knows a node while the node is registered or holds a container.
 */
export type Topology = {
  /** Another number after nodes came, went or changed: which nodes there are, rack, attributes. */
  readonly version: number;
  /** The nodes of a partition that may get new containers; "" is the default partition. */
  slotsOf(partition: string): Iterable<number>;
  /** Of any slot; after a change of rack or attributes `TagIndex.nodeChanged` is called. */
  rackOf(slot: number): string;
  attributeOf(slot: number, attribute: string): string | undefined;
  /** Calls `visit` for every booked container that has tags, in any order. */
  visitTagged(visit: TaggedVisitor): void;
};

export type TaggedVisitor = (
  slot: number,
  applicationId: ApplicationId,
  tags: readonly string[],
) => void;

/** A node's slot, a rack's name, or the value of an attribute. */
export type Group = number | string;

/** The group of a node in a scope; undefined: it lacks the attribute. */
export function groupOf(
  topology: Topology,
  scope: PlacementScope,
  slot: number,
): Group | undefined {
  if (scope === "node") return slot;
  return scope === "rack" ? topology.rackOf(slot) : topology.attributeOf(slot, scope);
}

/** Counts that nobody uses are kept so far, since most asks come again soon. */
const UNUSED_KEPT_MAX = 64;
const NO_COUNTS: ReadonlyMap<Group, number> = new Map();

export class TagIndex {
  readonly #topology: Topology;
  /** By tag, then by scope. */
  readonly #counts = new Map<string, Map<PlacementScope, TagCount>>();
  /** Oldest first. */
  readonly #unused = new Set<TagCount>();

  constructor(topology: Topology) {
    this.#topology = topology;
  }

  /** A container is there from now on. `tags` holds each tag once, here and in `remove`. */
  add(slot: number, applicationId: ApplicationId, tags: readonly string[]): void {
    this.#change(slot, applicationId, tags, 1);
  }

  /** A container that was added, or visited, is gone. Its node's slot is still known. */
  remove(slot: number, applicationId: ApplicationId, tags: readonly string[]): void {
    this.#change(slot, applicationId, tags, -1);
  }

  /** The node's rack or attributes changed: its containers count in its new groups. */
  nodeChanged(slot: number): void {
    for (const scopes of this.#counts.values()) {
      for (const count of scopes.values()) count.nodeChanged(slot);
    }
  }

  /** The count for a tag in a scope, up to date until `release` was called as often. */
  acquire(tag: string, scope: PlacementScope): TagCount {
    let scopes = this.#counts.get(tag);
    if (scopes === undefined) {
      scopes = new Map();
      this.#counts.set(tag, scopes);
    }
    const known = scopes.get(scope);
    const count = known ?? this.#count(tag, scope);
    if (known === undefined) scopes.set(scope, count);
    count.users += 1;
    this.#unused.delete(count);
    return count;
  }

  release(count: TagCount): void {
    count.users -= 1;
    if (count.users > 0) return;
    this.#unused.add(count);
    if (this.#unused.size <= UNUSED_KEPT_MAX) return;
    for (const oldest of this.#unused) {
      this.#unused.delete(oldest);
      const scopes = this.#counts.get(oldest.tag);
      scopes?.delete(oldest.scope);
      if (scopes?.size === 0) this.#counts.delete(oldest.tag);
      return;
    }
  }

  #count(tag: string, scope: PlacementScope): TagCount {
    const count = new TagCount(tag, scope, this.#topology);
    this.#topology.visitTagged((slot, applicationId, tags) => {
      if (tags.includes(tag)) count.change(slot, applicationId, 1);
    });
    return count;
  }

  #change(slot: number, applicationId: ApplicationId, tags: readonly string[], by: 1 | -1): void {
    if (this.#counts.size === 0) return;
    for (const tag of tags) {
      const scopes = this.#counts.get(tag);
      if (scopes === undefined) continue;
      for (const count of scopes.values()) count.change(slot, applicationId, by);
    }
  }
}

/** How many containers carry one tag in each group of one scope. Groups with none are not kept. */
export class TagCount {
  readonly tag: string;
  readonly scope: PlacementScope;
  readonly #topology: Topology;
  /** Another number after each change. */
  changes = 0;
  /** Constraints that look at it. */
  users = 0;
  readonly #all = new Map<Group, number>();
  readonly #byApplication = new Map<ApplicationId, Map<Group, number>>();
  /** What each node adds to its group. Not for the scope node, where a group is one node. */
  readonly #shares = new Map<number, NodeShare>();

  constructor(tag: string, scope: PlacementScope, topology: Topology) {
    this.tag = tag;
    this.scope = scope;
    this.#topology = topology;
  }

  /** By group, of every application. */
  get all(): ReadonlyMap<Group, number> {
    return this.#all;
  }

  /** By group, of one application. */
  of(applicationId: ApplicationId): ReadonlyMap<Group, number> {
    return this.#byApplication.get(applicationId) ?? NO_COUNTS;
  }

  change(slot: number, applicationId: ApplicationId, by: 1 | -1): void {
    this.changes += 1;
    const group = this.scope === "node" ? slot : this.#changeShare(slot, applicationId, by);
    if (group !== undefined) this.#changeGroup(group, applicationId, by);
  }

  /** What runs on the node counts in the group that the node is in now. */
  nodeChanged(slot: number): void {
    const share = this.#shares.get(slot);
    if (share === undefined) return;
    const group = groupOf(this.#topology, this.scope, slot);
    if (share.group === group) return;
    this.changes += 1;
    for (const [applicationId, count] of share.containers) {
      if (share.group !== undefined) this.#changeGroup(share.group, applicationId, -count);
      if (group !== undefined) this.#changeGroup(group, applicationId, count);
    }
    share.group = group;
  }

  /** The group in which the node's containers count. */
  #changeShare(slot: number, applicationId: ApplicationId, by: 1 | -1): Group | undefined {
    const known = this.#shares.get(slot);
    const share = known ?? {
      group: groupOf(this.#topology, this.scope, slot),
      containers: new Map(),
    };
    if (known === undefined) this.#shares.set(slot, share);
    addTo(share.containers, applicationId, by);
    if (share.containers.size === 0) this.#shares.delete(slot);
    return share.group;
  }

  #changeGroup(group: Group, applicationId: ApplicationId, by: number): void {
    addTo(this.#all, group, by);
    let own = this.#byApplication.get(applicationId);
    if (own === undefined) {
      own = new Map();
      this.#byApplication.set(applicationId, own);
    }
    addTo(own, group, by);
    if (own.size === 0) this.#byApplication.delete(applicationId);
  }
}

type NodeShare = { group: Group | undefined; readonly containers: Map<ApplicationId, number> };

function addTo<Key>(counts: Map<Key, number>, key: Key, by: number): void {
  const count = (counts.get(key) ?? 0) + by;
  if (count === 0) counts.delete(key);
  else counts.set(key, count);
}
