/** Every maximum in the system, each with its reason. Units last in the name. */
export const LIMITS = {
  /** 2^33: above any machine's MB, and a million such amounts still add up exactly in a double. */
  resourceAmountMax: 2 ** 33,

  /** A Yarnfile of thousands of components is a program's output, not a person's; a DO row holds 2 MB. */
  requestBodyBytesMax: 1_048_576,
  /** What people write by hand is far below; larger definitions are programs' JSON. YAML with many
   * mistakes takes about 4 s per million characters to read. */
  yamlLengthMax: 131_072,
  /** DNS label (RFC 1123); also the registry's path element (seed 000, "Name size"). */
  nameLengthMax: 63,
  /** 63 less 19 digits of an instance number (facts/yarn-services.md §3 rule 8). */
  componentNameLengthMax: 44,
  componentsPerServiceMax: 100,
  /** One component; Hadoop knows no maximum. Bounds one service's rows and one allocate message. */
  containersPerComponentMax: 10_000,
  containersPerServiceMax: 20_000,
  launchCommandLengthMax: 32_768,
  environmentVariablesMax: 256,
  environmentValueLengthMax: 32_768,
  descriptionLengthMax: 4_096,
  /** About 68 years: keeps epoch ms + lifetime well inside a safe integer. */
  lifetimeSecondsMax: 2_147_483_647,
  /** Versions are compared and shown, not parsed; a git hash and a date fit well. */
  serviceVersionLengthMax: 128,
  /** A validated service is one row of at most 2 MB; a character takes up to 3 bytes. */
  serviceDefinitionLengthMax: 600_000,
  /** What every proxy and client passes on unharmed. */
  urlLengthMax: 2_048,
  /** Named dynamic ports of one container. */
  portsPerContainerMax: 16,

  /** Events kept per service, oldest dropped first: a timeline a person reads, about 100 KB. */
  eventsPerServiceMax: 500,
  /** YARN cuts container diagnostics at 10,000 characters. */
  diagnosticsLengthMax: 10_000,

  /** One scheduling pass: bounds the time an object is busy between two messages. */
  assignmentsPerPassMax: 1_000,
  /** `yarn.resourcemanager.max-completed-applications`. */
  completedApplicationsMax: 1_000,
  nodesPerClusterMax: 100_000,

  /** A register message of a node with a thousand containers stays below it. */
  nodeMessageBytesMax: 4_194_304,
  containersPerNodeMax: 4_096,
  /** One reply of the log reader: bounded because a WebSocket has no back-pressure. */
  logChunkBytesMax: 262_144,

  /** Seed 000 uses 6 levels; bounds what createParents writes and what a path says in a DNS name. */
  registryPathDepthMax: 32,
  /** A URL of any client carries it whole, and it stays far below a SQLite key's cost per row. */
  registryPathLengthMax: 1_024,
  /** One record's JSON. ZooKeeper's node holds 1 MB; a record is bindings, not a document store. */
  recordBytesMax: 65_536,
  /** Of each list, external and internal. The largest record known (Slider's) has 8. */
  endpointsPerRecordMax: 64,
  /** A ZooKeeper quorum has 5, a pool of load balancers tens. */
  addressesPerEndpointMax: 64,
  /** `host`, `port`, `path` and what an `x-` address type adds. */
  fieldsPerAddressMax: 16,
  /** A URI that names an API, not one that carries data (seed 000: "low limits"). */
  endpointApiLengthMax: 512,
  /** `addressType`, `protocolType` and the keys of an address: words. */
  endpointWordLengthMax: 64,
  /** A URL in an address: what browsers and proxies pass on unharmed. */
  addressValueLengthMax: 2_048,
  /** Java knows six; the rest is the publisher's own. */
  attributesPerRecordMax: 64,
  attributeNameLengthMax: 128,
  /** Nesting inside one attribute; keeps every walk over a record shallow. */
  attributeDepthMax: 8,
  /** One transaction: with small records about 1 MB of RPC, and tens of milliseconds of SQLite. */
  registryOperationsPerTransactionMax: 1_000,
} as const;
