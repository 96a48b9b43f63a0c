/**
 * The dependencies between a service's components as a DAG (seed 001 "Component"; facts/
 * yarn-services.md §3 rule 11). A component's level is the length of the longest way down to a
 * component without dependencies; lower levels start, and are scheduled, first.
 */

export type Dependent = { readonly name: string; readonly dependencies: readonly string[] };

export type DependencyLevels =
  | { readonly ok: true; readonly levels: ReadonlyMap<string, number> }
  /** A way from a component back to itself: `["a", "b", "a"]`. */
  | { readonly ok: false; readonly cycle: readonly string[] };

/** Dependencies that are not among the components are ignored: they are a finding of their own. */
export function dependencyLevels(components: readonly Dependent[]): DependencyLevels {
  const byName = new Map(components.map((component) => [component.name, component]));
  const levels = new Map<string, number>();
  const trail: string[] = [];

  /** Sets the level of a component and of all below it; answers a cycle when there is one. */
  const visit = (component: Dependent): readonly string[] | undefined => {
    if (levels.has(component.name)) return undefined;
    const start = trail.indexOf(component.name);
    if (start >= 0) return [...trail.slice(start), component.name];
    trail.push(component.name);
    let level = 0;
    for (const name of component.dependencies) {
      const dependency = byName.get(name);
      if (dependency === undefined) continue;
      const cycle = visit(dependency);
      if (cycle) return cycle;
      level = Math.max(level, (levels.get(name) ?? 0) + 1);
    }
    trail.pop();
    levels.set(component.name, level);
    return undefined;
  };

  for (const component of byName.values()) {
    const cycle = visit(component);
    if (cycle) return { ok: false, cycle };
  }
  return { ok: true, levels };
}
