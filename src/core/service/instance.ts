/**
 * Component instances: what becomes of them when containers come, speak and go. Every function may
 * be told the same thing twice; the second time changes nothing.
 */

import type { Container } from "../../shared/container.ts";
import { type ContainerStatus, EXIT } from "../../shared/container.ts";
import type { CompletedContainer } from "../../shared/protocol/application-master.ts";
import { fitsIn, type Resource } from "../../shared/resource.ts";
import type { ComponentDefinition } from "../../shared/service.ts";
import { restartSettings } from "./properties.ts";
import { launchFacts, reInitializationReported, upgradeFailed } from "./reinitialization.ts";
import { retire } from "./release.ts";
import { resizeReported } from "./resize.ts";
import type { AssignedContainer, ComponentRow, InstanceRow, Service } from "./state.ts";
import { record } from "./timeline.ts";
import { runsUpgrade, wantsUpgrade } from "./upgrade-progress.ts";

/** An instance that ran this long has recovered: its next end is the first in a row again. */
const RECOVERED_AFTER_MS = 60_000;

/** Ends which are not the program's fault (facts §4.10 layer 2; a memory kill is, design §12). */
const NOT_COUNTED: ReadonlySet<number> = new Set([
  EXIT.ABORTED,
  EXIT.DISKS_FAILED,
  EXIT.PREEMPTED,
  EXIT.KILLED_BY_APPMASTER,
  EXIT.KILLED_BY_RESOURCEMANAGER,
  EXIT.KILLED_AFTER_APP_COMPLETION,
  EXIT.KILLED_BY_CONTAINER_SCHEDULER,
]);

/** Gives a new container to the first waiting instance of its component; surplus goes back. */
export function containerAllocated(service: Service, container: Container, nowMs: number): void {
  const { containerId, nodeId, nodeIncarnation, token, resource, version } = container;
  if (service.instanceWith(containerId) || service.releases.get(containerId)) return;
  const definition = service.row?.definition.components[container.allocationRequestId];
  const component = definition && service.components.get(definition.name);
  const waiting = service
    .instancesOf(definition?.name ?? "")
    .find((instance) => instance.state === "WAITING");
  if (!definition || !component || !waiting) {
    service.releases.put({ containerId, heard: false });
    return;
  }
  if (component.asked !== null) {
    service.components.put({ ...component, asked: Math.max(0, component.asked - 1) });
  }
  service.instances.put({
    ...waiting,
    state: "ASSIGNED",
    diagnostics: "",
    container: {
      containerId,
      nodeId,
      nodeIncarnation,
      token,
      ...(container.registry ? { registry: container.registry } : {}),
      host: null,
      ip: null,
      ports: {},
      startedMs: null,
      readiness: "",
      wasReady: false,
      size: { version, resource, wanted: wantedOf(resource, definition.resource) },
      ...(wantsUpgrade(service, waiting) ? { isUpgraded: true } : {}),
    },
  });
  record(service, {
    timeMs: nowMs,
    type: "CONTAINER_ALLOCATED",
    component: waiting.component,
    instance: waiting.name,
    containerId,
    nodeId,
    message: `${waiting.name} was given a container on ${nodeId}`,
  });
}

/** The ResourceManager rounds up what is asked for; what is smaller was asked for before. */
function wantedOf(allocated: Resource, asked: Resource): Resource {
  return fitsIn(asked, allocated) ? asked : allocated;
}

/** The launch was stored by the node's tracker. */
export function containerHandedOver(service: Service, containerId: string): void {
  const instance = service.instanceWith(containerId);
  if (instance?.state !== "ASSIGNED" || !instance.container) return;
  const container = withoutSecrets(instance.container);
  service.instances.put({ ...instance, state: "LAUNCHING", container });
}

/** The node's tracker has them now, and nobody else needs them. */
function withoutSecrets({ registry: _, ...container }: AssignedContainer): AssignedContainer {
  return { ...container, token: "" };
}

/** The node says how a live container is. Its end comes from the ResourceManager alone. */
export function containerStatus(service: Service, status: ContainerStatus, nowMs: number): void {
  const instance = service.instanceWith(status.containerId);
  if (!instance?.container || status.state !== "RUNNING") return;
  if (!["ASSIGNED", "LAUNCHING", "STARTED", "READY"].includes(instance.state)) return;
  const container: AssignedContainer = {
    ...withoutSecrets(instance.container),
    host: status.host ?? instance.container.host,
    ip: status.ips?.[0] ?? instance.container.ip,
    ports: status.ports ?? instance.container.ports,
    startedMs: status.startedMs ?? instance.container.startedMs ?? nowMs,
    readiness: status.ready ? "" : (status.readiness ?? ""),
    wasReady: instance.container.wasReady || status.ready,
    ...launchFacts(status, instance.container),
  };
  const state = status.ready ? "READY" : "STARTED";
  const started = instance.state === "ASSIGNED" || instance.state === "LAUNCHING";
  const about = aboutContainer(instance, container, nowMs);
  if (started) {
    record(service, {
      ...about,
      type: "CONTAINER_STARTED",
      message: `${instance.name} runs on ${container.nodeId}`,
    });
  }
  if (instance.state !== state && (status.ready || instance.state === "READY")) {
    const because = container.readiness === "" ? "" : `: ${container.readiness}`;
    record(service, {
      ...about,
      type: status.ready ? "INSTANCE_READY" : "INSTANCE_UNREADY",
      message: `${instance.name} is ${status.ready ? "ready" : `no longer ready${because}`}`,
    });
  }
  service.instances.put({ ...instance, state, container });
  reInitializationReported(service, instance, nowMs, status.diagnostics);
  resizeReported(service, instance.name);
}

