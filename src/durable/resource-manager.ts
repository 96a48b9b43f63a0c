/**
 * The ResourceManager's Durable Object, one per cluster: applications, attempts, containers, nodes,
 * the directory of services, and the cluster's keys. It decides nothing itself; each method runs
 * one command of core/cluster, or hands over to ClusterSecurity.
 */
import { DurableObject } from "cloudflare:workers";
import {
  findService,
  forceKillApplication,
  getActivities,
  getApplicationReport,
  getApplications,
  getClusterInfo,
  getClusterNodes,
  listServices,
  reportService,
  submitApplication,
} from "../core/cluster/application.ts";
import { checkApplicationAccess } from "../core/cluster/application-access.ts";
import { moveApplication, setApplicationPriority } from "../core/cluster/application-control.ts";
import {
  allocate,
  finishApplicationMaster,
  registerApplicationMaster,
} from "../core/cluster/application-master.ts";
import { ALLOCATION_EXPIRY_MS, Cluster } from "../core/cluster/cluster.ts";
import { getContainer, getContainers } from "../core/cluster/containers.ts";
import {
  cleanupsSent,
  finishedTold,
  getContainerOwner,
  reportNodes,
  settleNode,
} from "../core/cluster/node.ts";
import {
  decommissionNodes,
  nodeLists,
  recommissionNodes,
  setNodeLists,
  updateNodes,
} from "../core/cluster/node-administration.ts";
import { planApplication } from "../core/cluster/plan.ts";
import { checkQueueAccess, getNodeLabels, getQueues } from "../core/cluster/queues.ts";
import {
  endsPurged,
  findLiveContainer,
  homesMade,
  registryPathOf,
} from "../core/cluster/registry-duties.ts";
import type { ContainerRow } from "../core/cluster/rows.ts";
import {
  changeConfiguration,
  getSchedulerConf,
  getSchedulerConfVersions,
  propertiesAfter,
  rollBackConfiguration,
} from "../core/cluster/scheduler-configuration.ts";
import { nextClusterDeadlineMs, settleCluster } from "../core/cluster/settle.ts";
import { type ClusterWork, clusterWork } from "../core/cluster/work.ts";
import type { Container } from "../shared/container.ts";
import { ok, type Reply } from "../shared/errors.ts";
import type { ApplicationAttemptId, ApplicationId, ContainerId, NodeId } from "../shared/ids.ts";
import type {
  NodeChange,
  NodeLists,
  ResourceManagerAdministrationProtocol,
  SchedulerConfChange,
} from "../shared/protocol/administration.ts";
import type {
  ApplicationAccessType,
  ApplicationClientProtocol,
  ApplicationPlan,
  ApplicationSubmissionContext,
  ClusterSecurity,
  Principal,
  ServiceDirectory,
  ServiceEntry,
  Submitter,
} from "../shared/protocol/application-client.ts";
import type {
  AllocateRequest,
  AllocateResponse,
  ApplicationMasterProtocol,
  FinishApplicationMasterRequest,
  RegisterApplicationMasterRequest,
  ResourceRequest,
} from "../shared/protocol/application-master.ts";
import type { MasterName } from "../shared/protocol/container-management.ts";
import type {
  ResourceTracker as ResourceTrackerProtocol,
  TrackerReport,
  TrackerReportReply,
} from "../shared/protocol/resource-tracker.ts";
import { ClusterKeys } from "./cluster-security.ts";
import { type Env, servesRegistry } from "./env.ts";
import { trackerName } from "./names.ts";
import { Shell } from "./shell.ts";

/** A master that was told of news and does not ask for them is told again after this long. */
const WAKE_AGAIN_MS = 2_000;
/** A node that was told to shut down and is still there is told again after this long. */
const SHUTDOWN_AGAIN_MS = 30_000;

