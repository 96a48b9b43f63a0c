/**
 * The YARN Service API's nouns after validation: what a ServiceMaster is given and what it shows.
 * The wire schema of a Yarnfile (snake_case, every field of seed 001) is in shared/yarnfile.ts.
 */
import type { LocalResourceVisibility, ReadinessCheck } from "./container.ts";
import type { PlacementConstraint } from "./placement.ts";
import type { Resource } from "./resource.ts";

export type RestartPolicy = "ALWAYS" | "ON_FAILURE" | "NEVER";

/** Facts §2.1. Requests may also say FLEX and READY; READY is STABLE. */
export const SERVICE_STATES = [
  "ACCEPTED",
  "STARTED",
  "STABLE",
  "STOPPED",
  "FAILED",
  "SUCCEEDED",
  "UPGRADING",
  "UPGRADING_AUTO_FINALIZE",
  "EXPRESS_UPGRADING",
  "CANCEL_UPGRADING",
] as const;
export type ServiceState = (typeof SERVICE_STATES)[number];
/** NEEDS_UPGRADE: not all of it is asked to be upgraded, or some of it could not be. */
export type ComponentState =
  | "FLEXING"
  | "STABLE"
  | "NEEDS_UPGRADE"
  | "UPGRADING"
  | "SUCCEEDED"
  | "FAILED";
/** INIT: allocated, its process not yet running. FAILED_UPGRADE: it runs on with the version before. */
export type InstanceContainerState =
  | "INIT"
  | "RUNNING_BUT_UNREADY"
  | "READY"
  | "NEEDS_UPGRADE"
  | "UPGRADING"
  | "FAILED_UPGRADE"
  | "SUCCEEDED"
  | "FAILED";

export type Configuration = {
  /** Settings of the framework (`yarn.service.…`); component wins over service. */
  readonly properties: Readonly<Record<string, string>>;
  readonly env: Readonly<Record<string, string>>;
  /** Absent: none. */
  readonly files?: readonly ConfigFile[];
};

/** Bytes that cannot change: a package, or an https: URL with a digest. */
export type PinnedSource = {
  /** As the Yarnfile names it. */
  readonly id: string;
  /** `package:sha256:…`, or the https: URL. */
  readonly url: string;
  readonly sha256: string;
  /** Absent where only the server knows. */
  readonly sizeBytes?: number;
};

/** What the node writes from its properties, before the container starts. */
export const RENDERED_FILE_TYPES = [
  "XML",
  "HADOOP_XML",
  "PROPERTIES",
  "JSON",
  "YAML",
  "ENV",
  "TEMPLATE",
] as const;
export type RenderedFileType = (typeof RENDERED_FILE_TYPES)[number];

/** Seed 001 "ConfigFile". */
export type ConfigFile = {
  /** One name: a rendered file is `conf/{name}`, the others `{name}`, in the work directory. */
  readonly destFile: string;
} & (
  | { readonly type: RenderedFileType; readonly properties: Readonly<Record<string, string>> }
  | {
      readonly type: "STATIC" | "ARCHIVE";
      readonly source: PinnedSource;
      readonly visibility: LocalResourceVisibility;
    }
);

/** Seed 001 "Artifact", its names resolved when the service was created. */
export type ComponentArtifact =
  | ({ readonly type: "TARBALL" } & PinnedSource)
  | {
      readonly type: "DOCKER";
      /** The image. */
      readonly id: string;
      readonly useEntryPoint: boolean;
      readonly network: string;
      readonly privileged: boolean;
      readonly mounts: readonly {
        readonly source: string;
        readonly destination: string;
        readonly readOnly: boolean;
      }[];
    };

export type ComponentDefinition = {
  readonly name: string;
  readonly dependencies: readonly string[];
  /** Rank in the dependency DAG; equals the priority of its requests. */
  readonly rank: number;
  /** Empty: a DOCKER artifact's own entry point and command. */
  readonly launchCommand: string;
  /** Absent: none. */
  readonly artifact?: ComponentArtifact;
  readonly resource: Resource;
  readonly numberOfContainers: number;
  readonly restartPolicy: RestartPolicy;
  readonly readinessCheck: ReadinessCheck;
  /** Service and component configuration merged. */
  readonly configuration: Configuration;
  readonly quicklinks: readonly string[];
  /** Absent: anywhere in the queue's default partition. */
  readonly placement?: {
    readonly constraint?: PlacementConstraint;
    readonly nodeLabel?: string;
  };
  /** As written, to be shown. */
  readonly placementPolicy?: PlacementPolicy;
};

