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
  /** A person's policy has three or four; each is looked at for every node that is tried. */
  placementConstraintsMax: 16,
  /** Tags, attributes, or values of one attribute. */
  placementEntriesMax: 64,
  /** About 68 years: keeps epoch ms + lifetime well inside a safe integer. */
  lifetimeSecondsMax: 2_147_483_647,
  /** Versions are compared and shown, not parsed; a git hash and a date fit well. */
  serviceVersionLengthMax: 128,
  /** A validated service is one row of at most 2 MB; a character takes up to 3 bytes. */
  serviceDefinitionLengthMax: 600_000,
  /** Groups of one user: they stand in every token, which is sent with every request. */
  groupsPerUserMax: 64,
  /** One ACL of an application; larger circles are groups. It is stored with each container's logs. */
  applicationAclLengthMax: 1_024,
  /** What every proxy and client passes on unharmed. */
  urlLengthMax: 2_048,
  /** Named dynamic ports of one container. */
  portsPerContainerMax: 16,

  /** Events kept per service, oldest dropped first: a timeline a person reads, about 100 KB. */
  eventsPerServiceMax: 500,
  /** YARN cuts container diagnostics at 10,000 characters. */
  diagnosticsLengthMax: 10_000,

  /** The largest YARN clusters have some hundred queues; a pass and a page look at every one. */
  queuesMax: 1_000,
  /** Companies, departments, teams, users …; walks over queues recurse this deep. */
  queueDepthMax: 16,
  /** A user's name of 63 characters with ten dots, each written `_dot_`. */
  queueNameLengthMax: 128,
  /** Of applications and queues; YARN's largest in use are two digits. */
  priorityMax: 1_000_000,
  /** Full path of a queue: the depth times the name. */
  queuePathLengthMax: 2_048,
  /** Twenty for each of the queues. All are read in one turn of the object that keeps them. */
  schedulerPropertiesMax: 20_000,
  schedulerPropertyNameLengthMax: 1_024,
  /** Of names and values together: they are one row of at most 2 MB; a character takes up to 3 bytes. */
  schedulerPropertiesLengthMax: 600_000,
  /** `mapping-rule-json` with some hundred rules; all others are words and numbers. */
  schedulerPropertyLengthMax: 65_536,
  /** Each is tried in order at every submission. */
  mappingRulesMax: 1_000,
  /** Partitions of one cluster: every queue counts its use in each. */
  nodeLabelsMax: 100,

  /** One scheduling pass: bounds the time an object is busy between two messages. */
  assignmentsPerPassMax: 1_000,
  /** `yarn.resourcemanager.max-completed-applications`. */
  completedApplicationsMax: 1_000,

  /** As YARN's file system store: enough to look back over months of changes. */
  schedulerConfVersionsKept: 100,
  /** One order of an administrator for many nodes. */
  nodesPerRequestMax: 1_000,
  /** A register message of a node with a thousand containers stays below it. */
  nodeMessageBytesMax: 4_194_304,
  containersPerNodeMax: 4_096,
  /** One reply of the log reader: bounded because a WebSocket has no back-pressure. */
  logChunkBytesMax: 262_144,
  /** A list of a node's containers with all their facts is some hundred KB. */
  nodeAnswerLengthMax: 1_048_576,
  /** Requests to nodes that one tracker shard waits for: each holds a timer and a caller open. */
  nodeRequestsMax: 1_024,

  /** One frame of a stream into a container: 64 frames to the megabyte, and none that holds a terminal up. */
  streamFrameBytesMax: 16_384,
  /** What each side of a stream may have under way, unread by the other: at 256 KiB in 100 ms of round
   * trip 2.5 MB/s; a node's relay holds at most twice that for each of its streams. */
  streamWindowBytes: 262_144,
  /** At 512 KiB each they take 32 MiB of the relay's 128. */
  streamsPerNodeMax: 64,
  streamsPerContainerMax: 32,
  /** From a user's request until the node has connected: one question to the node, one connection. */
  streamPairingMsMax: 15_000,
  /** A stream on which nothing was said is cut: a shell that somebody forgot. kubelet's is the same. */
  streamIdleMsMax: 14_400_000,
  /** Both ends of a stream ping so often: often enough for every NAT on the way. */
  streamPingMs: 30_000,
  /** An end of which nothing was heard for so long is gone. */
  streamSilenceMsMax: 100_000,
  /** What exec runs travels in one header, percent-encoded; proxies pass 8 KB of one. */
  execHeaderLengthMax: 7_168,
  execWordsMax: 512,

  /** One package: its digest is computed within the 30 s of CPU that a request has. */
  packageBytesMax: 4_294_967_296,
  /** One part of an upload: above R2's minimum of 5 MiB, and within a minute on 1.2 Mbit/s. */
  packagePartBytes: 8_388_608,
  packagePartsMax: 512,
  /** Versions in one page of a list; R2's own page. */
  packagePageMax: 1_000,
  /** Different packages that one Yarnfile may name: each is two questions to the store. */
  packagesPerServiceMax: 64,
  /** One chunk of an aggregated log before it is packed: what a reader unpacks to see a line of it. */
  aggregatedChunkBytesMax: 1_048_576,
  /** The same as it is sent: text that cannot be packed grows by a few bytes. */
  aggregatedChunkPackedBytesMax: 1_114_112,
  /** Log files of one container. */
  aggregatedFilesMax: 64,
  /** One configuration file as rendered, and all of a container: they travel in its launch. */
  launchFileLengthMax: 131_072,
  launchFilesLengthMax: 524_288,
  configFilesMax: 64,

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
  /** Ends of containers, attempts and applications that the registry is told of in one call; their
   * ids, about 100 bytes each, are also one row of the ResourceManager. */
  registryPurgesPerTransactionMax: 1_000,
  /** Names in one page of a list: about 64 KB. */
  registryListPageMax: 1_000,
  /** Nodes that a recursive delete looks at one by one: only for those whose rights stand in ACLs. */
  registryRecursiveDeleteNodesMax: 1_000,
  /** Entries of one node's ACL: it is read with the node. */
  aclEntriesPerNodeMax: 32,
  /** Accessors that one request may carry, and digests that it may make the registry check: each
   * costs about 5 ms of the one object that serves the cluster's registry. */
  registryAccessorsPerRequestMax: 4,
  registryDigestChecksPerRequestMax: 8,
  accessorIdLengthMax: 64,
  /** Shorter ones could be tried out; programs make them, nobody types them. */
  accessorPasswordLengthMin: 8,
  accessorPasswordLengthMax: 128,

  /** A page of children, nodes or matches when nothing is said, and at most. */
  registryPageDefault: 100,
  registryPageMax: 1_000,
  /** Characters of records in one page; the record that crosses it is the last. An RPC holds 32 MB. */
  registryPageBytesMax: 4_194_304,
  /** Of nodes that the edge copies, about 3 ms of the object: how many at once, how many characters
   * of records they have together, and how many children each. */
  registryCopyNodesMax: 256,
  registryCopyBytesMax: 262_144,
  registryCopyChildrenMax: 64,
  /** Nodes that one page of a search without index looks at: about 10 ms of the object. */
  registryFindScanMax: 2_000,
  /** A search text; longer ones are found by reading. */
  registryFindTextLengthMax: 256,
  /** Watches of one registry. The platform's maximum is 32,768, and each takes about 70 KB. */
  registryWatchersMax: 10_000,
  /** Transactions whose changes are kept for watchers that come back: hours, or one busy minute. */
  registryChangesKept: 4_096,
  /** Changes of one transaction in one stored row of at most 2 MB; more take several numbers. */
  registryChangesPerSequenceMax: 1_000,
  /** Changes that the edge is told of at once, to forget what it keeps of them; with more of them it
   * forgets everything. */
  registryNewsMax: 4_096,
  /** What is caught up at once, or waits for one slow watcher; beyond it the watcher reads anew. */
  registryWatchBufferMax: 1_048_576,
  /** A long poll; proxies and clients give up after 30 s. */
  registryPollWaitMsMax: 25_000,

  /** A query with EDNS and padding has some hundred bytes; browsers' and resolvers' are below 512. */
  dnsQueryBytesMax: 4_096,
  /** Of each section of an answer, the first by path. A client connects to one of them; whoever
   * wants all of a component's containers lists them in the registry. */
  dnsRecordsPerAnswerMax: 64,
} as const;
