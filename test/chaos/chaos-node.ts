/**
 * One node whose agent is a process of its own, as its operator starts it, against a tracker that
 * remembers everything it hears. Whatever is done to the node, `finish` ends it in good order, and
 * says what is left of it.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { isAlive, parseStat } from "../../src/agent/process-table.ts";
import type { ContainerLaunchContext, ContainerStatus } from "../../src/shared/container.ts";
import { applicationOfContainer, type ContainerId } from "../../src/shared/ids.ts";
import { containerId } from "../agent/test-node.ts";
import { type Claims, JOIN_TOKEN, launchContext, TestTracker } from "../agent/test-tracker.ts";
import { auditExits } from "../support/exit-audit.ts";
import { storedRecord } from "../support/journal.ts";
import { type AuditedNode, NodeAudit } from "../support/node-audit.ts";
import { containerProcesses, processEnvironment, processesNaming } from "../support/processes.ts";
import { waitFor } from "../support/wait-for.ts";

const COMMAND = fileURLToPath(new URL("../../bin/selvedge.mjs", import.meta.url));
const APPLICATION = applicationOfContainer(containerId(1));
/** On a machine that has much else to do. */
const PATIENCE_MS = 60_000;

export type ChaosNodeOptions = {
  /** Properties of the node, as in the operator's configuration file. */
  readonly configuration?: Readonly<Record<string, unknown>>;
  readonly cgroups?: boolean;
  /** Of the agent, besides what it needs. */
  readonly environment?: Readonly<Record<string, string>>;
  /** What else of the machine is the node's that has this home. */
  readonly audited?: (home: string) => Partial<AuditedNode>;
  /** Where the agent finds the tracker, when something stands in between. */
  readonly urlOf?: (tracker: TestTracker) => Promise<string>;
};

export type ChaosLaunch = Partial<ContainerLaunchContext> & Pick<Partial<Claims>, "memoryMb">;

export class ChaosNode {
  readonly tracker: TestTracker;
  readonly nodeId: string;
  /** Everything of this test. */
  readonly root: string;
  readonly home: string;
  /** The exit statuses that are right. */
  readonly exits = new Map<ContainerId, readonly number[]>();
  readonly #options: ChaosNodeOptions;
  readonly #url: string;
  readonly #audit: NodeAudit;
  #agent: ChildProcess | undefined;

