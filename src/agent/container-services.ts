/** What all containers of a node share. */
import type { NodeId } from "../shared/ids.ts";
import type { AgentHome } from "./agent-home.ts";
import type { ApplicationRegistry } from "./applications.ts";
import type { Cgroups } from "./cgroups.ts";
import type { ContainerLogs } from "./container-logs.ts";
import type { ContainerExecutors } from "./container-runtime.ts";
import type { ContainersMonitor } from "./containers-monitor.ts";
import type { ResourceLocalizationService } from "./localization/resource-localization-service.ts";
import type { Log } from "./log.ts";
import type { PortAllocator } from "./port-allocator.ts";
import type { StateStore } from "./state-store.ts";
import type { TokenVerifier } from "./token-verifier.ts";

export type ContainerServices = {
  readonly nodeId: NodeId;
  /** The cluster's, without a slash at its end. */
  readonly clusterUrl: string;
  readonly host: string;
  readonly ips: readonly string[];
  /** TCP port of the NodeManager's own web service; 0 when it has none. */
  readonly httpPort: number;
  /** Of the machine's present start. */
  readonly bootId: string;
  readonly home: AgentHome;
  readonly store: StateStore;
  readonly verifier: TokenVerifier;
  readonly executors: ContainerExecutors;
  /** False: only images are launched here. What runs already goes on. */
  readonly allowsProcesses: boolean;
  readonly applications: ApplicationRegistry;
  readonly localization: ResourceLocalizationService;
  readonly monitor: ContainersMonitor;
  readonly logs: ContainerLogs;
  /** Of the auxiliary services that run: base64 by name. */
  readonly metaData: () => Readonly<Record<string, string>>;
  readonly ports: PortAllocator;
  /** The agent's own. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly cgroups: Cgroups | undefined;
  readonly log: Log;
  readonly nowMs: () => number;
};
