/**
 * A cluster on a workbench: the ResourceManager's books, one tracker and one service, joined
 * without a network and without faults. After every step everything that anybody has to say is
 * said, nodes do as they are told, and the books are checked.
 *
 *   const cluster = harness();
 *   cluster.node("a", { memoryMb: 1_024 });
 *   cluster.create({ components: [component({ number_of_containers: 2 })] });
 *   cluster.states(); // { "hello-0": "READY", "hello-1": "READY" }
 */
import { expect } from "vitest";
import { reportService, submitApplication } from "../../src/core/cluster/application.ts";
import {
  allocate,
  finishApplicationMaster,
  registerApplicationMaster,
} from "../../src/core/cluster/application-master.ts";
import { Cluster, isLive } from "../../src/core/cluster/cluster.ts";
import {
  cleanupsSent,
  expireAllocations,
  reportNodes,
  unsentCleanups,
} from "../../src/core/cluster/node.ts";
import { Tracker } from "../../src/core/cluster/tracker.ts";
import {
  containerStatuses,
  expireNodes,
  nodeDisconnected,
  nodeHealth,
  registerNodeManager,
} from "../../src/core/cluster/tracker-node.ts";
import { containerHandedOver, containerStatus } from "../../src/core/service/instance.ts";
import {
  applicationFinished,
  applicationSubmitted,
  createService,
  forgetService,
  masterRegistered,
  settle,
  submissionRefused,
} from "../../src/core/service/lifecycle.ts";
import { recordsPublished } from "../../src/core/service/records.ts";
import { updateHandedOver } from "../../src/core/service/reinitialization.ts";
import { Service } from "../../src/core/service/state.ts";
import { timeline } from "../../src/core/service/timeline.ts";
import { viewService } from "../../src/core/service/view.ts";
import { allocated, type ServiceWork, serviceWork } from "../../src/core/service/work.ts";
import {
  type ContainerLaunchContext,
  type ContainerStatus,
  EXIT,
} from "../../src/shared/container.ts";
import type { Reply } from "../../src/shared/errors.ts";
import type { NodeFacts } from "../../src/shared/node.ts";
import type { DesiredContainer } from "../../src/shared/protocol/resource-tracker.ts";
import { fitsIn, NO_RESOURCE, type Resource } from "../../src/shared/resource.ts";
import type { ServiceView } from "../../src/shared/service.ts";
import { defined, OWNER, SUBMITTER, yarnfile } from "./yarnfile.ts";

export const MASTER = "default/ann/hello-world";
const SHARD = "0";

type Run = Extract<DesiredContainer, { state: "RUN" }>;

/** What a node has of a container's launch contexts. */
type Launches = {
  revision: number;
  version: number;
  previous?: number | undefined;
  contexts: ReadonlyMap<number, ContainerLaunchContext>;
};

export function harness() {
  return new Harness();
}

export class Harness {
  nowMs = 1_000_000;
  readonly cluster = new Cluster();
  readonly tracker = new Tracker();
  readonly service = new Service();
  /** Containers do not become ready by themselves. */
  holdReadiness = false;
  /** Nodes do nothing of what they are told, as when they are cut off. */
  deafNodes = new Set<string>();
  readonly #living = new Map<string, string>();
  #session = 0;
  /**
   * What nodes do with a launch context that is to take the place of a running one; "broken": its
   * process fails at once, so that they go back to the one before.
   */
  updates: "done" | "refused" | "held" | "broken" = "done";
  readonly #launches = new Map<string, Launches>();
  #submissions = 0;

  // --- nodes -----------------------------------------------------------------------------------

