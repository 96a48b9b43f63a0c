/**
 * Placement constraints (facts/yarn-rm-nm-scheduler.md §6.6): hard rules about which nodes a request
 * may go to, by what runs there already (allocation tags), by node attributes and by partition.
 */

/**
 * Whose tags count. `self` (the default): the same application's; `not-self`: every other
 * application's; `all`; one application's by id.
 */
export type TagNamespace = "self" | "not-self" | "all" | { readonly applicationId: string };

/** What one constraint looks at. Several in one constraint must all hold. */
export type PlacementTarget =
  | {
      readonly kind: "allocation-tags";
      readonly namespace: TagNamespace;
      /** At least one. For several, `min` looks at the rarest of them and `max` at the commonest. */
      readonly tags: readonly string[];
    }
  | {
      readonly kind: "node-attribute";
      readonly attribute: string;
      /** NE also accepts nodes that lack the attribute. */
      readonly operator: "EQ" | "NE";
      readonly values: readonly string[];
    };

/** `node`, `rack`, or the name of a node attribute whose equal values make one group of nodes. */
export type PlacementScope = string;

/**
 * `cardinality`: in the node's group of that scope, each tag stands on `min` to `max` containers
 * before this one is added. Affinity is min 1; anti-affinity is max 0. `spread`: groups of the scope
 * may differ by at most `maxSkew` containers with the tags, over the groups that have a node for it.
 */
export type PlacementConstraint =
  | {
      readonly type: "cardinality";
      readonly scope: PlacementScope;
      readonly targets: readonly PlacementTarget[];
      /** Whole number from 0. */
      readonly min: number;
      /** From 0; undefined is without limit. */
      readonly max?: number;
    }
  | {
      readonly type: "spread";
      readonly scope: PlacementScope;
      readonly namespace: TagNamespace;
      readonly tags: readonly string[];
      /** From 1. */
      readonly maxSkew: number;
    }
  | { readonly type: "and" | "or"; readonly of: readonly PlacementConstraint[] };