/** A container is over. Answers false when no instance had it. */
export function containerCompleted(
  service: Service,
  completed: CompletedContainer,
  nowMs: number,
): boolean {
  service.releases.delete(completed.containerId);
  const instance = service.instanceWith(completed.containerId);
  if (!instance?.container) return false;
  const definition = service.row?.definition.components.find(
    ({ name }) => name === instance.component,
  );
  const component = service.components.get(instance.component);
  if (!definition || !component) return false;
  const { exitStatus, diagnostics } = completed;
  record(service, {
    ...aboutContainer(instance, instance.container, nowMs),
    type: "CONTAINER_COMPLETED",
    message: `${instance.name} ended with exit status ${exitStatus}${diagnostics ? `: ${diagnostics}` : ""}`,
  });
  if (instance.index >= component.desired) {
    service.instances.delete(instance.name);
    return true;
  }
  if (instance.state === "STOPPING") {
    service.instances.put({ ...instance, state: "WAITING", container: null, quickEnds: 0 });
    return true;
  }
  if (exitStatus !== EXIT.SUCCESS && !NOT_COUNTED.has(exitStatus)) {
    countFailure(service, definition, component, nowMs);
    if (runsUpgrade(instance.container)) {
      const why = diagnostics || `exit status ${exitStatus}`;
      upgradeFailed(service, instance.name, nowMs, `goes back to the version before: ${why}`);
    }
  }
  const ended = service.instances.get(instance.name) ?? instance;
  service.instances.put(afterEnd(definition, ended, completed, nowMs));
  return true;
}

/** What the restart policy makes of an ended instance (facts §4.5). */
function afterEnd(
  definition: ComponentDefinition,
  instance: InstanceRow,
  { exitStatus, diagnostics }: CompletedContainer,
  nowMs: number,
): InstanceRow {
  const success = exitStatus === EXIT.SUCCESS;
  const ended = { ...instance, diagnostics: diagnostics || `exit status ${exitStatus}` };
  if (definition.restartPolicy === "NEVER") {
    return { ...ended, state: success ? "SUCCEEDED" : "FAILED" };
  }
  if (definition.restartPolicy === "ON_FAILURE" && success) return { ...ended, state: "SUCCEEDED" };
  const startedMs = instance.container?.startedMs;
  if (NOT_COUNTED.has(exitStatus)) {
    return { ...ended, state: "WAITING", container: null };
  }
  const ranMs = startedMs === null || startedMs === undefined ? 0 : nowMs - startedMs;
  const quickEnds = ranMs >= RECOVERED_AFTER_MS ? 1 : instance.quickEnds + 1;
  const delayMs = backOffMs(definition, quickEnds);
  return {
    ...ended,
    state: delayMs === 0 ? "WAITING" : "BACKOFF",
    notBeforeMs: nowMs + delayMs,
    quickEnds,
    container: null,
  };
}

/** 0 after the first end in a row, then the base interval, doubled each time up to the maximum. */
function backOffMs(definition: ComponentDefinition, quickEnds: number): number {
  if (quickEnds <= 1) return 0;
  const { backoffBaseMs, backoffMaxMs } = restartSettings(definition.configuration);
  return Math.min(backoffMaxMs, backoffBaseMs * 2 ** Math.min(quickEnds - 2, 30));
}

function countFailure(
  service: Service,
  definition: ComponentDefinition,
  component: ComponentRow,
  nowMs: number,
): void {
  const { failureWindowMs } = restartSettings(definition.configuration);
  const failures = component.failures.filter((timeMs) => timeMs > nowMs - failureWindowMs);
  service.components.put({ ...component, failures: [...failures, nowMs] });
}

/** Brings the rows of a started component in line with its wanted number. */
export function ensureInstances(service: Service, component: ComponentRow): void {
  const instances = service.instancesOf(component.name);
  const taken = new Set(instances.map((instance) => instance.index));
  for (let index = 0; index < component.desired; index += 1) {
    if (taken.has(index)) continue;
    service.instances.put({
      name: `${component.name}-${index}`,
      component: component.name,
      index,
      state: "WAITING",
      notBeforeMs: 0,
      quickEnds: 0,
      container: null,
      diagnostics: "",
    });
  }
  for (const instance of instances) {
    if (instance.index >= component.desired) retire(service, instance);
  }
}

function aboutContainer(instance: InstanceRow, container: AssignedContainer, nowMs: number) {
  return {
    timeMs: nowMs,
    component: instance.component,
    instance: instance.name,
    containerId: container.containerId,
    nodeId: container.nodeId,
  };
}