  private constructor(tracker: TestTracker, root: string, url: string, options: ChaosNodeOptions) {
    this.tracker = tracker;
    this.#options = options;
    this.#url = url;
    this.root = root;
    this.home = join(root, "home");
    // Control groups are the machine's: no other test or agent has this name.
    this.nodeId = `127.0.0.1:${tracker.port}`;
    const configuration = {
      "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": 100,
      "yarn.nodemanager.container-monitor.interval-ms": 200,
      ...options.configuration,
    };
    writeFileSync(this.#configurationFile, JSON.stringify(configuration));
    this.#audit = NodeAudit.begin({
      ...{ nodeId: this.nodeId, home: this.home },
      ...options.audited?.(this.home),
    });
  }

  /** `root`: where the node lies, such as on a disk of its own; a new directory when left out. */
  static async create(options: ChaosNodeOptions = {}, root?: string): Promise<ChaosNode> {
    const tracker = await TestTracker.start();
    tracker.isAcknowledging = true;
    const directory = root ?? mkdtempSync(join(tmpdir(), "selvedge-chaos-"));
    mkdirSync(directory, { recursive: true });
    // Users of the machine have to pass through it, where containers run as theirs.
    chmodSync(directory, 0o711);
    mkdirSync(join(directory, "home"), { recursive: true, mode: 0o711 });
    const url = (await options.urlOf?.(tracker)) ?? tracker.url;
    return new ChaosNode(tracker, directory, url, options);
  }

  /** Starts an agent, and waits until it has registered. */
  async startAgent(): Promise<void> {
    const registrations = this.registrations;
    this.launchAgent();
    await this.until("the agent to register", () => this.registrations > registrations);
  }

  /** Starts an agent, whether it can reach its tracker or not. */
  launchAgent(): void {
    const log = openSync(join(this.root, "agent.log"), "a", 0o600);
    this.#agent = spawn(process.execPath, [COMMAND, ...this.#arguments()], {
      detached: true,
      stdio: ["ignore", log, log],
      cwd: "/",
      env: {
        PATH: process.env["PATH"],
        HOME: process.env["HOME"],
        NODE_NO_WARNINGS: "1",
        SELVEDGE_JOIN_TOKEN: JOIN_TOKEN,
        ...this.#options.environment,
      },
    });
    closeSync(log);
  }

  get agentPid(): number {
    return this.#agent?.pid ?? 0;
  }

  signalAgent(signal: "SIGSTOP" | "SIGCONT"): void {
    this.#agent?.kill(signal);
  }

  /** SIGKILL; its containers go on. */
  async killAgent(): Promise<void> {
    await this.#endAgent("SIGKILL");
  }

  get registrations(): number {
    return this.tracker.received.filter(({ type }) => type === "register").length;
  }

  /** What the agent has logged so far. */
  get log(): string {
    return readFileSync(join(this.root, "agent.log"), "utf8");
  }

  /** Orders a container; `exits` are the exit statuses that are right for it. */
  async run(
    sequence: number,
    command: string,
    exits: readonly number[],
    { memoryMb = 128, ...more }: ChaosLaunch = {},
  ): Promise<ContainerId> {
    const id = containerId(sequence);
    this.exits.set(id, exits);
    const launch = launchContext(command, more);
    const claims = { containerId: id, nodeId: this.nodeId, user: launch.user, memoryMb };
    await this.tracker.run({ ...claims, expiresInSeconds: 3_600 }, launch);
    return id;
  }

  /** What the container has written to stdout; empty before its first word. */
  stdout(id: ContainerId): string {
    try {
      return readFileSync(join(this.home, "logs", APPLICATION, id, "stdout"), "utf8");
    } catch {
      return "";
    }
  }

  /** What the node keeps in mind of it, as JSON. */
  record(id: ContainerId): string {
    return JSON.stringify(storedRecord(join(this.home, "nm-state"), id));
  }

  /** The pids that the container has printed, one on each line, as soon as there are `count`. */
  pids(id: ContainerId, count: number): Promise<readonly number[]> {
    return this.until(`${count} processes of ${id}`, () => {
      const pids = this.stdout(id).split("\n").filter(Boolean).map(Number);
      return pids.length >= count && pids;
    });
  }

  /** The supervising shell of the container's first process. */
  leaderOf(id: ContainerId): Promise<number> {
    return this.until(`the leader of ${id}`, () => this.leaderPid(id));
  }

  /** Throws when there is none yet, or no longer: the pid may be anybody's by then. */
  leaderPid(id: ContainerId): number {
    const leader = parseStat(readFileSync(join(this.home, "nm-state", `${id}.pid`), "utf8"));
    if (!leader || !isAlive({ ...leader, bootId: "" })) throw new Error(`${id} has no leader`);
    return leader.pid;
  }

  /** All of its processes that have not wiped their environment. */
  processesOf(id: ContainerId): readonly number[] {
    // Other tests on this machine have containers of the same name.
    const isOurs = (variable: string) => variable.includes(`${this.home}/`);
    return containerProcesses(id).filter((pid) => processEnvironment(pid).some(isOurs));
  }

  workDirectory(id: ContainerId): string {
    return join(this.home, "local/usercache/alice/appcache", APPLICATION, id);
  }

  /** Lets a container go that waits for the file `go`. */
  release(id: ContainerId): void {
    writeFileSync(join(this.workDirectory(id), "go"), "");
  }

  untilState(id: ContainerId, state: ContainerStatus["state"]): Promise<ContainerStatus> {
    return this.until(`${id} to be ${state}`, () => {
      const status = this.tracker.statuses.get(id);
      return status?.state === state && status;
    });
  }

  /** The first report of each container's end. */
  ends(): readonly ContainerStatus[] {
    const ends = new Map<ContainerId, ContainerStatus>();
    for (const status of this.tracker.history) {
      const { containerId: id, state } = status;
      if (state === "COMPLETE" && !ends.has(id)) ends.set(id, status);
    }
    return [...ends.values()];
  }

  /** Waits until all that was ordered has ended. */
  async untilOver(timeoutMs = PATIENCE_MS): Promise<void> {
    await waitFor(
      () => {
        const ended = new Set(this.ends().map((end) => end.containerId));
        const left = [...this.exits.keys()].filter((id) => !ended.has(id));
        if (left.length > 0) throw new Error(`still there: ${left.slice(0, 10).join(", ")}`);
        return true;
      },
      { what: "all containers to end", timeoutMs },
    );
  }

  async until<Value>(what: string, find: () => Value | undefined | false) {
    return waitFor(find, { what, timeoutMs: PATIENCE_MS });
  }

  /**
   * Waits for the end of all containers, finishes their application, ends the agent in good order,
   * and says everything that is left, was reported wrongly, or did not come to an end.
   */
  async finish(): Promise<readonly string[]> {
    await this.untilOver();
    await this.#finishApplication();
    const { agentPid } = this;
    const left = () => this.#audit.findings({ living: [agentPid] });
    // The agent may still be removing: what it has not removed in the end is left.
    await waitFor(async () => (await left()).length === 0, { what: "the agent to tidy up" }).catch(
      () => undefined,
    );
    const wrong = await this.#endAgent("SIGTERM");
    return [
      ...wrong,
      ...(await this.#audit.findings()),
      ...auditExits(this.tracker.history, this.exits),
    ];
  }

  /** Ends whatever is there still, and removes everything. */
  async close(): Promise<void> {
    await this.#endAgent("SIGKILL");
    for (;;) {
      const left = processesNaming(`${this.root}/`);
      if (left.length === 0) break;
      for (const { pid } of left) kill(pid);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    await this.tracker.close();
    rmSync(this.root, { recursive: true, force: true });
  }

  async #finishApplication(): Promise<void> {
    const { tracker } = this;
    tracker.finishing.add(APPLICATION);
    tracker.send({ type: "finish-applications", applicationIds: [APPLICATION] });
    await this.until("the application to be finished", () =>
      tracker.finished.includes(APPLICATION),
    );
  }

  /** Says what is wrong with its end. */
  async #endAgent(signal: "SIGKILL" | "SIGTERM"): Promise<readonly string[]> {
    const agent = this.#agent;
    this.#agent = undefined;
    if (!agent) return [];
    if (agent.exitCode !== null) return [`the agent ended by itself, with ${agent.exitCode}`];
    const exit = once(agent, "exit");
    agent.kill(signal);
    await exit;
    const isRight = signal === "SIGKILL" || agent.exitCode === 0;
    return isRight ? [] : [`the agent ended with ${agent.exitCode ?? agent.signalCode}`];
  }

  get #configurationFile(): string {
    return join(this.root, "node.json");
  }

  #arguments(): string[] {
    return [
      ...["node", "start", "--url", this.#url, "--node-id", this.nodeId],
      ...["--home", this.home, "--config", this.#configurationFile],
      ...["--memory", "4096", "--vcores", "4"],
      ...(this.#options.cgroups ? [] : ["--no-cgroups"]),
    ];
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended by itself.
  }
}
