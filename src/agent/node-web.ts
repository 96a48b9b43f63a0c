/**
 * The NodeManager's own REST (facts/yarn-rm-nm-scheduler.md §1.12): YARN's paths, field names and
 * filters, and only the fields whose values are known here. It is asked through the control plane
 * (`node-query`), or on a port of the machine (node-web-server.ts).
 *
 * `user` filters everywhere: with it, what belongs to others does not exist. That is how the
 * control plane confines users to what is their own.
 */
import * as z from "zod";
import type { ContainerStatus } from "../shared/container.ts";
import { fail, ok, type Reply } from "../shared/errors.ts";
import { applicationOfContainer, type ContainerId, type NodeId } from "../shared/ids.ts";
import { LIMITS } from "../shared/limits.ts";
import { NODE_WEB_BASE } from "../shared/node-web.ts";
import type { Resource } from "../shared/resource.ts";
import { validate } from "../shared/validation.ts";
import type { ApplicationState, NodeApplication } from "./applications.ts";
import type { ContainerUsage, NodeUsage } from "./containers-monitor.ts";
import type { Health } from "./health/health.ts";
import type { LogFile, LogText } from "./node-web-logs.ts";

export type NodeWebApplication = NodeApplication & { readonly state: ApplicationState };

export type NodeWebContainer = {
  readonly status: ContainerStatus;
  /** Empty when it never got as far as having one. */
  readonly user: string;
  readonly resource: Resource;
};

export type NodeWebAuxiliaryService = {
  readonly name: string;
  readonly version: string;
  /** Epoch ms. */
  readonly startedMs: number;
};

/** What the API shows; each is asked for anew. */
export type NodeWebState = {
  readonly nodeId: NodeId;
  readonly host: string;
  readonly agentVersion: string;
  /** Epoch ms. */
  readonly startedMs: number;
  readonly pmemCheckEnabled: boolean;
  readonly vmemCheckEnabled: boolean;
  readonly vmemPmemRatio: number;
  health(): Health;
  /** Epoch ms of the last look at the node's health; 0 before the first. */
  healthCheckedMs(): number;
  applications(): readonly NodeWebApplication[];
  /** Finished ones, too, as long as they are remembered. */
  containers(): readonly NodeWebContainer[];
  auxiliaryServices(): readonly NodeWebAuxiliaryService[];
  usage(containerId: ContainerId): ContainerUsage | undefined;
  nodeUsage(): NodeUsage;
  logFiles(containerId: ContainerId): Promise<readonly LogFile[]>;
  /** Undefined when there is no such file. */
  readLog(
    containerId: ContainerId,
    file: string,
    range: { readonly offset: number; readonly lengthMax: number },
  ): Promise<LogText | undefined>;
};

/** As NodeWebAnswer of shared/node-web.ts; what is undefined in it goes when it is written. */
export type NodeWebReply = Reply<{ readonly json: unknown } | LogText>;

const applicationsQuery = z.object({
  user: z.string().optional(),
  state: z.enum(["INITING", "RUNNING", "FINISHING_CONTAINERS_WAIT", "FINISHED"]).optional(),
});
const userQuery = z.object({ user: z.string().optional() });
const logQuery = z.object({
  user: z.string().optional(),
  /** Bytes: the first so many from `offset`; negative: the last so many. */
  size: z.coerce.number().int().optional(),
  offset: z.coerce.number().int().min(0).default(0),
});

/** In lists; one container shows them whole. */
const SHORT_DIAGNOSTICS_LENGTH = 200;
const BASE = NODE_WEB_BASE;

/** Answers GET of a path below `/ws/v1/node`, with its query. Failures are for the caller to see. */
export async function answerNodeWeb(state: NodeWebState, target: string): Promise<NodeWebReply> {
  const url = URL.parse(target, "http://node");
  const segments = url && segmentsOf(url.pathname);
  if (!url || !segments) return fail("INVALID_ARGUMENT", `"${target}" is no path below ${BASE}`);
  const answer = await route(state, segments, Object.fromEntries(url.searchParams));
  if (!answer.ok || !("json" in answer.value)) return answer;
  if (JSON.stringify(answer.value).length <= LIMITS.nodeAnswerLengthMax) return answer;
  return fail("RESOURCE_EXHAUSTED", `the answer of ${url.pathname} is too long`, {
    hint: `ask for part of it: ?user=…, ${BASE}/apps/{id} or ${BASE}/containers/{id}`,
  });
}

