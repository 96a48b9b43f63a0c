/**
 * A registry's directory in memory and clients that use it at the same time, without any clock but
 * the number of steps: for what the checker must accept, and, made wrong on purpose, for what it
 * must find. A crash leaves everything that is under way without an answer.
 */
import { Random } from "../simulation/random.ts";
import { Chooser } from "./choices.ts";
import type { History, Operation } from "./history.ts";
import type { Change, RegistryInput, RegistryOutput, Seen } from "./registry-model.ts";

export type SimulatedHistory = History<RegistryInput, RegistryOutput>;

/** Every method is one step that nothing comes between. */
export class SimulatedStore {
  readonly random: Random;
  nodes = new Map<string, Seen>();
  newest = 0;

  constructor(random: Random) {
    this.random = random;
  }

  /** The request has come; what is done about it comes later. */
  arrived(_input: RegistryInput): void {}

  perform(input: RegistryInput): RegistryOutput {
    switch (input.op) {
      case "read":
        return { kind: "record", record: this.nodes.get(input.name) ?? null };
      case "list":
        return { kind: "names", versions: versionsOf(this.nodes) };
      case "write":
        return this.write(input.changes);
    }
  }

  write(changes: readonly Change[]): RegistryOutput {
    if (!changes.every((change) => this.isMet(change))) return { kind: "mismatch" };
    return { kind: "done", results: changes.map((change) => this.change(change)) };
  }

  isMet({ name, condition }: Change): boolean {
    if (condition === null) return true;
    return (this.nodes.get(name)?.version ?? "absent") === condition;
  }

  change({ name, value }: Change): number | boolean {
    if (value === null) return this.nodes.delete(name);
    this.newest += 1;
    this.nodes.set(name, { value, version: this.newest });
    return this.newest;
  }

  crash(): void {}
}

export function versionsOf(nodes: ReadonlyMap<string, Seen>): Readonly<Record<string, number>> {
  return Object.fromEntries(Array.from(nodes, ([name, { version }]) => [name, version]));
}

type Request = {
  readonly input: RegistryInput;
  readonly invokedMs: number;
  output: RegistryOutput | null;
};

const CLIENTS = 4;
const STEPS = 240;
const CRASH_PROBABILITY = 0.01;

/** One seed, one history of some eighty operations. */
export function simulateClients(
  seed: number,
  makeStore: (random: Random) => SimulatedStore = (random) => new SimulatedStore(random),
): SimulatedHistory {
  const random = new Random(seed);
  const store = makeStore(random);
  const history: Operation<RegistryInput, RegistryOutput>[] = [];
  const choosers = Array.from({ length: CLIENTS }, (_, client) => new Chooser(random, client));
  const underway = new Map<number, Request>();
  /** What a client has sent may come after the crash that took its connection. */
  const delayed: RegistryInput[] = [];
  for (let step = 0; step < STEPS; step++) {
    if (random.chance(CRASH_PROBABILITY)) {
      for (const { input, output } of underway.values()) {
        if (output === null && random.chance(0.3)) delayed.push(input);
      }
      history.push(...withoutAnswer(underway));
      underway.clear();
      store.crash();
    }
    const late = random.chance(0.1) ? delayed.shift() : undefined;
    if (late !== undefined) store.perform(late);
    const client = random.between(0, CLIENTS - 1);
    const chooser = choosers[client];
    const request = underway.get(client);
    if (chooser === undefined) continue;
    if (request === undefined) {
      const input = chooser.choose("/simulated");
      underway.set(client, { input, invokedMs: step, output: null });
      store.arrived(input);
    } else if (request.output === null) {
      request.output = store.perform(request.input);
    } else {
      const { input, invokedMs, output } = request;
      underway.delete(client);
      chooser.heard(input, output);
      history.push({ client, input, invokedMs, returned: { output, atMs: step } });
    }
  }
  return [...history, ...withoutAnswer(underway)];
}

function withoutAnswer(
  underway: ReadonlyMap<number, Request>,
): readonly Operation<RegistryInput, RegistryOutput>[] {
  return Array.from(underway, ([client, { input, invokedMs }]) => {
    return { client, input, invokedMs, returned: null };
  });
}
