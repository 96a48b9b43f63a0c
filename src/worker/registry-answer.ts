/** What one registry answers to one question, as the JSON documents of the read-only REST. */
import { ok, type Reply } from "../shared/errors.ts";
import type { RegistryNodeView } from "../shared/protocol/registry-operations.ts";
import type { RegistryReader, RegistryWatch } from "../shared/protocol/registry-reader.ts";
import {
  formatServiceRecordForReaders,
  formatServiceRecordStrict,
  type ServiceRecord,
  type ServiceRecordDocument,
} from "../shared/registry.ts";
import { poll } from "./registry-events.ts";
import { type RegistryRequest, writeCursor } from "./registry-query.ts";

/** A cluster's registry as readers see it. */
export type RegistrySource = {
  readonly registry: RegistryReader;
  readonly registryWatch: RegistryWatch;
};

/** One question to one registry. */
export type RegistryQuestion = {
  readonly source: RegistrySource;
  readonly path: string;
  /** The client's address, by which rude ones are slowed down; null where nobody tells it. */
  readonly reader: string | null;
  /** Whether records are wanted as Hadoop's class reads them. */
  readonly isStrict: boolean;
};

/** A view's JSON document. `ageMs` is null but for one that could not be read anew. */
export type RegistryAnswer = { readonly document: object; readonly ageMs: number | null };

/** The document of every view but the stream of events. */
export async function answerOf(
  question: RegistryQuestion,
  request: Exclude<RegistryRequest, { view: "events" }>,
): Promise<Reply<RegistryAnswer>> {
  const document = await documentOf(question, request);
  return document.ok ? ok({ document: document.value, ageMs: null }) : document;
}

async function documentOf(
  { source: { registry, registryWatch }, path, reader, isStrict }: RegistryQuestion,
  request: Exclude<RegistryRequest, { view: "events" }>,
): Promise<Reply<object>> {
  const format = isStrict ? formatServiceRecordStrict : formatServiceRecordForReaders;
  switch (request.view) {
    case "node": {
      return mapOk(await registry.readNode(path, reader), (node) => nodeDocument(node, format));
    }
    case "list":
      return registry.readChildren(path, request.page, reader);
    case "subtree": {
      const page = await registry.readSubtree(path, request.depth, request.page, reader);
      return mapOk(page, ({ nodes, next, ...rest }) => ({
        ...rest,
        depth: request.depth,
        nodes: nodes.map(({ record, ...node }) => ({ ...node, ...formatted(record, format) })),
        truncated: next !== undefined,
        ...cursor(next),
      }));
    }
    case "find": {
      const page = await registry.find(path, request.query, request.page, reader);
      return mapOk(page, ({ matches, next }) => ({
        matches: matches.map((match) => ({ path: match.path, record: format(match.record) })),
        ...cursor(next),
      }));
    }
    case "poll":
      return poll(registryWatch, { path, after: request.after, reader }, request.waitMs);
  }
}

/** One node's view; a node without record has no field `record`. */
export function nodeDocument(
  { record, ...rest }: RegistryNodeView,
  format: Format = formatServiceRecordForReaders,
): object {
  return { ...rest, ...formatted(record, format) };
}

type Format = (record: ServiceRecord) => ServiceRecordDocument;

function mapOk<Value>(reply: Reply<Value>, map: (value: Value) => object): Reply<object> {
  return reply.ok ? ok(map(reply.value)) : reply;
}

function formatted(record: ServiceRecord | null, format: Format) {
  return record === null ? {} : { record: format(record) };
}

function cursor(next: string | undefined) {
  return next === undefined ? {} : { next: writeCursor(next) };
}
