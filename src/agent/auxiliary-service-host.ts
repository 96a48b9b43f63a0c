/**
 * Keeps one auxiliary service going: starts its thread, starts it again when it ends, and tells it
 * of the applications that it serves, which are on the disk before it hears of them.
 */
import { mkdirSync } from "node:fs";
import { lstat, mkdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import * as z from "zod";
import type { ApplicationId } from "../shared/ids.ts";
import type { ApplicationContainer } from "./applications.ts";
import type { AuxiliaryApplication } from "./auxiliary-service.ts";
import { AuxiliaryServiceThread } from "./auxiliary-service-thread.ts";
import { DurableRecords } from "./durable-records.ts";
import { type Log, messageOf } from "./log.ts";
import { checkTrustedFile } from "./trusted-file.ts";

export type AuxiliaryServiceHostOptions = {
  readonly name: string;
  /** The operator's directory of plug-ins. */
  readonly directory: string;
  /** Of the ESM module, below `directory`; see trusted-file.ts for who may own and write it. */
  readonly path: string;
  readonly configuration: Readonly<Record<string, string>>;
  /** A directory for what is kept of its applications. */
  readonly state: string;
  readonly log: Log;
  /** Before it is started again, doubled each time, up to a minute. */
  readonly restartDelayMs: number;
};

const RESTART_DELAY_MAX_MS = 60_000;
/** A service that ran so long has not failed at once: its next restart is quick again. */
const GOOD_RUN_MS = 60_000;

const applicationSchema = z.object({
  applicationId: z.string(),
  user: z.string(),
  serviceData: z.string(),
  directory: z.string(),
});

type Application = {
  readonly facts: AuxiliaryApplication;
  /** Resolves when the service knows it. */
  readonly initialized: Promise<void>;
};

export class AuxiliaryServiceHost {
  readonly name: string;
  readonly #options: AuxiliaryServiceHostOptions;
  readonly #store: DurableRecords<AuxiliaryApplication>;
  readonly #applications = new Map<ApplicationId, Application>();
  #thread: AuxiliaryServiceThread | undefined;
  #startedMs = 0;
  #failure = "it has not started";
  #restartDelayMs: number;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: AuxiliaryServiceHostOptions) {
    this.#options = options;
    this.name = options.name;
    this.#restartDelayMs = options.restartDelayMs;
    mkdirSync(options.state, { recursive: true, mode: 0o700 });
    const parse = (json: unknown) => applicationSchema.parse(json);
    this.#store = new DurableRecords(options.state, parse, options.log);
  }

  /** The running thread; undefined while there is none. */
  get thread(): AuxiliaryServiceThread | undefined {
    return this.#thread;
  }

  /** Epoch ms of the running thread's start. */
  get startedMs(): number {
    return this.#startedMs;
  }

  /** The directory of an application that it serves; undefined for any other. */
  directoryOf(applicationId: ApplicationId): string | undefined {
    return this.#applications.get(applicationId)?.facts.directory;
  }

  /** Finds the applications of the agent's last life; resolves when it runs or has failed. */
  async start(): Promise<void> {
    for (const facts of await this.#store.readAll()) {
      this.#applications.set(facts.applicationId, { facts, initialized: Promise.resolve() });
    }
    await this.#run();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#thread?.stop();
    await this.#store.drain();
  }

  /**
   * The container is the first of its application that names the service, or a later one: only the
   * first one's data counts. Rejects when the service refuses it.
   */
  async initializeApplication(container: ApplicationContainer, serviceData: string): Promise<void> {
    const { applicationId, user, workDirectory } = container;
    let application = this.#applications.get(applicationId);
    if (!application) {
      const directory = join(dirname(workDirectory), `aux-${this.name}`);
      const facts = { applicationId, user, serviceData, directory };
      application = { facts, initialized: this.#initialize(facts) };
      this.#applications.set(applicationId, application);
    }
    try {
      await application.initialized;
    } catch (error) {
      // The next container may try again.
      if (this.#applications.get(applicationId) === application) {
        this.#applications.delete(applicationId);
        await this.#store.remove(applicationId);
      }
      throw error;
    }
  }

  async initializeContainer({ applicationId, containerId }: ApplicationContainer): Promise<void> {
    await this.#running().call("initializeContainer", { applicationId, containerId });
  }

  async stopContainer(container: ApplicationContainer, exitStatus: number): Promise<void> {
    const { applicationId, containerId } = container;
    await this.#running().call("stopContainer", { applicationId, containerId, exitStatus });
  }

  /** Also when the service fails: what it is told after its next start does not have it any more. */
  async stopApplication(applicationId: ApplicationId): Promise<void> {
    const application = this.#applications.get(applicationId);
    if (!application) return;
    this.#applications.delete(applicationId);
    try {
      await this.#thread?.call("stopApplication", { applicationId });
    } finally {
      await rm(application.facts.directory, { recursive: true, force: true });
      await this.#store.remove(applicationId);
    }
  }

  async #initialize(facts: AuxiliaryApplication): Promise<void> {
    const thread = this.#running();
    await this.#store.write(facts.applicationId, facts);
    await mkdir(facts.directory, { recursive: true, mode: 0o700 });
    // An earlier container could have put a link there.
    if (!(await lstat(facts.directory)).isDirectory()) {
      throw new Error(`${facts.directory} is there and is no directory`);
    }
    await thread.call("initializeApplication", facts);
  }

  #running(): AuxiliaryServiceThread {
    if (this.#thread) return this.#thread;
    throw new Error(`auxiliary service ${this.name} does not run: ${this.#failure}`);
  }

  async #run(): Promise<void> {
    const { name, directory, path, configuration, log } = this.#options;
    try {
      const module = await checkTrustedFile(join(directory, path), directory);
      if (!module.ok) throw new Error(module.error.message);
      const url = pathToFileURL(module.value).href;
      const thread = await AuxiliaryServiceThread.start(url, { name, configuration });
      if (this.#isClosed) return await thread.stop();
      await this.#introduceApplications(thread);
      this.#thread = thread;
      this.#startedMs = Date.now();
      void thread.ended.then((reason) => this.#ended(reason));
      log({ event: "auxiliary-service.started", outcome: "ok", service: name });
    } catch (error) {
      this.#ended(messageOf(error));
    }
  }

  async #introduceApplications(thread: AuxiliaryServiceThread): Promise<void> {
    for (const { facts } of this.#applications.values()) {
      try {
        await thread.call("initializeApplication", facts);
      } catch (error) {
        const { applicationId } = facts;
        const event = "auxiliary-service.application";
        this.#options.log({ event, outcome: messageOf(error), applicationId });
      }
    }
  }

  #ended(reason: string): void {
    const { name, log, restartDelayMs } = this.#options;
    if (this.#isClosed) return;
    const hasRunWell = this.#thread !== undefined && Date.now() - this.#startedMs > GOOD_RUN_MS;
    if (hasRunWell) this.#restartDelayMs = restartDelayMs;
    this.#thread = undefined;
    this.#failure = reason;
    log({ event: "auxiliary-service.ended", outcome: reason, service: name });
    this.#timer = setTimeout(() => void this.#run(), this.#restartDelayMs);
    this.#timer.unref();
    this.#restartDelayMs = Math.min(2 * this.#restartDelayMs, RESTART_DELAY_MAX_MS);
  }
}
