/**
 * The query of a registry URL: which view of the path is asked for, and with what. A parameter that
 * a view does not know is refused, because to ignore it would answer another question.
 */
import { didYouMeanClause } from "../shared/did-you-mean.ts";
import { type Finding, fail, ok, type Reply } from "../shared/errors.ts";
import { LIMITS } from "../shared/limits.ts";
import type { RegistryPage, RegistryQuery } from "../shared/protocol/registry-reader.ts";

export type RegistryRequest =
  | { readonly view: "node" }
  | { readonly view: "list"; readonly page: RegistryPage }
  | { readonly view: "subtree"; readonly depth: number; readonly page: RegistryPage }
  | { readonly view: "find"; readonly query: RegistryQuery; readonly page: RegistryPage }
  | { readonly view: "events" }
  | { readonly view: "poll"; readonly after: number | null; readonly waitMs: number };

/** A request that is answered at once. */
export type RegistryReading = Exclude<RegistryRequest, { view: "events" | "poll" }>;

type View = RegistryRequest["view"];

/** Of every view; `user.name` is Hadoop's, and means nothing to readers. */
const COMMON = ["user.name"];
const RECORDS = [...COMMON, "strict"];
const PAGE = ["limit", "after"];
const FILTERS = [
  "endpointField.api",
  "endpointField.protocolType",
  "endpointField.protocol",
  "endpointField.addressType",
  "external",
  "internal",
  "text",
];
const ATTRIBUTE = /^attribute\.(.+)$/s;

const PARAMETERS: Readonly<Record<View, readonly string[]>> = {
  node: RECORDS,
  list: [...COMMON, "list", ...PAGE],
  subtree: [...RECORDS, "depth", ...PAGE],
  find: [...RECORDS, "find", ...FILTERS, ...PAGE],
  events: [...COMMON, "watch", "after"],
  poll: [...COMMON, "watch", "after", "wait"],
};

/** Each names its view by being there. */
const SELECTORS = ["list", "depth", "find", "watch"];

/** Fails with one finding for each parameter that is not right. */
export function parseRegistryRequest(parameters: URLSearchParams): Reply<RegistryRequest> {
  const given = SELECTORS.filter((name) => parameters.has(name));
  if (given.length > 1) {
    const shown = given.map((name) => `?${name}`).join(" and ");
    return fail("INVALID_ARGUMENT", `${shown} are different questions`, {
      hint: "ask them one after the other",
    });
  }
  const view = viewOf(parameters);
  const findings: Finding[] = [];
  for (const name of new Set(parameters.keys())) {
    const known = PARAMETERS[view];
    const isKnown = known.includes(name) || (view === "find" && ATTRIBUTE.test(name));
    if (!isKnown)
      findings.push({ path: name.slice(0, 100), message: unknownParameter(name, view) });
    else if (parameters.getAll(name).length > 1) {
      findings.push({ path: name.slice(0, 100), message: "is given more than once" });
    }
  }
  const strict = parameters.get("strict");
  if (strict !== null && strict !== "hadoop") {
    findings.push({ path: "strict", message: "must be hadoop" });
  }
  const request = readRequest(view, parameters, findings);
  if (findings.length === 0) return ok(request);
  const names = [...new Set(findings.map(({ path }) => `?${path}`))].join(", ");
  return fail("INVALID_ARGUMENT", `the registry cannot answer ${names}`, {
    hint: "what a path can be asked is in /openapi.json",
    findings,
  });
}

function viewOf(parameters: URLSearchParams): View {
  if (parameters.has("list")) return "list";
  if (parameters.has("depth")) return "subtree";
  if (parameters.has("find")) return "find";
  if (parameters.has("watch")) return parameters.get("watch") === "poll" ? "poll" : "events";
  return "node";
}

function unknownParameter(name: string, view: View): string {
  const isFilter = FILTERS.includes(name) || ATTRIBUTE.test(name);
  if (isFilter && view !== "find") return "is for ?find";
  const known = PARAMETERS[view].filter((each) => !COMMON.includes(each));
  return `is not known here${didYouMeanClause(name.slice(0, 100), known)}`;
}

