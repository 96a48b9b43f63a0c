/**
 * The applications of this node (facts §2.5): from their first container here until the tracker
 * says that they are finished and their last container has ended. What lives as long as an
 * application (localized resources, auxiliary services, aggregated logs) plugs in as an
 * ApplicationService. What is known is on the disk, so that a restarted agent finishes what an
 * earlier one began.
 */
import { rm } from "node:fs/promises";
import type { ContainerLaunchContext, ContainerStatus } from "../shared/container.ts";
import type { ApplicationId, ContainerId } from "../shared/ids.ts";
import type { AgentHome } from "./agent-home.ts";
import type { DurableRecords } from "./durable-records.ts";
import { type Log, messageOf } from "./log.ts";
import type { ApplicationRecord } from "./state-store.ts";

/** ApplicationState of the NodeManager. */
export type ApplicationState = "INITING" | "RUNNING" | "FINISHING_CONTAINERS_WAIT" | "FINISHED";

export type NodeApplication = {
  readonly applicationId: ApplicationId;
  readonly user: string;
};

/** A container that is about to start, or that has ended. */
export type ApplicationContainer = NodeApplication & {
  readonly containerId: ContainerId;
  readonly workDirectory: string;
  readonly logDirectories: readonly string[];
};

/**
 * Auxiliary services, log aggregation, devices and the like. What rejects in an `initialize…` fails
 * the container's launch with its message; what rejects in a `stop…` or `recover…` is logged, and the
 * life goes on. A `stop…` may come twice when the agent was restarted in between.
 */
export interface ApplicationService {
  /** For the log: such as `mapreduce_shuffle`. */
  readonly name: string;
  /** The application's first container here is about to start. */
  initializeApplication?(
    application: NodeApplication,
    launch: ContainerLaunchContext,
  ): Promise<void>;
  /** The agent was restarted; the application's containers may run, or have ended meanwhile. */
  recoverApplication?(application: NodeApplication): Promise<void>;
  /**
   * A container is about to start, for the first time or with another launch context; its
   * directories are there. Answers what its environment gets in addition, such as
   * `NM_AUX_SERVICE_…` or which devices it was given.
   */
  initializeContainer?(
    container: ApplicationContainer,
    launch: ContainerLaunchContext,
  ): Promise<Readonly<Record<string, string>> | undefined>;
  /** The agent was restarted, and the container had not ended before. */
  recoverContainer?(container: ApplicationContainer): Promise<void>;
  /** Its process is gone and its end is on the disk. */
  stopContainer?(container: ApplicationContainer, status: ContainerStatus): Promise<void>;
  /** The application is over on this node: no container of it runs here, and none will. */
  stopApplication?(application: NodeApplication): Promise<void>;
}

export type ApplicationRegistryOptions = {
  /** Called in this order when something begins, and in the other one when it ends. */
  readonly services: readonly ApplicationService[];
  readonly home: AgentHome;
  readonly store: DurableRecords<ApplicationRecord>;
  readonly log: Log;
  /** Nothing is left of the application on this node. */
  readonly finished: (applicationId: ApplicationId) => void;
};

type Application = {
  record: ApplicationRecord;
  /** Resolved when the services know it; replaced when they could not. */
  initialized: Promise<void> | undefined;
  /** Containers between their launch and their end. */
  readonly containers: Set<ContainerId>;
  isCleaning: boolean;
};

export class ApplicationRegistry {
  readonly #options: ApplicationRegistryOptions;
  readonly #applications = new Map<ApplicationId, Application>();
  readonly #cleaning = new Set<Promise<void>>();

  constructor(options: ApplicationRegistryOptions) {
    this.#options = options;
  }

  /**
   * Called once, before anything else: finds the applications of the agent's last life. `running`
   * are the containers that have not ended.
   */
  async recover(running: readonly ApplicationContainer[]): Promise<void> {
    for (const record of await this.#options.store.readAll()) this.#add(record);
    for (const { applicationId, user, containerId } of running) {
      const application =
        this.#applications.get(applicationId) ??
        this.#add({ applicationId, user, finishing: false });
      application.containers.add(containerId);
    }
    for (const application of this.#applications.values()) {
      application.initialized = Promise.resolve();
      for (const service of this.#options.services) {
        await this.#try(service, () => service.recoverApplication?.(application.record));
      }
    }
    for (const container of running) {
      for (const service of this.#options.services) {
        await this.#try(service, () => service.recoverContainer?.(container));
      }
    }
  }

  /** Goes on finishing what an earlier agent began to finish; after `recover`. */
  resume(): void {
    for (const application of this.#applications.values()) this.#cleanUpIfOver(application);
  }

  /** Applications that are not over here. */
  get live(): NodeApplication[] {
    return [...this.#applications.values()].map(({ record: { applicationId, user } }) => ({
      applicationId,
      user,
    }));
  }

