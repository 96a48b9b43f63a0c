/** ServiceRecord and Endpoint (seed 000 "Service Record"; facts/registry-dns.md §2). */

export type Endpoint = {
  readonly api: string;
  /** `uri`, `host/port`, `path`, `zookeeper`, `x-…` */
  readonly addressType: string;
  /** `REST`, `webui`, `tcp`, `hadoop/IPC`, … */
  readonly protocolType: string;
  readonly addresses: readonly Readonly<Record<string, string>>[];
};

/** Unknown top-level attributes are kept with their JSON types. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [name: string]: JsonValue };

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
};
