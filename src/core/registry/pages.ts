/**
 * Reading the registry in pages: the children of a path with their status, and a subtree to some
 * depth. The cost of a page is that of what it shows, never that of the whole tree.
 */
import { fail, ok, type Reply } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import type {
  RegistryChildrenPage,
  RegistryChildStatus,
  RegistryCopiedNode,
  RegistryCopyPage,
  RegistryPage,
  RegistrySubtreeNode,
  RegistrySubtreePage,
} from "../../shared/protocol/registry-reader.ts";
import { type RegistryPathStatus, readStoredRecord } from "../../shared/registry.ts";
import { lastElement, parentOf, type RegistryPath, ROOT } from "../../shared/registry-path.ts";
import { isPathElement, quote } from "../../shared/registry-path-element.ts";
import { type StoredNode, statusOf as statusOfNode } from "../../shared/registry-view.ts";
import { parseAfter, type ReadableTree, type RegistryIndex } from "./find.ts";
import { getNode } from "./registry.ts";
import type { RegistryTree } from "./tree.ts";

/** `after` is a short name, whether there is such a child or not. */
export function readChildren(
  tree: RegistryTree & RegistryIndex,
  path: string,
  { limit, after }: RegistryPage,
): Reply<RegistryChildrenPage> {
  const node = getNode(tree, path);
  if (!node.ok) return node;
  if (after !== null && !isPathElement(after)) {
    return fail("INVALID_ARGUMENT", `${quote(after)} is not the name of a child`, {
      hint: "send `next` of the page before as it is",
    });
  }
  const rows = tree.childrenAfter(node.value.path, after ?? "", limit + 1);
  const shown = rows.slice(0, limit);
  const children = shown.map(
    (row): RegistryChildStatus => ({ ...statusOf(tree, row), hasRecord: row.record !== null }),
  );
  const last = children.at(-1);
  return ok({
    path: node.value.path,
    children,
    ...(rows.length > limit && last !== undefined ? { next: last.path } : {}),
  });
}

/** `depth` 0 is the path alone, 1 its children too. */
export function readSubtree(
  tree: RegistryTree & RegistryIndex,
  path: string,
  depth: number,
  { limit, after }: RegistryPage,
): Reply<RegistrySubtreePage> {
  const node = getNode(tree, path);
  if (!node.ok) return node;
  const top = node.value.path;
  const start = parseAfter(top, after);
  if (!start.ok) return start;
  const nodes: RegistrySubtreeNode[] = [];
  let bytes = 0;
  let row: StoredNode | undefined =
    start.value === null ? node.value : nextNode(tree, top, start.value, depth);
  for (;;) {
    if (row === undefined) return ok({ path: top, nodes });
    const last = nodes.at(-1);
    if (last !== undefined && (nodes.length >= limit || bytes >= LIMITS.registryPageBytesMax)) {
      return ok({ path: top, nodes, next: last.path });
    }
    const { record } = row;
    nodes.push({
      path: row.path,
      stat: statusOf(tree, row),
      record: record === null ? null : readStoredRecord(record),
    });
    bytes += record?.length ?? 0;
    row = nextNode(tree, top, row.path, depth);
  }
}

/**
 * A part of the whole tree, after the path or from the beginning. Nodes with many children are left
 * out: their views are long, and seldom asked for.
 */
export function copyPage(
  tree: RegistryTree & RegistryIndex,
  after: RegistryPath | null,
): RegistryCopyPage {
  const { registryCopyNodesMax, registryCopyBytesMax, registryCopyChildrenMax } = LIMITS;
  const rows = tree.nodesBelow(ROOT, after, registryCopyNodesMax);
  let bytes = 0;
  // The record that crosses the bound is the last, so that each page goes on.
  const crossing = rows.findIndex(({ record }) => {
    bytes += record?.length ?? 0;
    return bytes > registryCopyBytesMax;
  });
  const page = crossing === -1 ? rows : rows.slice(0, crossing + 1);
  const children = tree.childrenOfEach(
    page.map(({ path }) => path),
    registryCopyChildrenMax + 1,
  );
  const nodes = page.flatMap((node, index): RegistryCopiedNode[] => {
    const names = children[index] ?? [];
    return names.length > registryCopyChildrenMax ? [] : [{ ...node, children: names }];
  });
  const isLast = page.length === rows.length && rows.length < registryCopyNodesMax;
  return { nodes, next: isLast ? null : (page.at(-1)?.path ?? null) };
}

/** The node after `at`, depth first: its first child, or else the next one on the way up. */
function nextNode(
  tree: ReadableTree,
  top: RegistryPath,
  at: RegistryPath,
  depth: number,
): StoredNode | undefined {
  if (levelOf(at) - levelOf(top) < depth) {
    const [child] = tree.childrenAfter(at, "", 1);
    if (child !== undefined) return child;
  }
  for (let below = at; below !== top; below = parentOf(below) ?? ROOT) {
    const [sibling] = tree.childrenAfter(parentOf(below) ?? ROOT, lastElement(below), 1);
    if (sibling !== undefined) return sibling;
  }
  return undefined;
}

function levelOf(path: RegistryPath): number {
  return path === ROOT ? 0 : path.split("/").length - 1;
}

function statusOf(tree: ReadableTree, node: StoredNode): RegistryPathStatus {
  return statusOfNode(node, tree.countChildren(node.path));
}
