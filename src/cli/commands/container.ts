/**
 * `selvedge container …`: the containers of an application as the ResourceManager knows them, and
 * signals to their processes and their restart. As `yarn container -list`, `-status` and `-signal`.
 */
import type { Command } from "commander";
import { type ClusterContainerView, clusterClient } from "../../client/cluster.ts";
import { servicesClient } from "../../client/services.ts";
import {
  type ApplicationAttemptId,
  applicationOfAttempt,
  formatAttemptId,
  isApplicationId,
  isAttemptId,
  isContainerId,
} from "../../shared/ids.ts";
import { SIGNAL_CONTAINER_COMMANDS } from "../../shared/protocol/node-query.ts";
import { cliError, usageError } from "../errors.ts";
import { EXIT_CODE } from "../exit-codes.ts";
import { formatTable, oneLine, styleOfState } from "../output.ts";
import { formatTime } from "../progress.ts";
import type { Registrar, Session } from "../session.ts";
import { registerContainerStreams } from "./container-streams.ts";

/** Of an application: none is attempted twice. */
const FIRST_ATTEMPT = 1;

export function registerContainer(registrar: Registrar): void {
  const group = registrar.program
    .command("container")
    .description("list the containers of an application, signal and restart them, go into them");
  registerReads(registrar, group);
  registerSignal(registrar, group);
  registerRestart(registrar, group);
  registerContainerStreams(registrar, group);
}

const clientOf = (session: Session) => clusterClient(session.http());

function registerReads(registrar: Registrar, group: Command): void {
  const list = group
    .command("list")
    .description("list the containers of an application that have not ended")
    .argument("<application>", "application id, attempt id, or name of a service");
  registrar.action(list, "other", async (session, [target = ""]) => {
    const attemptId = await attemptOf(session, target);
    const applicationId = applicationOfAttempt(attemptId);
    const containers = await clientOf(session).containers(applicationId, attemptId);
    session.output.result(containers, () => {
      if (session.output.quiet) return containers.map(({ containerId }) => containerId).join("\n");
      if (containers.length === 0) return `${attemptId} has no containers`;
      return formatTable(
        ["CONTAINER", "STATE", "NODE", "MEMORY MB", "VCORES", "SINCE"],
        containers.map((each) => [
          each.containerId,
          session.output.paint(styleOfState(each.containerState), each.containerState),
          each.nodeId,
          String(each.allocatedMB),
          String(each.allocatedVCores),
          formatTime(each.startedTime),
        ]),
      );
    });
  });

  const status = group
    .command("status")
    .description("show one container")
    .argument("<container>", "container id, as `selvedge container list` shows it");
  registrar.action(status, "other", async (session, [text = ""]) => {
    const container = await clientOf(session).container(containerId(text));
    session.output.result(container, () => describe(container));
  });
}

function registerSignal(registrar: Registrar, group: Command): void {
  const signal = group
    .command("signal")
    .summary("signal the processes of a container")
    .description(
      "signal the processes of a container: once and now, or not at all.\n" +
        `The signals are ${SIGNAL_CONTAINER_COMMANDS.join(", ")}:\n` +
        "SIGQUIT, SIGTERM and SIGKILL. A service starts again what ends, by its restart policy.",
    )
    .argument("<container>", "container id, as `selvedge container list` shows it")
    .argument("[signal]", "which one, in any case", "OUTPUT_THREAD_DUMP");
  registrar.action(signal, "other", async (session, [text = "", name = "OUTPUT_THREAD_DUMP"]) => {
    const wanted = name.toUpperCase();
    const command = SIGNAL_CONTAINER_COMMANDS.find((each) => each === wanted);
    if (command === undefined) {
      const choices = SIGNAL_CONTAINER_COMMANDS.join(", ");
      throw usageError(`there is no signal ${JSON.stringify(name)}`, `there are ${choices}`);
    }
    const sent = await clientOf(session).signal(containerId(text), command);
    session.output.result(sent, () => `${sent.nodeId} has sent ${command} to ${sent.containerId}`);
  });
}

function registerRestart(registrar: Registrar, group: Command): void {
  const restart = group
    .command("restart")
    .description(
      "start a service's container anew in place: same container, node, directory and ports,\n" +
        "with its dependencies' addresses of now. `selvedge service events` says how it went.",
    )
    .argument("<container>", "container id, as `selvedge container list` shows it");
  registrar.action(restart, "other", async (session, [text = ""]) => {
    const restarting = await clientOf(session).restart(containerId(text));
    const { instance } = restarting;
    session.output.result(restarting, () => `${instance} is being restarted in place`);
  });
}

async function attemptOf(session: Session, target: string): Promise<ApplicationAttemptId> {
  if (isAttemptId(target)) return target;
  if (isApplicationId(target)) return formatAttemptId(target, FIRST_ATTEMPT);
  const { id } = await servicesClient(session.http(), session.connection().user).get(target);
  if (id !== null) return formatAttemptId(id, FIRST_ATTEMPT);
  throw cliError(
    EXIT_CODE.NOT_FOUND,
    "NOT_FOUND",
    `service ${target} was never started: it has no containers`,
  );
}

function containerId(text: string): string {
  if (isContainerId(text)) return text;
  throw usageError(
    `${JSON.stringify(text)} is not a container id`,
    "it is such as container_e01_1795228554087_0001_01_000001",
  );
}

function describe(container: ClusterContainerView): string {
  const { containerExitStatus, diagnosticsInfo } = container;
  return formatTable(
    ["CONTAINER", container.containerId],
    [
      ["state", container.containerState],
      ["node", container.nodeId],
      ["resource", `${container.allocatedMB} MB, ${container.allocatedVCores} vcores`],
      ["execution type", container.executionType],
      ["priority", String(container.priority)],
      ["since", formatTime(container.startedTime)],
      ...(containerExitStatus === undefined ? [] : [["exit status", String(containerExitStatus)]]),
      ...(diagnosticsInfo === "" ? [] : [["diagnostics", oneLine(diagnosticsInfo)]]),
    ],
  );
}