async function route(
  state: NodeWebState,
  segments: readonly string[],
  query: unknown,
): Promise<NodeWebReply> {
  const [kind = "info", id, part, file, ...rest] = segments;
  if (rest.length > 0) return nothingAt(segments);
  if (segments.length <= 1) {
    if (kind === "info") return ok({ json: { nodeInfo: nodeInfo(state) } });
    if (kind === "apps") return listApplications(state, query);
    if (kind === "containers") return listContainers(state, query);
    if (kind === "auxiliaryservices") return ok({ json: auxiliaryServices(state) });
  }
  if (id === undefined) return nothingAt(segments);
  if (kind === "apps" && part === undefined) return showApplication(state, id, query);
  if (kind === "containers" && part === undefined) return showContainer(state, id, query);
  if (kind === "containerlogs" && part !== undefined && file === undefined) {
    return showLog(state, id, part, query);
  }
  if (kind !== "containers" || part !== "logs") return nothingAt(segments);
  return file === undefined ? listLogs(state, id, query) : showLog(state, id, file, query);
}

/** What comes after `/ws/v1/node`; null when the path lies elsewhere or cannot be decoded. */
function segmentsOf(path: string): string[] | null {
  if (path !== BASE && !path.startsWith(`${BASE}/`)) return null;
  try {
    return path.slice(BASE.length).split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    return null;
  }
}

function nothingAt(segments: readonly string[]) {
  return fail("NOT_FOUND", `there is nothing at ${BASE}/${segments.join("/")}`, {
    hint: "there are info, apps, apps/{id}, containers, containers/{id}, containers/{id}/logs, containers/{id}/logs/{file}, auxiliaryservices",
  });
}

function nodeInfo(state: NodeWebState) {
  const running = state.containers().filter(({ status }) => status.state !== "COMPLETE");
  const memoryMb = sum(running.map(({ resource }) => resource.memoryMb));
  const { healthy, report } = state.health();
  return {
    id: state.nodeId,
    nodeHostName: state.host,
    nodeManagerVersion: state.agentVersion,
    nodeHealthy: healthy,
    healthReport: report,
    lastNodeUpdateTime: state.healthCheckedMs(),
    nmStartupTime: state.startedMs,
    totalPmemAllocatedContainersMB: memoryMb,
    totalVmemAllocatedContainersMB: Math.floor(memoryMb * state.vmemPmemRatio),
    totalVCoresAllocatedContainers: sum(running.map(({ resource }) => resource.vcores)),
    pmemCheckEnabled: state.pmemCheckEnabled,
    vmemCheckEnabled: state.vmemCheckEnabled,
    usage: state.nodeUsage(),
  };
}

function listApplications(state: NodeWebState, query: unknown): NodeWebReply {
  const filter = validate(applicationsQuery, query);
  if (!filter.ok) return filter;
  const { user, state: wanted } = filter.value;
  const applications = state
    .applications()
    .filter((each) => isOf(user, each) && (wanted === undefined || each.state === wanted));
  const containers = containersByApplication(state);
  const app = applications.map((each) => applicationView(each, containers));
  // YARN's empty collection.
  return ok({ json: { apps: app.length > 0 ? { app } : {} } });
}

function showApplication(state: NodeWebState, id: string, query: unknown): NodeWebReply {
  const filter = validate(userQuery, query);
  if (!filter.ok) return filter;
  const found = state.applications().find(({ applicationId }) => applicationId === id);
  if (!found || !isOf(filter.value.user, found)) {
    return fail("NOT_FOUND", `there is no application ${id} on node ${state.nodeId}`);
  }
  return ok({ json: { app: applicationView(found, containersByApplication(state)) } });
}

function applicationView(
  { applicationId, user, state }: NodeWebApplication,
  containers: ReadonlyMap<string, readonly NodeWebContainer[]>,
) {
  const own = containers.get(applicationId) ?? [];
  return {
    id: applicationId,
    user,
    state,
    containerids: own.map(({ status }) => status.containerId),
  };
}

