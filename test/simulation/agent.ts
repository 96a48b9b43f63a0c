/**
 * A NodeManager: agent/container-manager.ts decides, as in the real one; the actions are those of
 * agent/node-manager.ts and agent/managed-container.ts, with every write to the disk and every
 * step of a launch an event of its own, so that a crash can come between any two.
 */
import {
  type Action,
  type ContainerPhase,
  type ContainerUpdate,
  type DesiredSet,
  reconcile,
  takeAcknowledged,
  takeDesired,
  takeRegistered,
} from "../../src/agent/container-manager.ts";
import type { ContainerLaunchContext } from "../../src/shared/container.ts";
import { type ContainerStatus, EXIT } from "../../src/shared/container.ts";
import type { TrackerMessage } from "../../src/shared/protocol/resource-tracker.ts";
import { Connection } from "./connection.ts";
import type { ContainerRecord, Launch, Machine, SimulatedProcess } from "./machine.ts";

const TOMBSTONE_MS = 600_000;
const BACKOFF_MIN_MS = 100;
const BACKOFF_MAX_MS = 15_000;

type Order = { readonly exitStatus: number; readonly diagnostics: string };

/** What watches over the agent starts it again, however it ended. */
const RESTART_MS = 20_000;

export class SimulatedAgent {
  readonly #machine: Machine;
  readonly #containers = new Map<string, ContainerRecord>();
  readonly #dirty = new Set<string>();
  /** The latest update of each container that was begun. */
  readonly #begun = new Map<string, number>();
  /** Updates of one container come one after the other: when the last of them is. */
  readonly #replacing = new Map<string, number>();
  #desired: DesiredSet | undefined;
  #connection: Connection | undefined;
  #failures = 0;
  #isAlive = true;
  /** It goes in good order, and comes back after so long. */
  #leavesForMs: number | null = null;

  constructor(machine: Machine) {
    this.#machine = machine;
  }

