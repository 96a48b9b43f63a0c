/**
 * Stores that are wrong on purpose, each as real ones have been. A checker that cannot fail proves
 * nothing: each of these must be found within a few seeds.
 */
import type { Random } from "../simulation/random.ts";
import type { Change, RegistryInput, RegistryOutput, Seen } from "./registry-model.ts";
import { SimulatedStore, versionsOf } from "./simulated-store.ts";

export type Mutant = { readonly name: string; readonly make: (random: Random) => SimulatedStore };

/** Reads come from a copy, which is renewed now and then. */
class StaleReads extends SimulatedStore {
  #copy: ReadonlyMap<string, Seen> = new Map();

  override perform(input: RegistryInput): RegistryOutput {
    if (this.random.chance(0.3)) this.#copy = new Map(this.nodes);
    if (input.op !== "read") return super.perform(input);
    return { kind: "record", record: this.#copy.get(input.name) ?? null };
  }
}

/** Two copies answer in turn, one of them late: reads go backwards. */
class LaggingReplica extends SimulatedStore {
  #previous: ReadonlyMap<string, Seen> = new Map();

  override perform(input: RegistryInput): RegistryOutput {
    if (input.op === "read" && this.random.chance(0.5)) {
      return { kind: "record", record: this.#previous.get(input.name) ?? null };
    }
    if (input.op === "write") this.#previous = new Map(this.nodes);
    return super.perform(input);
  }
}

class StaleLists extends SimulatedStore {
  #listed: Readonly<Record<string, number>> = {};

  override perform(input: RegistryInput): RegistryOutput {
    if (input.op === "list") {
      const versions = this.#listed;
      this.#listed = versionsOf(this.nodes);
      return { kind: "names", versions };
    }
    return super.perform(input);
  }
}

class LostUpdates extends SimulatedStore {
  override change(change: Change): number | boolean {
    if (change.value === null || !this.random.chance(0.1)) return super.change(change);
    this.newest += 1;
    return this.newest;
  }
}

class DeletesNothing extends SimulatedStore {
  override change(change: Change): number | boolean {
    const isLost = change.value === null && this.random.chance(0.3);
    return isLost ? this.nodes.has(change.name) : super.change(change);
  }
}

/** A missing path was deleted, too. */
class DeletesEverything extends SimulatedStore {
  override change(change: Change): number | boolean {
    const result = super.change(change);
    return change.value === null ? true : result;
  }
}

class IgnoresConditions extends SimulatedStore {
  override isMet(): boolean {
    return true;
  }
}

class IgnoresAbsence extends SimulatedStore {
  override isMet(change: Change): boolean {
    return change.condition === "absent" || super.isMet(change);
  }
}

/** A condition is looked at when the request comes, and the record is written later. */
class ChecksTooEarly extends SimulatedStore {
  readonly #met = new WeakMap<Change, boolean>();

  override arrived(input: RegistryInput): void {
    if (input.op !== "write") return;
    for (const change of input.changes) this.#met.set(change, super.isMet(change));
  }

  override isMet(change: Change): boolean {
    return this.#met.get(change) ?? false;
  }
}

class RefusesAtRandom extends SimulatedStore {
  override isMet(change: Change): boolean {
    return super.isMet(change) && (change.condition === null || !this.random.chance(0.2));
  }
}

/** A refused change is written all the same. */
class WritesWhatItRefuses extends SimulatedStore {
  override write(changes: readonly Change[]): RegistryOutput {
    const output = super.write(changes);
    if (output.kind === "mismatch") for (const change of changes) this.change(change);
    return output;
  }
}

/** A transaction stops at the condition that is not met, and keeps what came before. */
class NoRollback extends SimulatedStore {
  override write(changes: readonly Change[]): RegistryOutput {
    const results: (number | boolean)[] = [];
    for (const change of changes) {
      if (!this.isMet(change)) return { kind: "mismatch" };
      results.push(this.change(change));
    }
    return { kind: "done", results };
  }
}

/** The second half of a transaction comes after the next request. */
class HalfTransactions extends SimulatedStore {
  #due: (() => void) | null = null;

  override perform(input: RegistryInput): RegistryOutput {
    const due = this.#due;
    this.#due = null;
    const output = super.perform(input);
    due?.();
    return output;
  }

