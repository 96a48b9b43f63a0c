/**
 * `placement_policy` of a Yarnfile (seed 001; facts/yarn-services.md §2 and §4.8): where the
 * containers of a component may run, to the PlacementConstraint that the scheduler evaluates.
 *
 * `target_tags` name components: of the same service by name (`hello`), of another by
 * `user/service/component`. YARN allows the component's own name alone. Unlike in YARN, a
 * constraint with tags and node attributes demands both, and `SPREAD` keeps the nodes or racks
 * within `max_skew` containers of each other.
 */
import { didYouMeanClause } from "../../shared/did-you-mean.ts";
import type { Finding } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import { componentNameSchema, isUserName, serviceNameSchema } from "../../shared/names.ts";
import type { PlacementConstraint, PlacementTarget } from "../../shared/placement.ts";
import type { PlacementPolicy, PolicyConstraint } from "../../shared/service.ts";
import { formatPath, quote } from "../../shared/validation.ts";

/** For whom the policy is read, and which components its service has. */
export type PolicyOwner = { readonly component: string; readonly components: readonly string[] };

export type Placement = {
  readonly constraint: PlacementConstraint | undefined;
  /** Partition; undefined: the queue's default. */
  readonly nodeLabel: string | undefined;
};

/** The tags that a component's containers carry: its name, and the one by which others name it. */
export function allocationTagsOf(user: string, service: string, component: string): string[] {
  return [component, `${user}/${service}/${component}`];
}

const TYPES = ["AFFINITY", "ANTI_AFFINITY", "AFFINITY_WITH_CARDINALITY", "SPREAD"] as const;
type ConstraintType = (typeof TYPES)[number];

