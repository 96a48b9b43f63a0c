/**
 * Searching the registry (seed 000, lookup use case 8): which records match. A query that names what
 * records have terms for (shared/registry-terms.ts) reads only records with that term, however large
 * the tree is. Any other query looks at a bounded number of nodes and says where to go on.
 */
import { fail, ok, type Reply } from "../../shared/errors.ts";
import { LIMITS } from "../../shared/limits.ts";
import type {
  RegistryFindPage,
  RegistryMatch,
  RegistryPage,
  RegistryQuery,
} from "../../shared/protocol/registry-reader.ts";
import {
  type Endpoint,
  type JsonValue,
  readStoredRecord,
  type ServiceRecord,
} from "../../shared/registry.ts";
import { parsePath, type RegistryPath, ROOT } from "../../shared/registry-path.ts";
import { quote } from "../../shared/registry-path-element.ts";
import { apiTerm, protocolTerm, yarnIdTerm } from "../../shared/registry-terms.ts";
import type { StoredNode } from "../../shared/registry-view.ts";
import { getNode } from "./registry.ts";
import type { RegistryTree } from "./tree.ts";

/**
 * What reading in pages needs of a store. Nodes come in the order of (path of the parent, name),
 * strictly after `after` where it is given; `path` itself is never among those below it.
 */
export interface RegistryIndex {
  childrenAfter(path: RegistryPath, after: string, limit: number): readonly StoredNode[];
  /** For each of the paths the names of its children, sorted, at most so many. */
  childrenOfEach(paths: readonly RegistryPath[], limit: number): readonly (readonly string[])[];
  nodesBelow(path: RegistryPath, after: RegistryPath | null, limit: number): readonly StoredNode[];
  nodesWithTerm(
    term: string,
    path: RegistryPath,
    after: RegistryPath | null,
    limit: number,
  ): readonly StoredNode[];
}

export type ReadableTree = Pick<RegistryTree, "get" | "countChildren"> & RegistryIndex;

/** Matches at the path and below it. Fails for a path that is missing. */
export function find(
  tree: RegistryTree & RegistryIndex,
  path: string,
  query: RegistryQuery,
  { limit, after }: RegistryPage,
): Reply<RegistryFindPage> {
  const node = getNode(tree, path);
  if (!node.ok) return node;
  const start = parseAfter(node.value.path, after);
  if (!start.ok) return start;
  const term = termOf(query);
  const chunk = Math.min(limit, LIMITS.registryFindScanMax) + 1;
  const matches: RegistryMatch[] = [];
  let [at, looked, bytes] = [start.value, 0, 0];
  let rows: readonly StoredNode[] = at === null ? [node.value] : [];
  let isSelf = at === null;
  for (;;) {
    if (!isSelf) {
      rows =
        term === null
          ? tree.nodesBelow(node.value.path, at, chunk)
          : tree.nodesWithTerm(term, node.value.path, at, chunk);
    }
    for (const [index, row] of rows.entries()) {
      at = row.path;
      looked += 1;
      const record = row.record === null ? null : readStoredRecord(row.record);
      if (record !== null && isMatch(record, query)) {
        matches.push({ path: row.path, record });
        bytes += row.record?.length ?? 0;
      }
      const isFull = matches.length >= limit || bytes >= LIMITS.registryPageBytesMax;
      if (!isFull && looked < LIMITS.registryFindScanMax) continue;
      const isLast = !isSelf && index === rows.length - 1 && rows.length < chunk;
      return ok(isLast ? { matches } : { matches, next: row.path });
    }
    if (!isSelf && rows.length < chunk) return ok({ matches });
    isSelf = false;
  }
}

/** `after` of a page below `path`: that path itself, or one below it. */
export function parseAfter(path: RegistryPath, after: string | null): Reply<RegistryPath | null> {
  if (after === null) return ok(null);
  const parsed = parsePath(after);
  if (parsed.ok && isAtOrBelow(parsed.value, path)) return parsed;
  return fail("INVALID_ARGUMENT", `${quote(after)} is no place to go on from below ${path}`, {
    hint: "send `next` of the page before as it is, to the same path",
  });
}

export function isAtOrBelow(path: RegistryPath, above: RegistryPath): boolean {
  return above === ROOT || path === above || path.startsWith(`${above}/`);
}

/** The rarest term of a query; null when none of its conditions has an index. */
function termOf({ endpoint, attributes }: RegistryQuery): string | null {
  const yarnId = attributes["yarn:id"];
  if (yarnId !== undefined && yarnId !== "") return yarnIdTerm(yarnId);
  if (endpoint.api !== undefined) return apiTerm(endpoint.api);
  return endpoint.protocolType === undefined ? null : protocolTerm(endpoint.protocolType);
}

export function isMatch(record: ServiceRecord, query: RegistryQuery): boolean {
  const { endpoint, scope, attributes, text } = query;
  const endpoints = [
    ...(scope === "internal" ? [] : record.external),
    ...(scope === "external" ? [] : record.internal),
  ];
  const asksForEndpoint =
    scope !== "any" || Object.values(endpoint).some((each) => each !== undefined);
  if (asksForEndpoint && !endpoints.some((each) => isEndpointMatch(each, endpoint))) return false;
  for (const [name, wanted] of Object.entries(attributes)) {
    if (!Object.hasOwn(record.attributes, name)) return false;
    if (!isAttributeMatch(name, record.attributes[name] ?? null, wanted)) return false;
  }
  return text === null || holdsText(record, text.toLowerCase());
}

function isEndpointMatch(
  { api, protocolType, addressType }: Endpoint,
  wanted: RegistryQuery["endpoint"],
): boolean {
  return (
    (wanted.api === undefined || wanted.api === api) &&
    (wanted.protocolType === undefined ||
      wanted.protocolType.toLowerCase() === protocolType.toLowerCase()) &&
    (wanted.addressType === undefined || wanted.addressType === addressType)
  );
}

/** The guide's `application_attempt` finds what is stored as `application-attempt`. */
function isAttributeMatch(name: string, value: JsonValue, wanted: string): boolean {
  const meant = name === "yarn:persistence" ? wanted.replace("_", "-") : wanted;
  return (typeof value === "string" ? value : JSON.stringify(value)) === meant;
}

/** Records are shallow: attributes nest at most `attributeDepthMax` levels. */
function holdsText(value: unknown, needle: string): boolean {
  if (typeof value === "string") return value.toLowerCase().includes(needle);
  if (typeof value !== "object" || value === null) return false;
  return Object.values(value).some((inner) => holdsText(inner, needle));
}