  /** Undefined for one that has nothing here. */
  stateOf(applicationId: ApplicationId): ApplicationState | undefined {
    const application = this.#applications.get(applicationId);
    if (!application) return undefined;
    if (application.isCleaning) return "FINISHED";
    if (application.record.finishing) return "FINISHING_CONTAINERS_WAIT";
    return application.initialized ? "RUNNING" : "INITING";
  }

  /** The container is about to start. Rejects when its application is finished or refused. */
  async begin(
    { applicationId, user }: NodeApplication,
    containerId: ContainerId,
    launch: ContainerLaunchContext,
  ): Promise<void> {
    let application = this.#applications.get(applicationId);
    if (application?.record.finishing) throw new Error(`${applicationId} is finished`);
    if (!application) {
      const record = { applicationId, user, finishing: false };
      application = this.#add(record);
      // Written before anything of it is there that would have to be removed.
      await this.#options.store.write(applicationId, record);
    }
    application.containers.add(containerId);
    application.initialized ??= this.#initialize(application, launch);
    await application.initialized;
  }

  /** Tells the services of a container, and answers what they add to its environment. */
  async containerStarts(
    container: ApplicationContainer,
    launch: ContainerLaunchContext,
  ): Promise<Readonly<Record<string, string>>> {
    const variables: Record<string, string> = {};
    for (const service of this.#options.services) {
      Object.assign(variables, await service.initializeContainer?.(container, launch));
    }
    return variables;
  }

  /** The container has ended, or failed to begin. */
  async containerEnded(container: ApplicationContainer, status: ContainerStatus): Promise<void> {
    const application = this.#applications.get(container.applicationId);
    if (!application?.containers.has(container.containerId)) return;
    for (const service of this.#options.services.toReversed()) {
      await this.#try(service, () => service.stopContainer?.(container, status));
    }
    application.containers.delete(container.containerId);
    this.#cleanUpIfOver(application);
  }

  /** The application is finished: what it had here goes when its last container has ended. */
  async finish(applicationId: ApplicationId): Promise<void> {
    const application = this.#applications.get(applicationId);
    if (!application) return this.#options.finished(applicationId);
    if (application.record.finishing) return;
    application.record = { ...application.record, finishing: true };
    await this.#options.store.write(applicationId, application.record);
    this.#cleanUpIfOver(application);
  }

  /** Resolves when nothing is being removed any more. */
  async close(): Promise<void> {
    await Promise.all(this.#cleaning);
  }

  #add(record: ApplicationRecord): Application {
    const application: Application = {
      record,
      initialized: undefined,
      containers: new Set(),
      isCleaning: false,
    };
    this.#applications.set(record.applicationId, application);
    return application;
  }

  async #initialize(application: Application, launch: ContainerLaunchContext): Promise<void> {
    const { applicationId, user } = application.record;
    try {
      for (const service of this.#options.services) {
        await service.initializeApplication?.({ applicationId, user }, launch);
      }
    } catch (error) {
      application.initialized = undefined;
      throw error;
    }
  }

  #cleanUpIfOver(application: Application): void {
    const { record, containers, isCleaning } = application;
    if (!record.finishing || containers.size > 0 || isCleaning) return;
    application.isCleaning = true;
    const cleaning = this.#cleanUp(record);
    this.#cleaning.add(cleaning);
    void cleaning.then(() => this.#cleaning.delete(cleaning));
  }

  /** Never rejects: what cannot be removed now is found by nobody, and logged. */
  async #cleanUp({ applicationId, user }: ApplicationRecord): Promise<void> {
    const { services, home, store, log, finished } = this.#options;
    for (const service of services.toReversed()) {
      await this.#try(service, () => service.stopApplication?.({ applicationId, user }));
    }
    try {
      for (const path of home.applicationDirectories(user, applicationId)) {
        await rm(path, { recursive: true, force: true });
      }
      await store.remove(applicationId);
    } catch (error) {
      log({ event: "application.cleanup", outcome: messageOf(error), applicationId });
    }
    this.#applications.delete(applicationId);
    log({ event: "application.finished", outcome: "ok", applicationId });
    finished(applicationId);
  }

  async #try(service: ApplicationService, work: () => Promise<void> | undefined): Promise<void> {
    try {
      await work();
    } catch (error) {
      const { name } = service;
      this.#options.log({ event: "service", outcome: messageOf(error), service: name });
    }
  }
}