  node(name: string, capability: Partial<Resource> = {}): void {
    this.#session += 1;
    const containers = [...this.#living]
      .filter(([, nodeId]) => nodeId === nodeIdOf(name))
      .map(([containerId]) => this.#running(containerId));
    const message = {
      type: "register",
      protocolVersion: 1,
      node: facts(name, capability),
      containers,
    } as const;
    registerNodeManager(this.tracker, message, this.#session, []);
    this.run();
  }

  /** Its connection breaks and does not come back within the grace period. */
  loseNode(name: string): void {
    const nodeId = nodeIdOf(name);
    const session = this.tracker.nodes.get(nodeId)?.session ?? 0;
    nodeDisconnected(this.tracker, nodeId, session, this.nowMs);
    this.deafNodes.add(name);
    this.advance(10_000);
  }

  setHealth(name: string, healthy: boolean, healthReport = ""): void {
    nodeHealth(this.tracker, nodeIdOf(name), { healthy, healthReport });
    this.run();
  }

  // --- the service -----------------------------------------------------------------------------

  create(changes: Readonly<Record<string, unknown>> = {}): Reply<undefined> {
    const reply = createService(
      this.service,
      {
        user: OWNER.user,
        submitter: SUBMITTER,
        definition: defined(yarnfile(changes)),
        submissionId: this.submissionId(),
      },
      this.nowMs,
    );
    this.run();
    return reply;
  }

  submissionId(): string {
    this.#submissions += 1;
    return `submission-${this.#submissions}`;
  }

  /** A command on the service, and all that follows from it. */
  command<Value>(command: (service: Service, nowMs: number) => Value): Value {
    const value = command(this.service, this.nowMs);
    this.run();
    return value;
  }

  /** The process of an instance ends by itself. */
  exit(instance: string, exitStatus: number): void {
    const containerId = this.containerOf(instance);
    const nodeId = this.#living.get(containerId) ?? "";
    this.#living.delete(containerId);
    const status = this.#ended(containerId, exitStatus, `exit code ${exitStatus}`);
    containerStatuses(this.tracker, nodeId, [status]);
    this.run();
  }

  setReady(instance: string, ready: boolean, readiness = ""): void {
    this.report(instance, { ready, readiness });
  }

  /** Its node says something else of an instance's container. */
  report(instance: string, changes: Partial<ContainerStatus>): void {
    const containerId = this.containerOf(instance);
    const nodeId = this.#living.get(containerId) ?? "";
    containerStatuses(this.tracker, nodeId, [{ ...this.#running(containerId), ...changes }]);
    this.run();
  }

  /** Time passes, and what was due happens. */
  advance(durationMs: number): void {
    this.nowMs += durationMs;
    this.run();
  }

  // --- what there is to see --------------------------------------------------------------------

  states(): Readonly<Record<string, string>> {
    const rows = [...this.service.instances.values()];
    return Object.fromEntries(rows.map(({ name, state }) => [name, state]).sort());
  }

  containerOf(instance: string): string {
    const containerId = this.service.instances.get(instance)?.container?.containerId;
    if (containerId === undefined) throw new Error(`${instance} has no container`);
    return containerId;
  }

  view(): ServiceView {
    const reply = viewService(this.service, OWNER.domain, this.nowMs);
    if (!reply.ok) throw new Error(reply.error.message);
    return reply.value;
  }

  events(): readonly string[] {
    return timeline(this.service).map(({ type }) => type);
  }

  /** What the process of an instance was started with. */
  launchOf(instance: string): ContainerLaunchContext | undefined {
    const launches = this.#launches.get(this.containerOf(instance));
    return launches?.contexts.get(launches.version);
  }

  /** Whether its node can still take the launch before again. */
  isPending(instance: string): boolean {
    return this.#launches.get(this.containerOf(instance))?.previous !== undefined;
  }

  running(): readonly string[] {
    return [...this.#living.keys()].sort();
  }

  // --- the workbench ---------------------------------------------------------------------------

  /** Until nobody has anything to say. */
  run(): void {
    for (let round = 0; round < 100; round += 1) {
      settle(this.service, this.nowMs);
      expireAllocations(this.cluster, this.nowMs);
      expireNodes(this.tracker, this.nowMs);
      const spoken = [this.#serviceSpeaks(), this.#clusterSpeaks(), this.#trackerSpeaks()];
      this.#checkInvariants();
      if (!spoken.includes(true)) return;
    }
    throw new Error("the cluster does not come to rest");
  }

  #serviceSpeaks(): boolean {
    const work = serviceWork(this.service, { master: MASTER, domain: OWNER.domain });
    for (const item of work) this.#perform(item);
    return work.length > 0;
  }

  #perform(work: ServiceWork): void {
    const { cluster, service, nowMs } = this;
    switch (work.type) {
      case "submit": {
        const reply = submitApplication(cluster, work.context, nowMs);
        if (reply.ok) applicationSubmitted(service, work.submissionId, reply.value);
        else submissionRefused(service, work.submissionId, reply.error.message, nowMs);
        break;
      }
      case "register":
        registerApplicationMaster(cluster, work.attemptId);
        masterRegistered(service, work.attemptId, nowMs);
        break;
      case "allocate":
        this.#allocate(work);
        break;
      case "start":
        this.tracker.startContainers(MASTER, work.requests);
        for (const { containerId } of work.requests) containerHandedOver(service, containerId);
        break;
      case "update":
        for (const updated of this.tracker.updateContainers(MASTER, work.requests)) {
          updateHandedOver(service, updated);
        }
        break;
      case "finish":
        finishApplicationMaster(cluster, work.attemptId, work.request, nowMs);
        applicationFinished(service, work.attemptId);
        break;
      case "publish":
        recordsPublished(service, work.operations);
        break;
      case "report":
        reportService(cluster, MASTER, work.generation, work.entry, nowMs);
        service.update({ entryHeard: work.generation });
        break;
      case "wipe":
        forgetService(service);
    }
  }

  #allocate({ attemptId, request }: Extract<ServiceWork, { type: "allocate" }>): void {
    const reply = allocate(this.cluster, attemptId, request, this.nowMs);
    this.service.newsWaiting = false;
    if (!reply.ok) return;
    const granted = reply.value.allocated.map((row) => ({ ...row, token: "token" }));
    const updated = reply.value.updated.map((row) => ({ ...row, token: `token ${row.version}` }));
    const answer = { ...reply.value, allocated: granted, updated };
    allocated(this.service, request, answer, this.nowMs);
  }

  #clusterSpeaks(): boolean {
    const { attemptId } = this.service.row ?? {};
    const news = this.cluster.attemptsWithNews();
    const isTold = attemptId != null && news.includes(attemptId);
    if (isTold) this.service.newsWaiting = true;
    const cleanups = [...unsentCleanups(this.cluster).values()];
    for (const orders of cleanups) {
      const gone = this.tracker.cleanupContainers(orders);
      cleanupsSent(this.cluster, orders, gone, this.nowMs);
    }
    return isTold || cleanups.length > 0;
  }

  #trackerSpeaks(): boolean {
    const messages = this.tracker.drainMessages();
    for (const { nodeId, message } of messages) {
      if (message.type === "registered") this.#killOthers(nodeId, message.desired);
      const entries =
        message.type === "registered"
          ? message.desired
          : message.type === "desired"
            ? message.put
            : [];
      for (const entry of entries) this.#obey(nodeId, entry);
    }
    const report = this.tracker.report(SHARD);
    if (report) {
      const { acknowledged, cleanup } = reportNodes(this.cluster, report, this.nowMs);
      this.tracker.reportAcknowledged(acknowledged, cleanup);
    }
    const masters = this.tracker.unheardMasters();
    for (const master of masters) {
      const { generation, statuses } = this.tracker.statusesFor(master);
      for (const status of statuses) containerStatus(this.service, status, this.nowMs);
      this.tracker.statusesAcknowledged(master, generation);
    }
    return messages.length > 0 || report !== null || masters.length > 0;
  }

  #obey(nodeId: string, entry: DesiredContainer): void {
    if (this.deafNodes.has(nodeId.slice(0, nodeId.indexOf(":")))) return;
    const { containerId } = entry;
    if (entry.state === "RUN") {
      if (this.#living.has(containerId)) {
        this.#update(nodeId, entry);
        return;
      }
      const contexts = new Map(entry.launch ? [[1, entry.launch] as const] : []);
      this.#launches.set(containerId, { revision: 0, version: 1, contexts });
      this.#living.set(containerId, nodeId);
      containerStatuses(this.tracker, nodeId, [this.#running(containerId)]);
      return;
    }
    this.#living.delete(containerId);
    const { exitStatus, diagnostics } = entry;
    containerStatuses(this.tracker, nodeId, [this.#ended(containerId, exitStatus, diagnostics)]);
  }

  /** As agent/container-updates.ts does it. */
  #update(nodeId: string, { containerId, revision = 0, launch, reInitialization }: Run): void {
    const before = this.#launches.get(containerId);
    if (!before || revision <= before.revision || this.updates === "held") return;
    const next: Launches = { ...before, revision };
    const takes = launch !== undefined && (launch.version ?? 1) > before.version;
    let diagnostics = "";
    if (reInitialization === "ROLLED_BACK") {
      next.version = before.previous ?? before.version;
      next.previous = undefined;
    } else if (takes && this.updates === "refused") {
      diagnostics = "Container update refused: the disk is full";
    } else if (takes && this.updates === "broken" && reInitialization === "PENDING") {
      diagnostics = "Container re-initialization rolled back: exit code 1";
    } else {
      if (takes) {
        next.previous = before.version;
        next.version = launch.version ?? 1;
        next.contexts = new Map([...before.contexts, [next.version, launch]]);
      }
      if (reInitialization !== "PENDING") next.previous = undefined;
    }
    this.#launches.set(containerId, next);
    const status = { ...this.#running(containerId), diagnostics };
    containerStatuses(this.tracker, nodeId, [status]);
  }

  /** What a node has and the tracker does not want is killed. */
  #killOthers(nodeId: string, desired: readonly { readonly containerId: string }[]): void {
    const wanted = new Set(desired.map(({ containerId }) => containerId));
    for (const [containerId, where] of this.#living) {
      if (where === nodeId && !wanted.has(containerId)) this.#living.delete(containerId);
    }
  }

  #running(containerId: string): ContainerStatus {
    const { revision = 0, version = 1 } = this.#launches.get(containerId) ?? {};
    return {
      containerId,
      state: "RUNNING",
      exitStatus: EXIT.INVALID,
      diagnostics: "",
      ready: !this.holdReadiness,
      host: "host",
      ips: ["10.0.0.1"],
      startedMs: this.nowMs,
      ...(revision === 0 ? {} : { revision }),
      ...(version === 1 ? {} : { launchVersion: version }),
    };
  }

  #ended(containerId: string, exitStatus: number, diagnostics: string): ContainerStatus {
    return { containerId, state: "COMPLETE", exitStatus, diagnostics, ready: false };
  }

  #checkInvariants(): void {
    const { cluster, service } = this;
    for (const { facts: node } of cluster.nodes.values()) {
      const used = cluster.scheduler.nodeUsage(node.nodeId)?.used ?? NO_RESOURCE;
      expect(fitsIn(used, node.capability), `${node.nodeId} is over-allocated`).toBe(true);
    }
    for (const { containerId, attemptId, state, cleanup } of cluster.containers.values()) {
      if (state === "COMPLETED" || cleanup !== null) continue;
      const application = cluster.applicationOf(attemptId);
      expect(application && isLive(application), `${containerId} has no owner`).toBe(true);
    }
    const held = [...service.instances.values()].flatMap(({ container }) =>
      container ? [container.containerId] : [],
    );
    expect(new Set(held).size, "a container in two instances").toBe(held.length);
  }
}

export function nodeIdOf(name: string): string {
  return `${name}:8041`;
}

function facts(name: string, capability: Partial<Resource>): NodeFacts {
  return {
    nodeId: nodeIdOf(name),
    host: name,
    rack: "/default-rack",
    capability: { memoryMb: 4_096, vcores: 16, ...capability },
    labels: [],
    attributes: {},
    agentVersion: "1",
    healthy: true,
    healthReport: "",
  };
}
