/**
 * Is a history linearizable: is there one order of its operations that the model could have gone
 * through, in which nothing that had returned comes after what was asked for later?
 *
 * The search of Wing and Gong, with Lowe's memo: extend the order by an operation that may come
 * next, step the model, and go back where nothing can come next. A set of ordered operations,
 * together with the state that it led to, is looked at once, however many orders lead there.
 * Operations of unknown outcome may come anywhere after their invocation and need not come at all;
 * they are tried last, since most of them explain nothing.
 *
 * Linearizability is local (Herlihy and Wing): a history is linearizable if that of each object is.
 * So parts that share no operation are judged one by one, which keeps the sets small.
 */
import { type History, type Model, type Operation, partsOf, returnedMs } from "./history.ts";

/** More than this in one part, and nobody has the time to wait for an answer. */
const CONFIGURATIONS_MAX = 2_000_000;

/** Where the search came furthest. */
export type Stuck<State, Input, Output> = {
  readonly part: string;
  readonly history: History<Input, Output>;
  /** The longest order that the model could have gone through. */
  readonly ordered: History<Input, Output>;
  readonly state: State;
  /** One of these had to come next; none could. */
  readonly candidates: History<Input, Output>;
};

export type Verdict<State, Input, Output> =
  | { readonly isLinearizable: true; readonly configurations: number }
  | { readonly isLinearizable: false; readonly stuck: Stuck<State, Input, Output> };

/** Judges part by part, and answers the first part that cannot be ordered. */
export function checkLinearizability<State, Input, Output>(
  model: Model<State, Input, Output>,
  history: History<Input, Output>,
): Verdict<State, Input, Output> {
  let configurations = 0;
  for (const [part, operations] of partsOf(model, history)) {
    const search = new Search(model, operations);
    const stuck = search.run();
    if (stuck !== null) return { isLinearizable: false, stuck: { part, ...stuck } };
    configurations += search.configurations;
  }
  return { isLinearizable: true, configurations };
}

/** An operation of the part, and whether the order has it now. */
type Entry<Input, Output> = { readonly operation: Operation<Input, Output>; isOrdered: boolean };

/** How far an order has come, and what of its continuations was tried. */
type Place<State, Input, Output> = {
  readonly state: State;
  /** All returned operations before this one are ordered. */
  readonly prefix: number;
  readonly candidates: readonly Entry<Input, Output>[];
  tried: number;
};

class Search<State, Input, Output> {
  readonly #model: Model<State, Input, Output>;
  readonly #history: History<Input, Output>;
  /** Those that have returned, and the others, by invocation. */
  readonly #returned: readonly Entry<Input, Output>[];
  readonly #unknown: readonly Entry<Input, Output>[];
  readonly #order: Entry<Input, Output>[] = [];
  readonly #seen = new Set<string>();
  /** How many of the order have returned. */
  #orderedReturned = 0;

  constructor(model: Model<State, Input, Output>, history: History<Input, Output>) {
    this.#model = model;
    this.#history = history;
    const entries = history.map((operation) => ({ operation, isOrdered: false }));
    this.#returned = entries.filter(({ operation }) => operation.returned !== null);
    this.#unknown = entries.filter(({ operation }) => operation.returned === null);
  }

  get configurations(): number {
    return this.#seen.size;
  }

  /** Null when every operation that has returned found its place. */
  run(): Omit<Stuck<State, Input, Output>, "part"> | null {
    const places = [this.#placeAt(this.#model.initial, 0)];
    let furthest = this.#describe(places[0]);
    for (let place = places.at(-1); place !== undefined; place = places.at(-1)) {
      if (place.prefix === this.#returned.length) return null;
      const entry = place.candidates[place.tried++];
      if (entry === undefined) {
        places.pop();
        this.#takeBack();
        continue;
      }
      const state = this.#step(place.state, entry);
      if (state === null) continue;
      this.#put(entry);
      const next = this.#placeAt(state, place.prefix);
      if (!this.#isNew(next)) {
        this.#takeBack();
        continue;
      }
      places.push(next);
      if (this.#order.length > furthest.ordered.length) furthest = this.#describe(next);
    }
    return furthest;
  }

  /** Null also where an operation of unknown outcome would change nothing: then it need not come. */
  #step(state: State, { operation: { input, returned } }: Entry<Input, Output>): State | null {
    const next = this.#model.step(state, input, returned?.output ?? null);
    if (next === null || returned !== null) return next;
    return this.#model.keyOf(next) === this.#model.keyOf(state) ? null : next;
  }

  #put(entry: Entry<Input, Output>): void {
    entry.isOrdered = true;
    this.#order.push(entry);
    if (entry.operation.returned !== null) this.#orderedReturned += 1;
  }

  #takeBack(): void {
    const entry = this.#order.pop();
    if (entry === undefined) return;
    entry.isOrdered = false;
    if (entry.operation.returned !== null) this.#orderedReturned -= 1;
  }

  /** An operation may come next unless another one that is not ordered had returned before it began. */
  #placeAt(state: State, from: number): Place<State, Input, Output> {
    let prefix = from;
    while (this.#returned[prefix]?.isOrdered) prefix += 1;
    const waiting: Entry<Input, Output>[] = [];
    let deadlineMs = Number.POSITIVE_INFINITY;
    for (let at = prefix; at < this.#returned.length; at++) {
      const entry = this.#returned[at];
      if (entry === undefined || entry.operation.invokedMs > deadlineMs) break;
      if (entry.isOrdered) continue;
      waiting.push(entry);
      deadlineMs = Math.min(deadlineMs, returnedMs(entry.operation));
    }
    for (const entry of this.#unknown) if (!entry.isOrdered) waiting.push(entry);
    const candidates = waiting.filter(({ operation }) => operation.invokedMs <= deadlineMs);
    return { state, prefix, candidates, tried: 0 };
  }

  #isNew({ state, prefix }: Place<State, Input, Output>): boolean {
    const beyond: number[] = [];
    for (let at = prefix; prefix + beyond.length < this.#orderedReturned; at++) {
      if (this.#returned[at]?.isOrdered) beyond.push(at - prefix);
    }
    const unknown = this.#unknown.flatMap(({ isOrdered }, at) => (isOrdered ? [at] : []));
    const key = `${prefix} ${beyond} ${unknown} ${this.#model.keyOf(state)}`;
    if (this.#seen.has(key)) return false;
    if (this.#seen.size === CONFIGURATIONS_MAX) {
      throw new Error(`more than ${CONFIGURATIONS_MAX} configurations: the part is too large`);
    }
    this.#seen.add(key);
    return true;
  }

  #describe(
    place: Place<State, Input, Output> | undefined,
  ): Omit<Stuck<State, Input, Output>, "part"> {
    return {
      history: this.#history,
      ordered: this.#order.map(({ operation }) => operation),
      state: place?.state ?? this.#model.initial,
      candidates: place?.candidates.map(({ operation }) => operation) ?? [],
    };
  }
}
