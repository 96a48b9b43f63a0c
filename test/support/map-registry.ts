/**
 * The registry without a runtime: the same rules over a Map. Tests of the edge and of other parts
 * use it as a real registry; the contract suite holds it and the SQLite one to the same behaviour.
 */

import { getAcl } from "../../src/core/registry/acl.ts";
import { changeOf, type StoredChange } from "../../src/core/registry/changes.ts";
import { resolveName } from "../../src/core/registry/dns.ts";
import { isAtOrBelow, type RegistryIndex } from "../../src/core/registry/find.ts";
import {
  createSystemPaths,
  exists,
  list,
  resolve,
  stat,
  view,
} from "../../src/core/registry/registry.ts";
import type { RegistryNode, RegistryTree } from "../../src/core/registry/tree.ts";
import {
  bind,
  createHomes,
  deletePath,
  mknode,
  publish,
  purge,
  purgeEnded,
  transact,
  write,
} from "../../src/core/registry/writes.ts";
import { proveAccess } from "../../src/durable/registry-access.ts";
import type { RegistryNames } from "../../src/shared/dns.ts";
import type { Reply } from "../../src/shared/errors.ts";
import type {
  BoundTo,
  ListPage,
  RegistryOperations,
  RegistryPublisher,
  RegistryPurge,
  RegistryWrite,
  RegistryWriter,
  RMRegistryOperations,
} from "../../src/shared/protocol/registry-operations.ts";
import type {
  RegistryEdge,
  RegistryReader,
  RegistryWatch,
} from "../../src/shared/protocol/registry-reader.ts";
import { readStoredRecord } from "../../src/shared/registry.ts";
import { lastElement, parentOf, type RegistryPath } from "../../src/shared/registry-path.ts";
import { termsOf } from "../../src/shared/registry-terms.ts";
import { mapNames } from "./map-names.ts";
import { MapPublisherLog } from "./map-publishers.ts";
import { mapReader } from "./map-registry-reader.ts";

export class MapRegistryTree implements RegistryTree, RegistryIndex {
  #nodes = new Map<RegistryPath, RegistryNode>();
  #changes: StoredChange[] = [];
  /** Called after a transaction with what it changed. */
  onChanges: (changes: readonly StoredChange[]) => void = () => undefined;
  #version = 0;

  get(path: RegistryPath): RegistryNode | undefined {
    return this.#nodes.get(path);
  }

  prepare(): void {}

  put(node: RegistryNode): void {
    const change = changeOf(this.#nodes.get(node.path), node);
    if (change !== null) this.#changes.push(change);
    this.#nodes.set(node.path, node);
  }

  deleteSubtree(path: RegistryPath): void {
    this.#changes.push({ type: "deleted", path, version: 0 });
    for (const each of [...this.#nodes.keys()]) {
      if (each === path || each.startsWith(`${path}/`)) this.#nodes.delete(each);
    }
  }

  children(path: RegistryPath, { after = "", limit }: ListPage = {}): readonly string[] {
    const below = [...this.#nodes.keys()].filter((each) => parentOf(each) === path);
    const names = below.map(lastElement).sort();
    return names.filter((name) => name > after).slice(0, limit);
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

  nextVersion(nowMs: number): number {
    this.#version = Math.max(this.#version + 1, nowMs);
    return this.#version;
  }

  atomically<Value>(work: () => Reply<Value>): Reply<Value> {
    const before = new Map(this.#nodes);
    this.#changes = [];
    const reply = work();
    if (!reply.ok) this.#nodes = before;
    if (reply.ok && this.#changes.length > 0) this.onChanges(this.#changes);
    return reply;
  }

  childrenAfter(path: RegistryPath, after: string, limit: number): readonly RegistryNode[] {
    const names = this.children(path, { after, limit });
    return names.flatMap((name) => this.get(path === "/" ? `/${name}` : `${path}/${name}`) ?? []);
  }

  childrenOfEach(paths: readonly RegistryPath[], limit: number) {
    return paths.map((path) => this.children(path, { limit }));
  }

  nodesBelow(path: RegistryPath, after: RegistryPath | null, limit: number) {
    const below = [...this.#nodes.values()].filter(
      (node) => node.path !== path && isAtOrBelow(node.path, path),
    );
    const sorted = below.sort((a, b) => (orderKey(a.path) < orderKey(b.path) ? -1 : 1));
    const from = after === null || after === path ? "" : orderKey(after);
    return sorted.filter((node) => orderKey(node.path) > from).slice(0, limit);
  }

  nodesWithTerm(term: string, path: RegistryPath, after: RegistryPath | null, limit: number) {
    const all = this.nodesBelow(path, after, Number.POSITIVE_INFINITY);
    const has = ({ record }: RegistryNode) =>
      record !== null && termsOf(readStoredRecord(record)).includes(term);
    return all.filter(has).slice(0, limit);
  }
}

/** Sorts as (path of the parent, name) does. */
function orderKey(path: RegistryPath): string {
  return `${parentOf(path) ?? ""}\0${lastElement(path)}`;
}

/** `nowMs` is the registry's clock. */
export function mapRegistry(
  nowMs: () => number = () => 0,
  systemAccounts: readonly string[] = [],
): RegistryOperations &
  RegistryPublisher &
  RegistryWriter &
  RegistryPurge &
  RMRegistryOperations &
  RegistryNames &
  RegistryReader &
  RegistryWatch &
  RegistryEdge {
  const accounts = new Set(systemAccounts);
  const tree = new MapRegistryTree();
  const publishers = new MapPublisherLog();
  createSystemPaths(tree, nowMs());
  const names = mapNames(tree);
  return {
    ...mapReader(tree),
    resolveName: async (question, domain) => resolveName(names, question, domain, nowMs()),
    mknode: async (path, createParents) => mknode(tree, path, createParents, nowMs()),
    bind: async (path, record, flags) => bind(tree, path, record, flags, nowMs()),
    resolve: async (path) => resolve(tree, path),
    stat: async (path) => stat(tree, path),
    exists: async (path) => exists(tree, path),
    list: async (path, page) => list(tree, path, page),
    delete: async (path, recursive) => deletePath(tree, path, recursive),
    transact: async (operations) => transact(tree, operations, nowMs()),
    publish: async (publication) => publish(tree, publishers, publication, nowMs()),
    write: async (session, writes) => {
      const access = await proveAccess(tree, session, writes, accounts);
      return access.ok ? write(tree, writes, access.value, nowMs()) : access;
    },
    getAcl: async (session, path) => {
      const asked: RegistryWrite = { op: "set-acl", path, add: [], remove: [] };
      const access = await proveAccess(tree, session, [asked], accounts);
      return access.ok ? getAcl(tree, path, access.value) : access;
    },
    view: async (path) => view(tree, path),
    purgeEnded: async (ended) => purgeEnded(tree, ended),
    createHomes: async (users) => createHomes(tree, users, nowMs()),
    purge: async (yarnId, persistence, policy) => purge(tree, { yarnId, persistence }, policy),
  };
}
