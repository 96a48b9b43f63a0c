/**
 * docs/SPEC.md says what must hold, rule by rule; the tests prove it. A rule that no test cites is
 * a wish, and a test that cites no rule that exists proves something nobody has asked for.
 */
import { expect, it } from "vitest";
import { readProjectFile, sourceFiles, withoutComments } from "../support/source-files.ts";

/** `**[RM1]** A node …` at the start of a line or a list item. */
function rulesOf(specification: string): string[] {
  return [...specification.matchAll(/^(?:- )?\*\*\[([A-Z]{2,}\d+)\]\*\*/gm)].map(
    ([, rule]) => rule ?? "",
  );
}

/** The rules that a test's title begins with: `it("[RM1] [RM2] a node …")`. */
function citationsOf(text: string): string[] {
  return [...withoutComments(text).matchAll(/["'`]((?:\[[A-Z]{2,}\d+\] ?)+)[^"'`]/g)].flatMap(
    ([, cited]) => [...(cited ?? "").matchAll(/[A-Z]{2,}\d+/g)].map(([rule]) => rule),
  );
}

const rules = rulesOf(readProjectFile("docs/SPEC.md"));
const tests = sourceFiles("test").filter(({ path }) => path.endsWith(".test.ts"));

it("[HS8] every rule of the specification has a number of its own", () => {
  expect(rules.length).toBeGreaterThan(0);
  expect(rules.filter((rule, index) => rules.indexOf(rule) !== index)).toEqual([]);
});

it("[HS8] every rule of the specification is proved by a test", () => {
  const cited = new Set(tests.flatMap(({ text }) => citationsOf(text)));
  expect(rules.filter((rule) => !cited.has(rule))).toEqual([]);
});

it("[HS8] no test cites a rule that does not exist", () => {
  const unknown = tests.flatMap(({ path, text }) =>
    citationsOf(text)
      .filter((rule) => !rules.includes(rule))
      .map((rule) => `${path} cites [${rule}]`),
  );
  expect(unknown).toEqual([]);
});

it("rules and citations are found as they are written", () => {
  const rule = (name: string) => `**[${name}]**`;
  expect(
    rulesOf(`# Nodes\n\n${rule("ZZ1")} A node\n- ${rule("ZZ2")} Else\nas ${rule("ZZ3")} says`),
  ).toEqual(["ZZ1", "ZZ2"]);
  const title = ["[ZZ1]", "[ZZ2]"].join(" ");
  expect(citationsOf(`it("${title} a node", () => {}); // see [ZZ3]`)).toEqual(["ZZ1", "ZZ2"]);
});
