/**
 * `selvedge node label|attribute|resize|decommission|recommission`: what administrators set for
 * nodes. It wins over what a node says of itself; `--reset` goes back to that.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import { clusterClient } from "../../client/cluster.ts";
import { schedulerClient } from "../../client/scheduler.ts";
import { nameAndValue, resourceAmount, seconds, wholeNumber } from "../arguments.ts";
import { cliError, usageError } from "../errors.ts";
import { EXIT_CODE } from "../exit-codes.ts";
import type { Registrar, Session } from "../session.ts";

const clientOf = (session: Session) => schedulerClient(session.http());

export function registerNodeAdministration(registrar: Registrar, group: Command): void {
  registerSettings(registrar, group);
  registerDecommission(registrar, group);
}

function registerSettings(registrar: Registrar, group: Command): void {
  const label = group
    .command("label")
    .description("put a node into a partition; without a label into the default one")
    .argument("<node>", "node id, as `selvedge node list` shows it")
    .argument("[label]", "as `selvedge queue label list` shows it")
    .option("--reset", "the label that the node says itself");
  registrar.action<{ reset?: boolean }>(label, "other", async (session, args, { reset }) => {
    const [node = "", name = ""] = args;
    if (reset && name !== "") throw usageError("--reset and a label do not go together");
    await clientOf(session).labelNode(node, reset ? null : name);
    const where = reset ? "the label it says itself" : name === "" ? "no label" : `label ${name}`;
    session.output.result({ node, label: reset ? null : name }, () => `${node} has ${where}`);
  });

  const attribute = group
    .command("attribute")
    .description("set all attributes of a node, for placement constraints")
    .argument("<node>")
    .argument("[name=value...]")
    .option("--reset", "those that the node says itself");
  registrar.action<{ reset?: boolean }>(attribute, "other", async (session, args, { reset }) => {
    const [node = "", ...texts] = args;
    if (reset && texts.length > 0) throw usageError("--reset and attributes do not go together");
    let attributes: Readonly<Record<string, string>> = {};
    for (const text of texts) {
      if (!text.includes("=")) throw usageError(`${JSON.stringify(text)} is not NAME=VALUE`);
      attributes = nameAndValue(text, attributes);
    }
    await clientOf(session).setAttributes(node, reset ? null : attributes);
    session.output.result({ node, attributes: reset ? null : attributes }, () =>
      reset ? `${node} has its own attributes` : `${node} has ${texts.join(", ") || "none"}`,
    );
  });

  const resize = group
    .command("resize")
    .description("change how much of a node is used; its containers stay")
    .argument("<node>")
    .option("--memory <mb>", "MB", wholeNumber(1))
    .option("--vcores <n>", "virtual cores", wholeNumber(1))
    .option("--resource <type=amount>", "further resource; repeatable", resourceAmount)
    .option("--reset", "what the node says itself");
  type Size = {
    memory?: number;
    vcores?: number;
    resource?: Readonly<Record<string, number>>;
    reset?: boolean;
  };
  registrar.action<Size>(resize, "other", async (session, [node = ""], options) => {
    const { memory, vcores, resource, reset } = options;
    if (reset) {
      await clientOf(session).resizeNode(node, null);
    } else {
      if (memory === undefined || vcores === undefined) {
        throw usageError("resize needs --memory and --vcores, or --reset");
      }
      const extra = resource === undefined ? {} : { extra: resource };
      await clientOf(session).resizeNode(node, { memory, vCores: vcores, ...extra });
    }
    session.output.result({ node, memory, vcores }, () =>
      reset ? `${node} has its own size` : `${node} has ${memory} MB and ${vcores} vcores`,
    );
  });
}

type DecommissionOptions = {
  readonly timeout?: number;
  readonly now?: boolean;
  readonly unlimited?: boolean;
  readonly wait?: boolean;
};

function registerDecommission(registrar: Registrar, group: Command): void {
  const decommission = group
    .command("decommission")
    .description(
      "let nodes run empty and send them away. What still runs when the time is over is ended\n" +
        "there and started elsewhere.",
    )
    .argument("<node...>")
    .option("--timeout <seconds>", "longest time to run empty (default: an hour)", seconds)
    .option("--now", "at once")
    .option("--unlimited", "however long it takes")
    .option("--wait", "wait until they are gone");
  registrar.action<DecommissionOptions>(
    decommission,
    "other",
    async (session, nodes, { timeout = 3_600, now, unlimited, wait }) => {
      if (now && unlimited) throw usageError("--now and --unlimited do not go together");
      const timeoutSeconds = unlimited ? null : now ? 0 : Math.ceil(timeout);
      await clientOf(session).decommission(nodes, timeoutSeconds);
      if (wait) await untilGone(session, nodes);
      session.output.result({ nodes, timeoutSeconds }, () =>
        wait ? `${nodes.join(", ")} left` : `${nodes.join(", ")} on the way out`,
      );
    },
  );

  const recommission = group
    .command("recommission")
    .description("take nodes back; one that was sent away joins when it is started again")
    .argument("<node...>");
  registrar.action(recommission, "other", async (session, nodes) => {
    await clientOf(session).recommission(nodes);
    session.output.result({ nodes }, () => `${nodes.join(", ")} may take part again`);
  });
}

const LOOK_AGAIN_MS = 1_000;

/** Ctrl-C ends the waiting, not the decommissioning. */
async function untilGone(session: Session, nodes: readonly string[]): Promise<void> {
  const client = clusterClient(session.http());
  let shown = "";
  for (;;) {
    const known = new Map((await client.nodes()).map((node) => [node.id, node]));
    const back = nodes.find((id) => known.get(id)?.state === "RUNNING");
    if (back !== undefined) {
      const message = `somebody took node ${back} back meanwhile`;
      throw cliError(EXIT_CODE.CONFLICT, "FAILED_PRECONDITION", message);
    }
    const staying = nodes.flatMap((id) => known.get(id) ?? []);
    const waiting = staying.filter(({ state }) => state === "DECOMMISSIONING");
    if (waiting.length === 0) return;
    const text = waiting.map(({ id, numContainers }) => `${id} runs ${numContainers}`).join(", ");
    if (text !== shown) session.output.note(`waiting: ${text}`);
    shown = text;
    await sleep(LOOK_AGAIN_MS, undefined, { signal: session.io.signal });
  }
}
