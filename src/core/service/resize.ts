/**
 * Another size of a container that runs (YARN's updateContainer): asked of the ResourceManager, and
 * then told to the node by the new token. One step at a time: what was begun is said until it is
 * answered, whatever is wanted meanwhile, so that both sides always agree on the container's version.
 */
import type { Container } from "../../shared/container.ts";
import type {
  UpdateContainerError,
  UpdateContainerRequest,
} from "../../shared/protocol/application-master.ts";
import { fitsIn, largerResource, type Resource } from "../../shared/resource.ts";
import { nextRevision, replace, upgradeFailed } from "./reinitialization.ts";
import type { AssignedContainer, InstanceRow, Service } from "./state.ts";
import { wantsUpgrade } from "./upgrade-progress.ts";

/** The container has what was wanted last, and nothing is under way. */
export function hasSize({ size, resize }: AssignedContainer, target: Resource): boolean {
  return resize === undefined && (size === undefined || isSame(size.wanted, target));
}

/** Takes the next step towards a size: grow as far as needed first, then shrink. */
export function beginResize(service: Service, instance: InstanceRow, target: Resource): void {
  const { container } = instance;
  const size = container?.size;
  if (!container || !size || container.resize) return;
  if (isSame(size.resource, target)) {
    put(service, instance, { ...container, size: { ...size, wanted: target } });
    return;
  }
  const to = fitsIn(target, size.resource) ? target : largerResource(size.resource, target);
  put(service, instance, {
    ...container,
    resize: { to, isGranted: false, token: "", revision: 0, isHandedOver: false },
  });
}

/** What the ResourceManager is to be asked. */
export function resizesToAsk(service: Service): readonly UpdateContainerRequest[] {
  return service.withResize().flatMap(({ container }) => {
    const { containerId, size, resize } = container ?? {};
    if (!containerId || !size || !resize || resize.isGranted) return [];
    const { version, resource } = size;
    const type = fitsIn(resource, resize.to) ? "INCREASE_RESOURCE" : "DECREASE_RESOURCE";
    return [{ containerId, version, type, capability: resize.to } as const];
  });
}

/** The ResourceManager has done it; the token tells the node. */
export function resizeGranted(
  service: Service,
  { containerId, version, resource, token }: Container,
): void {
  const instance = service.instanceWith(containerId);
  const container = instance?.container;
  const { size, resize } = container ?? {};
  if (!instance || !container || !size || !resize || version !== size.version + 1) return;
  const revision = nextRevision(container);
  put(service, instance, {
    ...container,
    revision,
    size: { version, resource, wanted: resize.to },
    resize: { ...resize, isGranted: true, token, revision },
  });
}

/** It cannot be had where it is: the instance stays, or goes back, to where it fits. */
export function resizeRefused(
  service: Service,
  { containerId, reason, message }: UpdateContainerError,
  nowMs: number,
): void {
  const instance = service.instanceWith(containerId);
  if (instance?.container?.resize?.isGranted !== false) return;
  const { resize: _, ...container } = instance.container;
  if (reason === "INVALID_CONTAINER_ID") {
    put(service, instance, { ...container, isOver: true });
    return;
  }
  put(service, instance, container);
  if (wantsUpgrade(service, instance)) upgradeFailed(service, instance.name, nowMs, message);
  else replace(service, instance.name, nowMs, `cannot be resized in place: ${message}`);
}

/** Instances whose node's tracker is to be told of a new size. */
export function resizesToSay(service: Service): readonly InstanceRow[] {
  return service.withResize().filter(({ container, state }) => {
    const { isGranted = false, isHandedOver = false } = container?.resize ?? {};
    return isGranted && !isHandedOver && state !== "STOPPING" && container?.isOver !== true;
  });
}

/** Its node has the new size, or has refused the token. */
export function resizeReported(service: Service, name: string): void {
  const instance = service.instances.get(name);
  const { resize, settledRevision = 0 } = instance?.container ?? {};
  if (!instance?.container || !resize?.isGranted) return;
  if (settledRevision < resize.revision) return;
  const { resize: _, ...container } = instance.container;
  put(service, instance, container);
}

function isSame(a: Resource, b: Resource): boolean {
  return fitsIn(a, b) && fitsIn(b, a);
}

function put(service: Service, instance: InstanceRow, container: AssignedContainer): void {
  service.instances.put({ ...instance, container });
}