/** Facts §3.9. */
const PARTITION_NAME = /^[A-Za-z0-9][A-Za-z0-9_-]{0,254}$/;
/** `zone`, or with a prefix as in YARN: `rm.yarn.io/os`. */
const ATTRIBUTE_NAME = /^(?:[A-Za-z0-9][A-Za-z0-9.-]{0,252}\/)?[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;

/** Problems go to `findings`, with paths below `path`; the result then means nothing. */
export function readPlacementPolicy(
  policy: PlacementPolicy,
  owner: PolicyOwner,
  path: readonly PropertyKey[],
  findings: Finding[],
): Placement {
  const partitions = new PartitionChoice(findings);
  if (policy.label) partitions.choose(policy.label, [...path, "label"]);
  const constraints = policy.constraints ?? [];
  if (constraints.length > LIMITS.placementConstraintsMax) {
    const message = `expects at most ${LIMITS.placementConstraintsMax} constraints, not ${constraints.length}`;
    findings.push({ path: formatPath([...path, "constraints"]), message });
    return { constraint: undefined, nodeLabel: partitions.chosen };
  }
  const read = constraints.flatMap((constraint, index) =>
    new ConstraintReader(constraint, owner, [...path, "constraints", index], findings).read(
      partitions,
    ),
  );
  const [first, ...others] = read;
  const constraint = others.length === 0 ? first : ({ type: "and", of: read } as const);
  return { constraint, nodeLabel: partitions.chosen };
}

/** A container runs in one partition, whoever names it. */
class PartitionChoice {
  chosen: string | undefined;
  readonly #findings: Finding[];

  constructor(findings: Finding[]) {
    this.#findings = findings;
  }

  choose(partition: string, path: readonly PropertyKey[]): void {
    const report = (message: string) => this.#findings.push({ path: formatPath(path), message });
    if (!PARTITION_NAME.test(partition)) {
      report(`expects a node label of letters, digits, - and _, not ${quote(partition)}`);
    } else if (this.chosen !== undefined && this.chosen !== partition) {
      report(`expects one partition for all constraints, not ${this.chosen} and ${partition}`);
    } else {
      this.chosen = partition;
    }
  }
}

class ConstraintReader {
  readonly #constraint: PolicyConstraint;
  readonly #owner: PolicyOwner;
  readonly #path: readonly PropertyKey[];
  readonly #findings: Finding[];

  constructor(
    constraint: PolicyConstraint,
    owner: PolicyOwner,
    path: readonly PropertyKey[],
    findings: Finding[],
  ) {
    this.#constraint = constraint;
    this.#owner = owner;
    this.#path = path;
    this.#findings = findings;
  }

  read(partitions: PartitionChoice): PlacementConstraint[] {
    const type = this.#type();
    const tags = this.#tags(type);
    const attributes = this.#attributes(type === "ANTI_AFFINITY" ? "NE" : "EQ");
    this.#readPartitions(type, partitions);
    const scope = this.#scope(tags.length > 0);
    const bounds = this.#bounds(type);
    const maxSkew = this.#maxSkew(type);
    this.#checkSaysSomething(type, tags, attributes);
    const demands: PlacementConstraint[] =
      attributes.length > 0
        ? [{ type: "cardinality", scope: "node", targets: attributes, min: 0 }]
        : [];
    if (tags.length === 0) return demands;
    for (const { namespace, names } of byNamespace(tags)) {
      if (type === "SPREAD")
        demands.push({ type: "spread", scope, namespace, tags: names, maxSkew });
      else demands.push(...this.#cardinality(scope, namespace, names, bounds));
    }
    return demands;
  }

  /** People count the container itself: "at most 3 of my kind" is 2 before this one comes. */
  #cardinality(
    scope: string,
    namespace: "self" | "all",
    names: readonly string[],
    { min, max }: Bounds,
  ): PlacementConstraint[] {
    const isOwn = (name: string) => namespace === "self" && name === this.#owner.component;
    const own = names.filter(isOwn);
    const others = names.filter((name) => !isOwn(name));
    const constraints: PlacementConstraint[] = [];
    for (const tags of [own, others]) {
      if (tags.length === 0) continue;
      const targets = [{ kind: "allocation-tags", namespace, tags } as const];
      const before = tags === own && max !== undefined ? Math.max(0, max - 1) : max;
      const upTo = before === undefined ? {} : { max: before };
      constraints.push({ type: "cardinality", scope, targets, min, ...upTo });
    }
    return constraints;
  }

  #type(): ConstraintType | undefined {
    const { type } = this.#constraint;
    const known = TYPES.find((name) => name === type);
    if (known !== undefined) return known;
    const expected = `expects ${TYPES.join(", ")}`;
    if (type === undefined) this.#report(["type"], `is missing: ${expected}`);
    else this.#report(["type"], `${expected}, not ${quote(type)}${didYouMeanClause(type, TYPES)}`);
    return undefined;
  }

  #scope(isNeeded: boolean): string {
    const { scope } = this.#constraint;
    const known = scope?.toLowerCase();
    if (known === "node" || known === "rack") return known;
    if (scope !== undefined) this.#report(["scope"], `expects NODE or RACK, not ${quote(scope)}`);
    else if (isNeeded) this.#report(["scope"], "is missing: expects NODE or RACK");
    return "node";
  }

  /** A spread that names nobody spreads the component itself. */
  #tags(type: ConstraintType | undefined): readonly string[] {
    const tags = [...new Set(this.#constraint.target_tags ?? [])];
    this.#checkCount(["target_tags"], tags.length);
    for (const [at, tag] of tags.entries()) {
      const message = checkTag(tag, this.#owner.components);
      if (message !== undefined) this.#report(["target_tags", at], message);
    }
    return tags.length === 0 && type === "SPREAD" ? [this.#owner.component] : tags;
  }

  #attributes(operator: "EQ" | "NE"): PlacementTarget[] {
    const attributes = Object.entries(this.#constraint.node_attributes ?? {});
    this.#checkCount(["node_attributes"], attributes.length);
    return attributes.map(([attribute, values]) => {
      const place = ["node_attributes", attribute];
      if (!ATTRIBUTE_NAME.test(attribute)) {
        this.#report(place, "expects the name of a node attribute, such as zone or rm.yarn.io/os");
      }
      if (values.length === 0) this.#report(place, "expects at least one value");
      this.#checkCount(place, values.length);
      return { kind: "node-attribute", attribute, operator, values };
    });
  }

  #readPartitions(type: ConstraintType | undefined, partitions: PartitionChoice): void {
    const named = this.#constraint.node_partitions ?? [];
    if (named.length > 0 && type === "ANTI_AFFINITY") {
      const message =
        "cannot be excluded, since a container runs in one partition: name that one, with AFFINITY";
      this.#report(["node_partitions"], message);
      return;
    }
    for (const [at, partition] of named.slice(0, LIMITS.placementEntriesMax).entries()) {
      partitions.choose(partition, [...this.#path, "node_partitions", at]);
    }
  }

  #bounds(type: ConstraintType | undefined): Bounds {
    if (type === "AFFINITY") return this.#without(type, { min: 1 });
    if (type === "ANTI_AFFINITY") return this.#without(type, { min: 0, max: 0 });
    if (type !== "AFFINITY_WITH_CARDINALITY") return this.#without(type, { min: 0 });
    const { min_cardinality: min = 0, max_cardinality: max } = this.#constraint;
    if (min < 0) this.#report(["min_cardinality"], `expects 0 or more, not ${min}`);
    if (max !== undefined && max < Math.max(0, min)) {
      this.#report(["max_cardinality"], `expects at least min_cardinality, ${min}, not ${max}`);
    }
    if (min === 0 && max === undefined) {
      this.#report([], "expects min_cardinality, max_cardinality or both");
    }
    return max === undefined ? { min } : { min, max };
  }

  #without(type: ConstraintType | undefined, bounds: Bounds): Bounds {
    for (const field of ["min_cardinality", "max_cardinality"] as const) {
      if (type === undefined || this.#constraint[field] === undefined) continue;
      this.#report([field], `belongs to AFFINITY_WITH_CARDINALITY, but this is ${type}`);
    }
    return bounds;
  }

  #maxSkew(type: ConstraintType | undefined): number {
    const { max_skew: maxSkew = 1 } = this.#constraint;
    if (type !== "SPREAD" && type !== undefined && this.#constraint.max_skew !== undefined) {
      this.#report(["max_skew"], `belongs to SPREAD, but this is ${type}`);
    } else if (maxSkew < 1) {
      this.#report(["max_skew"], `expects 1 or more, not ${maxSkew}`);
    }
    return maxSkew;
  }

  #checkSaysSomething(
    type: ConstraintType | undefined,
    tags: readonly string[],
    attributes: readonly PlacementTarget[],
  ): void {
    const { node_partitions: partitions = [] } = this.#constraint;
    const isSilent = tags.length + attributes.length + partitions.length === 0;
    if (isSilent) this.#report([], "expects target_tags, node_attributes or node_partitions");
    const counts = type === "AFFINITY_WITH_CARDINALITY";
    if (!isSilent && counts && tags.length === 0) {
      this.#report(["target_tags"], "is missing: expects the components to count");
    }
  }

  #checkCount(place: readonly PropertyKey[], count: number): void {
    if (count <= LIMITS.placementEntriesMax) return;
    this.#report(place, `expects at most ${LIMITS.placementEntriesMax} entries, not ${count}`);
  }

  #report(place: readonly PropertyKey[], message: string): void {
    const { name } = this.#constraint;
    const which = name ? ` (constraint ${quote(name)})` : "";
    this.#findings.push({
      path: formatPath([...this.#path, ...place]),
      message: `${message}${which}`,
    });
  }
}

type Bounds = { readonly min: number; readonly max?: number };

/** Another service is found by its tag among all applications, through every one of its starts. */
function byNamespace(
  tags: readonly string[],
): { readonly namespace: "self" | "all"; readonly names: readonly string[] }[] {
  const groups = [
    { namespace: "self", names: tags.filter((tag) => !tag.includes("/")) },
    { namespace: "all", names: tags.filter((tag) => tag.includes("/")) },
  ] as const;
  return groups.filter(({ names }) => names.length > 0);
}

function checkTag(tag: string, components: readonly string[]): string | undefined {
  if (!tag.includes("/")) {
    if (components.includes(tag)) return undefined;
    const guess = didYouMeanClause(tag, components);
    const hint = guess === "" ? `; the components are ${components.join(", ")}` : guess;
    return `${quote(tag)} is not a component of this service${hint}`;
  }
  const [user = "", service, component, ...more] = tag.split("/");
  const isNamed =
    more.length === 0 &&
    isUserName(user) &&
    serviceNameSchema.safeParse(service).success &&
    componentNameSchema.safeParse(component).success;
  if (isNamed) return undefined;
  return `expects a component of this service, or user/service/component, not ${quote(tag)}`;
}
