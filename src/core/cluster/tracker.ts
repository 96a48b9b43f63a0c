/**
 * One shard of the ResourceTracker: which nodes are there, what each shall run (its desired set),
 * and what each said last. It stands between three parties and owes each of them the truth:
 *
 *   agent            the whole desired set at every register, changes while connected
 *   ResourceManager  nodes and container ends that changed since the generation it acknowledged
 *   service masters  statuses (running, ready) that changed since the generation they acknowledged
 *
 * A container's row is kept until it is COMPLETE and the ResourceManager has acknowledged that.
 */
import { type ContainerLaunchContext, type ContainerStatus, EXIT } from "../../shared/container.ts";
import {
  type ApplicationId,
  applicationOfContainer,
  type ContainerId,
  type NodeId,
} from "../../shared/ids.ts";
import type { NodeFacts } from "../../shared/node.ts";
import type {
  MasterName,
  StartContainerRequest,
  UpdateContainerRequest,
  UpdatedContainer,
} from "../../shared/protocol/container-management.ts";
import type {
  CleanupOrder,
  DesiredContainer,
  NodeReport,
  ReInitialization,
  TrackerMessage,
  TrackerReport,
} from "../../shared/protocol/resource-tracker.ts";
import { type Change, Index, Table } from "../table.ts";
import { guard } from "../transitions.ts";
import type { Exit } from "./rows.ts";
import { applicationKey, applicationStarts } from "./tracker-applications.ts";
import { PRESENCE_TRANSITIONS } from "./transitions.ts";

/** The peer name of the ResourceManager; all others are masters. */
export const RESOURCE_MANAGER_PEER = "resource-manager";
/** Of a container that was ordered to end before its master handed it over: nobody is to hear. */
const NO_MASTER = "";

export type TrackedNode = {
  readonly facts: NodeFacts;
  /** DISCONNECTED: its connection broke, and it has until `deadlineMs` to come back. */
  readonly presence: "CONNECTED" | "DISCONNECTED" | "LOST" | "SHUTDOWN";
  readonly reason: string;
  readonly deadlineMs: number | null;
  /** Tells a node's connections apart, so that the end of an old one is no news. */
  readonly session: number;
  /** Its stay in the cluster: a new number whenever it comes anew or after it was given up. */
  readonly incarnation: number;
  /** Of its desired set; rises with every change. */
  readonly generation: number;
  /** The shard's clock at the last change that the ResourceManager should hear of. */
  readonly changedIn: number;
};

export type TrackedContainer = {
  readonly containerId: ContainerId;
  readonly nodeId: NodeId;
  readonly master: MasterName;
  readonly token: string;
  readonly launch: ContainerLaunchContext | null;
  /** Ordered to end. */
  readonly stop: Exit | null;
  /** null: the agent has not said that it knows the container. */
  readonly status: ContainerStatus | null;
  /** Of what its master changed after the start; absent: nothing. */
  readonly revision?: number;
  readonly reInitialization?: ReInitialization;
  /** The shard's clock at the last change for the ResourceManager, and for the master. */
  readonly changedIn: number;
  readonly changedForMasterIn: number;
};

/** An application that has, or had, containers on a node, and has not been cleaned up there. */
export type TrackedApplication = {
  readonly nodeId: NodeId;
  readonly applicationId: ApplicationId;
  /** The node is to clean up. */
  readonly finished: boolean;
};

/** Up to which clock a peer has acknowledged what it was told. */
export type PeerRow = { readonly peer: string; readonly acknowledged: number };