function readRequest(
  view: View,
  parameters: URLSearchParams,
  findings: Finding[],
): RegistryRequest {
  const number = (name: string, min: number, max: number, otherwise: number) =>
    readNumber(parameters.get(name), name, { min, max, otherwise }, findings);
  const page = (): RegistryPage => ({
    limit: number("limit", 1, LIMITS.registryPageMax, LIMITS.registryPageDefault),
    after:
      view === "list" ? parameters.get("after") : readCursor(parameters.get("after"), findings),
  });
  switch (view) {
    case "node":
      return { view };
    case "list":
      requireEmpty(parameters, "list", findings);
      return { view, page: page() };
    case "subtree":
      return { view, depth: number("depth", 0, LIMITS.registryPathDepthMax, 1), page: page() };
    case "find":
      requireEmpty(parameters, "find", findings);
      return { view, query: readQuery(parameters, findings), page: page() };
    case "events":
      requireEmpty(parameters, "watch", findings);
      return { view };
    case "poll": {
      const after = parameters.has("after") ? number("after", 0, Number.MAX_SAFE_INTEGER, 0) : null;
      const waitMs = number("wait", 0, LIMITS.registryPollWaitMsMax, POLL_WAIT_MS);
      return { view, after, waitMs };
    }
  }
}

/** Below what clients and proxies wait for at least. */
const POLL_WAIT_MS = 20_000;

function requireEmpty(parameters: URLSearchParams, name: string, findings: Finding[]): void {
  const value = parameters.get(name) ?? "";
  if (value === "" || value === "true") return;
  const more = name === "watch" ? " or poll" : "";
  findings.push({ path: name, message: `takes no value${more}` });
}

function readNumber(
  text: string | null,
  name: string,
  range: { readonly min: number; readonly max: number; readonly otherwise: number },
  findings: Finding[],
): number {
  if (text === null) return range.otherwise;
  const number = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (number >= range.min && number <= range.max) return number;
  findings.push({
    path: name,
    message: `must be a whole number from ${range.min} to ${range.max}`,
  });
  return range.otherwise;
}

function readQuery(parameters: URLSearchParams, findings: Finding[]): RegistryQuery {
  const field = (name: string) => parameters.get(`endpointField.${name}`) ?? undefined;
  if (field("protocolType") !== undefined && field("protocol") !== undefined) {
    const message = "is another name of endpointField.protocolType; give one of them";
    findings.push({ path: "endpointField.protocol", message });
  }
  const [external, internal] = [parameters.has("external"), parameters.has("internal")];
  const attributes: [string, string][] = [];
  for (const [parameter, value] of parameters) {
    const name = ATTRIBUTE.exec(parameter)?.[1];
    if (name !== undefined) attributes.push([name, value]);
  }
  if (attributes.length > LIMITS.attributesPerRecordMax) {
    const message = `is asked for ${attributes.length} times; no record has as many attributes`;
    findings.push({ path: "attribute", message });
  }
  const text = parameters.get("text");
  if (text !== null && (text === "" || text.length > LIMITS.registryFindTextLengthMax)) {
    const message = `must have 1 to ${LIMITS.registryFindTextLengthMax} characters`;
    findings.push({ path: "text", message });
  }
  const query: RegistryQuery = {
    endpoint: {
      api: field("api"),
      protocolType: field("protocolType") ?? field("protocol"),
      addressType: field("addressType"),
    },
    scope: external === internal ? "any" : external ? "external" : "internal",
    attributes: Object.fromEntries(attributes),
    text,
  };
  return query;
}

/** The URL's query for a request that `parseRegistryRequest` has read, to ask another registry. */
export function writeRegistryRequest(request: RegistryReading): URLSearchParams {
  const parameters = new URLSearchParams();
  const set = (name: string, value: string | null | undefined) => {
    if (value !== undefined && value !== null) parameters.set(name, value);
  };
  switch (request.view) {
    case "list":
      set("list", "");
      break;
    case "subtree":
      set("depth", String(request.depth));
      break;
    case "find": {
      const { endpoint, scope, attributes, text } = request.query;
      set("find", "");
      for (const [name, value] of Object.entries(endpoint)) set(`endpointField.${name}`, value);
      if (scope !== "any") set(scope, "");
      for (const [name, value] of Object.entries(attributes)) set(`attribute.${name}`, value);
      set("text", text);
      break;
    }
    case "node":
      break;
  }
  if (!("page" in request)) return parameters;
  const { limit, after } = request.page;
  set("limit", String(limit));
  set("after", after === null || request.view === "list" ? after : writeCursor(after));
  return parameters;
}

/** Where a page ended, as text that means nothing to a client: base64url of the path. */
export function writeCursor(path: string): string {
  return btoa(path).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function readCursor(text: string | null, findings: Finding[]): string | null {
  if (text === null) return null;
  try {
    const path = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    if (path.startsWith("/")) return path;
  } catch {
    // Not base64: said below.
  }
  const message = "is not one that a page has given; send `next` of the page before as it is";
  findings.push({ path: "after", message });
  return null;
}
