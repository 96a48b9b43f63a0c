/** The ResourceManager as durable/resource-manager.ts runs it, without tokens that mean anything. */
import {
  forceKillApplication,
  reportService,
  submitApplication,
} from "../../src/core/cluster/application.ts";
import {
  allocate,
  finishApplicationMaster,
  registerApplicationMaster,
} from "../../src/core/cluster/application-master.ts";
import { ALLOCATION_EXPIRY_MS, Cluster } from "../../src/core/cluster/cluster.ts";
import {
  cleanupsSent,
  nextExpiryMs,
  reportNodes,
  settleNode,
  shutdownOrders,
  unsentCleanups,
} from "../../src/core/cluster/node.ts";
import {
  decommissionNodes,
  recommissionNodes,
} from "../../src/core/cluster/node-administration.ts";
import {
  endsPurged,
  endsToPurge,
  homesMade,
  usersWithoutHome,
} from "../../src/core/cluster/registry-duties.ts";
import type { ContainerRow } from "../../src/core/cluster/rows.ts";
import { nextClusterDeadlineMs, settleCluster } from "../../src/core/cluster/settle.ts";
import { ok, type Reply } from "../../src/shared/errors.ts";
import type {
  ApplicationSubmissionContext,
  ServiceEntry,
} from "../../src/shared/protocol/application-client.ts";
import type {
  AllocateRequest,
  AllocateResponse,
  FinishApplicationMasterRequest,
} from "../../src/shared/protocol/application-master.ts";
import type { YarnEnd } from "../../src/shared/protocol/registry-operations.ts";
import type {
  CleanupOrder,
  ShutdownOrder,
  TrackerReport,
} from "../../src/shared/protocol/resource-tracker.ts";
import { DurableObject } from "./durable-object.ts";
import type { Peers } from "./peers.ts";
import type { SimulatedRegistry } from "./registry.ts";

const WAKE_AGAIN_MS = 2_000;
const SHUTDOWN_AGAIN_MS = 30_000;

type Work =
  | { readonly key: string; readonly type: "wake"; readonly attemptId: string }
  | {
      readonly key: string;
      readonly type: "cleanup";
      readonly shard: string;
      readonly orders: readonly CleanupOrder[];
    }
  | {
      readonly key: string;
      readonly type: "shutdown";
      readonly shard: string;
      readonly orders: readonly ShutdownOrder[];
    }
  | { readonly key: string; readonly type: "purge"; readonly ended: readonly YarnEnd[] }
  | { readonly key: string; readonly type: "homes"; readonly users: readonly string[] };

type Settled = (holdMs: number | null) => void;

export class SimulatedResourceManager extends DurableObject<Cluster, Work> {
  peers: Peers | undefined;

  protected override create(): Cluster {
    const cluster = new Cluster();
    this.world.mutant.cluster?.(cluster);
    return cluster;
  }

  protected override restore(cluster: Cluster): void {
    cluster.restore();
  }

  protected override settle(nowMs: number): void {
    settleCluster(this.core, nowMs);
  }

  protected override nextDeadlineMs(): number | null {
    return nextClusterDeadlineMs(this.core);
  }

  override digest(core: Cluster): string {
    const nodes = [...core.nodes.values()]
      .map(({ facts }) => facts.nodeId)
      .sort()
      // Reservations are made anew after a restart.
      .map((nodeId) => ({ ...core.scheduler.nodeUsage(nodeId), reserved: null }));
    const attempts = [...core.applications.values()]
      .map(({ attemptId }) => attemptId)
      .sort()
      .map((attemptId) => [
        { ...core.scheduler.attemptUsage(attemptId), reserved: null },
        core.scheduler.asks(attemptId),
      ]);
    const cleanups = [...unsentCleanups(core).values()].flat().map((order) => order.containerId);
    const news = [...core.attemptsWithNews()].sort();
    const duties = [endsToPurge(core), [...usersWithoutHome(core)].sort()];
    return JSON.stringify([nodes, attempts, cleanups.sort(), news, nextExpiryMs(core), duties]);
  }

  submitApplication(context: ApplicationSubmissionContext) {
    return this.run("submitApplication", (nowMs) => submitApplication(this.core, context, nowMs));
  }

  forceKillApplication(applicationId: string) {
    return this.run("forceKillApplication", (nowMs) =>
      forceKillApplication(this.core, applicationId, "killed by an operator", nowMs),
    );
  }

  registerApplicationMaster(attemptId: string) {
    return this.run("registerApplicationMaster", () =>
      registerApplicationMaster(this.core, attemptId),
    );
  }

  allocate(attemptId: string, request: AllocateRequest): Reply<AllocateResponse> {
    const reply = this.run("allocate", (nowMs) =>
      (this.world.mutant.allocate ?? allocate)(this.core, attemptId, request, nowMs),
    );
    if (!reply.ok) return reply;
    const expiresMs = this.world.nowMs + ALLOCATION_EXPIRY_MS;
    const { allocated, updated, ...rest } = reply.value;
    const withToken = (row: ContainerRow) => ({
      containerId: row.containerId,
      attemptId,
      nodeId: row.nodeId,
      nodeIncarnation: row.nodeIncarnation,
      resource: row.resource,
      version: row.version,
      executionType: row.executionType,
      priority: row.priority,
      allocationRequestId: row.allocationRequestId,
      token: `${row.containerId} ${row.nodeId} ${expiresMs}`,
    });
    return ok({ ...rest, allocated: allocated.map(withToken), updated: updated.map(withToken) });
  }

