import { readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { parseYaml } from "../../src/shared/yaml.ts";
import { define } from "../support/yarnfile.ts";

const EXAMPLES = new URL("../../examples/", import.meta.url);
const files = readdirSync(EXAMPLES, { recursive: true, encoding: "utf8" }).filter((name) =>
  /(?:^|\/)Yarnfile\.(?:ya?ml|json)$/.test(name),
);

it("there are examples, and hello-world is one of them", () => {
  expect(files).toContain("hello-world/Yarnfile.yaml");
});

it.each(files)("examples/%s is a valid Yarnfile", (name) => {
  const parsed = parseYaml(readFileSync(new URL(name, EXAMPLES), "utf8"));
  const reply = parsed.ok ? define(parsed.value) : parsed;
  expect(reply.ok ? [] : reply.error).toEqual([]);
});
