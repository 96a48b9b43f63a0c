/**
 * The ResourceManager's REST API (seed 004) as a typed client, in YARN's own JSON. Lists come
 * unwrapped: YARN answers `{"nodes":{"node":[…]}}`, and null inside when there are none.
 */
import { applicationOfContainer, attemptOfContainer } from "../shared/ids.ts";
import type { SignalContainerCommand } from "../shared/protocol/node-query.ts";
import type { RestartingContainer } from "../shared/protocol/service.ts";
import type { Http } from "./http.ts";

/** Further fields are passed through as the cluster sent them. */
export type ClusterInfoView = {
  readonly id: number;
  readonly startedOn: number;
  readonly state: string;
  readonly resourceManagerVersion: string;
  readonly clusterName?: string;
};

export type ClusterMetricsView = {
  readonly appsRunning: number;
  readonly appsPending: number;
  readonly containersAllocated: number;
  readonly totalMB: number;
  readonly allocatedMB: number;
  readonly totalVirtualCores: number;
  readonly allocatedVirtualCores: number;
  readonly totalNodes: number;
  readonly activeNodes: number;
  readonly lostNodes: number;
  readonly unhealthyNodes: number;
};

export type NodeView = {
  readonly id: string;
  readonly state: string;
  readonly rack: string;
  readonly nodeHostName: string;
  readonly version: string;
  readonly healthReport: string;
  readonly numContainers: number;
  readonly usedMemoryMB: number;
  readonly availMemoryMB: number;
  readonly usedVirtualCores: number;
  readonly availableVirtualCores: number;
  readonly reservedMemoryMB?: number;
  readonly nodeLabels?: readonly string[];
};

export type ApplicationView = {
  readonly id: string;
  readonly name: string;
  readonly user: string;
  readonly queue: string;
  readonly state: string;
  readonly finalStatus: string;
  readonly diagnostics: string;
};

export type ClusterContainerView = {
  readonly containerId: string;
  readonly containerState: "NEW" | "RUNNING" | "COMPLETE";
  readonly nodeId: string;
  readonly allocatedMB: number;
  readonly allocatedVCores: number;
  readonly priority: number;
  readonly executionType: string;
  /** Epoch ms. */
  readonly startedTime: number;
  readonly containerExitStatus?: number;
  readonly diagnosticsInfo: string;
};

/** What was sent to a container's processes, by its node. */
export type SentSignal = {
  readonly containerId: string;
  readonly nodeId: string;
  readonly command: string;
};

export type ClusterClient = ReturnType<typeof clusterClient>;

export function clusterClient(http: Http) {
  const get = <T>(rest: string) => http.request<T>("GET", `/ws/v1/cluster/${rest}`);
  const containersPath = (applicationId: string, attemptId: string) =>
    `apps/${encodeURIComponent(applicationId)}/appattempts/${encodeURIComponent(attemptId)}/containers`;
  return {
    info: async () => (await get<{ clusterInfo: ClusterInfoView }>("info")).clusterInfo,
    metrics: async () =>
      (await get<{ clusterMetrics: ClusterMetricsView }>("metrics")).clusterMetrics,
    nodes: async (): Promise<readonly NodeView[]> =>
      (await get<{ nodes: { node?: readonly NodeView[] } | null }>("nodes")).nodes?.node ?? [],
    node: async (nodeId: string) =>
      (await get<{ node: NodeView }>(`nodes/${encodeURIComponent(nodeId)}`)).node,
    applications: async (): Promise<readonly ApplicationView[]> =>
      (await get<{ apps: { app?: readonly ApplicationView[] } | null }>("apps")).apps?.app ?? [],
    application: async (applicationId: string) =>
      (await get<{ app: ApplicationView }>(`apps/${encodeURIComponent(applicationId)}`)).app,
    containers: async (
      applicationId: string,
      attemptId: string,
    ): Promise<readonly ClusterContainerView[]> => {
      type Answer = { containers: { container?: readonly ClusterContainerView[] } | null };
      const answer = await get<Answer>(containersPath(applicationId, attemptId));
      return answer.containers?.container ?? [];
    },
    container: async (containerId: string) => {
      const path = containersPath(
        applicationOfContainer(containerId),
        attemptOfContainer(containerId),
      );
      type Answer = { container: ClusterContainerView };
      return (await get<Answer>(`${path}/${encodeURIComponent(containerId)}`)).container;
    },
    /** Never sent again by itself: a second one would be another signal. */
    signal: (containerId: string, command: SignalContainerCommand) =>
      http.request<SentSignal>(
        "POST",
        `/ws/v1/cluster/containers/${encodeURIComponent(containerId)}/signal/${command}`,
      ),
    /** In place; accepted, not yet done. */
    restart: (containerId: string) =>
      http.request<RestartingContainer & { readonly containerId: string }>(
        "POST",
        `/ws/v1/cluster/containers/${encodeURIComponent(containerId)}/restart`,
      ),
  };
}
