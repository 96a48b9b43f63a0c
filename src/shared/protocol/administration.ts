/**
 * ResourceManagerAdministrationProtocol (seed 004; facts/yarn-rm-nm-scheduler.md §1.7, §3.9, §5.2):
 * what administrators set for nodes and queues. What is set wins over what a NodeManager says of
 * itself; null goes back to that.
 */
import type { Reply } from "../errors.ts";
import type { NodeId } from "../ids.ts";
import type { QueueView } from "../queue.ts";
import type { Resource } from "../resource.ts";
import type { Submitter } from "./application-client.ts";

export type NodeChange = {
  readonly nodeId: NodeId;
  /** The first label is the node's partition. */
  readonly labels?: readonly string[] | null;
  readonly attributes?: Readonly<Record<string, string>> | null;
  /** Changes a live node; its containers stay, even when they now take more than there is. */
  readonly resource?: Resource | null;
};

/**
 * Hosts or node ids. With an include list only those on it may join; an excluded node is
 * decommissioned at once (`yarn.resourcemanager.nodes.include-path` and `exclude-path`).
 */
export type NodeLists = {
  readonly include: readonly string[];
  readonly exclude: readonly string[];
};

/** Hadoop's properties by their full names; version 0: nothing was ever configured. */
export type SchedulerConf = {
  readonly version: number;
  readonly properties: Readonly<Record<string, string>>;
};

export type SchedulerConfVersion = {
  readonly version: number;
  /** Epoch ms. */
  readonly savedMs: number;
  readonly user: string;
  readonly comment: string;
};

/**
 * How a change of the configuration is said: Hadoop's mutation, or all of it anew, as Hadoop's
 * capacity-scheduler.xml or as a document read from JSON or YAML.
 */
export type SchedulerConfChange =
  | { readonly type: "mutation"; readonly mutation: SchedulerConfMutation }
  | { readonly type: "xml"; readonly text: string }
  | { readonly type: "document"; readonly value: unknown };

/** Parameters by their names without prefix and queue; an empty value removes one. */
export type SchedulerConfMutation = {
  readonly updateQueues: readonly QueueParameters[];
  readonly addQueues: readonly QueueParameters[];
  /** Full paths. */
  readonly removeQueues: readonly string[];
  readonly globalUpdates: Readonly<Record<string, string>>;
};
export type QueueParameters = {
  /** Full path. */
  readonly queue: string;
  readonly parameters: Readonly<Record<string, string>>;
};

/** How long a node may take to run empty when nothing is said (YARN's default), in seconds. */
export const DECOMMISSION_TIMEOUT_SECONDS = 3_600;

export type NodeLabel = {
  readonly name: string;
  /** An exclusive partition's idle nodes are not lent to requests of the default partition. */
  readonly exclusive: boolean;
  readonly nodes: number;
  readonly total: Resource;
};

export type SchedulerView = {
  readonly root: QueueView;
  readonly minimumAllocation: Resource;
  readonly maximumAllocation: Resource;
};

export interface ResourceManagerAdministrationProtocol {
  /** NOT_FOUND for a node that never was here; nothing is changed then. */
  updateNodes(changes: readonly NodeChange[]): Promise<Reply<undefined>>;
  /**
   * Nothing new is placed on them. Each is DECOMMISSIONED and shut down as soon as it runs nothing,
   * or when the time (seconds, null: no limit) is over: what still runs then ends with -100.
   */
  decommissionNodes(
    nodes: readonly NodeId[],
    timeoutSeconds: number | null,
  ): Promise<Reply<undefined>>;
  /** Takes them back. A node that was shut down joins when its NodeManager is started again. */
  recommissionNodes(nodes: readonly NodeId[]): Promise<Reply<undefined>>;
  getQueues(): Promise<SchedulerView>;
  getSchedulerConf(): Promise<SchedulerConf>;
  getSchedulerConfVersions(): Promise<readonly SchedulerConfVersion[]>;
  /** Every mistake at once; then nothing is changed. A dry run answers what would be in force. */
  changeSchedulerConf(
    change: SchedulerConfChange,
    by: { readonly user: string; readonly comment: string; readonly isDryRun: boolean },
  ): Promise<Reply<SchedulerConf>>;
  rollBackSchedulerConf(version: number, user: string): Promise<Reply<SchedulerConf>>;
  /** May the user submit to, or administer, the queue; PERMISSION_DENIED with the missing right. */
  checkQueueAccess(
    queue: string,
    right: "submit" | "administer",
    who: Submitter,
  ): Promise<Reply<undefined>>;
  getNodeLabels(): Promise<readonly NodeLabel[]>;
  getNodeLists(): Promise<NodeLists>;
  setNodeLists(lists: NodeLists): Promise<Reply<undefined>>;
}
