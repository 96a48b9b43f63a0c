/**
 * Everything at once: some dozens of containers of all kinds on one node, to whose processes, agent
 * and network things happen in an order that a seed decides. The same seed is the same plan, step
 * for step; what the machine makes of it differs a little every time, which is the point.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { ContainerId } from "../../src/shared/ids.ts";
import { Random } from "../simulation/random.ts";
import { ChaosNode } from "./chaos-node.ts";
import { DroppingProxy } from "./dropping-proxy.ts";

export type StormOptions = {
  readonly seed: number;
  /** Things that happen, about a third of them the order of a container. */
  readonly steps: number;
  readonly cgroups: boolean;
  /** Hears every step before it is taken. */
  readonly print?: ((line: string) => void) | undefined;
};

export type StormOutcome = {
  readonly containers: number;
  readonly kills: number;
  /** A line for each thing that is left or was told wrongly. */
  readonly findings: readonly string[];
};

const RECENT = 8;
/** Longer than a moment, shorter than what makes a connection fail. */
const PAUSE_MAX_MS = 120;
const WAIT = "while [ ! -e go ]; do sleep 0.05; done";
const DAEMON = "(setsid sh -c 'sh -c \"exec sleep 1000\" & exit' &)";

/** Commands by kind; each begins with a word, so that a second start shows. */
const KINDS = {
  short: (code: number) => `echo once; exit ${code}`,
  waiting: (code: number) => `echo once; ${WAIT}; exit ${code}`,
  family: (code: number) => `echo once; sleep 1000 & setsid sleep 1000 & ${WAIT}; exit ${code}`,
  daemon: (code: number) => `echo once; ${DAEMON}; ${WAIT}; exit ${code}`,
  stubborn: (code: number) => `trap '' TERM INT HUP; echo once; ${DAEMON}; ${WAIT}; exit ${code}`,
} as const;
const NAMES = Object.keys(KINDS) as (keyof typeof KINDS)[];

const TO_CONTAINERS = ["release", "stop", "kill", "kill leader", "freeze", "thaw"] as const;
const TO_NODE = [
  "kill agent",
  "freeze agent",
  "cut network",
  "heal network",
  "drop connections",
] as const;

type Target = { readonly id: ContainerId; wasLeaderKilled: boolean };

export async function runStorm(options: StormOptions): Promise<StormOutcome> {
  let proxy: DroppingProxy | undefined;
  const node = await ChaosNode.create({
    cgroups: options.cgroups,
    urlOf: async ({ port }) => {
      proxy = await DroppingProxy.start(port);
      return proxy.url;
    },
  });
  try {
    if (!proxy) throw new Error("no proxy was started");
    await node.startAgent();
    return await new Storm(node, proxy, options).run();
  } finally {
    await node.close();
    await proxy?.close();
  }
}

class Storm {
  readonly #node: ChaosNode;
  readonly #proxy: DroppingProxy;
  readonly #options: StormOptions;
  readonly #random: Random;
  readonly #targets: Target[] = [];
  #kills = 0;

  constructor(node: ChaosNode, proxy: DroppingProxy, options: StormOptions) {
    this.#node = node;
    this.#proxy = proxy;
    this.#options = options;
    this.#random = new Random(options.seed);
  }

