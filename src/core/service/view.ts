/** A service as GET shows it (seed 001), with plain words for whatever is not yet as wanted. */
import type { ReadinessCheck } from "../../shared/container.ts";
import { fail, ok, type Reply } from "../../shared/errors.ts";
import type { Resource } from "../../shared/resource.ts";
import type {
  ArtifactView,
  ComponentArtifact,
  ComponentView,
  ConfigFile,
  ConfigFileView,
  Configuration,
  ConfigurationView,
  ContainerView,
  InstanceContainerState,
  ResourceView,
  ServiceView,
} from "../../shared/service.ts";
import { type Component, componentsOf, serviceState, unmetDependencies } from "./component.ts";
import type {
  AssignedContainer,
  InstanceRow,
  InstanceState,
  Service,
  ServiceRow,
} from "./state.ts";
import { substituteQuicklinks } from "./substitution.ts";
import { progressOf, runsUpgrade } from "./upgrade-progress.ts";

export function viewService(service: Service, domain: string, nowMs: number): Reply<ServiceView> {
  const row = service.row;
  if (!row || row.phase === "DESTROYING") return fail("NOT_FOUND", "there is no such service");
  const all = componentsOf(service, row);
  const components = all.map((component, index) =>
    viewComponent(service, row, all, component, index, nowMs),
  );
  const { definition } = row;
  return ok({
    name: definition.name,
    version: definition.version,
    description: definition.description,
    id: row.applicationId,
    user: row.user,
    state: serviceState(service, row),
    diagnostics: serviceDiagnostics(service, row, components),
    lifetime: remainingLifetime(row, nowMs),
    queue: definition.queue,
    launch_time: row.launchMs,
    number_of_running_containers: all.reduce(
      (sum, { counts }) => sum + counts.STARTED + counts.READY,
      0,
    ),
    components,
    configuration: viewConfiguration(definition.configuration),
    quicklinks: substituteQuicklinks(definition, row.user, domain),
  });
}

function remainingLifetime(row: ServiceRow, nowMs: number): number {
  if (row.lifetimeDeadlineMs === null)
    return row.definition.lifetime > 0 ? row.definition.lifetime : -1;
  return Math.max(0, Math.ceil((row.lifetimeDeadlineMs - nowMs) / 1000));
}

function serviceDiagnostics(
  { upgrade }: Service,
  row: ServiceRow,
  components: readonly ComponentView[],
): string {
  if (row.phase === "STOPPED" || row.phase === "FINISHING") return row.outcome?.diagnostics ?? "";
  if (row.phase === "SUBMITTING") return "waits for the ResourceManager to accept it";
  const ofComponents = components
    .filter(({ diagnostics }) => diagnostics !== "")
    .map(({ name, diagnostics }) => `${name}: ${diagnostics}`);
  const way = upgrade?.mode === "CANCEL_UPGRADING" ? "goes back from" : "is upgraded to";
  const upgrading = upgrade ? [`${way} version ${upgrade.definition.version}`] : [];
  return [...upgrading, ...ofComponents].join("; ");
}

function viewComponent(
  service: Service,
  row: ServiceRow,
  all: readonly Component[],
  component: Component,
  index: number,
  nowMs: number,
): ComponentView {
  const { definition, row: wanted, state } = component;
  return {
    name: definition.name,
    state,
    dependencies: definition.dependencies,
    resource: viewResource(definition.resource),
    number_of_containers: wanted.desired,
    launch_command: definition.launchCommand,
    ...(definition.artifact === undefined ? {} : { artifact: viewArtifact(definition.artifact) }),
    restart_policy: definition.restartPolicy,
    run_privileged_container:
      definition.artifact?.type === "DOCKER" && definition.artifact.privileged,
    readiness_check: viewReadinessCheck(definition.readinessCheck),
    configuration: viewConfiguration(definition.configuration),
    quicklinks: definition.quicklinks,
    ...(definition.placementPolicy === undefined
      ? {}
      : { placement_policy: definition.placementPolicy }),
    diagnostics: row.phase === "RUNNING" ? why(service, all, component, index, nowMs) : "",
    containers: service
      .instancesOf(definition.name)
      .map((instance) => viewContainer(service, row, instance))
      .filter((view) => view !== null),
  };
}

