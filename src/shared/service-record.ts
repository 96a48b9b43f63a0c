/**
 * Reads a ServiceRecord from JSON that anybody may have written (seed 000 "Service Record"; facts/
 * registry-dns.md §2): tolerant of both historic forms, strict in types and sizes. What it answers
 * is canonical, and `formatServiceRecord` of it parses to the same record again. A record is checked
 * once, where it comes in; what goes on to the store is its text, and what the text is found by.
 */
import * as z from "zod";
import { checkEndpoints } from "./endpoint-rules.ts";
import { type Failure, type Finding, fail, ok, type Reply } from "./errors.ts";
import { LIMITS } from "./limits.ts";
import type { CheckedRecord, PersistencePolicy } from "./protocol/registry-operations.ts";
import {
  formatServiceRecord,
  type JsonValue,
  RECORD_FIELDS,
  type ServiceRecord,
} from "./registry.ts";
import { parsePath } from "./registry-path.ts";
import { termsOf } from "./registry-terms.ts";
import { utf8Length } from "./utf8.ts";

const word = z.string().max(LIMITS.endpointWordLengthMax);
/** Ports are often written as numbers. Lengths are checked where an address becomes a map. */
const addressValue = z.union([z.string(), z.int()]);
const addressSchema = z.union([z.array(addressValue), z.record(z.string(), addressValue)], {
  error:
    'must be a map of texts such as {"uri": "http://…"}, or the older list such as ["http://…"]',
});
type AddressInput = z.infer<typeof addressSchema>;

/** Keys by position in the list form of an address (before Hadoop 2.6). */
const LIST_FORM: Readonly<Record<string, readonly string[]>> = {
  uri: ["uri"],
  "host/port": ["host", "port"],
  hostname: ["host"],
  inetaddress: ["host", "port"],
  path: ["path"],
  zookeeper: ["host", "port", "path"],
};

const endpointSchema = z
  .object({
    api: z.string().min(1).max(LIMITS.endpointApiLengthMax),
    addressType: word,
    protocolType: word.nullish(),
    protocol: word.nullish(),
    addresses: z.array(addressSchema).max(LIMITS.addressesPerEndpointMax),
  })
  .transform((wire, context) => {
    const problem = (path: (string | number)[], message: string) =>
      context.addIssue({ code: "custom", path, message });
    const protocolType = wire.protocolType ?? wire.protocol;
    if (typeof protocolType !== "string") {
      problem(["protocolType"], "is missing (the older name protocol is accepted too)");
      return z.NEVER;
    }
    if (typeof wire.protocol === "string" && wire.protocol !== protocolType) {
      problem(["protocol"], `says something else than protocolType, which is "${protocolType}"`);
    }
    const addresses = wire.addresses.map((address, index) => {
      const canonical = canonicalAddress(wire.addressType, address);
      if (typeof canonical !== "string") return canonical;
      problem(["addresses", index], canonical);
      return {};
    });
    if (wire.addressType === "zookeeper" && new Set(addresses.map((a) => a["path"])).size > 1) {
      problem(["addresses"], "must have the same path in every zookeeper address");
    }
    return { api: wire.api, addressType: wire.addressType, protocolType, addresses };
  });

/** The address as a map of texts, or a sentence about what is wrong with it. */
function canonicalAddress(
  addressType: string,
  address: AddressInput,
): Readonly<Record<string, string>> | string {
  const keys = (Object.hasOwn(LIST_FORM, addressType) && LIST_FORM[addressType]) || [];
  if (Array.isArray(address) && (address.length === 0 || address.length > keys.length)) {
    return keys.length === 0
      ? `must be a map: the address type "${addressType}" has no list form`
      : `must be a map, or the list of ${keys.join(", ")}`;
  }
  const fields: (readonly [string, string])[] = Array.isArray(address)
    ? address.map((value, index) => [keys[index] ?? "", String(value)])
    : Object.entries(address).map(([key, value]) => [key, String(value)]);
  if (fields.length > LIMITS.fieldsPerAddressMax) {
    return `has ${fields.length} fields; at most ${LIMITS.fieldsPerAddressMax}`;
  }
  for (const [key, value] of fields) {
    if (key === "" || key.length > LIMITS.endpointWordLengthMax) {
      return `has a field name that is not 1 to ${LIMITS.endpointWordLengthMax} characters long`;
    }
    if (value.length > LIMITS.addressValueLengthMax) {
      return `has a ${key} longer than ${LIMITS.addressValueLengthMax} characters`;
    }
  }
  // The seed's table says `hostname` where its examples and Java say `host`.
  if (!keys.includes("host") || "host" in address) return Object.fromEntries(fields);
  return Object.fromEntries(fields.map(([k, v]) => [k === "hostname" ? "host" : k, v]));
}

const endpointsSchema = z
  .array(endpointSchema)
  .max(LIMITS.endpointsPerRecordMax)
  .nullish()
  .transform((endpoints) => endpoints ?? []);

const recordSchema = z.object({
  type: z.literal("JSONServiceRecord", { error: 'must be "JSONServiceRecord"' }).optional(),
  description: z.string().max(LIMITS.descriptionLengthMax).nullish(),
  external: endpointsSchema,
  internal: endpointsSchema,
});

/**
 * Some JSON value as a record that may be bound at the path: one of this form, with endpoints as
 * their rules say, and not too long. Fails with InvalidRecordException and one finding for each field
 * that is wrong, or for a path that is none.
 */
