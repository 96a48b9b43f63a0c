/** What a checker is told: who asked for what, when, and what came of it. */

export type Operation<Input, Output> = {
  readonly client: number;
  readonly input: Input;
  /** When it was asked for, on the one monotonic clock of all clients; ms. */
  readonly invokedMs: number;
  /**
   * Null: nobody knows, because the server died before it answered. Such an operation may have
   * happened at any time since it was asked for, may still happen, and may never happen.
   */
  readonly returned: { readonly output: Output; readonly atMs: number } | null;
};

/** What the store promises when nobody disturbs anybody: one operation after the other. */
export type Model<State, Input, Output> = {
  readonly initial: State;
  /**
   * The state after the operation, or null where the store could not have answered this in this
   * state. `output` null: the operation took effect and nobody saw how; null then means that it
   * could have had none.
   */
  step(state: State, input: Input, output: Output | null): State | null;
  /** The same text for states that no operation can tell apart. */
  keyOf(state: State): string;
  /** What the operation touches: histories of different parts are judged one by one. */
  partOf(input: Input): string;
  /** True where an operation with this output, or with none, cannot have changed anything. */
  isReading(input: Input, output: Output | null): boolean;
  describe(input: Input, output: Output | null): string;
  describeState(state: State): string;
};

export type History<Input, Output> = readonly Operation<Input, Output>[];

export function returnedMs<Input, Output>({ returned }: Operation<Input, Output>): number {
  return returned?.atMs ?? Number.POSITIVE_INFINITY;
}

/** The histories of the model's parts, each in the order of invocation. */
export function partsOf<State, Input, Output>(
  model: Model<State, Input, Output>,
  history: History<Input, Output>,
): ReadonlyMap<string, History<Input, Output>> {
  const inOrder = history.toSorted((a, b) => a.invokedMs - b.invokedMs);
  return Map.groupBy(inOrder, ({ input }) => model.partOf(input));
}
