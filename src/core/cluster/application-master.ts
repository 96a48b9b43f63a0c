/**
 * ApplicationMasterProtocol over a Cluster (facts/yarn-rm-nm-scheduler.md §6).
 *
 * `responseId` makes allocate safe against lost and doubled messages: a reply is kept (as the
 * `deliveredIn` of the containers it carried) until the master shows, by sending its number, that
 * it has it. `sequence` tells a request that was overtaken by a later one, or was heard before: its
 * asks are void, and nothing new is told in its reply, which nobody may hear. Unlike Hadoop's, an
 * ask is counted against containers still on their way to the master, so that repeating an ask
 * never yields surplus containers.
 */
import { EXIT } from "../../shared/container.ts";
import { fail, ok, type Reply } from "../../shared/errors.ts";
import type { ApplicationAttemptId } from "../../shared/ids.ts";
import type {
  AllocateRequest,
  AllocateResponse,
  CompletedContainer,
  FinishApplicationMasterRequest,
  RegisterApplicationMasterResponse,
  ResourceRequest,
} from "../../shared/protocol/application-master.ts";
import { type Cluster, isLive } from "./cluster.ts";
import { updateContainers } from "./container-update.ts";
import type { ApplicationRow, ContainerRow } from "./rows.ts";

/** An allocate reply before its ContainerTokens are signed (the shell does that). */
export type UnsignedAllocateResponse = Omit<AllocateResponse, "allocated" | "updated"> & {
  readonly allocated: readonly ContainerRow[];
  readonly updated: readonly ContainerRow[];
};

export function registerApplicationMaster(
  cluster: Cluster,
  attemptId: ApplicationAttemptId,
): Reply<RegisterApplicationMasterResponse> {
  const application = cluster.applicationOf(attemptId);
  if (!application || !isLive(application)) return attemptNotFound(attemptId);
  if (application.state === "ACCEPTED") {
    cluster.applications.put({ ...application, state: "RUNNING" });
  }
  return ok({
    queue: application.queue,
    maximumCapability: cluster.scheduler.maximumCapability(),
  });
}

export function allocate(
  cluster: Cluster,
  attemptId: ApplicationAttemptId,
  request: AllocateRequest,
  nowMs: number,
): Reply<UnsignedAllocateResponse> {
  const application = cluster.applicationOf(attemptId);
  if (!application || !isLive(application)) return attemptNotFound(attemptId);
  if (application.state !== "RUNNING") {
    return fail("FAILED_PRECONDITION", `the ApplicationMaster of ${attemptId} is not registered`, {
      reason: "ApplicationMasterNotRegisteredException",
    });
  }
  const { responseId } = application;
  if (request.responseId !== responseId && request.responseId !== responseId - 1) {
    return fail(
      "INVALID_ARGUMENT",
      `allocate of ${attemptId} came with responseId ${request.responseId}, expected ${responseId}`,
      { reason: "InvalidApplicationMasterRequestException" },
    );
  }
  const refused = checkAsks(cluster, application, request.asks);
  if (refused) return refused;

  forgetAcknowledged(cluster, attemptId, request.responseId);
  release(cluster, attemptId, request);
  const isOvertaken = request.sequence <= application.sequence;
  if (!isOvertaken) {
    const { sequence, blacklist = application.blacklist } = request;
    cluster.applications.put({ ...application, sequence, blacklist });
    cluster.scheduler.setBlacklist(attemptId, blacklist);
    for (const ask of request.asks) updateAsk(cluster, attemptId, ask, request.responseId);
  }
  const updates = updateContainers(cluster, attemptId, request.updates ?? []);
  cluster.schedule(nowMs);
  return ok({ ...deliver(cluster, attemptId, request.responseId, isOvertaken), ...updates });
}

export function finishApplicationMaster(
  cluster: Cluster,
  attemptId: ApplicationAttemptId,
  request: FinishApplicationMasterRequest,
  nowMs: number,
): Reply<undefined> {
  const application = cluster.applicationOf(attemptId);
  if (!application) return attemptNotFound(attemptId);
  if (isLive(application)) {
    const end = { state: "FINISHED", masterUnaware: false, ...request } as const;
    cluster.endApplication(application, end, nowMs);
    cluster.schedule(nowMs);
  } else if (application.masterUnaware) {
    cluster.applications.put({ ...application, masterUnaware: false });
  }
  return ok();
}

function checkAsks(
  cluster: Cluster,
  { queue }: ApplicationRow,
  asks: readonly ResourceRequest[],
): Reply<never> | undefined {
  for (const ask of asks) {
    const isCount = (count: number) => Number.isSafeInteger(count) && count >= 0;
    if (!isCount(ask.count) || ask.places?.some(({ count }) => !isCount(count))) {
      return fail("INVALID_ARGUMENT", `an ask for ${ask.count} containers is not possible`, {
        reason: "InvalidResourceRequestException",
        hint: "counts are whole numbers from 0",
      });
    }
    if (ask.count === 0) continue;
    const admitted = cluster.scheduler.admit(ask.capability, { queue, nodeLabel: ask.nodeLabel });
    // What no node can hold now waits for a larger one; what the queue never allows is refused.
    if (!admitted.ok && admitted.error.code === "INVALID_ARGUMENT") return admitted;
  }
  return undefined;
}

