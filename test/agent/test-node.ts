/** One node for a test: a home of its own, agents in this process, and nothing left behind. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { LogLine } from "../../src/agent/log.ts";
import {
  type RunningNodeManager,
  type StartNodeManagerOptions,
  startNodeManager,
} from "../../src/agent/main.ts";
import type { ContainerLaunchContext } from "../../src/shared/container.ts";
import { formatAttemptId, formatContainerId } from "../../src/shared/ids.ts";
import { type Claims, CREDENTIAL, TestTracker } from "./test-tracker.ts";

const ATTEMPT = formatAttemptId("application_1700000000000_0001", 1);

export function containerId(sequence: number): string {
  return formatContainerId(ATTEMPT, 1, sequence);
}

export class TestNode {
  readonly home = mkdtempSync(join(tmpdir(), "selvedge-agent-"));
  readonly nodeId: string;
  readonly tracker: TestTracker;
  readonly lines: LogLine[] = [];
  readonly #agents: RunningNodeManager[] = [];

  private constructor(tracker: TestTracker, nodeId: string) {
    this.tracker = tracker;
    this.nodeId = nodeId;
  }

  static async create(nodeId = "127.0.0.1:8041"): Promise<TestNode> {
    return new TestNode(await TestTracker.start(), nodeId);
  }

  get options(): StartNodeManagerOptions {
    return {
      url: this.tracker.url,
      home: this.home,
      nodeId: this.nodeId,
      credential: CREDENTIAL,
      cgroups: false,
      capability: { memoryMb: 1024, vcores: 2 },
      // However full the disk of whoever runs the tests is.
      health: { disks: { usedPercentMax: 100 } },
    };
  }

  /** Starts an agent and waits until it has registered. */
  async start(more: Partial<StartNodeManagerOptions> = {}): Promise<RunningNodeManager> {
    const registrations = this.registrations;
    const log = (line: LogLine) => this.lines.push(line);
    const agent = await startNodeManager({ ...this.options, log, ...more });
    this.#agents.push(agent);
    await this.tracker.until("a registration", () => this.registrations > registrations);
    return agent;
  }

  get registrations(): number {
    return this.tracker.received.filter(({ type }) => type === "register").length;
  }

  run(sequence: number, launch: ContainerLaunchContext, more: Partial<Claims> = {}) {
    const id = containerId(sequence);
    const claims = { containerId: id, nodeId: this.nodeId, user: launch.user, ...more };
    return this.tracker.run(claims, launch).then(() => id);
  }

  logDirectory(id: string): string {
    return join(this.home, "logs", "application_1700000000000_0001", id);
  }

  workDirectory(id: string): string {
    const application = "usercache/alice/appcache/application_1700000000000_0001";
    return join(this.home, "local", application, id);
  }

  /** A path in the agent's own directory. */
  state(name: string): string {
    return join(this.home, "nm-state", name);
  }

  /** The supervising shell has left an exit code. */
  hasExitCode(id: string): boolean {
    return /^.*\n\d+\n$/.test(readFileSync(this.state(`${id}.pid`), "utf8"));
  }

  stdout(id: string): string {
    return readFileSync(join(this.logDirectory(id), "stdout"), "utf8");
  }

  /** Ends everything that this node has started. */
  async close(): Promise<void> {
    for (const agent of this.#agents) await agent.close();
    const state = join(this.home, "nm-state");
    const names = existsSync(state) ? readdirSync(state) : [];
    for (const name of names.filter((file) => file.endsWith(".pid"))) {
      const pid = Number.parseInt(readFileSync(join(state, name), "utf8"), 10);
      if (pid > 1 && isContainer(pid)) signalGroup(pid);
    }
    await this.tracker.close();
    rmSync(this.home, { recursive: true, force: true });
  }
}

function isContainer(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("selvedge-container");
  } catch {
    return false;
  }
}

function signalGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It ended by itself.
  }
}

/** Whether a process runs (zombies do not). */
export function runs(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return !/\) [ZX] /.test(stat);
  } catch {
    return false;
  }
}
