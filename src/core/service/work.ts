/**
 * What a service master has to say to whom, computed from its rows. Whatever is in the list goes on
 * being in it until the answer was stored; so a lost message is said again, and a doubled one is
 * recognised by its id, responseId or generation.
 */
import type { ContainerLaunchContext } from "../../shared/container.ts";
import type { NodeId } from "../../shared/ids.ts";
import { LIMITS } from "../../shared/limits.ts";
import type {
  ApplicationSubmissionContext,
  ServiceEntry,
} from "../../shared/protocol/application-client.ts";
import type {
  AllocateRequest,
  AllocateResponse,
  FinishApplicationMasterRequest,
  ResourceRequest,
} from "../../shared/protocol/application-master.ts";
import type {
  MasterName,
  StartContainerRequest,
  UpdateContainerRequest,
} from "../../shared/protocol/container-management.ts";
import type { RegistryOperation } from "../../shared/protocol/registry-operations.ts";
import type { ComponentDefinition } from "../../shared/service.ts";
import { componentsOf } from "./component.ts";
import { containerAllocated, containerCompleted } from "./instance.ts";
import { allocationTagsOf } from "./placement-specification.ts";
import { applicationAcls } from "./properties.ts";
import { registryChanges } from "./records.ts";
import { reInitializationsToSay } from "./reinitialization.ts";
import { resizeGranted, resizeRefused, resizesToAsk, resizesToSay } from "./resize.ts";
import type { InstanceRow, Service, ServiceRow } from "./state.ts";
import { buildLaunchContext } from "./substitution.ts";

export type ServiceWork =
  | {
      readonly type: "submit";
      readonly submissionId: string;
      readonly context: ApplicationSubmissionContext;
    }
  | { readonly type: "register"; readonly attemptId: string }
  | { readonly type: "allocate"; readonly attemptId: string; readonly request: AllocateRequest }
  | { readonly type: "start"; readonly requests: readonly StartContainerRequest[] }
  | { readonly type: "update"; readonly requests: readonly PlacedUpdate[] }
  | {
      readonly type: "finish";
      readonly attemptId: string;
      readonly request: FinishApplicationMasterRequest;
    }
  | { readonly type: "publish"; readonly operations: readonly RegistryOperation[] }
  | { readonly type: "report"; readonly generation: number; readonly entry: ServiceEntry | null }
  /** Nothing of the service is left anywhere: forget it. */
  | { readonly type: "wipe" };

export type PlacedUpdate = UpdateContainerRequest & { readonly nodeId: NodeId };

export type Surroundings = {
  readonly master: MasterName;
  /** DNS domain of the cluster, for `${DOMAIN}`. */
  readonly domain: string;
};

export function serviceWork(service: Service, surroundings: Surroundings): readonly ServiceWork[] {
  const row = service.row;
  if (!row) return [];
  const work = [...applicationWork(service, row, surroundings)];
  const operations = registryChanges(service).slice(0, LIMITS.registryOperationsPerTransactionMax);
  if (operations.length > 0) work.push({ type: "publish", operations });
  if (row.entryGeneration > row.entryHeard && (row.entry !== null || row.phase === "DESTROYING")) {
    work.push({ type: "report", generation: row.entryGeneration, entry: row.entry });
  }
  const over = row.phase === "DESTROYING" && row.submissionId === null && row.entry === null;
  return over && work.length === 0 ? [{ type: "wipe" }] : work;
}

function applicationWork(
  service: Service,
  row: ServiceRow,
  surroundings: Surroundings,
): readonly ServiceWork[] {
  const { submissionId, attemptId } = row;
  if (submissionId === null) return [];
  if (attemptId === null) {
    const context = submissionContext(row, submissionId, surroundings.master);
    return [{ type: "submit", submissionId, context }];
  }
  if (row.phase === "FINISHING" || row.phase === "DESTROYING") {
    const request = row.outcome ?? { finalStatus: "ENDED", diagnostics: "" };
    return [{ type: "finish", attemptId, request }];
  }
  if (!row.registered) return [{ type: "register", attemptId }];
  const work: ServiceWork[] = [];
  const assigned = service.inState("ASSIGNED");
  if (assigned.length > 0) {
    work.push({ type: "start", requests: startRequests(service, row, assigned, surroundings) });
  }
  const updates = updateRequests(service, row, surroundings);
  if (updates.length > 0) work.push({ type: "update", requests: updates });
  const request = allocateRequest(service, row);
  const { asks, releases, updates: resizes = [] } = request;
  const said = asks.length > 0 || releases.length > 0 || resizes.length > 0;
  if (said || service.newsWaiting) work.push({ type: "allocate", attemptId, request });
  return work;
}

export function submissionContext(
  row: Pick<ServiceRow, "definition" | "user" | "submitter">,
  submissionId: string,
  master: MasterName,
): ApplicationSubmissionContext {
  const { name, queue, components } = row.definition;
  return {
    name,
    user: row.user,
    queue,
    submitter: row.submitter,
    lifetimeSeconds: row.definition.lifetime,
    applicationType: "yarn-service",
    master,
    submissionId,
    acls: applicationAcls(row.definition.configuration),
    largestRequests: components.map((component) => ({
      component: component.name,
      resource: component.resource,
    })),
  };
}

