/**
 * AuxServices: the operator's plug-ins of this node (auxiliary-service.ts). A service hears of the
 * applications that send it data with their launch contexts, for as long as they last here. What it
 * says of itself, its meta data, is in every container's environment.
 */
import { join } from "node:path";
import type { ContainerLaunchContext, ContainerStatus } from "../shared/container.ts";
import type { ApplicationId } from "../shared/ids.ts";
import type { ApplicationContainer, ApplicationService, NodeApplication } from "./applications.ts";
import { AuxiliaryServiceHost } from "./auxiliary-service-host.ts";
import { type Log, messageOf } from "./log.ts";

/** YARN's rule; it becomes part of a variable's name. */
const NAME = /^[A-Za-z][A-Za-z0-9_]{0,63}$/;
const RESTART_DELAY_MS = 1_000;

export type AuxiliaryServiceOptions = {
  /** As in `yarn.nodemanager.aux-services`. */
  readonly name: string;
  /** Of its ESM module, below the directory of plug-ins. */
  readonly path: string;
  readonly configuration?: Readonly<Record<string, string>>;
};

export type AuxiliaryServicesOptions = {
  /** The operator's directory of plug-ins. */
  readonly directory: string;
  readonly services: readonly AuxiliaryServiceOptions[];
  /** Where it is kept which applications each service knows. */
  readonly state: string;
  readonly log: Log;
  /** Before a service that has ended is started again, doubled each time; 1 s. */
  readonly restartDelayMs?: number;
};

export type RunningAuxiliaryService = {
  readonly name: string;
  readonly version: string;
  /** Base64. */
  readonly metaData: string;
  /** Epoch ms. */
  readonly startedMs: number;
};

export class AuxiliaryServices implements ApplicationService {
  readonly name = "auxiliary-services";
  readonly #hosts: ReadonlyMap<string, AuxiliaryServiceHost>;
  readonly #log: Log;

  /** Throws when a service's name is none. */
  constructor(options: AuxiliaryServicesOptions) {
    const { directory, services, state, log, restartDelayMs = RESTART_DELAY_MS } = options;
    this.#log = log;
    const hosts = new Map<string, AuxiliaryServiceHost>();
    for (const { name, path, configuration = {} } of services) {
      if (!NAME.test(name)) {
        const rule = "use letters, digits and _, beginning with a letter, 64 at most";
        throw new Error(`"${name}" is no name for an auxiliary service: ${rule}`);
      }
      const own = { name, path, configuration, state: join(state, name) };
      hosts.set(name, new AuxiliaryServiceHost({ ...own, directory, log, restartDelayMs }));
    }
    this.#hosts = hosts;
  }

  /** Starts all of them; resolves when each runs, or has failed, which is logged. */
  async start(): Promise<void> {
    await Promise.all([...this.#hosts.values()].map((host) => host.start()));
  }

  /** Ends their threads; the applications are remembered. */
  async close(): Promise<void> {
    await Promise.all([...this.#hosts.values()].map((host) => host.close()));
  }

  running(): RunningAuxiliaryService[] {
    return [...this.#hosts.values()].flatMap(({ name, thread, startedMs }) =>
      thread ? [{ name, version: thread.version, metaData: thread.metaData, startedMs }] : [],
    );
  }

  /** allServicesMetaData, for ApplicationMasters: base64 by name, of those that have some. */
  metaData(): Record<string, string> {
    const said = this.running().filter(({ metaData }) => metaData !== "");
    return Object.fromEntries(said.map(({ name, metaData }) => [name, metaData]));
  }

  /**
   * Answers `NM_AUX_SERVICE_{name}`, the meta data, of every service, and `NM_AUX_SERVICE_{name}_DIR`
   * of those that serve the application. Rejects when the launch names a service that is not here,
   * does not run, or refuses it.
   */
  async initializeContainer(
    container: ApplicationContainer,
    launch: ContainerLaunchContext,
  ): Promise<Record<string, string>> {
    for (const [name, data] of Object.entries(launch.serviceData ?? {})) {
      await this.#hostOf(name).initializeApplication(container, data);
    }
    const variables: Record<string, string> = {};
    for (const [name, metaData] of Object.entries(this.metaData())) {
      variables[`NM_AUX_SERVICE_${name}`] = metaData;
    }
    for (const { host, directory } of this.#serving(container.applicationId)) {
      await host.initializeContainer(container);
      variables[`NM_AUX_SERVICE_${host.name}_DIR`] = directory;
    }
    return variables;
  }

  async stopContainer(container: ApplicationContainer, { exitStatus }: ContainerStatus) {
    for (const { host } of this.#serving(container.applicationId)) {
      await this.#try(host, host.stopContainer(container, exitStatus));
    }
  }

  async stopApplication({ applicationId }: NodeApplication): Promise<void> {
    for (const { host } of this.#serving(applicationId)) {
      await this.#try(host, host.stopApplication(applicationId));
    }
  }

  #hostOf(name: string): AuxiliaryServiceHost {
    const host = this.#hosts.get(name);
    if (host) return host;
    const names = [...this.#hosts.keys()].join(", ") || "none";
    throw new Error(`The auxService:${name} does not exist on this node, which has ${names}`);
  }

  #serving(applicationId: ApplicationId) {
    return [...this.#hosts.values()].flatMap((host) => {
      const directory = host.directoryOf(applicationId);
      return directory === undefined ? [] : [{ host, directory }];
    });
  }

  /** An end goes on, whatever one of the services makes of it. */
  async #try({ name }: AuxiliaryServiceHost, work: Promise<void>): Promise<void> {
    try {
      await work;
    } catch (error) {
      this.#log({ event: "auxiliary-service.error", outcome: messageOf(error), service: name });
    }
  }
}
