/**
 * A whole cluster for one end-to-end test file: real Worker, real agents, a home of its own in the
 * temporary folder and a port of its own, claimed by the user `admin`.
 *
 *   const cluster = await startCluster({ nodes: 2 });
 *   …
 *   await cluster.dispose();
 */
import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  freePort,
  hasCredential,
  nodeHome,
  type RunningAgent,
  type RunningWorker,
  startAgent,
  startWorker,
  type WorkerOptions,
} from "../../scripts/local-cluster.ts";
import { endClusterProcesses, signal } from "../../scripts/processes.ts";
import { type ClusterClient, clusterClient } from "../../src/client/cluster.ts";
import { createHttp, type Http, TextBody } from "../../src/client/http.ts";
import { type SecurityClient, securityClient } from "../../src/client/security.ts";
import { type ServicesClient, servicesClient } from "../../src/client/services.ts";
import type { ServiceView } from "../../src/shared/service.ts";
import { processesNaming } from "./processes.ts";
import { waitFor } from "./wait-for.ts";

const HOST = "127.0.0.1";
/** What a node offers unless a test says otherwise; nothing of it is really taken. */
const NODE_SIZE = { memoryMb: 2_048, vcores: 8 };
const JOIN_TOKEN_LIFETIME_SECONDS = 60;

export type NodeOptions = {
  readonly memoryMb?: number;
  readonly vcores?: number;
  /** Absolute path of the node's configuration. */
  readonly configFile?: string;
  /** Where the agent finds the cluster, when something stands in between. */
  readonly url?: string;
};

export type ClusterOptions = NodeOptions & {
  /** 2 unless told otherwise. */
  readonly nodes?: number;
  /** Hadoop's `?user.name=` is believed. True unless told otherwise. */
  readonly development?: boolean;
};

export class TestCluster {
  readonly home: string;
  readonly url: string;
  /** The administrator's token, for callers that speak HTTP themselves. */
  readonly token: string;
  readonly http: Http;
  readonly cluster: ClusterClient;
  readonly services: ServicesClient;
  readonly security: SecurityClient;
  /** By number; replaced when a node is started again. */
  readonly agents = new Map<number, RunningAgent>();
  #worker: RunningWorker;
  readonly #options: WorkerOptions;
  readonly #nodeOptions: NodeOptions;
  readonly #killed = new Set<number>();
  readonly #joinTokens: string[] = [];

  constructor(
    worker: RunningWorker,
    options: WorkerOptions,
    token: string,
    nodeOptions: NodeOptions = {},
  ) {
    const { home } = options;
    this.home = home;
    this.url = worker.url;
    this.token = token;
    this.http = createHttp({ url: worker.url, token });
    this.cluster = clusterClient(this.http);
    this.services = servicesClient(this.http);
    this.security = securityClient(this.http);
    this.#worker = worker;
    this.#options = options;
    this.#nodeOptions = nodeOptions;
  }