/** What allocate would say now; asks only where the ResourceManager's number is not ours. */
export function allocateRequest(service: Service, row: ServiceRow): AllocateRequest {
  const asks: ResourceRequest[] = [];
  let ready = 0;
  let desired = 0;
  componentsOf(service, row).forEach(({ definition, row: component, counts }, index) => {
    ready += counts.READY + counts.SUCCEEDED;
    desired += component.desired;
    const isHeard = component.asked === counts.WAITING && !service.asksInDoubt;
    if (!component.started || isHeard) return;
    asks.push(askFor(row, definition, index, counts.WAITING));
  });
  const releases = [...service.releases.values()]
    .filter(({ heard }) => !heard)
    .map(({ containerId }) => containerId);
  const progress = desired === 0 ? 1 : Math.min(1, ready / desired);
  const updates = resizesToAsk(service);
  return {
    ...{ responseId: row.responseId, sequence: row.sequence, progress, asks, releases },
    ...(updates.length === 0 ? {} : { updates }),
  };
}

/** One scheduler key for each component: its rank is the priority, its place the request's id. */
export function askFor(
  { user, definition }: Pick<ServiceRow, "user" | "definition">,
  { name, rank, resource, placement }: ComponentDefinition,
  index: number,
  count: number,
): ResourceRequest {
  return {
    priority: rank,
    allocationRequestId: index,
    capability: resource,
    count,
    allocationTags: allocationTagsOf(user, definition.name, name),
    ...placement,
  };
}

/** Stores an allocate reply. `request` is what it answers. */
export function allocated(
  service: Service,
  request: AllocateRequest,
  response: AllocateResponse,
  nowMs: number,
): void {
  const row = service.row;
  if (row?.phase !== "RUNNING" || row.sequence !== request.sequence) return;
  service.update({ responseId: response.responseId, sequence: row.sequence + 1 });
  service.asksInDoubt = false;
  for (const ask of request.asks) {
    const name = row.definition.components[ask.allocationRequestId]?.name ?? "";
    const component = service.components.get(name);
    if (component) service.components.put({ ...component, asked: ask.count });
  }
  for (const containerId of request.releases) {
    if (service.releases.get(containerId)) service.releases.put({ containerId, heard: true });
  }
  for (const container of response.allocated) containerAllocated(service, container, nowMs);
  for (const container of response.updated) resizeGranted(service, container);
  for (const error of response.updateErrors) resizeRefused(service, error, nowMs);
  for (const completed of response.completed) {
    if (!containerCompleted(service, completed, nowMs)) askAnew(service);
  }
  service.pending = response.pending;
}

/** The ResourceManager's numbers may not be what we think: say all of them again. */
export function askAnew(service: Service): void {
  const { row } = service;
  if (row) service.update({ sequence: row.sequence + 1 });
  service.asksInDoubt = true;
}

function startRequests(
  service: Service,
  row: ServiceRow,
  assigned: readonly InstanceRow[],
  surroundings: Surroundings,
): readonly StartContainerRequest[] {
  const requests: StartContainerRequest[] = [];
  for (const instance of assigned) {
    const launch = launchOf(service, row, instance, surroundings);
    const container = instance.container;
    if (!launch || !container) continue;
    const { containerId, nodeId, nodeIncarnation, token, registry } = container;
    requests.push({
      containerId,
      nodeId,
      nodeIncarnation,
      token,
      launch: registry ? { ...launch, registry } : launch,
    });
  }
  return requests;
}

/**
 * The launch context that is wanted, with its dependencies' addresses of now; of an upgrade that is
 * decided, only what becomes of it, for its node has the launch context.
 */
function updateRequests(
  service: Service,
  row: ServiceRow,
  surroundings: Surroundings,
): readonly PlacedUpdate[] {
  const requests: PlacedUpdate[] = [];
  for (const { container } of resizesToSay(service)) {
    const { containerId, nodeId, resize } = container ?? {};
    if (!containerId || !nodeId || !resize) continue;
    const { token, revision } = resize;
    requests.push({ containerId, nodeId, token, revision });
  }
  for (const instance of reInitializationsToSay(service)) {
    const { containerId, nodeId, reInitialization: change } = instance.container ?? {};
    if (!containerId || !nodeId || !change) continue;
    const { why, version, fate, revision } = change;
    const request = { containerId, nodeId, reInitialization: fate, revision };
    if (why === "UPGRADE" && fate !== "PENDING") {
      requests.push(request);
      continue;
    }
    const launch = launchOf(service, row, instance, surroundings);
    if (launch) requests.push({ ...request, launch: { ...launch, version } });
  }
  return requests;
}

/** A first launch, and one in place: which definition the instance's row says. */
function launchOf(
  service: Service,
  row: ServiceRow,
  { name, index, component: componentName, container }: InstanceRow,
  { domain }: Surroundings,
): ContainerLaunchContext | undefined {
  const isOfUpgrade = container?.isUpgraded || container?.reInitialization?.why === "UPGRADE";
  const { definition } = (isOfUpgrade && service.upgrade) || row;
  const component = definition.components.find((each) => each.name === componentName);
  if (!component || !container) return undefined;
  return buildLaunchContext({
    definition,
    component,
    instance: { name, index },
    containerId: container.containerId,
    user: row.user,
    domain,
    dependencies: dependencyAddresses(service, component.dependencies),
  });
}

/** Instances of the declared dependencies, for `${MASTER-0_HOST}` and `${MASTER-0_IP}`. */
function dependencyAddresses(service: Service, dependencies: readonly string[]) {
  return dependencies.flatMap((name) =>
    service.instancesOf(name).map((instance) => ({
      name: instance.name,
      host: instance.container?.host ?? "",
      ip: instance.container?.ip ?? "",
      ports: instance.container?.ports ?? {},
    })),
  );
}