export class ResourceManager
  extends DurableObject<Env>
  implements
    ApplicationClientProtocol,
    ApplicationMasterProtocol,
    ResourceTrackerProtocol,
    ResourceManagerAdministrationProtocol,
    ServiceDirectory,
    ClusterSecurity
{
  readonly #cluster: Cluster;
  readonly #name: string;
  readonly #security: ClusterKeys;
  readonly #shell: Shell<ClusterWork>;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#name = ctx.id.name ?? "default";
    this.#security = new ClusterKeys(ctx.storage.sql, {
      cluster: this.#name,
      ...(env.SELVEDGE_CLAIM_CODE ? { claimCode: env.SELVEDGE_CLAIM_CODE } : {}),
      nowMs: () => Date.now(),
    });
    const cluster = new Cluster({ servesRegistry: servesRegistry(env) });
    this.#cluster = cluster;
    this.#shell = new Shell(ctx, {
      tables: cluster.tables,
      drain: () => cluster.drain(),
      restore: () => cluster.restore(),
      settle: (nowMs) => settleCluster(cluster, nowMs),
      nextDeadlineMs: () => nextClusterDeadlineMs(cluster),
      work: () => clusterWork(cluster),
      perform: (work) => this.#perform(work),
    });
  }

  // --- ApplicationClientProtocol ---------------------------------------------------------------

  async submitApplication(context: ApplicationSubmissionContext) {
    return this.#shell.run("submitApplication", (nowMs) =>
      submitApplication(this.#cluster, context, nowMs),
    );
  }

  async planApplication(
    context: ApplicationSubmissionContext,
    asks: readonly ResourceRequest[],
  ): Promise<Reply<ApplicationPlan>> {
    return planApplication(this.#cluster, context, asks, Date.now());
  }

  async forceKillApplication(applicationId: ApplicationId, diagnostics: string) {
    return this.#shell.run("forceKillApplication", (nowMs) =>
      forceKillApplication(this.#cluster, applicationId, diagnostics, nowMs),
    );
  }

  async setApplicationPriority(applicationId: ApplicationId, priority: number) {
    return this.#shell.run("setApplicationPriority", (nowMs) =>
      setApplicationPriority(this.#cluster, applicationId, priority, nowMs),
    );
  }

  async moveApplication(applicationId: ApplicationId, queue: string, by: Submitter) {
    return this.#shell.run("moveApplication", (nowMs) =>
      moveApplication(this.#cluster, applicationId, queue, by, nowMs),
    );
  }

  async getActivities(viewer: Submitter, applicationId?: ApplicationId) {
    return getActivities(this.#cluster, viewer, applicationId);
  }

  async getApplications(viewer?: Submitter) {
    return getApplications(this.#cluster, viewer);
  }

  async getApplicationReport(
    applicationId: ApplicationId,
    who: Submitter,
    right: ApplicationAccessType,
  ) {
    return getApplicationReport(this.#cluster, applicationId, who, right);
  }

  async checkApplicationAccess(
    applicationId: ApplicationId,
    who: Submitter,
    right: ApplicationAccessType,
  ) {
    return checkApplicationAccess(this.#cluster, applicationId, who, right);
  }

  async getContainers(attemptId: ApplicationAttemptId) {
    return getContainers(this.#cluster, attemptId);
  }

  async getContainer(containerId: ContainerId) {
    return getContainer(this.#cluster, containerId);
  }

  async getContainerOwner(containerId: ContainerId) {
    return getContainerOwner(this.#cluster, containerId);
  }

  async findLiveContainer(containerId: ContainerId) {
    return findLiveContainer(this.#cluster, containerId);
  }

  async getClusterNodes() {
    return getClusterNodes(this.#cluster);
  }

  async getClusterInfo() {
    return getClusterInfo(this.#cluster, this.#name, await this.#security.isClaimed());
  }

  async listServices(viewer?: Submitter) {
    return listServices(this.#cluster, viewer);
  }

  async findService(user: string, name: string, viewer: Submitter) {
    return findService(this.#cluster, user, name, viewer);
  }

  async reportService(master: MasterName, generation: number, entry: ServiceEntry | null) {
    return this.#shell.run("reportService", (nowMs) =>
      reportService(this.#cluster, master, generation, entry, nowMs),
    );
  }

  // --- ApplicationMasterProtocol ---------------------------------------------------------------

  async registerApplicationMaster(
    attemptId: ApplicationAttemptId,
    _request: RegisterApplicationMasterRequest,
  ) {
    return this.#shell.run("registerApplicationMaster", () =>
      registerApplicationMaster(this.#cluster, attemptId),
    );
  }

  async allocate(
    attemptId: ApplicationAttemptId,
    request: AllocateRequest,
  ): Promise<Reply<AllocateResponse>> {
    const reply = this.#shell.run("allocate", (nowMs) =>
      allocate(this.#cluster, attemptId, request, nowMs),
    );
    if (!reply.ok) return reply;
    const { allocated, updated, ...rest } = reply.value;
    const user = this.#cluster.applicationOf(attemptId)?.user ?? "";
    const containers = await this.#containers([...allocated, ...updated], user);
    return ok({
      ...rest,
      allocated: containers.slice(0, allocated.length),
      updated: containers.slice(allocated.length),
    });
  }

  /** Containers as their master gets them, with a fresh token each. */
  async #containers(rows: readonly ContainerRow[], user: string): Promise<readonly Container[]> {
    if (rows.length === 0) return [];
    const tokens = await this.#security.signContainerTokens(
      rows.map(({ containerId, nodeId, resource, version }) => ({
        containerId,
        nodeId,
        user,
        resource,
        version,
      })),
      ALLOCATION_EXPIRY_MS / 1000,
    );
    const registry = await Promise.all(
      rows.map(({ containerId }) => this.#registryCredential(containerId)),
    );
    return rows.map((row, index) => ({
      containerId: row.containerId,
      attemptId: row.attemptId,
      nodeId: row.nodeId,
      nodeIncarnation: row.nodeIncarnation,
      resource: row.resource,
      version: row.version,
      executionType: row.executionType,
      priority: row.priority,
      allocationRequestId: row.allocationRequestId,
      token: tokens[index] ?? "",
      ...registry[index],
    }));
  }

  async #registryCredential(containerId: ContainerId): Promise<Pick<Container, "registry">> {
    const path = registryPathOf(this.#cluster, containerId);
    if (path === null) return {};
    return { registry: { path, token: await this.#security.signRegistryToken(containerId, path) } };
  }

  async finishApplicationMaster(
    attemptId: ApplicationAttemptId,
    request: FinishApplicationMasterRequest,
  ) {
    return this.#shell.run("finishApplicationMaster", (nowMs) =>
      finishApplicationMaster(this.#cluster, attemptId, request, nowMs),
    );
  }

  // --- ResourceTracker -------------------------------------------------------------------------

  async reportNodes(report: TrackerReport): Promise<Reply<TrackerReportReply>> {
    const keys = await this.#security.getVerificationKeys();
    return this.#shell.run("reportNodes", (nowMs) =>
      ok({ ...reportNodes(this.#cluster, report, nowMs), keys }),
    );
  }

  // --- ResourceManagerAdministrationProtocol -----------------------------------------------------

  async updateNodes(changes: readonly NodeChange[]) {
    return this.#shell.run("updateNodes", (nowMs) => {
      const reply = updateNodes(this.#cluster, changes);
      if (reply.ok) {
        this.#settleNodes(
          changes.map(({ nodeId }) => nodeId),
          nowMs,
        );
      }
      return reply;
    });
  }

  async decommissionNodes(nodes: readonly NodeId[], timeoutSeconds: number | null) {
    return this.#shell.run("decommissionNodes", (nowMs) => {
      const reply = decommissionNodes(this.#cluster, nodes, timeoutSeconds, nowMs);
      if (reply.ok) this.#settleNodes(nodes, nowMs);
      return reply;
    });
  }

  async recommissionNodes(nodes: readonly NodeId[]) {
    return this.#shell.run("recommissionNodes", (nowMs) => {
      const reply = recommissionNodes(this.#cluster, nodes);
      if (reply.ok) this.#settleNodes(nodes, nowMs);
      return reply;
    });
  }

  async getQueues() {
    return getQueues(this.#cluster);
  }

  async getSchedulerConf() {
    return getSchedulerConf(this.#cluster);
  }

  async getSchedulerConfVersions() {
    return getSchedulerConfVersions(this.#cluster);
  }

  async changeSchedulerConf(
    change: SchedulerConfChange,
    by: { readonly user: string; readonly comment: string; readonly isDryRun: boolean },
  ) {
    return this.#shell.run("changeSchedulerConf", (nowMs) => {
      const properties = propertiesAfter(this.#cluster, change);
      if (!properties.ok) return properties;
      const next = { properties: properties.value, ...by };
      const reply = changeConfiguration(this.#cluster, next, nowMs);
      if (reply.ok && !by.isDryRun) this.#settleNodes(this.#nodeIds(), nowMs);
      return reply;
    });
  }

  async rollBackSchedulerConf(version: number, user: string) {
    return this.#shell.run("rollBackSchedulerConf", (nowMs) => {
      const reply = rollBackConfiguration(this.#cluster, version, user, nowMs);
      if (reply.ok) this.#settleNodes(this.#nodeIds(), nowMs);
      return reply;
    });
  }

  async checkQueueAccess(queue: string, right: "submit" | "administer", who: Submitter) {
    return checkQueueAccess(this.#cluster, queue, right, who);
  }

  async getNodeLabels() {
    return getNodeLabels(this.#cluster);
  }

  async getNodeLists() {
    return nodeLists(this.#cluster);
  }

  async setNodeLists(lists: NodeLists) {
    return this.#shell.run("setNodeLists", (nowMs) => {
      setNodeLists(this.#cluster, lists);
      this.#settleNodes(this.#nodeIds(), nowMs);
      return ok();
    });
  }

  #nodeIds(): readonly NodeId[] {
    return [...this.#cluster.nodes.values()].map(({ facts }) => facts.nodeId);
  }

  #settleNodes(nodes: readonly NodeId[], nowMs: number): void {
    for (const nodeId of nodes) settleNode(this.#cluster, nodeId, nowMs);
    this.#cluster.schedule(nowMs);
  }

  // --- ClusterSecurity -------------------------------------------------------------------------

  async getVerificationKeys() {
    return this.#security.getVerificationKeys();
  }

  async isClaimed() {
    return this.#security.isClaimed();
  }

  async claim(code: string, user: string) {
    return this.#security.claim(code, user);
  }

  async createToken(principal: Principal, lifetimeSeconds: number) {
    return this.#security.createToken(principal, lifetimeSeconds);
  }

  async createJoinToken(uses: number, lifetimeSeconds: number) {
    return this.#security.createJoinToken(uses, lifetimeSeconds);
  }

  async joinNode(jti: string, nodeId: NodeId) {
    return this.#security.joinNode(jti, nodeId);
  }

  // --- what is to be said to others ------------------------------------------------------------

  override async alarm() {
    this.#shell.alarm();
  }

  async #perform(work: ClusterWork): Promise<number> {
    switch (work.type) {
      case "wake": {
        const master = this.#cluster.applicationOf(work.attemptId)?.master;
        if (!master) return WAKE_AGAIN_MS;
        await this.env.SERVICE_MASTER.getByName(master).onAllocateReady(work.attemptId);
        return WAKE_AGAIN_MS;
      }
      case "cleanup": {
        const tracker = this.env.RESOURCE_TRACKER.getByName(trackerName(this.#name, work.shard));
        const gone = await tracker.cleanupContainers([...work.orders]);
        this.#shell.run("cleanupsSent", (nowMs) =>
          cleanupsSent(this.#cluster, work.orders, gone, nowMs),
        );
        return 0;
      }
      case "finish": {
        const { shard, applicationIds } = work;
        const tracker = this.env.RESOURCE_TRACKER.getByName(trackerName(this.#name, shard));
        await tracker.finishApplications([...applicationIds]);
        this.#shell.run("finishedTold", () => finishedTold(this.#cluster, shard, applicationIds));
        return 0;
      }
      case "shutdown": {
        const tracker = this.env.RESOURCE_TRACKER.getByName(trackerName(this.#name, work.shard));
        await tracker.shutdownNodes([...work.orders]);
        return SHUTDOWN_AGAIN_MS;
      }
      case "purge": {
        const reply = await this.#registry().purgeEnded(work.ended);
        if (!reply.ok) throw new Error(reply.error.message);
        this.#shell.run("endsPurged", () => endsPurged(this.#cluster, work.ended));
        return 0;
      }
      case "homes": {
        const reply = await this.#registry().createHomes(work.users);
        if (!reply.ok) throw new Error(reply.error.message);
        this.#shell.run("homesMade", () => homesMade(this.#cluster, work.users));
        return 0;
      }
    }
  }

  #registry() {
    return this.env.REGISTRY.getByName(this.#name);
  }
}
