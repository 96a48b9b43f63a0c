/** A service's master as durable/service-master.ts runs it. */
import { containerHandedOver, containerStatus } from "../../src/core/service/instance.ts";
import {
  applicationFinished,
  applicationSubmitted,
  createService,
  destroyService,
  flexService,
  forgetService,
  masterRegistered,
  nextDeadlineMs,
  setLifetime,
  settle,
  startService,
  stopService,
  submissionRefused,
} from "../../src/core/service/lifecycle.ts";
import { recordsPublished } from "../../src/core/service/records.ts";
import {
  reInitializationsToSay,
  updateHandedOver,
} from "../../src/core/service/reinitialization.ts";
import { restartContainer } from "../../src/core/service/restart.ts";
import { Service } from "../../src/core/service/state.ts";
import {
  cancelUpgrade,
  initiateUpgrade,
  upgradeInstances,
} from "../../src/core/service/upgrade.ts";
import { viewService } from "../../src/core/service/view.ts";
import { allocated, askAnew, type ServiceWork, serviceWork } from "../../src/core/service/work.ts";
import type { ContainerStatus } from "../../src/shared/container.ts";
import type { Failure } from "../../src/shared/errors.ts";
import type {
  StartContainerRequest,
  UpdateContainerRequest,
} from "../../src/shared/protocol/container-management.ts";
import type { FlexRequest, UpgradeMode } from "../../src/shared/protocol/service.ts";
import type { ServiceDefinition } from "../../src/shared/service.ts";
import { shardOf } from "../../src/shared/shard.ts";
import { SUBMITTER } from "../support/yarnfile.ts";
import { DurableObject } from "./durable-object.ts";
import type { Call } from "./network.ts";
import type { Peers } from "./peers.ts";

type Work = ServiceWork & { readonly key: string };
type Settled = (holdMs: number | null) => void;

export const DOMAIN = "example.com";

export class SimulatedServiceMaster extends DurableObject<Service, Work> {
  peers: Peers | undefined;

  protected override create(): Service {
    const service = new Service();
    this.world.mutant.service?.(service);
    return service;
  }

  protected override restore(service: Service): void {
    service.restore();
  }

  protected override settle(nowMs: number): void {
    settle(this.core, nowMs);
  }

  protected override nextDeadlineMs(): number | null {
    return nextDeadlineMs(this.core);
  }

  override digest(core: Service): string {
    const work = serviceWork(core, { master: this.name, domain: DOMAIN });
    const said = work
      .filter(({ type }) => !["allocate", "start", "update"].includes(type))
      .map((item) =>
        item.type === "publish"
          ? item.operations.map((operation) => JSON.stringify(operation)).sort()
          : item,
      );
    const starting = [...core.inState("ASSIGNED"), ...reInitializationsToSay(core)].map(
      ({ name }) => name,
    );
    const view = core.row ? viewService(core, DOMAIN, core.row.launchMs ?? 0) : null;
    const { diagnostics: _, components: __, ...facts } = view?.ok ? view.value : {};
    return JSON.stringify([said, starting.sort(), facts, nextDeadlineMs(core)]);
  }

  // --- the user's commands ---------------------------------------------------------------------

  createService(user: string, definition: ServiceDefinition, submissionId: string) {
    return this.run("createService", (nowMs) =>
      createService(this.core, { user, submitter: SUBMITTER, definition, submissionId }, nowMs),
    );
  }

  startService(submissionId: string) {
    return this.run("startService", (nowMs) =>
      startService(this.core, submissionId, SUBMITTER, nowMs),
    );
  }

  stopService() {
    return this.run("stopService", (nowMs) => stopService(this.core, nowMs));
  }

  flexService(requests: readonly FlexRequest[]) {
    return this.run("flexService", (nowMs) => flexService(this.core, requests, nowMs));
  }

  setLifetime(seconds: number) {
    return this.run("setLifetime", (nowMs) => setLifetime(this.core, seconds, nowMs));
  }

  /** Of an instance, whichever container it has when the command is heard. */
  restartContainer(instance: string) {
    return this.run("restartContainer", (nowMs) => {
      const { containerId = "" } = this.core.instances.get(instance)?.container ?? {};
      return restartContainer(this.core, containerId, nowMs);
    });
  }

