/** The checker itself: what it must accept, what it must find, and what it says about it. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkLinearizability } from "./checker.ts";
import { explainViolation, smallestViolation } from "./explain.ts";
import { type History, type Operation, returnedMs } from "./history.ts";
import { MUTANTS } from "./mutants.ts";
import {
  type Change,
  type Condition,
  type Directory,
  REGISTRY,
  type RegistryInput,
  type RegistryOutput,
} from "./registry-model.ts";
import { simulateClients } from "./simulated-store.ts";

type Op = Operation<RegistryInput, RegistryOutput>;

const directory = "/d";
const isLinearizable = (history: readonly Op[]) =>
  checkLinearizability(REGISTRY, history).isLinearizable;

/** A request from `from` to `to`; without an answer when `to` is null. */
function operation(
  [from, to]: readonly [number, number | null],
  input: RegistryInput,
  output: RegistryOutput,
): Op {
  const returned = to === null ? null : { output, atMs: to };
  return { client: from, input, invokedMs: from, returned };
}

type Span = readonly [number, number | null];
const change = (name: string, value: string | null, condition: Condition = null): Change => ({
  name,
  value,
  condition,
});
const done = (...results: readonly (number | boolean)[]): RegistryOutput => ({
  kind: "done",
  results,
});
const bind = (span: Span, value: string, version: number, condition: Condition = null) =>
  operation(
    span,
    { directory, op: "write", changes: [change("a", value, condition)] },
    done(version),
  );
const refused = (span: Span, value: string, condition: Condition) =>
  operation(
    span,
    { directory, op: "write", changes: [change("a", value, condition)] },
    { kind: "mismatch" },
  );
const remove = (span: Span, wasThere: boolean) =>
  operation(span, { directory, op: "write", changes: [change("a", null)] }, done(wasThere));
const read = (span: Span, value: string | null, version = 0, name = "a") =>
  operation(
    span,
    { directory, op: "read", name },
    { kind: "record", record: value === null ? null : { value, version } },
  );
const both = (span: Span, first: string, second: string, version: number) =>
  operation(
    span,
    { directory, op: "write", changes: [change("a", first), change("b", second)] },
    done(version, version + 1),
  );
const list = (span: Span, versions: Readonly<Record<string, number>>) =>
  operation(span, { directory, op: "list" }, { kind: "names", versions });

describe("a history that is linearizable", () => {
  it.each<[string, readonly Op[]]>([
    ["of nothing", []],
    ["read after write", [bind([0, 1], "x", 1), read([2, 3], "x", 1)]],
    ["a read beside a write sees the old", [bind([0, 9], "x", 1), read([1, 2], null)]],
    ["a read beside a write sees the new", [bind([0, 9], "x", 1), read([1, 2], "x", 1)]],
    ["the second writer is first", [bind([0, 9], "x", 2), bind([1, 8], "y", 1)]],
    [
      "one of two writers with the same condition is refused",
      [bind([0, 1], "x", 1), bind([2, 9], "y", 2, 1), refused([3, 8], "z", 1)],
    ],
    ["a write without answer is seen", [bind([0, null], "x", 1), read([5, 6], "x", 1)]],
    ["a write without answer is never seen", [bind([0, null], "x", 1), read([5, 6], null)]],
    [
      "a write without answer comes late",
      [bind([0, null], "x", 1), read([5, 6], null), read([7, 8], "x", 3)],
    ],
    [
      "a delete without answer, and a path made anew",
      [bind([0, 1], "x", 1), remove([2, null], true), bind([3, 4], "y", 2, "absent")],
    ],
    ["a whole transaction", [both([0, 1], "x", "y", 1), list([2, 3], { a: 1, b: 2 })]],
    [
      "a transaction without answer is seen in a list",
      [both([0, null], "x", "y", 1), list([2, 3], { a: 1, b: 2 }), read([4, 5], "y", 2, "b")],
    ],
  ])("[RG70] is accepted: %s", (_, history) => {
    expect(isLinearizable(history)).toBe(true);
  });
});

