/**
 * What the edge is connected to. Routes see these protocols and never a Durable Object: the Worker's
 * entry binds them to stubs, tests bind them to fakes. Everything here belongs to one cluster.
 */
import type {
  AggregatedContainer,
  AggregatedFile,
  AnnounceLogs,
  LogChunkPlace,
  LogPart,
  LogsAnnouncement,
} from "../shared/aggregated-logs.ts";
import type { RegistryNames } from "../shared/dns.ts";
import type { Reply } from "../shared/errors.ts";
import type { ApplicationId, ContainerId, NodeId } from "../shared/ids.ts";
import type {
  Package,
  PackageContent,
  PackagePart,
  PackageUpload,
  PackageVersion,
} from "../shared/package.ts";
import type { ResourceManagerAdministrationProtocol } from "../shared/protocol/administration.ts";
import type {
  ApplicationClientProtocol,
  ClusterSecurity,
  Principal,
  Submitter,
} from "../shared/protocol/application-client.ts";
import type { LogReader, ReadLogResponse } from "../shared/protocol/container-management.ts";
import type { NodeQueries } from "../shared/protocol/node-query.ts";
import type { StreamOpening } from "../shared/protocol/node-stream.ts";
import type {
  RegistryOperations,
  RegistryPurge,
  RegistryWriter,
} from "../shared/protocol/registry-operations.ts";
import type { RegistryReader, RegistryWatch } from "../shared/protocol/registry-reader.ts";
import type { AgentMessage, NodeHeartbeatResponse } from "../shared/protocol/resource-tracker.ts";
import type { ServiceProtocol } from "../shared/protocol/service.ts";

/** The tracker shards of a cluster, as the edge uses them. */
export interface NodeConnections extends LogReader, NodeQueries {
  /** Upgrades the request to the node's WebSocket. `nodeId` comes from the verified credential. */
  connect(nodeId: NodeId, request: Request): Promise<Response>;
  /** The same messages for a node that no socket reaches. */
  heartbeat(
    nodeId: NodeId,
    messages: readonly AgentMessage[],
  ): Promise<Reply<NodeHeartbeatResponse>>;
}

/** Streams between users and containers, as the edge uses them. */
export interface NodeStreams {
  /**
   * The user's end: the answer to his WebSocket's handshake, once the node has connected the other
   * end. Fails as the node says (an allow-list, no process, another's port); UNAVAILABLE where no
   * WebSocket reaches the node.
   */
  open(nodeId: NodeId, opening: StreamOpening): Promise<Reply<Response>>;
  /** The node's end; `nodeId` comes from the verified credential. NOT_FOUND unless it is expected. */
  join(nodeId: NodeId, streamId: string, secret: string): Promise<Reply<Response>>;
}

/** The package store, as the edge uses it; what its methods do is said in durable/package-store.ts. */
export interface Packages {
  list(
    filter: { readonly user?: string | undefined; readonly name?: string | undefined },
    after: string | undefined,
  ): Promise<{ readonly packages: readonly Package[]; readonly next: string | null }>;
  get(of: PackageVersion): Promise<Reply<Package>>;
  begin(of: PackageVersion, content: PackageContent): Promise<Reply<PackageUpload>>;
  putPart(
    user: string,
    upload: string,
    partNumber: number,
    body: ReadableStream,
  ): Promise<Reply<PackagePart>>;
  complete(
    of: PackageVersion,
    upload: string,
    content: PackageContent,
    parts: readonly PackagePart[],
  ): Promise<Reply<Package>>;
  remove(of: PackageVersion): Promise<Reply<Package>>;
  open(
    sha256: string,
    offset?: number,
    length?: number,
  ): Promise<
    Reply<{
      readonly body: ReadableStream;
      readonly offset: number;
      readonly lengthBytes: number;
      readonly sizeBytes: number;
    }>
  >;
}

/** The store of aggregated logs, as the edge uses it; see durable/log-store.ts. */
export interface Logs {
  announce(containerId: ContainerId, noted: LogsAnnouncement, said: AnnounceLogs): Promise<void>;
  findAnnouncement(user: string, containerId: ContainerId): Promise<LogsAnnouncement | null>;
  isReadable(user: string, containerId: ContainerId, reader: Submitter): Promise<boolean>;
  putChunk(user: string, place: LogChunkPlace, packed: ReadableStream): Promise<void>;
  containers(
    user: string,
    applicationId: ApplicationId,
    reader?: Submitter,
  ): Promise<readonly AggregatedContainer[]>;
  files(user: string, containerId: ContainerId): Promise<readonly AggregatedFile[]>;
  read(user: string, containerId: ContainerId, part: LogPart): Promise<Reply<ReadLogResponse>>;
}

export type Protocols = {
  readonly resourceManager: ApplicationClientProtocol &
    ResourceManagerAdministrationProtocol &
    ClusterSecurity;
  serviceMaster(user: string, service: string): ServiceProtocol;
  readonly nodes: NodeConnections;
  readonly streams: NodeStreams;
  readonly registry: RegistryNames &
    RegistryOperations &
    RegistryWriter &
    RegistryPurge &
    RegistryReader;
  readonly registryWatch: RegistryWatch;
  /** Null in a deployment without R2. */
  readonly packages: Packages | null;
  readonly logs: Logs | null;
};

/** Must be cheap and do no I/O: it is called for every request. */
export type Connect = (cluster: string) => Protocols;

export type Settings = {
  /** Clusters that exist. A request for any other makes no object, which would cost its owner. */
  readonly isCluster: (name: string) => boolean;
  /** Zone of the registry's DNS names; lower case, without a dot at its end. */
  readonly domain: string;
  /** Accepts Hadoop's `?user.name=` from the machine itself. Never set in a deployment. */
  readonly development: boolean;
  /** What the registry shows below `/net`: clusters of this deployment, and base URLs of others. */
  readonly net: {
    readonly clusters: readonly string[];
    readonly remotes: ReadonlyMap<string, string>;
  };
  /** Who reads the registry: anybody, or only users with a token. */
  readonly registryReaders: "anybody" | "authenticated";
  /** Where `install.sh` gets the command from; undefined: the deployment does not say. */
  readonly command?: { readonly url: string | undefined; readonly sha256: string | undefined };
};

/** Who calls, after authentication. */
export type Caller =
  | (Principal & {
      readonly kind: "user";
      readonly groups: readonly string[];
      /** When the token ends, epoch ms; null for a pseudo-authenticated developer. */
      readonly expiresMs: number | null;
    })
  | { readonly kind: "node"; readonly nodeId: NodeId }
  /** A container with its registry credential. */
  | { readonly kind: "container"; readonly containerId: ContainerId; readonly path: string }
  /** Shows accessors of the registry and no token; the registry judges them. */
  | { readonly kind: "registry-accessor" }
  | { readonly kind: "node-join"; readonly jti: string };

/** Hono's environment of every route: what the middleware has found out by then. */
export type AppEnv = {
  Variables: {
    requestId: string;
    cluster: string;
    protocols: Protocols;
    settings: Settings;
    /** Null on the few public paths. */
    caller: Caller | null;
    /** What the audit line says besides, of a request that has to have one though it is a GET. */
    audited: Readonly<Record<string, unknown>> | null;
  };
};
