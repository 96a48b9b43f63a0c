/**
 * The YARN Service API (seed 001) as one interface: what a ServiceMaster answers. One object per
 * (cluster, user, service name). The Yarnfile's schema is in shared/service.ts.
 */
import type { Reply } from "../errors.ts";
import type { ContainerId, NodeId } from "../ids.ts";
import type { ServiceView } from "../service.ts";
import type { Yarnfile } from "../yarnfile.ts";

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

export interface ServiceProtocol {
  /** Checked field by field already, not yet as a whole. STOPPED in the Yarnfile only saves it. */
  create(
    user: string,
    yarnfile: Yarnfile,
  ): Promise<Reply<{ readonly applicationId: string | null }>>;
  get(): Promise<Reply<ServiceView>>;
  start(): Promise<Reply<{ readonly applicationId: string | null }>>;
  stop(): Promise<Reply<undefined>>;
  /** All or nothing. */
  flex(requests: readonly FlexRequest[]): Promise<Reply<readonly FlexResult[]>>;
  /** Seconds from now; -1 for unlimited. */
  setLifetime(seconds: number): Promise<Reply<undefined>>;
  destroy(): Promise<Reply<undefined>>;
  /** Oldest first. */
  events(): Promise<Reply<readonly ServiceEvent[]>>;
}