  initiateUpgrade(mode: UpgradeMode, definition: ServiceDefinition) {
    return this.run("initiateUpgrade", (nowMs) =>
      initiateUpgrade(this.core, mode, definition, nowMs),
    );
  }

  /** Those of its components that change. */
  upgradeComponents() {
    const components = this.core.upgrade?.changed ?? [];
    return this.run("upgradeInstances", (nowMs) =>
      upgradeInstances(this.core, { components, instances: [] }, nowMs),
    );
  }

  upgradeInstance(instance: string) {
    return this.run("upgradeInstances", (nowMs) =>
      upgradeInstances(this.core, { components: [], instances: [instance] }, nowMs),
    );
  }

  cancelUpgrade() {
    return this.run("cancelUpgrade", (nowMs) => cancelUpgrade(this.core, nowMs));
  }

  destroyService() {
    return this.run("destroyService", (nowMs) => destroyService(this.core, "destroyed", nowMs));
  }

  // --- what others tell ------------------------------------------------------------------------

  onAllocateReady(attemptId: string): void {
    if (this.core.row?.attemptId !== attemptId) return;
    this.run("allocateReady", () => {
      this.core.newsWaiting = true;
    });
  }

  onContainerStatuses(
    shard: string,
    generation: number,
    statuses: readonly ContainerStatus[],
  ): number {
    return this.run("containerStatuses", (nowMs) => {
      const heard = this.core.shards.get(shard)?.generation ?? 0;
      if (!this.core.row || generation < heard) return Math.max(heard, generation);
      this.core.shards.put({ shard, generation });
      for (const status of statuses) containerStatus(this.core, status, nowMs);
      return generation;
    });
  }

  // --- what is to be said to others ------------------------------------------------------------

  protected override work(): readonly Work[] {
    const work: Work[] = [];
    for (const item of serviceWork(this.core, { master: this.name, domain: DOMAIN })) {
      if (item.type === "start") {
        for (const [shard, requests] of this.#byShard(item.requests)) {
          work.push({ type: "start", requests, key: `start ${shard}` });
        }
      } else if (item.type === "update") {
        for (const [shard, requests] of this.#byShard(item.requests)) {
          work.push({ type: "update", requests, key: `update ${shard}` });
        }
      } else {
        work.push({ ...item, key: item.type });
      }
    }
    return work;
  }

