/**
 * The ServiceMaster's Durable Object, one per (cluster, user, service): the ApplicationMaster of a
 * YARN service, running at the edge. It decides nothing itself; core/service does.
 */
import { DurableObject } from "cloudflare:workers";
import { containerHandedOver, containerStatus } from "../core/service/instance.ts";
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
} from "../core/service/lifecycle.ts";
import { packageReferences, type ResolvedPackages } from "../core/service/pinned-source.ts";
import { planRequest, servicePlan } from "../core/service/plan.ts";
import { recordsPublished } from "../core/service/records.ts";
import { noSuchService } from "../core/service/refusals.ts";
import { updateHandedOver } from "../core/service/reinitialization.ts";
import { restartContainer } from "../core/service/restart.ts";
import { defineService } from "../core/service/specification.ts";
import { Service } from "../core/service/state.ts";
import { timeline } from "../core/service/timeline.ts";
import {
  cancelUpgrade,
  initiateUpgrade,
  planServiceUpgrade,
  upgradeInstances,
} from "../core/service/upgrade.ts";
import { viewService } from "../core/service/view.ts";
import { allocated, askAnew, type ServiceWork, serviceWork } from "../core/service/work.ts";
import type { ContainerStatus } from "../shared/container.ts";
import { type Failure, ok, type Reply } from "../shared/errors.ts";
import type { ContainerId, NodeId } from "../shared/ids.ts";
import { LIMITS } from "../shared/limits.ts";
import { noPackageStore, type Package, parsePackageReference } from "../shared/package.ts";
import type { Submitter } from "../shared/protocol/application-client.ts";
import type { ApplicationMasterCallback } from "../shared/protocol/application-master.ts";
import type {
  ContainerStatusCallback,
  StartContainerRequest,
  UpdateContainerRequest,
} from "../shared/protocol/container-management.ts";
import type {
  FlexRequest,
  ServicePlan,
  ServiceProtocol,
  UpgradeMode,
  UpgradePlan,
  UpgradeTargets,
} from "../shared/protocol/service.ts";
import type { ServiceDefinition, ServiceView } from "../shared/service.ts";
import { shardOf } from "../shared/shard.ts";
import type { Yarnfile } from "../shared/yarnfile.ts";
import { domainOf, type Env, trackerShards } from "./env.ts";
import { parseServiceMasterName, trackerName } from "./names.ts";
import { PackageStore } from "./package-store.ts";
import { Shell } from "./shell.ts";

/** How long a caller waits for what usually takes milliseconds; it goes on without the caller. */
const PATIENCE_MS = 10_000;

/** The registry refuses for reasons that last, such as a home which belongs to another user. */
const PUBLISH_AGAIN_MS = 600_000;

type Work = ServiceWork & { readonly key: string };

