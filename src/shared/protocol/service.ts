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

/**
 * UPGRADING: its user says which instances, and when it is final. UPGRADING_AUTO_FINALIZE: final as
 * soon as all are upgraded. EXPRESS_UPGRADING: all of it by itself, component by component.
 */
export const UPGRADE_MODES = ["UPGRADING", "UPGRADING_AUTO_FINALIZE", "EXPRESS_UPGRADING"] as const;
export type UpgradeMode = (typeof UPGRADE_MODES)[number];

/** What an upgrade would change, in the definition's order; components that stay are left out. */
export type UpgradePlan = {
  /** Versions. */
  readonly from: string;
  readonly to: string;
  readonly components: readonly ComponentUpgrade[];
};
export type ComponentUpgrade = {
  readonly name: string;
  /** Fields of the Yarnfile that differ and reach its containers; empty: they stay as they are. */
  readonly changes: readonly string[];
  /** Containers that are re-initialized in place. */
  readonly containers: number;
  /** Their number when the upgrade is final. */
  readonly numberOfContainers: { readonly from: number; readonly to: number };
};

/** Instances by name, and all instances of components. */
export type UpgradeTargets = {
  readonly components: readonly string[];
  readonly instances: readonly string[];
};

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
  /** While it is being upgraded, this makes the upgrade final (YARN's finalize). */
  start(submitter: Submitter): Promise<Reply<{ readonly applicationId: string | null }>>;
  /** To the whole new definition; refused without a change when it cannot be had in place. */
  upgrade(user: string, mode: UpgradeMode, yarnfile: Yarnfile): Promise<Reply<UpgradePlan>>;
  /** What `upgrade` would change. Changes nothing. */
  planUpgrade(user: string, yarnfile: Yarnfile): Promise<Reply<UpgradePlan>>;
  /** All or nothing; those that are under way or done stay so. Answers the instances' names. */
  upgradeInstances(targets: UpgradeTargets): Promise<Reply<readonly string[]>>;
  /** Back to the version before. */
  cancelUpgrade(): Promise<Reply<undefined>>;
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
