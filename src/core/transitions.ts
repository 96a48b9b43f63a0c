/**
 * State machines as tables: which state may follow which. A table of rows that is guarded by one
 * stops on a change which the machine does not have, so the tables cannot drift from the code.
 */
import { assert } from "../shared/errors.ts";
import type { Table } from "./table.ts";

export type Transitions<State extends string> = Readonly<Record<State, readonly State[]>>;

/** From now on every change of a row's state must be one of `transitions`. */
export function guard<Row, State extends string>(
  table: Table<Row>,
  transitions: Transitions<State>,
  stateOf: (row: Row) => State,
): void {
  table.watch((before, after) => {
    if (before === undefined || after === undefined) return;
    const from = stateOf(before);
    const to = stateOf(after);
    assert(
      from === to || transitions[from].includes(to),
      `${table.name}: ${to} may not follow ${from}`,
    );
  });
}
