/**
 * Configuration files as text (facts/yarn-services.md §4.9 "Formats"). Property names stand as they
 * are, `${…}` in values is replaced, and what a value brings in is never taken for syntax.
 *
 *   XML, HADOOP_XML  Hadoop's <configuration> of properties     PROPERTIES  java.util.Properties
 *   JSON, YAML       one flat map of texts                      ENV         NAME='value' for a shell
 *   TEMPLATE         the property `content`; `${name}` and `{{name}}` are the other properties
 */
import type { RenderedFileType } from "../../shared/service.ts";
import { substitute, type Tokens } from "./tokens.ts";

export type RenderedFile = {
  readonly type: RenderedFileType;
  readonly properties: Readonly<Record<string, string>>;
};

/** The file's text, with a line end at its end; a template's is as it is written. */
export function renderFile({ type, properties }: RenderedFile, tokens: Tokens): string {
  if (type === "TEMPLATE") return renderTemplate(properties, tokens);
  const entries = Object.entries(properties).map(
    ([name, value]): Entry => [name, substitute(value, tokens)],
  );
  return RENDERERS[type](entries);
}

type Entry = readonly [name: string, value: string];

const RENDERERS: Readonly<
  Record<Exclude<RenderedFileType, "TEMPLATE">, (entries: readonly Entry[]) => string>
> = {
  XML: renderXml,
  HADOOP_XML: renderXml,
  PROPERTIES: (entries) =>
    lines(entries, ([name, value]) => `${escapeKey(name)}=${escapeProperty(value)}`),
  JSON: (entries) => `${JSON.stringify(Object.fromEntries(entries), null, 2)}\n`,
  // A JSON text is a YAML double-quoted one, which no content can end early.
  YAML: (entries) =>
    entries.length === 0
      ? "{}\n"
      : lines(entries, ([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)}`),
  ENV: (entries) =>
    lines(entries, ([name, value]) => `${name}='${value.replaceAll("'", "'\\''")}'`),
};

function lines(entries: readonly Entry[], line: (entry: Entry) => string): string {
  return entries.map((entry) => `${line(entry)}\n`).join("");
}

function renderXml(entries: readonly Entry[]): string {
  const properties = lines(
    entries,
    ([name, value]) =>
      `  <property>\n    <name>${escapeXml(name)}</name>\n` +
      `    <value>${escapeXml(value)}</value>\n  </property>`,
  );
  return `<?xml version="1.0" encoding="UTF-8"?>\n<configuration>\n${properties}</configuration>\n`;
}

function escapeXml(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll("\r", "&#13;");
}

/** As java.util.Properties writes it, which any program that reads Latin-1 or UTF-8 understands. */
function escapeProperty(text: string): string {
  const escaped = text
    .replaceAll("\\", "\\\\")
    .replaceAll("\n", "\\n")
    .replaceAll("\r", "\\r")
    .replaceAll("\t", "\\t")
    .replaceAll("\f", "\\f")
    .replaceAll(/[^\x20-\x7e]/g, unicodeEscape);
  return escaped.replace(/^ /, "\\ ");
}

function escapeKey(name: string): string {
  return escapeProperty(name)
    .replace(/^\\ /, " ")
    .replaceAll(/[ :=#!]/g, "\\$&");
}

function unicodeEscape(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}

function renderTemplate(properties: Readonly<Record<string, string>>, tokens: Tokens): string {
  const { content = "", ...others } = properties;
  const own = Object.entries(others).map(
    ([name, value]): Entry => [name, substitute(value, tokens)],
  );
  const values = new Map(own);
  const all = new Map([...tokens, ...own]);
  // Every second piece is a {{name}}.
  return content
    .split(/(\{\{[^{}]+\}\})/)
    .map((piece, index) =>
      index % 2 === 0 ? substitute(piece, all) : (values.get(piece.slice(2, -2)) ?? piece),
    )
    .join("");
}