  override write(changes: readonly Change[]): RegistryOutput {
    const second = changes[1];
    const before = this.nodes.get(second?.name ?? "");
    const output = super.write(changes);
    if (second === undefined || output.kind === "mismatch") return output;
    const after = this.nodes.get(second.name);
    this.#put(second.name, before);
    this.#due = () => this.#put(second.name, after);
    return output;
  }

  #put(name: string, seen: Seen | undefined): void {
    if (seen === undefined) this.nodes.delete(name);
    else this.nodes.set(name, seen);
  }
}

class ChecksFirstConditionOnly extends SimulatedStore {
  override write(changes: readonly Change[]): RegistryOutput {
    if (!changes.slice(0, 1).every((change) => this.isMet(change))) return { kind: "mismatch" };
    return { kind: "done", results: changes.map((change) => this.change(change)) };
  }
}

/** Says that it is done, and does it after the next request. */
class AnswersTooEarly extends SimulatedStore {
  #due: (() => void) | null = null;

  override perform(input: RegistryInput): RegistryOutput {
    const due = this.#due;
    this.#due = null;
    const before = new Map(this.nodes);
    const output = super.perform(input);
    if (due === null && input.op === "write" && this.random.chance(0.3)) {
      const after = this.nodes;
      this.nodes = before;
      this.#due = () => {
        this.nodes = after;
      };
    }
    due?.();
    return output;
  }
}

class VersionsStartAnew extends SimulatedStore {
  override change(change: Change): number | boolean {
    if (change.value !== null && !this.nodes.has(change.name)) {
      this.nodes.set(change.name, { value: change.value, version: 1 });
      return 1;
    }
    return super.change(change);
  }
}

class VersionsStay extends SimulatedStore {
  override change(change: Change): number | boolean {
    const there = this.nodes.get(change.name);
    if (change.value === null || there === undefined) return super.change(change);
    this.nodes.set(change.name, { value: change.value, version: there.version });
    return there.version;
  }
}

/** The version of a record and the value of the one before. */
class TornReads extends SimulatedStore {
  readonly #before = new Map<string, string>();

  override change(change: Change): number | boolean {
    const there = this.nodes.get(change.name);
    if (there !== undefined) this.#before.set(change.name, there.value);
    return super.change(change);
  }

  override perform(input: RegistryInput): RegistryOutput {
    const output = super.perform(input);
    if (input.op !== "read" || output.kind !== "record" || output.record === null) return output;
    if (!this.random.chance(0.2)) return output;
    const value = this.#before.get(input.name) ?? output.record.value;
    return { kind: "record", record: { ...output.record, value } };
  }
}

class AnswersForAnother extends SimulatedStore {
  override perform(input: RegistryInput): RegistryOutput {
    if (input.op !== "read" || !this.random.chance(0.1)) return super.perform(input);
    return { kind: "record", record: [...this.nodes.values()][0] ?? null };
  }
}

class ReadsWhatNobodyWrote extends SimulatedStore {
  override perform(input: RegistryInput): RegistryOutput {
    if (input.op !== "read" || !this.random.chance(0.05)) return super.perform(input);
    return { kind: "record", record: { value: "nobody's", version: this.newest } };
  }
}

/** Reads see what was asked for and is not done yet, and may never be. */
class DirtyReads extends SimulatedStore {
  #dirty: Change | null = null;

  override arrived(input: RegistryInput): void {
    if (input.op === "write" && this.random.chance(0.3)) this.#dirty = input.changes[0] ?? null;
  }

  override perform(input: RegistryInput): RegistryOutput {
    const dirty = this.#dirty;
    this.#dirty = null;
    if (input.op !== "read" || dirty?.name !== input.name) return super.perform(input);
    const { value } = dirty;
    return { kind: "record", record: value === null ? null : { value, version: this.newest + 1 } };
  }
}

class ForgetsInLists extends SimulatedStore {
  override perform(input: RegistryInput): RegistryOutput {
    if (input.op !== "list" || !this.random.chance(0.3)) return super.perform(input);
    return { kind: "names", versions: versionsOf(new Map([...this.nodes].slice(1))) };
  }
}

class ListsTheDeleted extends SimulatedStore {
  readonly #ever = new Map<string, Seen>();

