/**
 * The ResourceManager's REST API (seed 004) as a typed client, in YARN's own JSON. Lists come
 * unwrapped: YARN answers `{"nodes":{"node":[…]}}`, and null inside when there are none.
 */
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

export type ClusterClient = ReturnType<typeof clusterClient>;

export function clusterClient(http: Http) {
  const get = <T>(rest: string) => http.request<T>("GET", `/ws/v1/cluster/${rest}`);
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
  };
}
