/** `selvedge cluster info`: what the cluster is, has and uses. */
import { clusterClient } from "../../client/cluster.ts";
import { formatTime } from "../progress.ts";
import type { Registrar } from "../session.ts";

export function registerCluster(registrar: Registrar): void {
  const group = registrar.program.command("cluster").description("look at the cluster");
  const info = group.command("info").description("show what the cluster is, has and uses");
  registrar.action(info, "other", async (session) => {
    const client = clusterClient(session.http());
    const [clusterInfo, clusterMetrics] = await Promise.all([client.info(), client.metrics()]);
    session.output.result({ clusterInfo, clusterMetrics }, () => {
      const m = clusterMetrics;
      const { url, cluster } = session.connection();
      const lines = [
        ["Cluster", `${clusterInfo.clusterName ?? cluster ?? "default"} at ${url}`],
        ["Version", clusterInfo.resourceManagerVersion],
        ["Since", formatTime(clusterInfo.startedOn)],
        [
          "Nodes",
          `${m.activeNodes} running, ${m.unhealthyNodes} unhealthy, ${m.lostNodes} lost, ` +
            `${m.totalNodes} in all`,
        ],
        ["Applications", `${m.appsRunning} running, ${m.appsPending} pending`],
        ["Containers", `${m.containersAllocated} allocated`],
        ["Memory", usage(m.allocatedMB, m.totalMB, "MB")],
        ["vcores", usage(m.allocatedVirtualCores, m.totalVirtualCores, "vcores")],
      ] as const;
      return lines.map(([name, value]) => `${`${name}:`.padEnd(14)}${value}`).join("\n");
    });
  });
}

function usage(used: number, total: number, unit: string): string {
  const percent = total === 0 ? 0 : Math.round((used / total) * 100);
  return `${used} of ${total} ${unit} allocated (${percent} %), ${total - used} free`;
}