describe("a history that is not linearizable", () => {
  it.each<[string, readonly Op[]]>([
    ["a stale read", [bind([0, 1], "x", 1), bind([2, 3], "y", 2), read([4, 5], "x", 1)]],
    ["a lost update", [bind([0, 1], "x", 1), read([2, 3], null)]],
    [
      "one condition, two winners",
      [bind([0, 1], "x", 1), bind([2, 9], "y", 2, 1), bind([3, 8], "z", 3, 1)],
    ],
    ["a value that nobody wrote", [bind([0, 1], "x", 1), read([2, 3], "?", 1)]],
    [
      "reads that go backwards beside a write",
      [bind([0, 1], "x", 1), bind([2, 9], "y", 2), read([3, 4], "y", 2), read([5, 6], "x", 1)],
    ],
    [
      "a write without answer that was seen and went away",
      [bind([0, null], "x", 1), read([2, 3], "x", 1), read([4, 5], null)],
    ],
    [
      "a write without answer that comes twice",
      [bind([0, null], "x", 1), read([2, 3], "x", 1), bind([4, 5], "y", 2), read([6, 7], "x", 3)],
    ],
    ["a write that is seen before it was asked for", [read([0, 1], "x", 1), bind([2, 3], "x", 1)]],
    ["a refusal without a reason", [bind([0, 1], "x", 1), refused([2, 3], "y", 1)]],
    ["a version told twice", [bind([0, 1], "x", 1), bind([2, 3], "y", 1)]],
    [
      "a version that goes back",
      [bind([0, 1], "x", 2), remove([2, 3], true), bind([4, 5], "y", 1)],
    ],
    ["deleted twice", [bind([0, 1], "x", 1), remove([2, 3], true), remove([4, 5], true)]],
    ["half a transaction", [both([0, 9], "x", "y", 1), list([1, 2], { a: 1 })]],
  ])("[RG70] is found: %s", (_, history) => {
    expect(isLinearizable(history)).toBe(false);
  });

  it("[RG70] is shown by the smallest part that cannot be ordered, and why", () => {
    const noise = simulateClients(7).map((each) => ({
      ...each,
      input: { ...each.input, directory: "/elsewhere" },
    }));
    const bad = [
      bind([0, 1], "x", 1),
      read([2, 3], "x", 1),
      bind([4, 5], "y", 2),
      list([5.5, 5.6], { a: 2 }),
      read([6, 7], "x", 1),
      bind([8, 9], "z", 3),
    ];
    const smallest = bad.filter((_, at) => [0, 2, 4].includes(at));
    expect(smallestViolation(REGISTRY, bad)).toEqual(smallest);
    expect(explainViolation(REGISTRY, [...noise, ...bad])).toBe(
      `/d is not linearizable. The smallest part of its history that cannot be ordered
(ms from its first request to its answer; ? is no answer):
       0.00 – 1.00      client 0   bind a=x → 1
       4.00 – 5.00      client 4   bind a=y → 2
       6.00 – 7.00      client 6   read a → x (version 1)
The longest order that is possible:
       0.00 – 1.00      client 0   bind a=x → 1
       4.00 – 5.00      client 4   bind a=y → 2
leaves a=y (version 2), after which one of these had to come, and none can:
       6.00 – 7.00      client 6   read a → x (version 1)`,
    );
    expect(explainViolation(REGISTRY, noise)).toBeNull();
  });
});

/** Tries every order of every choice of the operations without answer. */
function canBeOrdered(history: readonly Op[]): boolean {
  const from = (state: Directory, left: readonly Op[]): boolean => {
    if (left.every(({ returned }) => returned === null)) return true;
    const deadline = Math.min(...left.map(returnedMs));
    return left.some((next) => {
      if (next.invokedMs > deadline) return false;
      const state2 = REGISTRY.step(state, next.input, next.returned?.output ?? null);
      return (
        state2 !== null &&
        from(
          state2,
          left.filter((each) => each !== next),
        )
      );
    });
  };
  return from(REGISTRY.initial, history);
}

describe("the checker", () => {
  const span = fc
    .tuple(fc.integer({ min: 0, max: 12 }), fc.integer({ min: 1, max: 6 }), fc.boolean())
    .map(([from, length, isKnown]): Span => [from, isKnown ? from + length : null]);
  const value = fc.constantFrom("x", "y");
  const version = fc.integer({ min: 1, max: 3 });
  const condition = fc.constantFrom<Condition>(null, "absent", 1, 2);
  const any: fc.Arbitrary<Op> = fc.oneof(
    fc.tuple(span, value, version, condition).map((each) => bind(...each)),
    fc.tuple(span, value, condition).map((each) => refused(...each)),
    fc.tuple(span, fc.boolean()).map((each) => remove(...each)),
    fc.tuple(span, fc.option(value), version).map((each) => read(...each)),
    fc.tuple(span, value, value, version).map((each) => both(...each)),
    fc.tuple(span, version).map(([when, of]) => list(when, { a: of })),
  );

  it("[RG70] agrees with trying every order, on any small history", () => {
    const verdicts = { true: 0, false: 0 };
    fc.assert(
      fc.property(fc.array(any, { maxLength: 6 }), (history) => {
        const expected = canBeOrdered(history);
        verdicts[`${expected}`] += 1;
        expect(isLinearizable(history)).toBe(expected);
      }),
      { numRuns: 20_000 },
    );
    expect(Math.min(verdicts.true, verdicts.false)).toBeGreaterThan(2_000);
  });

  it("[RG70] agrees with trying every order, on pieces of what clients really see", () => {
    const pieces = Array.from({ length: 60 }, (_, seed) => simulateClients(seed)).flatMap(
      (history) =>
        Array.from({ length: 10 }, (_, at): History<RegistryInput, RegistryOutput> => {
          return history.slice(at * 3, at * 3 + 7);
        }),
    );
    for (const piece of pieces) expect(isLinearizable(piece)).toBe(canBeOrdered(piece));
  });

  it("[RG70] accepts every history of a right store, crashes and all", () => {
    for (let seed = 0; seed < 400; seed++) {
      expect(explainViolation(REGISTRY, simulateClients(seed))).toBeNull();
    }
  });

  it("[RG70] says the same of the same history", () => {
    const bad = simulateClients(1, MUTANTS[0]?.make);
    const answers = [1, 2].map(() => explainViolation(REGISTRY, bad));
    expect(answers[0]).toContain("is not linearizable");
    expect(answers[1]).toBe(answers[0]);
  });

  it.each(MUTANTS)("[RG70] finds a store that $name", ({ make }) => {
    const seeds = Array.from({ length: 40 }, (_, seed) => seed);
    const found = seeds.filter((seed) => !isLinearizable(simulateClients(seed, make)));
    expect(found.length).toBeGreaterThan(0);
  });
});
