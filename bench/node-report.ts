/** What was measured on one node, as tables or as one object a line. */
import { surroundings } from "./measurement.ts";

/** One row; the other fields say what it was measured with. */
export type Result = {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
} & Readonly<Record<string, string | number>>;

export type Report = (...results: Result[]) => void;

export function round(value: number): number {
  return Number(value.toPrecision(4));
}

/** `isJson`: one object a line, each with the surroundings. */
export function print(
  results: readonly Result[],
  loadBefore: readonly number[],
  isJson: boolean,
): void {
  const ranOn = surroundings(loadBefore);
  if (isJson) {
    for (const result of results) console.log(JSON.stringify({ ...result, ...ranOn }));
    return;
  }
  console.table(ranOn);
  // One table for each group of rows, which have the same columns.
  const groups = Map.groupBy(results, ({ name }) => name.split(".")[0]);
  for (const rows of groups.values()) {
    console.table(rows.map(({ name, value, unit, ...rest }) => ({ name, value, unit, ...rest })));
  }
}
