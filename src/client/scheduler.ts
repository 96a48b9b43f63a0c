/**
 * The scheduler's REST as a typed client: queues in YARN's JSON, the configuration and its versions,
 * node labels, and what administrators do to nodes.
 */
import type { SchedulerConfVersion } from "../shared/protocol/administration.ts";
import type { Http, TextBody } from "./http.ts";

export type ResourceAmounts = { readonly memory: number; readonly vCores: number };

/** The fields that people look at; the cluster sends more. */
export type QueueView = {
  readonly queueName: string;
  readonly queuePath: string;
  readonly queueType: "parent" | "leaf";
  readonly state: string;
  readonly capacity: number;
  readonly maxCapacity: number;
  readonly usedCapacity: number;
  readonly absoluteCapacity: number;
  readonly absoluteMaxCapacity: number;
  readonly absoluteUsedCapacity: number;
  readonly numApplications: number;
  readonly allocatedContainers: number;
  readonly reservedContainers: number;
  readonly pendingContainers: number;
  readonly orderingPolicyInfo: string;
  readonly resourcesUsed: ResourceAmounts;
  readonly queueAcls: {
    readonly queueAcl: readonly {
      readonly accessType: string;
      readonly accessControlList: string;
    }[];
  };
  readonly queues?: { readonly queue: readonly QueueView[] };
  readonly users?: {
    readonly user: readonly {
      readonly username: string;
      readonly resourcesUsed: ResourceAmounts;
      readonly userResourceLimit: ResourceAmounts;
      readonly numActiveApplications: number;
      readonly numPendingApplications: number;
    }[];
  };
};

export type ConfView = {
  readonly version: number;
  readonly property: readonly { readonly name: string; readonly value: string }[];
};

export type WaitingView = {
  readonly applicationId: string;
  readonly name?: string;
  readonly user?: string;
  readonly allocations: readonly {
    readonly queueName: string;
    readonly requestPriority: string;
    readonly count: number;
    readonly diagnostic: string;
  }[];
};

export type LabelView = {
  readonly name: string;
  readonly exclusivity: boolean;
  readonly partitionInfo: {
    readonly nodes: number;
    readonly resourceAvailable: ResourceAmounts;
  };
};

/** Hadoop's mutation of the configuration; an empty value removes a property. */
export type ConfMutation = {
  readonly "update-queue"?: readonly QueueChange[];
  readonly "add-queue"?: readonly QueueChange[];
  readonly "remove-queue"?: readonly string[];
  readonly "global-updates"?: Readonly<Record<string, string>>;
};
type QueueChange = {
  readonly "queue-name": string;
  readonly params: Readonly<Record<string, string>>;
};
export type ChangeOptions = { readonly dryRun?: boolean; readonly comment?: string };

export type SchedulerClient = ReturnType<typeof schedulerClient>;

export function schedulerClient(http: Http) {
  const base = "/ws/v1/cluster";
  const get = <T>(rest: string) => http.request<T>("GET", `${base}/${rest}`);
  const post = <T>(rest: string, body?: unknown) =>
    http.request<T>("POST", `${base}/${rest}`, body);
  const put = <T>(rest: string, body: unknown) => http.request<T>("PUT", `${base}/${rest}`, body);
  const node = (nodeId: string) => `nodes/${encodeURIComponent(nodeId)}`;
  const change = ({ dryRun = false, comment = "" }: ChangeOptions) =>
    `?${new URLSearchParams({ dryRun: String(dryRun), comment })}`;

  return {
    queues: async () =>
      (await get<{ scheduler: { schedulerInfo: QueueView } }>("scheduler")).scheduler.schedulerInfo,
    /** Applications that wait, with the reason of each request. */
    waiting: async (queue?: string) => {
      const query = queue === undefined ? "" : `?${new URLSearchParams({ queue })}`;
      type Answer = { readonly activities: { readonly applications: readonly WaitingView[] } };
      return (await get<Answer>(`scheduler/activities${query}`)).activities.applications;
    },
    conf: () => get<ConfView>("scheduler-conf"),
    versions: async () =>
      (await get<{ versions: readonly SchedulerConfVersion[] }>("scheduler-conf/versions"))
        .versions,
    mutate: (mutation: ConfMutation, options: ChangeOptions = {}) =>
      put<ConfView>(`scheduler-conf${change(options)}`, mutation),
    /** The whole configuration: capacity-scheduler.xml, JSON or YAML, as its type says. */
    replace: (document: TextBody, options: ChangeOptions = {}) =>
      put<ConfView>(`scheduler-conf/document${change(options)}`, document),
    rollBack: (version: number) => post<ConfView>("scheduler-conf/rollback", { version }),
    labels: async () =>
      (await get<{ nodeLabelsInfo: { nodeLabelInfo: readonly LabelView[] } }>("get-node-labels"))
        .nodeLabelsInfo.nodeLabelInfo,
    addLabel: (name: string, exclusivity: boolean) =>
      post<ConfView>("add-node-labels", { nodeLabelInfo: [{ name, exclusivity }] }),
    removeLabel: (name: string) =>
      post<ConfView>(`remove-node-labels?${new URLSearchParams({ labels: name })}`),
    /** null: the label that the node says itself. */
    labelNode: (nodeId: string, label: string | null) =>
      post<undefined>("replace-node-to-labels", {
        nodeToLabels: [{ nodeId, labels: label === null ? null : label === "" ? [] : [label] }],
      }),
    /** null: those that the node says itself. */
    setAttributes: (nodeId: string, attributes: Readonly<Record<string, string>> | null) =>
      put<undefined>(`${node(nodeId)}/attributes`, { attributes }),
    /** null: what the node says itself. */
    resizeNode: (
      nodeId: string,
      resource: (ResourceAmounts & { readonly extra?: Readonly<Record<string, number>> }) | null,
    ) => post<undefined>(`${node(nodeId)}/resource`, { resource }),
    /** Seconds; 0 is at once, null without limit. */
    decommission: (nodes: readonly string[], timeoutSeconds: number | null) =>
      post<undefined>("nodes/decommission", { nodes, timeoutSeconds }),
    recommission: (nodes: readonly string[]) => post<undefined>("nodes/recommission", { nodes }),
  };
}
