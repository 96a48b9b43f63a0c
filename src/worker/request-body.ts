/**
 * Request bodies: UTF-8 text of a known type, as a plain value. Schemas come after. The number of
 * bytes is bounded by the middleware in app.ts before anything is read here.
 */
import type { Context } from "hono";
import { fail, ok, type Reply } from "../shared/errors.ts";
import { parseYaml } from "../shared/yaml.ts";
import { findJsonError } from "./json-error.ts";

const JSON_TYPES = ["application/json"];
/** RFC 9512 registers the first; the others are what tools have sent since before it. */
const YAML_TYPES = ["application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"];

/** Hadoop's configuration files; their text is handed on as it is. */
const XML_TYPES = ["application/xml", "text/xml"];

export type BodyFormat = "json" | "json or yaml" | "json, yaml or xml";

const FORMATS: Readonly<Record<BodyFormat, string>> = {
  json: "application/json",
  "json or yaml": "application/json or application/yaml",
  "json, yaml or xml": "application/json, application/yaml or application/xml",
};

/** The body's value. Fails with 415 for another content type, 400 for text that is not what it says. */
export async function readBody(c: Context, format: BodyFormat): Promise<Reply<unknown>> {
  const contentType =
    (c.req.header("content-type") ?? "").split(";")[0]?.trim().toLowerCase() ?? "";
  const isYaml = format !== "json" && YAML_TYPES.includes(contentType);
  const isXml = format === "json, yaml or xml" && XML_TYPES.includes(contentType);
  if (!isYaml && !isXml && !JSON_TYPES.includes(contentType)) {
    return unsupported(contentType, format);
  }
  const text = decode(await c.req.arrayBuffer());
  if (text === null) return fail("INVALID_ARGUMENT", "the request body is not UTF-8 text");
  if (isXml) return ok<unknown>(text);
  return isYaml ? parseYaml(text) : parseJson(text);
}

function unsupported(contentType: string, format: BodyFormat): Reply<never> {
  const sent = contentType === "" ? "no content type" : `content type ${contentType.slice(0, 100)}`;
  return fail("INVALID_ARGUMENT", `the request body was sent with ${sent}`, {
    reason: "UnsupportedMediaType",
    hint: `send it with the header Content-Type: ${FORMATS[format]}`,
  });
}

function decode(bytes: ArrayBuffer): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(bytes);
  } catch {
    return null;
  }
}

function parseJson(text: string): Reply<unknown> {
  try {
    return ok<unknown>(JSON.parse(text));
  } catch {
    if (text.trim() === "") {
      return fail("INVALID_ARGUMENT", "the request body is empty; a JSON object is expected");
    }
    const place = findJsonError(text);
    const where = place
      ? ` at line ${place.line}, column ${place.column}: expected ${place.expected}`
      : "";
    return fail("INVALID_ARGUMENT", `the request body is not JSON${where}`);
  }
}
