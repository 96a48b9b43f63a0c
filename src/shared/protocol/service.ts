/**
 * The YARN Service API (seed 001) as one interface: what a ServiceMaster answers. One object per
 * (cluster, user, service name). The Yarnfile's schema is in shared/service.ts.
 */
import type { Reply } from "../errors.ts";
import type { ContainerId, NodeId } from "../ids.ts";
import type { ServiceView } from "../service.ts";
import type { Yarnfile } from "../yarnfile.ts";
import type { ApplicationPlan, Submitter } from "./application-client.ts";

/** One line of a service's timeline: what happened, when, why. */
export type ServiceEvent = {
  /** Epoch ms. */
  readonly timeMs: number;
  /** `SERVICE_STABLE`, `CONTAINER_ALLOCATED`, `INSTANCE_RESTARTING`, … */
  readonly type: string;
  readonly component?: string;
  readonly instance?: string;
  readonly containerId?: ContainerId;
  readonly nodeId?: NodeId;
  /** In words, with the reason. */
  readonly message: string;
};

/** `number_of_containers` of a flex request: `3`, or relative `"+2"`, `"-1"`. */
export type FlexRequest = {
  readonly component: string;
  readonly count: number | `+${number}` | `-${number}`;
};
export type FlexResult = { readonly component: string; readonly from: number; readonly to: number };

export type ServicePlan = {
  readonly queue: string;
  readonly components: readonly ComponentPlan[];
  /** Containers of others that the first round of preemption would want back. */
  readonly preempted: ApplicationPlan["preempted"];
};
export type ComponentPlan = {
  readonly name: string;
  readonly wanted: number;
  /** Number of containers by node. */
  readonly placed: Readonly<Record<NodeId, number>>;
  readonly waiting: number;
  /** Why; empty when nothing waits. */
  readonly reason: string;
};

/** `launchVersion` is that of the launch context which is to take the place of the present one. */
export type RestartingContainer = { readonly instance: string; readonly launchVersion: number };

export interface ServiceProtocol {
  /** Checked field by field already, not yet as a whole. STOPPED in the Yarnfile only saves it. */
  create(
    user: string,
    yarnfile: Yarnfile,
    submitter: Submitter,
  ): Promise<Reply<{ readonly applicationId: string | null }>>;
  /** Where its containers would go now, what would wait, what would be preempted. Changes nothing. */
  plan(user: string, yarnfile: Yarnfile, submitter: Submitter): Promise<Reply<ServicePlan>>;
  get(): Promise<Reply<ServiceView>>;
  start(submitter: Submitter): Promise<Reply<{ readonly applicationId: string | null }>>;
  stop(): Promise<Reply<undefined>>;
  /** All or nothing. */
  flex(requests: readonly FlexRequest[]): Promise<Reply<readonly FlexResult[]>>;
  /** Seconds from now; -1 for unlimited. */
  setLifetime(seconds: number): Promise<Reply<undefined>>;
  /** In place; accepted, not yet done. Again while it is under way is once. */
  restartContainer(containerId: ContainerId): Promise<Reply<RestartingContainer>>;
  destroy(): Promise<Reply<undefined>>;
  /** Oldest first. */
  events(): Promise<Reply<readonly ServiceEvent[]>>;
}
