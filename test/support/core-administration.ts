/** ResourceManagerAdministrationProtocol over the real core, without a Durable Object around it. */
import { Cluster } from "../../src/core/cluster/cluster.ts";
import { reportNodes, settleNode } from "../../src/core/cluster/node.ts";
import {
  decommissionNodes,
  nodeLists,
  recommissionNodes,
  setNodeLists,
  updateNodes,
} from "../../src/core/cluster/node-administration.ts";
import { checkQueueAccess, getNodeLabels, getQueues } from "../../src/core/cluster/queues.ts";
import {
  changeConfiguration,
  getSchedulerConf,
  getSchedulerConfVersions,
  propertiesAfter,
  rollBackConfiguration,
} from "../../src/core/cluster/scheduler-configuration.ts";
import { ok } from "../../src/shared/errors.ts";
import type { ResourceManagerAdministrationProtocol } from "../../src/shared/protocol/administration.ts";

const NOW_MS = 1_504_051_512_412;

/** A cluster with the node that is named; nothing is configured. */
export function clusterWithNode(nodeId: string): Cluster {
  const cluster = new Cluster();
  const host = nodeId.slice(0, nodeId.lastIndexOf(":"));
  const node = {
    nodeId,
    host,
    rack: "/default-rack",
    capability: { memoryMb: 8_192, vcores: 8 },
    labels: [],
    attributes: {},
    agentVersion: "0.1.0",
    healthy: true,
    healthReport: "",
  };
  const present = { node, presence: "PRESENT", incarnation: 1, reason: "" } as const;
  reportNodes(cluster, { shard: "0", generation: 1, nodes: [present], containers: [] }, NOW_MS);
  return cluster;
}

/** As its first configuration it gets the node label `gpu`. */
export function withLabel(cluster: Cluster): Cluster {
  const properties = new Map([["yarn.node-labels.cluster-node-labels", "gpu"]]);
  const change = { properties, user: "admin", comment: "", isDryRun: false };
  const changed = changeConfiguration(cluster, change, NOW_MS);
  if (!changed.ok) throw new Error(changed.error.message);
  return cluster;
}

export function coreAdministration(cluster: Cluster): ResourceManagerAdministrationProtocol {
  const settle = () => {
    for (const { facts } of [...cluster.nodes.values()]) settleNode(cluster, facts.nodeId, NOW_MS);
  };
  return {
    async updateNodes(changes) {
      const reply = updateNodes(cluster, changes);
      settle();
      return reply;
    },
    async decommissionNodes(nodes, timeoutSeconds) {
      const reply = decommissionNodes(cluster, nodes, timeoutSeconds, NOW_MS);
      settle();
      return reply;
    },
    async recommissionNodes(nodes) {
      const reply = recommissionNodes(cluster, nodes);
      settle();
      return reply;
    },
    getQueues: async () => getQueues(cluster),
    getSchedulerConf: async () => getSchedulerConf(cluster),
    getSchedulerConfVersions: async () => getSchedulerConfVersions(cluster),
    async changeSchedulerConf(change, by) {
      const properties = propertiesAfter(cluster, change);
      if (!properties.ok) return properties;
      return changeConfiguration(cluster, { properties: properties.value, ...by }, NOW_MS);
    },
    rollBackSchedulerConf: async (version, user) =>
      rollBackConfiguration(cluster, version, user, NOW_MS),
    checkQueueAccess: async (queue, right, who) => checkQueueAccess(cluster, queue, right, who),
    getNodeLabels: async () => getNodeLabels(cluster),
    getNodeLists: async () => nodeLists(cluster),
    async setNodeLists(lists) {
      setNodeLists(cluster, lists);
      settle();
      return ok();
    },
  };
}