  finishApplicationMaster(attemptId: string, request: FinishApplicationMasterRequest) {
    return this.run("finishApplicationMaster", (nowMs) =>
      finishApplicationMaster(this.core, attemptId, request, nowMs),
    );
  }

  decommissionNode(nodeId: string, timeoutSeconds: number | null) {
    return this.run("decommissionNode", (nowMs) => {
      decommissionNodes(this.core, [nodeId], timeoutSeconds, nowMs);
      settleNode(this.core, nodeId, nowMs);
    });
  }

  recommissionNode(nodeId: string) {
    return this.run("recommissionNode", (nowMs) => {
      recommissionNodes(this.core, [nodeId]);
      settleNode(this.core, nodeId, nowMs);
    });
  }

  reportNodes(report: TrackerReport) {
    return this.run("reportNodes", (nowMs) => reportNodes(this.core, report, nowMs));
  }

  reportService(master: string, generation: number, entry: ServiceEntry | null) {
    return this.run("reportService", (nowMs) =>
      reportService(this.core, master, generation, entry, nowMs),
    );
  }

  protected override work(): readonly Work[] {
    const work: Work[] = [];
    for (const attemptId of this.core.attemptsWithNews()) {
      work.push({ key: `wake ${attemptId}`, type: "wake", attemptId });
    }
    for (const [shard, orders] of unsentCleanups(this.core)) {
      work.push({ key: `cleanup ${shard}`, type: "cleanup", shard, orders });
    }
    for (const [shard, orders] of shutdownOrders(this.core)) {
      work.push({ key: `shutdown ${shard}`, type: "shutdown", shard, orders });
    }
    const ended = endsToPurge(this.core);
    if (ended.length > 0) work.push({ key: "purge", type: "purge", ended });
    const users = usersWithoutHome(this.core);
    if (users.length > 0) work.push({ key: "homes", type: "homes", users });
    return work;
  }

  protected override perform(work: Work, settled: Settled): void {
    switch (work.type) {
      case "wake":
        this.#wake(work.attemptId, settled);
        break;
      case "cleanup":
        this.#cleanUp(work.shard, work.orders, settled);
        break;
      case "shutdown":
        this.#shutDown(work.shard, work.orders, settled);
        break;
      case "purge":
        this.#tellRegistry(settled, {
          what: "purgeEnded",
          request: (registry) => registry.purgeEnded(work.ended),
          reply: () => this.run("endsPurged", () => endsPurged(this.core, work.ended)),
        });
        break;
      case "homes":
        this.#tellRegistry(settled, {
          what: "createHomes",
          request: (registry) => registry.createHomes(work.users),
          reply: () => this.run("homesMade", () => homesMade(this.core, work.users)),
        });
    }
  }

  #tellRegistry(
    settled: Settled,
    call: {
      readonly what: string;
      readonly request: (registry: SimulatedRegistry) => Reply<unknown>;
      readonly reply: () => void;
    },
  ): void {
    const registry = this.peers?.registry;
    if (!registry) throw new Error("the ResourceManager was not put into a cluster");
    this.network.call({
      from: this,
      to: registry,
      what: `rm -> registry ${call.what}`,
      request: () => call.request(registry),
      reply: (reply) => {
        if (reply.ok) call.reply();
        settled(reply.ok ? 0 : null);
      },
      failed: () => settled(null),
    });
  }

  #cleanUp(shard: string, orders: readonly CleanupOrder[], settled: Settled): void {
    const tracker = this.peers?.tracker(shard);
    if (!tracker) {
      settled(null);
      return;
    }
    this.network.call({
      from: this,
      to: tracker,
      what: `rm -> ${tracker.name} cleanupContainers`,
      request: () => tracker.cleanupContainers(orders),
      reply: (gone) => {
        this.run("cleanupsSent", (nowMs) => cleanupsSent(this.core, orders, gone, nowMs));
        settled(0);
      },
      failed: () => settled(null),
    });
  }

  #shutDown(shard: string, orders: readonly ShutdownOrder[], settled: Settled): void {
    const tracker = this.peers?.tracker(shard);
    if (!tracker) {
      settled(null);
      return;
    }
    this.network.call({
      from: this,
      to: tracker,
      what: `rm -> ${tracker.name} shutdownNodes`,
      request: () => tracker.shutdownNodes(orders),
      reply: () => settled(SHUTDOWN_AGAIN_MS),
      failed: () => settled(null),
    });
  }

  #wake(attemptId: string, settled: Settled): void {
    const master = this.peers?.master(this.core.applicationOf(attemptId)?.master ?? "");
    if (!master) {
      settled(WAKE_AGAIN_MS);
      return;
    }
    this.network.call({
      from: this,
      to: master,
      what: `rm -> ${master.name} onAllocateReady`,
      request: () => master.onAllocateReady(attemptId),
      reply: () => settled(WAKE_AGAIN_MS),
      failed: () => settled(null),
    });
  }
}
