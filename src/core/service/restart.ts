/**
 * Restarting a container in place (YARN's restartContainer): its node ends the processes and starts
 * the instance anew in the same container, directory and ports.
 */
import { fail, ok, type Reply } from "../../shared/errors.ts";
import type { ContainerId } from "../../shared/ids.ts";
import type { RestartingContainer } from "../../shared/protocol/service.ts";
import { isLive, reInitialize } from "./reinitialization.ts";
import type { Service } from "./state.ts";
import { recordOf } from "./timeline.ts";

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
  if (!isLive(instance)) {
    const how = container.isOver ? "has just ended" : `is ${instance.state}`;
    return fail("FAILED_PRECONDITION", `${instance.name} ${how}`, {
      hint: "only a container that runs can be restarted in place",
    });
  }
  const { reInitialization } = container;
  if (reInitialization?.why === "UPGRADE") {
    return fail("FAILED_PRECONDITION", `${instance.name} is being upgraded in place`, {
      hint: "its node keeps the version before until the upgrade is finalized or cancelled",
    });
  }
  if (reInitialization) {
    return ok({ instance: instance.name, launchVersion: reInitialization.version });
  }
  const launchVersion = reInitialize(service, instance, "RESTART");
  recordOf(service, instance, {
    timeMs: nowMs,
    type: "INSTANCE_RESTARTING",
    message: `${instance.name} is to be restarted in place`,
  });
  return ok({ instance: instance.name, launchVersion });
}