function containersByApplication(state: NodeWebState) {
  return Map.groupBy(state.containers(), ({ status }) =>
    applicationOfContainer(status.containerId),
  );
}

async function listContainers(state: NodeWebState, query: unknown): Promise<NodeWebReply> {
  const filter = validate(userQuery, query);
  if (!filter.ok) return filter;
  const containers = state.containers().filter((each) => isOf(filter.value.user, each));
  const container = await Promise.all(
    containers.map(async (each) => {
      const view = await containerView(state, each);
      return { ...view, diagnostics: view.diagnostics.slice(0, SHORT_DIAGNOSTICS_LENGTH) };
    }),
  );
  return ok({ json: { containers: container.length > 0 ? { container } : {} } });
}

async function showContainer(
  state: NodeWebState,
  id: string,
  query: unknown,
): Promise<NodeWebReply> {
  const filter = validate(userQuery, query);
  if (!filter.ok) return filter;
  const found = findContainer(state, id, filter.value.user);
  return found.ok ? ok({ json: { container: await containerView(state, found.value) } }) : found;
}

async function containerView(state: NodeWebState, { status, user, resource }: NodeWebContainer) {
  const { containerId, exitStatus, diagnostics } = status;
  const files = await state.logFiles(containerId);
  return {
    id: containerId,
    state: status.subState ?? status.state,
    exitCode: exitStatus,
    diagnostics,
    user,
    totalMemoryNeededMB: resource.memoryMb,
    totalVCoresNeeded: resource.vcores,
    executionType: "GUARANTEED",
    containerLogsLink: `${BASE}/containers/${containerId}/logs`,
    nodeId: state.nodeId,
    containerLogFiles: files.map(({ name }) => name),
    usage: state.usage(containerId),
  };
}

async function listLogs(state: NodeWebState, id: string, query: unknown): Promise<NodeWebReply> {
  const filter = validate(userQuery, query);
  if (!filter.ok) return filter;
  const found = findContainer(state, id, filter.value.user);
  if (!found.ok) return found;
  const files = await state.logFiles(id);
  const info = {
    containerLogInfo: files.map(({ name, sizeBytes, droppedBytes, modifiedMs }) => ({
      fileName: name,
      fileSize: String(sizeBytes),
      ...(droppedBytes > 0 ? { droppedBytes } : {}),
      lastModifiedTime: new Date(modifiedMs).toUTCString(),
    })),
    logAggregationType: "LOCAL",
    containerId: id,
    nodeId: state.nodeId,
  };
  return ok({ json: { containerLogsInfo: [info] } });
}

async function showLog(
  state: NodeWebState,
  id: string,
  file: string,
  query: unknown,
): Promise<NodeWebReply> {
  const asked = validate(logQuery, query);
  if (!asked.ok) return asked;
  const { user, size = LIMITS.logChunkBytesMax, offset } = asked.value;
  const found = findContainer(state, id, user);
  if (!found.ok) return found;
  const lengthMax = Math.min(Math.abs(size), LIMITS.logChunkBytesMax);
  const range = size < 0 ? { offset: -lengthMax, lengthMax } : { offset, lengthMax };
  const text = await state.readLog(id, file, range);
  return text
    ? ok(text)
    : fail("NOT_FOUND", `container ${id} has no log ${file} on node ${state.nodeId}`, {
        hint: `those it has are listed at ${BASE}/containers/${id}/logs`,
      });
}

function findContainer(
  state: NodeWebState,
  id: string,
  user: string | undefined,
): Reply<NodeWebContainer> {
  const found = state.containers().find(({ status }) => status.containerId === id);
  return found && isOf(user, found)
    ? ok(found)
    : fail("NOT_FOUND", `there is no container ${id} on node ${state.nodeId}`);
}

function auxiliaryServices(state: NodeWebState) {
  const service = state.auxiliaryServices().map(({ name, version, startedMs }) => ({
    name,
    version,
    startTime: new Date(startedMs).toISOString(),
  }));
  return { services: service.length > 0 ? { service } : {} };
}

function isOf(user: string | undefined, thing: { readonly user: string }): boolean {
  return user === undefined || thing.user === user;
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