  /** Starts node `number` (1, 2, …), the same node again if it was there before. */
  async startNode(number: number, options: NodeOptions = {}): Promise<RunningAgent> {
    const node = { ...NODE_SIZE, url: this.url, ...this.#nodeOptions, ...options };
    const joinToken = hasCredential(this.home, number, node.url)
      ? undefined
      : (await this.security.createJoinToken(1, JOIN_TOKEN_LIFETIME_SECONDS)).token;
    if (joinToken !== undefined) this.#joinTokens.push(joinToken);
    const agent = startAgent({ ...node, home: this.home, number, joinToken });
    this.agents.set(number, agent);
    this.#killed.delete(number);
    return agent;
  }

  /** SIGKILL to a node's agent. Its containers live on, as after a crash. */
  async killAgent(number: number): Promise<void> {
    this.#killed.add(number);
    await this.agent(number).kill();
  }

  /** SIGKILL to a node's agent and all its containers at once, as when its machine dies. */
  async killMachine(number: number): Promise<void> {
    this.#killed.add(number);
    const containers = processesNaming(`${nodeHome(this.home, number)}/`);
    for (const { pid } of containers) signal(pid, "SIGKILL");
    await this.agent(number).kill();
  }

  agent(number: number): RunningAgent {
    const agent = this.agents.get(number);
    if (agent === undefined) throw new Error(`node ${number} was not started`);
    return agent;
  }

  /** Waits until the node has that state; answers when it had been reached. */
  async nodeIs(number: number, state: string, timeoutMs?: number): Promise<void> {
    const { nodeId } = this.agent(number);
    await waitFor(
      async () => (await this.cluster.nodes()).some((n) => n.id === nodeId && n.state === state),
      { what: `node ${nodeId} to be ${state}`, ...(timeoutMs === undefined ? {} : { timeoutMs }) },
    );
  }

  /** Launches a Yarnfile given as a value, and answers its name. */
  async launch(yarnfile: { readonly name: string } & Record<string, unknown>): Promise<string> {
    await this.services.create(new TextBody("application/json", JSON.stringify(yarnfile)));
    return yarnfile.name;
  }

  /** Waits until the service has that state; answers it as it was then. */
  async serviceIs(name: string, state: string, timeoutMs?: number): Promise<ServiceView> {
    let last: ServiceView | undefined;
    try {
      return await waitFor(
        async () => {
          last = await this.services.get(name);
          return last.state === state && last;
        },
        {
          what: `service ${name} to be ${state}`,
          ...(timeoutMs === undefined ? {} : { timeoutMs }),
        },
      );
    } catch (error) {
      if (last === undefined) throw error;
      throw new Error(
        `waited for service ${name} to be ${state}, but it is ${last.state}: ${last.diagnostics}`,
        { cause: error },
      );
    }
  }

  /** SIGKILL to workerd: the Worker and all Durable Objects end in the middle of things. */
  async killWorkerd(): Promise<void> {
    const pid = this.#worker.workerdPid();
    process.kill(pid, "SIGKILL");
    await waitFor(() => this.#worker.workerdPid() !== pid, { what: "workerd to come back" });
    await this.answers();
  }

  /** Ends the Worker's process and starts another one with the same state and port. */
  async restartWorker(): Promise<void> {
    await this.#worker.dispose();
    this.#worker = await startWorker(this.#options);
  }

  async answers(): Promise<void> {
    await waitFor(() => fetch(`${this.url}/healthz`), { what: "the Worker to answer" });
  }

  /** What the Worker, or an agent, has logged so far. */
  log(of: "worker" | number): string {
    return readFileSync(of === "worker" ? this.#worker.logFile : this.agent(of).logFile, "utf8");
  }

  /** Everything that gives rights in this cluster and that nobody but its owner may ever see. */
  secrets(): readonly string[] {
    const credentials = [...this.agents.keys()].map((number) => {
      const file = join(nodeHome(this.home, number), "credential.json");
      return (JSON.parse(readFileSync(file, "utf8")) as { credential: string }).credential;
    });
    return [this.token, this.#options.claimCode, ...this.#joinTokens, ...credentials];
  }

  /** Where the Worker, the agents and `npm start` write what they have to say. */
  get logDirectory(): string {
    return join(this.home, "logs");
  }

  /** Ends everything and fails if a process was left that should have ended by itself. */
  async dispose(): Promise<void> {
    await Promise.all([...this.agents.values()].map((agent) => agent.stop()));
    await this.#worker.dispose();
    const left = processesNaming(this.home);
    await endClusterProcesses(this.home, 0);
    rmSync(this.home, { recursive: true, force: true });
    // The containers of an agent that the test has killed have nobody else to end them.
    if (left.length > 0 && this.#killed.size === 0) {
      const lines = left.map(({ pid, command }) => `${pid}: ${command}`);
      throw new Error(`the cluster has ended and left running:\n${lines.join("\n")}`);
    }
  }
}

/** Answers when all nodes are RUNNING. Leaves nothing behind when that fails. */
export async function startCluster(wanted: ClusterOptions = {}): Promise<TestCluster> {
  const { nodes = 2, development = true, ...nodeOptions } = wanted;
  const home = mkdtempSync(join(tmpdir(), "selvedge-e2e-"));
  const claimCode = randomBytes(16).toString("hex");
  const port = (await freePort(HOST)) ?? 0;
  const options = { host: HOST, port, home, claimCode, development };
  try {
    const worker = await startWorker(options);
    const { token } = await securityClient(createHttp(worker)).claim(claimCode, "admin");
    const cluster = new TestCluster(worker, options, token, nodeOptions);
    const numbers = Array.from({ length: nodes }, (_, index) => index + 1);
    await Promise.all(numbers.map((number) => cluster.startNode(number)));
    await Promise.all(numbers.map((number) => cluster.nodeIs(number, "RUNNING")));
    return cluster;
  } catch (error) {
    await endClusterProcesses(home, 0);
    throw new Error(`the cluster did not start; its logs are in ${home}/logs`, { cause: error });
  }
}
