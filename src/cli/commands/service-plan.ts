/** `selvedge service plan`: where a Yarnfile's containers would go, before anything is started. */
import type { Command } from "commander";
import { servicesClient } from "../../client/services.ts";
import type { ComponentPlan, ServicePlan } from "../../shared/protocol/service.ts";
import { formatTable, oneLine } from "../output.ts";
import type { Registrar } from "../session.ts";
import { readYarnfile } from "../yarnfile.ts";

type PlanOptions = { readonly name?: string; readonly queue?: string };

export function registerPlan(registrar: Registrar, group: Command): void {
  const command = group
    .command("plan")
    .description(
      "say where a Yarnfile's containers would go now, what would wait and why, and what would be\n" +
        "preempted for it; nothing is changed",
    )
    .argument("<file>", "the Yarnfile; `-` reads standard input")
    .option("--name <name>", "name of the service, instead of the file's")
    .option("--queue <queue>", "queue, instead of the file's");
  registrar.action<PlanOptions>(command, "service", async (session, [file = ""], options) => {
    const { name, queue } = options;
    const yarnfile = await readYarnfile(file, { name, queue }, session.io);
    const client = servicesClient(session.http(), session.connection().user);
    const plan = await client.plan(yarnfile.body);
    session.output.result(plan, () => describe(plan));
  });
}

function describe({ queue, components, preempted }: ServicePlan): string {
  const table = formatTable(
    ["COMPONENT", "WANTED", "PLACED", "WAITING", "NODES"],
    components.map((component) => [
      component.name,
      String(component.wanted),
      String(component.wanted - component.waiting),
      String(component.waiting),
      nodesOf(component),
    ]),
  );
  const reasons = components
    .filter(({ reason }) => reason !== "")
    .map(({ name, waiting, reason }) => `${waiting} of ${name} would wait: ${oneLine(reason)}`);
  const victims = preempted.map(
    ({ containerId, applicationId }) => `${containerId} of ${applicationId} would be preempted`,
  );
  return [`queue ${queue}`, table, ...reasons, ...victims].join("\n");
}

function nodesOf({ placed }: ComponentPlan): string {
  return Object.entries(placed)
    .map(([node, count]) => (count === 1 ? node : `${count} on ${node}`))
    .join(", ");
}
