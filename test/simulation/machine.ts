/**
 * A machine: its processes and its disk. Processes belong to the machine and not to the agent, so
 * that they live on when the agent dies; a process leaves its exit code on the disk.
 */
import type { ContainerPhase } from "../../src/agent/container-manager.ts";
import type { ContainerStatus } from "../../src/shared/container.ts";
import type { Resource } from "../../src/shared/resource.ts";
import { SimulatedAgent } from "./agent.ts";
import type { SimulatedTracker } from "./tracker.ts";
import type { World } from "./world.ts";

export type SimulatedProcess = {
  readonly containerId: string;
  readonly attemptId: string;
  readonly instance: string;
  readonly resource: Resource;
  readonly startedMs: number;
  isAlive: boolean;
  isReady: boolean;
  /** Null when it was ended by a loss of power. */
  exitCode: number | null;
  /** Its node was taken for lost while it ran, so that it has to end and nobody counts on it. */
  isFenced: boolean;
};

/** What the agent keeps on the disk of one container. */
export type ContainerRecord = {
  readonly phase: ContainerPhase;
  readonly status: ContainerStatus;
  readonly bootId: number;
  readonly needsCheck: boolean;
  readonly rememberedUntilMs: number;
  readonly stop: { readonly exitStatus: number; readonly diagnostics: string } | null;
  /** What the present process was started with. */
  readonly launch: Launch;
  /** The launch context that is taking the present one's place. */
  readonly next?: Launch;
  /** The one before, which the node can take again. */
  readonly previous?: Launch;
};

/** Of a launch context, what tells it from others. */
export type Launch = { readonly version: number; readonly command: string };

/** What the ResourceManager gave away, by its books. */
export type Grant = { readonly attemptId: string; readonly resource: Resource };

export type MachineWatcher = {
  /** Asked before a process starts; throws when it must not. */
  mayStart(machine: Machine, containerId: string, instance: string): Grant & { isFenced: boolean };
};

export class Machine {
  readonly nodeId: string;
  readonly capability: Resource;
  readonly world: World;
  readonly tracker: SimulatedTracker;
  readonly watcher: MachineWatcher;
  readonly processes = new Map<string, SimulatedProcess>();
  readonly disk = new Map<string, ContainerRecord>();
  healthy = true;
  isDead = false;
  bootId = 1;
  partitionedUntilMs = 0;
  agent: SimulatedAgent | null = null;
  #connections = 0;

  constructor(
    world: World,
    tracker: SimulatedTracker,
    watcher: MachineWatcher,
    id: { readonly nodeId: string; readonly capability: Resource },
  ) {
    this.world = world;
    this.tracker = tracker;
    this.watcher = watcher;
    this.nodeId = id.nodeId;
    this.capability = id.capability;
  }

  /** Each life of each agent goes on counting, as a clock would. */
  nextConnection(): number {
    this.#connections += 1;
    return this.#connections;
  }

  get living(): readonly SimulatedProcess[] {
    return [...this.processes.values()].filter(({ isAlive }) => isAlive);
  }

  startAgent(): void {
    if (this.isDead || this.agent) return;
    this.agent = new SimulatedAgent(this);
    this.agent.begin();
  }

  startAgentIn(delayMs: number): void {
    this.world.after(delayMs, `the agent of ${this.nodeId} starts`, () => this.startAgent());
  }

  /** SIGKILL: its memory is gone, its containers run on. */
  killAgent(): void {
    this.agent?.die();
    this.agent = null;
  }

  /** The power fails. */
  powerOff(): void {
    this.killAgent();
    for (const process of this.living) {
      process.isAlive = false;
      process.exitCode = null;
    }
    this.bootId += 1;
  }

  partition(durationMs: number): void {
    this.partitionedUntilMs = this.world.nowMs + durationMs;
    this.agent?.breakConnection();
  }

  spawn(containerId: string, instance: string): void {
    const process: SimulatedProcess = {
      containerId,
      instance,
      ...this.watcher.mayStart(this, containerId, instance),
      startedMs: this.world.nowMs,
      isAlive: true,
      isReady: false,
      exitCode: null,
    };
    this.processes.set(containerId, process);
    const delayMs = this.world.random.skewed(1, this.world.isCalm ? 100 : 5_000);
    this.world.after(delayMs, `${containerId} becomes ready`, () => {
      this.setReady(process, true);
    });
  }

  setReady(process: SimulatedProcess, isReady: boolean): void {
    if (!process.isAlive || process.isReady === isReady) return;
    process.isReady = isReady;
    this.agent?.readinessChanged(process);
  }

  exit(process: SimulatedProcess, exitCode: number): void {
    if (!process.isAlive) return;
    process.isAlive = false;
    process.exitCode = exitCode;
    this.agent?.exited(process);
  }
}
