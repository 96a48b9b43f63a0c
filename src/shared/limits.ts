/** Every maximum in the system, each with its reason. Units last in the name. */
export const LIMITS = {
  /** 2^40: above any machine's MB, and a million such amounts still add up exactly in a double. */
  resourceAmountMax: 2 ** 40,

  /** A Yarnfile of thousands of components is a program's output, not a person's; a DO row holds 2 MB. */
  requestBodyBytesMax: 1_048_576,
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
} as const;