/** Rows of ended containers go once their master has shown that it knows. */
function forgetAcknowledged(cluster: Cluster, attemptId: ApplicationAttemptId, upTo: number): void {
  for (const id of cluster.toldOfAttempt.of(attemptId)) {
    const told = cluster.containers.get(id)?.exitDeliveredIn;
    if (told !== null && told !== undefined && told <= upTo) cluster.containers.delete(id);
  }
}

function release(
  cluster: Cluster,
  attemptId: ApplicationAttemptId,
  request: AllocateRequest,
): void {
  for (const id of request.releases) {
    const container = cluster.containers.get(id);
    if (container?.attemptId !== attemptId) continue;
    const diagnostics = "Container released by application";
    cluster.requestCleanup(container, { exitStatus: EXIT.ABORTED, diagnostics });
  }
}

function updateAsk(
  cluster: Cluster,
  attemptId: ApplicationAttemptId,
  ask: ResourceRequest,
  upTo: number,
): void {
  const onTheirWay = containersOnTheirWay(cluster, attemptId, ask, upTo);
  const count = Math.max(0, ask.count - onTheirWay.length);
  if (!ask.places) {
    cluster.setAsk({ ...ask, attemptId, count });
    return;
  }
  const nodes = onTheirWay.map(({ nodeId }) => cluster.nodes.get(nodeId)?.facts);
  const places = ask.places.map((place) => {
    const there = nodes.filter((node) => node?.host === place.name || node?.rack === place.name);
    return { ...place, count: Math.max(0, place.count - there.length) };
  });
  cluster.setAsk({ ...ask, attemptId, count, places });
}

/**
 * Containers for this ask which the master had not received when it sent the request. It receives
 * them all, also those that have ended meanwhile.
 */
function containersOnTheirWay(
  cluster: Cluster,
  attemptId: ApplicationAttemptId,
  ask: ResourceRequest,
  upTo: number,
): readonly ContainerRow[] {
  const application = cluster.applicationOf(attemptId);
  const replayed = application !== undefined && application.responseId > upTo;
  const index = replayed ? cluster.containersOfAttempt : cluster.newsOfAttempt;
  const rows: ContainerRow[] = [];
  for (const id of index.of(attemptId)) {
    const row = cluster.containers.get(id);
    if (row === undefined) continue;
    if (row.priority !== ask.priority || row.allocationRequestId !== ask.allocationRequestId) {
      continue;
    }
    if (row.deliveredIn === null || row.deliveredIn > upTo) rows.push(row);
  }
  return rows;
}

/**
 * Stamps the news with the next number, or says the last reply again, exactly, to a master that has
 * not shown that it has it: perhaps it has, and only this request came late.
 */
function deliver(
  cluster: Cluster,
  attemptId: ApplicationAttemptId,
  upTo: number,
  isOvertaken: boolean,
): UnsignedAllocateResponse {
  const application = cluster.applicationOf(attemptId) as ApplicationRow;
  const isReplay = application.responseId > upTo;
  const news = isReplay || isOvertaken ? [] : cluster.newsOfAttempt.of(attemptId);
  const number = news.length > 0 ? upTo + 1 : application.responseId;
  if (number !== application.responseId) {
    cluster.applications.put({ ...application, responseId: number });
  }
  const allocated: ContainerRow[] = [];
  const completed: CompletedContainer[] = [];
  for (const id of isReplay ? cluster.containersOfAttempt.of(attemptId) : news) {
    const row = isReplay ? cluster.containers.get(id) : stamp(cluster, id, number);
    if (row?.deliveredIn === number) allocated.push(row);
    if (row?.exit && row.exitDeliveredIn === number) {
      completed.push({ containerId: id, ...row.exit });
    }
  }
  return {
    responseId: number,
    allocated,
    completed,
    availableResources: cluster.scheduler.headroom(attemptId),
    clusterNodes: cluster.scheduler.usage().nodes,
    pending: cluster.scheduler.pending(attemptId),
    preemption: cluster.askedBack(attemptId),
    updated: [],
    updateErrors: [],
  };
}

function stamp(cluster: Cluster, id: string, number: number): ContainerRow {
  const row = cluster.containers.get(id) as ContainerRow;
  if (row.deliveredIn === null) {
    const acquired: ContainerRow = { ...row, state: "ACQUIRED", deliveredIn: number };
    cluster.containers.put(acquired);
    return acquired;
  }
  if (row.exit !== null && row.exitDeliveredIn === null) {
    const told: ContainerRow = { ...row, exitDeliveredIn: number };
    cluster.containers.put(told);
    return told;
  }
  return row;
}

function attemptNotFound(attemptId: ApplicationAttemptId) {
  return fail("NOT_FOUND", `there is no running application attempt ${attemptId}`, {
    reason: "ApplicationAttemptNotFoundException",
  });
}