  async run(): Promise<StormOutcome> {
    for (let step = 0; step < this.#options.steps; step++) await this.#step(step);
    await this.#calm();
    const findings = [...(await this.#node.finish()), ...this.#startedWrongly()];
    return { containers: this.#targets.length, kills: this.#kills, findings };
  }

  /** The dice are thrown the same number of times whatever the machine does. */
  async #step(step: number): Promise<void> {
    const random = this.#random;
    const dice = random.next();
    const pauseMs = random.between(0, PAUSE_MAX_MS);
    // The latest ones, which are not over yet.
    const target = this.#targets.at(-random.between(1, RECENT));
    const kind = random.pick(NAMES);
    const code = random.between(0, 9);
    const toContainer = random.pick(TO_CONTAINERS);
    const toNode = random.pick(TO_NODE);
    const say = (what: string) => this.#options.print?.(`${step}: ${what}`);
    if (dice < 0.4 || !target) {
      say(`order container ${this.#targets.length + 1} (${kind}, exit ${code})`);
      await this.#order(kind, code);
    } else if (dice < 0.85) {
      say(`${toContainer} ${target.id}`);
      this.#doToContainer(target, toContainer);
    } else {
      say(toNode);
      await this.#doToNode(toNode, pauseMs);
    }
    await delay(pauseMs);
  }

  async #order(kind: keyof typeof KINDS, code: number): Promise<void> {
    const sigkillDelayMs = 100;
    const sequence = this.#targets.length + 1;
    const id = await this.#node.run(sequence, KINDS[kind](code), [code], { sigkillDelayMs });
    this.#targets.push({ id, wasLeaderKilled: false });
  }

  #doToContainer(target: Target, what: (typeof TO_CONTAINERS)[number]): void {
    const { id } = target;
    const node = this.#node;
    switch (what) {
      case "release":
        attempt(() => node.release(id));
        break;
      case "stop":
        this.#mayEndWith(id, -105);
        // A tracker forgets whose end it has acknowledged.
        if (node.tracker.desired.has(id)) node.tracker.stop(id);
        break;
      case "kill":
        this.#mayEndWith(id, 137);
        this.#signal(id, "SIGKILL");
        break;
      case "kill leader":
        this.#mayEndWith(id, 137, 154);
        target.wasLeaderKilled = true;
        attempt(() => process.kill(node.leaderPid(id), "SIGKILL"));
        break;
      case "freeze":
        this.#signal(id, "SIGSTOP");
        break;
      case "thaw":
        this.#signal(id, "SIGCONT");
        break;
    }
  }

  async #doToNode(what: (typeof TO_NODE)[number], pauseMs: number): Promise<void> {
    const node = this.#node;
    switch (what) {
      case "kill agent":
        this.#kills += 1;
        await node.killAgent();
        // One that died between its record and its process never gets a process.
        for (const { id } of this.#targets) this.#mayEndWith(id, 154);
        return node.launchAgent();
      case "freeze agent":
        node.signalAgent("SIGSTOP");
        await delay(pauseMs);
        return node.signalAgent("SIGCONT");
      case "cut network":
        return this.#proxy.cut();
      case "heal network":
        return this.#proxy.heal();
      case "drop connections":
        return node.tracker.dropConnections();
    }
  }

  #signal(id: ContainerId, signal: NodeJS.Signals): void {
    for (const pid of this.#node.processesOf(id)) attempt(() => process.kill(pid, signal));
  }

  #mayEndWith(id: ContainerId, ...codes: readonly number[]): void {
    this.#node.exits.set(id, [...new Set([...(this.#node.exits.get(id) ?? []), ...codes])]);
  }

  /** Nothing more happens, and whatever still runs is asked to end. */
  async #calm(): Promise<void> {
    this.#proxy.heal();
    for (const { id } of this.#targets) {
      this.#signal(id, "SIGCONT");
      this.#mayEndWith(id, -105);
      if (this.#node.tracker.desired.has(id)) this.#node.tracker.stop(id);
    }
  }

  /** No container starts twice, and none is said to be lost that was there to be found. */
  #startedWrongly(): readonly string[] {
    const node = this.#node;
    const ends = new Map(node.ends().map((status) => [status.containerId, status.exitStatus]));
    return this.#targets.flatMap(({ id, wasLeaderKilled }) => {
      const starts = node
        .stdout(id)
        .split("\n")
        .filter((line) => line === "once").length;
      if (starts > 1) return [`${id} was started ${starts} times`];
      if (ends.get(id) === 154 && starts === 1 && !wasLeaderKilled) {
        return [`${id} ran, and its exit was lost`];
      }
      return [];
    });
  }
}

/** What is not there yet, or no longer, is not touched. */
function attempt(act: () => unknown): void {
  try {
    act();
  } catch {
    // It has ended, or was not prepared yet.
  }
}
