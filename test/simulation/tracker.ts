/** A tracker shard as durable/resource-tracker.ts runs it: agents' sockets on one side, calls on the other. */
import { Tracker } from "../../src/core/cluster/tracker.ts";
import {
  containerStatuses,
  expireNodes,
  nextNodeDeadlineMs,
  nodeDisconnected,
  nodeHealth,
  nodeSilent,
  nodeUnregistered,
  registerNodeManager,
} from "../../src/core/cluster/tracker-node.ts";
import type {
  StartContainerRequest,
  UpdateContainerRequest,
} from "../../src/shared/protocol/container-management.ts";
import type {
  AgentMessage,
  CleanupOrder,
  ShutdownOrder,
  TrackerReport,
} from "../../src/shared/protocol/resource-tracker.ts";
import type { Connection } from "./connection.ts";
import { DurableObject } from "./durable-object.ts";
import type { Network } from "./network.ts";
import type { Peers } from "./peers.ts";
import type { World } from "./world.ts";

type Work =
  | { readonly key: "report"; readonly report: TrackerReport }
  | { readonly key: string; readonly master: string; readonly generation: number };

export class SimulatedTracker extends DurableObject<Tracker, Work> {
  readonly shard: string;
  peers: Peers | undefined;
  /** They outlive a hibernation, and no crash. */
  #sockets: Connection[] = [];

  constructor(shard: string, world: World, network: Network) {
    super(`tracker-${shard}`, world, network);
    this.shard = shard;
  }

  protected override create(): Tracker {
    const tracker = new Tracker();
    this.world.mutant.tracker?.(tracker);
    return tracker;
  }

  protected override settle(nowMs: number): void {
    expireNodes(this.core, nowMs);
  }

  protected override nextDeadlineMs(): number | null {
    return nextNodeDeadlineMs(this.core);
  }

  override digest(core: Tracker): string {
    const { nodes = [], containers = [] } = core.report(this.shard) ?? {};
    const masters = [...core.unheardMasters()].sort().map((name) => {
      const statuses = core.statusesFor(name).statuses.map((status) => JSON.stringify(status));
      return [name, statuses.sort()];
    });
    const sorted = [...nodes, ...containers].map((report) => JSON.stringify(report)).sort();
    return JSON.stringify([sorted, masters, nextNodeDeadlineMs(core)]);
  }

  // --- sockets ---------------------------------------------------------------------------------

  /** A node opens a connection; it replaces the node's older ones. */
  connect(connection: Connection): void {
    for (const older of this.#socketsOf(connection.nodeId)) older.closeByTracker();
    this.#sockets.push(connection);
  }

  hear(connection: Connection, message: AgentMessage): void {
    if (!this.#sockets.includes(connection)) return;
    const { nodeId, session } = connection;
    const isRegistered = this.core.nodes.get(nodeId)?.session === session;
    if (message.type !== "register" && !isRegistered) {
      connection.closeByTracker();
      return;
    }
    this.run(`node.${message.type}`, () => {
      if (message.type === "register") registerNodeManager(this.core, message, session, []);
      if (message.type === "statuses") containerStatuses(this.core, nodeId, message.containers);
      if (message.type === "health") nodeHealth(this.core, nodeId, message);
      if (message.type === "unregister") nodeUnregistered(this.core, nodeId);
    });
  }

  disconnected(connection: Connection): void {
    this.#sockets = this.#sockets.filter((other) => other !== connection);
    const { nodeId, session } = connection;
    this.run("node.disconnected", (nowMs) => nodeDisconnected(this.core, nodeId, session, nowMs));
  }

  /** Nothing was heard for longer than the expiry interval. */
  silent(connection: Connection): void {
    if (!this.#sockets.includes(connection)) return;
    this.#sockets = this.#sockets.filter((other) => other !== connection);
    this.run("node.silent", () => nodeSilent(this.core, connection.nodeId));
  }

  shutdownNodes(orders: readonly ShutdownOrder[]): void {
    this.run("shutdownNodes", () => {
      for (const { nodeId, reason } of orders) this.core.send(nodeId, { type: "shutdown", reason });
    });
  }

  protected override afterSave(): void {
    for (const { nodeId, message } of this.core.drainMessages()) {
      if (this.world.mutant.dropsMessage?.(message)) continue;
      for (const socket of this.#socketsOf(nodeId)) socket.toAgent(message);
    }
  }

  override crash(): void {
    for (const socket of this.#sockets) socket.lostByTracker();
    this.#sockets = [];
    super.crash();
  }

  /** Memory goes, sockets stay; only an object with nothing under way hibernates. */
  hibernate(): void {
    if (this.unfinished().length === 0) super.crash();
  }

  protected override woken(): void {
    const lost = [...this.core.nodes.values()].filter(
      ({ facts, presence }) =>
        presence === "CONNECTED" && this.#socketsOf(facts.nodeId).length === 0,
    );
    if (lost.length === 0) return;
    this.run("socketsLost", (nowMs) => {
      for (const { facts, session } of lost) {
        nodeDisconnected(this.core, facts.nodeId, session, nowMs);
      }
    });
  }

  #socketsOf(nodeId: string): readonly Connection[] {
    return this.#sockets.filter((socket) => socket.nodeId === nodeId);
  }

  // --- calls -----------------------------------------------------------------------------------

  startContainers(master: string, requests: readonly StartContainerRequest[]): void {
    this.run("startContainers", () => this.core.startContainers(master, requests));
  }

  updateContainers(master: string, requests: readonly UpdateContainerRequest[]) {
    return this.run("updateContainers", () => this.core.updateContainers(master, requests));
  }

  cleanupContainers(orders: readonly CleanupOrder[]) {
    return this.run("cleanupContainers", () => this.core.cleanupContainers(orders));
  }

  protected override work(): readonly Work[] {
    const report = this.core.report(this.shard);
    const work: Work[] = report ? [{ key: "report", report }] : [];
    for (const master of this.core.unheardMasters()) {
      work.push({ key: `statuses ${master}`, master, generation: this.core.clock });
    }
    return work;
  }

  protected override perform(work: Work, settled: (holdMs: number | null) => void): void {
    if ("report" in work) this.#report(work.report, settled);
    else this.#tell(work.master, settled);
  }

  #report(report: TrackerReport, settled: (holdMs: number | null) => void): void {
    const resourceManager = this.peers?.resourceManager;
    if (!resourceManager) {
      settled(null);
      return;
    }
    this.network.call({
      from: this,
      to: resourceManager,
      what: `${this.name} -> rm reportNodes`,
      request: () => resourceManager.reportNodes(report),
      reply: ({ acknowledged, cleanup }) => {
        this.run("reportAcknowledged", () => {
          if (acknowledged > report.generation) this.core.fastForward(acknowledged);
          else this.core.reportAcknowledged(report.generation, cleanup);
        });
        settled(0);
      },
      failed: () => settled(null),
    });
  }

  #tell(name: string, settled: (holdMs: number | null) => void): void {
    const master = this.peers?.master(name);
    if (!master) {
      settled(null);
      return;
    }
    const { generation, statuses } = this.core.statusesFor(name);
    this.network.call({
      from: this,
      to: master,
      what: `${this.name} -> ${name} onContainerStatuses`,
      request: () => master.onContainerStatuses(this.shard, generation, statuses),
      reply: (heard) => {
        this.run("statusesAcknowledged", () => {
          if (heard > generation) this.core.fastForward(heard);
          else this.core.statusesAcknowledged(name, generation);
        });
        settled(0);
      },
      failed: () => settled(null),
    });
  }
}