export class Tracker {
  readonly nodes = new Table<TrackedNode>("nodes", (row) => row.facts.nodeId);
  readonly containers = new Table<TrackedContainer>("containers", (row) => row.containerId);
  readonly applications = new Table<TrackedApplication>("applications", applicationKey);
  readonly peers = new Table<PeerRow>("peers", (row) => row.peer);
  /** Peers come first: while the others are loaded it must be known what was acknowledged. */
  readonly tables = [this.peers, this.nodes, this.containers, this.applications] as const;
  readonly containersOfNode = new Index(
    this.containers,
    (row) => row.containerId,
    (row) => row.nodeId,
  );
  readonly containersOfMaster = new Index(
    this.containers,
    (row) => row.containerId,
    (row) => row.master,
  );
  readonly applicationsOfNode = new Index(this.applications, applicationKey, (row) => row.nodeId);
  readonly nodesOfApplication = new Index(
    this.applications,
    applicationKey,
    (row) => row.applicationId,
  );
  readonly waitingNodes = new Index(
    this.nodes,
    (row) => row.facts.nodeId,
    (row) => (row.deadlineMs === null ? undefined : "waiting"),
  );

  /**
   * Rises with every change. It is not stored: rows and peers hold (nearly) its largest value, and
   * a peer that has heard more says so (`fastForward`).
   */
  #clock = 0;
  /** Per peer, the rows that it has not acknowledged. */
  readonly #unheard = new Map<string, Set<string>>();
  #messages: { nodeId: NodeId; message: TrackerMessage }[] = [];

  constructor() {
    guard(this.nodes, PRESENCE_TRANSITIONS, ({ presence }) => presence);
    this.peers.watch((_, row) => {
      if (row) this.#clock = Math.max(this.#clock, row.acknowledged);
    });
    this.nodes.watch((_, row) => {
      if (row) this.#note(RESOURCE_MANAGER_PEER, `node ${row.facts.nodeId}`, row.changedIn);
    });
    this.containers.watch((before, row) => {
      if (row) {
        this.#note(RESOURCE_MANAGER_PEER, row.containerId, row.changedIn);
        this.#note(row.master, row.containerId, row.changedForMasterIn);
      } else if (before) {
        this.#containerForgotten(before);
      }
    });
  }

