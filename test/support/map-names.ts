/** The name index over any registry tree, by walking all of it: what the SQLite one must agree with. */
import type { NameIndex } from "../../src/core/registry/dns.ts";
import type { StoredRecord } from "../../src/core/registry/dns-group.ts";
import type { RegistryTree } from "../../src/core/registry/tree.ts";
import { lastElement, parentOf, type RegistryPath, ROOT } from "../../src/shared/registry-path.ts";

type Found = StoredRecord & { readonly isContainer: boolean };

export function mapNames(tree: RegistryTree): NameIndex {
  const records = (below: RegistryPath = ROOT): readonly Found[] => {
    const node = tree.get(below);
    const own =
      node?.record === null || node?.record === undefined
        ? []
        : [
            {
              path: below,
              record: node.record,
              isContainer: node.boundTo?.persistence === "container",
            },
          ];
    const children = tree
      .children(below)
      .map((name) => (below === ROOT ? `/${name}` : `${below}/${name}`));
    return [...own, ...children.flatMap(records)];
  };
  const where = (limit: number, matches: (found: Found) => boolean, below?: RegistryPath) =>
    records(below)
      .filter(matches)
      .sort((one, other) => (orderOf(one) < orderOf(other) ? -1 : 1))
      .slice(0, limit)
      .map(({ path, record }) => ({ path, record }));
  const orderOf = (found: Found) =>
    `${parentOf(found.path)}\n${lower(field(found, "yarn:component"))}\n${lastElement(found.path)}`;
  const lower = (value: unknown) =>
    String(value ?? "").replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());
  const field = (found: Found, name: string): unknown =>
    (JSON.parse(found.record) as Record<string, unknown>)[name];
  return {
    has: (path) => tree.get(path) !== undefined,
    servicesNamed: (name, below, limit) =>
      where(
        limit,
        ({ path, isContainer }) => {
          return !isContainer && path !== below && lastElement(path) === name;
        },
        below,
      ),
    containerAt: (path) => {
      const node = tree.get(path);
      const isContainer = node?.boundTo?.persistence === "container" && node.record !== null;
      return isContainer ? { path, record: node.record } : null;
    },
    containersNamed: (name, limit) =>
      where(limit, ({ path, isContainer }) => isContainer && lastElement(path) === name),
    containersBelow: (parent, which, limit) =>
      where(
        limit,
        (found) => {
          if (!found.isContainer || parentOf(found.path) !== parent) return false;
          if (which === "all") return true;
          return "component" in which
            ? lower(field(found, "yarn:component")) === which.component
            : lower(field(found, "description")) === which.instance;
        },
        parent,
      ),
    containersAt: (ip, limit) =>
      where(limit, (found) => found.isContainer && field(found, "yarn:ip") === ip),
  };
}
