/**
 * ContainerManagementProtocol (seed 004; facts/yarn-rm-nm-scheduler.md §6.1): ApplicationMaster →
 * NodeManager, relayed by the tracker shard that holds the node.
 */
import type { ContainerLaunchContext, ContainerStatus } from "../container.ts";
import type { Reply } from "../errors.ts";
import type { ContainerId, NodeId } from "../ids.ts";
import type { ReInitialization } from "./resource-tracker.ts";

export type StartContainerRequest = {
  readonly containerId: ContainerId;
  readonly nodeId: NodeId;
  /** As allocated: a container is over with the stay of its node, and must not start after it. */
  readonly nodeIncarnation: number;
  readonly token: string;
  readonly launch: ContainerLaunchContext;
};

/**
 * What changes of a container that runs. A token of a higher version: another resource
 * (updateContainer). A launch context of a higher version: another process in place
 * (reInitializeContainer; `reInitialization` PENDING keeps the one before). Only
 * `reInitialization`: commitLastReInitialization or rollbackLastReInitialization.
 */
export type UpdateContainerRequest = {
  readonly containerId: ContainerId;
  readonly token?: string;
  readonly launch?: ContainerLaunchContext;
  /** COMMITTED when left out. */
  readonly reInitialization?: ReInitialization;
  /**
   * The master's number for this change of the container, above those of all before it: one that is
   * not was said before, or overtaken, and changes nothing. Left out: the next.
   */
  readonly revision?: number;
};

/** `revision` as the container's statuses will name it; null: it is over, or not the master's. */
export type UpdatedContainer = {
  readonly containerId: ContainerId;
  readonly revision: number | null;
};

/** Who is to hear of the containers' statuses: an edge master's Durable Object name. */
export type MasterName = string;

export interface ContainerManagementProtocol {
  /** Durable once answered; a container already known is left as it is. */
  startContainers(
    master: MasterName,
    requests: readonly StartContainerRequest[],
  ): Promise<Reply<undefined>>;

  /**
   * Durable once answered; the containers' statuses say with their `revision` and `launchVersion`
   * when and how it was carried out.
   */
  updateContainers(
    master: MasterName,
    requests: readonly UpdateContainerRequest[],
  ): Promise<Reply<readonly UpdatedContainer[]>>;
}

/**
 * Tracker shard → edge master: the latest status of each container that changed since the
 * generation which the master acknowledged. Answers the highest generation heard from this shard;
 * an answer above `generation` means that this one came late and was ignored.
 */
export interface ContainerStatusCallback {
  onContainerStatuses(
    shard: string,
    generation: number,
    statuses: readonly ContainerStatus[],
  ): Promise<number>;
}

/** Reading a container's log file through its node's connection. */
export type ReadLogRequest = {
  readonly nodeId: NodeId;
  readonly containerId: ContainerId;
  readonly file: string;
  readonly offset: number;
  /** Epoch ms: what is known to be older is left out; the rest may be older too. */
  readonly sinceMs?: number | undefined;
  readonly lengthMax: number;
  readonly waitMs: number;
};
export type ReadLogResponse = {
  readonly data: string;
  readonly nextOffset: number;
  readonly end: boolean;
  /** Rotation has dropped so many bytes from the offset that was asked for; `data` begins after. */
  readonly droppedBytes?: number | undefined;
};
export interface LogReader {
  readLog(request: ReadLogRequest): Promise<Reply<ReadLogResponse>>;
}