/** Why a component has not all that it wants, in words; empty when it has. */
function why(
  service: Service,
  all: readonly Component[],
  { definition, row, counts }: Component,
  index: number,
  nowMs: number,
): string {
  if (!row.started) {
    const unmet = unmetDependencies(definition, all);
    return unmet.length > 0 ? `waits for ${unmet.join(", ")}` : "";
  }
  const reasons: string[] = [];
  if (counts.WAITING > 0) {
    const request = service.pending.find(
      ({ allocationRequestId }) => allocationRequestId === index,
    );
    const because = request ? `: ${request.reason}` : "";
    reasons.push(`${counts.WAITING} of ${row.desired} wait for a container${because}`);
  }
  for (const instance of service.instancesOf(definition.name)) {
    if (instance.upgrade?.state === "FAILED_UPGRADE") {
      reasons.push(
        `${instance.name} could not be upgraded: ${firstLine(instance.upgrade.diagnostics)}`,
      );
    }
    if (instance.state === "BACKOFF") {
      const seconds = Math.max(0, Math.ceil((instance.notBeforeMs - nowMs) / 1000));
      reasons.push(
        `${instance.name} is restarted in ${seconds} s after: ${firstLine(instance.diagnostics)}`,
      );
    }
    const readiness = instance.container?.readiness ?? "";
    if (instance.state === "STARTED" && readiness !== "") {
      reasons.push(`${instance.name} is not ready: ${readiness}`);
    }
    if (reasons.length > 5) return [...reasons.slice(0, 5), "…"].join("; ");
  }
  return reasons.join("; ");
}

const firstLine = (text: string) => text.split("\n", 1)[0] ?? "";

const CONTAINER_STATES: Readonly<Record<InstanceState, InstanceContainerState | null>> = {
  WAITING: null,
  BACKOFF: null,
  ASSIGNED: "INIT",
  LAUNCHING: "INIT",
  STARTED: "RUNNING_BUT_UNREADY",
  READY: "READY",
  STOPPING: null,
  SUCCEEDED: "SUCCEEDED",
  FAILED: "FAILED",
};

function viewContainer(
  service: Service,
  row: ServiceRow,
  instance: InstanceRow,
): ContainerView | null {
  const { name, container } = instance;
  const shown = shownState(service, instance);
  if (shown === null || !container) return null;
  const { containerId, nodeId, ip, host, startedMs, ports } = container;
  const exposed = Object.entries(ports).map(
    ([port, number]) => [port, [{ HostIp: ip ?? "", HostPort: String(number) }]] as const,
  );
  const { definition } = (runsUpgrade(container) && service.upgrade) || row;
  return {
    id: containerId,
    component_instance_name: name,
    state: shown,
    version: definition.version,
    launch_time: startedMs,
    ip,
    hostname: host,
    bare_host: nodeId.slice(0, nodeId.lastIndexOf(":")),
    node_id: nodeId,
    exposed_ports: Object.fromEntries(exposed),
    diagnostics: containerDiagnostics(instance, container),
  };
}

/** An upgrade that concerns the instance says more than whether it is ready. */
function shownState(service: Service, instance: InstanceRow): InstanceContainerState | null {
  const shown = CONTAINER_STATES[instance.state];
  const progress = shown === null ? undefined : progressOf(service, instance);
  return progress === undefined || progress === "UPGRADED" ? shown : progress;
}

function containerDiagnostics(
  { diagnostics, upgrade }: InstanceRow,
  { reInitialization, readiness }: AssignedContainer,
): string {
  if (reInitialization?.why === "RESTART") return "is being restarted in place";
  return upgrade?.diagnostics || readiness || diagnostics;
}

function viewResource(resource: Resource): ResourceView {
  const additional = Object.entries(resource.extra ?? {}).map(
    ([name, value]) => [name, { value, unit: "" }] as const,
  );
  return {
    cpus: resource.vcores,
    memory: String(resource.memoryMb),
    additional: Object.fromEntries(additional),
  };
}

function viewReadinessCheck(check: ReadinessCheck): ComponentView["readiness_check"] {
  if (check.type === "DEFAULT") return { type: check.type, properties: {} };
  const target: Record<string, string> =
    check.type === "HTTP" ? { url: check.url ?? "" } : { port: check.port ?? "" };
  return {
    type: check.type,
    properties: {
      ...target,
      timeout: String(check.timeoutMs),
      interval: String(check.intervalMs),
      ...(check.type === "HTTP"
        ? { "min.success": String(check.minSuccess), "max.success": String(check.maxSuccess) }
        : {}),
    },
  };
}

function viewConfiguration({ properties, env, files = [] }: Configuration): ConfigurationView {
  return { properties, env, files: files.map(viewFile) };
}

function viewFile(file: ConfigFile): ConfigFileView {
  const { type, destFile } = file;
  if ("properties" in file) return { type, dest_file: destFile, properties: file.properties };
  return {
    type,
    dest_file: destFile,
    src_file: file.source.id,
    visibility: file.visibility,
  };
}

function viewArtifact(artifact: ComponentArtifact): ArtifactView {
  const { id, type } = artifact;
  return { id, type, ...("url" in artifact ? { uri: artifact.url } : {}) };
}
