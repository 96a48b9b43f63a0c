/** ServiceRecord and Endpoint (seed 000 "Service Record"; facts/registry-dns.md §2). */

export type Endpoint = {
  readonly api: string;
  /** `uri`, `host/port`, `path`, `zookeeper`, `x-…` */
  readonly addressType: string;
  /** `REST`, `webui`, `tcp`, `hadoop/IPC`, … */
  readonly protocolType: string;
  readonly addresses: readonly Readonly<Record<string, string>>[];
};

/**
 * Unknown top-level attributes are kept with their JSON types. The recursion goes through named
 * interfaces: Cloudflare's RPC types never end on a recursive type alias.
 */
export type JsonValue = string | number | boolean | null | JsonArray | JsonObject;
export interface JsonArray extends ReadonlyArray<JsonValue> {}
export interface JsonObject {
  readonly [name: string]: JsonValue;
}

export type ServiceRecord = {
  readonly type: "JSONServiceRecord";
  readonly description?: string;
  readonly external: readonly Endpoint[];
  readonly internal: readonly Endpoint[];
  /** Everything else that stood at the top level: `yarn:id`, `yarn:persistence`, `yarn:ip`, … */
  readonly attributes: Readonly<Record<string, JsonValue>>;
};

export type RegistryPathStatus = {
  /** Short name of the last path element; empty for the root. */
  readonly path: string;
  /** Creation time, epoch ms. */
  readonly time: number;
  /** Bytes of the record's JSON; 0 for a node without record. */
  readonly size: number;
  readonly children: number;
  /** Rises with every change of the record; 0 for a node without one. `bind` can depend on it. */
  readonly version: number;
};

/** An endpoint as JSON. Readers that know only the seed's documents look for `protocol`. */
export type EndpointDocument = Endpoint & { readonly protocol?: string };

/** A record as JSON: the attributes stand at the top level, beside the four fixed names. */
export type ServiceRecordDocument = {
  readonly type: "JSONServiceRecord";
  readonly description?: string;
  readonly external: readonly EndpointDocument[];
  readonly internal: readonly EndpointDocument[];
  readonly [attribute: string]: JsonValue | undefined;
};

/** The names that a record's attributes cannot have. */
export const RECORD_FIELDS = ["type", "description", "external", "internal"] as const;

/** A record that was checked when it was stored, from its canonical JSON. */
export function readStoredRecord(text: string): ServiceRecord {
  const { type, description, external, internal, ...attributes } = JSON.parse(text) as Pick<
    ServiceRecord,
    "type" | "description" | "external" | "internal"
  > &
    JsonObject;
  const fixed = description === undefined ? { type } : { type, description };
  return { ...fixed, external, internal, attributes };
}

/** The canonical JSON form of a record: Java's key order, attributes last. */
export function formatServiceRecord(record: ServiceRecord): ServiceRecordDocument {
  return {
    ...fixedFields(record),
    external: record.external,
    internal: record.internal,
    ...record.attributes,
  };
}

/** As the REST shows it: every endpoint says `protocol` beside `protocolType` (design.md §12). */
export function formatServiceRecordForReaders(record: ServiceRecord): ServiceRecordDocument {
  const both = (endpoint: Endpoint) => ({ ...endpoint, protocol: endpoint.protocolType });
  return {
    ...fixedFields(record),
    external: record.external.map(both),
    internal: record.internal.map(both),
    ...record.attributes,
  };
}

/**
 * As Hadoop's Java class reads it without loss and would write it itself: attributes are texts,
 * nested ones as Java prints lists and maps, and those that are null are left out, because Java
 * cannot read them (facts/registry-dns.md §2.1).
 */
export function formatServiceRecordStrict(record: ServiceRecord): ServiceRecordDocument {
  const texts = Object.entries(record.attributes)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => [name, javaText(value)]);
  return {
    ...fixedFields(record),
    external: record.external,
    internal: record.internal,
    ...Object.fromEntries(texts),
  };
}

function javaText(value: JsonValue): string {
  if (typeof value === "number") return javaNumber(value);
  if (typeof value !== "object" || value === null) return String(value);
  if (Array.isArray(value)) return `[${value.map(javaText).join(", ")}]`;
  const fields = Object.entries(value).map(([name, inner]) => `${name}=${javaText(inner)}`);
  return `{${fields.join(", ")}}`;
}

/** Java's Double.toString beyond the integers: `1.0E21`, `1.5E-4`, `1.23456785E7`. */
function javaNumber(value: number): string {
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e21) return String(value);
  if (size >= 1e-3 && size < 1e7) return String(value);
  const [mantissa = "", exponent = ""] = value.toExponential().split("e");
  return `${mantissa.includes(".") ? mantissa : `${mantissa}.0`}E${Number(exponent)}`;
}

function fixedFields({ type, description }: ServiceRecord) {
  return description === undefined ? { type } : { type, description };
}

/** The answer of `GET /registry/v1/{path}`; `record` is absent for a node without one. */
export type RegistryNodeDocument = {
  readonly path: string;
  readonly stat: RegistryPathStatus;
  readonly record?: ServiceRecordDocument;
  readonly children: readonly string[];
  /** Below `/net`: that cluster cannot be asked, and this is what it said last. */
  readonly stale?: true;
};
