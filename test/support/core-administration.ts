/** ResourceManagerAdministrationProtocol over the real core, without a Durable Object around it. */
import { Cluster } from "../../src/core/cluster/cluster.ts";
import { settleNode } from "../../src/core/cluster/node.ts";
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

export function coreAdministration(
  cluster: Cluster = new Cluster(),
): ResourceManagerAdministrationProtocol {
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