export class ServiceMaster
  extends DurableObject<Env>
  implements ServiceProtocol, ApplicationMasterCallback, ContainerStatusCallback
{
  #service = new Service();
  readonly #name: string;
  readonly #cluster: string;
  readonly #shell: Shell<Work>;
  /** Why the ResourceManager refused the last submission. */
  #refusal: Failure | null = null;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#name = ctx.id.name ?? "";
    this.#cluster = parseServiceMasterName(this.#name).cluster;
    this.#shell = new Shell<Work>(ctx, {
      tables: this.#service.tables,
      drain: () => this.#service.drain(),
      restore: () => this.#service.restore(),
      settle: (nowMs) => settle(this.#service, nowMs),
      nextDeadlineMs: () => nextDeadlineMs(this.#service),
      work: () => this.#work(),
      perform: (work) => this.#perform(work),
    });
  }

  // --- ServiceProtocol -------------------------------------------------------------------------

  async create(
    user: string,
    yarnfile: Yarnfile,
    submitter: Submitter,
  ): Promise<Reply<{ readonly applicationId: string | null }>> {
    const definition = await this.#define(user, yarnfile);
    if (!definition.ok) return definition;
    const submissionId = crypto.randomUUID();
    const created = this.#shell.run("createService", (nowMs) =>
      createService(
        this.#service,
        { user, submitter, definition: definition.value, submissionId },
        nowMs,
      ),
    );
    if (!created.ok) return created;
    const submitted = await this.#submitted();
    if (submitted.ok) return submitted;
    this.#shell.run("createRefused", (nowMs) =>
      destroyService(this.#service, submitted.error.message, nowMs),
    );
    await this.#shell.until(() => this.#service.row === undefined, PATIENCE_MS);
    return submitted;
  }

  async #define(user: string, yarnfile: Yarnfile): Promise<Reply<ServiceDefinition>> {
    const packages = await this.#resolvePackages(user, packageReferences(yarnfile));
    return defineService(yarnfile, { user, domain: domainOf(this.env) }, packages);
  }

  /** A package is looked up once, when its definition is given; from then on its digest counts. */
  async #resolvePackages(user: string, references: readonly string[]): Promise<ResolvedPackages> {
    const { STORE } = this.env;
    const store = STORE === undefined ? null : new PackageStore(STORE, this.#cluster);
    const resolved = new Map<string, Reply<Package>>();
    for (const text of references.slice(0, LIMITS.packagesPerServiceMax)) {
      const reference = parsePackageReference(text);
      if (reference === undefined) continue;
      resolved.set(text, store === null ? noPackageStore() : await store.resolve(user, reference));
    }
    return resolved;
  }

  async plan(user: string, yarnfile: Yarnfile, submitter: Submitter): Promise<Reply<ServicePlan>> {
    const definition = defineService(yarnfile, { user, domain: domainOf(this.env) });
    if (!definition.ok) return definition;
    const { context, asks } = planRequest({ user, submitter, definition: definition.value });
    const plan = await this.#resourceManager().planApplication(context, asks);
    return plan.ok ? ok(servicePlan(definition.value, plan.value)) : plan;
  }

  async start(submitter: Submitter): Promise<Reply<{ readonly applicationId: string | null }>> {
    await this.#shell.until(() => this.#service.row?.phase !== "FINISHING", PATIENCE_MS);
    const submissionId = crypto.randomUUID();
    const started = this.#shell.run("startService", (nowMs) =>
      startService(this.#service, submissionId, submitter, nowMs),
    );
    return started.ok ? this.#submitted() : started;
  }

  /** Once the ResourceManager has decided; when it cannot be reached, the retries go on. */
  async #submitted(): Promise<Reply<{ readonly applicationId: string | null }>> {
    this.#refusal = null;
    await this.#shell.until(() => this.#service.row?.phase !== "SUBMITTING", PATIENCE_MS);
    if (this.#refusal) return { ok: false, error: this.#refusal };
    return ok({ applicationId: this.#service.row?.applicationId ?? null });
  }

  async stop(): Promise<Reply<undefined>> {
    const stopped = this.#shell.run("stopService", (nowMs) => stopService(this.#service, nowMs));
    await this.#shell.until(() => this.#service.row?.phase !== "FINISHING", PATIENCE_MS);
    return stopped;
  }

  async upgrade(user: string, mode: UpgradeMode, yarnfile: Yarnfile): Promise<Reply<UpgradePlan>> {
    const definition = await this.#define(user, yarnfile);
    if (!definition.ok) return definition;
    return this.#shell.run("initiateUpgrade", (nowMs) =>
      initiateUpgrade(this.#service, mode, definition.value, nowMs),
    );
  }

  async planUpgrade(user: string, yarnfile: Yarnfile): Promise<Reply<UpgradePlan>> {
    const definition = await this.#define(user, yarnfile);
    return definition.ok ? planServiceUpgrade(this.#service, definition.value) : definition;
  }

  async upgradeInstances(targets: UpgradeTargets) {
    return this.#shell.run("upgradeInstances", (nowMs) =>
      upgradeInstances(this.#service, targets, nowMs),
    );
  }

  async cancelUpgrade() {
    return this.#shell.run("cancelUpgrade", (nowMs) => cancelUpgrade(this.#service, nowMs));
  }

  async flex(requests: readonly FlexRequest[]) {
    return this.#shell.run("flexService", (nowMs) => flexService(this.#service, requests, nowMs));
  }

  async setLifetime(seconds: number) {
    return this.#shell.run("setLifetime", (nowMs) => setLifetime(this.#service, seconds, nowMs));
  }

  async restartContainer(containerId: ContainerId) {
    return this.#shell.run("restartContainer", (nowMs) =>
      restartContainer(this.#service, containerId, nowMs),
    );
  }

  async destroy(): Promise<Reply<undefined>> {
    const destroyed = this.#shell.run("destroyService", (nowMs) =>
      destroyService(this.#service, "destroyed by user", nowMs),
    );
    await this.#shell.until(() => this.#service.row === undefined, PATIENCE_MS);
    return destroyed;
  }

  /** While something waits, the ResourceManager is asked why, so that the answer is of now. */
  async get(): Promise<Reply<ServiceView>> {
    if (this.#service.row?.registered && this.#service.inState("WAITING").length > 0) {
      this.#askForNews();
      await this.#shell.until(() => !this.#service.newsWaiting, 1_000);
    }
    return viewService(this.#service, domainOf(this.env), Date.now());
  }

  async events() {
    const row = this.#service.row;
    return row && row.phase !== "DESTROYING" ? ok(timeline(this.#service)) : noSuchService();
  }

  // --- what the ResourceManager and the trackers tell -------------------------------------------

  async onAllocateReady(attemptId: string): Promise<void> {
    if (this.#service.row?.attemptId !== attemptId) return;
    this.#askForNews();
  }

  async onContainerStatuses(
    shard: string,
    generation: number,
    statuses: readonly ContainerStatus[],
  ): Promise<number> {
    return this.#shell.run("containerStatuses", (nowMs) => {
      const heard = this.#service.shards.get(shard)?.generation ?? 0;
      if (!this.#service.row || generation < heard) return Math.max(heard, generation);
      this.#service.shards.put({ shard, generation });
      for (const status of statuses) containerStatus(this.#service, status, nowMs);
      return generation;
    });
  }

  /** As a command: an object that has just been loaded must not say anything before it is stored. */
  #askForNews(): void {
    this.#shell.run("askForNews", () => {
      this.#service.newsWaiting = true;
    });
  }

  // --- what is to be said to others ------------------------------------------------------------

  override async alarm(): Promise<void> {
    this.#shell.alarm();
  }

  #work(): readonly Work[] {
    const work: Work[] = [];
    const surroundings = { master: this.#name, domain: domainOf(this.env) };
    for (const item of serviceWork(this.#service, surroundings)) {
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

  #byShard<Request extends { readonly nodeId: NodeId }>(requests: readonly Request[]) {
    return Map.groupBy(requests, ({ nodeId }) => shardOf(nodeId, trackerShards(this.env)));
  }

  async #perform(work: Work): Promise<number> {
    switch (work.type) {
      case "submit":
        await this.#submit(work);
        break;
      case "register":
        await this.#register(work.attemptId);
        break;
      case "allocate":
        await this.#allocate(work);
        break;
      case "start":
        await this.#start(work.key, work.requests);
        break;
      case "update":
        await this.#update(work.key, work.requests);
        break;
      case "finish": {
        const { attemptId, request } = work;
        const reply = await this.#resourceManager().finishApplicationMaster(attemptId, request);
        if (!reply.ok && reply.error.code !== "NOT_FOUND") throw new Error(reply.error.message);
        this.#shell.run("applicationFinished", () => applicationFinished(this.#service, attemptId));
        break;
      }
      case "publish":
        return await this.#publish(work);
      case "report": {
        const { generation, entry } = work;
        await this.#resourceManager().reportService(this.#name, generation, entry);
        this.#shell.run("reported", () => this.#service.update({ entryHeard: generation }));
        break;
      }
      case "wipe":
        this.#shell.run("forgetService", () => forgetService(this.#service));
    }
    return 0;
  }

  async #submit({ submissionId, context }: Extract<Work, { type: "submit" }>): Promise<void> {
    const reply = await this.#resourceManager().submitApplication(context);
    this.#shell.run("applicationSubmitted", (nowMs) => {
      if (reply.ok) return applicationSubmitted(this.#service, submissionId, reply.value);
      this.#refusal = reply.error;
      submissionRefused(this.#service, submissionId, reply.error.message, nowMs);
    });
  }

  async #register(attemptId: string): Promise<void> {
    const reply = await this.#resourceManager().registerApplicationMaster(attemptId, {
      host: "edge",
      rpcPort: -1,
      trackingUrl: "",
    });
    if (!reply.ok) return this.#attemptLost(attemptId, reply.error);
    this.#shell.run("masterRegistered", (nowMs) =>
      masterRegistered(this.#service, attemptId, nowMs),
    );
  }

  async #allocate(work: Extract<Work, { type: "allocate" }>): Promise<void> {
    const { attemptId, request } = work;
    try {
      const reply = await this.#resourceManager().allocate(attemptId, request);
      if (!reply.ok) return this.#attemptLost(attemptId, reply.error);
      this.#service.newsWaiting = false;
      this.#shell.run("allocated", (nowMs) =>
        allocated(this.#service, request, reply.value, nowMs),
      );
    } catch (error) {
      // Whether it was heard is unknown, so the absolute numbers are said again.
      this.#shell.run("allocateFailed", () => askAnew(this.#service));
      throw error;
    }
  }

  /** Somebody ended the application at the ResourceManager: so the run is over here too. */
  #attemptLost(attemptId: string, failure: Failure): void {
    if (failure.code !== "NOT_FOUND") throw new Error(failure.message);
    this.#shell.run("attemptLost", (nowMs) => {
      if (this.#service.row?.attemptId !== attemptId) return;
      stopService(this.#service, nowMs, "its application was ended at the ResourceManager");
    });
  }

  async #start(key: string, requests: readonly StartContainerRequest[]): Promise<void> {
    const tracker = this.#tracker(key.slice("start ".length));
    const reply = await tracker.startContainers(this.#name, requests as StartContainerRequest[]);
    if (!reply.ok) return;
    this.#shell.run("containersHandedOver", () => {
      for (const { containerId } of requests) containerHandedOver(this.#service, containerId);
    });
  }

  async #update(key: string, requests: readonly UpdateContainerRequest[]): Promise<void> {
    const tracker = this.#tracker(key.slice("update ".length));
    const reply = await tracker.updateContainers(this.#name, requests as UpdateContainerRequest[]);
    if (!reply.ok) return;
    const { value } = reply;
    this.#shell.run("updatesHandedOver", () => {
      for (const updated of value) updateHandedOver(this.#service, updated);
    });
  }

  #tracker(shard: string) {
    return this.env.RESOURCE_TRACKER.getByName(trackerName(this.#cluster, shard));
  }

  async #publish({ operations }: Extract<Work, { type: "publish" }>): Promise<number> {
    const registry = this.env.REGISTRY.getByName(this.#cluster);
    const { user } = parseServiceMasterName(this.#name);
    const publication = { publisher: this.#name, user, operations, ...this.#service.publication() };
    const reply = await registry.publish(publication);
    if (!reply.ok) {
      const { code, message } = reply.error;
      console.warn(
        JSON.stringify({ event: "publish", outcome: code, service: this.#name, message }),
      );
      return PUBLISH_AGAIN_MS;
    }
    if (reply.value.overtaken) {
      this.#shell.run("overtaken", () => askAnew(this.#service));
      throw new Error("overtaken by a later publication");
    }
    this.#shell.run("recordsPublished", () => recordsPublished(this.#service, operations));
    return 0;
  }

  #resourceManager() {
    return this.env.RESOURCE_MANAGER.getByName(this.#cluster);
  }
}
