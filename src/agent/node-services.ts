/**
 * What a node does beside running containers: it watches its own health, runs the operator's
 * auxiliary services, and answers what is asked of it.
 */
import { join } from "node:path";
import { fail, ok, type Reply } from "../shared/errors.ts";
import type { NodeFacts } from "../shared/node.ts";
import type { NodeQuery } from "../shared/protocol/node-query.ts";
import type { AgentHome } from "./agent-home.ts";
import type { ApplicationRegistry, ApplicationService } from "./applications.ts";
import { AuxiliaryServices, type AuxiliaryServicesOptions } from "./auxiliary-services.ts";
import type { ContainersMonitor } from "./containers-monitor.ts";
import { NodeHealthChecker, type NodeHealthCheckerOptions } from "./health/node-health-checker.ts";
import { type Log, messageOf } from "./log.ts";
import type { NodeLogs } from "./log-reader.ts";
import { answerNodeWeb, type NodeWebState } from "./node-web.ts";
import { listLogFiles, readLogText } from "./node-web-logs.ts";
import { NodeWebServer, type NodeWebServerOptions } from "./node-web-server.ts";
import type { ContainerRecord } from "./state-store.ts";

/** The NodeManager as it is seen from here. */
export type ObservedNode = {
  readonly containers: readonly { readonly record: ContainerRecord }[];
  readonly applications: Pick<ApplicationRegistry, "live" | "stateOf">;
};

export type NodeServicesOptions = {
  readonly facts: NodeFacts;
  readonly home: AgentHome;
  readonly logs: NodeLogs;
  readonly monitor: ContainersMonitor;
  /** Asked for when something is asked of it; it may come to be later than this. */
  readonly node: () => ObservedNode;
  /** The node's health is another now, and is to be reported. */
  readonly healthChanged: (health: NodeHealthFacts) => void;
  readonly health:
    | Pick<NodeHealthCheckerOptions, "disks" | "diskIntervalMs" | "scripts">
    | undefined;
  readonly auxiliaryServices: Pick<AuxiliaryServicesOptions, "directory" | "services"> | undefined;
  /** The REST on a port of the machine; none when left out. */
  readonly web: Omit<NodeWebServerOptions, "tokenFile"> | undefined;
  readonly log: Log;
};

/** As a node states them: of its registration, and of a `health` message. */
export type NodeHealthFacts = Pick<NodeFacts, "healthy" | "healthReport">;

export class NodeServices {
  readonly #options: NodeServicesOptions;
  readonly #health: NodeHealthChecker;
  readonly #auxiliary: AuxiliaryServices;
  readonly #web: NodeWebState;
  #server: NodeWebServer | undefined;

  /** Throws when an auxiliary service's name is none. */
  constructor(options: NodeServicesOptions) {
    this.#options = options;
    const { home, log, healthChanged, health, auxiliaryServices } = options;
    this.#health = new NodeHealthChecker({
      ...health,
      localDirectories: home.localDirectories,
      logDirectories: home.logDirectories,
      changed: () => healthChanged(this.health),
      disksChecked: (badDirs) => home.setUnusable(badDirs),
    });
    this.#auxiliary = new AuxiliaryServices({
      ...(auxiliaryServices ?? { directory: home.directory, services: [] }),
      state: join(home.state, "auxiliary-services"),
      log,
    });
    this.#web = webState(options, Date.now(), this.#health, this.#auxiliary);
  }

  /** To be told of applications and containers. */
  get applicationServices(): readonly ApplicationService[] {
    return [this.#auxiliary];
  }

  get health(): NodeHealthFacts {
    const { healthy, report } = this.#health.health;
    return { healthy, healthReport: report };
  }

  /** allServicesMetaData: base64 by name of the auxiliary service. */
  metaData(): Readonly<Record<string, string>> {
    return this.#auxiliary.metaData();
  }

  /**
   * Resolves when the disks were looked at and the auxiliary services run; containers are recovered
   * after that. Fails when the REST's port cannot be had.
   */
  async start(): Promise<Reply<undefined>> {
    const { web, home, log } = this.#options;
    await Promise.all([this.#health.start(), this.#auxiliary.start()]);
    if (!web) return ok();
    try {
      const tokenFile = join(home.directory, "node-web.token");
      this.#server = await NodeWebServer.start(this.#web, { ...web, tokenFile }, log);
    } catch (error) {
      return fail("UNAVAILABLE", `the node's REST cannot be offered: ${messageOf(error)}`, {
        hint: "give yarn.nodemanager.webapp.address another port, or leave it out",
      });
    }
    log({ event: "node-web.started", outcome: "ok", port: this.#server.port });
    return ok();
  }

  async close(): Promise<void> {
    await this.#server?.close();
    await Promise.all([this.#health.close(), this.#auxiliary.close()]);
  }

  /** Answers all node queries but signals. */
  async answer(query: NodeQuery): Promise<Reply<unknown>> {
    const { monitor, facts } = this.#options;
    if (query.type === "get") return answerNodeWeb(this.#web, query.path);
    if (query.type !== "usage") {
      return fail("INVALID_ARGUMENT", `node ${facts.nodeId} cannot answer ${query.type}`);
    }
    const ids =
      query.containerId === undefined
        ? this.#web.containers().map(({ status }) => status.containerId)
        : [query.containerId];
    const containers = ids.flatMap((containerId) => {
      const usage = monitor.usage(containerId);
      return usage ? [{ containerId, ...usage }] : [];
    });
    return ok({ node: monitor.nodeUsage(), containers });
  }
}

function webState(
  { facts, logs, monitor, node }: NodeServicesOptions,
  startedMs: number,
  health: NodeHealthChecker,
  auxiliary: AuxiliaryServices,
): NodeWebState {
  const { pmemCheckEnabled, vmemCheckEnabled, vmemPmemRatio } = monitor.options;
  return {
    nodeId: facts.nodeId,
    host: facts.host,
    agentVersion: facts.agentVersion,
    ...{ startedMs, pmemCheckEnabled, vmemCheckEnabled, vmemPmemRatio },
    health: () => health.health,
    healthCheckedMs: () => health.checkedMs,
    applications: () => {
      const { applications } = node();
      return applications.live.flatMap((application) => {
        const state = applications.stateOf(application.applicationId);
        return state ? [{ ...application, state }] : [];
      });
    },
    containers: () =>
      node().containers.map(({ record: { status, user, resource } }) => ({
        ...{ status, user, resource },
      })),
    auxiliaryServices: () => auxiliary.running(),
    usage: (containerId) => monitor.usage(containerId),
    nodeUsage: () => monitor.nodeUsage(),
    logFiles: (containerId) => listLogFiles(logs, containerId),
    readLog: (containerId, file, range) => readLogText(logs, containerId, file, range),
  };
}