export function checkRecord(path: string, json: unknown): Reply<CheckedRecord> {
  const checked = check(json);
  if (checked.ok) return checked;
  const { error } = checked;
  const parsed = parsePath(path);
  if (!parsed.ok) return parsed;
  return { ok: false, error: { ...error, message: `${parsed.value}: ${error.message}` } };
}

function check(json: unknown): Reply<CheckedRecord> {
  const parsed = parseServiceRecord(json);
  const record = parsed.ok ? checkEndpoints(parsed.value) : parsed;
  if (!record.ok) return record;
  const text = JSON.stringify(formatServiceRecord(record.value));
  const bytes = utf8Length(text);
  if (bytes > LIMITS.recordBytesMax) {
    return invalidRecord(
      `the service record has ${bytes} bytes; at most ${LIMITS.recordBytesMax} are allowed`,
      [],
    );
  }
  return ok({ text, boundTo: persistenceOf(record.value), terms: termsOf(record.value) });
}

/** The record that some JSON value is by its form; its endpoints may break rules. */
export function parseServiceRecord(json: unknown): Reply<ServiceRecord> {
  if (typeof json !== "object" || json === null || Array.isArray(json)) {
    return invalidRecord("a service record is a JSON object", []);
  }
  const { attributes, findings } = readAttributes(json);
  const parsed = recordSchema.safeParse(json);
  for (const issue of parsed.error?.issues ?? []) {
    findings.push({ path: formatPath(issue.path), message: issue.message });
  }
  if (!parsed.success || findings.length > 0) {
    return invalidRecord("the service record is not valid", findings);
  }
  const { description, external, internal } = parsed.data;
  return ok({
    type: "JSONServiceRecord",
    ...(typeof description === "string" ? { description } : {}),
    external,
    internal,
    attributes,
  });
}

/**
 * A record that a program has built, checked by the same rules. The type alone does not say that
 * its texts are short enough, nor that no attribute hides one of the fixed fields.
 */
export function checkServiceRecord(path: string, record: ServiceRecord): Reply<CheckedRecord> {
  const hidden = Object.keys(record.attributes).find(isRecordField);
  if (hidden !== undefined) {
    const finding = { path: hidden, message: "is a field of the record, not an attribute" };
    return invalidRecord("the service record is not valid", [finding]);
  }
  return checkRecord(path, formatServiceRecord(record));
}

/** Whose end removes the record; null: it stays until somebody deletes it. */
export function persistenceOf(
  record: ServiceRecord,
): { readonly yarnId: string; readonly persistence: PersistencePolicy } | null {
  const yarnId = record.attributes["yarn:id"];
  const persistence = record.attributes["yarn:persistence"];
  if (typeof yarnId !== "string" || yarnId === "") return null;
  switch (persistence) {
    case "application":
    case "application-attempt":
    case "container":
      return { yarnId, persistence };
    default:
      return null;
  }
}

function isRecordField(name: string): boolean {
  return (RECORD_FIELDS as readonly string[]).includes(name);
}

/** All that stands beside the fixed fields, with its JSON types. */
function readAttributes(json: object) {
  const findings: Finding[] = [];
  const kept: [string, JsonValue][] = [];
  const entries: [string, unknown][] = Object.entries(json);
  const others = entries.filter(([name]) => !isRecordField(name));
  if (others.length > LIMITS.attributesPerRecordMax) {
    const most = LIMITS.attributesPerRecordMax;
    findings.push({ path: "", message: `has ${others.length} attributes; at most ${most}` });
    return { attributes: {}, findings };
  }
  for (const [name, value] of others) {
    if (name.length > LIMITS.attributeNameLengthMax) {
      const most = LIMITS.attributeNameLengthMax;
      findings.push({ path: name.slice(0, most), message: `has a name longer than ${most}` });
    } else if (name === "" || name === "__proto__") {
      findings.push({ path: name, message: "cannot be the name of an attribute" });
    } else if (isJson(value, LIMITS.attributeDepthMax)) {
      kept.push([name, canonicalAttribute(name, value)]);
    } else {
      const most = LIMITS.attributeDepthMax;
      findings.push({ path: name, message: `must be JSON, nested at most ${most} deep` });
    }
  }
  return { attributes: Object.fromEntries(kept), findings };
}

/** The guide writes `application_attempt`, Java `application-attempt` (design.md §12). */
function canonicalAttribute(name: string, value: JsonValue): JsonValue {
  const older = name === "yarn:persistence" && value === "application_attempt";
  return older ? "application-attempt" : value;
}

/** Numbers that JSON cannot say, such as the Infinity that `1e999` parses to, are not JSON. */
function isJson(value: unknown, levels: number): value is JsonValue {
  if (value === null || typeof value === "string" || typeof value === "boolean") return true;
  if (typeof value === "number") return Number.isFinite(value);
  if (typeof value !== "object" || levels === 0) return false;
  if (Object.hasOwn(value, "__proto__")) return false;
  return Object.values(value).every((inner) => isJson(inner, levels - 1));
}

/** `external[0].addresses[1].port`. */
function formatPath(path: readonly PropertyKey[]): string {
  return path.reduce<string>(
    (text, key) =>
      typeof key === "number"
        ? `${text}[${key}]`
        : text === ""
          ? String(key)
          : `${text}.${String(key)}`,
    "",
  );
}

function invalidRecord(message: string, findings: readonly Finding[]) {
  const more: Omit<Failure, "code" | "message"> = {
    reason: "InvalidRecordException",
    hint: 'the smallest record is {"type": "JSONServiceRecord", "external": [], "internal": []}',
  };
  return fail("INVALID_ARGUMENT", message, findings.length > 0 ? { ...more, findings } : more);
}
