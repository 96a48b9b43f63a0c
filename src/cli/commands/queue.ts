/**
 * `selvedge queue …`: the CapacityScheduler's queues, why their applications wait, and their
 * configuration, which only administrators change. Every change can be tried with --dry-run.
 */
import type { Command } from "commander";
import { type QueueView, schedulerClient, type WaitingView } from "../../client/scheduler.ts";
import { cliError } from "../errors.ts";
import { EXIT_CODE } from "../exit-codes.ts";
import { formatTable, oneLine, styleOfState } from "../output.ts";
import type { Registrar, Session } from "../session.ts";
import { registerQueueConfiguration } from "./queue-configuration.ts";

export function registerQueue(registrar: Registrar): void {
  const group = registrar.program
    .command("queue")
    .description("look at queues, and change what they may have");
  registerReads(registrar, group);
  registerLabels(registrar, group);
  registerQueueConfiguration(registrar, group);
}

const clientOf = (session: Session) => schedulerClient(session.http());

function registerReads(registrar: Registrar, group: Command): void {
  const list = group.command("list").description("list the queues and what each has and may have");
  registrar.action(list, "other", async (session) => {
    const root = await clientOf(session).queues();
    const queues = flatten(root);
    session.output.result(root, () =>
      session.output.quiet
        ? queues.map(({ queuePath }) => queuePath).join("\n")
        : formatTable(
            ["QUEUE", "STATE", "GUARANTEED", "MAXIMUM", "USED", "APPS", "CONTAINERS", "WAITING"],
            queues.map((queue) => [
              `${"  ".repeat(queue.queuePath.split(".").length - 1)}${queue.queueName}`,
              session.output.paint(styleOfState(queue.state), queue.state),
              percent(queue.absoluteCapacity),
              percent(queue.absoluteMaxCapacity),
              percent(queue.absoluteUsedCapacity),
              String(queue.numApplications),
              String(queue.allocatedContainers),
              String(queue.pendingContainers),
            ]),
          ),
    );
  });

  const show = group
    .command("show")
    .description("show one queue, its users and who may use it")
    .argument("<queue>", "full path, or the last part of it");
  registrar.action(show, "other", async (session, [name = ""]) => {
    const queue = find(flatten(await clientOf(session).queues()), name);
    session.output.result(queue, () => describe(queue));
  });

  const why = group
    .command("why")
    .description("say why applications wait for containers")
    .argument("[queue]", "only those of this queue and of the queues below it");
  registrar.action(why, "other", async (session, [queue]) => {
    const waiting = await clientOf(session).waiting(queue);
    session.output.result(waiting, () =>
      waiting.length === 0 ? "nothing waits" : waiting.map(describeWaiting).join("\n\n"),
    );
  });
}

function flatten(queue: QueueView): readonly QueueView[] {
  return [queue, ...(queue.queues?.queue ?? []).flatMap(flatten)];
}

function find(queues: readonly QueueView[], name: string): QueueView {
  const exact = queues.find(({ queuePath }) => queuePath === name);
  const [byName, second] = queues.filter(({ queueName }) => queueName === name);
  if (exact) return exact;
  if (byName && !second) return byName;
  const paths = queues.map(({ queuePath }) => queuePath).join(", ");
  throw cliError(
    EXIT_CODE.NOT_FOUND,
    "NOT_FOUND",
    byName ? `several queues are called ${name}` : `there is no queue ${name}`,
    `queues are ${paths}`,
  );
}

function describe(queue: QueueView): string {
  const facts = formatTable(
    ["QUEUE", queue.queuePath],
    [
      ["state", queue.state],
      ["guaranteed", `${percent(queue.absoluteCapacity)} of the cluster`],
      ["at most", `${percent(queue.absoluteMaxCapacity)} of the cluster`],
      ["used", `${percent(queue.absoluteUsedCapacity)} of the cluster: ${amounts(queue)}`],
      ["order", queue.orderingPolicyInfo],
      ["applications", String(queue.numApplications)],
      [
        "containers",
        `${queue.allocatedContainers} allocated, ${queue.reservedContainers} reserved, ` +
          `${queue.pendingContainers} waiting`,
      ],
      ...queue.queueAcls.queueAcl.map(({ accessType, accessControlList }) => [
        accessType,
        accessControlList.trim() === "" ? "nobody by this queue" : accessControlList,
      ]),
    ],
  );
  const users = queue.users?.user ?? [];
  if (users.length === 0) return facts;
  const table = formatTable(
    ["USER", "MEMORY MB", "VCORES", "LIMIT MB", "APPS", "PENDING APPS"],
    users.map((user) => [
      user.username,
      String(user.resourcesUsed.memory),
      String(user.resourcesUsed.vCores),
      String(user.userResourceLimit.memory),
      String(user.numActiveApplications),
      String(user.numPendingApplications),
    ]),
  );
  return `${facts}\n\n${table}`;
}

function amounts({ resourcesUsed: { memory, vCores } }: QueueView): string {
  return `${memory} MB, ${vCores} vcores`;
}

function describeWaiting({ applicationId, name, user, allocations }: WaitingView): string {
  const whose = name === undefined ? "" : ` (${name} of ${user})`;
  const lines = allocations.map(
    ({ queueName, requestPriority, count, diagnostic }) =>
      `  ${count} at priority ${requestPriority} in ${queueName}: ${oneLine(diagnostic)}`,
  );
  return [`${applicationId}${whose} waits for`, ...lines].join("\n");
}

function percent(value: number): string {
  return `${Math.round(value * 10) / 10} %`;
}

function registerLabels(registrar: Registrar, group: Command): void {
  const labels = group.command("label").description("node labels, which are partitions");
  const list = labels.command("list").description("list the node labels");
  registrar.action(list, "other", async (session) => {
    const known = await clientOf(session).labels();
    session.output.result(known, () => {
      if (session.output.quiet) return known.map(({ name }) => name).join("\n");
      if (known.length === 0) return "no node labels; all nodes are in the default partition";
      return formatTable(
        ["LABEL", "EXCLUSIVE", "NODES", "MEMORY MB", "VCORES"],
        known.map(({ name, exclusivity, partitionInfo: { nodes, resourceAvailable } }) => [
          name,
          exclusivity ? "yes" : "no",
          String(nodes),
          String(resourceAvailable.memory),
          String(resourceAvailable.vCores),
        ]),
      );
    });
  });

  const add = labels
    .command("add")
    .description("add a node label; queues then need a capacity in it")
    .argument("<label>")
    .option("--shared", "lend idle nodes to requests without a label (YARN's non-exclusive)");
  registrar.action<{ shared?: boolean }>(add, "other", async (session, [label = ""], options) => {
    const conf = await clientOf(session).addLabel(label, options.shared !== true);
    session.output.result(conf, () => `label ${label} is there; \`selvedge node label\` gives it`);
  });

  const remove = labels
    .command("remove")
    .description("remove a node label that no queue names any more")
    .argument("<label>");
  registrar.action(remove, "other", async (session, [label = ""]) => {
    const conf = await clientOf(session).removeLabel(label);
    session.output.result(conf, () => `label ${label} is gone`);
  });
}