/** `placement_policy` of a Yarnfile, as its schema lets it through. */
export type PlacementPolicy = {
  readonly label?: string | undefined;
  readonly constraints?: readonly PolicyConstraint[] | undefined;
};

export type PolicyConstraint = {
  readonly name?: string | undefined;
  readonly type?: string | undefined;
  readonly scope?: string | undefined;
  readonly target_tags?: readonly string[] | undefined;
  readonly node_attributes?: Readonly<Record<string, readonly string[]>> | undefined;
  readonly node_partitions?: readonly string[] | undefined;
  readonly min_cardinality?: number | undefined;
  readonly max_cardinality?: number | undefined;
  readonly max_skew?: number | undefined;
};

/** A whole, validated service with all defaults filled in. */
export type ServiceDefinition = {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly queue: string;
  /** Seconds; -1 is unlimited. */
  readonly lifetime: number;
  /** STOPPED only saves. */
  readonly startNow: boolean;
  readonly components: readonly ComponentDefinition[];
  readonly configuration: Configuration;
  readonly quicklinks: Readonly<Record<string, string>>;
};

/** GET /app/v1/services/{name}, in the seed's snake_case. */
export type ServiceView = {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly id: string | null;
  readonly user: string;
  readonly state: ServiceState;
  /** Why the service is not (yet) what was asked, in words; empty when it is. */
  readonly diagnostics: string;
  /** Remaining seconds, or -1. */
  readonly lifetime: number;
  readonly queue: string;
  /** Epoch ms; null before the first start. */
  readonly launch_time: number | null;
  readonly number_of_running_containers: number;
  readonly components: readonly ComponentView[];
  readonly configuration: ConfigurationView;
  readonly quicklinks: Readonly<Record<string, string>>;
};

export type ConfigurationView = Omit<Configuration, "files"> & {
  readonly files: readonly ConfigFileView[];
};

export type ConfigFileView = {
  readonly type: ConfigFile["type"];
  readonly dest_file: string;
  readonly src_file?: string;
  readonly properties?: Readonly<Record<string, string>>;
  readonly visibility?: LocalResourceVisibility;
};

export type ArtifactView = {
  readonly id: string;
  readonly type: ComponentArtifact["type"];
  /** What the id meant when the service was created, such as `package:sha256:…`. */
  readonly uri?: string;
};

export type ComponentView = {
  readonly name: string;
  readonly state: ComponentState;
  readonly dependencies: readonly string[];
  readonly resource: ResourceView;
  readonly number_of_containers: number;
  readonly launch_command: string;
  /** Absent: none. */
  readonly artifact?: ArtifactView;
  readonly restart_policy: RestartPolicy;
  readonly run_privileged_container: boolean;
  readonly readiness_check: {
    readonly type: string;
    readonly properties: Readonly<Record<string, string>>;
  };
  readonly configuration: ConfigurationView;
  readonly quicklinks: readonly string[];
  readonly placement_policy?: PlacementPolicy;
  /** Why containers of it are waiting, in words. */
  readonly diagnostics: string;
  readonly containers: readonly ContainerView[];
};

export type ResourceView = {
  readonly cpus: number;
  /** MB as text, as in the seed. */
  readonly memory: string;
  readonly additional: Readonly<Record<string, { readonly value: number; readonly unit: string }>>;
};

export type ContainerView = {
  readonly id: string;
  readonly component_instance_name: string;
  readonly state: InstanceContainerState;
  /** Of the service's definition that it runs with. */
  readonly version: string;
  readonly launch_time: number | null;
  readonly ip: string | null;
  readonly hostname: string | null;
  /** The node's host, and its full id. */
  readonly bare_host: string;
  readonly node_id: string;
  readonly exposed_ports: Readonly<
    Record<string, readonly { readonly HostIp: string; readonly HostPort: string }[]>
  >;
  readonly diagnostics: string;
};