  /** A master without containers in this shard is no peer any more. */
  #containerForgotten({ master, containerId }: TrackedContainer): void {
    const unheard = this.#unheard.get(master);
    unheard?.delete(containerId);
    if (unheard?.size === 0) this.#unheard.delete(master);
    if (this.containersOfMaster.count(master) === 0) this.peers.delete(master);
  }

  drain(): Change[] {
    return this.tables.flatMap((table) => table.drain());
  }

  /** Messages for agents that the last commands decided; the shell sends them after storing. */
  drainMessages(): readonly { readonly nodeId: NodeId; readonly message: TrackerMessage }[] {
    const messages = this.#messages;
    this.#messages = [];
    return messages;
  }

  send(nodeId: NodeId, message: TrackerMessage): void {
    this.#messages.push({ nodeId, message });
  }

  get clock(): number {
    return this.#clock;
  }

  /** The next value of the shard's clock. */
  tickClock(): number {
    this.#clock += 1;
    return this.#clock;
  }

  /** A peer has heard a higher clock than this object remembers: go on above it. */
  fastForward(clock: number): void {
    this.#clock = Math.max(this.#clock, clock + 1);
  }

  #note(peer: string, key: string, changedIn: number): void {
    this.#clock = Math.max(this.#clock, changedIn);
    if (changedIn <= (this.peers.get(peer)?.acknowledged ?? 0)) return;
    const keys = this.#unheard.get(peer);
    if (keys) keys.add(key);
    else this.#unheard.set(peer, new Set([key]));
  }

  /** All that the ResourceManager has not acknowledged, or null when it knows everything. */
  report(shard: string): TrackerReport | null {
    const unheard = this.#unheard.get(RESOURCE_MANAGER_PEER);
    if (!unheard || unheard.size === 0) return null;
    const nodes: NodeReport[] = [];
    const containers: TrackerReport["containers"][number][] = [];
    for (const key of unheard) {
      const node = key.startsWith("node ") ? this.nodes.get(key.slice(5)) : undefined;
      if (node) nodes.push(nodeReport(node));
      const container = this.containers.get(key);
      if (!container?.status) continue;
      const { state, exitStatus, diagnostics } = container.status;
      const { nodeId, containerId } = container;
      containers.push({ nodeId, containerId, state, exitStatus, diagnostics });
    }
    return { shard, generation: this.#clock, nodes, containers };
  }

  /** What the ResourceManager has heard may go where nobody needs it any more. */
  reportAcknowledged(generation: number, orphans: readonly CleanupOrder[]): void {
    this.#acknowledge(RESOURCE_MANAGER_PEER, generation, (key) => {
      const container = this.containers.get(key);
      if (container) {
        if (container.changedIn > generation) return false;
        if (container.status?.state === "COMPLETE") this.containers.delete(key);
        return true;
      }
      const nodeId = key.slice(5);
      const node = this.nodes.get(nodeId);
      if (node && node.changedIn > generation) return false;
      if (node && (node.presence === "LOST" || node.presence === "SHUTDOWN")) {
        this.nodes.delete(nodeId);
        for (const application of [...this.applicationsOfNode.of(nodeId)]) {
          this.applications.delete(application);
        }
      }
      return true;
    });
    this.cleanupContainers(orphans);
  }

  /** Masters which have not acknowledged every status of their containers. */
  unheardMasters(): readonly MasterName[] {
    const masters: MasterName[] = [];
    for (const [peer, keys] of this.#unheard) {
      if (peer !== RESOURCE_MANAGER_PEER && keys.size > 0) masters.push(peer);
    }
    return masters;
  }

  statusesFor(master: MasterName): { generation: number; statuses: readonly ContainerStatus[] } {
    const statuses: ContainerStatus[] = [];
    for (const key of this.#unheard.get(master) ?? []) {
      const status = this.containers.get(key)?.status;
      if (status) statuses.push(status);
    }
    return { generation: this.#clock, statuses };
  }

  statusesAcknowledged(master: MasterName, generation: number): void {
    this.#acknowledge(master, generation, (key) => {
      const container = this.containers.get(key);
      return !container || container.changedForMasterIn <= generation;
    });
  }

  #acknowledge(peer: string, generation: number, heard: (key: string) => boolean): void {
    const unheard = this.#unheard.get(peer);
    for (const key of [...(unheard ?? [])]) if (heard(key)) unheard?.delete(key);
    if (unheard?.size === 0) this.#unheard.delete(peer);
    if (peer !== RESOURCE_MANAGER_PEER && this.containersOfMaster.count(peer) === 0) return;
    if (generation > (this.peers.get(peer)?.acknowledged ?? 0)) {
      this.peers.put({ peer, acknowledged: generation });
    }
  }

  /** ContainerManagementProtocol.startContainers: adds them to their nodes' desired sets. */
  startContainers(master: MasterName, requests: readonly StartContainerRequest[]): void {
    const changed = new Map<NodeId, DesiredContainer[]>();
    for (const { containerId, nodeId, nodeIncarnation, token, launch } of requests) {
      if (this.containers.get(containerId)) continue;
      const node = this.nodes.get(nodeId);
      const present =
        (node?.presence === "CONNECTED" || node?.presence === "DISCONNECTED") &&
        node.incarnation === nodeIncarnation;
      const row: TrackedContainer = {
        containerId,
        nodeId,
        master,
        token,
        launch,
        stop: null,
        status: null,
        changedIn: 0,
        changedForMasterIn: 0,
      };
      this.containers.put(row);
      if (present) {
        applicationStarts(this, nodeId, applicationOfContainer(containerId));
        push(changed, nodeId, desiredOf(row));
      } else this.lose(row, "the node is not there any more, or was away meanwhile");
    }
    this.#pushDesired(changed);
  }

  /**
   * Changes what containers of the master shall be while they run; nothing of those that are over, or
   * ordered to end, or were never its own.
   */
  updateContainers(
    master: MasterName,
    requests: readonly UpdateContainerRequest[],
  ): readonly UpdatedContainer[] {
    const changed = new Map<NodeId, DesiredContainer[]>();
    const answers = requests.map((request) => {
      const { containerId, token, launch, reInitialization } = request;
      const row = this.containers.get(containerId);
      if (row?.master !== master || row.stop !== null || row.status?.state === "COMPLETE") {
        return { containerId, revision: null };
      }
      const before = row.revision ?? 0;
      const { revision = before + 1 } = request;
      if (revision <= before) return { containerId, revision: before };
      const updated: TrackedContainer = {
        ...row,
        token: token ?? row.token,
        launch: launch ?? row.launch,
        revision,
        reInitialization: reInitialization ?? "COMMITTED",
      };
      this.containers.put(updated);
      push(changed, row.nodeId, desiredOf(updated));
      return { containerId, revision };
    });
    this.#pushDesired(changed);
    return answers;
  }

  /**
   * Orders containers to end, also those that this shard has not heard of: their start may still be
   * on its way, and only a node that has taken the order is sure never to start them. Answers those
   * whose nodes are not there, so that nothing of them can run.
   */
  cleanupContainers(orders: readonly CleanupOrder[]): readonly ContainerId[] {
    const gone: ContainerId[] = [];
    const changed = new Map<NodeId, DesiredContainer[]>();
    for (const { containerId, nodeId, exitStatus, diagnostics } of orders) {
      const row = this.containers.get(containerId) ?? this.#unstarted(containerId, nodeId);
      if (!row || row.nodeId !== nodeId) {
        gone.push(containerId);
        continue;
      }
      if (row.stop !== null || row.status?.state === "COMPLETE") continue;
      const stopped = { ...row, stop: { exitStatus, diagnostics } };
      this.containers.put(stopped);
      push(changed, nodeId, desiredOf(stopped));
    }
    this.#pushDesired(changed);
    return gone;
  }

  /** A container that its master has not handed over, on a node that is there. */
  #unstarted(containerId: ContainerId, nodeId: NodeId): TrackedContainer | undefined {
    const node = this.nodes.get(nodeId);
    if (node?.presence !== "CONNECTED" && node?.presence !== "DISCONNECTED") return undefined;
    return {
      containerId,
      nodeId,
      master: NO_MASTER,
      token: "",
      launch: null,
      stop: null,
      status: null,
      changedIn: 0,
      changedForMasterIn: 0,
    };
  }

  #pushDesired(changed: ReadonlyMap<NodeId, readonly DesiredContainer[]>): void {
    for (const [nodeId, put] of changed) {
      const node = this.nodes.get(nodeId);
      if (!node) continue;
      const generation = node.generation + 1;
      this.nodes.put({ ...node, generation });
      if (node.presence === "CONNECTED") this.send(nodeId, { type: "desired", generation, put });
    }
  }

  /** Takes a container for ended because its node, or the node's knowledge of it, is gone. */
  lose(row: TrackedContainer, reason: string, exitStatus: number = EXIT.ABORTED): void {
    const diagnostics = `Container released on a *lost* node: ${reason}`;
    this.containers.put({
      ...row,
      status: {
        containerId: row.containerId,
        state: "COMPLETE",
        exitStatus: row.stop?.exitStatus ?? exitStatus,
        diagnostics: row.stop?.diagnostics ?? diagnostics,
        ready: false,
      },
      changedIn: this.tickClock(),
    });
  }
}

/** An entry of the desired set; token and launch context are in it as long as the row has them. */
export function desiredOf(row: TrackedContainer): DesiredContainer {
  const { containerId, stop, token, launch, revision, reInitialization } = row;
  if (stop) return { containerId, state: "STOP", ...stop };
  return {
    containerId,
    state: "RUN",
    ...(token === "" ? {} : { token }),
    ...(launch === null ? {} : { launch }),
    ...(revision === undefined ? {} : { revision }),
    ...(reInitialization === undefined ? {} : { reInitialization }),
  };
}

function nodeReport(node: TrackedNode): NodeReport {
  const gone = node.presence === "LOST" || node.presence === "SHUTDOWN";
  return {
    node: node.facts,
    presence: gone ? (node.presence as "LOST" | "SHUTDOWN") : "PRESENT",
    incarnation: node.incarnation,
    reason: node.reason,
  };
}

function push<Value>(groups: Map<string, Value[]>, group: string, value: Value): void {
  const values = groups.get(group);
  if (values) values.push(value);
  else groups.set(group, [value]);
}
