/**
 * Why a history cannot be ordered, for people: the smallest part of it that still cannot, and how
 * far its best order comes. Only what every linearizable history could do without is taken away, so
 * that what remains is a proof, not an impression:
 *  - the end, from some return on: what had not returned by then has an unknown outcome;
 *  - operations that changed nothing, as long as it cannot be ordered without them.
 */
import { checkLinearizability, type Stuck } from "./checker.ts";
import { type History, type Model, type Operation, returnedMs } from "./history.ts";

/** Of a long history and a long order only the last lines say what went wrong. */
const LINES_MAX = 16;

/** Null where the history is linearizable. */
export function explainViolation<State, Input, Output>(
  model: Model<State, Input, Output>,
  history: History<Input, Output>,
): string | null {
  const verdict = checkLinearizability(model, history);
  if (verdict.isLinearizable) return null;
  const { part } = verdict.stuck;
  const smallest = smallestViolation(model, verdict.stuck.history);
  const again = checkLinearizability(model, smallest);
  if (again.isLinearizable) throw new Error("the smallest violation is none");
  return textOf(model, part, again.stuck);
}

/** Of one part. */
export function smallestViolation<State, Input, Output>(
  model: Model<State, Input, Output>,
  history: History<Input, Output>,
): History<Input, Output> {
  const isBad = (candidate: History<Input, Output>) =>
    !checkLinearizability(model, candidate).isLinearizable;
  let smallest = shortestBeginning(history, isBad);
  for (const operation of smallest) {
    const { input, returned } = operation;
    if (!model.isReading(input, returned?.output ?? null)) continue;
    const others = smallest.filter((each) => each !== operation);
    if (isBad(others)) smallest = others;
  }
  return smallest;
}

/** Up to the first return with which the history cannot be ordered; found by halving. */
function shortestBeginning<Input, Output>(
  history: History<Input, Output>,
  isBad: (candidate: History<Input, Output>) => boolean,
): History<Input, Output> {
  const ends = history.flatMap(({ returned }) => returned?.atMs ?? []).sort((a, b) => a - b);
  const until = (endMs: number) =>
    history
      .filter(({ invokedMs }) => invokedMs <= endMs)
      .map((operation) => (returnedMs(operation) <= endMs ? operation : unknown(operation)));
  let [good, bad] = [-1, ends.length - 1];
  while (bad - good > 1) {
    const middle = (good + bad) >> 1;
    if (isBad(until(ends[middle] ?? 0))) bad = middle;
    else good = middle;
  }
  return until(ends[bad] ?? Number.POSITIVE_INFINITY);
}

function unknown<Input, Output>(operation: Operation<Input, Output>): Operation<Input, Output> {
  return { ...operation, returned: null };
}

function textOf<State, Input, Output>(
  model: Model<State, Input, Output>,
  part: string,
  { history, ordered, state, candidates }: Stuck<State, Input, Output>,
): string {
  const startMs = Math.min(...history.map(({ invokedMs }) => invokedMs));
  const line = (operation: Operation<Input, Output>) => {
    const { client, input, invokedMs, returned } = operation;
    const from = (invokedMs - startMs).toFixed(2);
    const to = returned === null ? "?" : (returned.atMs - startMs).toFixed(2);
    const what = model.describe(input, returned?.output ?? null);
    return `  ${from.padStart(9)} – ${to.padEnd(9)} client ${String(client).padEnd(3)} ${what}`;
  };
  return [
    `${part} is not linearizable. The smallest part of its history that cannot be ordered`,
    "(ms from its first request to its answer; ? is no answer):",
    ...lastOf(history.map(line)),
    "The longest order that is possible:",
    ...lastOf(ordered.map(line)),
    `leaves ${model.describeState(state)}, after which one of these had to come, and none can:`,
    ...candidates.filter(({ returned }) => returned !== null).map(line),
  ].join("\n");
}

function lastOf(lines: readonly string[]): readonly string[] {
  if (lines.length === 0) return ["  nothing"];
  if (lines.length <= LINES_MAX) return lines;
  return [`  … ${lines.length - LINES_MAX} more`, ...lines.slice(-LINES_MAX)];
}
