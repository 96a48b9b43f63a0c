/**
 * What clients of a registry ask for, by dice: few paths and many clients, so that they get in each
 * other's way. Whoever knows a version asks for it mostly, and sometimes for one that is long gone.
 */
import type { Random } from "../simulation/random.ts";
import type { Change, Condition, RegistryInput, RegistryOutput } from "./registry-model.ts";

export const NAMES = ["a", "b", "c"] as const;

export class Chooser {
  readonly #random: Random;
  readonly #client: number;
  /** The versions that this client was told last. */
  readonly #versions = new Map<string, number>();
  #values = 0;

  constructor(random: Random, client: number) {
    this.#random = random;
    this.#client = client;
  }

  choose(directory: string): RegistryInput {
    const random = this.#random;
    const name = random.pick(NAMES);
    const dice = random.next();
    if (dice < 0.35) return { directory, op: "read", name };
    if (dice < 0.45) return { directory, op: "list" };
    if (dice < 0.6) return { directory, op: "write", changes: [this.#bind(name, null)] };
    const bind = this.#bind(name, this.#conditionOn(directory, name));
    if (dice < 0.8) return { directory, op: "write", changes: [bind] };
    if (dice < 0.9) {
      return { directory, op: "write", changes: [{ name, value: null, condition: null }] };
    }
    const other = random.pick(NAMES.filter((each) => each !== name));
    const second = random.chance(0.3)
      ? { name: other, value: null, condition: null }
      : this.#bind(other, random.chance(0.5) ? this.#conditionOn(directory, other) : null);
    return { directory, op: "write", changes: [bind, second] };
  }

  /** Remembers what an answer has told. */
  heard(input: RegistryInput, output: RegistryOutput): void {
    const remember = (name: string, version: number) =>
      this.#versions.set(`${input.directory}/${name}`, version);
    if (input.op === "read" && output.kind === "record" && output.record !== null) {
      remember(input.name, output.record.version);
    }
    if (output.kind === "names") {
      for (const [name, version] of Object.entries(output.versions)) remember(name, version);
    }
    if (input.op !== "write" || output.kind !== "done") return;
    for (const [at, result] of output.results.entries()) {
      const change = input.changes[at];
      if (change !== undefined && typeof result === "number") remember(change.name, result);
    }
  }

  #bind(name: string, condition: Condition): Change {
    this.#values += 1;
    return { name, value: `${this.#client}.${this.#values}`, condition };
  }

  #conditionOn(directory: string, name: string): Condition {
    return this.#versions.get(`${directory}/${name}`) ?? "absent";
  }
}
