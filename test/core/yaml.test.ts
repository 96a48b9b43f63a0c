import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseYaml } from "../../src/shared/yaml.ts";

function messageOf(text: string): string {
  const reply = parseYaml(text);
  if (reply.ok) throw new Error(`accepted: ${JSON.stringify(reply.value)}`);
  expect(reply.error.code).toBe("INVALID_ARGUMENT");
  return reply.error.message;
}

describe("parseYaml", () => {
  it("keeps numbers that JSON would write otherwise as the text they are", () => {
    const text = "a: 1.10\nb: +2\nc: 0x10\nd: 12\ne: -2\nf: .inf\ng: 2024-01-01\nh: 1.5\ni: ~";
    expect(parseYaml(text)).toEqual({
      ok: true,
      value: {
        a: "1.10",
        b: "+2",
        c: "0x10",
        d: 12,
        e: -2,
        f: ".inf",
        g: "2024-01-01",
        h: 1.5,
        i: null,
      },
    });
  });

  it.each([
    ["brackets", "[".repeat(100_000)],
    ["braces", "{a: ".repeat(30_000)],
    ["dashes", "- ".repeat(60_000)],
    ["question marks", "? ".repeat(60_000)],
  ])("refuses %s nested without end before a parser has to follow them", (_, text) => {
    expect(messageOf(text)).toMatch(/nested more than 100 levels deep/);
  });

  it("takes commands full of brackets for what they are", () => {
    const command = "if [ -n x ]; then echo ${A[0]}; fi; ".repeat(200);
    expect(parseYaml(`command: '${command}'`)).toMatchObject({ ok: true });
  });

  it("refuses text that only a program can have written, and says what to do", () => {
    expect(messageOf("a: b\n".repeat(30_000))).toMatch(/more than 131072 characters/);
  });

  it("writes aliases out, so that nothing is shared", () => {
    const reply = parseYaml("a: &env {X: 1}\nb: *env");
    expect(reply).toEqual({ ok: true, value: { a: { X: 1 }, b: { X: 1 } } });
  });

  it.each([
    ["a: 1\na: 2", /line 2, column 1: this key stands here twice/],
    ["a: [1", /line 1, column 6/],
    ["a: 1\n---\nb: 1", /line 2, column 1: only one document/],
    ["a: !!binary aGk=", /line 1, column 4: explicit types/],
    ["a:\n  __proto__: 1", /line 2, column 3: the key __proto__ is not allowed/],
    ['"__proto__": {a: 1}', /__proto__/],
    ["? [a]\n: 1", /a key must be text/],
    ["a: &x\n  b: *x", /stands for itself/],
    [`a: &x 1\nb: [${"*x, ".repeat(21)}]`, /more than 20 aliases/],
    ["a: *nobody", /line 1, column 4/],
  ])("refuses %j with its place", (text, message) => {
    expect(messageOf(text)).toMatch(message);
  });
  it("refuses a small text that stands for a huge one", () => {
    const levels = Array.from({ length: 9 }, (_, n) =>
      n === 0 ? `a0: &a0 [x, x]` : `a${n}: &a${n} [*a${n - 1}, *a${n - 1}]`,
    );
    expect(messageOf(levels.join("\n"))).toMatch(/stands for itself or too much/);
  });

  it("reads JSON as JSON does", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const json = JSON.stringify(value);
        fc.pre(!json.includes("__proto__"));
        expect(parseYaml(json)).toEqual({ ok: true, value: JSON.parse(json) });
      }),
    );
  });
});
