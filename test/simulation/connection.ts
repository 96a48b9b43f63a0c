/**
 * A WebSocket between an agent and its tracker: in order while it lasts. When it breaks, all that
 * is on its way is lost, and either side may notice long after the other.
 */
import { NODE_EXPIRY_MS } from "../../src/core/cluster/tracker-node.ts";
import type { AgentMessage, TrackerMessage } from "../../src/shared/protocol/resource-tracker.ts";
import type { SimulatedTracker } from "./tracker.ts";
import type { World } from "./world.ts";

/** The end at the agent. */
export type AgentEnd = {
  receive(message: TrackerMessage, connection: number): void;
  disconnected(connection: number): void;
};

export class Connection {
  readonly nodeId: string;
  /** As the tracker tells the node's connections apart, and as the agent does. */
  readonly session: number;
  readonly number: number;
  readonly #world: World;
  readonly #tracker: SimulatedTracker;
  readonly #agent: AgentEnd;
  #isBroken = false;
  #upMs = 0;
  #downMs = 0;

  constructor(
    world: World,
    tracker: SimulatedTracker,
    agent: AgentEnd,
    id: { readonly nodeId: string; readonly number: number },
  ) {
    this.#world = world;
    this.#tracker = tracker;
    this.#agent = agent;
    this.nodeId = id.nodeId;
    this.number = id.number;
    this.session = world.random.between(1, 2 ** 32 - 1);
  }

  get isBroken(): boolean {
    return this.#isBroken;
  }

  toTracker(message: AgentMessage): void {
    this.#up(`${this.nodeId} -> ${this.#tracker.name} ${message.type}`, () =>
      this.#tracker.hear(this, message),
    );
  }

  toAgent(message: TrackerMessage): void {
    this.#down(`${this.#tracker.name} -> ${this.nodeId} ${message.type}`, () =>
      this.#agent.receive(message, this.number),
    );
  }

  /** The agent's end closes after all that it has said. */
  closeByAgent(): void {
    this.#up(`${this.nodeId} closes its connection`, () => {
      this.#isBroken = true;
      this.#tracker.disconnected(this);
    });
  }

  closeByTracker(): void {
    this.#down(`${this.#tracker.name} closes a connection of ${this.nodeId}`, () => {
      this.#isBroken = true;
      this.#agent.disconnected(this.number);
    });
    this.#tracker.disconnected(this);
  }

  /** The object at the tracker's end is gone with its sockets. */
  lostByTracker(): void {
    this.#isBroken = true;
    this.#agentNotices();
  }

  /** Somewhere between the two. */
  break(): void {
    if (this.#isBroken) return;
    this.#isBroken = true;
    this.#agentNotices();
    this.#trackerNotices();
  }

  /** The machine at the agent's end has no power any more, so that nobody says goodbye. */
  #trackerNotices(): void {
    const { random } = this.#world;
    const isSilent = random.chance(0.05);
    const delayMs = isSilent ? NODE_EXPIRY_MS : random.skewed(1, 5_000);
    this.#world.after(delayMs, `${this.#tracker.name} notices that ${this.nodeId} is gone`, () =>
      isSilent ? this.#tracker.silent(this) : this.#tracker.disconnected(this),
    );
  }

  #agentNotices(): void {
    const delayMs = this.#world.random.skewed(1, 5_000);
    this.#world.after(delayMs, `${this.nodeId} notices that its connection is gone`, () =>
      this.#agent.disconnected(this.number),
    );
  }

  #up(what: string, happen: () => void): void {
    this.#upMs = Math.max(this.#upMs, this.#world.nowMs + this.#world.random.skewed(1, 200));
    this.#later(this.#upMs, what, happen);
  }

  #down(what: string, happen: () => void): void {
    this.#downMs = Math.max(this.#downMs, this.#world.nowMs + this.#world.random.skewed(1, 200));
    this.#later(this.#downMs, what, happen);
  }

  #later(atMs: number, what: string, happen: () => void): void {
    if (this.#isBroken) return;
    this.#world.after(atMs - this.#world.nowMs, what, () => {
      if (!this.#isBroken) happen();
    });
  }
}