  #byShard<Request extends { readonly nodeId: string }>(requests: readonly Request[]) {
    return Map.groupBy(requests, ({ nodeId }) => shardOf(nodeId, this.peers?.shards ?? 1));
  }

  protected override perform(work: Work, settled: Settled): void {
    switch (work.type) {
      case "submit":
        this.#submit(work, settled);
        break;
      case "register":
        this.#register(work.attemptId, settled);
        break;
      case "allocate":
        this.#allocate(work, settled);
        break;
      case "start":
        this.#start(work.key, work.requests, settled);
        break;
      case "update":
        this.#update(work.key, work.requests, settled);
        break;
      case "finish":
        this.#finish(work, settled);
        break;
      case "publish":
        this.#publish(work, settled);
        break;
      case "report":
        this.#report(work, settled);
        break;
      case "wipe":
        this.run("forgetService", () => forgetService(this.core));
        settled(0);
    }
  }

  #submit({ submissionId, context }: Extract<Work, { type: "submit" }>, settled: Settled): void {
    const { resourceManager } = this.#peers();
    this.#tell(settled, {
      to: resourceManager,
      what: "submitApplication",
      request: () => resourceManager.submitApplication(context),
      reply: (reply) =>
        this.run("applicationSubmitted", (nowMs) => {
          if (reply.ok) applicationSubmitted(this.core, submissionId, reply.value);
          else submissionRefused(this.core, submissionId, reply.error.message, nowMs);
        }),
    });
  }

  #register(attemptId: string, settled: Settled): void {
    const { resourceManager } = this.#peers();
    this.#tell(settled, {
      to: resourceManager,
      what: "registerApplicationMaster",
      request: () => resourceManager.registerApplicationMaster(attemptId),
      reply: (reply) => {
        if (!reply.ok) return this.#attemptLost(attemptId, reply.error);
        this.run("masterRegistered", (nowMs) => masterRegistered(this.core, attemptId, nowMs));
      },
    });
  }

  #finish({ attemptId, request }: Extract<Work, { type: "finish" }>, settled: Settled): void {
    const { resourceManager } = this.#peers();
    this.#tell(settled, {
      to: resourceManager,
      what: "finishApplicationMaster",
      request: () => resourceManager.finishApplicationMaster(attemptId, request),
      reply: (reply) => {
        if (!reply.ok && reply.error.code !== "NOT_FOUND") return false;
        this.run("applicationFinished", () => applicationFinished(this.core, attemptId));
      },
    });
  }

  #publish({ operations }: Extract<Work, { type: "publish" }>, settled: Settled): void {
    const { registry } = this.#peers();
    const user = this.core.row?.user ?? "";
    const publication = { publisher: this.name, user, operations, ...this.core.publication() };
    this.#tell(settled, {
      to: registry,
      what: "publish",
      request: () => registry.publish(publication),
      reply: (reply) => {
        if (!reply.ok) return false;
        if (reply.value.overtaken) {
          this.run("overtaken", () => askAnew(this.core));
          return false;
        }
        this.run("recordsPublished", () => recordsPublished(this.core, operations));
      },
    });
  }

  #report({ generation, entry }: Extract<Work, { type: "report" }>, settled: Settled): void {
    const { resourceManager } = this.#peers();
    this.#tell(settled, {
      to: resourceManager,
      what: "reportService",
      request: () => resourceManager.reportService(this.name, generation, entry),
      reply: () => this.run("reported", () => this.core.update({ entryHeard: generation })),
    });
  }

  #peers(): Peers {
    if (!this.peers) throw new Error(`${this.name} was not put into a cluster`);
    return this.peers;
  }

  #allocate(work: Extract<Work, { type: "allocate" }>, settled: Settled): void {
    const { resourceManager } = this.#peers();
    const { attemptId, request } = work;
    this.#tell(settled, {
      to: resourceManager,
      what: "allocate",
      request: () => resourceManager.allocate(attemptId, request),
      reply: (reply) => {
        if (!reply.ok) return this.#attemptLost(attemptId, reply.error);
        this.core.newsWaiting = false;
        this.run("allocated", (nowMs) => allocated(this.core, request, reply.value, nowMs));
      },
      failed: () => this.run("allocateFailed", () => askAnew(this.core)),
    });
  }

  #start(key: string, requests: readonly StartContainerRequest[], settled: Settled): void {
    const tracker = this.#peers().tracker(key.slice("start ".length));
    if (!tracker) {
      settled(null);
      return;
    }
    this.#tell(settled, {
      to: tracker,
      what: "startContainers",
      request: () => tracker.startContainers(this.name, requests),
      reply: () =>
        this.run("containersHandedOver", () => {
          for (const { containerId } of requests) containerHandedOver(this.core, containerId);
        }),
    });
  }

  #update(key: string, requests: readonly UpdateContainerRequest[], settled: Settled): void {
    const tracker = this.#peers().tracker(key.slice("update ".length));
    if (!tracker) {
      settled(null);
      return;
    }
    this.#tell(settled, {
      to: tracker,
      what: "updateContainers",
      request: () => tracker.updateContainers(this.name, requests),
      reply: (updates) =>
        this.run("updatesHandedOver", () => {
          for (const updated of updates) updateHandedOver(this.core, updated);
        }),
    });
  }

  /** Somebody ended the application at the ResourceManager. */
  #attemptLost(attemptId: string, failure: Failure): boolean {
    if (failure.code !== "NOT_FOUND") return false;
    this.run("attemptLost", (nowMs) => {
      if (this.core.row?.attemptId !== attemptId) return;
      stopService(this.core, nowMs, "its application was ended at the ResourceManager");
    });
    return true;
  }

  /** `reply` answers false when the call is to be made again. */
  #tell<Value>(
    settled: Settled,
    call: Omit<Call<Value>, "from" | "reply" | "failed"> & {
      // biome-ignore lint/suspicious/noConfusingVoidType: a handler that says nothing is content
      readonly reply: (value: Value) => boolean | void | undefined;
      readonly failed?: () => void;
    },
  ): void {
    this.network.call({
      ...call,
      what: `${this.name} -> ${call.to.name} ${call.what}`,
      from: this,
      reply: (value) => settled(call.reply(value) === false ? null : 0),
      failed: () => {
        call.failed?.();
        settled(null);
      },
    });
  }
}
