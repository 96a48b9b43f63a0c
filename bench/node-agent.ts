/** One node for a benchmark: a real agent as a process of its own, and the tracker that drives it. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { StartNodeManagerOptions } from "../src/agent/main.ts";
import { effectiveRlimits } from "../src/agent/rlimits.ts";
import type { ContainerLaunchContext } from "../src/shared/container.ts";
import { formatAttemptId, formatContainerId } from "../src/shared/ids.ts";
import type { DesiredContainer } from "../src/shared/protocol/resource-tracker.ts";
import { CREDENTIAL, TestTracker } from "../test/agent/test-tracker.ts";
import { cpuSecondsOf, descendantsCpuSecondsOf, rssMbOf } from "./process-usage.ts";

const AGENT = fileURLToPath(new URL("../test/agent/agent-process.ts", import.meta.url));
const ATTEMPT = formatAttemptId("application_1700000000000_0941", 1);
const NODE_ID = "127.0.0.1:18941";
const MEMORY_MB = 64;
/** For what takes longest: a thousand containers that are found again. */
const PATIENCE_MS = 120_000;

export type AgentCpu = {
  /** Of the agent's own process, all threads. */
  readonly agentSeconds: number;
  /** Of all that it has started: shells, and what the containers ran. */
  readonly childrenSeconds: number;
};

export class BenchNode {
  readonly tracker: TestTracker;
  readonly home = mkdtempSync(join(tmpdir(), "selvedge-bench-node-"));
  readonly #more: Partial<StartNodeManagerOptions>;
  #agent: ChildProcess | undefined;
  #sequence = 0;

  private constructor(tracker: TestTracker, more: Partial<StartNodeManagerOptions>) {
    this.tracker = tracker;
    this.#more = more;
  }

  /** As `selvedge node start` runs without a configuration, except for what is in `more`. */
  static async start(more: Partial<StartNodeManagerOptions> = {}): Promise<BenchNode> {
    const tracker = await TestTracker.start();
    tracker.patienceMs = PATIENCE_MS;
    const node = new BenchNode(tracker, more);
    await node.startAgent();
    return node;
  }

  get pid(): number {
    return this.#agent?.pid ?? 0;
  }

  /** Starts the agent's process; resolves when it has registered. */
  async startAgent(): Promise<void> {
    const options: StartNodeManagerOptions = {
      url: this.tracker.url,
      home: this.home,
      nodeId: NODE_ID,
      credential: CREDENTIAL,
      capability: { memoryMb: 1_048_576, vcores: 1_024 },
      confinement: { rlimits: effectiveRlimits() },
      // However full the disk of this machine is.
      health: { disks: { usedPercentMax: 100 } },
      stopContainersOnExit: true,
      ...this.#more,
    };
    const before = this.#registrations;
    const log = openSync(join(this.home, "agent.log"), "a");
    const flags = (process.env["SELVEDGE_BENCH_AGENT_FLAGS"] ?? "").split(" ").filter(Boolean);
    const agent = spawn(process.execPath, [...flags, AGENT], { stdio: ["pipe", "ignore", log] });
    this.#agent = agent;
    process.once("exit", () => agent.kill("SIGKILL"));
    agent.stdin?.end(JSON.stringify(options));
    const failed = once(agent, "exit").then(() => {
      throw new Error(`the agent has ended: ${this.log.slice(-2_000)}`);
    });
    const registered = this.tracker.until("registration", () => this.#registrations > before);
    await Promise.race([registered, failed]);
    failed.catch(() => undefined);
  }

  async endAgent(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    const agent = this.#agent;
    if (!agent || agent.exitCode !== null || agent.signalCode !== null) return;
    agent.kill(signal);
    await once(agent, "exit");
  }

  get #registrations(): number {
    return this.tracker.received.filter(({ type }) => type === "register").length;
  }

  /** What the agent has logged. */
  get log(): string {
    return readFileSync(join(this.home, "agent.log"), "utf8");
  }

  cpu(): AgentCpu {
    return {
      agentSeconds: cpuSecondsOf(this.pid),
      childrenSeconds: descendantsCpuSecondsOf(this.pid),
    };
  }

  rssMb(): number {
    return rssMbOf(this.pid);
  }

  /** Orders for new containers with one launch context, signed ahead of the measured time. */
  async orders(count: number, launch: ContainerLaunchContext): Promise<DesiredContainer[]> {
    const orders: DesiredContainer[] = [];
    for (let index = 0; index < count; index++) {
      this.#sequence += 1;
      const containerId = formatContainerId(ATTEMPT, 1, this.#sequence);
      const claims = { containerId, nodeId: NODE_ID, user: launch.user, memoryMb: MEMORY_MB };
      const token = await this.tracker.key.sign(claims);
      orders.push({ containerId, state: "RUN", token, launch });
    }
    return orders;
  }

  /** Ends the agent, and with it every container that is left. */
  async close(): Promise<void> {
    await this.endAgent("SIGTERM");
    await this.tracker.close();
    rmSync(this.home, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
}