  /** Finds the containers of its last life, then opens a connection. */
  begin(): void {
    for (const [containerId, record] of this.#machine.disk)
      this.#containers.set(containerId, record);
    for (const containerId of this.#containers.keys()) this.#adopt(containerId);
    this.#later(5, "connects", () => this.#connect());
  }

  die(): void {
    this.#isAlive = false;
    this.breakConnection();
  }

  breakConnection(): void {
    this.#connection?.break();
  }

  get isConnected(): boolean {
    return this.#connection !== undefined && !this.#connection.isBroken;
  }

  /** Containers that it still has something to do or to say about. */
  get unfinished(): readonly ContainerRecord[] {
    return [...this.#containers.values()].filter(({ phase }) => phase !== "FORGOTTEN");
  }

  /** Ends every container, says goodbye and goes. */
  leave(forMs: number): void {
    this.#leavesForMs = forMs;
    for (const { status } of this.unfinished) {
      const diagnostics = "the NodeManager is being stopped";
      this.#stop(status.containerId, { exitStatus: EXIT.ABORTED, diagnostics });
    }
    this.#mayGo();
  }

  setHealth(healthy: boolean): void {
    this.#machine.healthy = healthy;
    const healthReport = healthy ? "" : "a disk is full";
    if (this.isConnected) this.#connection?.toTracker({ type: "health", healthy, healthReport });
  }

  readinessChanged({ containerId, isReady }: SimulatedProcess): void {
    const record = this.#containers.get(containerId);
    if (record?.phase !== "RUNNING" || !record.needsCheck || record.next !== undefined) return;
    this.#put({ ...record, status: { ...record.status, ready: isReady } });
    this.#changed(containerId);
  }

  exited({ containerId }: SimulatedProcess): void {
    this.#later(3, `sees the end of ${containerId}`, () => this.#ended(containerId));
  }

  // --- the connection --------------------------------------------------------------------------

  receive(message: TrackerMessage, connection: number): void {
    if (!this.#isAlive) return;
    if (message.type === "registered") {
      this.#failures = 0;
      this.#acknowledge(message.acknowledged);
      this.#desired = takeRegistered(this.#desired, connection, message);
      this.#reconcile();
    } else if (message.type === "desired") {
      this.#desired = takeDesired(this.#desired, connection, message);
      this.#reconcile();
    } else if (message.type === "acknowledge") {
      this.#acknowledge(message.containerIds);
    } else if (message.type === "shutdown") {
      this.#machine.killAgent();
      this.#machine.startAgentIn(RESTART_MS);
    }
  }

  disconnected(connection: number): void {
    if (!this.#isAlive || this.#connection?.number !== connection) return;
    this.#connection = undefined;
    this.#retry();
  }

  #connect(): void {
    const { world, tracker, nodeId, partitionedUntilMs } = this.#machine;
    if (partitionedUntilMs > world.nowMs || tracker.unreachableUntilMs > world.nowMs) {
      this.#retry();
      return;
    }
    const number = this.#machine.nextConnection();
    this.#connection = new Connection(world, tracker, this, { nodeId, number });
    tracker.connect(this.#connection);
    const connection = this.#connection;
    this.#later(5, "registers", () => {
      if (this.#connection !== connection) return;
      this.#dirty.clear();
      connection.toTracker({
        type: "register",
        protocolVersion: 1,
        node: {
          nodeId,
          host: nodeId.slice(0, nodeId.indexOf(":")),
          rack: "/default-rack",
          capability: this.#machine.capability,
          labels: [],
          attributes: {},
          agentVersion: "simulated",
          healthy: this.#machine.healthy,
          healthReport: this.#machine.healthy ? "" : "a disk is full",
        },
        containers: this.unfinished.map(({ status }) => status),
      });
    });
  }

  #retry(): void {
    this.#failures += 1;
    const limitMs = Math.min(BACKOFF_MAX_MS, BACKOFF_MIN_MS * 2 ** Math.min(this.#failures, 20));
    this.#later(limitMs, "connects", () => this.#connect());
  }

  /** Changes within a moment go up together. */
  #changed(containerId: string): void {
    if (this.#dirty.size === 0) this.#later(1, "reports", () => this.#flush());
    this.#dirty.add(containerId);
  }

  #flush(): void {
    const containers: ContainerStatus[] = [];
    for (const containerId of this.#dirty) {
      const record = this.#containers.get(containerId);
      if (record) containers.push(record.status);
    }
    this.#dirty.clear();
    if (containers.length > 0 && this.isConnected) {
      this.#connection?.toTracker({ type: "statuses", containers });
    }
    if (this.#leavesForMs !== null) this.#mayGo();
  }

  #mayGo(): void {
    if (this.unfinished.some(({ phase }) => phase !== "COMPLETE") || this.#dirty.size > 0) return;
    this.#connection?.toTracker({ type: "unregister" });
    this.#connection?.closeByAgent();
    this.#isAlive = false;
    this.#machine.agent = null;
    this.#machine.startAgentIn(this.#leavesForMs ?? 0);
  }

  // --- containers ------------------------------------------------------------------------------

  #reconcile(): void {
    if (this.#leavesForMs !== null) return;
    this.#forgetOld();
    const actual = new Map<string, ContainerPhase>();
    const revisions = new Map<string, number>();
    for (const [containerId, { phase, status }] of this.#containers) {
      actual.set(containerId, phase);
      revisions.set(containerId, this.#begun.get(containerId) ?? status.revision ?? 0);
    }
    for (const action of reconcile(this.#desired, actual, revisions)) this.#perform(action);
  }

  #forgetOld(): void {
    for (const [containerId, { phase, rememberedUntilMs }] of this.#containers) {
      if (phase !== "FORGOTTEN" || rememberedUntilMs > this.#machine.world.nowMs) continue;
      this.#containers.delete(containerId);
      this.#machine.disk.delete(containerId);
    }
  }

  #perform(action: Action): void {
    const { containerId } = action;
    if (!this.#containers.has(containerId)) this.#put(this.#newRecord(containerId));
    if (action.type === "START") this.#start(containerId, action.token, action.launch);
    else if (action.type === "STOP") this.#stop(containerId, action);
    else if (action.type === "COMPLETE") this.#complete(containerId, action);
    else if (action.type === "UPDATE") this.#replace(containerId, action);
    else this.#reportAgain(containerId);
  }

  #newRecord(containerId: string): ContainerRecord {
    const { world, bootId } = this.#machine;
    return {
      phase: "NEW",
      status: {
        containerId,
        state: "NEW",
        exitStatus: EXIT.INVALID,
        diagnostics: "",
        ready: false,
        host: this.#machine.nodeId,
        ips: ["127.0.0.1"],
      },
      bootId,
      needsCheck: false,
      rememberedUntilMs: world.nowMs + TOMBSTONE_MS,
      stop: null,
      launch: { version: 1, command: "" },
    };
  }

  #start(containerId: string, token: string, launch: ContainerLaunchContext): void {
    this.#later(5, `prepares ${containerId}`, () => {
      const [named, nodeId, expiresMs] = token.split(" ");
      const isValid = named === containerId && nodeId === this.#machine.nodeId;
      if (!isValid || Number(expiresMs) <= this.#machine.world.nowMs) {
        const diagnostics = "Container launch failed: its token is not valid";
        return this.#complete(containerId, { exitStatus: EXIT.INVALID, diagnostics });
      }
      this.#update(containerId, {
        rememberedUntilMs: Number(expiresMs),
        needsCheck: launch.readinessCheck.type !== "DEFAULT",
        launch: launchOf(launch),
      });
      this.#persist(containerId);
      this.#later(5, `launches ${containerId}`, () => this.#launch(containerId, launch));
    });
  }

  #launch(containerId: string, launch: ContainerLaunchContext): void {
    const record = this.#containers.get(containerId);
    if (record?.stop) {
      this.#complete(containerId, record.stop);
      return;
    }
    if (record?.phase !== "NEW") return;
    this.#machine.spawn(containerId, launch.instance);
    this.#running(containerId, this.#machine.world.nowMs);
  }

  /**
   * In place: prepared, then told to be under way, then done. Some cannot be prepared, and of those
   * that may still be taken back, some do not run.
   */
  #replace(containerId: string, { revision, launch, reInitialization }: ContainerUpdate): void {
    const { random } = this.#machine.world;
    this.#begun.set(containerId, revision);
    const isRefused = random.chance(0.2);
    const before = this.#replacing.get(containerId) ?? 0;
    const atMs = Math.max(before, this.#machine.world.nowMs) + random.between(5, 50);
    this.#replacing.set(containerId, atMs);
    this.#later(atMs - this.#machine.world.nowMs, `prepares ${containerId} anew`, () => {
      const record = this.#containers.get(containerId);
      if (record?.phase !== "RUNNING") return;
      const { previous, launch: present } = record;
      if (reInitialization === "ROLLED_BACK") {
        if (previous) this.#takePlace(containerId, revision, previous, undefined);
        else this.#settleUpdate(containerId, { revision });
        return;
      }
      const isNewer = launch !== undefined && (launch.version ?? 1) > present.version;
      if (isNewer && !isRefused) {
        const kept = reInitialization === "PENDING" ? present : undefined;
        this.#takePlace(containerId, revision, launchOf(launch), kept);
        return;
      }
      if (reInitialization !== "PENDING" && !isNewer) this.#keep(containerId, undefined);
      this.#settleUpdate(containerId, { revision });
    });
  }

  #takePlace(
    containerId: string,
    revision: number,
    next: Launch,
    previous: Launch | undefined,
  ): void {
    this.#update(containerId, { next });
    this.#keep(containerId, previous);
    this.#settleUpdate(containerId, { revision, subState: "REINITIALIZING", ready: false });
    this.#runAnew(containerId, next);
  }

  #runAnew(containerId: string, next: Launch): void {
    const { random } = this.#machine.world;
    this.#later(random.between(5, 200), `runs ${containerId} anew`, () => {
      const record = this.#containers.get(containerId);
      if (record?.phase !== "RUNNING") return;
      const { next: _, ...settled } = record;
      this.#put({ ...settled, launch: next });
      const process = this.#machine.processes.get(containerId);
      const ready = !record.needsCheck || process?.isReady === true;
      this.#settleUpdate(containerId, { ...versionOf(next), subState: "RUNNING", ready });
      if (record.previous && random.chance(0.2)) this.#failLater(containerId, next);
    });
  }

  /** The new process fails after a while; as long as it is pending, the one before is taken again. */
  #failLater(containerId: string, failing: Launch): void {
    const { random, isCalm } = this.#machine.world;
    this.#later(random.skewed(1, isCalm ? 1_000 : 20_000), `${containerId} fails anew`, () => {
      const record = this.#containers.get(containerId);
      if (record?.phase !== "RUNNING" || !record.previous || record.next) return;
      if (record.launch.version !== failing.version) return;
      const { previous } = record;
      this.#keep(containerId, undefined);
      this.#update(containerId, { next: previous });
      this.#settleUpdate(containerId, {
        ...{ subState: "REINITIALIZING", ready: false },
        diagnostics: "Container re-initialization rolled back: it failed",
      });
      this.#runAnew(containerId, previous);
    });
  }

  #keep(containerId: string, previous: Launch | undefined): void {
    const record = this.#containers.get(containerId);
    if (!record) return;
    const { previous: _, ...rest } = record;
    this.#put(previous ? { ...rest, previous } : rest);
  }

  #settleUpdate(containerId: string, facts: Partial<ContainerStatus>): void {
    const record = this.#containers.get(containerId);
    if (record?.phase !== "RUNNING") return;
    this.#put({ ...record, status: { ...record.status, ...facts } });
    this.#persist(containerId);
    this.#changed(containerId);
  }

  #running(containerId: string, startedMs: number): void {
    const record = this.#containers.get(containerId);
    const process = this.#machine.processes.get(containerId);
    if (!record || !process) return;
    const ready = !record.needsCheck || process.isReady;
    const status = { ...record.status, state: "RUNNING" as const, ready, startedMs };
    const phase = record.phase === "NEW" ? "RUNNING" : record.phase;
    this.#put({ ...record, phase, status });
    this.#changed(containerId);
  }

  #adopt(containerId: string): void {
    const record = this.#containers.get(containerId);
    if (!record || record.phase === "COMPLETE" || record.phase === "FORGOTTEN") return;
    const process = this.#machine.processes.get(containerId);
    if (record.bootId !== this.#machine.bootId || !process?.isAlive) {
      this.#ended(containerId);
      return;
    }
    this.#running(containerId, process.startedMs);
    if (record.stop) this.#terminate(containerId);
    else if (record.next !== undefined) this.#runAnew(containerId, record.next);
  }

  #stop(containerId: string, order: Order): void {
    const record = this.#containers.get(containerId);
    if (record?.phase !== "NEW" && record?.phase !== "RUNNING") return;
    const { exitStatus, diagnostics } = order;
    this.#put({ ...record, phase: "STOPPING", stop: { exitStatus, diagnostics } });
    if (this.#machine.processes.has(containerId)) this.#terminate(containerId);
  }

  #terminate(containerId: string): void {
    this.#persist(containerId);
    const process = this.#machine.processes.get(containerId);
    if (!process) return;
    const delayMs = this.#machine.world.random.between(1, 400);
    this.#later(delayMs, `kills ${containerId}`, () => this.#machine.exit(process, 143));
  }

  #ended(containerId: string): void {
    const record = this.#containers.get(containerId);
    if (!record || record.phase === "COMPLETE" || record.phase === "FORGOTTEN") return;
    if (record.stop) {
      this.#complete(containerId, record.stop);
      return;
    }
    const process = this.#machine.processes.get(containerId);
    const isSeen = record.bootId === this.#machine.bootId && process !== undefined;
    const exitStatus = isSeen && process.exitCode !== null ? process.exitCode : EXIT.LOST;
    this.#complete(containerId, { exitStatus, diagnostics: "it ended" });
  }

  #complete(containerId: string, { exitStatus, diagnostics }: Order): void {
    const record = this.#containers.get(containerId);
    if (!record || record.phase === "COMPLETE") return;
    const ended = { state: "COMPLETE" as const, exitStatus, diagnostics, ready: false };
    this.#put({ ...record, phase: "COMPLETE", status: { ...record.status, ...ended } });
    this.#later(3, `stores the end of ${containerId}`, () => {
      this.#persist(containerId);
      this.#changed(containerId);
    });
  }

  #reportAgain(containerId: string): void {
    const record = this.#containers.get(containerId);
    if (record?.phase !== "FORGOTTEN") return;
    this.#put({ ...record, phase: "COMPLETE" });
    this.#persist(containerId);
    this.#changed(containerId);
  }

  #acknowledge(containerIds: readonly string[]): void {
    const complete = containerIds.filter((id) => this.#containers.get(id)?.phase === "COMPLETE");
    this.#desired = takeAcknowledged(this.#desired, complete);
    for (const containerId of complete) {
      if (this.#machine.world.mutant.isForgetfulAgent) {
        this.#containers.delete(containerId);
        this.#machine.disk.delete(containerId);
        continue;
      }
      this.#update(containerId, { phase: "FORGOTTEN" });
      this.#later(3, `forgets ${containerId}`, () => this.#persist(containerId));
    }
  }

  #put(record: ContainerRecord): void {
    this.#containers.set(record.status.containerId, record);
  }

  #update(containerId: string, changes: Partial<ContainerRecord>): void {
    const record = this.#containers.get(containerId);
    if (record) this.#put({ ...record, ...changes });
  }

  #persist(containerId: string): void {
    const record = this.#containers.get(containerId);
    if (record) this.#machine.disk.set(containerId, record);
  }

  /** Within `withinMs`, unless the agent has died by then. */
  #later(withinMs: number, what: string, happen: () => void): void {
    const { world, nodeId } = this.#machine;
    world.after(world.random.between(1, withinMs), `${nodeId} ${what}`, () => {
      if (this.#isAlive) happen();
    });
  }
}

function launchOf({ version = 1, commands }: ContainerLaunchContext): Launch {
  return { version, command: commands.join(" && ") };
}

/** The first version is not told. */
function versionOf({ version }: Launch): Pick<ContainerStatus, "launchVersion"> {
  return { launchVersion: version > 1 ? version : undefined };
}
