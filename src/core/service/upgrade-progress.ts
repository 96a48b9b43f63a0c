/**
 * How far the instances of a service are in its upgrade: what each wants, what it runs with, and the
 * states that follow (facts/yarn-services.md §2.1). All computed from the rows.
 */
import { fitsIn, largerResource, type Resource } from "../../shared/resource.ts";
import type { ServiceDefinition } from "../../shared/service.ts";
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

/**
 * The size that its container shall have. While an upgrade may be taken back it is large enough for
 * both versions.
 */
export function targetSize(service: Service, instance: InstanceRow): Resource | undefined {
  const of = (definition: ServiceDefinition | undefined) =>
    definition?.components.find(({ name }) => name === instance.component)?.resource;
  const before = of(service.row?.definition);
  const after = wantsUpgrade(service, instance) ? of(service.upgrade?.definition) : undefined;
  return before && after ? largerResource(before, after) : before;
}

/** undefined: the upgrade does not concern it, or it is back at the version before. */
export function progressOf(service: Service, instance: InstanceRow): UpgradeProgress | undefined {
  const row = service.upgrade;
  if (!row?.changed.includes(instance.component)) return undefined;
  const { container, upgrade } = instance;
  if (row.mode === "CANCEL_UPGRADING") return hasTraces(instance) ? "UPGRADING" : undefined;
  if (!upgrade) return "NEEDS_UPGRADE";
  if (upgrade.state === "FAILED_UPGRADE") return upgrade.state;
  if (instance.state !== "READY" || !container || !runsUpgrade(container)) return "UPGRADING";
  const isUnderWay =
    container.resize !== undefined ||
    (container.reInitialization !== undefined && !isSettled(container));
  const target = targetSize(service, instance);
  const isGrown = !target || !container.size || fitsIn(target, container.size.resource);
  return isGrown && !isUnderWay ? "UPGRADED" : "UPGRADING";
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