  override perform(input: RegistryInput): RegistryOutput {
    const output = super.perform(input);
    for (const [name, seen] of this.nodes) this.#ever.set(name, seen);
    return input.op === "list" ? { kind: "names", versions: versionsOf(this.#ever) } : output;
  }
}

/** Does again what was done before, as a retry below the client would. */
class RepeatsWrites extends SimulatedStore {
  #again: readonly Change[] | null = null;

  override perform(input: RegistryInput): RegistryOutput {
    const output = super.perform(input);
    if (input.op === "write" && this.random.chance(0.2)) this.#again = input.changes;
    else if (this.#again !== null && this.random.chance(0.3)) {
      for (const change of this.#again) this.change(change);
      this.#again = null;
    }
    return output;
  }
}

/** A crash takes the last change back, acknowledged or not. */
class LosesTheLastWrite extends SimulatedStore {
  #before: ReadonlyMap<string, Seen> = new Map();

  override write(changes: readonly Change[]): RegistryOutput {
    this.#before = new Map(this.nodes);
    return super.write(changes);
  }

  override crash(): void {
    this.nodes = new Map(this.#before);
  }
}

/** Only every now and then is everything on the disk. */
class SyncsRarely extends SimulatedStore {
  #disk: ReadonlyMap<string, Seen> = new Map();

  override write(changes: readonly Change[]): RegistryOutput {
    const output = super.write(changes);
    if (this.random.chance(0.2)) this.#disk = new Map(this.nodes);
    return output;
  }

  override crash(): void {
    this.nodes = new Map(this.#disk);
  }
}

/** After a crash versions begin below those that were told. */
class ForgetsVersions extends SimulatedStore {
  override crash(): void {
    this.newest = Math.max(0, this.newest - 3);
  }
}

export const MUTANTS: readonly Mutant[] = [
  { name: "reads from a copy that is renewed now and then", make: (dice) => new StaleReads(dice) },
  { name: "reads from two replicas, one behind", make: (dice) => new LaggingReplica(dice) },
  { name: "lists as they were at the list before", make: (dice) => new StaleLists(dice) },
  { name: "acknowledges a bind and loses it", make: (dice) => new LostUpdates(dice) },
  { name: "acknowledges a delete and does nothing", make: (dice) => new DeletesNothing(dice) },
  { name: "has deleted what was missing", make: (dice) => new DeletesEverything(dice) },
  { name: "ignores conditions", make: (dice) => new IgnoresConditions(dice) },
  { name: "ignores the condition of absence", make: (dice) => new IgnoresAbsence(dice) },
  { name: "checks a condition before it writes", make: (dice) => new ChecksTooEarly(dice) },
  { name: "refuses a condition that is met", make: (dice) => new RefusesAtRandom(dice) },
  { name: "writes what it refuses", make: (dice) => new WritesWhatItRefuses(dice) },
  { name: "keeps half of a refused transaction", make: (dice) => new NoRollback(dice) },
  { name: "shows half of a transaction", make: (dice) => new HalfTransactions(dice) },
  { name: "checks a transaction's first path", make: (dice) => new ChecksFirstConditionOnly(dice) },
  { name: "acknowledges before it writes", make: (dice) => new AnswersTooEarly(dice) },
  { name: "begins versions anew after a delete", make: (dice) => new VersionsStartAnew(dice) },
  { name: "keeps the version of what it replaces", make: (dice) => new VersionsStay(dice) },
  { name: "mixes two records in a read", make: (dice) => new TornReads(dice) },
  { name: "answers with the record of another path", make: (dice) => new AnswersForAnother(dice) },
  { name: "answers with what nobody wrote", make: (dice) => new ReadsWhatNobodyWrote(dice) },
  { name: "shows what is not written yet", make: (dice) => new DirtyReads(dice) },
  { name: "leaves a name out of a list", make: (dice) => new ForgetsInLists(dice) },
  { name: "lists what was deleted", make: (dice) => new ListsTheDeleted(dice) },
  { name: "does a write twice", make: (dice) => new RepeatsWrites(dice) },
  { name: "loses the last write in a crash", make: (dice) => new LosesTheLastWrite(dice) },
  { name: "writes to the disk now and then", make: (dice) => new SyncsRarely(dice) },
  { name: "forgets versions in a crash", make: (dice) => new ForgetsVersions(dice) },
];
