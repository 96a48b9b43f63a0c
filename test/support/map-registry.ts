/**
 * The registry without a runtime: the same rules over a Map. Tests of the edge and of other parts
 * use it as a real registry; the contract suite holds it and the SQLite one to the same behaviour.
 */
import { lastElement, parentOf, type RegistryPath } from "../../src/core/registry/path.ts";
import {
  bind,
  createSystemPaths,
  deletePath,
  exists,
  list,
  mknode,
  purge,
  resolve,
  stat,
  transact,
  view,
} from "../../src/core/registry/registry.ts";
import type { BoundTo, RegistryNode, RegistryTree } from "../../src/core/registry/tree.ts";
import type { Reply } from "../../src/shared/errors.ts";
import type {
  RegistryOperations,
  RegistryPurge,
} from "../../src/shared/protocol/registry-operations.ts";

export class MapRegistryTree implements RegistryTree {
  #nodes = new Map<RegistryPath, RegistryNode>();

  get(path: RegistryPath): RegistryNode | undefined {
    return this.#nodes.get(path);
  }

  put(node: RegistryNode): void {
    this.#nodes.set(node.path, node);
  }

  deleteSubtree(path: RegistryPath): void {
    for (const each of [...this.#nodes.keys()]) {
      if (each === path || each.startsWith(`${path}/`)) this.#nodes.delete(each);
    }
  }

  children(path: RegistryPath): readonly string[] {
    const below = [...this.#nodes.keys()].filter((each) => parentOf(each) === path);
    return below.map(lastElement).sort();
  }

  countChildren(path: RegistryPath): number {
    return this.children(path).length;
  }

  findBoundTo({ yarnId, persistence }: BoundTo): readonly RegistryPath[] {
    const bound = [...this.#nodes.values()].filter(
      ({ boundTo }) => boundTo?.yarnId === yarnId && boundTo.persistence === persistence,
    );
    return bound.map((node) => node.path).sort();
  }

  atomically<Value>(work: () => Reply<Value>): Reply<Value> {
    const before = new Map(this.#nodes);
    const reply = work();
    if (!reply.ok) this.#nodes = before;
    return reply;
  }
}

/** `nowMs` is the registry's clock. */
export function mapRegistry(nowMs: () => number = () => 0): RegistryOperations & RegistryPurge {
  const tree = new MapRegistryTree();
  createSystemPaths(tree, nowMs());
  return {
    mknode: async (path, createParents) => mknode(tree, path, createParents, nowMs()),
    bind: async (path, record, flags) => bind(tree, path, record, flags, nowMs()),
    resolve: async (path) => resolve(tree, path),
    stat: async (path) => stat(tree, path),
    exists: async (path) => exists(tree, path),
    list: async (path) => list(tree, path),
    delete: async (path, recursive) => deletePath(tree, path, recursive),
    transact: async (operations) => transact(tree, operations, nowMs()),
    view: async (path) => view(tree, path),
    purge: async (yarnId, persistence) => purge(tree, { yarnId, persistence }),
  };
}
