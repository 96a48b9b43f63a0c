/**
 * How far the instances of a service are in its upgrade: what each wants, what it runs with, and the
 * states that follow (facts/yarn-services.md §2.1). All computed from the rows.
 */
import { isSettled, isTaken } from "./reinitialization.ts";
import type { AssignedContainer, InstanceRow, Service } from "./state.ts";

export type UpgradeProgress = "NEEDS_UPGRADE" | "UPGRADING" | "FAILED_UPGRADE" | "UPGRADED";

/** Its next launch, in place or in another container, is to be of the new definition. */
export function wantsUpgrade(service: Service, { upgrade }: InstanceRow): boolean {
  const mode = service.upgrade?.mode;
  return mode !== undefined && mode !== "CANCEL_UPGRADING" && upgrade?.state === "UPGRADING";
}

/** Whether the present process is of the upgrade's definition. */
export function runsUpgrade(container: AssignedContainer): boolean {
  const { reInitialization, isUpgraded = false } = container;
  const isPending = reInitialization?.why === "UPGRADE" && reInitialization.fate !== "COMMITTED";
  return isUpgraded || (isPending && isTaken(container));
}

/** undefined: the upgrade does not concern it, or it is back at the version before. */
export function progressOf(service: Service, instance: InstanceRow): UpgradeProgress | undefined {
  const row = service.upgrade;
  if (!row?.changed.includes(instance.component)) return undefined;
  const { container, upgrade } = instance;
  if (row.mode === "CANCEL_UPGRADING") return hasTraces(instance) ? "UPGRADING" : undefined;
  if (!upgrade) return "NEEDS_UPGRADE";
  if (upgrade.state === "FAILED_UPGRADE") return upgrade.state;
  const isReady = instance.state === "READY" && container !== null && runsUpgrade(container);
  const isUnderWay = container?.reInitialization !== undefined && !isSettled(container);
  return isReady && !isUnderWay ? "UPGRADED" : "UPGRADING";
}

/** A container of it has, or may still come to have, something of the upgrade. */
export function hasTraces({ state, container }: InstanceRow): boolean {
  if (!container || state === "STOPPING") return false;
  const { reInitialization, isUpgraded } = container;
  return isUpgraded === true || reInitialization?.why === "UPGRADE";
}

/** All that is wanted of the component runs with the new definition, and is ready. */
export function isComponentUpgraded(service: Service, name: string): boolean {
  const instances = service.instancesOf(name);
  return (
    instances.length === (service.components.get(name)?.desired ?? 0) &&
    instances.every((instance) => progressOf(service, instance) === "UPGRADED")
  );
}

/** undefined: the component is as if there was no upgrade. */
export function componentProgress(
  service: Service,
  name: string,
): "NEEDS_UPGRADE" | "UPGRADING" | undefined {
  if (!service.upgrade?.changed.includes(name) || isComponentUpgraded(service, name)) {
    return undefined;
  }
  const all = service.instancesOf(name).map((instance) => progressOf(service, instance));
  if (all.includes("UPGRADING")) return "UPGRADING";
  return service.upgrade.mode === "CANCEL_UPGRADING" ? undefined : "NEEDS_UPGRADE";
}
