/**
 * Restarting a container in place (YARN's restartContainer): its node ends the processes and starts
 * the instance anew in the same container, directory and ports. What is wanted is a launch context
 * of the next version, so that saying it again does nothing more.
 *
 * What must always hold: `restart` is there from the command until the node has said how it went, or
 * the container is over. What is wanted, the container row says; nothing else.
 */
import type { ContainerStatus } from "../../shared/container.ts";
import { fail, ok, type Reply } from "../../shared/errors.ts";
import type { ContainerId } from "../../shared/ids.ts";
import type { UpdatedContainer } from "../../shared/protocol/container-management.ts";
import type { RestartingContainer } from "../../shared/protocol/service.ts";
import type { AssignedContainer, InstanceRow, Service } from "./state.ts";
import { record } from "./timeline.ts";

/** The version of a launch context when nothing is said. */
const FIRST_VERSION = 1;

/** While one is under way, asking for another one is asking for that one. */
export function restartContainer(
  service: Service,
  containerId: ContainerId,
  nowMs: number,
): Reply<RestartingContainer> {
  const instance = service.instanceWith(containerId);
  const container = instance?.container;
  if (!instance || !container) {
    return fail("NOT_FOUND", `no instance has container ${containerId}`, {
      hint: "it has ended; selvedge container list shows those there are",
    });
  }
  if (!mayRestart(instance)) {
    return fail("FAILED_PRECONDITION", `${instance.name} is ${instance.state}`, {
      hint: "only a container that runs can be restarted in place",
    });
  }
  const version = container.restart?.version ?? (container.launchVersion ?? FIRST_VERSION) + 1;
  if (container.restart === undefined) {
    const restart = { version, revision: null };
    service.instances.put({ ...instance, container: { ...container, restart } });
    note(service, instance, nowMs, "INSTANCE_RESTARTING", "is to be restarted in place");
  }
  return ok({ instance: instance.name, launchVersion: version });
}

/** Instances whose restart the node's tracker has not stored. */
export function restartsToSay(service: Service): readonly InstanceRow[] {
  return service.withUnsaidRestart().filter(mayRestart);
}

/** The tracker has stored it; of a container that is over there, the end is on its way. */
export function restartHandedOver(
  service: Service,
  { containerId, revision }: UpdatedContainer,
  nowMs: number,
): void {
  const instance = service.instanceWith(containerId);
  const container = instance?.container;
  if (!instance || container?.restart?.revision !== null) return;
  const restart = { ...container.restart, revision };
  const handedOver = revision === null ? withoutRestart(container) : { ...container, restart };
  service.instances.put({ ...instance, container: handedOver });
  restartReported(service, instance.name, nowMs, "");
}

/** What a status says of launches in place; how a restart went is decided when the row has it. */
export function launchFacts(
  { launchVersion, revision, subState }: ContainerStatus,
  before: AssignedContainer,
): Pick<AssignedContainer, "launchVersion" | "settledRevision"> {
  // While the processes change, it is not known yet how it goes.
  const settled = subState === "REINITIALIZING" ? before.settledRevision : revision;
  return {
    ...(launchVersion === undefined ? {} : { launchVersion }),
    ...(settled === undefined ? {} : { settledRevision: settled }),
  };
}

/** Ends a restart that was carried out, or refused. */
export function restartReported(
  service: Service,
  name: string,
  nowMs: number,
  diagnostics: string,
): void {
  const instance = service.instances.get(name);
  const container = instance?.container;
  if (!instance || !container?.restart) return;
  const { restart, launchVersion = FIRST_VERSION, settledRevision = 0 } = container;
  const isDone = launchVersion >= restart.version;
  const isSettled = restart.revision !== null && settledRevision >= restart.revision;
  if (!isDone && !isSettled) return;
  service.instances.put({ ...instance, container: withoutRestart(container) });
  if (isDone) note(service, instance, nowMs, "INSTANCE_RESTARTED", "was restarted in place");
  else {
    const because = diagnostics === "" ? "" : `: ${diagnostics}`;
    note(service, instance, nowMs, "RESTART_REFUSED", `runs on as it was${because}`);
  }
}

function withoutRestart({ restart: _, ...container }: AssignedContainer): AssignedContainer {
  return container;
}

function mayRestart({ state }: InstanceRow): boolean {
  return state === "STARTED" || state === "READY";
}

function note(
  service: Service,
  { name, component, container }: InstanceRow,
  nowMs: number,
  type: string,
  what: string,
): void {
  record(service, {
    timeMs: nowMs,
    type,
    component,
    instance: name,
    ...(container ? { containerId: container.containerId, nodeId: container.nodeId } : {}),
    message: `${name} ${what}`,
  });
}
